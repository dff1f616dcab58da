//! The linear system of a case, assembled.

use std::ops::Range;

use isobar::Shape;
use isobar::internals::execute::{Host, for_each_piece, for_each_row};
use isobar::problem::{
    self, Boundary, Coefficient, DiffusionProblem, FaceProblem, Flow, PointProblem, SideFields, Spacing,
};
use isobar::stencil::{Axis, Diffusion, Stencil};
use isobar_io::{Mesh, Units};

use crate::values::{check_sizes, mask, read_numbers};
use crate::{DiffusionCase, Matrix, Result, RhsKind, Unknowns, Values, memory};

/// A linear system A u = b with its grid; arrays in (z, y, x) C order.
#[derive(Clone, Debug)]
pub struct Assembled {
    /// The matrix A, including the boundary conditions.
    pub matrix: Matrix,
    /// The right-hand side b, including boundary values, sources and wells.
    pub rhs: Vec<f64>,
    /// The exact solution at the cell centres, if known.
    pub exact: Option<Vec<f64>>,
    /// The active cells; `None` means all.
    pub active: Option<Vec<bool>>,
    /// The positions of the cells, for files and plots.
    pub mesh: Mesh,
    /// The widths and sides that fluxes are computed from; only for diffusion in cells and conductances.
    pub box_of_cells: Option<BoxOfCells>,
}

/// The widths of a box's cells, the boundary conditions on its sides, and its wells.
#[derive(Clone, Debug)]
pub struct BoxOfCells {
    spacing: [Spacing; 3],
    boundary: [[Boundary; 2]; 3],
    side_fields: [[SideFields; 2]; 3],
    /// See [`DiffusionProblem::well_ties`].
    wells: Vec<(usize, f64, f64)>,
}

impl BoxOfCells {
    /// Returns the fluxes through the faces, if `matrix` is a diffusion matrix.
    pub fn flow<'a>(&'a self, matrix: &'a Matrix) -> Option<Flow<'a>> {
        match matrix {
            Matrix::Diffusion(stencil) => {
                Some(Flow { stencil, spacing: &self.spacing, boundary: &self.boundary, side_fields: &self.side_fields })
            }
            Matrix::TensorProduct(_) => None,
        }
    }
}

impl From<DiffusionProblem> for BoxOfCells {
    fn from(problem: DiffusionProblem) -> Self {
        let wells = problem.well_ties();
        let DiffusionProblem { spacing, boundary, side_fields, .. } = problem;
        Self { spacing, boundary, side_fields, wells }
    }
}

impl Assembled {
    /// Returns the fluxes through the faces of cells; `None` for problems without fluxes.
    pub fn flow(&self) -> Option<Flow<'_>> {
        self.box_of_cells.as_ref()?.flow(&self.matrix)
    }

    /// Returns whether there are wells.
    pub fn has_wells(&self) -> bool {
        self.box_of_cells.as_ref().is_some_and(|cells| !cells.wells.is_empty())
    }

    /// Returns the total that flows out of the domain through wells, for a solution in C order; nothing without wells.
    pub fn through_wells(&self, u: &[f64]) -> Option<f64> {
        let wells = &self.box_of_cells.as_ref().filter(|_| self.has_wells())?.wells;
        Some(wells.iter().map(|&(n, index, value)| index * (u[n] - value)).sum())
    }

    /// Keeps b and the exact solution in these rows only, (nz, rows, nx) in C order.
    pub(crate) fn keep_rows(&mut self, rows: &Range<usize>) {
        let shape = self.matrix.shape();
        for values in std::iter::once(&mut self.rhs).chain(&mut self.exact) {
            keep_rows(values, shape, rows);
        }
    }
}

fn keep_rows(values: &mut Vec<f64>, shape: Shape, rows: &Range<usize>) {
    let mut end = 0;
    for k in 0..shape.nz {
        let from = shape.nx * (rows.start + shape.ny * k);
        values.copy_within(from..from + shape.nx * rows.len(), end);
        end += shape.nx * rows.len();
    }
    values.truncate(end);
    values.shrink_to_fit();
}

/// Returns the mesh of a grid with these widths.
pub(crate) fn mesh_of(shape: Shape, spacing: &[Spacing; 3]) -> Mesh {
    let Shape { nx, ny, nz } = shape;
    let cells = [nx, ny, nz];
    let faces = [0, 1, 2].map(|d| {
        let mut edge = 0.0;
        let widths = (0..cells[d]).map(|n| spacing[d].width(n));
        std::iter::once(0.0)
            .chain(widths.map(|width| {
                edge += width;
                edge
            }))
            .collect()
    });
    let uniform = |d: usize| match spacing[d] {
        Spacing::Uniform(width) => Some(width),
        Spacing::Given(ref widths) => {
            // Smaller differences are rounding errors of the program that wrote the widths.
            let first = widths.first().copied()?;
            widths.iter().all(|width| (width - first).abs() <= 1e-12 * first).then_some(first)
        }
    };
    let widths = match [0, 1, 2].map(uniform) {
        [Some(dx), Some(dy), Some(dz)] => Some([dx, dy, dz]),
        _ => None,
    };
    let centres = [0, 1, 2].map(|d| spacing[d].centres(cells[d]));
    Mesh { centres, faces, spacing: widths, units: Units::Unspecified }
}

impl DiffusionCase {
    /// Builds the problem, reading its files.
    ///
    /// # Errors
    /// A file that cannot be read or does not fit; invalid values, naming the cell.
    pub fn problem(&self) -> Result<DiffusionProblem> {
        let problem = self.unchecked()?;
        problem.validate()?;
        Ok(problem)
    }

    /// Builds the problem without [`DiffusionProblem::checked`], which the caller calls.
    fn unchecked(&self) -> Result<DiffusionProblem> {
        let (shape, section) = (self.shape, &self.section);
        let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(Vec::new()));
        problem.spacing = self.spacing.clone();
        let extent = problem.extent();
        let fill = |key: &str, values: &Option<Values>, horizontal: &[f64]| {
            values.as_ref().map(|values| values.fill(key, shape, extent, horizontal)).transpose()
        };
        let along_x = section.coefficient.fill("diffusion.coefficient", shape, extent, &[])?;
        let along_y = fill("diffusion.coefficient_y", &section.coefficient_y, &[])?;
        let along_z = fill("diffusion.coefficient_z", &section.coefficient_z, &along_x)?;
        let multiplier = fill("diffusion.multiplier", &section.multiplier, &[])?;
        let scaled = |mut values: Vec<f64>| {
            if let Some(factors) = &multiplier {
                for_each_piece(&Host, &mut values, |first, piece| {
                    piece.iter_mut().zip(&factors[first..]).for_each(|(value, factor)| *value *= factor);
                });
            }
            values
        };
        // The multiplier applies to the horizontal coefficients only.
        let vertical = match along_z {
            None if along_y.is_some() || multiplier.is_some() => {
                Some(memory::fill("diffusion.coefficient", along_x.len(), |first, piece: &mut [f64]| {
                    piece.copy_from_slice(&along_x[first..][..piece.len()]);
                })?)
            }
            given => given,
        };
        problem.coefficient = match (along_y, vertical) {
            (Some(along_y), Some(along_z)) => Coefficient::Diagonal([scaled(along_x), scaled(along_y), along_z]),
            (_, Some(vertical)) => Coefficient::Layered { horizontal: scaled(along_x), vertical },
            _ => Coefficient::Isotropic(along_x),
        };
        let keys = ["diffusion.coefficient", "diffusion.coefficient_y", "diffusion.coefficient_z"];
        let numbers = problem.coefficient.numbers();
        for ((d, key), axis) in keys.into_iter().enumerate().zip(Axis::ALL) {
            if !numbers[..d].contains(&numbers[d]) {
                check_sizes(key, problem.coefficient.along(axis), shape)?;
            }
        }
        problem.reaction = match &section.reaction {
            // The reaction may be negative, unlike other coefficients.
            Some(Values::File(path)) => Some(read_numbers("diffusion.reaction", path, shape)?),
            given => fill("diffusion.reaction", given, &[])?,
        };
        if let Some(reaction) = &problem.reaction {
            check_sizes("diffusion.reaction", reaction, shape)?;
        }
        problem.active = fill("diffusion.active", &section.active, &[])?.map(mask).transpose()?;
        section.boundary.put_on(&mut problem)?;
        problem.sources = section.sources(shape.nz);
        problem.wells = section.wells(shape.nz);
        Ok(problem)
    }

    /// Returns the right-hand side for a body source given by the caller.
    ///
    /// # Errors
    /// The errors of [`DiffusionCase::problem`]; a wrong number of cells.
    pub(crate) fn rhs_from(&self, body: Vec<f64>) -> Result<Vec<f64>> {
        if let Some(faces) = &self.faces {
            return Ok(faces.problem(self.shape)?.rhs_from_in(&(0..self.shape.ny), body)?);
        }
        let (problem, weighting) = (self.problem()?, self.rhs.weighting);
        Ok(match self.section.unknowns {
            Unknowns::Points => {
                let size = problem.extent();
                PointProblem::new(problem, size)?.rhs_from(body, weighting)?
            }
            Unknowns::Cells => problem.rhs_from(body, weighting)?,
        })
    }

    /// Builds the linear system with the right-hand side and the exact solution in some rows of the grid only.
    ///
    /// # Errors
    /// The errors of [`DiffusionCase::problem`]; a right-hand side that cannot be read or does not fit.
    pub(crate) fn assemble_in(&self, rows: &Range<usize>) -> Result<Assembled> {
        if let Some(faces) = &self.faces {
            return self.assemble_faces(&faces.problem(self.shape)?, rows);
        }
        let problem = self.unchecked()?;
        if self.section.unknowns == Unknowns::Points {
            problem.validate()?;
            return self.assemble_points(problem, rows);
        }
        let checked = problem.checked()?;
        let (seed, weighting) = (self.rhs.seed, self.rhs.weighting);
        let assembled = self.assembled(
            checked.stencil()?,
            mesh_of(problem.shape, &problem.spacing),
            rows,
            |kind| checked.rhs_in(rows, kind, seed, weighting),
            |body| checked.rhs_from_in(rows, body, weighting),
            || problem.exact(),
        )?;
        Ok(Assembled { box_of_cells: Some(problem.into()), ..assembled })
    }

    /// Assembles a matrix of conductances; its right-hand side is the inflow into each cell.
    fn assemble_faces(&self, faces: &FaceProblem, rows: &Range<usize>) -> Result<Assembled> {
        let assembled = self.assembled(
            faces.stencil().clone(),
            mesh_of(self.shape, &self.spacing),
            rows,
            |kind| faces.rhs_in(rows, kind, self.rhs.seed),
            |body| faces.rhs_from_in(rows, body),
            || faces.exact(),
        )?;
        let Flow { boundary, side_fields, .. } = faces.flow();
        let (boundary, side_fields) = (*boundary, side_fields.clone());
        let box_of_cells = BoxOfCells { spacing: self.spacing.clone(), boundary, side_fields, wells: Vec::new() };
        Ok(Assembled { box_of_cells: Some(box_of_cells), ..assembled })
    }

    /// Assembles a problem with unknowns at points inside the box.
    fn assemble_points(&self, problem: DiffusionProblem, rows: &Range<usize>) -> Result<Assembled> {
        let size = problem.extent();
        let points = PointProblem::new(problem, size)?;
        let (seed, weighting) = (self.rhs.seed, self.rhs.weighting);
        self.assembled(
            points.stencil()?,
            mesh_around(&points.coordinates, size),
            rows,
            |kind| points.rhs_in(rows, kind, seed, weighting),
            |body| points.rhs_from_in(rows, body, weighting),
            || points.inner.exact(),
        )
    }

    /// Makes a system of a matrix: its right-hand side is computed, or made from values that are read, in some rows of the grid.
    fn assembled(
        &self,
        stencil: Diffusion,
        mesh: Mesh,
        rows: &Range<usize>,
        computed: impl FnOnce(Option<problem::RhsKind>) -> isobar::Result<Vec<f64>>,
        from: impl FnOnce(Vec<f64>) -> isobar::Result<Vec<f64>>,
        exact: impl FnOnce() -> Vec<f64>,
    ) -> Result<Assembled> {
        let kind = self.rhs_kind();
        Ok(Assembled {
            rhs: self.rhs.values(kind, self.shape, rows, computed, from)?,
            exact: (kind == RhsKind::Manufactured).then(|| without_constants(exact(), &stencil, rows)),
            active: mask_of(&stencil)?,
            mesh,
            box_of_cells: None,
            matrix: Matrix::Diffusion(stencil),
        })
    }
}

/// Returns which cells are active; `None` if all are.
fn mask_of(stencil: &Diffusion) -> Result<Option<Vec<bool>>> {
    if stencil.is_one_piece() {
        return Ok(None);
    }
    let shape = Stencil::shape(stencil);
    let mut active = memory::fill("the mask", shape.cells(), |_, _| {})?;
    for_each_row(&Host, &mut active, shape.nx, |row, active| stencil.find_active(row, active));
    Ok(active.contains(&false).then_some(active))
}

/// Returns a mesh of cells around evenly spaced points in a box of this size.
pub(crate) fn mesh_around(centres: &[Vec<f64>; 3], size: [f64; 3]) -> Mesh {
    let width = |d: usize| match centres[d][..] {
        [first, second, ..] => second - first,
        _ => size[d],
    };
    let spacing = [0, 1, 2].map(width);
    let faces = [0, 1, 2].map(|d| {
        let first = centres[d].first().copied().unwrap_or_default();
        (0..=centres[d].len()).map(|m| first + (m as f64 - 0.5) * spacing[d]).collect()
    });
    Mesh { centres: centres.clone(), faces, spacing: Some(spacing), units: Units::Unspecified }
}

/// Shifts a solution of a singular system to the one that solvers return, with mean 0 wherever a constant is free; returns some rows of it.
fn without_constants(mut solution: Vec<f64>, stencil: &Diffusion, rows: &Range<usize>) -> Vec<f64> {
    let shape = Stencil::shape(stencil);
    let Some(components) = stencil.components(&Host) else {
        keep_rows(&mut solution, shape, rows);
        return solution;
    };
    let floating = components.floating();
    let sizes = floating.sizes();
    let mut sums = vec![0.0; floating.count()];
    for (cell, value) in solution.iter().enumerate() {
        if let Some(component) = floating.aggregate(cell) {
            sums[component] += value;
        }
    }
    for (cell, value) in solution.iter_mut().enumerate() {
        if let Some(component) = floating.aggregate(cell) {
            *value -= sums[component] / sizes[component] as f64;
        }
    }
    keep_rows(&mut solution, shape, rows);
    solution
}
