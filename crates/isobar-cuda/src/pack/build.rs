//! Compilation of packs, which needs NVRTC but no GPU.

use std::path::{Path, PathBuf};

use isobar_core::error::Result;
use rayon::prelude::*;

use super::list::Listed;
use super::{Pack, file_name};
use crate::driver::error;
use crate::nvrtc::Nvrtc;

/// Compiles kernels for an architecture such as `sm_90` on all cores, and writes their pack into a folder. Returns its path.
///
/// # Errors
/// A kernel cannot be compiled, or only with a warning; the pack cannot be written.
pub fn build(nvrtc: &Nvrtc, kernels: &[Listed], architecture: &str, folder: &Path) -> Result<PathBuf> {
    let compile = |Listed { source, kernel }: &Listed| {
        let options = source.options(architecture, Some(kernel));
        let compiled = nvrtc.compile(&format!("{}.cu", source.name), source.text(), &options)?;
        if !compiled.log.trim().is_empty() {
            return Err(error(format!("{kernel} of {}.cu, {options:?}: {}", source.name, compiled.log)));
        }
        let symbol = format!("\0{kernel}\0").into_bytes();
        if !compiled.cubin.windows(symbol.len()).any(|bytes| bytes == symbol) {
            return Err(error(format!("{}.cu has no kernel {kernel}", source.name)));
        }
        Ok((source.key(&options), compiled.cubin))
    };
    let codes = kernels.par_iter().map(compile).collect::<Result<Vec<_>>>()?;
    let path = folder.join(file_name(architecture));
    Pack::write(&path, architecture, nvrtc.version(), &codes)?;
    Ok(path)
}
