//! The command as one of several processes, started by `mpirun`.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use isobar::{Error, Ranks, Shape};
use isobar_case::report::{Checks, ErrorReport};
use isobar_io::{Mesh, SharedStore};

use crate::failure::{Failure, Result};
use crate::interrupt;

/// What travels with a field.
pub type Facts = BTreeMap<String, String>;

/// Whether this process leaves it to rank 0 to say what there is to say.
pub fn is_silent() -> bool {
    Ranks::launched().is_some_and(|rank| rank > 0)
}

/// Refuses to be one of several processes.
///
/// # Errors
/// `mpirun` started this process.
pub fn refuse() -> Result<()> {
    match Ranks::launched() {
        None => Ok(()),
        Some(_) => Err(Failure::new("mpirun: only `isobar solve` runs on several ranks; start this without mpirun")),
    }
}

/// Waits where rank 0 has something to say: launchers end a job as soon as a process of it ends with a failure, and rank 0
/// might not have said it yet. When it has, its own failure ends this process too.
pub fn let_rank_0_speak() {
    if is_silent() {
        std::thread::sleep(Duration::from_secs(2));
    }
}

/// Whether this rank writes, and speaks for all.
pub fn is_first(ranks: Option<&Ranks>) -> bool {
    ranks.is_none_or(|ranks| ranks.rank() == 0)
}

/// Agrees on whether all ranks have got so far; without ranks, this one.
///
/// # Errors
/// The first failure of any, which names its rank.
pub fn agree<R>(ranks: Option<&Ranks>, mine: Result<R>) -> Result<R> {
    match ranks {
        None => mine,
        Some(ranks) => Ok(ranks.agree(mine.map_err(|failure| Error::Unsupported(failure.to_string())))?),
    }
}

/// What came of a step that all ranks take together, in which one may fail while the others wait for it.
///
/// # Errors
/// As [`agree`]; where only this rank can have failed, the whole job ends here.
pub fn together<R>(ranks: Option<&Ranks>, result: isobar::Result<R>) -> Result<R> {
    if let (Some(ranks), Err(error @ (Error::Device { .. } | Error::OutOfMemory { .. } | Error::Io(_)))) =
        (ranks, &result)
    {
        ranks.abort(&error.to_string());
    }
    agree(ranks, result.map_err(Failure::from))
}

/// The sum of all ranks' values, or the value itself.
///
/// # Errors
/// A failure of MPI.
pub fn sum<const N: usize>(ranks: Option<&Ranks>, mut values: [f64; N]) -> Result<[f64; N]> {
    if let Some(ranks) = ranks {
        ranks.sum(&mut values)?;
    }
    Ok(values)
}

/// Collects the parts of all ranks on rank 0, in an array of the whole grid that each has read its own into.
///
/// # Errors
/// As [`together`].
pub fn gather(ranks: Option<&Ranks>, values: &mut [f64], shape: Shape) -> Result<()> {
    match ranks {
        Some(ranks) => together(Some(ranks), ranks.gather(values, shape)),
        None => Ok(()),
    }
}

/// The fingerprint of a solution of which every rank has a part.
///
/// # Errors
/// A failure of MPI.
pub fn checks(ranks: Option<&Ranks>, part: &[f64]) -> Result<Checks> {
    let own = Checks::new(part);
    let Some(ranks) = ranks else { return Ok(own) };
    let [sum, squares] = sum(Some(ranks), [own.sum, own.norm2 * own.norm2])?;
    Ok(Checks { sum, norm2: squares.sqrt() })
}

/// How far it is from the exact one, of `cells` in all.
///
/// # Errors
/// A failure of MPI.
pub fn error(ranks: Option<&Ranks>, part: &[f64], exact: &[f64], cells: usize) -> Result<ErrorReport> {
    let own = ErrorReport::new(part, exact);
    let Some(ranks) = ranks else { return Ok(own) };
    let [squares] = sum(Some(ranks), [own.l2 * own.l2 * part.len() as f64])?;
    Ok(ErrorReport::of_all(ranks.largest(own.max)?, squares, cells))
}

/// Writes a field of which every rank has its part as a `.zarr`, all ranks at once: each takes whole chunks, whose layers it gets
/// from the others. The file is that of one process.
///
/// # Errors
/// The first failure of any, which names its rank; nothing is left of the file then.
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
                format!("--output {}: the name of its folder is no UTF-8; choose another one", path.display());
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
        // One that fails takes part in what the others still do.
        if written.is_ok() && ranks.rank() < together.len() {
            written = store.write_chunk(round * ranks.size() + ranks.rank(), chunk).map_err(failed);
        }
    }
    agree(Some(ranks), written)?;
    agree(Some(ranks), store.finish(mesh, facts).map_err(failed))
}

/// What an iteration is told: to go on, or to stop; the same on all ranks, whichever was asked for an end.
pub fn flow(ranks: Option<&Ranks>) -> ControlFlow<()> {
    let Some(ranks) = ranks else { return interrupt::flow() };
    let mut requests = [f64::from(u8::from(interrupt::requested()))];
    match ranks.sum(&mut requests) {
        Ok(()) if requests == [0.0] => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    }
}

/// Ends the whole job where this process ends by a defect: the others would wait for it.
pub struct AbortOnPanic<'r>(pub &'r Ranks);

impl Drop for AbortOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.abort("it ended by a defect of isobar");
        }
    }
}
