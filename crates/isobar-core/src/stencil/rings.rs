//! Periodic directions of an odd number of cells, on which a checkerboard does not fit.
//!
//! With n periodic cells, n odd, the first and the last are neighbours of one colour. Two copies of the direction have 2n cells,
//! on which colours alternate; with the coefficients and the right-hand side repeated on the second copy, A u = b has the
//! solution of the n cells repeated, since a shift by n changes neither A nor b. Iterates need not be repeated, as their errors
//! depend on colours and tiles: a caller gets the mean of the copies, whose residual is the mean of theirs, and so, relative to
//! b, at most the reported one. A solve takes twice the work and memory, on any back end; callers' arrays do not change.

use crate::{ArrayView, Error, Layout, Real, Result, Shape};

/// The number of copies of the caller's grid in a solver's grid, along x and y.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turns {
    x: usize,
    y: usize,
}

impl Turns {
    /// One copy: the solver's grid is the caller's.
    pub const ONE: Self = Self { x: 1, y: 1 };

    /// Returns the fewest copies that make periodic x and y even.
    pub fn of(shape: Shape, is_periodic: [bool; 3]) -> Self {
        let turns = |n: usize, is_ring: bool| if is_ring && n > 1 && n % 2 == 1 { 2 } else { 1 };
        Self { x: turns(shape.nx, is_periodic[0]), y: turns(shape.ny, is_periodic[1]) }
    }

    /// Returns how many copies of each cell there are.
    pub fn count(self) -> usize {
        self.x * self.y
    }

    /// Returns the solver's grid.
    pub fn around(self, shape: Shape) -> Shape {
        Shape { nx: self.x * shape.nx, ny: self.y * shape.ny, ..shape }
    }

    /// Returns the caller's grid.
    pub fn once(self, around: Shape) -> Shape {
        Shape { nx: around.nx / self.x, ny: around.ny / self.y, ..around }
    }

    /// Returns a note for the user, if any.
    pub fn describe(self, shape: Shape) -> Option<String> {
        let rings = [("x", self.x, shape.nx), ("y", self.y, shape.ny)];
        let odd: Vec<_> = rings
            .iter()
            .filter(|ring| ring.1 > 1)
            .map(|(axis, _, n)| format!("{axis} is periodic with {n} cells"))
            .collect();
        (!odd.is_empty()).then(|| {
            format!(
                "{}, an odd number: solved on two copies of it, {} cells, which takes twice the time of an even number{}",
                odd.join(" and "),
                self.around(shape).cells(),
                if odd.len() > 1 { " in each" } else { "" }
            )
        })
    }

    /// Returns values of the caller's grid in C order, on all copies.
    pub(crate) fn repeat<T: Real>(self, source: &ArrayView<'_, T>) -> Vec<T> {
        let shape = source.shape();
        let mut values = Vec::with_capacity(self.around(shape).cells());
        for (k, j) in (0..shape.nz).flat_map(|k| (0..self.y * shape.ny).map(move |j| (k, j % shape.ny))) {
            let start = values.len();
            match source.line(j, k) {
                Some(line) => values.extend_from_slice(line),
                None => values.extend((0..shape.nx).map(|i| source.get(i, j, k))),
            }
            for _ in 1..self.x {
                values.extend_from_within(start..start + shape.nx);
            }
        }
        values
    }

    /// Stores in the first copy of a layer of the solver's grid the mean of all copies.
    pub(crate) fn take_means<T: Real>(self, shape: Shape, layer: &mut [T]) {
        let (width, weight) = (self.x * shape.nx, T::from_f64(1.0 / self.count() as f64));
        for (j, i) in (0..shape.ny).flat_map(|j| (0..shape.nx).map(move |i| (j, i))) {
            let turns = (0..self.y).flat_map(|y| (0..self.x).map(move |x| (x, y)));
            let at = |(x, y)| i + x * shape.nx + width * (j + y * shape.ny);
            let sum = turns.fold(T::ZERO, |sum, turn| sum + layer[at(turn)]);
            layer[at((0, 0))] = weight * sum;
        }
    }

    /// Copies the first copy of a layer to the others.
    pub(crate) fn copy_first<T: Real>(self, shape: Shape, layer: &mut [T]) {
        let width = self.x * shape.nx;
        for j in 0..self.y * shape.ny {
            for i in 0..width {
                layer[i + width * j] = layer[i % shape.nx + width * (j % shape.ny)];
            }
        }
    }

    /// Returns whether a direction with several copies is divided among ranks, for vectors of this layout.
    pub fn are_divided(self, layout: &Layout) -> bool {
        (self.x > 1 && layout.has_halo_columns()) || (self.y > 1 && layout.divides_ring())
    }

    /// Fails where there is more than one copy.
    ///
    /// # Errors
    /// [`Error::Unsupported`], naming what is not supported then.
    pub fn require_one(self, what: &str) -> Result<()> {
        if self == Self::ONE {
            return Ok(());
        }
        Err(Error::Unsupported(format!(
            "{what} where x or y is periodic with an odd number of cells; use an even number"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stencil::{Diffusion, Side, Stencil};

    #[test]
    fn two_turns_of_an_odd_ring() {
        let shape = Shape::new(3, 5, 2);
        let ring = [Side::Periodic; 2];
        let all = Turns::of(shape, [true; 3]);
        assert_eq!((all.count(), all.around(shape)), (4, Shape::new(6, 10, 2)));
        assert_eq!(all.once(all.around(shape)), shape);
        assert_eq!(Turns::of(Shape::new(1, 4, 3), [true; 3]), Turns::ONE);
        assert_eq!(Turns::of(shape, [false, false, true]), Turns::ONE);
        let values: Vec<f64> = (0..shape.cells()).map(|n| 1.0 + n as f64).collect();
        let sides = [ring, ring, [Side::Fixed, Side::Closed]];
        let stencil = Diffusion::of_field(shape, values.clone(), [1.0; 3], Some(values.clone()), sides).unwrap();
        let twice = stencil.repeated(all).unwrap();
        // A commutes with the shift by a copy, so that the product of a repeated vector is repeated.
        let view = |values: &[f64]| all.repeat(&ArrayView::c_order(values, shape).unwrap());
        let once = stencil.times(&values);
        let (found, expected) = (twice.times(&view(&values)), view(&once));
        let difference = found.iter().zip(&expected).fold(0.0_f64, |most, (a, b)| most.max((a - b).abs()));
        assert!(difference < 1e-10, "{difference}");
        let mut layer: Vec<f64> = (0..60).map(f64::from).collect();
        all.take_means(shape, &mut layer);
        // Cell (1, 2) is at columns 1 and 4 of rows 2 and 7, six columns wide.
        assert_eq!(layer[13], (13.0 + 16.0 + 43.0 + 46.0) / 4.0);
        all.copy_first(shape, &mut layer);
        assert_eq!([layer[16], layer[43], layer[46]], [layer[13]; 3]);
        assert_eq!((stencil.turns(), twice.turns()), (all, Turns::ONE));
        assert_eq!(stencil.around().unwrap().shape(), twice.shape());
        let text = all.describe(shape).unwrap();
        assert!(
            ["x is periodic with 3", "y is periodic with 5", "120 cells"].iter().all(|part| text.contains(part)),
            "{text}"
        );
        assert_eq!(Turns::ONE.describe(shape), None);
    }
}
