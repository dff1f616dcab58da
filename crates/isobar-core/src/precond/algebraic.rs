//! Algebraic multigrid on the active cells, as a preconditioner.

use std::sync::{Arc, Mutex};

use super::OwnPreconditioner;
use crate::algebraic::Levels;
use crate::execute::Host;
use crate::stencil::Unknowns;
use crate::{Result, lock};

/// The preconditioner z = M⁻¹ r by a K-cycle of algebraic multigrid (Notay, 2010; Napov and Notay, 2012) on the active cells, in double precision on the
/// host. Clones share its levels, so that one can be applied and another updated.
///
/// Storage: about 180 bytes for each active cell.
#[derive(Clone)]
pub struct Algebraic(Arc<Mutex<System>>);

struct System {
    /// The cell of each unknown.
    cells: Vec<u32>,
    /// The factor of the matrix whose levels these are.
    factor: f64,
    levels: Levels,
    /// The residual and the correction of the unknowns.
    vectors: [Vec<f64>; 2],
}

impl Algebraic {
    /// Makes the levels, on all threads of the host.
    #[must_use]
    pub fn new(unknowns: Unknowns) -> Self {
        Self(Arc::new(Mutex::new(System::new(unknowns))))
    }

    /// Replaces them by those of another matrix on the same grid.
    pub fn replace(&self, unknowns: Unknowns) {
        let made = System::new(unknowns);
        *lock(&self.0) = made;
    }

    /// Returns the number of unknowns of each level.
    #[must_use]
    pub fn sizes(&self) -> Vec<usize> {
        lock(&self.0).levels.sizes().collect()
    }
}

impl System {
    fn new(Unknowns { cells, matrix, factor }: Unknowns) -> Self {
        let vectors = [vec![0.0; cells.len()], vec![0.0; cells.len()]];
        Self { cells, factor, levels: Levels::new(&Host, matrix), vectors }
    }
}

impl OwnPreconditioner for Algebraic {
    fn apply(&mut self, r: &[f64], z: &mut [f64]) -> Result<()> {
        let System { cells, factor, levels, vectors: [residual, correction] } = &mut *lock(&self.0);
        let factor = *factor;
        residual.iter_mut().zip(&*cells).for_each(|(residual, &cell)| *residual = factor * r[cell as usize]);
        levels.cycle(&Host, residual, correction);
        z.fill(0.0);
        correction.iter().zip(&*cells).for_each(|(correction, &cell)| z[cell as usize] = *correction);
        Ok(())
    }

    fn is_variable(&self) -> bool {
        true
    }

    fn is_strong(&self) -> bool {
        true
    }

    fn bytes(&self) -> usize {
        let system = lock(&self.0);
        system.levels.bytes() + system.cells.len() * (size_of::<u32>() + 2 * size_of::<f64>())
    }
}
