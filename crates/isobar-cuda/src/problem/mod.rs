//! Diffusion problems whose coefficients are callers' arrays on a GPU: matrices, right-hand sides and derivatives. [`isobar_core::problem`] is the specification.
//!
//! * [`Form`]: everything but the coefficients, for arrays that a caller owns,
//! * [`DeviceProblem`]: a form that owns its coefficients,
//! * [`DeviceFaces`]: conductances of faces.

mod cells;
mod device_problem;
mod faces;
mod gradient;

use isobar_core::array::DeviceArray;
use isobar_core::error::{Error, Result};
use isobar_core::layout::Shape;
use isobar_core::problem::{Boundary, Coefficient, DiffusionProblem, SideFields};
use isobar_core::real::Precision;
use isobar_core::reference::check_shape;

use crate::compile::Source;
use crate::cuda::Cuda;
use crate::driver::Pointer;
use crate::kernels;
use crate::launch::Arguments;
use crate::memory::Buffer;
use crate::vector::check_size;

pub use cells::DeviceField;
pub use device_problem::DeviceProblem;
pub use faces::DeviceFaces;
pub use gradient::Derivatives;

pub(crate) fn source() -> Source {
    Source::new("problem", kernels::PROBLEM)
}

/// The grid, the widths of cells, the sides, sources and wells of a diffusion problem on a GPU: everything but κ, c and f, which stay where their owner has them.
#[derive(Debug)]
pub struct Form {
    cuda: Cuda,
    shape: Shape,
    /// The problem without coefficients.
    problem: DiffusionProblem,
    /// `Form` of problem.cu, and the arrays that it refers to.
    memory: Buffer,
}

/// `Array` of problem.cu; several, one after another, are `Arrays`.
type Words = [u64; 5];

/// A wanted array that is missing.
const NONE: Words = [0; 5];

/// The most blocks in the third direction of a launch.
const MOST_BLOCKS: usize = 65_535;

/// Submits a kernel with a thread for each of these cells of a layer, and at most so many blocks above each other.
fn submit(
    cuda: &Cuda,
    kernel: &'static str,
    Shape { nx, ny, nz }: Shape,
    most: usize,
    arguments: Arguments,
) -> Result<()> {
    let kernel = cuda.module(source()).kernel(kernel)?;
    cuda.launch(kernel, [nx.div_ceil(32), ny.div_ceil(8), nz.min(most)], [32, 8], arguments)
}

fn words(array: &DeviceArray) -> Words {
    let [x, y, z] = array.strides().map(|stride| stride as u64);
    [array.pointer(), x, y, z, u64::from(array.precision() == Precision::F32)]
}

/// Returns the arrays of κ in x, y and z.
fn along(kappa: &[DeviceArray]) -> Result<[&DeviceArray; 3]> {
    match kappa {
        [all] => Ok([all; 3]),
        [horizontal, vertical] => Ok([horizontal, horizontal, vertical]),
        [x, y, z] => Ok([x, y, z]),
        _ => Err(Error::invalid("kappa", format!("{} arrays; pass one, two or three", kappa.len()))),
    }
}

impl Form {
    /// Copies the widths, sides, sources and wells of a problem to a GPU. Cells with κ = 0 are inactive; a source or well in such cells alone is none, which
    /// [`Form::check_points`] reports. The problem's coefficients are not used, and may be empty.
    ///
    /// # Errors
    /// The errors of [`DiffusionProblem::check_form`]; [`Error::Unsupported`] for a mask and grids that are too large; the errors of the GPU.
    pub fn new(cuda: &Cuda, problem: DiffusionProblem) -> Result<Self> {
        problem.check_form()?;
        check_size(problem.shape)?;
        let problem = DiffusionProblem { coefficient: Coefficient::Isotropic(Vec::new()), reaction: None, ..problem };
        if problem.active.is_some() {
            return Err(Error::Unsupported(
                "a mask with coefficients in the memory of a GPU; set κ to 0 in inactive cells instead, or copy the coefficients to host memory".into(),
            ));
        }
        let (shape, extents) = (problem.shape, problem.shape.extents());
        let (mut record, mut arrays) = (Vec::<u64>::new(), Vec::<u64>::new());
        // Places in the arrays, which become addresses.
        let mut pointers = Vec::new();
        let mut point = |record: &mut Vec<u64>, array: Option<Vec<u64>>| {
            if let Some(array) = array {
                pointers.push((record.len(), arrays.len()));
                arrays.extend(array);
            }
            record.push(0);
        };
        let bits = |numbers: &Vec<f64>| numbers.iter().map(|number| number.to_bits()).collect();
        let sides = problem.boundary.iter().flatten().zip(problem.side_fields.iter().flatten());
        for (side, SideFields { value: values, coefficient: coefficients }) in sides {
            let (kind, value, coefficient) = match *side {
                Boundary::Neumann(flux) => (0, flux, 0.0),
                Boundary::Dirichlet(value) => (1, value, 0.0),
                Boundary::Robin { coefficient, value } => (2, value, coefficient),
                Boundary::Periodic => (3, 0.0, 0.0),
            };
            point(&mut record, values.as_ref().map(bits));
            point(&mut record, coefficients.as_ref().map(bits));
            record.extend([value.to_bits(), coefficient.to_bits(), kind]);
        }
        for (spacing, n) in problem.spacing.iter().zip(extents) {
            point(&mut record, Some((0..n).map(|m| spacing.width(m).to_bits()).collect()));
        }
        let place = |i: usize, j: usize, [first, last]: [usize; 2]| [i, j, first, last].map(|n| n as u64);
        let sources = problem.sources.iter().map(|source| (place(source.i, source.j, source.k), source.rate, 0.0));
        let wells = problem.wells.iter().map(|well| (place(well.i, well.j, well.k), well.value, well.radius));
        let words = |([i, j, first, last], number, radius): ([u64; 4], f64, f64)| {
            [i, j, first, last, number.to_bits(), radius.to_bits()]
        };
        point(&mut record, Some(sources.chain(wells).flat_map(words).collect()));
        record.extend(extents.map(|n| n as u64));
        record.push((problem.sources.len() + problem.wells.len()) as u64);
        let bytes = (record.len() + arrays.len()) * size_of::<u64>();
        let memory = Buffer::new(cuda.context(), bytes, "the widths and sides of a problem")?;
        let start = memory.start() + (record.len() * size_of::<u64>()) as Pointer;
        for (place, first) in pointers {
            record[place] = start + (first * size_of::<u64>()) as Pointer;
        }
        record.extend(arrays);
        memory.write(&record)?;
        Ok(Self { cuda: cuda.clone(), shape, problem, memory })
    }

    /// Submits work on callers' arrays of the grid's shape; see [`Cuda::with_device_arrays`].
    fn with_arrays(
        &self,
        read: &[&DeviceArray],
        written: &[&DeviceArray],
        work: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        read.iter().chain(written).try_for_each(|array| check_shape(array.shape(), self.shape))?;
        self.cuda.with_device_arrays(read, written, "a problem on the GPU", work)
    }

    /// Submits a kernel of the sources and wells, if there are any.
    fn submit_points<const N: usize>(
        &self,
        kernel: &'static str,
        arrays: [Words; N],
        arguments: impl FnOnce(Arguments) -> Arguments,
    ) -> Result<()> {
        match self.problem.sources.len() + self.problem.wells.len() {
            0 => Ok(()),
            count => self.submit(kernel, arrays, Shape::new(count, 1, 1), arguments),
        }
    }

    /// Submits a kernel on these arrays, with a thread for each of these cells of a layer.
    fn submit<const N: usize>(
        &self,
        kernel: &'static str,
        arrays: [Words; N],
        shape: Shape,
        arguments: impl FnOnce(Arguments) -> Arguments,
    ) -> Result<()> {
        let given = arguments(Arguments::new().with(self.memory.start()).with(arrays));
        submit(&self.cuda, kernel, shape, MOST_BLOCKS, given)
    }
}
