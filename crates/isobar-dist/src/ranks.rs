//! The ranks of a job, as a back end knows them.

use std::sync::Arc;

use isobar_core::backend::{DeviceInfo, Meanwhile, Shares};
use isobar_core::error::{Error, Result};
use isobar_core::layout::{Layout, Patch, Shape, needs_whole_rows};

use crate::communicator::{Communicator, Message};
use crate::levels::too_thin;
use crate::part::{Edge, Handed, PartBackend};
use crate::patches::{Patches, collect_layers};
use crate::slabs::Slabs;

/// The tag of what is handed on, beside those of the colours.
const HANDED: u32 = 2;
/// The first tag of messages that say which way they go.
const DIRECTED: u32 = 8;

/// The ranks that share a grid, seen by one of them: each has a rectangle of columns, numbered along x first.
#[derive(Debug)]
pub struct Ranks {
    world: Arc<dyn Communicator>,
    parts: [usize; 2],
    /// A grid of multigrid that is divided in the same places as the finer one.
    coarser: Option<(Shape, Patches)>,
}

/// Makes a device one of the ranks of a job, which divide x and y of a grid into this many parts; [1, ranks] are slabs of whole rows.
/// A job of one rank leaves it alone.
///
/// Ranks that are threads must not share the threads of a back end: one that waits for another would keep it from running.
///
/// # Errors
/// [`Error::Invalid`] where there are not as many ranks, [`Error::Unsupported`] where subdomains of this back end have whole rows.
pub fn join<B: PartBackend>(backend: B, world: Arc<dyn Communicator>, parts: [usize; 2]) -> Result<B> {
    let ([in_x, in_y], size) = (parts, world.size());
    if in_x.checked_mul(in_y) != Some(size) {
        return Err(other_number_of_parts(parts, size));
    }
    if in_x > 1 && !B::DIVIDES_ROWS {
        let kind = backend.device().kind;
        return Err(Error::Unsupported(format!(
            "{in_x}x{in_y} parts on devices of kind {kind}, whose parts have whole rows; use 1x{size}, or the device \"cpu\""
        )));
    }
    Ok(backend.with_ranks((size > 1).then(|| Arc::new(Ranks { world, parts, coarser: None }))))
}

/// [`join`] in slabs of whole rows.
///
/// # Errors
/// None in practice.
pub fn join_rows<B: PartBackend>(backend: B, world: Arc<dyn Communicator>) -> Result<B> {
    let size = world.size();
    join(backend, world, [1, size])
}

/// The error where parts are not as many as ranks.
pub fn other_number_of_parts([in_x, in_y]: [usize; 2], ranks: usize) -> Error {
    let message = format!(
        "{in_x}x{in_y} are not as many parts as there are ranks, {ranks}; use two numbers with that product, as 1x{ranks}"
    );
    Error::invalid("parts", message)
}

impl Ranks {
    /// The job.
    pub fn world(&self) -> &Arc<dyn Communicator> {
        &self.world
    }

    /// The number of this rank, from 0.
    pub fn rank(&self) -> usize {
        self.world.rank()
    }

    /// How many ranks there are.
    pub fn size(&self) -> usize {
        self.world.size()
    }

    /// Whether every rank has whole rows.
    pub fn has_whole_rows(&self) -> bool {
        self.parts[0] == 1
    }

    /// How the columns of a grid are divided.
    ///
    /// # Errors
    /// As [`Patches::new`].
    pub fn patches(&self, shape: Shape) -> Result<Patches> {
        match &self.coarser {
            Some((grid, patches)) if *grid == shape => Ok(patches.clone()),
            _ => Patches::new(shape, self.parts),
        }
    }

    /// These ranks, which divide a grid like that.
    pub(crate) fn dividing(&self, grid: Shape, patches: Patches) -> Self {
        Self { world: Arc::clone(&self.world), parts: self.parts, coarser: Some((grid, patches)) }
    }

    /// The columns of a grid that this rank has.
    ///
    /// # Errors
    /// As [`Patches::new`].
    pub fn patch(&self, shape: Shape) -> Result<Patch> {
        Ok(self.patches(shape)?.of(self.rank()))
    }

    /// How the rows of a grid are divided, for what works on whole ones alone and is called `what`.
    ///
    /// # Errors
    /// As [`Slabs::new`]; [`Error::Unsupported`] where x is divided.
    pub(crate) fn slabs(&self, shape: Shape, what: &str) -> Result<Slabs> {
        if self.has_whole_rows() { Slabs::new(shape, self.size()) } else { Err(needs_whole_rows(what)) }
    }

    /// How the rows of a grid with Galerkin levels are divided.
    ///
    /// # Errors
    /// As [`Slabs::new`]; [`Error::Unsupported`] where x is divided, or a pair of rows.
    pub fn pairs_of_rows(&self, grid: Shape) -> Result<Slabs> {
        self.slabs(grid, "multigrid on Galerkin grids")?;
        let patches = self.patches(grid)?;
        if patches.rows().halved().is_none() { Err(too_thin(grid, &patches)) } else { Ok(patches.rows().clone()) }
    }

    /// [`Backend::shares`](isobar_core::backend::Backend::shares).
    pub fn shares(&self, grid: Shape) -> Option<Shares> {
        Some(self.patches(grid).ok()?.shares())
    }

    /// Marks this rank as one that computes and exchanges in turn, as long as the guard lives: one that then does neither for long is
    /// found to hang.
    pub fn watch(&self) -> Watched<'_> {
        self.world.set_iterating(true);
        Watched(&*self.world)
    }

    /// The rank so many parts further in x and in y, perhaps around periodic directions.
    fn neighbour(&self, [to_x, to_y]: [isize; 2]) -> usize {
        let (rank, [in_x, in_y]) = (self.rank(), self.parts);
        let further = |part: usize, to: isize, parts: usize| (part + parts).wrapping_add_signed(to) % parts;
        further(rank % in_x, to_x, in_x) + in_x * further(rank / in_x, to_y, in_y)
    }

    /// Sends the edges of a subdomain to the neighbours, and receives theirs; `meanwhile` is done, once, while they travel.
    pub(crate) fn exchange(&self, edges: &mut [Edge<'_, u8>], meanwhile: Meanwhile<'_>) -> Result<()> {
        let mut messages = Vec::with_capacity(2 * edges.len());
        for Edge { towards, colour, send, receive } in edges {
            let (peer, colour, [to_x, to_y]) = (self.neighbour(*towards), *colour as u32, *towards);
            if to_x == 0 && self.parts[1] > 2 {
                messages.push(Message { peer, tag: colour, send, receive });
                continue;
            }
            // In a periodic direction of two parts the same rank is on both sides: tags say which way messages go.
            let tag = |x: isize, y: isize| DIRECTED + 2 * (3 * (y + 1) + x + 1).unsigned_abs() as u32 + colour;
            messages.push(Message { peer, tag: tag(to_x, to_y), send, receive: &mut [] });
            messages.push(Message { peer, tag: tag(-to_x, -to_y), send: &[], receive });
        }
        self.world.exchange_while(&mut messages, meanwhile)
    }

    /// [`PartBackend::hand_on`]. What is sent in one call the neighbour receives in one call.
    pub(crate) fn hand_on(&self, Handed { upwards, send, receive }: Handed<'_, u8>) -> Result<()> {
        let rank = self.rank();
        let peer = |is_next: bool| if is_next { rank + 1 } else { rank - 1 };
        let mut messages = Vec::with_capacity(2);
        if !send.is_empty() {
            messages.push(Message { peer: peer(upwards), tag: HANDED, send, receive: &mut [] });
        }
        if !receive.is_empty() {
            messages.push(Message { peer: peer(!upwards), tag: HANDED, send: &[], receive });
        }
        self.world.exchange(&mut messages)
    }
}

/// A rank that computes and exchanges in turn.
pub struct Watched<'w>(&'w dyn Communicator);

impl Watched<'_> {
    /// Does something that may take any time, as a caller's function may.
    pub fn pause<R>(&self, work: impl FnOnce() -> R) -> R {
        self.0.set_iterating(false);
        let result = work();
        self.0.set_iterating(true);
        result
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.0.set_iterating(false);
    }
}

/// [`Backend::device`](isobar_core::backend::Backend::device) of a device that may be one of several ranks, each of which has one such.
pub fn device<B: PartBackend>(backend: &B, one: DeviceInfo) -> DeviceInfo {
    let Some(ranks) = backend.ranks() else { return one };
    // Ranks may share a processor, and have a GPU each.
    let count = if one.kind == "cuda" { one.count * ranks.size() } else { one.count };
    DeviceInfo { count, ranks: ranks.size(), ..one }
}

/// [`Backend::collect`](isobar_core::backend::Backend::collect) of a device that may be one of several ranks.
///
/// # Errors
/// As there.
pub fn collect<B: PartBackend>(backend: &B, own: Vec<f64>, grid: Shape) -> Result<Vec<f64>> {
    let Some(ranks) = backend.ranks() else { return Ok(own) };
    collect_layers(&*ranks.world, &own, grid, ranks.parts, &vec![0..grid.nz; ranks.size()])
}

/// [`Backend::own_columns`](isobar_core::backend::Backend::own_columns) of a device that may be one of several ranks.
///
/// # Errors
/// As [`Patches::new`].
pub fn own_columns<B: PartBackend>(backend: &B, grid: Shape) -> Result<Patch> {
    backend.ranks().map_or(Ok(Patch::whole(grid)), |ranks| ranks.patch(grid))
}

/// Fails where relaxation of points by tiles would go on in other ranks' rows.
///
/// # Errors
/// [`Error::Unsupported`], naming sweeps.
pub fn require_sweeps(cycle: &isobar_core::options::PointCycle, of: &Layout) -> Result<()> {
    if cycle.is_sweep() || !of.is_part() {
        return Ok(());
    }
    let [x, y, z] = cycle.tile;
    Err(Error::Unsupported(format!(
        "tiles of {x} × {y} × {z} cells on several ranks, whose rows they would share; use \
         solver.jacobi.sub_iterations = 1 (plain sweeps), which acceleration = \"chebyshev\" makes faster, or run on one"
    )))
}

/// Fails where subdomains do not go through unknowns in order.
///
/// # Errors
/// [`Error::Unsupported`] where x is divided, or a periodic y.
pub fn require_order(of: &Layout) -> Result<()> {
    if of.has_halo_columns() {
        return Err(needs_whole_rows("incomplete Poisson and incomplete Cholesky"));
    }
    if of.divides_ring() {
        // The order of unknowns does not go around.
        return Err(Error::Unsupported("incomplete Cholesky on ranks that divide a periodic y; run on one".into()));
    }
    Ok(())
}
