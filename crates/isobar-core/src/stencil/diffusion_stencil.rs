//! This module implements the stencil's interface for diffusion.

use std::borrow::Cow;
use std::sync::Arc;

use super::aggregation::Found;
use super::diffusion::{Carried, Known};
use super::orientation::Orientation;
use super::spread::KnownShift;
use super::turns::Turns;
use super::{Coefficients, Diffusion, Side, Stencil, Unknowns};
use crate::direct::{Samples, Separable, SeparableRows, looks_separable, nearest, separate};
use crate::execute::Host;
use crate::layout::Axis;
use crate::options::{Method, Preconditioner, SolverOptions};
use crate::policy::diffusion::with_algebraic;
use crate::policy::{Choice, Trial};
use crate::{DeviceArray, Error, Result, Shape};

impl Stencil for Diffusion {
    fn has_lines_apart(&self) -> bool {
        let is_open = |at| [Axis::Y, Axis::Z].iter().any(|&axis| self.face(axis, at) > 0.0);
        self.require_host().is_ok() && !self.cells().any(is_open)
    }

    fn shape(&self) -> Shape {
        self.shape
    }

    fn is_symmetric(&self) -> bool {
        true
    }

    fn is_definite(&self) -> bool {
        self.known_shift.negative.is_none()
    }

    fn check_iterated(&self) -> Result<()> {
        let Some(([i, j, k], value)) = self.known_shift.negative else { return Ok(()) };
        let (key, couplings) = match &self.coefficients {
            Coefficients::Faces(_) | Coefficients::DeviceFaces { .. } => {
                ("faces.shift", "conductances and the shift are products or sums of functions of one axis each")
            }
            _ => (
                "diffusion.reaction",
                "κ varies along at most one axis and the reaction along the same, or κ is constant and the reaction a sum of functions of one axis each",
            ),
        };
        Err(Error::invalid(
            key,
            format!(
                "negative in cell (i, j, k) = ({i}, {j}, {k}), counted from 0, whose row it adds {value:.6e} to: the matrix may be indefinite, which \
                 iterations cannot solve. \"direct\" can, if {couplings}"
            ),
        ))
    }

    fn choice(&self, options: &SolverOptions) -> Choice {
        let choice = self.choice_on_host(options).unwrap_or_else(|_| Choice::galerkin());
        let has_rows = self.has_closed() && self.require_host().is_ok() && self.is_definite();
        with_algebraic(choice, options, || has_rows.then(|| self.mean_neighbours()))
    }

    fn separable(&self) -> Result<Separable> {
        if !self.has_rows() {
            self.require_host()?;
        }
        separate(&DiffusionRows::new(self))
    }

    fn chooses_direct(&self) -> Option<Separable> {
        let is_open = self.has_rows() && looks_separable(&DiffusionRows::new(self));
        is_open.then(|| self.separable().ok()).flatten().filter(Separable::pays)
    }

    fn has_one_direction(&self) -> bool {
        self.only_direction().is_some()
    }

    fn nearest_box(&self, line: Option<Axis>) -> Result<Separable> {
        self.require_host()?;
        Ok(nearest(&DiffusionRows::new(self), line, Samples::Many)?.factors)
    }

    fn tries_box(&self, products_like_rest: Option<f64>, line: Option<Axis>) -> Option<Trial<Separable>> {
        let rows = DiffusionRows::new(self);
        self.box_to_try(products_like_rest, |samples| nearest(&rows, line, samples).ok())
    }

    fn unknowns(&self) -> Option<Unknowns> {
        self.of_active_cells()
    }

    fn keeps_numbers(&self) -> bool {
        !self.is_on_device()
    }

    fn turns(&self) -> Turns {
        Turns::of(self.shape, self.periodic())
    }

    fn turns_for(&self, options: &SolverOptions, orientation: Orientation) -> Turns {
        let is_direct = || match options.method {
            Method::Direct => true,
            Method::Auto => options.leaves_all_open() && self.chooses_direct().is_some(),
            _ => false,
        };
        let of_lines = || {
            let along = self.only_direction()?;
            // A single line stays a row where it is solved directly.
            let is_single = self.shape.extents().into_iter().filter(|&n| n > 1).count() == 1;
            if is_single && is_direct() { None } else { orientation.of_lines(self.shape, self.periodic(), along) }
        };
        let turns = options.leaves_all_open().then(of_lines).flatten().or_else(|| {
            orientation.turns(
                self.shape,
                self.periodic(),
                options,
                || self.crossing().most(),
                || self.sampled_strengths(),
            )
        });
        /// The cells of a row above which a direct solve takes about the same time in any order.
        const ROW: usize = 8;
        let Shape { nx, ny, .. } = self.shape;
        let is_for_cycles = |turns: &Turns| {
            let is_long = nx >= ROW && ny <= orientation.most_rows;
            turns.sets_up(self.shape) || (turns.moves(self.shape) && (is_long || orientation.divides_rows))
        };
        turns.filter(|turns| !is_for_cycles(turns) || !is_direct()).unwrap_or_else(|| self.turns())
    }

    /// Returns ε times the contrast of couplings, if that allows error estimates. Errors were above the estimate in 18 of 54 random problems with coefficients
    /// from 10⁻¹² to 10³, by up to 6000 times; in 1 of 28 from 10⁻⁹ on, by half (2026-11-29).
    ///
    /// With a preconditioner that is not strong λ may rest above the smallest eigenvalue until the error of a region that hardly couples to others
    /// is found. With couplings from 1 to 10⁶ and a tenth of the cells closed, errors were above the estimate in 185 of 295 random problems with the
    /// nearest box, in 188 of 191 with the diagonal, and in none of 300 with multigrid; with couplings from 1 to 10¹² and all cells open in 4 of 39;
    /// of 7609 of any kind in 12, all after fewer than 20 iterations, by up to 6000 times (2026-11-29).
    fn error_floor(&self, weak_iterations: Option<usize>) -> Option<f64> {
        let most = match (weak_iterations, self.has_closed()) {
            (None, _) => 1e13,
            (Some(..20), false) => 1e4,
            (Some(..20), true) => 1e2,
            (Some(_), false) => 1e9,
            (Some(_), true) => 1e3,
        };
        let contrast = match (self.contrast_of_couplings(), weak_iterations) {
            (Some(contrast), _) => contrast,
            (None, Some(_)) => return None,
            // Beyond the bound an estimate by faces still tells gross errors.
            (None, None) => self.spreads.first().map_or(1.0, |faces| faces.contrast()).min(most),
        };
        (contrast <= most).then_some(f64::EPSILON * contrast)
    }

    fn floating_sizes(&self) -> Option<Vec<usize>> {
        self.require_host().ok()?;
        Some(self.components(&Host).map_or_else(Vec::new, |found| found.floating().sizes()))
    }

    fn idle_sides(&self) -> Vec<(Axis, usize)> {
        if !self.has_rows() || matches!(self.coefficients, Coefficients::Faces(_)) {
            return Vec::new();
        }
        let is_idle = |&(axis, side): &(Axis, usize)| {
            let (d, faces) = (axis as usize, self.shape.faces_on_side(axis));
            let place = [0, self.shape.extents()[d] - 1][side];
            let mut cells = faces.places().map(|mut at| {
                at[d] = place;
                at
            });
            self.sides[d][side] == Side::Fixed && cells.all(|at| self.half(axis, at) == 0.0)
        };
        Axis::ALL.into_iter().flat_map(|axis| [(axis, 0), (axis, 1)]).filter(is_idle).collect()
    }

    fn hold(&self) -> Option<f64> {
        let is_fixed = self.sides().as_flattened().contains(&Side::Fixed);
        let shift = self.stored_shift().filter(|_| !is_fixed)?;
        let row = match self.coefficients() {
            Coefficients::Faces(_) => 6.0 * self.spreads.first()?.most,
            _ => self.largest_row(),
        };
        let hold = shift.iter().sum::<f64>() / (shift.len() as f64 * row);
        (hold > 0.0 && hold.is_finite()).then_some(hold)
    }

    fn is_dominated(&self, by: Preconditioner, tolerance: f64) -> bool {
        self.dominance().is_some_and(|dominance| dominance.is_strong(by, tolerance))
    }

    fn isolated(&self) -> &[[usize; 3]] {
        &self.isolated
    }

    fn around(&self, turns: Turns) -> Result<Cow<'_, Self>> {
        match turns {
            // A caller may have changed the numbers of its arrays since.
            Turns::ONE if !self.keeps_numbers() => {
                let mut again = self.clone();
                again.components = self.components.given();
                Ok(Cow::Owned(again))
            }
            Turns::ONE => Ok(Cow::Borrowed(self)),
            turns => self.repeated(turns).map(Cow::Owned),
        }
    }

    fn check_update(&self, new: &Self) -> Result<()> {
        Error::unless_equal("the new coefficients", new.shape, self.shape)?;
        let form = |stencil: &Self| match &stencil.coefficients {
            Coefficients::Cells { fields, axes } => (fields.len(), axes.map(|(field, _)| field)),
            Coefficients::DeviceCells { fields, axes, .. } => (fields.len(), axes.map(|(field, _)| field)),
            Coefficients::Faces(_) | Coefficients::DeviceFaces { .. } => (0, [0; 3]),
        };
        let has_cells = |stencil: &Self| form(stencil).0 > 0;
        if has_cells(self) != has_cells(new) {
            let names = |has_cells| if has_cells { "coefficients of cells" } else { "conductances of faces" };
            let message = format!(
                "it has {}, and the solver {}; make a new solver",
                names(has_cells(new)),
                names(has_cells(self))
            );
            return Err(Error::invalid("the new operator", message));
        }
        if form(self) != form(new) {
            return Err(Error::invalid(
                "diffusion.coefficient",
                "the matrix would have another form than before; make a new solver to go from one coefficient to several, or between equal and \
                 unequal widths of cells",
            ));
        }
        if self.has_shift() != new.has_shift() && form(self) == (0, [0; 3]) {
            return Err(Error::invalid(
                "faces.shift",
                "update cannot add or remove a shift; make a new solver, or make the first one with a shift of 0",
            ));
        }
        if self.has_shift() != new.has_shift() {
            return Err(Error::invalid(
                "diffusion.reaction",
                "update cannot add or remove a reaction, Robin sides or wells; make a new solver, or make the first one with a \
                 reaction of 0",
            ));
        }
        if self.sides != new.sides {
            let message = "update cannot change the kind of a side (Dirichlet, Neumann, …); make a new solver";
            return Err(Error::invalid("diffusion.boundary", message));
        }
        Ok(())
    }
}

/// The rows of diffusion, if [`Diffusion::has_rows`].
pub(super) struct DiffusionRows<'a> {
    stencil: &'a Diffusion,
    shift: Option<Box<Shift<'a>>>,
}

/// The function that returns s without the Dirichlet sides, by cell.
type Shift<'a> = dyn Fn([usize; 3]) -> f64 + Sync + 'a;

impl<'a> DiffusionRows<'a> {
    pub(super) fn new(stencil: &'a Diffusion) -> Self {
        let shift = |at| stencil.own_shift(at);
        Self { stencil, shift: stencil.has_shift().then(|| Box::new(shift) as Box<Shift<'a>>) }
    }
}

impl SeparableRows for DiffusionRows<'_> {
    fn shape(&self) -> Shape {
        Stencil::shape(self.stencil)
    }

    fn is_periodic(&self, axis: usize) -> bool {
        self.stencil.is_periodic(Axis::ALL[axis])
    }

    fn is_by_cells(&self) -> bool {
        !matches!(self.stencil.coefficients(), Coefficients::Faces(_) | Coefficients::DeviceFaces { .. })
    }

    fn coupling(&self, axis: usize, at: [usize; 3]) -> f64 {
        let axis = Axis::ALL[axis];
        if self.is_by_cells() { self.stencil.half(axis, at) } else { self.stencil.face(axis, at) }
    }

    fn fill(&self, axis: usize, [j, k]: [usize; 2], row: &mut [f64]) {
        let first = self.stencil.cell([0, j, k]);
        match self.stencil.coefficients() {
            Coefficients::Cells { fields, axes } => {
                let (field, factor) = axes[axis];
                row.iter_mut().zip(&fields[field][first..]).for_each(|(coupling, value)| *coupling = factor * value);
            }
            Coefficients::Faces(faces) => row.copy_from_slice(&faces[axis][first..][..row.len()]),
            Coefficients::DeviceCells { .. } | Coefficients::DeviceFaces { .. } => {
                row.iter_mut().enumerate().for_each(|(i, coupling)| *coupling = self.coupling(axis, [i, j, k]));
            }
        }
    }

    fn is_constant(&self, axis: usize) -> bool {
        match self.stencil.coefficients() {
            Coefficients::Cells { axes, .. } | Coefficients::DeviceCells { axes, .. } => {
                self.stencil.spreads()[axes[axis].0].is_even()
            }
            Coefficients::Faces(_) | Coefficients::DeviceFaces { .. } => false,
        }
    }

    fn fixed_sides(&self, axis: usize) -> [bool; 2] {
        // With stored faces all Dirichlet sides are in the shift.
        self.stencil.sides()[axis].map(|side| side == Side::Fixed && self.is_by_cells())
    }

    fn shift(&self) -> Option<&(dyn Fn([usize; 3]) -> f64 + Sync)> {
        self.shift.as_deref()
    }

    fn shift_row(&self, [j, k]: [usize; 2]) -> Option<&[f64]> {
        let first = self.stencil.cell([0, j, k]);
        self.stencil.shift.as_ref().map(|shift| &shift[first..][..self.stencil.shape.nx])
    }

    fn shift_is_sum(&self) -> bool {
        self.stencil.known_shift.sums.is_some()
    }
}

impl Diffusion {
    /// Brings directions into the solver's order, and repeats all coefficients on the copies.
    ///
    /// # Errors
    /// See [`Diffusion::new`].
    pub(crate) fn repeated(&self, turns: Turns) -> Result<Self> {
        let mut made = self.clone();
        if turns == Turns::ONE {
            return Ok(made);
        }
        let repeat = |values: &Arc<[f64]>| turns.repeat_shared(values, self.shape);
        made.shift = self.shift.as_ref().map(repeat).transpose()?;
        made.coefficients = match &self.coefficients {
            Coefficients::Cells { fields, axes } => Coefficients::Cells {
                fields: fields.iter().map(repeat).collect::<Result<_>>()?,
                axes: turns.of_axes(*axes),
            },
            Coefficients::DeviceCells { fields, axes, shift } => Coefficients::DeviceCells {
                fields: fields.iter().map(|&field| turns.repeat_on_device(field)).collect(),
                axes: turns.of_axes(*axes),
                shift: shift.map(|shift| turns.repeat_on_device(shift)),
            },
            Coefficients::Faces(faces) => {
                let [x, y, z] = turns.of_axes(faces.each_ref());
                Coefficients::Faces([repeat(x)?, repeat(y)?, repeat(z)?])
            }
            Coefficients::DeviceFaces { faces, shift, means } => {
                let on_copies = |array: Option<DeviceArray>| array.map(|array| turns.repeat_on_device(array));
                Coefficients::DeviceFaces {
                    faces: Box::new(turns.of_axes(**faces).map(on_copies)),
                    shift: on_copies(*shift),
                    means: turns.of_axes(*means),
                }
            }
        };
        let (once, around) = (self.shape, turns.around(self.shape));
        (made.shape, made.sides) = (around, turns.of_axes(self.sides));
        let KnownShift { negative, sums } = &*self.known_shift;
        let on_axis = |numbers: &[f64], cells: usize| numbers.iter().copied().cycle().take(cells).collect();
        let on_axes = |sums: &[Vec<f64>; 3]| {
            let sums = turns.of_axes(sums.each_ref());
            [0, 1, 2].map(|d| on_axis(sums[d], around.extents()[d]))
        };
        made.known_shift = Arc::new(KnownShift { negative: *negative, sums: sums.as_ref().map(on_axes) });
        made.by_widths =
            self.by_widths.as_deref().map(|(crossing, of)| Box::new((crossing.around(turns), turns.of_axes(*of))));
        // The components of the caller's grid have its shape, not the solver's.
        made.components = Found::default();
        let repeat_known = |known: Known| -> Known {
            let extents = once.extents();
            Arc::new(move |n| {
                let at = turns.callers_cell(around.place(n));
                // There are two copies of a direction at most.
                known(once.number([0, 1, 2].map(|d| if at[d] < extents[d] { at[d] } else { at[d] - extents[d] })))
            })
        };
        made.known = Carried(self.known.0.clone().map(repeat_known));
        Ok(made)
    }
}
