//! Compilation of packs, which needs NVRTC but no GPU.

use std::path::{Path, PathBuf};

use isobar_core::prelude::{Execute, Host, Result};

use super::list::Listed;
use super::{Pack, file_name};
use crate::driver::error;
use crate::nvrtc::Nvrtc;

/// Compiles kernels for an architecture such as `sm_90` on all cores, and writes their pack into a folder. Returns its path.
///
/// # Errors
/// A kernel cannot be compiled, or only with a warning; the pack cannot be written.
pub fn build(nvrtc: &Nvrtc, kernels: &[Listed], architecture: &str, folder: &Path) -> Result<PathBuf> {
    let compile = |listed: &Listed| {
        let Listed { source, kernel } = listed;
        let options = source.options(architecture, Some(kernel));
        let compiled = nvrtc.compile(&format!("{}.cu", source.name), source.text(), &options)?;
        if !compiled.log.trim().is_empty() {
            return Err(error(format!("{kernel} of {}.cu, {options:?}: {}", source.name, compiled.log)));
        }
        if has_symbol(&compiled.cubin, kernel)
            && !source.kernels().any(|other| other != kernel && has_symbol(&compiled.cubin, other))
        {
            Ok((listed.key(architecture), compiled.cubin))
        } else {
            Err(error(format!("{}.cu has no kernel {kernel}, or others were compiled, too", source.name)))
        }
    };
    let mut codes: Vec<_> = kernels.iter().map(|listed| (listed, None)).collect();
    Host.for_each(&mut codes, |_, (listed, code)| *code = Some(compile(listed)));
    let codes = codes.into_iter().filter_map(|(_, code)| code).collect::<Result<Vec<_>>>()?;
    let path = folder.join(file_name(architecture));
    Pack::write(&path, architecture, nvrtc.version(), &codes)?;
    Ok(path)
}

fn has_symbol(cubin: &[u8], name: &str) -> bool {
    let symbol = format!("\0{name}\0").into_bytes();
    cubin.windows(symbol.len()).any(|bytes| bytes == symbol)
}
