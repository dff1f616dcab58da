//! Products of lines with the eigenvectors of an axis.

use isobar_core::direct::Basis;
use pulp::Simd;

use super::both::Both;
use super::products::Products;
use super::trig::{Paired, SineOne, TypeFour};

/// The direction of a transform, to modes or back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// x̂_k = Σ_i S_ik x_i
    Forward,
    /// x_i = Σ_k S_ik x̂_k
    Backward,
}

/// A transform of two packs of lines at a time.
#[derive(Debug)]
pub(super) enum Transform {
    Paired(Paired),
    TypeFour(TypeFour),
    SineOne(SineOne),
    Products(Products),
}

impl Transform {
    /// Makes the transform of an axis, times a number, on a machine with this many vector registers.
    pub(super) fn new(basis: &Basis, factor: f64, registers: usize) -> Self {
        let (n, scale) = (basis.len(), factor * basis.scale());
        let fast = basis.trig().and_then(|trig| {
            let paired = || Paired::new(trig, n, scale).map(Self::Paired);
            let type_four = || TypeFour::new(trig, n, scale).map(Self::TypeFour);
            let sine_one = || SineOne::new(trig, n, scale).map(Self::SineOne);
            paired().or_else(type_four).or_else(sine_one)
        });
        fast.unwrap_or_else(|| Self::Products(Products::new(basis, factor, registers)))
    }

    /// Returns the packs of scratch.
    pub(super) fn scratch(&self) -> usize {
        match self {
            Self::Paired(paired) => paired.scratch(),
            Self::TypeFour(four) => four.scratch(),
            Self::SineOne(one) => one.scratch(),
            Self::Products(products) => products.scratch(),
        }
    }

    /// Returns the bytes of its tables.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Paired(paired) => paired.bytes(),
            Self::TypeFour(four) => four.bytes(),
            Self::SineOne(one) => one.bytes(),
            Self::Products(products) => products.bytes(),
        }
    }

    /// Reads all entries of two packs of lines with `load`, then writes all with `store`.
    #[inline(always)]
    pub(super) fn apply<S: Simd>(
        &self,
        simd: S,
        direction: Direction,
        scratch: &mut [f64],
        load: impl Fn(usize) -> Both<S>,
        store: impl FnMut(usize, Both<S>),
    ) {
        let len = self.scratch() * S::F64_LANES;
        let (first, second) = scratch[..len].split_at_mut(len / 2);
        let scratch = [first, second];
        match (self, direction) {
            (Self::Paired(paired), Direction::Forward) => paired.forward(simd, scratch, load, store),
            (Self::Paired(paired), Direction::Backward) => paired.backward(simd, scratch, load, store),
            (Self::TypeFour(four), _) => four.apply(simd, scratch, load, store),
            (Self::SineOne(one), _) => one.apply(simd, scratch, load, store),
            (Self::Products(products), Direction::Forward) => products.forward(simd, scratch, load, store),
            (Self::Products(products), Direction::Backward) => products.backward(simd, scratch, load, store),
        }
    }
}
