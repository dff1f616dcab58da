//! Running as one of several processes, started by `mpirun`.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use isobar::{Error, Ranks, Shape};
use isobar_case::report::{Checks, ErrorReport};
use isobar_io::{Mesh, SharedStore};

use crate::failure::{Failure, Result};

/// Attributes of a field.
pub type Facts = BTreeMap<String, String>;

/// Returns whether this process leaves all messages to rank 0.
pub fn is_silent() -> bool {
    Ranks::launched().is_some_and(|rank| rank > 0)
}

/// Fails if this is one of several processes.
///
/// # Errors
/// `mpirun` started this process.
pub fn refuse() -> Result<()> {
    match Ranks::launched() {
        None => Ok(()),
        Some(_) => Err(Failure::new("only `isobar solve` runs on several ranks; start this without mpirun")),
    }
}

/// Waits until rank 0 has printed its message: launchers end a job as soon as one of its processes fails, possibly before
/// rank 0 has printed anything. If rank 0 fails, its failure ends this process too.
pub fn let_rank_0_speak() {
    if is_silent() {
        std::thread::sleep(Duration::from_secs(2));
    }
}

/// Returns whether this rank writes files and prints the summary.
pub fn is_first(ranks: Option<&Ranks>) -> bool {
    ranks.is_none_or(|ranks| ranks.rank() == 0)
}

/// Checks that all ranks succeeded so far; without ranks, that this process did.
///
/// # Errors
/// The first failure of any rank, naming the rank.
pub fn agree<R>(ranks: Option<&Ranks>, mine: Result<R>) -> Result<R> {
    match ranks {
        None => mine,
        Some(ranks) => Ok(ranks.agree(mine.map_err(|failure| Error::Unsupported(failure.to_string())))?),
    }
}

/// Returns the result of a step that all ranks take together, in which one may fail while the others wait for it.
///
/// # Errors
/// The errors of [`agree`]. If this rank alone can have failed, the whole job is aborted.
pub fn together<R>(ranks: Option<&Ranks>, result: isobar::Result<R>) -> Result<R> {
    if let (Some(ranks), Err(error @ (Error::Device { .. } | Error::OutOfMemory { .. } | Error::Io(_)))) =
        (ranks, &result)
    {
        ranks.abort(&error.to_string());
    }
    agree(ranks, result.map_err(Failure::from))
}

/// Returns the sums over all ranks; without ranks, the values.
pub fn sum<const N: usize>(ranks: Option<&Ranks>, mut values: [f64; N]) -> Result<[f64; N]> {
    if let Some(ranks) = ranks {
        ranks.sum(&mut values)?;
    }
    Ok(values)
}

/// Collects the subdomains of all ranks on rank 0. `values` is an array of the whole grid, filled in the rank's subdomain.
pub fn gather(ranks: Option<&Ranks>, values: &mut [f64], shape: Shape) -> Result<()> {
    match ranks {
        Some(ranks) => together(Some(ranks), ranks.gather(values, shape)),
        None => Ok(()),
    }
}

/// Computes the sums of a solution that is distributed among the ranks.
pub fn checks(ranks: Option<&Ranks>, part: &[f64]) -> Result<Checks> {
    let own = Checks::new(part);
    let Some(ranks) = ranks else { return Ok(own) };
    let [sum, squares] = sum(Some(ranks), [own.sum, own.norm2 * own.norm2])?;
    Ok(Checks { sum, norm2: squares.sqrt() })
}

/// Computes the difference from the exact solution over all `cells` of the grid.
pub fn error(ranks: Option<&Ranks>, part: &[f64], exact: &[f64], cells: usize) -> Result<ErrorReport> {
    let own = ErrorReport::new(part, exact);
    let Some(ranks) = ranks else { return Ok(own) };
    let [squares] = sum(Some(ranks), [own.l2 * own.l2 * part.len() as f64])?;
    Ok(ErrorReport::of_all(ranks.largest(own.max)?, squares, cells))
}

/// Writes a distributed field as a `.zarr`, by all ranks at once: each writes whole chunks, whose layers it receives
/// from the others. The result equals that of one process.
///
/// # Errors
/// The first failure of any rank, naming the rank; no file remains then.
pub fn write_parts(ranks: &Ranks, path: &Path, part: &[f64], shape: Shape, mesh: &Mesh, facts: &Facts) -> Result<()> {
    let failed = |error: isobar_io::Error| Failure::new(format!("--output {error}"));
    let (name, of_file) = ("u", [shape.nz, shape.ny, shape.nx]);
    let begin = || -> Result<Option<(SharedStore, String)>> {
        if ranks.rank() > 0 {
            return Ok(None);
        }
        let store = SharedStore::begin(path, name, of_file).map_err(failed)?;
        let folder = std::path::absolute(store.folder()).ok().and_then(|folder| folder.to_str().map(str::to_owned));
        let Some(folder) = folder else {
            let message =
                format!("--output {}: the name of its folder is not UTF-8; choose another one", path.display());
            return Err(Failure::new(message));
        };
        Ok(Some((store, folder)))
    };
    let begun = agree(Some(ranks), begin())?;
    let folder = ranks.tell(begun.as_ref().map_or("", |(_, folder)| folder))?;
    let store = match begun {
        Some((store, _)) => Ok(store),
        None => SharedStore::join(path, name, of_file, Path::new(&folder)).map_err(failed),
    };
    let store = agree(Some(ranks), store)?;
    let (mut written, chunks) = (Ok(()), store.chunks());
    for (round, together) in chunks.chunks(ranks.size()).enumerate() {
        let layers: Vec<_> = (0..ranks.size()).map(|rank| together.get(rank).cloned().unwrap_or(0..0)).collect();
        let chunk = ranks.collect_layers(part, shape, &layers)?;
        // A rank that fails still takes part in the others' exchanges.
        if written.is_ok() && ranks.rank() < together.len() {
            written = store.write_chunk(round * ranks.size() + ranks.rank(), chunk).map_err(failed);
        }
    }
    agree(Some(ranks), written)?;
    agree(Some(ranks), store.finish(mesh, facts).map_err(failed))
}

/// Aborts the whole job if this process panics: the others would wait for it.
pub struct AbortOnPanic<'r>(pub &'r Ranks);

impl Drop for AbortOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.abort("it failed with an internal error of isobar");
        }
    }
}
