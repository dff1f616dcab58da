//! What the kernels of the diffusion operator are specialised by.

use isobar_core::layout::{ROW_ALIGNMENT, Shape};
use isobar_core::real::Real;
use isobar_core::stencil::{self, Axis, Coefficients, Side};

use crate::compile::Source;
use crate::kernels;
use crate::vector::c_name;

/// Warps a block of the passes along y.
pub(crate) const ROWS: usize = 8;
/// Warps a block of line solves has where a thread has a column.
const LINE_ROWS: usize = 4;
/// Threads a column in a block at most.
const MOST_CHUNKS: usize = 32;

/// How blocks of line solves cut columns up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Columns side by side.
    lanes: usize,
    /// Levels a thread; 0 for all.
    depth: usize,
    /// Threads a column; where a thread has all levels, rows.
    rows: usize,
}

impl Cut {
    pub(crate) fn new<T>(levels: usize) -> Self {
        for depth in [8, 16] {
            if levels > 16 && levels <= depth * MOST_CHUNKS {
                // Whole warps only.
                return Self { lanes: 128 / size_of::<T>(), depth, rows: levels.div_ceil(depth).next_multiple_of(2) };
            }
        }
        Self { lanes: 32, depth: 0, rows: LINE_ROWS }
    }

    /// Threads.
    pub(crate) fn block(self) -> [u32; 2] {
        [self.lanes as u32, self.rows as u32]
    }

    /// Blocks that so many pairs of columns in so many rows need.
    pub(crate) fn grid(self, pairs: usize, rows: usize, colours: u32) -> [u32; 3] {
        let rows = if self.depth == 0 { rows.div_ceil(self.rows) } else { rows };
        [pairs.div_ceil(self.lanes) as u32, rows as u32, colours]
    }

    /// Whether the solve keeps a vector of ratios.
    pub(crate) fn needs_ratios(self, levels: usize) -> bool {
        self.depth == 0 && levels > 1
    }
}

/// Everything of a stencil that the compiler knows: see `diffusion.cuh`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kind {
    /// Whether faces are stored, rather than coefficients of cells.
    stored_faces: bool,
    /// The field of each direction.
    fields: [usize; 3],
    /// Dirichlet sides: bit 2 axis + upper.
    fixed: u32,
    /// Periodic directions.
    periodic: u32,
    shift: bool,
    /// One level.
    flat: bool,
    /// Vectors whose positions do not fit 32 bits.
    wide: bool,
}

impl Kind {
    /// That of a stencil.
    pub fn of(stencil: &stencil::Diffusion) -> Self {
        let (stored_faces, fields) = match stencil.coefficients() {
            Coefficients::Cells { axes, .. } => (false, axes.map(|(field, _)| field)),
            Coefficients::Faces(_) => (true, [0, 1, 2]),
        };
        let Shape { nx, ny, nz } = stencil.shape();
        let mut kind = Self {
            stored_faces,
            fields,
            fixed: 0,
            periodic: 0,
            shift: stencil.stored_shift().is_some(),
            flat: nz == 1,
            // Padding may make a vector so much longer, and what is announced to L2 lies up to a few rows beyond.
            wide: (nx + 2 * ROW_ALIGNMENT) * (ny + 8) * (nz + 8) > 1 << 31,
        };
        for (d, sides) in stencil.sides().into_iter().enumerate() {
            for (upper, side) in sides.into_iter().enumerate() {
                match side {
                    // Stored faces have their Dirichlet sides in the shift.
                    Side::Fixed if !stored_faces => kind.fixed |= 1 << (2 * d + upper),
                    Side::Periodic => kind.periodic |= 1 << d,
                    Side::Fixed | Side::Closed => {}
                }
            }
        }
        kind
    }

    /// The same for vectors whose positions need 64 bits, which no test can afford.
    #[must_use]
    pub fn widened(self) -> Self {
        Self { wide: true, ..self }
    }

    /// The field that a direction takes its coefficients from.
    pub(crate) fn field(&self, axis: Axis) -> usize {
        self.fields[axis as usize]
    }

    /// Whether a direction has a Dirichlet side.
    pub(crate) fn is_fixed(&self, axis: Axis) -> bool {
        self.fixed >> (2 * axis as usize) & 3 != 0
    }

    /// Whether a direction is periodic.
    pub(crate) fn is_periodic(&self, axis: Axis) -> bool {
        self.periodic >> axis as usize & 1 != 0
    }

    /// Bits of the periodic directions.
    pub(crate) fn periodic(&self) -> u32 {
        self.periodic
    }

    fn define<T: Real>(&self, name: &'static str, text: &'static str) -> Source {
        Source::new(name, text)
            .define("REAL", c_name::<T>())
            .define("STORED_FACES", u32::from(self.stored_faces))
            .define("FIELD_X", self.fields[0])
            .define("FIELD_Y", self.fields[1])
            .define("FIELD_Z", self.fields[2])
            .define("FIXED", self.fixed)
            .define("PERIODIC", self.periodic)
            .define("SHIFT", u32::from(self.shift))
            .define("FLAT", u32::from(self.flat))
            .define("WIDE", u32::from(self.wide))
    }

    /// One pass over the operator each.
    pub fn passes<T: Real>(&self) -> Source {
        self.define::<T>("diffusion", kernels::DIFFUSION)
            .define("ROWS", ROWS)
            .define("MIN_BLOCKS", if size_of::<T>() == 8 { 3 } else { 4 })
            .define("AHEAD", 2)
    }

    /// Line solves and sweeps for columns of so many levels.
    pub fn lines<T: Real>(&self, levels: usize) -> Source {
        let Cut { lanes, depth, .. } = Cut::new::<T>(levels);
        self.define::<T>("diffusion_lines", kernels::DIFFUSION_LINES)
            .define("LANES", lanes)
            .define("DEPTH", depth)
            .define("ROWS", LINE_ROWS)
            .define("MOST_CHUNKS", MOST_CHUNKS)
    }

    /// Substitution in blocks.
    pub fn substitute<T: Real>(&self) -> Source {
        self.define::<T>("diffusion_substitute", kernels::DIFFUSION_SUBSTITUTE)
    }
}

/// Transfers between grids, which all kinds share.
pub fn transfer<T: Real>() -> Source {
    Source::new("diffusion_transfer", kernels::DIFFUSION_TRANSFER).define("REAL", c_name::<T>())
}
