//! Scalars that stay with the vectors, and the coefficients that steps make from them.

use super::Backend;

/// The name of a scalar of a solve. Scalars live on the device, in double precision; fused steps read and write them by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scalar(u8);

impl Scalar {
    /// The number of scalars.
    pub const COUNT: usize = 16;
    /// The scalar that is always 0.
    pub const ZERO: Self = Self(0);
    /// The scalar that is always 1.
    pub const ONE: Self = Self(1);

    /// Names a scalar of the solver's own; `n` < 14.
    pub const fn new(n: u8) -> Self {
        assert!(n < 14, "scalars 0 and 1 are constants, so 14 are free");
        Self(n + 2)
    }

    /// Returns the position in the bank.
    #[inline(always)]
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns this scalar of a bank, for a step that writes it.
    pub fn of<S>(self, bank: &mut S) -> (Self, &mut S) {
        (self, bank)
    }
}

/// The place where a step writes a sum: a scalar and its bank.
pub type Sum<'s, B> = (Scalar, &'s mut <B as Backend>::Scalars);

/// N scalars side by side that one step reduces: on many ranks, one message combines them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sums<const N: usize>(Scalar);

impl<const N: usize> Sums<N> {
    /// Names scalars `first` to `first + N − 1` of the solver's own.
    pub const fn new(first: u8) -> Self {
        assert!(first as usize + N <= 14, "14 scalars are free");
        Self(Scalar::new(first))
    }

    /// Returns the n-th scalar; `n` < N.
    pub const fn get(self, n: u8) -> Scalar {
        assert!((n as usize) < N, "there are fewer");
        Scalar(self.0.0 + n)
    }

    /// Returns all scalars, in order.
    pub fn all(self) -> [Scalar; N] {
        std::array::from_fn(|n| Scalar(self.0.0 + n as u8))
    }
}

impl From<Scalar> for Sums<1> {
    fn from(scalar: Scalar) -> Self {
        Self(scalar)
    }
}

/// A coefficient that a step computes from scalars as it starts: a quotient, or a product of two.
///
/// A step can thus use α = ρ/σ without a kernel of its own and without the host. A zero denominator gives zero: it
/// occurs when the iteration is already exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    /// The numerator is their product.
    pub numerators: [Scalar; 2],
    /// The denominator is their product.
    pub denominators: [Scalar; 2],
    /// Whether to change the sign.
    pub negative: bool,
}

impl Ratio {
    /// The constant 0.
    pub const ZERO: Self = Self::new(Scalar::ZERO, Scalar::ONE);
    /// The constant 1.
    pub const ONE: Self = Self::new(Scalar::ONE, Scalar::ONE);

    /// Returns numerator / denominator.
    pub const fn new(numerator: Scalar, denominator: Scalar) -> Self {
        Self { numerators: [numerator, Scalar::ONE], denominators: [denominator, Scalar::ONE], negative: false }
    }

    /// Returns this times numerator / denominator.
    pub const fn times(self, numerator: Scalar, denominator: Scalar) -> Self {
        Self {
            numerators: [self.numerators[0], numerator],
            denominators: [self.denominators[0], denominator],
            negative: self.negative,
        }
    }

    /// Returns minus this.
    pub const fn negated(self) -> Self {
        Self { negative: !self.negative, ..self }
    }

    /// Returns its value, given the bank.
    #[inline(always)]
    pub fn value(self, bank: &[f64; Scalar::COUNT]) -> f64 {
        let quotient = |n: usize| {
            let denominator = bank[self.denominators[n].index()];
            if denominator == 0.0 { 0.0 } else { bank[self.numerators[n].index()] / denominator }
        };
        let value = quotient(0) * quotient(1);
        if self.negative { -value } else { value }
    }
}

/// A bank of scalars in host memory, for back ends whose device is the host.
#[derive(Clone, Debug)]
pub struct HostScalars([f64; Scalar::COUNT]);

impl Default for HostScalars {
    fn default() -> Self {
        let mut bank = [0.0; Scalar::COUNT];
        bank[Scalar::ONE.index()] = 1.0;
        Self(bank)
    }
}

impl HostScalars {
    /// Returns the value of a scalar.
    #[inline(always)]
    pub fn get(&self, scalar: Scalar) -> f64 {
        self.0[scalar.index()]
    }

    /// Sets a scalar.
    pub fn set(&mut self, scalar: Scalar, value: f64) {
        self.0[scalar.index()] = value;
    }

    /// Stores the sums of a step. All sums of host back ends are stored here.
    pub fn reduce<const N: usize>(&mut self, sums: impl Into<Sums<N>>, values: [f64; N]) {
        let first = sums.into().0.index();
        self.0[first..first + N].copy_from_slice(&values);
    }

    /// Returns the value of a coefficient.
    #[inline(always)]
    pub fn value(&self, ratio: Ratio) -> f64 {
        ratio.value(&self.0)
    }

    /// Returns all scalars.
    pub fn bank(&self) -> [f64; Scalar::COUNT] {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_lie_side_by_side() {
        let pair = Sums::<2>::new(3);
        assert_eq!((pair.get(0), pair.get(1)), (Scalar::new(3), Scalar::new(4)));
        let mut bank = HostScalars::default();
        bank.reduce(pair, [5.0, 7.0]);
        assert_eq!(bank.value(Ratio::new(pair.get(0), pair.get(1)).negated()), -5.0 / 7.0);
        // A quotient by zero is zero.
        assert_eq!(bank.value(Ratio::new(pair.get(0), Scalar::ZERO)), 0.0);
    }
}
