//! Measures of an operator's coefficients: see `kernels/seven_point/look.cu`.

use std::sync::{Arc, Mutex};

use isobar_core::prelude::{Real, Result};

use crate::driver::lock;
use crate::{Argument, Arguments, Buffer, Context, Cuda, Module, Pointer};

/// Numbers per cell for its faces, as in the headers.
const FIELDS: usize = 3;
/// Numbers of the kernel's results.
const RESULTS: usize = 2 * FIELDS + 3;

/// Kernels and results of the measures.
#[derive(Debug)]
pub(crate) struct Looks {
    module: Arc<Module>,
    /// `Even` of halving.cuh.
    even: Buffer,
    /// Measures of the current coefficients.
    found: Mutex<Look>,
    /// The kernel's results.
    measures: Buffer,
    /// The partial sums, a number for each block, and a counter of blocks.
    partial: Buffer,
}

/// Measures of coefficients as seen by kernels: of the first direction that uses a field.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Look {
    /// The smallest positive value of each field.
    pub(crate) least: [f64; FIELDS],
    pub(crate) most: [f64; FIELDS],
    /// The largest ratio between neighbours, both positive.
    pub(crate) jump: f64,
    /// Whether any value is 0.
    pub(crate) has_zeros: bool,
    /// Whether all cells have equal coefficients.
    pub(crate) is_even: bool,
    /// The sum of s.
    pub(crate) shift: f64,
}

/// Returns how many blocks keep a GPU busy.
fn most_blocks(context: &Context) -> usize {
    8 * context.multiprocessors
}

pub(super) const LOOK: &[&str] = &["measure_fields"];

impl Looks {
    /// Returns the measures of the current coefficients.
    pub(crate) fn found(&self) -> Look {
        *lock(&self.found)
    }

    /// Returns the address of the common coefficients and of the flag that tells whether they apply.
    pub(crate) fn even(&self) -> Pointer {
        self.even.start()
    }

    /// Allocates the results.
    pub(super) fn new<T: Real>(context: &Arc<Context>, module: Arc<Module>) -> Result<Self> {
        Ok(Self {
            module,
            even: Buffer::zeros(context, FIELDS * size_of::<T>() + 8, "even coefficients")?,
            measures: Buffer::zeros(context, RESULTS * size_of::<f64>(), "measures of coefficients")?,
            partial: Buffer::zeros(context, (most_blocks(context) + 1) * size_of::<f64>(), "partial sums")?,
            found: Mutex::default(),
        })
    }

    /// Measures the current coefficients of vectors of a length, whose addresses are in `operands`.
    pub(super) fn look<T: Real>(&self, cuda: &Cuda, len: usize, operands: impl Argument) -> Result<()> {
        let Self { module, even, measures, partial, found: known } = self;
        measures.clear(0, measures.bytes())?;
        let context = cuda.context();
        let blocks = len.div_ceil(256).min(most_blocks(context));
        let counter = partial.start() + (most_blocks(context) * size_of::<f64>()) as Pointer;
        let arguments = Arguments::new().with(operands).with(measures.start()).with(partial.start()).with(counter);
        cuda.launch(module.kernel("measure_fields")?, [blocks, 1, 1], [256, 1], arguments)?;
        let mut found = [0f64; RESULTS];
        measures.read(&mut found)?;
        let (jump, has_zeros) = (found[2 * FIELDS].max(1.0), found[2 * FIELDS + 1] > 0.0);
        let mut look = Look { jump, has_zeros, shift: found[RESULTS - 1], ..Look::default() };
        for n in 0..FIELDS {
            (look.most[n], look.least[n]) = (found[n], 1.0 / found[FIELDS + n]);
        }
        // Inverses are rounded: only the comparison of neighbours shows exact equality.
        look.is_even = jump == 1.0 && !has_zeros;
        context.send(&look.most.map(T::from_f64), even.start())?;
        let flag = even.start() + (FIELDS * size_of::<T>()) as Pointer;
        context.send(&[i32::from(look.is_even)], flag)?;
        *lock(known) = look;
        Ok(())
    }
}
