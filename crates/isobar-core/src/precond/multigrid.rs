//! The multigrid cycle: paper B's V-cycle (algorithm 1) with line relaxation, and additions for harder problems: levels
//! that are visited twice, corrections besides the sweeps, an exact solve on the coarsest grid.

use std::sync::Arc;

use super::Preconditioner;
use super::recipe::{Recipe, mirrors};
use crate::operator::line::scratch_layout;
use crate::operator::{CoarsestSolver, Correction, Guess, LineSmoother, Sweep, Transfer};
use crate::options::MultigridOptions;
use crate::stencil::Hierarchy;
use crate::traffic::{self, StepTraffic};
use crate::{Backend, Layout, Real, Result, Scalar, Sum};

/// The vectors of a multigrid level.
struct LevelVectors<V> {
    /// Right-hand side.
    f: V,
    /// Solution or correction.
    u: V,
}

/// Multigrid cycles over a hierarchy of operators: V-cycles, or cycles that visit the next level as often as the
/// hierarchy specifies. A second visit continues from the result of the first.
///
/// Storage, in n-vectors of the finest level: ⅔ (two vectors a coarse level), 1⅓ of scratch where
/// the back end's smoother cannot work in place, and one vector per level that has corrections.
pub struct Cycle<B: Backend, T: Real> {
    steps: Arc<Steps<B, T>>,
    /// The vectors of the second level and all coarser ones.
    vectors: Vec<LevelVectors<B::Vector<T>>>,
    /// Scratch of each level, for steps that cannot work in place.
    scratch: Vec<B::Vector<T>>,
    /// The correction of each level, besides the sweeps.
    corrections: Vec<Corrected<B, T>>,
    bytes: usize,
}

/// The part of a cycle that does not change: the operators of a hierarchy and the steps on each level.
struct Steps<B: Backend, T: Real> {
    backend: B,
    /// Operators, finest first.
    levels: Vec<Arc<dyn LineSmoother<B, T>>>,
    /// Transfers from each level to the next.
    transfers: Vec<Arc<dyn Transfer<B, T>>>,
    coarsest: Option<Arc<dyn CoarsestSolver<B, T>>>,
    /// The number of visits from each level to the next.
    visits: Vec<usize>,
    /// The recipe of each level.
    recipes: Vec<Recipe>,
}

/// The correction of a level, with its scratch.
struct Corrected<B: Backend, T: Real> {
    correction: Option<Arc<dyn Correction<B, T>>>,
    /// The residual, if the correction was active when this was made.
    residual: B::Vector<T>,
    has_residual: bool,
    scalars: B::Scalars,
    bytes: usize,
}

impl<B: Backend, T: Real> Corrected<B, T> {
    fn new(backend: &B, layout: &Layout, correction: Option<Arc<dyn Correction<B, T>>>) -> Result<Self> {
        let smallest = Layout::smallest()?;
        let is_active = correction.as_ref().is_some_and(|correction| correction.is_active());
        let layout = if is_active { layout } else { &smallest };
        Ok(Self {
            residual: backend.zeros(layout)?,
            has_residual: is_active,
            scalars: backend.scalars()?,
            bytes: layout.len() * size_of::<T>() + correction.as_ref().map_or(0, |correction| correction.bytes()),
            correction,
        })
    }

    fn active(&self) -> Option<&dyn Correction<B, T>> {
        self.correction.as_deref().filter(|correction| correction.is_active())
    }

    /// Computes u += correction of f − A u; returns whether there was any.
    fn apply(
        &mut self,
        level: &dyn LineSmoother<B, T>,
        f: &B::Vector<T>,
        u: &mut B::Vector<T>,
        guess: Guess,
    ) -> Result<bool> {
        let Self { correction, residual, scalars, .. } = self;
        let Some(correction) = correction.as_deref().filter(|correction| correction.is_active()) else {
            return Ok(false);
        };
        if guess == Guess::Zero {
            correction.correct(f, u, guess)?;
        } else {
            level.residual_alone(f, [u, residual], (Scalar::new(0), scalars))?;
            correction.correct(residual, u, guess)?;
        }
        Ok(true)
    }
}

impl<B: Backend, T: Real> Cycle<B, T> {
    /// Makes the vectors of a hierarchy.
    ///
    /// # Errors
    /// Fails if they do not fit in memory.
    pub fn new<S>(hierarchy: &Hierarchy<B, S, T>, options: &MultigridOptions) -> Result<Self> {
        let steps = Steps {
            backend: hierarchy.levels[0].backend().clone(),
            levels: hierarchy.levels.clone(),
            transfers: hierarchy.transfers.clone(),
            coarsest: hierarchy.coarsest.clone(),
            visits: hierarchy.visits.clone(),
            recipes: Recipe::of_levels(hierarchy, options),
        };
        Self::of(Arc::new(steps), hierarchy.corrections.iter().cloned())
    }

    /// Makes another cycle of the same steps, with its own vectors.
    ///
    /// # Errors
    /// See [`Cycle::new`].
    pub fn another(&self) -> Result<Self> {
        Self::of(Arc::clone(&self.steps), self.corrections.iter().map(|corrected| corrected.correction.clone()))
    }

    fn of(
        steps: Arc<Steps<B, T>>,
        corrections: impl Iterator<Item = Option<Arc<dyn Correction<B, T>>>>,
    ) -> Result<Self> {
        let (mut vectors, mut scratch, mut corrected, mut len) = (Vec::new(), Vec::new(), Vec::new(), 0);
        let Steps { backend, levels, recipes, coarsest, .. } = &*steps;
        for (n, ((level, recipe), correction)) in levels.iter().zip(recipes).zip(corrections).enumerate() {
            let layout = level.layout();
            if n > 0 {
                vectors.push(LevelVectors { f: backend.zeros(layout)?, u: backend.zeros(layout)? });
                len += 2 * layout.len();
            }
            let room = scratch_layout(&**level, recipe.single.smoother)?;
            scratch.push(backend.zeros(&room)?);
            len += room.len();
            corrected.push(Corrected::new(backend, layout, correction)?);
        }
        let bytes = len * size_of::<T>()
            + corrected.iter().map(|correction| correction.bytes).sum::<usize>()
            + coarsest.as_ref().map_or(0, |solver| solver.bytes());
        Ok(Self { steps, vectors, scratch, corrections: corrected, bytes })
    }

    /// Allocates scratch for corrections that have become active.
    ///
    /// # Errors
    /// See [`Backend::zeros`].
    pub fn update(&mut self) -> Result<()> {
        for (level, corrected) in self.steps.levels.iter().zip(&mut self.corrections) {
            if corrected.active().is_some() && !corrected.has_residual {
                *corrected = Corrected::new(&self.steps.backend, level.layout(), corrected.correction.clone())?;
            }
        }
        Ok(())
    }

    /// Returns the finest level.
    pub fn finest(&self) -> &Arc<dyn LineSmoother<B, T>> {
        &self.steps.levels[0]
    }

    /// Runs one cycle on A u = f; where it is wanted, with ‖f − A u‖² at its end.
    pub fn cycle(
        &mut self,
        f: &B::Vector<T>,
        u: &mut B::Vector<T>,
        guess: Guess,
        norm: Option<Sum<'_, B>>,
    ) -> Result<()> {
        self.parts(0).cycle(f, u, guess, norm)
    }

    /// Computes u = τ cycle(u) + (1 − τ) u, with one cycle on A u = f; `before` is overwritten.
    pub fn extrapolated(&mut self, f: &B::Vector<T>, [u, before]: [&mut B::Vector<T>; 2], tau: f64) -> Result<()> {
        if !self.can_lend_its_top() {
            self.steps.backend.convert(u, before)?;
            self.cycle(f, u, Guess::Given, None)?;
            return self.steps.backend.extrapolate(tau, before, u);
        }
        let (sweep, post_sweep) = (self.steps.recipes[0].pre[0], self.steps.recipes[0].post[0]);
        let (coarse_f, scratch) = (&mut self.vectors[0].f, &mut self.scratch[0]);
        let sweep = Sweep::new(sweep, Guess::Given, f, u, scratch);
        self.steps.transfers[0].keep_smooth_residual_restrict(sweep, before, coarse_f)?;
        self.cycle_below()?;
        let (coarse_u, scratch) = (&mut self.vectors[0].u, &mut self.scratch[0]);
        let sweep = Sweep::new(post_sweep, Guess::Given, f, u, scratch);
        self.steps.transfers[0].prolong_smooth_extrapolate(coarse_u, sweep, (before, tau))
    }

    /// Returns level n and the coarser ones.
    fn parts(&mut self, n: usize) -> Levels<'_, B, T> {
        Levels {
            steps: &self.steps,
            at: n,
            vectors: &mut self.vectors[n..],
            scratch: &mut self.scratch[n..],
            corrections: &mut self.corrections[n..],
        }
    }

    /// Returns whether a cycle is a V(1,1) with coarser levels, whose finest level a
    /// [`MixedTop`](crate::operator::mixed::MixedTop) may replace, by [`Cycle::coarse`] and [`Cycle::cycle_below`].
    pub(crate) fn can_lend_its_top(&self) -> bool {
        let is_plain = self.steps.visits.first() == Some(&1) && self.corrections[0].active().is_none();
        is_plain && (self.steps.recipes[0].pre.len(), self.steps.recipes[0].post.len()) == (1, 1)
    }

    /// Returns the right-hand side and the solution of the second level.
    pub(crate) fn coarse(&mut self) -> Option<(&mut B::Vector<T>, &mut B::Vector<T>)> {
        self.vectors.first_mut().map(|LevelVectors { f, u }| (f, u))
    }

    /// Runs one cycle from zero on the levels below the finest, if there are any.
    pub(crate) fn cycle_below(&mut self) -> Result<()> {
        match self.parts(0).below() {
            Some((LevelVectors { f, u }, mut below)) => below.cycle(f, u, Guess::Zero, None),
            None => Ok(()),
        }
    }

    /// Runs full multigrid: u from f alone, coarse to fine, one cycle a level.
    pub fn full_multigrid(&mut self, [f, u]: [&mut B::Vector<T>; 2], mut norm: Option<Sum<'_, B>>) -> Result<()> {
        for n in 0..self.vectors.len() {
            let (above, below) = self.vectors.split_at_mut(n);
            let fine_f = above.last_mut().map_or(&mut *f, |level| &mut level.f);
            self.steps.transfers[n].restrict(fine_f, &mut below[0].f)?;
        }
        for n in (0..self.steps.levels.len()).rev() {
            let (above, below) = self.vectors.split_at_mut(n);
            let (f, u) = match above.last_mut() {
                Some(level) => (&level.f, &mut level.u),
                None => (&*f, &mut *u),
            };
            let guess = match below.first_mut() {
                None => Guess::Zero,
                Some(coarse) => {
                    self.steps.backend.clear(u)?;
                    self.steps.transfers[n].prolong(&mut coarse.u, u)?;
                    Guess::Given
                }
            };
            let mut levels = Levels {
                steps: &self.steps,
                at: n,
                vectors: below,
                scratch: &mut self.scratch[n..],
                corrections: &mut self.corrections[n..],
            };
            levels.cycle(f, u, guess, if n == 0 { norm.take() } else { None })?;
        }
        Ok(())
    }

    /// Returns the bytes of vectors held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns whether anything besides sweeps and transfers works on the host, so that cycles cannot be recorded and
    /// replayed.
    pub fn needs_host(&self) -> bool {
        let is_on_host = |corrected: &Corrected<B, T>| corrected.active().is_some_and(Correction::needs_host);
        self.steps.coarsest.as_ref().is_some_and(|solver| solver.needs_host())
            || self.corrections.iter().any(is_on_host)
    }

    /// Returns the cells of the finest grid.
    pub(crate) fn cells(&self) -> usize {
        self.steps.levels[0].layout().shape().cells()
    }

    /// Returns the traffic of one cycle, level by level.
    pub fn traffic(&self, finest_guess: Guess) -> Vec<StepTraffic> {
        let mut steps = Vec::new();
        let mut times = 1.0;
        for (n, level) in self.steps.levels.iter().enumerate() {
            let cells = level.layout().shape().cells();
            let Recipe { pre, post, coarse, .. } = &self.steps.recipes[n];
            if n > 0 {
                times *= self.steps.visits[n - 1] as f64;
            }
            let mut push = |step, count: usize| {
                if count > 0 {
                    let step = StepTraffic::once::<T>(step, cells).with_coefficients(level.coefficient_vectors());
                    steps.push(step.times(times * count as f64));
                }
            };
            if n + 1 == self.steps.levels.len() && self.steps.coarsest.is_some() {
                continue;
            }
            let zero = n > 0 || finest_guess == Guess::Zero;
            let first = if zero { traffic::SMOOTH_FROM_ZERO } else { traffic::SMOOTH };
            if n + 1 == self.steps.levels.len() {
                push(first, 1);
                push(traffic::SMOOTH, coarse.len() - 1);
                continue;
            }
            match pre.len() {
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
            push(traffic::SMOOTH, post.len().saturating_sub(1));
        }
        steps
    }
}

/// A level and the coarser ones, during a cycle.
struct Levels<'a, B: Backend, T: Real> {
    steps: &'a Steps<B, T>,
    /// The number of the level.
    at: usize,
    vectors: &'a mut [LevelVectors<B::Vector<T>>],
    scratch: &'a mut [B::Vector<T>],
    corrections: &'a mut [Corrected<B, T>],
}

impl<B: Backend, T: Real> Levels<'_, B, T> {
    /// Returns the next level's vectors, and that level with the coarser ones.
    fn below(&mut self) -> Option<(&mut LevelVectors<B::Vector<T>>, Levels<'_, B, T>)> {
        let (vectors, coarser) = self.vectors.split_first_mut()?;
        let below = Levels {
            steps: self.steps,
            at: self.at + 1,
            vectors: coarser,
            scratch: &mut self.scratch[1..],
            corrections: &mut self.corrections[1..],
        };
        Some((vectors, below))
    }

    fn cycle(
        &mut self,
        f: &B::Vector<T>,
        u: &mut B::Vector<T>,
        mut guess: Guess,
        norm: Option<Sum<'_, B>>,
    ) -> Result<()> {
        let Steps { backend, levels, transfers, coarsest, visits, recipes } = self.steps;
        let Recipe { pre, post, coarse, .. } = &recipes[self.at];
        let level = &*levels[self.at];
        let Some(transfer) = transfers.get(self.at) else {
            let scratch = &mut self.scratch[0];
            if let Some(solver) = coarsest {
                solver.solve(f, u)?;
                return finish(level, f, u, scratch, norm);
            }
            for &relaxation in coarse {
                level.smooth(Sweep::new(relaxation, guess, f, u, scratch))?;
                guess = Guess::Given;
            }
            return finish(level, f, u, scratch, norm);
        };
        if self.corrections[0].apply(level, f, u, guess)? {
            guess = Guess::Given;
        }
        let scratch = &mut self.scratch[0];
        let coarse_f = &mut self.vectors[0].f;
        match pre.split_last() {
            Some((&last, first)) => {
                for &relaxation in first {
                    level.smooth(Sweep::new(relaxation, guess, f, u, scratch))?;
                    guess = Guess::Given;
                }
                transfer.smooth_residual_restrict(Sweep::new(last, guess, f, u, scratch), coarse_f)?;
            }
            None => {
                if guess == Guess::Zero {
                    backend.clear(u)?;
                }
                transfer.residual_restrict(f, [u, coarse_f, scratch])?;
            }
        }
        let n = self.at;
        if let Some((LevelVectors { f, u }, mut below)) = self.below() {
            for visit in 0..visits[n] {
                below.cycle(f, u, if visit == 0 { Guess::Zero } else { Guess::Given }, None)?;
            }
        }
        let corrected = &mut self.corrections[0];
        let is_corrected = corrected.active().is_some();
        let (coarse_u, scratch) = (&mut self.vectors[0].u, &mut self.scratch[0]);
        match post[..] {
            [] => transfer.prolong(coarse_u, u)?,
            [relaxation] if !is_corrected => {
                return transfer.prolong_smooth(coarse_u, Sweep::new(relaxation, Guess::Given, f, u, scratch), norm);
            }
            [relaxation, ref others @ ..] => {
                transfer.prolong_smooth(coarse_u, Sweep::new(relaxation, Guess::Given, f, u, scratch), None)?;
                for &relaxation in others {
                    level.smooth(Sweep::new(relaxation, Guess::Given, f, u, scratch))?;
                }
            }
        }
        corrected.apply(level, f, u, Guess::Given)?;
        finish(level, f, u, scratch, norm)
    }
}

fn finish<B: Backend, T: Real>(
    level: &dyn LineSmoother<B, T>,
    f: &B::Vector<T>,
    u: &mut B::Vector<T>,
    scratch: &mut B::Vector<T>,
    norm: Option<Sum<'_, B>>,
) -> Result<()> {
    match norm {
        Some((scalar, scalars)) => level.residual_norm(f, [u, scratch], scalar.of(scalars)),
        None => Ok(()),
    }
}

impl<B: Backend, T: Real> Preconditioner<B, T> for Cycle<B, T> {
    fn backend(&self) -> &B {
        &self.steps.backend
    }

    fn apply(&mut self, r: &mut B::Vector<T>, z: &mut B::Vector<T>) -> Result<()> {
        self.cycle(r, z, Guess::Zero, None)
    }

    /// Returns whether the cycle is not symmetric: it is symmetric only if restriction is the transpose of
    /// prolongation, and the steps after the coarse correction mirror those before.
    fn is_variable(&self) -> bool {
        let is_adjoint = self.steps.transfers.iter().all(|transfer| transfer.is_adjoint());
        let ends_symmetric = |recipe: &Recipe| mirrors(&recipe.coarse, &recipe.coarse);
        !(is_adjoint
            && self.steps.recipes.iter().all(|recipe| mirrors(&recipe.pre, &recipe.post))
            && (self.steps.coarsest.is_some() || self.steps.recipes.last().is_some_and(ends_symmetric)))
    }

    fn is_strong(&self) -> bool {
        true
    }

    fn another(&self) -> Result<Option<Box<dyn Preconditioner<B, T>>>> {
        Ok(Some(Box::new(Self::another(self)?)))
    }

    fn update(&mut self) -> Result<()> {
        Cycle::update(self)
    }

    fn needs_host(&self) -> bool {
        Cycle::needs_host(self)
    }

    fn apply_traffic(&self, _: usize) -> Vec<StepTraffic> {
        Cycle::traffic(self, Guess::Zero)
    }

    fn workspace_bytes(&self) -> usize {
        self.bytes
    }
}
