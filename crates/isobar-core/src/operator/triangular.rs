//! Steps with the strict triangular parts of a matrix, for preconditioners that use them.

use super::{Diagonal, ResidualUpdate, update_residual_unfused};
use crate::{Backend, Precision, Real, Result, Shape, Sum};

/// A symmetric matrix A = L + D + Lᵀ, its unknowns numbered x first, then y, then z (the C order of a caller's arrays, for any layout
/// on the device). L holds each cell's couplings to neighbours of lower number: west, south and below, and across a periodic side the
/// cell at the other end.
///
/// If D is zero, so is D⁻¹.
pub trait Triangular<B: Backend, T: Real>: Diagonal<B, T> {
    /// v = D⁻¹(r − L w);  where it is wanted, ρ = ⟨v, D v⟩
    fn relax_lower(&self, r: &B::Vector<T>, w_v: [&mut B::Vector<T>; 2], rho: Option<Sum<'_, B>>) -> Result<()>;

    /// z = v − D⁻¹ Lᵀ w, where w is v unless another is given
    fn relax_upper(&self, v: &mut B::Vector<T>, w: Option<&mut B::Vector<T>>, z: &mut B::Vector<T>) -> Result<()>;

    /// z = M⁻¹ r, the incomplete Poisson preconditioner on A's own pattern (paper D, equation 7):
    ///
    /// * unscaled: (I − L D⁻¹)(I − D⁻¹ Lᵀ), that is
    ///   z_n = r_n (1 + Σ_lower (T/d_m)²) + Σ_lower T r_m/d_m + Σ_upper T r_m/d_n;
    /// * scaled: the same of D^−½ A D^−½, that is
    ///   z_n = (r_n/d_n)(1 + Σ_lower T²/(d_n d_m)) + Σ_all T r_m/(d_n d_m).
    ///
    /// `inverse_diagonal` is D⁻¹ as a vector, from [`Triangular::factorise`].
    fn incomplete_poisson(
        &self,
        scaled: bool,
        inverse_diagonal: &B::Vector<T>,
        r_z: [&mut B::Vector<T>; 2],
    ) -> Result<()>;

    /// Computes the pivots Δ of incomplete Cholesky without fill-in in blocks of `block` consecutive unknowns, as Δ⁻¹:
    ///
    /// d_n = a_nn − Σ_m (T_nm/d_m) (T_nm + ω Σ_p T_pm)
    ///
    /// over the lower neighbours m of n in the same block, and the other upper neighbours p of m there. The second sum is the dropped
    /// fill-in; ω = `relaxation` of it is subtracted from the diagonal. With ω = 0 this is IC(0), with ω = 1 MIC(0), whose M has the
    /// row sums of A (Gustafsson, 1978; paper E).
    ///
    /// Here d_n ≥ s_n + Σ T_np over its own upper neighbours, so that only the last pivot of a floating component can vanish. A pivot
    /// that is only rounding of its diagonal entry is replaced by that entry, and 1/d_n is 0 if the entry is 0.
    fn factorise(&self, block: usize, relaxation: f64, inverse_pivots: &mut B::Vector<T>) -> Result<()>;

    /// Returns whether there are pivots of blocks of more than one unknown, and [`Triangular::substitute`]: not where several devices
    /// share the unknowns and do not visit them in order.
    fn substitutes(&self) -> bool {
        true
    }

    /// Returns whether [`Triangular::substitute`] goes through the host, so that a device cannot record it.
    fn substitutes_on_host(&self) -> bool {
        false
    }

    /// z = M⁻¹ r with M = (Δ + L_b) Δ⁻¹ (Δ + L_bᵀ): L_b is L without the couplings between blocks of `block` consecutive
    /// unknowns, Δ the pivots of [`Triangular::factorise`], given as Δ⁻¹. Forward, then backward substitution.
    fn substitute(
        &self,
        block: usize,
        inverse_pivots: &B::Vector<T>,
        r: &B::Vector<T>,
        z: &mut B::Vector<T>,
    ) -> Result<()>;

    /// r −= αq;  z = M⁻¹ r;  ρ = ⟨r, z⟩;  ‖r‖², with M of [`Triangular::substitute`]
    fn substitute_residual(
        &self,
        block: usize,
        inverse_pivots: &B::Vector<T>,
        v: ResidualUpdate<'_, B::Vector<T>>,
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        update_residual_unfused::<B, T>(self.backend(), v, scalars, |r, z| self.substitute(block, inverse_pivots, r, z))
    }
}

/// Returns whether a block of `block` consecutive unknowns has coupled cells of both this row and the one before.
pub fn blocks_cross(whole: Shape, block: usize, row: usize) -> bool {
    let Shape { nx, ny, nz } = whole;
    let is_cut = |k: usize| (nx * (row + ny * k)).is_multiple_of(block);
    block > nx && !(0..nz).all(is_cut)
}

/// Returns the fraction of its diagonal entry below which a pivot is the last of a singular block, and rounding.
pub fn singular_pivot<T: Real>() -> f64 {
    match T::PRECISION {
        Precision::F64 | Precision::Mixed => 1e-12,
        Precision::F32 => 1e-5,
    }
}
