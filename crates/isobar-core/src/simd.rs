//! Explicit vector lanes for a generic [`Real`](crate::real::Real), for the loops of the CPU back end.
//!
//! [`pulp`] has the instructions, chosen at run time, with methods that differ by element type; the [`Lanes`] trait and the [`Pack`] wrapper let
//! one loop serve both precisions and read like its formula.

use std::ops::{Add, Mul, Neg, Sub};

use pulp::{Simd, WithSimd};

/// An element type of which a vector register holds a pack.
pub trait Lanes: Copy + 'static {
    /// A register of elements.
    type Register<S: Simd>: Copy + std::fmt::Debug;

    /// Returns a row as packs, and the rest that does not fill one.
    fn registers<S: Simd>(row: &[Self]) -> (&[Self::Register<S>], &[Self]);
    /// Returns a row as packs to write.
    fn registers_mut<S: Simd>(row: &mut [Self]) -> (&mut [Self::Register<S>], &mut [Self]);
    /// Returns one value in all lanes.
    fn splat<S: Simd>(simd: S, value: Self) -> Self::Register<S>;
    /// a + b
    fn add<S: Simd>(simd: S, a: Self::Register<S>, b: Self::Register<S>) -> Self::Register<S>;
    /// a − b
    fn sub<S: Simd>(simd: S, a: Self::Register<S>, b: Self::Register<S>) -> Self::Register<S>;
    /// a b
    fn mul<S: Simd>(simd: S, a: Self::Register<S>, b: Self::Register<S>) -> Self::Register<S>;
    /// a / b
    fn div<S: Simd>(simd: S, a: Self::Register<S>, b: Self::Register<S>) -> Self::Register<S>;
    /// a b + c, in one rounding if there is an instruction for it
    fn mul_add<S: Simd>(simd: S, a: Self::Register<S>, b: Self::Register<S>, c: Self::Register<S>)
    -> Self::Register<S>;
    /// −a
    fn neg<S: Simd>(simd: S, a: Self::Register<S>) -> Self::Register<S>;
    /// 1 / a where a > 0, 0 elsewhere
    fn reciprocal<S: Simd>(simd: S, a: Self::Register<S>) -> Self::Register<S>;
    /// Returns a with another value in one lane.
    fn replace_lane<S: Simd>(simd: S, a: Self::Register<S>, lane: usize, value: Self) -> Self::Register<S>;
}

macro_rules! lanes {
    ($t:ty, $register:ident, $as_simd:ident, $as_mut_simd:ident, $splat:ident, $add:ident, $sub:ident, $mul:ident,
     $div:ident, $mul_add:ident, $neg:ident, $greater_than:ident, $equal:ident, $select:ident) => {
        impl Lanes for $t {
            type Register<S: Simd> = S::$register;

            #[inline(always)]
            fn registers<S: Simd>(row: &[Self]) -> (&[S::$register], &[Self]) {
                S::$as_simd(row)
            }
            #[inline(always)]
            fn registers_mut<S: Simd>(row: &mut [Self]) -> (&mut [S::$register], &mut [Self]) {
                S::$as_mut_simd(row)
            }
            #[inline(always)]
            fn splat<S: Simd>(simd: S, value: Self) -> S::$register {
                simd.$splat(value)
            }
            #[inline(always)]
            fn add<S: Simd>(simd: S, a: S::$register, b: S::$register) -> S::$register {
                simd.$add(a, b)
            }
            #[inline(always)]
            fn sub<S: Simd>(simd: S, a: S::$register, b: S::$register) -> S::$register {
                simd.$sub(a, b)
            }
            #[inline(always)]
            fn mul<S: Simd>(simd: S, a: S::$register, b: S::$register) -> S::$register {
                simd.$mul(a, b)
            }
            #[inline(always)]
            fn div<S: Simd>(simd: S, a: S::$register, b: S::$register) -> S::$register {
                simd.$div(a, b)
            }
            #[inline(always)]
            fn mul_add<S: Simd>(simd: S, a: S::$register, b: S::$register, c: S::$register) -> S::$register {
                simd.$mul_add(a, b, c)
            }
            #[inline(always)]
            fn neg<S: Simd>(simd: S, a: S::$register) -> S::$register {
                simd.$neg(a)
            }
            #[inline(always)]
            fn reciprocal<S: Simd>(simd: S, a: S::$register) -> S::$register {
                let zero = simd.$splat(0.0);
                simd.$select(simd.$greater_than(a, zero), simd.$div(simd.$splat(1.0), a), zero)
            }
            #[inline(always)]
            fn replace_lane<S: Simd>(simd: S, a: S::$register, lane: usize, value: $t) -> S::$register {
                const NUMBERS: [$t; 16] =
                    [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0];
                let numbers = Self::registers::<S>(&NUMBERS).0[0];
                simd.$select(simd.$equal(numbers, simd.$splat(lane as $t)), simd.$splat(value), a)
            }
        }
    };
}
lanes! {
    f32, f32s, as_simd_f32s, as_mut_simd_f32s, splat_f32s, add_f32s, sub_f32s, mul_f32s, div_f32s, mul_add_e_f32s,
    neg_f32s, greater_than_f32s, equal_f32s, select_f32s
}
lanes! {
    f64, f64s, as_simd_f64s, as_mut_simd_f64s, splat_f64s, add_f64s, sub_f64s, mul_f64s, div_f64s, mul_add_e_f64s,
    neg_f64s, greater_than_f64s, equal_f64s, select_f64s
}

/// A loop over plain numbers, for dispatch; the closure must be `#[inline(always)]`. (Pulp's own way with closures calls them by a function that
/// has no vector instructions.)
pub struct Plain<F>(pub F);

impl<F: FnMut()> WithSimd for Plain<F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        (self.0)();
    }
}

/// A register of numbers, with the operators of a number.
#[derive(Clone, Copy, Debug)]
pub struct Pack<S: Simd, T: Lanes> {
    simd: S,
    register: T::Register<S>,
}

impl<S: Simd, T: Lanes> Pack<S, T> {
    /// Returns one value in all lanes.
    #[inline(always)]
    pub fn splat(simd: S, value: T) -> Self {
        Self { simd, register: T::splat(simd, value) }
    }

    /// Makes a pack of a register.
    #[inline(always)]
    pub fn new(simd: S, register: T::Register<S>) -> Self {
        Self { simd, register }
    }

    /// Returns the instructions.
    #[inline(always)]
    pub fn simd(self) -> S {
        self.simd
    }

    /// Returns the register.
    #[inline(always)]
    pub fn register(self) -> T::Register<S> {
        self.register
    }

    /// self · b + c
    #[inline(always)]
    pub fn mul_add(self, b: Self, c: Self) -> Self {
        Self::new(self.simd, T::mul_add(self.simd, self.register, b.register, c.register))
    }

    /// self / b
    #[inline(always)]
    pub fn over(self, b: Self) -> Self {
        Self::new(self.simd, T::div(self.simd, self.register, b.register))
    }

    /// Replaces the value of one lane.
    #[inline(always)]
    pub fn with_lane(self, lane: usize, value: T) -> Self {
        Self::new(self.simd, T::replace_lane(self.simd, self.register, lane, value))
    }

    /// 1 / self where that is positive, 0 elsewhere
    #[inline(always)]
    pub fn reciprocal(self) -> Self {
        Self::new(self.simd, T::reciprocal(self.simd, self.register))
    }
}

impl<S: Simd, T: Lanes> Add for Pack<S, T> {
    type Output = Self;
    #[inline(always)]
    fn add(self, b: Self) -> Self {
        Self::new(self.simd, T::add(self.simd, self.register, b.register))
    }
}

impl<S: Simd, T: Lanes> Sub for Pack<S, T> {
    type Output = Self;
    #[inline(always)]
    fn sub(self, b: Self) -> Self {
        Self::new(self.simd, T::sub(self.simd, self.register, b.register))
    }
}

impl<S: Simd, T: Lanes> Mul for Pack<S, T> {
    type Output = Self;
    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        Self::new(self.simd, T::mul(self.simd, self.register, b.register))
    }
}

impl<S: Simd, T: Lanes> Neg for Pack<S, T> {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Self::new(self.simd, T::neg(self.simd, self.register))
    }
}
