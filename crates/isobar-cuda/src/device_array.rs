//! Callers' arrays that are on the card already.

use std::marker::PhantomData;

use isobar_core::layout::Shape;
use isobar_core::real::Real;

use crate::driver::Pointer;

/// A caller's three-dimensional array in the memory of the card, with any strides: what CUDA's runtime,
/// Fortran's OpenACC, PyTorch or CuPy allocated. (isobar works in the device's primary context, as they do.)
///
/// ```no_run
/// use isobar_core::operator::Guess;
/// use isobar_core::options::SolverOptions;
/// use isobar_core::problem::Helmholtz;
/// use isobar_core::solver::System;
/// use isobar_cuda::{Cuda, DeviceArray};
///
/// # fn main() -> isobar_core::Result<()> {
/// # let (rhs_pointer, u_pointer) = (0, 0);
/// let cuda = Cuda::new(0)?;
/// let stencil = Helmholtz::default().stencil()?;
/// let mut system = System::new(&cuda, &stencil, &SolverOptions::default())?;
///
/// // SAFETY: both pointers are to nz × ny × nx doubles on card 0, and nothing else uses them meanwhile.
/// let (rhs, mut u) = unsafe {
///     (
///         DeviceArray::<f64>::c_order(rhs_pointer, stencil.shape()),
///         DeviceArray::<f64>::c_order(u_pointer, stencil.shape()),
///     )
/// };
/// cuda.import(&rhs, system.rhs_mut())?;
/// let outcome = system.solve_in_place(Guess::Zero, &mut |_| {})?;
/// cuda.export(system.solution(), &mut u)?;
/// # let _ = outcome;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct DeviceArray<S> {
    pointer: Pointer,
    shape: Shape,
    strides: [usize; 3],
    elements: PhantomData<S>,
}

impl<S: Real> DeviceArray<S> {
    /// The array whose element (i, j, k) is `i · strides[0] + j · strides[1] + k · strides[2]` elements
    /// behind `pointer`, an address on the card.
    ///
    /// # Safety
    /// All those elements lie in memory of the card that stays allocated while the array is used, and
    /// nothing else writes them, or reads what isobar writes, before the call that uses the array returns.
    pub unsafe fn new(pointer: u64, shape: Shape, strides: [usize; 3]) -> Self {
        Self { pointer, shape, strides, elements: PhantomData }
    }

    /// The same in C order, shape (nz, ny, nx).
    ///
    /// # Safety
    /// As [`DeviceArray::new`].
    pub unsafe fn c_order(pointer: u64, shape: Shape) -> Self {
        // SAFETY: promised by the caller.
        unsafe { Self::new(pointer, shape, [1, shape.nx, shape.nx * shape.ny]) }
    }

    /// The grid.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    pub(crate) fn pointer(&self) -> Pointer {
        self.pointer
    }

    pub(crate) fn strides(&self) -> [usize; 3] {
        self.strides
    }
}
