//! The serial back end that specifies all others: plain loops, nothing fused, nothing clever.

mod csr;
mod diffusion;
mod region;
mod tensor_product;
mod vector;

use crate::backend::{Backend, CsrBackend, DeviceInfo, HostScalars, Ratio, Slot, TensorProductBackend};
use crate::error::{Error, Result};
use crate::layout::{ArrayView, ArrayViewMut, Layout, Shape};
use crate::real::Real;
use crate::stencil::{Csr, TensorProduct};

pub use csr::{StoredMatrix, StoredTridiagonal, check_matrix, grid_point};
pub use diffusion::PlainDiffusion;
pub use region::DenseMatrix;
pub use tensor_product::PlainTensorProduct;
pub use vector::Vector;

/// The serial reference back end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reference;

/// Fails where a caller's array does not have the shape of a vector.
///
/// # Errors
/// [`Error::Shape`]
pub fn check_shape(found: Shape, expected: Shape) -> Result<()> {
    if found == expected { Ok(()) } else { Err(Error::shape("array", found.to_string(), expected.to_string())) }
}

impl Backend for Reference {
    type Vector<T: Real> = Vector<T>;
    type Scalars = HostScalars;

    fn device(&self) -> DeviceInfo {
        DeviceInfo { kind: "cpu", name: "serial reference".into(), count: 1, threads: 1 }
    }

    fn zeros<T: Real>(&self, layout: &Layout) -> Result<Vector<T>> {
        Vector::zeros(layout)
    }

    fn upload<S: Real, T: Real>(&self, source: ArrayView<'_, S>, target: &mut Vector<T>) -> Result<()> {
        check_shape(source.shape(), target.layout().shape())?;
        target.fill_with(|i, j, k| T::from_f64(source.get(i, j, k).to_f64()));
        Ok(())
    }

    fn download<S: Real, T: Real>(&self, source: &Vector<T>, target: &mut ArrayViewMut<'_, S>) -> Result<()> {
        let shape = source.layout().shape();
        check_shape(target.shape(), shape)?;
        for j in 0..shape.ny {
            for k in 0..shape.nz {
                for i in 0..shape.nx {
                    target.set(i, j, k, S::from_f64(source.get(i, j, k).to_f64()));
                }
            }
        }
        Ok(())
    }

    fn clear<T: Real>(&self, x: &mut Vector<T>) -> Result<()> {
        x.entries_mut().fill(T::ZERO);
        Ok(())
    }

    fn convert<S: Real, T: Real>(&self, x: &Vector<S>, y: &mut Vector<T>) -> Result<()> {
        for (y, x) in y.entries_mut().iter_mut().zip(x.entries()) {
            *y = T::from_f64(x.to_f64());
        }
        Ok(())
    }

    fn axpy<S: Real, T: Real>(&self, a: Ratio, x: &Vector<S>, y: &mut Vector<T>, scalars: &HostScalars) -> Result<()> {
        let a = T::from_f64(a.value(&scalars.0));
        for (y, x) in y.entries_mut().iter_mut().zip(x.entries()) {
            *y += a * T::from_f64(x.to_f64());
        }
        Ok(())
    }

    fn xpay<T: Real>(&self, a: Ratio, x: &Vector<T>, y: &mut Vector<T>, scalars: &HostScalars) -> Result<()> {
        let a = T::from_f64(a.value(&scalars.0));
        for (y, &x) in y.entries_mut().iter_mut().zip(x.entries()) {
            *y = x + a * *y;
        }
        Ok(())
    }

    fn dot<T: Real>(&self, x: &Vector<T>, y: &Vector<T>, out: Slot, scalars: &mut HostScalars) -> Result<()> {
        scalars.0[out.index()] = x.entries().iter().zip(y.entries()).map(|(x, y)| x.to_f64() * y.to_f64()).sum();
        Ok(())
    }

    fn scalars(&self) -> Result<HostScalars> {
        Ok(HostScalars::default())
    }

    fn set(&self, scalars: &mut HostScalars, slot: Slot, value: f64) -> Result<()> {
        scalars.0[slot.index()] = value;
        Ok(())
    }

    fn read(&self, scalars: &HostScalars) -> Result<[f64; Slot::COUNT]> {
        Ok(scalars.0)
    }

    fn synchronize(&self) -> Result<()> {
        Ok(())
    }

    fn copy_bandwidth(&self, layout: &Layout) -> Result<f64> {
        let (x, mut y) = (Vector::<f64>::zeros(layout)?, Vector::<f64>::zeros(layout)?);
        let clock = std::time::Instant::now();
        self.convert(&x, &mut y)?;
        Ok(2.0 * (layout.len() * size_of::<f64>()) as f64 / clock.elapsed().as_secs_f64().max(1e-9))
    }
}

impl TensorProductBackend for Reference {
    type TensorProduct<T: Real> = PlainTensorProduct<T>;

    fn tensor_product<T: Real>(&self, stencil: &TensorProduct) -> Result<PlainTensorProduct<T>> {
        PlainTensorProduct::new(stencil)
    }
}

impl CsrBackend for Reference {
    type Csr<T: Real> = StoredMatrix<T>;
    type Tridiagonal<T: Real> = StoredTridiagonal<T>;

    fn csr<T: Real>(&self, matrix: &Csr, layout: &Layout) -> Result<StoredMatrix<T>> {
        StoredMatrix::new(matrix, layout)
    }

    fn tridiagonal<T: Real>(&self, matrix: &Csr, layout: &Layout) -> Result<StoredTridiagonal<T>> {
        StoredTridiagonal::new(matrix, layout)
    }
}
