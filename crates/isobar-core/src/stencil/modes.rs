//! Vertical modes: the directions that decouple a tensor-product matrix into two-dimensional problems.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::error::Number;
use crate::grid::VerticalProfile;
use crate::{Error, Result, eigen};

/// The vertical modes of A = |T| ⊗ V + L_h ⊗ D, where V is the tridiagonal matrix of a, b and c, D = diag(−d), and L_h the
/// horizontal couplings: the pencil V s = μ D s with Sᵀ D S = 1. In u = Σ s_m x_m the matrix is Σ (μ_m |T| + L_h): one
/// problem in two dimensions a mode, which is the easier the larger μ_m.
#[derive(Clone, Debug, PartialEq)]
pub struct VerticalModes {
    /// μ_m, the smallest first.
    values: Vec<f64>,
    /// The vectors s_m, one after another.
    vectors: Vec<f64>,
    layers: usize,
}

impl VerticalModes {
    /// Computes all modes of a profile.
    ///
    /// With V = RᵀR, R upper bidiagonal, μ are the squares of the singular values of R D^−½. Its entries are sums and
    /// quotients of positive numbers, so that the smallest μ is known as well as rounding allows however thin a layer is
    /// ([`eigen::of_factor`]): to ε n μ, not to ε μ_max.
    ///
    /// # Errors
    /// [`Error::Invalid`] with the number of the layer where d is not negative or V is not positive semi-definite, and where V is not
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
            return refused(format!(
                "horizontal couplings in every layer, d < 0, and d is {} in layer {k}",
                Number(d[k] + 0.0)
            ));
        }
        let scale: Vec<f64> = d.iter().map(|d| (-d).sqrt()).collect();
        let (mut diagonal, mut above) = (Vec::with_capacity(layers), Vec::with_capacity(layers));
        let mut excess_over_pivot = 0.0;
        for k in 0..layers {
            // Elimination carries a row's sum along: V_kk is a − b − c.
            let excess = a[k] - c[k] * excess_over_pivot;
            let pivot = excess - b[k];
            if !(pivot > 0.0 || (pivot == 0.0 && b[k] == 0.0)) {
                return refused(format!(
                    "a positive semi-definite vertical operator, and elimination meets the pivot {pivot:.3e} in layer {k}"
                ));
            }
            let root = pivot.sqrt();
            diagonal.push(root / scale[k]);
            if k + 1 < layers {
                above.push(if b[k] == 0.0 { 0.0 } else { b[k] / root / scale[k + 1] });
            }
            excess_over_pivot = if pivot > 0.0 { excess / pivot } else { 0.0 };
        }
        let Some(eigen::Eigen { values, mut vectors }) = eigen::of_factor(&diagonal, &above) else {
            return refused("an eigenvalue decomposition of the vertical operator, which did not converge".into());
        };
        for vector in vectors.chunks_exact_mut(layers) {
            vector.iter_mut().zip(&scale).for_each(|(entry, scale)| *entry /= scale);
        }
        Ok(Self { values, vectors, layers })
    }

    /// μ_m, the smallest first.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Returns s_m, one number per layer.
    pub fn vector(&self, m: usize) -> &[f64] {
        &self.vectors[m * self.layers..][..self.layers]
    }

    /// Layers of the grid.
    pub fn layers(&self) -> usize {
        self.layers
    }

    /// Returns the number of modes.
    pub fn count(&self) -> usize {
        self.values.len()
    }

    /// Returns some of the modes.
    #[must_use]
    pub fn only(&self, which: Range<usize>) -> Self {
        let Range { start, end } = which.start.min(self.count())..which.end.min(self.count());
        let vectors = self.vectors[start * self.layers..end * self.layers].to_vec();
        Self { values: self.values[start..end].to_vec(), vectors, layers: self.layers }
    }
}

/// What follows from a matrix, such as its vertical modes: computed once and shared by all its copies. It does not count when matrices are compared.
#[derive(Clone)]
pub(super) struct Kept<T>(pub(super) Arc<OnceLock<T>>);

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> PartialEq for Kept<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<T> fmt::Debug for Kept<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.get().is_some() { "computed" } else { "not computed" })
    }
}
