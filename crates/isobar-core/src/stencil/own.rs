//! A caller's own matrix: a function that applies it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use super::{Stencil, Supports};
use crate::backend::AggregateBackend;
use crate::operator::{Capabilities, Diagonal, Operator};
use crate::options::SolverOptions;
use crate::policy::Choice;
use crate::{ArrayView, ArrayViewMut, Backend, Error, Layout, Real, Result, Shape, lock};

/// A caller's own matrix. Arrays are in host memory, in C order of shape (nz, ny, nx).
pub trait OwnMatrix: Send + Sync {
    /// Computes y = A x.
    ///
    /// # Errors
    /// Any error ends the solve.
    fn apply(&self, x: &[f64], y: &mut [f64]) -> Result<()>;

    /// Returns the diagonal of A, if it is known; the preconditioner "jacobi" needs it. Entries of 0 belong to inactive
    /// unknowns.
    fn diagonal(&self) -> Option<Vec<f64>> {
        None
    }
}

/// An [`OwnMatrix`] as a stencil. On a GPU every application copies two vectors across the bus; a matrix that runs
/// there implements [`Operator`].
#[derive(Clone)]
pub struct OwnOperator {
    shape: Shape,
    is_symmetric: bool,
    matrix: Arc<dyn OwnMatrix>,
    diagonal: Option<Arc<[f64]>>,
}

impl OwnOperator {
    /// Makes a matrix that acts on the cells of a grid. Conjugate gradients rely on a matrix that is declared
    /// symmetric being symmetric and positive (semi-)definite.
    ///
    /// # Errors
    /// See [`Layout::new`]; [`Error::Shape`] or [`Error::Invalid`] for a diagonal of another length, or not finite.
    pub fn new(shape: Shape, is_symmetric: bool, matrix: impl OwnMatrix + 'static) -> Result<Self> {
        Layout::new(shape)?;
        let diagonal = matrix.diagonal().map(Arc::<[f64]>::from);
        if let Some(diagonal) = &diagonal {
            ArrayView::c_order(diagonal, shape)?;
            if let Some(n) = diagonal.iter().position(|value| !value.is_finite()) {
                return Err(Error::invalid("the diagonal", format!("entry {n} is {}", diagonal[n])));
            }
        }
        Ok(Self { shape, is_symmetric, matrix: Arc::new(matrix), diagonal })
    }
}

impl fmt::Debug for OwnOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnOperator").field("shape", &self.shape).finish_non_exhaustive()
    }
}

impl Stencil for OwnOperator {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn is_symmetric(&self) -> bool {
        self.is_symmetric
    }

    fn choice(&self, _: &SolverOptions) -> Choice {
        Choice::of_rows(self.is_symmetric, self.diagonal.is_some())
    }

    fn check_update(&self, new: &Self) -> Result<()> {
        Error::unless_equal("the new operator", new.shape, self.shape)?;
        if self.diagonal.is_some() != new.diagonal.is_some() {
            return Err(Error::invalid("the diagonal", "given before or now, and not both times"));
        }
        Ok(())
    }
}

/// An [`OwnOperator`] applied to a device's vectors.
#[derive(Debug)]
pub struct HostOperator<B> {
    backend: B,
    layout: Layout,
    state: Mutex<HostState>,
}

#[derive(Debug)]
struct HostState {
    stencil: OwnOperator,
    /// The arrays x and y in C order.
    arrays: [Vec<f64>; 2],
}

impl<B: Backend> HostOperator<B> {
    fn state(&self) -> MutexGuard<'_, HostState> {
        lock(&self.state)
    }

    /// Computes y = f(x) through host arrays.
    fn by_host<T: Real>(
        &self,
        x: &B::Vector<T>,
        y: &mut B::Vector<T>,
        f: impl FnOnce(&OwnOperator, &[f64], &mut [f64]) -> Result<()>,
    ) -> Result<()> {
        let mut state = self.state();
        let HostState { stencil, arrays: [host_x, host_y] } = &mut *state;
        let shape = self.layout.shape();
        self.backend.download(x, &mut ArrayViewMut::c_order(host_x, shape)?)?;
        f(stencil, host_x, host_y)?;
        self.backend.upload(ArrayView::c_order(host_y, shape)?, y)
    }
}

impl<B: Backend, T: Real> Operator<B, T> for HostOperator<B> {
    fn backend(&self) -> &B {
        &self.backend
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn apply(&self, x: &mut B::Vector<T>, y: &mut B::Vector<T>) -> Result<()> {
        self.by_host(x, y, |stencil, x, y| stencil.matrix.apply(x, y))
    }

    fn needs_host(&self) -> bool {
        true
    }
}

impl<B: Backend, T: Real> Diagonal<B, T> for HostOperator<B> {
    fn divide_by_diagonal(&self, r: &B::Vector<T>, z: &mut B::Vector<T>) -> Result<()> {
        self.by_host(r, z, |stencil, r, z| {
            let diagonal = stencil.diagonal.iter().flat_map(|diagonal| diagonal.iter());
            for ((z, r), d) in z.iter_mut().zip(r).zip(diagonal) {
                *z = if *d == 0.0 { 0.0 } else { r / d };
            }
            Ok(())
        })
    }
}

impl<B: AggregateBackend> Supports<OwnOperator> for B {
    type Operator<T: Real> = HostOperator<B>;

    fn operator<T: Real>(&self, stencil: &OwnOperator) -> Result<Arc<HostOperator<B>>> {
        let layout = Supports::<OwnOperator>::layout(self, stencil)?;
        let arrays = [vec![0.0; stencil.shape.cells()], vec![0.0; stencil.shape.cells()]];
        let state = Mutex::new(HostState { stencil: stencil.clone(), arrays });
        Ok(Arc::new(HostOperator { backend: self.clone(), layout, state }))
    }

    fn update<T: Real>(&self, operator: &HostOperator<B>, stencil: &OwnOperator) -> Result<bool> {
        operator.state().stencil = stencil.clone();
        Ok(true)
    }

    fn capabilities<T: Real>(&self, operator: &Arc<HostOperator<B>>) -> Capabilities<Self, T> {
        let mut capabilities = Capabilities::of_rows(operator);
        if operator.state().stencil.diagonal.is_none() {
            capabilities.diagonal = None;
        }
        capabilities
    }
}
