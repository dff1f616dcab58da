//! The search for strongly coupled aggregates.

use isobar_core::prelude::{Layout, Precision, Result, Shape};
use isobar_core::stencil::galerkin::Bodies;
use isobar_core::stencil::galerkin::bodies::{THRESHOLDS, negligible};

use super::matrix::{BLOCK, Matrix, OwnRows};
use super::rows::combined;
use super::shared::Sharing;
use super::sources::bodies_source;
use crate::{Arguments, Buffer, Cuda, Pointer, argument};

/// Cells of a tile in x, y and z, as in bodies.cu.
const TILE: [usize; 3] = [8, 32, 4];

/// Cells of a thread at a time, as in bodies.cu.
const PART: usize = 4;

/// The aggregates of one threshold, as lists for the correction.
#[derive(Debug)]
pub struct Lists {
    pub(crate) count: usize,
    /// First cell of each aggregate, then the number of cells.
    pub(crate) starts: Buffer,
    /// Positions of the cells in a vector.
    pub(crate) cells: Buffer,
    /// ω / D
    pub(crate) factors: Buffer,
    /// Number of aggregates shared with other GPUs; they come first.
    pub(crate) shared: usize,
}

impl Lists {
    /// Copies lists from the host.
    pub(crate) fn new(cuda: &Cuda, bodies: &Bodies) -> Result<Self> {
        let context = cuda.context();
        let what = "lists of strongly coupled cells";
        Ok(Self {
            count: bodies.factors.len(),
            starts: Buffer::from_slice(context, &bodies.starts, what)?,
            cells: Buffer::from_slice(context, &bodies.cells, what)?,
            factors: Buffer::from_slice(context, &bodies.factors, what)?,
            shared: bodies.shared,
        })
    }

    /// Copies the lists to the host, in an order that does not depend on the timing of GPU threads.
    pub(crate) fn on_host(&self) -> Result<Bodies> {
        let mut starts = vec![0u32; self.count + 1];
        if self.count > 0 {
            self.starts.read(&mut starts)?;
        }
        let mut cells = vec![0u32; starts[self.count] as usize];
        self.cells.read(&mut cells)?;
        let mut factors = vec![0.0; self.count];
        self.factors.read(&mut factors)?;
        let cells_of = |body: usize| &cells[starts[body] as usize..starts[body + 1] as usize];
        let mut order: Vec<usize> = (0..self.count).collect();
        order.sort_unstable_by_key(|&body| cells_of(body).first());
        let mut sorted = Bodies { starts: vec![0], shared: self.shared, ..Bodies::default() };
        for body in order {
            sorted.cells.extend_from_slice(cells_of(body));
            sorted.starts.push(sorted.cells.len() as u32);
            sorted.factors.push(factors[body]);
        }
        Ok(sorted)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.starts.bytes() + self.cells.bytes() + self.factors.bytes()
    }
}

argument! {
    /// `Search` of bodies.cuh.
    pub(super) struct Search {
        largest: Pointer,
        classes: Pointer,
        label: Pointer,
        place: Pointer,
        starts: Pointer,
        filled: Pointer,
        cells: Pointer,
        kept: Pointer,
        counts: Pointer,
        pub(super) least: f64,
        pass: u32,
        before: u32,
    }
}

argument! {
    /// `Lists` of bodies.cu.
    struct Found {
        starts: Pointer,
        cells: Pointer,
        factors: Pointer,
    }
}

/// Returns whether numbers of 32 bits suffice, on all ranks.
fn is_possible(matrix: &Matrix) -> Result<bool> {
    let (rows, labels) = match matrix.divided() {
        Some((ranks, window)) => {
            let largest = window.starts().windows(2).map(|ends| ends[1] - ends[0]).max().unwrap_or(0);
            (largest, 2 * matrix.columns() * ranks.size())
        }
        None => (matrix.grid.shape.ny, 0),
    };
    let layout = Layout::new(Shape { ny: rows, ..matrix.grid.shape })?;
    Ok(layout.len() <= u32::MAX as usize && labels < 1 << 31)
}

/// Finds aggregates as [`isobar_core::stencil::galerkin::bodies::find`] does: in a window those of its own rows, for vectors of these.
pub(super) fn find(matrix: &Matrix, levels: Precision) -> Result<Vec<Lists>> {
    if !is_possible(matrix)? {
        return Ok(Vec::new());
    }
    let rows = OwnRows::of(matrix);
    let layout = Layout::new(Shape { ny: matrix.own_rows().len(), ..matrix.grid.shape })?;
    let (cells, workspace, context) = (matrix.cells(), &matrix.workspace, matrix.cuda.context());
    let module = matrix.cuda.module(bodies_source(matrix.number));
    let numbers = |len: usize| workspace.take(4 * len);
    let most_bodies = cells / 2;
    let [classes, label, place, kept] = [numbers(cells)?, numbers(cells)?, numbers(cells)?, numbers(cells)?];
    let [listed, found_cells] = [numbers(cells)?, numbers(cells)?];
    let [starts, filled, found_starts] =
        [numbers(most_bodies + 1)?, numbers(most_bodies + 1)?, numbers(most_bodies + 1)?];
    let (largest, factors) = (workspace.take(matrix.number.bytes() * cells)?, workspace.take(8 * most_bodies)?);
    let counts = Buffer::new(context, 4 * size_of::<u64>(), "counts")?;
    let mut search = Search {
        largest: largest.start(),
        classes: classes.start(),
        label: label.start(),
        place: place.start(),
        starts: starts.start(),
        filled: filled.start(),
        cells: listed.start(),
        kept: kept.start(),
        counts: counts.start(),
        least: negligible(levels),
        pass: 0,
        before: 0,
    };
    let begin = Arguments::new().with(matrix.operands()).with(search);
    let extents @ [nx, ny, nz] = matrix.grid.extents();
    matrix.launch(module.kernel("begin_search")?, nx * ny * nz.div_ceil(PART), BLOCK, begin.clone())?;
    // Cells of one aggregate for the first threshold are in one for all later thresholds.
    let tiles: usize = extents.into_iter().zip(TILE).map(|(n, tile)| n.div_ceil(tile)).product();
    let arguments = THRESHOLDS.into_iter().fold(begin.with(rows), Arguments::with);
    matrix.launch(module.kernel("label_tiles")?, BLOCK * tiles, BLOCK, arguments)?;
    let found = Found { starts: found_starts.start(), cells: found_cells.start(), factors: factors.start() };
    let (mut all, mut shared_before) = (Vec::<Lists>::new(), Bodies::default());
    for pass in (1..).take(THRESHOLDS.len()) {
        search.pass = pass;
        let arguments = Arguments::new().with(matrix.operands()).with(search);
        matrix.launch_loop(module.kernel("join_cells")?, cells, 1, arguments)?;
        let arguments = Arguments::new().with(matrix.operands()).with(search).with(rows);
        matrix.launch_loop(module.kernel("count_cells")?, cells, PART, arguments)?;
        let shared = match matrix.divided() {
            Some((ranks, window)) => {
                let (room, pitch) = (found_cells.start(), layout.pitch());
                Sharing { matrix, ranks, window, search, room, pitch }.find()?
            }
            None => Bodies::default(),
        };
        for name in ["number_bodies", "list_cells"] {
            let arguments = Arguments::new().with(cells as i64).with(search);
            matrix.launch_loop(module.kernel(name)?, cells, PART, arguments)?;
        }
        let arguments = Arguments::new().with(matrix.operands()).with(search).with(found);
        let arguments = arguments.with(matrix.own_rows().start as i32).with(layout.pitch() as i32);
        // A warp for each aggregate.
        matrix.launch_loop(module.kernel("keep_bodies")?, 32 * most_bodies.max(1), 1, arguments)?;
        let mut numbers = [0u64; 3];
        counts.read(&mut numbers)?;
        let [_, kept_counts, same] = numbers;
        let (bodies, total) = ((kept_counts >> 32) as usize, kept_counts as u32 as usize);
        // Lists equal to those of the previous threshold are omitted, by all ranks alike.
        let count = bodies + shared.shared;
        let differs =
            all.last().is_none_or(|last| last.count != count || same as usize != bodies) || shared != shared_before;
        let found_here = [count > 0, differs].map(|is_true| f64::from(u8::from(is_true)));
        let found_anywhere = matrix.divided().map_or(Ok(found_here), |(ranks, _)| combined(ranks, found_here, 0))?;
        if found_anywhere == [1.0; 2] {
            let copy = |from: Pointer, bytes: usize| -> Result<Buffer> {
                let buffer = Buffer::new(context, bytes, "lists of strongly coupled cells")?;
                buffer.fill_from(from)?;
                Ok(buffer)
            };
            let own = Lists {
                count: bodies,
                starts: copy(found.starts, 4 * (bodies + 1))?,
                cells: copy(found.cells, 4 * total)?,
                factors: copy(found.factors, 8 * bodies)?,
                shared: 0,
            };
            all.push(match matrix.divided() {
                Some(_) => Lists::new(&matrix.cuda, &own.on_host()?.after(&shared))?,
                None => own,
            });
            shared_before = shared;
        }
        if bodies > 0 {
            search.before = pass;
        }
    }
    Ok(all)
}
