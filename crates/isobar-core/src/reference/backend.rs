//! The reference back end as solvers see it: vectors, operations on them, and scalars.

use super::{Reference, Vector, check_shape, direct};
use crate::backend::{DeviceInfo, SharedDirect};
use crate::direct::Separable;
use crate::{ArrayView, ArrayViewMut, Backend, HostScalars, Layout, Ratio, Real, Result, Scalar, Sum};

impl Backend for Reference {
    type Vector<T: Real> = Vector<T>;
    type Scalars = HostScalars;

    fn device(&self) -> DeviceInfo {
        DeviceInfo { kind: "cpu", name: "serial reference".into(), count: 1, ranks: 1, threads: 1 }
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
        for [i, j, k] in shape.places() {
            target.set(i, j, k, S::from_f64(source.get(i, j, k).to_f64()));
        }
        Ok(())
    }

    fn clear<T: Real>(&self, x: &mut Vector<T>) -> Result<()> {
        x.all_entries_mut().fill(T::ZERO);
        Ok(())
    }

    fn convert<S: Real, T: Real>(&self, x: &Vector<S>, y: &mut Vector<T>) -> Result<()> {
        for (y, x) in y.all_entries_mut().iter_mut().zip(x.all_entries()) {
            *y = T::from_f64(x.to_f64());
        }
        Ok(())
    }

    fn scale<T: Real>(&self, a: f64, x: &mut Vector<T>) -> Result<()> {
        for x in x.all_entries_mut() {
            *x = *x * T::from_f64(a);
        }
        Ok(())
    }

    fn extrapolate<T: Real>(&self, tau: f64, x: &Vector<T>, y: &mut Vector<T>) -> Result<()> {
        let more = T::from_f64(tau - 1.0);
        for (y, &x) in y.all_entries_mut().iter_mut().zip(x.all_entries()) {
            *y = more.mul_add(*y - x, *y);
        }
        Ok(())
    }

    fn axpy<S: Real, T: Real>(&self, a: Ratio, x: &Vector<S>, y: &mut Vector<T>, scalars: &HostScalars) -> Result<()> {
        let a = T::from_f64(scalars.value(a));
        for (y, x) in y.all_entries_mut().iter_mut().zip(x.all_entries()) {
            *y += a * T::from_f64(x.to_f64());
        }
        Ok(())
    }

    fn xpay<S: Real, T: Real>(&self, a: Ratio, x: &Vector<S>, y: &mut Vector<T>, scalars: &HostScalars) -> Result<()> {
        let a = T::from_f64(scalars.value(a));
        for (y, x) in y.all_entries_mut().iter_mut().zip(x.all_entries()) {
            *y = T::from_f64(x.to_f64()) + a * *y;
        }
        Ok(())
    }

    fn dot<T: Real>(&self, x: &Vector<T>, y: &Vector<T>, (out, scalars): Sum<'_, Reference>) -> Result<()> {
        scalars.reduce(out, [x.entries().iter().zip(y.entries()).map(|(x, y)| x.to_f64() * y.to_f64()).sum()]);
        Ok(())
    }

    fn scalars(&self) -> Result<HostScalars> {
        Ok(HostScalars::default())
    }

    fn set(&self, scalars: &mut HostScalars, scalar: Scalar, value: f64) -> Result<()> {
        scalars.set(scalar, value);
        Ok(())
    }

    fn read(&self, scalars: &HostScalars) -> Result<[f64; Scalar::COUNT]> {
        Ok(scalars.bank())
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

    fn has_direct(&self) -> bool {
        true
    }

    fn direct(&self, _: &Layout, factors: &Separable) -> Result<Option<SharedDirect<Self>>> {
        direct::direct(factors).map(Some)
    }
}
