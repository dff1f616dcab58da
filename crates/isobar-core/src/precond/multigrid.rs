//! The tensor-product multigrid cycle (paper B, algorithm 1): coarsen in the horizontal only, relax
//! by vertical lines.

use std::sync::Arc;

use super::Preconditioner;
use crate::backend::{Backend, Slot};
use crate::error::Result;
use crate::layout::{Colour, Layout, Shape};
use crate::operator::{Guess, LevelVectors, MultigridOperator, Operator, Relaxation, scratch, scratch_layout};
use crate::options::MultigridOptions;
use crate::real::Real;
use crate::solver::StepTraffic;
use crate::stencil::Stencil;
use crate::traffic;

/// Multigrid V-cycles over a hierarchy of operators.
///
/// Storage, in n-vectors of the finest level: ⅔ (two vectors a coarse level), and 1⅓ of scratch where
/// the back end's smoother cannot work in place.
pub struct Cycle<B: Backend, A, T: Real> {
    backend: B,
    /// Finest first.
    operators: Vec<Arc<A>>,
    /// Of the second level and all below.
    vectors: Vec<LevelVectors<B::Vector<T>>>,
    /// For steps that cannot work in place, one a level.
    scratch: Vec<B::Vector<T>>,
    recipe: Recipe,
    notes: Vec<String>,
}

/// What a cycle holds of the finest grid and the next one.
pub(crate) struct Top<'a, A, V> {
    /// Both grids' operators.
    pub(crate) operators: [&'a A; 2],
    /// The second grid's vectors.
    pub(crate) coarse: &'a mut LevelVectors<V>,
    /// The finest grid's.
    pub(crate) scratch: &'a mut V,
}

/// How a cycle goes.
#[derive(Clone, Copy, Debug)]
struct Recipe {
    /// Before the coarse correction.
    relaxation: Relaxation,
    /// After it.
    post_relaxation: Relaxation,
    pre: usize,
    post: usize,
    coarse_sweeps: usize,
}

impl<B: Backend + Clone, A: MultigridOperator<B, T>, T: Real> Cycle<B, A, T> {
    /// Builds the hierarchy below `stencil`.
    ///
    /// # Errors
    /// Where it does not fit in memory.
    pub fn new<S: Stencil<B, Operator<T> = A>>(backend: &B, stencil: &S, options: &MultigridOptions) -> Result<Self> {
        Self::below(backend, stencil, options, Arc::new(stencil.level::<T>(backend)?))
    }

    /// Builds the hierarchy below `stencil`, whose finest level there is already.
    ///
    /// # Errors
    /// Where it does not fit in memory.
    pub fn below<S: Stencil<B, Operator<T> = A>>(
        backend: &B,
        stencil: &S,
        options: &MultigridOptions,
        finest: Arc<A>,
    ) -> Result<Self> {
        let (mut operators, mut vectors, mut scratches, mut notes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (mut next, mut finest) = (Some(stencil.clone()), Some(finest));
        while let Some(stencil) = next.take() {
            let layout = Layout::new(stencil.shape())?;
            let operator = match finest.take() {
                Some(finest) => finest,
                None => Arc::new(stencil.level::<T>(backend)?),
            };
            if !operators.is_empty() {
                vectors.push(LevelVectors { f: backend.zeros(&layout)?, u: backend.zeros(&layout)? });
            }
            scratches.push(scratch(&*operator, options.smoother)?);
            operators.push(operator);
            let wanted = options.levels.or(stencil.default_levels());
            if wanted.is_none_or(|wanted| operators.len() < wanted) {
                next = stencil.coarsened();
                if let (None, Some(wanted)) = (&next, wanted) {
                    let Shape { nx, ny, .. } = stencil.shape();
                    notes.push(format!(
                        "{} of {} multigrid levels: {nx}×{ny} columns cannot be halved further; sizes divisible by {} allow all",
                        operators.len(),
                        wanted,
                        1u64.checked_shl(wanted as u32 - 1).unwrap_or(u64::MAX),
                    ));
                }
            }
        }
        let relaxation = Relaxation { smoother: options.smoother, rho: options.relaxation(), first: Colour::Red };
        let symmetric = operators.iter().all(|operator| operator.has_adjoint_transfers());
        let post_first = if symmetric { Colour::Black } else { Colour::Red };
        let post_relaxation = Relaxation { first: post_first, ..relaxation };
        let recipe = Recipe {
            relaxation,
            post_relaxation,
            pre: options.pre,
            post: options.post,
            coarse_sweeps: options.coarse_sweeps,
        };
        Ok(Self { backend: backend.clone(), operators, vectors, scratch: scratches, recipe, notes })
    }
}

impl<B: Backend + Clone, A: MultigridOperator<B, T>, T: Real> Cycle<B, A, T> {
    /// The grids, finest first.
    pub fn shapes(&self) -> Vec<Shape> {
        self.operators.iter().map(|operator| operator.layout().shape()).collect()
    }

    /// What a user should know of the hierarchy.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The finest operator.
    pub fn operator(&self) -> &A {
        &self.operators[0]
    }

    /// One cycle on A u = f; where asked for, with ‖f − A u‖² at its end.
    ///
    /// # Errors
    /// What the device reports.
    pub fn cycle(
        &mut self,
        f: &B::Vector<T>,
        u: &mut B::Vector<T>,
        guess: Guess,
        norm: Option<(Slot, &mut B::Scalars)>,
    ) -> Result<()> {
        let Self { backend, operators, vectors, scratch, recipe, .. } = self;
        cycle(backend, operators, vectors, scratch, *recipe, f, u, guess, norm)
    }

    /// The top of the hierarchy, for those who do its work themselves; `None` where that is more than one sweep
    /// before and one after the coarse grids, or where there are none.
    pub(crate) fn top(&mut self) -> Option<Top<'_, A, B::Vector<T>>> {
        let Self { operators, vectors, scratch, recipe, .. } = self;
        match (&operators[..], &mut vectors[..], &mut scratch[..]) {
            ([finest, coarser, ..], [coarse, ..], [scratch, ..]) if (recipe.pre, recipe.post) == (1, 1) => {
                Some(Top { operators: [finest, coarser], coarse, scratch })
            }
            _ => None,
        }
    }

    /// One cycle from zero on the grids below the finest, where there are any.
    ///
    /// # Errors
    /// What the device reports.
    pub(crate) fn cycle_below(&mut self) -> Result<()> {
        let Self { backend, operators, vectors, scratch, recipe, .. } = self;
        match vectors.split_first_mut() {
            Some((LevelVectors { f, u }, coarser)) => {
                cycle(backend, &operators[1..], coarser, &mut scratch[1..], *recipe, f, u, Guess::Zero, None)
            }
            None => Ok(()),
        }
    }

    /// Full multigrid: u from f alone, coarse to fine, one cycle a level.
    ///
    /// # Errors
    /// What the device reports.
    pub fn full_multigrid(
        &mut self,
        f: &B::Vector<T>,
        u: &mut B::Vector<T>,
        mut norm: Option<(Slot, &mut B::Scalars)>,
    ) -> Result<()> {
        let Self { backend, operators, vectors, scratch, recipe, .. } = self;
        for n in 0..vectors.len() {
            let (above, below) = vectors.split_at_mut(n);
            let fine_f = above.last().map_or(f, |level| &level.f);
            operators[n].restrict(&operators[n + 1], fine_f, &mut below[0].f)?;
        }
        for n in (0..operators.len()).rev() {
            let (above, below) = vectors.split_at_mut(n);
            let (f, u) = match above.last_mut() {
                Some(level) => (&level.f, &mut level.u),
                None => (f, &mut *u),
            };
            let guess = match below.first() {
                None => Guess::Zero,
                Some(coarse) => {
                    backend.clear(u)?;
                    operators[n].prolong(&operators[n + 1], &coarse.u, u)?;
                    Guess::Given
                }
            };
            let norm = if n == 0 { norm.take() } else { None };
            cycle(backend, &operators[n..], below, &mut scratch[n..], *recipe, f, u, guess, norm)?;
        }
        Ok(())
    }

    /// Cells of the finest grid.
    pub(crate) fn cells(&self) -> usize {
        self.operators[0].layout().shape().cells()
    }

    /// What one cycle declares to move, level by level.
    pub fn traffic(&self, finest_guess: Guess) -> Vec<StepTraffic> {
        let mut steps = Vec::new();
        let Recipe { pre, post, coarse_sweeps, .. } = self.recipe;
        for (n, operator) in self.operators.iter().enumerate() {
            let cells = operator.layout().shape().cells();
            let mut push = |step, count: usize| {
                if count > 0 {
                    let coefficient_vectors = operator.coefficient_vectors();
                    let (size, count) = (size_of::<T>(), count as f64);
                    steps.push(StepTraffic { step, cells, size, coefficient_vectors, count });
                }
            };
            let zero = n > 0 || finest_guess == Guess::Zero;
            let first = if zero { traffic::SMOOTH_FROM_ZERO } else { traffic::SMOOTH };
            if n + 1 == self.operators.len() {
                push(first, 1);
                push(traffic::SMOOTH, coarse_sweeps - 1);
                continue;
            }
            match pre {
                0 => push(traffic::RESIDUAL_RESTRICT, 1),
                1 if zero => push(traffic::SMOOTH_RESIDUAL_RESTRICT_FROM_ZERO, 1),
                1 => push(traffic::SMOOTH_RESIDUAL_RESTRICT, 1),
                pre => {
                    push(first, 1);
                    push(traffic::SMOOTH, pre - 2);
                    push(traffic::SMOOTH_RESIDUAL_RESTRICT, 1);
                }
            }
            push(traffic::PROLONG_SMOOTH, 1);
            push(traffic::SMOOTH, post.saturating_sub(1));
        }
        steps
    }

    /// Bytes of vectors held.
    pub fn workspace_bytes(&self) -> usize {
        let own: usize = self
            .operators
            .iter()
            .map(|operator| scratch_layout(&**operator, self.recipe.relaxation.smoother).map_or(0, |l| l.len()))
            .sum();
        let coarse: usize = self.operators[1..].iter().map(|operator| 2 * operator.layout().len()).sum();
        (own + coarse) * size_of::<T>()
    }
}

fn cycle<B: Backend, A: MultigridOperator<B, T>, T: Real>(
    backend: &B,
    operators: &[Arc<A>],
    vectors: &mut [LevelVectors<B::Vector<T>>],
    scratch: &mut [B::Vector<T>],
    recipe: Recipe,
    f: &B::Vector<T>,
    u: &mut B::Vector<T>,
    mut guess: Guess,
    norm: Option<(Slot, &mut B::Scalars)>,
) -> Result<()> {
    let Recipe { relaxation, post_relaxation, pre, post, coarse_sweeps } = recipe;
    let operator = &*operators[0];
    let Some((scratch, coarse_scratch)) = scratch.split_first_mut() else { return Ok(()) };
    let Some((coarse, coarser)) = vectors.split_first_mut() else {
        for n in 0..coarse_sweeps {
            // There and back again: a symmetric cycle needs it, and to others it makes no difference.
            let relaxation = if n % 2 == 0 { relaxation } else { post_relaxation };
            operator.smooth(relaxation, guess, f, u, scratch)?;
            guess = Guess::Given;
        }
        return finish(operator, f, u, scratch, norm);
    };
    for _ in 1..pre {
        operator.smooth(relaxation, guess, f, u, scratch)?;
        guess = Guess::Given;
    }
    if pre > 0 {
        operator.smooth_residual_restrict(&operators[1], relaxation, guess, f, u, &mut coarse.f, scratch)?;
    } else {
        if guess == Guess::Zero {
            backend.clear(u)?;
        }
        operator.residual_restrict(&operators[1], f, u, &mut coarse.f, scratch)?;
    }
    let LevelVectors { f: coarse_f, u: coarse_u } = coarse;
    cycle(backend, &operators[1..], coarser, coarse_scratch, recipe, coarse_f, coarse_u, Guess::Zero, None)?;
    match post {
        0 => operator.prolong(&operators[1], coarse_u, u)?,
        1 => return operator.prolong_smooth(&operators[1], post_relaxation, f, coarse_u, u, scratch, norm),
        _ => {
            operator.prolong_smooth(&operators[1], post_relaxation, f, coarse_u, u, scratch, None)?;
            for _ in 1..post {
                operator.smooth(post_relaxation, Guess::Given, f, u, scratch)?;
            }
        }
    }
    finish(operator, f, u, scratch, norm)
}

fn finish<B: Backend, A: Operator<B, T>, T: Real>(
    operator: &A,
    f: &B::Vector<T>,
    u: &B::Vector<T>,
    scratch: &mut B::Vector<T>,
    norm: Option<(Slot, &mut B::Scalars)>,
) -> Result<()> {
    match norm {
        Some((slot, scalars)) => operator.residual_norm(f, u, scratch, slot, scalars),
        None => Ok(()),
    }
}

impl<B: Backend + Clone, A: MultigridOperator<B, T>, T: Real> Preconditioner<B, T> for Cycle<B, A, T> {
    fn backend(&self) -> &B {
        &self.backend
    }

    fn apply(&mut self, r: &B::Vector<T>, z: &mut B::Vector<T>) -> Result<()> {
        self.cycle(r, z, Guess::Zero, None)
    }

    /// Unless restriction is the transpose of prolongation, and what happens after the coarse correction
    /// mirrors what happens before, the cycle is not symmetric.
    fn is_variable(&self) -> bool {
        let Recipe { pre, post, coarse_sweeps, .. } = self.recipe;
        let adjoint = self.operators.iter().all(|operator| operator.has_adjoint_transfers());
        !(adjoint && pre == post && coarse_sweeps % 2 == 0)
    }

    fn apply_traffic(&self, _: &Layout) -> Vec<StepTraffic> {
        Cycle::traffic(self, Guess::Zero)
    }

    fn workspace_bytes(&self) -> usize {
        Cycle::workspace_bytes(self)
    }
}
