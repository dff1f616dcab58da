//! The section `[output]` of a case.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::{Document, Problem, Result, Unknowns};

/// `[output]`: files that the command writes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OutputSection {
    /// A zarr store for the fluxes through all faces; after reading, relative to the working directory.
    pub flux: Option<PathBuf>,
}

/// Reads `[output]` and checks that the problem has the results to be written.
pub(crate) fn read_output(document: &Document<'_>, problem: &Problem, folder: &Path) -> Result<OutputSection> {
    let mut output: OutputSection = document.read("output")?;
    let Some(flux) = &mut output.flux else { return Ok(output) };
    let fail = |message: &str| Err(document.failure_at_key("output.flux", message));
    match problem {
        Problem::Diffusion(case) if case.faces.is_some() || case.section.unknowns == Unknowns::Cells => {}
        Problem::Diffusion(_) => {
            return fail(
                "fluxes are defined for unknowns in cells only; remove this key, or set diffusion.unknowns = \"cells\"",
            );
        }
        _ => {
            let kind = problem.kind();
            return fail(&format!(
                "fluxes are computed for problem.kind = \"diffusion\" only, not \"{kind}\"; remove this key"
            ));
        }
    }
    if !flux.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("zarr")) {
        return fail("fluxes are three arrays and need a zarr store; use a name that ends in .zarr");
    }
    *flux = folder.join(&*flux);
    Ok(output)
}
