//! Corrections of the constants of strongly coupled aggregates: one sum and one addition for each.

use std::sync::{RwLock, RwLockReadGuard};

use isobar_core::operator::Correction;
use isobar_core::prelude::{Backend, Guess, Layout, Real, Result, read, write};
use isobar_core::stencil::galerkin::Bodies;
use isobar_dist::part::PartBackend;

use crate::{Cpu, Vector};

/// The correction u += ω Σ_θ Z D⁻¹ Zᵀ r over strongly coupled aggregates θ.
#[derive(Debug)]
pub struct BodyCorrection {
    cpu: Cpu,
    layout: Layout,
    bodies: RwLock<Vec<Bodies>>,
}

impl BodyCorrection {
    pub(super) fn new(cpu: &Cpu, layout: Layout, bodies: Vec<Bodies>) -> Self {
        Self { cpu: cpu.clone(), layout, bodies: RwLock::new(bodies) }
    }

    pub(super) fn update(&self, bodies: Vec<Bodies>) {
        *write(&self.bodies) = bodies;
    }

    /// Returns the aggregates. They are replaced as a whole, so that a panic elsewhere does no harm.
    fn bodies(&self) -> RwLockReadGuard<'_, Vec<Bodies>> {
        read(&self.bodies)
    }
}

impl<T: Real> Correction<Cpu, T> for BodyCorrection {
    fn is_active(&self) -> bool {
        !self.bodies().is_empty()
    }

    fn correct(&self, r: &Vector<T>, u: &mut Vector<T>, guess: Guess) -> Result<()> {
        assert_eq!((r.layout(), u.layout()), (&self.layout, &self.layout), "vectors of another level");
        if guess == Guess::Zero {
            self.cpu.clear(u)?;
        }
        let (all, r, u) = (self.bodies(), r.entries(), u.share_mut());
        let sum = |cells: &[u32]| -> f64 { cells.iter().map(|&cell| r[cell as usize].to_f64()).sum() };
        let shared = all.iter().flat_map(|bodies| (0..bodies.shared).map(|body| bodies.cells_of(body)));
        let mut sums: Vec<f64> = shared.map(sum).collect();
        if let Some(ranks) = self.cpu.ranks()
            && !sums.is_empty()
        {
            ranks.world().sum(&mut sums)?;
        }
        let mut rest = &sums[..];
        for bodies in all.iter() {
            let (count, of_several);
            (of_several, rest) = rest.split_at(bodies.shared);
            count = bodies.factors.len();
            let threads = self.cpu.threads_for(4 * bodies.cells.len()).min(count);
            self.cpu.for_each(threads, |thread| {
                for body in count * thread / threads..count * (thread + 1) / threads {
                    let cells = bodies.cells_of(body);
                    let sum = of_several.get(body).copied().unwrap_or_else(|| sum(cells));
                    let value = T::from_f64(bodies.factors[body] * sum);
                    for &cell in cells {
                        // SAFETY: aggregates are disjoint, and those of this layout lie within its vectors.
                        let entry = unsafe { &mut u.row_mut(cell as isize, 1)[0] };
                        *entry += value;
                    }
                }
            });
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.bodies().iter().map(Bodies::bytes).sum()
    }

    /// Sums over aggregates that cross subdomains are exchanged through the host.
    fn needs_host(&self) -> bool {
        self.bodies().iter().any(|bodies| bodies.shared > 0)
    }
}
