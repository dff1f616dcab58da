//! Vertical modes: the directions in which a tensor-product matrix falls apart into two-dimensional problems.

use std::fmt;
use std::sync::Arc;

use super::hierarchy::{SupportsLevels, by_coarsening};
use super::{Hierarchy, Stencil, TensorProduct};
use crate::backend::Backend;
use crate::error::{Error, Result};
use crate::grid::VerticalProfile;
use crate::operator::{LineSmoother, ModalTransfer};
use crate::options::ModesOptions;
use crate::real::Real;

/// The vertical modes of A = |T| ⊗ V + L_h ⊗ D, where V is the tridiagonal matrix of a, b and c, D = diag(−d), and L_h the
/// horizontal couplings: the pencil V s = μ D s with Sᵀ D S = 1. In u = Σ s_m x_m the matrix is Σ (μ_m |T| + L_h): one
/// problem in two dimensions a mode, which is the easier the larger μ_m.
#[derive(Clone, Debug, PartialEq)]
pub struct VerticalModes {
    /// μ_m, the smallest first.
    values: Vec<f64>,
    /// s_m, one after another.
    vectors: Vec<f64>,
    layers: usize,
}

impl VerticalModes {
    /// All modes of a profile.
    ///
    /// With V = RᵀR, R upper bidiagonal, μ are the squares of the singular values of R D^−½. Its entries are sums and
    /// quotients of positive numbers, so that the smallest μ is known as well as rounding allows however thin a layer is:
    /// to ε √(μ_max μ), not to ε μ_max.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming the layer where d is not negative or V is not positive semi-definite, and where V is not
    /// symmetric.
    pub fn new(profile: &VerticalProfile) -> Result<Self> {
        let layers = profile.len();
        let VerticalProfile { a, b, c, d } = profile;
        let refused =
            |why: String| Err(Error::invalid("solver.method", format!("vertical modes need {why}; use \"multigrid\"")));
        if !profile.is_symmetric() {
            return refused(
                "a symmetric vertical operator, b_k = c_{k+1}, and advection makes this one non-symmetric".into(),
            );
        }
        if let Some(k) = d.iter().position(|&d| d >= 0.0) {
            return refused(format!("horizontal couplings in every layer, d < 0, and d is {:e} in layer {k}", d[k]));
        }
        let scale: Vec<f64> = d.iter().map(|d| (-d).sqrt()).collect();
        let mut factor = faer::Mat::<f64>::zeros(layers, layers);
        let mut excess_over_pivot = 0.0;
        for k in 0..layers {
            // As in elimination, with a row's sum carried along: V_kk is a − b − c.
            let excess = a[k] - c[k] * excess_over_pivot;
            let pivot = excess - b[k];
            if !(pivot > 0.0 || (pivot == 0.0 && b[k] == 0.0)) {
                return refused(format!(
                    "a positive semi-definite vertical operator, and elimination meets the pivot {pivot:.3e} in layer {k}"
                ));
            }
            let root = pivot.sqrt();
            factor[(k, k)] = root / scale[k];
            if k + 1 < layers && b[k] != 0.0 {
                factor[(k, k + 1)] = b[k] / root / scale[k + 1];
            }
            excess_over_pivot = if pivot > 0.0 { excess / pivot } else { 0.0 };
        }
        let Ok(svd) = factor.svd() else {
            return refused("an eigenvalue decomposition of the vertical operator, which did not converge".into());
        };
        let (singular, right) = (svd.S(), svd.V());
        // Largest first, as they come.
        let order = || (0..layers).rev();
        let values = order().map(|m| singular[m] * singular[m]).collect();
        let vectors = order().flat_map(|m| (0..layers).map(move |k| (m, k))).map(|(m, k)| right[(k, m)] / scale[k]);
        Ok(Self { values, vectors: vectors.collect(), layers })
    }

    /// μ_m, the smallest first.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// s_m, one number a layer.
    pub fn vector(&self, m: usize) -> &[f64] {
        &self.vectors[m * self.layers..][..self.layers]
    }

    /// Layers of the grid.
    pub fn layers(&self) -> usize {
        self.layers
    }

    /// How many modes there are.
    pub fn count(&self) -> usize {
        self.values.len()
    }

    /// The first modes alone.
    #[must_use]
    pub fn truncated(mut self, count: usize) -> Self {
        self.values.truncate(count);
        self.vectors.truncate(self.values.len() * self.layers);
        self
    }
}

impl TensorProduct {
    /// Its vertical modes, or those of the symmetric part of its vertical operator.
    ///
    /// # Errors
    /// Those of [`VerticalModes::new`].
    pub fn modes(&self) -> Result<VerticalModes> {
        let VerticalProfile { a, b, c, d } = self.vertical();
        if self.vertical().is_symmetric() {
            return VerticalModes::new(self.vertical());
        }
        let coupling: Vec<f64> = b.iter().zip(&c[1..]).map(|(b, c)| 0.5 * (b + c)).collect();
        let above = coupling.iter().copied().chain([0.0]).collect();
        let below = [0.0].into_iter().chain(coupling.iter().copied()).collect();
        VerticalModes::new(&VerticalProfile::new(a.clone(), above, below, d.clone())?)
    }

    /// The two-dimensional problems of some modes, one a layer: μ_m |T| + L_h.
    ///
    /// # Errors
    /// Those of [`TensorProduct::new`].
    pub fn of_modes(&self, modes: &VerticalModes) -> Result<Self> {
        let count = modes.count();
        let profile =
            VerticalProfile::new(modes.values().to_vec(), vec![0.0; count], vec![0.0; count], vec![-1.0; count])?;
        self.with_vertical(profile)
    }

    /// Of two-dimensional problems: levels until horizontal couplings are no larger than μ |T|. Coarsening quarters them.
    fn levels_of_modes(&self) -> usize {
        let largest = (self.largest_ratio() / self.vertical().a[0]).max(1.0);
        let columns = Stencil::shape(self).nx.max(Stencil::shape(self).ny) as f64;
        1 + largest.log(4.0).min(columns.log2()).ceil() as usize
    }

    /// By how much a sweep of line relaxation of one colour after the other reduces what a mode contributes to the
    /// residual, at least: max (α_T/(α_T + μ |T|))² over the columns.
    pub fn rate_of_lines(&self, mu: f64) -> f64 {
        let ratio = self.largest_ratio();
        (ratio / (ratio + mu)).powi(2)
    }

    /// max α_T/|T| over the columns
    fn largest_ratio(&self) -> f64 {
        let h = self.horizontal();
        h.total.iter().zip(&h.area).map(|(total, area)| total / area).fold(0.0, f64::max)
    }
}

/// Some vertical modes of a matrix on a device. The modes have a precision of their own.
pub struct Modes<B: Backend, S, T: Real, C: Real> {
    /// Between the grid and the modes.
    pub transfer: Arc<dyn ModalTransfer<B, T, C>>,
    /// The two-dimensional problems, a layer each, and the levels of multigrid for them. What updates these updates the
    /// transfer too, given the coefficients of the whole matrix.
    pub problems: Hierarchy<B, S, C>,
    /// How many there are, and what an iteration does.
    pub plan: Plan,
}

/// What an iteration by vertical modes consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Modes with a problem of their own.
    pub count: usize,
    /// Cycles of multigrid on these.
    pub cycles: usize,
    /// Sweeps of lines on the grid.
    pub sweeps: usize,
    /// Layers of the grid.
    pub layers: usize,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, cycles, sweeps, layers } = self;
        write!(f, "{count} of {layers} vertical modes, {cycles} cycles on them and {sweeps} sweeps an iteration")
    }
}

/// What an iteration by modes can be asked to reduce the residual by.
const MOST_AT_ONCE: f64 = 1e-6;
/// The rate of sweeps does not hold in the norm of the residual: a little more is asked for.
const MARGIN: f64 = 0.3;
/// What a cycle on the two-dimensional problems leaves of the residual.
const RATE_OF_CYCLES: f64 = 0.11;
/// Vectors of the modes that a cycle moves.
const VECTORS_OF_A_CYCLE: f64 = 12.0;
/// The most sweeps an iteration where nobody says.
const MOST_SWEEPS: usize = 8;
/// Vectors of the grid that a sweep moves.
const VECTORS_OF_A_SWEEP: f64 = 3.0;

impl Plan {
    /// What reaches a tolerance at the least cost, as far as the options leave it open.
    fn new(stencil: &TensorProduct, modes: &VerticalModes, options: &ModesOptions, tolerance: f64) -> Result<Self> {
        if let Some(count) = options.count.given().filter(|&count| count > modes.count()) {
            return Err(Error::invalid(
                "solver.modes.count",
                format!("{count} modes of a grid of {} layers, which has no more than these", modes.layers()),
            ));
        }
        let iterations = (tolerance.ln() / MOST_AT_ONCE.ln()).ceil().max(1.0);
        let goal = tolerance.powf(1.0 / iterations);
        let cycles = options.cycles.given().unwrap_or((goal.ln() / RATE_OF_CYCLES.ln()).ceil().max(1.0) as usize);
        let ratio = stencil.largest_ratio();
        let rates: Vec<f64> = modes.values().iter().map(|mu| (ratio / (ratio + mu)).powi(2)).collect();
        let layers = modes.layers();
        let enough = |sweeps: usize| {
            let left = |rate: &f64| rate.powi(sweeps as i32) <= MARGIN * goal;
            rates.iter().position(left).unwrap_or(rates.len()).max(1)
        };
        let with = |sweeps: usize| Self {
            count: options.count.given().unwrap_or_else(|| enough(sweeps)),
            cycles,
            sweeps,
            layers,
        };
        let cost = |plan: &Self| {
            let modes = VECTORS_OF_A_CYCLE * (plan.cycles * plan.count) as f64 / layers as f64;
            modes + VECTORS_OF_A_SWEEP * plan.sweeps as f64
        };
        let cheapest = |best: Self, other: Self| if cost(&other) < cost(&best) { other } else { best };
        Ok(match (options.sweeps.given(), options.count.given()) {
            (Some(sweeps), _) => with(sweeps),
            // As many as make up for modes that are not there.
            (None, Some(count)) => with((1..MOST_SWEEPS).find(|&n| enough(n) <= count).unwrap_or(MOST_SWEEPS)),
            (None, None) => (2..=MOST_SWEEPS).map(with).fold(with(1), cheapest),
        })
    }
}

/// A back end that goes between a grid and its vertical modes.
pub trait SupportsModes: SupportsLevels<TensorProduct> {
    /// What goes between the operator of a grid and some modes of it.
    ///
    /// # Errors
    /// As [`Supports::operator`](super::Supports::operator).
    fn modal_transfer<T: Real, C: Real>(
        &self,
        operator: &Arc<Self::Operator<T>>,
        modes: &VerticalModes,
    ) -> Result<Arc<dyn ModalTransfer<Self, T, C>>>;
}

/// So many modes of a tensor-product matrix.
///
/// # Errors
/// Those of [`VerticalModes::new`]; as [`Supports::operator`](super::Supports::operator).
pub fn by_modes<B, T, C>(
    backend: &B,
    stencil: &TensorProduct,
    operator: &Arc<B::Operator<T>>,
    options: &ModesOptions,
    tolerance: f64,
) -> Result<Modes<B, TensorProduct, T, C>>
where
    B: SupportsModes,
    T: Real,
    C: Real,
    B::Operator<C>: LineSmoother<B, C>,
{
    let modes = stencil.modes()?;
    let plan = Plan::new(stencil, &modes, options, tolerance)?;
    let modes = modes.truncated(plan.count);
    let plane = stencil.of_modes(&modes)?;
    let problem = backend.operator::<C>(&plane)?;
    let transfer = backend.modal_transfer::<T, C>(operator, &modes)?;
    let Hierarchy { levels, transfers, notes, update: update_levels, .. } =
        by_coarsening(backend, &plane, &problem, Some(plane.levels_of_modes()))?;
    let (backend, to_update, count) = (backend.clone(), Arc::clone(&transfer), plan.count);
    let update = move |stencil: &TensorProduct| {
        let modes = stencil.modes()?.truncated(count);
        to_update.update(&modes)?;
        let plane = stencil.of_modes(&modes)?;
        backend.update(&problem, &plane)?;
        update_levels(&plane)
    };
    Ok(Modes { transfer, problems: Hierarchy::plain(levels, transfers, notes, Box::new(update)), plan })
}
