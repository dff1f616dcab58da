//! A caller's arrays to the device and back.

use crate::array::{ArrayView, ArrayViewMut, Source, Target};
use crate::backend::Backend;
use crate::error::{Error, Result};
use crate::layout::Shape;
use crate::real::Real;
use crate::stencil::rings::Turns;

/// A caller's array to all turns of a solver's grid around it.
pub(crate) fn upload<B: Backend>(
    backend: &B,
    turns: Turns,
    source: Source<'_>,
    target: &mut B::Vector<f64>,
) -> Result<()> {
    match source {
        Source::F64(view) => send(backend, turns, view, target),
        Source::F32(view) => send(backend, turns, view, target),
        Source::Device(array) => {
            turns.require_one("arrays in the memory of a GPU")?;
            backend.import(&array, target)
        }
    }
}

/// The same from host memory.
pub(crate) fn send<B: Backend, T: Real>(
    backend: &B,
    turns: Turns,
    view: ArrayView<'_, T>,
    target: &mut B::Vector<f64>,
) -> Result<()> {
    if turns == Turns::ONE {
        return backend.upload(view, target);
    }
    let values = turns.repeat(&view);
    backend.upload(ArrayView::c_order(&values, turns.around(view.shape()))?, target)
}

/// The mean of all turns of a solver's grid to a caller's array.
pub(crate) fn download<B: Backend>(
    backend: &B,
    turns: Turns,
    source: &B::Vector<f64>,
    target: &mut Target<'_>,
) -> Result<()> {
    match target {
        Target::F64(view) => fetch(backend, turns, source, view),
        Target::F32(view) => fetch(backend, turns, source, view),
        Target::Device(array) => {
            turns.require_one("arrays in the memory of a GPU")?;
            backend.export(source, array)
        }
    }
}

/// The same to host memory.
pub(crate) fn fetch<B: Backend, T: Real>(
    backend: &B,
    turns: Turns,
    source: &B::Vector<f64>,
    target: &mut ArrayViewMut<'_, T>,
) -> Result<()> {
    if turns == Turns::ONE {
        return backend.download(source, target);
    }
    let shape = target.shape();
    let around = turns.around(shape);
    let mut values = vec![T::ZERO; around.cells()];
    backend.download(source, &mut ArrayViewMut::c_order(&mut values, around)?)?;
    let layers = values.chunks_exact_mut(around.nx * around.ny);
    for (k, layer) in layers.enumerate() {
        turns.take_means(shape, layer);
        for (j, line) in layer.chunks_exact(around.nx).take(shape.ny).enumerate() {
            target.set_line(j, k, &line[..shape.nx]);
        }
    }
    Ok(())
}

/// Names the first entry of a host's array that is not finite, if there is one.
pub(crate) fn find_not_finite(what: &str, array: Source<'_>) -> Result<()> {
    fn find<T: Real>(what: &str, array: &ArrayView<'_, T>) -> Result<()> {
        let Shape { nx, ny, nz } = array.shape();
        for k in 0..nz {
            for j in 0..ny {
                for i in 0..nx {
                    let value = array.get(i, j, k).to_f64();
                    if !value.is_finite() {
                        return Err(Error::NotFinite { what: what.into(), value, i, j, k });
                    }
                }
            }
        }
        Ok(())
    }
    match array {
        Source::F64(view) => find(what, &view),
        Source::F32(view) => find(what, &view),
        Source::Device(_) => Ok(()),
    }
}
