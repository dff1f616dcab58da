//! Diffusion with a coefficient in every cell: −∇·(κ∇u) + c u by cell-centred finite volumes.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use super::aggregation::Found;
use super::crossing::Crossing;
use super::faces::clear_rounding;
use super::spread::{KnownShift, Spread};
use crate::execute::{rows, shared_copy};
use crate::layout::Axis;
use crate::{DeviceArray, Error, Host, Result, Shape, Slab};

/// The condition on one side of the grid. Boundary *values* belong to the right-hand side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Side {
    /// Neumann: the flux is given, and the matrix has no entry for it.
    #[default]
    Closed,
    /// Dirichlet: the value on the face is given, half a cell away.
    Fixed,
    /// The opposite side is the neighbour.
    Periodic,
}

/// The source of the transmissibilities of faces. Arrays have shape (nz, ny, nx), C order.
#[derive(Clone, Debug, PartialEq)]
pub enum Coefficients {
    /// One coefficient for each cell and direction: h = factor · field is the transmissibility from the cell's centre to its face, 2κA/d
    /// with A the face and d the cell's width. A face between cells a and b has the harmonic mean T = h_a h_b / (h_a + h_b), computed
    /// wherever it is needed.
    Cells {
        /// The fields, one to three; directions may share one.
        fields: Vec<Arc<[f64]>>,
        /// The number of its field, and the factor, for each direction.
        axes: [(usize, f64); 3],
    },
    /// Coefficients of [`Coefficients::Cells`] in the memory of a GPU, from which a solver on that GPU is made or updated
    /// without a copy on the host. They are read and checked during that call.
    DeviceCells {
        /// The fields, one to three; directions may share one.
        fields: Vec<DeviceArray>,
        /// The number of its field, and the factor, for each direction.
        axes: [(usize, f64); 3],
        /// The shift s without the Dirichlet sides, if not zero.
        shift: Option<DeviceArray>,
    },
    /// The transmissibilities: entry n of direction d belongs to the face between cell n and its upper neighbour in d (the first cell, if d
    /// is periodic), and is 0 if there is none.
    Faces(
        /// Transmissibilities by direction.
        [Arc<[f64]>; 3],
    ),
    /// Transmissibilities in the memory of a GPU, from which a solver on that GPU is made or updated without a copy on the host.
    DeviceFaces {
        /// Those between neighbours in x, y and z, each of the shape of [`Shape::faces_between`], in a periodic
        /// direction of the grid's; none where all are 0.
        faces: Box<[Option<DeviceArray>; 3]>,
        /// The shift s, if not zero.
        shift: Option<DeviceArray>,
        /// The mean of each direction.
        means: [f64; 3],
    },
}

/// The matrix of −∇·(κ∇u) + c u:
///
/// (A u)_n = s_n u_n + Σ_faces T_nm (u_n − u_m),
///
/// T the transmissibility of a face, s the coupling of a cell to fixed values: c times its volume, a Dirichlet side (2κA/d), a
/// well. A cell with κ = 0 is inactive: its row and column are zero. Where c is negative, as in the Helmholtz equation of
/// waves, the matrix may be indefinite, and [`Method::Direct`](crate::options::Method::Direct) alone solves it.
#[derive(Clone, Debug, PartialEq)]
pub struct Diffusion {
    pub(super) shape: Shape,
    pub(super) coefficients: Coefficients,
    /// The spreads of the fields of [`Coefficients::Cells`], of those of [`Coefficients::DeviceCells`] where they are known, and of all T of
    /// [`Coefficients::Faces`] taken together.
    pub(super) spreads: Box<[Spread]>,
    /// The shift s without the contribution of Dirichlet sides to [`Coefficients::Cells`].
    pub(super) shift: Option<Arc<[f64]>>,
    pub(super) known_shift: Arc<KnownShift>,
    /// Lower and upper side of each direction.
    pub(super) sides: [[Side; 2]; 3],
    pub(super) components: Found,
    /// The results of [`Diffusion::crossing`] and [`Diffusion::strengths`] for [`Coefficients::DeviceCells`], if known.
    pub(super) by_widths: Option<Box<(Crossing, [f64; 3])>>,
    /// The one field of [`Coefficients::DeviceCells`], where it is known on the host too.
    pub(super) known: Carried<Known>,
    owner: Carried<Owner>,
    /// The cells of [`Coefficients::Faces`] that a mask declares active but that have no conductance and no shift, in the caller's order.
    pub(super) isolated: Arc<Vec<[usize; 3]>>,
}

/// The number of each cell, for decisions on the host.
pub(super) type Known = Arc<dyn Fn(usize) -> f64 + Send + Sync>;
/// The owner of the arrays of [`Coefficients::DeviceCells`], which lives as long as a stencil that refers to them.
type Owner = Arc<dyn Any + Send + Sync>;

/// An object that a stencil carries, and that does not make it another stencil.
#[derive(Clone)]
pub(super) struct Carried<T>(pub(super) Option<T>);

impl<T> fmt::Debug for Carried<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Some" } else { "None" })
    }
}

impl<T> PartialEq for Carried<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Diffusion {
    /// Makes a stencil of one coefficient in cells, multiplied by a factor for each of x, y and z. The rest is as for
    /// [`Diffusion::new`].
    ///
    /// # Errors
    /// See [`Diffusion::new`].
    pub fn of_field(
        shape: Shape,
        field: impl Into<Arc<[f64]>>,
        factors: [f64; 3],
        shift: Option<Vec<f64>>,
        sides: [[Side; 2]; 3],
    ) -> Result<Self> {
        let axes = factors.map(|factor| (0, factor));
        Self::new(shape, Coefficients::Cells { fields: vec![field.into()], axes }, shift, sides)
    }

    /// Makes a stencil of its parts; `shift` is s without the Dirichlet sides, 0 if absent.
    ///
    /// # Errors
    /// [`Error::Shape`] for arrays of other lengths, [`Error::Invalid`] for coefficients that are negative or not finite and shifts
    /// that are not finite (naming the cell), and for a direction with one periodic side.
    pub fn new(
        shape: Shape,
        coefficients: Coefficients,
        shift: Option<Vec<f64>>,
        sides: [[Side; 2]; 3],
    ) -> Result<Self> {
        Self::of_known(shape, coefficients, None, shift, sides)
    }

    /// Makes a stencil with the spreads of cell fields, where they are known.
    pub(crate) fn of_known(
        shape: Shape,
        coefficients: Coefficients,
        spreads: Option<Vec<Spread>>,
        mut shift: Option<Vec<f64>>,
        sides: [[Side; 2]; 3],
    ) -> Result<Self> {
        let check = |what: &str, values: &[f64]| Spread::of_cells(what, shape, values);
        let check_axes = |axes: &[(usize, f64); 3], count: usize| match axes
            .iter()
            .find(|&&(field, factor)| field >= count || !(factor > 0.0 && factor.is_finite()))
        {
            None => Ok(()),
            Some((field, factor)) => Err(Error::invalid(
                "diffusion.coefficient",
                format!(
                    "a direction has field {field}, counted from 0, of {count}, times {factor}; use a field that there \
                         is and a positive, finite factor (extreme widths of cells make others: use other units)"
                ),
            )),
        };
        let mut found = Vec::new();
        match &coefficients {
            Coefficients::Cells { fields, axes } => {
                found = match spreads {
                    Some(known) => known,
                    None => fields.iter().map(|field| check("diffusion.coefficient", field)).collect::<Result<_>>()?,
                };
                check_axes(axes, fields.len())?;
            }
            Coefficients::DeviceCells { fields, axes, shift: on_device } => {
                found = spreads.unwrap_or_default();
                let mut arrays = fields.iter().chain(on_device);
                arrays.try_for_each(|array| Error::unless_equal("diffusion.coefficient", array.shape(), shape))?;
                check_axes(axes, fields.len())?;
                if on_device.is_some() && shift.is_some() {
                    return Err(Error::invalid("the shift", "one on the device and one on the host; use either"));
                }
            }
            Coefficients::Faces(faces) => {
                let mut all = Spread::NONE;
                for face in faces {
                    all = all.and(check("transmissibilities", face)?);
                }
                found.push(all);
            }
            Coefficients::DeviceFaces { faces, shift: on_device, .. } => {
                for (array, axis) in
                    faces.iter().zip(Axis::ALL).filter_map(|(array, axis)| Some((array.as_ref()?, axis)))
                {
                    let is_periodic = sides[axis as usize][0] == Side::Periodic;
                    let faces = shape.faces_between(axis, is_periodic);
                    Error::unless_equal("transmissibilities", array.shape(), faces)?;
                }
                on_device.iter().try_for_each(|array| Error::unless_equal("the shift", array.shape(), shape))?;
            }
        }
        let mut negative = None;
        if let Some(shift) = &mut shift {
            let mut first = Spread::first_negative("the shift", shape, shift)?;
            if let (Some(_), Coefficients::Faces(faces)) = (first, &coefficients) {
                clear_rounding(shape, faces, shift);
                first = Spread::first_negative("the shift", shape, shift)?;
            }
            negative = first.map(|n| (shape.place(n), shift[n]));
        }
        for [lower, upper] in sides {
            if (lower == Side::Periodic) != (upper == Side::Periodic) {
                return Err(Error::invalid(
                    "diffusion.boundary",
                    "one side of a direction is periodic and the other is not; make both periodic",
                ));
            }
        }
        let shift = shift.map(|shift| shared_copy(&Host, &shift));
        let (known, owner) = (Carried(None), Carried(None));
        let known_shift = Arc::new(KnownShift { negative, sums: None });
        Ok(Self {
            shape,
            coefficients,
            spreads: found.into(),
            shift,
            known_shift,
            sides,
            components: Found::default(),
            by_widths: None,
            known,
            owner,
            isolated: Arc::default(),
        })
    }

    /// Returns the form of the stencil on another grid, with empty fields.
    pub(super) fn without_coefficients(&self, shape: Shape, axes: [(usize, f64); 3]) -> Self {
        let none = || Arc::from(Vec::new());
        let fields = axes.iter().map(|(field, _)| field + 1).max().unwrap_or(1);
        let coefficients = Coefficients::Cells { fields: (0..fields).map(|_| none()).collect(), axes };
        let spreads = vec![Spread::NONE; fields].into();
        let shift = self.has_shift().then(none);
        let (sides, known, owner) = (self.sides, Carried(None), Carried(None));
        let known_shift = Arc::default();
        let components = Found::default();
        let (by_widths, isolated) = (None, Arc::default());
        Self { shape, coefficients, spreads, shift, known_shift, sides, components, by_widths, known, owner, isolated }
    }

    /// Returns the source of the transmissibilities.
    pub fn coefficients(&self) -> &Coefficients {
        &self.coefficients
    }

    /// Sets the smallest and the largest coefficient of each field on a GPU: equal ones allow a direct solve without a copy on the
    /// host.
    ///
    /// # Errors
    /// [`Error::Shape`] for another number of fields, [`Error::Invalid`] for coefficients that are negative or not finite.
    pub fn with_spreads(mut self, spreads: Vec<Spread>) -> Result<Self> {
        if let Coefficients::DeviceCells { fields, .. } = &self.coefficients {
            Error::unless_equal("diffusion.coefficient", spreads.len(), fields.len())?;
            if let Some(wrong) = spreads.iter().find(|field| !(0.0 <= field.least && field.most < f64::INFINITY)) {
                let found = format!("{} to {}; it must be finite and not negative", wrong.least, wrong.most);
                return Err(Error::invalid("diffusion.coefficient", found));
            }
            self.spreads = spreads.into();
        }
        Ok(self)
    }

    /// Sets the known properties of the shift on a GPU: a negative one needs a direct solve, which sums allow without a copy on the host.
    ///
    /// # Errors
    /// [`Error::Shape`] for other numbers of cells.
    pub fn with_known_shift(mut self, known: KnownShift) -> Result<Self> {
        if matches!(&self.coefficients, Coefficients::DeviceCells { shift: Some(_), .. }) {
            for (numbers, cells) in known.sums.iter().flatten().zip(self.shape.extents()) {
                Error::unless_equal("the shift", numbers.len(), cells)?;
            }
            self.known_shift = Arc::new(known);
        }
        Ok(self)
    }

    /// Sets what the widths of cells tell of coefficients on a GPU: [`Diffusion::crossing`] and [`Diffusion::strengths`].
    #[must_use]
    pub fn with_widths(self, crossing: Crossing, strengths: [f64; 3]) -> Self {
        Self { by_widths: Some(Box::new((crossing, strengths))), ..self }
    }

    /// Keeps one more owner of its arrays on a GPU while this stencil, or a copy of it, is there.
    #[must_use]
    pub fn owned_by(self, owner: Arc<dyn Any + Send + Sync>) -> Self {
        let owner: Owner = match self.owner.0 {
            Some(before) => Arc::new((before, owner)),
            None => owner,
        };
        Self { owner: Carried(Some(owner)), ..self }
    }

    /// Adds the numbers of all cells on the host to one field on a GPU: its rows are then known there. It has no shift.
    #[must_use]
    pub fn with_known(self, field: Arc<dyn Fn(usize) -> f64 + Send + Sync>) -> Self {
        Self { known: Carried(Some(field)), ..self }
    }

    /// Returns whether entries of its rows are known on the host: they are there, or each field on a GPU has one known value or known
    /// numbers, and the shift is a known sum.
    pub fn has_rows(&self) -> bool {
        let is_one_value = || !self.spreads.is_empty() && self.spreads.iter().all(|field| field.is_even());
        match &self.coefficients {
            Coefficients::DeviceCells { shift, .. } => {
                (shift.is_none() || self.known_shift.sums.is_some()) && (self.known.0.is_some() || is_one_value())
            }
            Coefficients::DeviceFaces { .. } => false,
            Coefficients::Cells { .. } | Coefficients::Faces(_) => true,
        }
    }

    /// Returns whether the coefficients are in the memory of a GPU.
    pub fn is_on_device(&self) -> bool {
        matches!(self.coefficients, Coefficients::DeviceCells { .. } | Coefficients::DeviceFaces { .. })
    }

    /// Returns the smallest and the largest coefficients of the fields of [`Coefficients::Cells`], and of those on a GPU where they
    /// are known; nothing for other coefficients.
    pub fn spreads(&self) -> &[Spread] {
        if matches!(self.coefficients, Coefficients::Faces(_)) { &[] } else { &self.spreads }
    }

    /// Returns s without the Dirichlet sides, where it is not zero and on the host.
    pub fn stored_shift(&self) -> Option<&[f64]> {
        self.shift.as_deref()
    }

    /// Returns s without the Dirichlet sides in a cell, if the host knows it.
    #[inline(always)]
    pub(super) fn own_shift(&self, at: [usize; 3]) -> f64 {
        match (&self.shift, &self.known_shift.sums) {
            (Some(shift), _) => shift[self.cell(at)],
            (None, Some([x, y, z])) => x[at[0]] + y[at[1]] + z[at[2]],
            (None, None) => 0.0,
        }
    }

    /// Returns whether s has more than the Dirichlet sides.
    pub fn has_shift(&self) -> bool {
        let is_on_device = matches!(
            &self.coefficients,
            Coefficients::DeviceCells { shift: Some(_), .. } | Coefficients::DeviceFaces { shift: Some(_), .. }
        );
        self.shift.is_some() || is_on_device
    }

    /// Copies all arrays to the host, those of a GPU by `read`, in C order.
    ///
    /// # Errors
    /// The errors of `read`; those of [`Diffusion::new`] for the arrays that it returns.
    pub fn on_host(&self, mut read: impl FnMut(&DeviceArray) -> Result<Vec<f64>>) -> Result<Self> {
        let (coefficients, shift) = match &self.coefficients {
            Coefficients::Cells { .. } | Coefficients::Faces(_) => return Ok(self.clone()),
            Coefficients::DeviceCells { fields, axes, shift } => {
                let fields = fields.iter().map(|field| read(field).map(Arc::from)).collect::<Result<_>>()?;
                (Coefficients::Cells { fields, axes: *axes }, shift)
            }
            Coefficients::DeviceFaces { faces, shift, .. } => {
                let mut of = |axis: Axis| -> Result<Arc<[f64]>> {
                    let mut all = vec![0.0; self.shape.cells()];
                    if let Some(array) = &faces[axis as usize] {
                        let places = array.shape().places().map(|at| self.cell(at));
                        places.zip(read(array)?).for_each(|(n, face)| all[n] = face);
                    }
                    Ok(all.into())
                };
                (Coefficients::Faces([of(Axis::X)?, of(Axis::Y)?, of(Axis::Z)?]), shift)
            }
        };
        let shift = match shift {
            Some(shift) => Some(read(shift)?),
            None => self.shift.as_deref().map(<[f64]>::to_vec),
        };
        Ok(Self { components: self.components.clone(), ..Self::new(self.shape, coefficients, shift, self.sides)? })
    }

    /// Adds `factor` times `more`, in C order, to the shift.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for coefficients on a GPU, and those of [`Diffusion::new`].
    pub fn with_more_shift(&self, factor: f64, more: &[f64]) -> Result<Self> {
        self.require_host()?;
        let before = |n: usize| self.shift.as_ref().map_or(0.0, |shift| shift[n]);
        let shift = rows(&Host, more.len(), self.shape.nx, |row, shift| {
            let first = row * self.shape.nx;
            shift.iter_mut().zip(first..).for_each(|(shift, n)| *shift = before(n) + factor * more[n]);
        });
        let known = matches!(self.coefficients, Coefficients::Cells { .. }).then(|| self.spreads.to_vec());
        Self::of_known(self.shape, self.coefficients.clone(), known, Some(shift), self.sides)
    }

    /// Fails for coefficients on a GPU, for back ends that are elsewhere.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for them.
    pub fn require_host(&self) -> Result<()> {
        if self.is_on_device() {
            return Err(Error::Unsupported(
                "coefficients in the memory of a GPU, for a solver that is not on it; copy them to the host, or make the \
                 solver on that GPU"
                    .into(),
            ));
        }
        Ok(())
    }

    /// Fails for coefficients on a GPU, which cannot be divided into subdomains, for some of the rows.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for them.
    pub fn require_part(&self, rows: Slab) -> Result<()> {
        if rows == Slab::whole(self.shape) { Ok(()) } else { self.require_host() }
    }

    /// Returns the number of coefficient vectors of a row: the fields of directions with more than one cell, or their faces, and the shift.
    pub fn coefficient_vectors(&self) -> f64 {
        let used: Vec<Axis> = Axis::ALL.into_iter().filter(|&axis| self.shape.extents()[axis as usize] > 1).collect();
        let fields = |count: usize, axes: &[(usize, f64); 3]| {
            (0..count).filter(|&field| used.iter().any(|&axis| axes[axis as usize].0 == field)).count()
        };
        let vectors = match &self.coefficients {
            Coefficients::Cells { fields: all, axes } => fields(all.len(), axes),
            Coefficients::DeviceCells { fields: all, axes, .. } => fields(all.len(), axes),
            Coefficients::Faces(_) | Coefficients::DeviceFaces { .. } => used.len(),
        };
        (vectors + usize::from(self.has_shift())) as f64
    }

    /// Returns the lower and upper side of each direction.
    pub fn sides(&self) -> [[Side; 2]; 3] {
        self.sides
    }

    /// Returns whether a direction is periodic.
    pub fn is_periodic(&self, axis: Axis) -> bool {
        self.sides[axis as usize][0] == Side::Periodic
    }

    /// Returns whether x, y and z are periodic.
    pub(crate) fn periodic(&self) -> [bool; 3] {
        Axis::ALL.map(|axis| self.is_periodic(axis))
    }

    /// Returns whether y is periodic and has more than one row.
    pub fn has_periodic_rows(&self) -> bool {
        self.is_periodic(Axis::Y) && self.shape.ny > 1
    }
}
