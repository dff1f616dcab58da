//! A caller's arrays to the device and back.

use crate::array::{ArrayView, Source, Target};
use crate::backend::Backend;
use crate::error::{Error, Result};
use crate::layout::Shape;
use crate::real::Real;

pub(crate) fn upload<B: Backend>(backend: &B, source: Source<'_>, target: &mut B::Vector<f64>) -> Result<()> {
    match source {
        Source::F64(view) => backend.upload(view, target),
        Source::F32(view) => backend.upload(view, target),
        Source::Device(array) => backend.import(&array, target),
    }
}

pub(crate) fn download<B: Backend>(backend: &B, source: &B::Vector<f64>, target: &mut Target<'_>) -> Result<()> {
    match target {
        Target::F64(view) => backend.download(source, view),
        Target::F32(view) => backend.download(source, view),
        Target::Device(array) => backend.export(source, array),
    }
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
