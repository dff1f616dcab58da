//! This module lists the keys of a case, for suggestions. They come from the readers: the error of an unknown key lists
//! the known ones.

use isobar::grid::GridOptions;
use isobar::options::SolverOptions;
use serde::de::DeserializeOwned;

use crate::diffusion::{DiffusionSection, FacesSection, GridSection};
use crate::document::Document;
use crate::heat::HeatSection;
use crate::helmholtz::HelmholtzSection;
use crate::output::OutputSection;
use crate::reader::{Problem, ReadError, Reader};

/// The most parts of a key; longer ones belong to values.
const DEEPEST: usize = 3;

/// Returns every dotted key that a case may have.
pub(crate) fn keys() -> Vec<String> {
    let mut found = ["problem.kind", "solver.guess"].map(str::to_owned).to_vec();
    add::<HelmholtzSection>("problem", &mut found);
    add::<GridOptions>("grid", &mut found);
    add::<GridSection>("grid", &mut found);
    add::<SolverOptions>("solver", &mut found);
    add::<DiffusionSection>("diffusion", &mut found);
    add::<FacesSection>("faces", &mut found);
    add::<HeatSection>("heat", &mut found);
    add::<OutputSection>("output", &mut found);
    found
}

/// Adds the keys below a path, or the path itself if it has none. `T` is the type of the path's section.
fn add<T: DeserializeOwned>(path: &str, found: &mut Vec<String>) {
    let known = if path.split('.').count() < DEEPEST { known_below::<T>(path) } else { &[] };
    if known.is_empty() {
        found.push(path.to_owned());
    }
    known.iter().for_each(|key| add::<T>(&format!("{path}.{key}"), found));
}

/// Returns the keys that a table at this path may have; none if a value is no table.
fn known_below<T: DeserializeOwned>(path: &str) -> &'static [&'static str] {
    let text = format!("{path}.\"\" = 0");
    let section = path.split('.').next().unwrap_or(path);
    let document = Document::parse("", &text, Vec::new);
    let node = document.as_ref().ok().and_then(|document| document.get(section));
    match node.map(|node| T::deserialize(Reader::new(node, &[]))) {
        Some(Err(ReadError { problem: Problem::UnknownKey { known, .. }, .. })) => known,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::keys;

    #[test]
    fn readers_name_the_keys_of_all_sections() {
        let keys = keys();
        for key in [
            "problem.rhs.weighting",
            "grid.depth",
            "grid.spacing",
            "solver.method",
            "solver.jacobi.batch",
            "solver.preconditioner.order",
            "solver.deflation.stripes",
            "diffusion.boundary.all",
            "diffusion.coefficient.image",
            "diffusion.sources",
            "faces.shift",
            "heat.checkpoint_every",
            "output.flux",
        ] {
            assert!(keys.iter().any(|known| known == key), "{key} is not one of {keys:?}");
        }
    }
}
