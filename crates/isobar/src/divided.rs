//! This module divides matrices among ranks: which may be divided, and whether all ranks have the same.

use std::sync::Arc;

use isobar_core::prelude::{Coefficients, Diffusion, Error, Result, Shape, SolverOptions, Stencil, TensorProduct};
use isobar_core::real::bytes_of_mut;
use isobar_core::stencil::halving::halvings;
use isobar_core::stencil::{OwnOperator, StoredMatrix};
use isobar_cuda::Cuda;
use isobar_dist::communicator::{agree, digest};
use isobar_dist::{Communicator, join};

/// Fails on all ranks where one has another matrix than rank 0, or other options.
pub(crate) fn require_same_system<S: OnRanks>(
    world: &dyn Communicator,
    matrix: &S,
    options: Option<&SolverOptions>,
) -> Result<()> {
    let fields = matrix.fields();
    let form =
        format!("{} {} {} {} {options:?}", std::any::type_name::<S>(), matrix.shape(), matrix.form(), fields.len());
    require_same(world, "the shape of the grid, a side of it, or an option of the solver", form.as_bytes())?;
    let own: Vec<f64> = fields.into_iter().flat_map(weighed).collect();
    let mut first = own.clone();
    world.broadcast(bytes_of_mut(&mut first))?;
    // Machines may differ in the last digits of their results.
    let is_same = own
        .as_chunks()
        .0
        .iter()
        .zip(first.as_chunks().0)
        .all(|(&[sum, _], &[first, size])| (sum - first).abs() <= 1e-9 * size);
    agree(
        world,
        if is_same {
            Ok(())
        } else {
            Err(Error::invalid(
                "a coefficient of the matrix",
                "not the same as on rank 0; give every rank the coefficients of the whole grid, not those of its own rows alone",
            ))
        },
    )
}

/// Returns a sum of the numbers with weights that depend on their places, and the sum of their absolute values.
fn weighed(numbers: &[f64]) -> [f64; 2] {
    const GOLDEN: f64 = 0.618_033_988_749_894_8;
    let term = |(n, &value): (usize, &f64)| [value * (1.0 + (n as f64 * GOLDEN).fract()), value.abs()];
    numbers.iter().enumerate().map(term).fold([0.0; 2], |[sum, size], [a, b]| [sum + a, size + b])
}

/// Fails on all ranks where one has other data than rank 0.
pub(crate) fn require_same(world: &dyn Communicator, what: &str, data: &[u8]) -> Result<()> {
    let own = digest(data).to_le_bytes();
    let mut first = own;
    world.broadcast(&mut first)?;
    let is_same = if own == first { Ok(()) } else { Err(Error::invalid(what, "not the same as on rank 0")) };
    agree(world, is_same)
}

/// Joins a rank that computes on a GPU to the others' GPUs.
pub(crate) fn join_cuda(card: &Cuda, world: &Arc<dyn Communicator>) -> Result<Cuda> {
    let connected = card.join(world.rank(), world.size(), &mut |mine| world.all_gather_equal(mine))?;
    Ok(join(connected, Arc::clone(world)))
}

/// A matrix that may be divided among ranks.
pub(crate) trait OnRanks: Stencil {
    /// Whether the stencil may be divided among ranks.
    const IS_DIVIDED: bool = false;

    /// Returns the grids of multigrid without ranks, finest first, as many as possible.
    fn levels(&self) -> Vec<Shape> {
        std::iter::successors(Some(self.shape()), Shape::halved).collect()
    }

    /// Returns its coefficients, cell by cell or column by column.
    fn fields(&self) -> Vec<&[f64]> {
        Vec::new()
    }

    /// Returns everything else that distinguishes it.
    fn form(&self) -> String {
        String::new()
    }
}

pub(crate) fn one_rank_only(what: &str) -> Error {
    Error::Unsupported(format!("{what} on several ranks; run on one"))
}

impl OnRanks for TensorProduct {
    const IS_DIVIDED: bool = true;

    fn fields(&self) -> Vec<&[f64]> {
        let (vertical, horizontal) = (self.vertical(), self.horizontal());
        let layers = [&vertical.a, &vertical.b, &vertical.c, &vertical.d];
        let columns = [&horizontal.area, &horizontal.west, &horizontal.east, &horizontal.south, &horizontal.north];
        layers.into_iter().chain(columns).map(Vec::as_slice).collect()
    }
}

impl OnRanks for Diffusion {
    const IS_DIVIDED: bool = true;

    fn fields(&self) -> Vec<&[f64]> {
        let coefficients: Vec<&[f64]> = match self.coefficients() {
            Coefficients::Cells { fields, .. } => fields.iter().map(|field| &**field).collect(),
            Coefficients::Faces(faces) => faces.iter().map(|faces| &**faces).collect(),
            // These cannot be divided.
            Coefficients::DeviceCells { .. } | Coefficients::DeviceFaces { .. } => Vec::new(),
        };
        coefficients.into_iter().chain(self.stored_shift()).collect()
    }

    fn form(&self) -> String {
        let axes = match self.coefficients() {
            Coefficients::Cells { axes, .. } => Some(axes),
            _ => None,
        };
        format!("{:?} {axes:?}", self.sides())
    }

    /// Returns the grids of point relaxation.
    fn levels(&self) -> Vec<Shape> {
        let shape = self.turns().around(self.shape());
        let steps = halvings(shape, self.ends(), self.strengths(), None);
        std::iter::once(shape).chain(steps.iter().map(|by| by.coarse)).collect()
    }
}

impl OnRanks for StoredMatrix {}

impl OnRanks for OwnOperator {}
