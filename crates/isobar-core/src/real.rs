//! The scalar types a solve can run in.

use std::fmt::{Debug, Display};
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub, SubAssign};

use serde::{Deserialize, Serialize};

use crate::simd::Lanes;

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// A floating-point type that vectors and coefficients can be stored in: `f32` or `f64`.
///
/// Reductions (inner products, norms) are accumulated and returned in `f64` for either storage.
pub trait Real:
    sealed::Sealed
    + Copy
    + Debug
    + Default
    + Display
    + PartialOrd
    + Send
    + Sync
    + 'static
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + Sum
    + Lanes
{
    /// Additive identity.
    const ZERO: Self;
    /// Multiplicative identity.
    const ONE: Self;
    /// Relative spacing of the type, 2⁻²³ or 2⁻⁵².
    const EPSILON: f64;
    /// The name used in case files and reports.
    const PRECISION: Precision;

    /// Rounds to the nearest representable value.
    fn from_f64(value: f64) -> Self;
    /// Widens exactly.
    fn to_f64(self) -> f64;
    /// Computes `self · b + c` in one rounding.
    fn mul_add(self, b: Self, c: Self) -> Self;
}

macro_rules! real {
    ($t:ty, $precision:expr) => {
        impl Real for $t {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const EPSILON: f64 = <$t>::EPSILON as f64;
            const PRECISION: Precision = $precision;

            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                value as $t
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                f64::from(self)
            }
            #[inline(always)]
            fn mul_add(self, b: Self, c: Self) -> Self {
                <$t>::mul_add(self, b, c)
            }
        }
    };
}
real!(f32, Precision::F32);
real!(f64, Precision::F64);

/// The storage of numbers during a solve. The result is always judged in double precision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// All in double precision.
    #[default]
    F64,
    /// All in single precision.
    F32,
    /// Multigrid cycles in single precision inside a double-precision correction loop.
    Mixed,
}

impl Display for Precision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.serialize(f)
    }
}

/// Returns h_a h_b / (h_a + h_b), and 0 where either is 0; never overflows.
#[inline(always)]
pub(crate) fn harmonic(a: f64, b: f64) -> f64 {
    if a > 0.0 && b > 0.0 { a * (b / (a + b)) } else { 0.0 }
}

/// Views numbers as their bytes in memory.
pub fn bytes_of<T: Real>(values: &[T]) -> &[u8] {
    // SAFETY: `Real` is sealed: f32 or f64, of which every byte is initialised.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// Views numbers as bytes that may be written: any bytes are a valid number.
pub fn bytes_of_mut<T: Real>(values: &mut [T]) -> &mut [u8] {
    // SAFETY: as above, and any bytes are an f32 or f64.
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), size_of_val(values)) }
}
