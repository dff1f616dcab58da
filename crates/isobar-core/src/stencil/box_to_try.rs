//! The nearest box of diffusion, where it may be faster than multigrid.

use super::{Diffusion, Stencil};
use crate::Host;
use crate::direct::{Nearest, Samples, Separable};
use crate::execute::map_pieces;
use crate::policy::Trial;
use crate::policy::direct::{EXACT, Hardness};

impl Diffusion {
    /// Returns the nearest box, if conjugate gradients may be faster with it than with multigrid. `find` finds it from some samples;
    /// `products_like_rest` is [`Backend::products_like_rest`](crate::Backend::products_like_rest).
    pub(super) fn box_to_try(
        &self,
        products_like_rest: Option<f64>,
        find: impl Fn(Samples) -> Option<Nearest>,
    ) -> Option<Trial<Separable>> {
        /// The fewest samples, of which the fraction of open cells has a standard error of a third of this distance.
        const FEWEST: usize = 2000;
        const FAR: f64 = 0.03;
        /// A factor for the spread, which a fit to few samples underestimates rather than overestimates.
        const WIDE: f64 = 1.05;
        if !self.has_rows() {
            return None;
        }
        let directions = Stencil::shape(self).extents().into_iter().filter(|&n| n > 1).count();
        let crossing = match products_like_rest {
            Some(_) => self.crossing().beside_lines(self.periodic()),
            None => self.crossing().most(),
        };
        let contrast = self.contrast();
        let hardness = Hardness { stiffness: self.stiffness(), has_closed: self.has_closed(), contrast, crossing };
        let is_processor = products_like_rest.is_some();
        if directions < 2 || !hardness.may_try_box(directions == 3) || self.holds_values() {
            return None;
        }
        let trial = |Nearest { factors, open, spread }: Nearest| {
            let slower =
                products_like_rest.map(|like_rest| 1.0 + factors.stretched().sum::<usize>() as f64 / like_rest);
            let most_iterations = hardness.most_iterations(slower, directions == 3)?;
            let trial = hardness.trial(factors, [open, spread], most_iterations, is_processor)?;
            trial.factors.pays_where_longer(hardness.longer()).then_some(trial)
        };
        // Few samples of a large grid tell whether more are worth their time; all samples of a box agree.
        if Stencil::shape(self).extents().iter().sum::<usize>() * Samples::Few as usize >= FEWEST {
            let few = find(Samples::Few)?;
            if few.spread <= EXACT {
                return trial(few);
            }
            trial(Nearest { open: few.open + FAR, spread: few.spread / WIDE, ..few })?;
        }
        trial(find(Samples::Many)?)
    }

    /// Returns whether shifts hold values in some cells: no box has these, and conjugate gradients may end before they find what is between.
    fn holds_values(&self) -> bool {
        /// Times the mean couplings of all directions.
        const HELD: f64 = 100.0;
        let most = HELD * self.strengths().iter().sum::<f64>();
        let rows = self.stored_shift().unwrap_or_default();
        map_pieces(&Host, rows, |_, piece| piece.iter().any(|&shift| shift > most)).contains(&true)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::Shape;
    use crate::direct::nearest;
    use crate::problem::random;
    use crate::stencil::Side;
    use crate::stencil::diffusion_stencil::DiffusionRows;

    /// A box but for closed cells needs few samples; noise needs many, and on a processor none.
    #[test]
    fn few_samples_decide_where_they_suffice() {
        for (shape, is_large) in [(Shape::new(64, 40, 30), true), (Shape::new(20, 12, 10), false)] {
            for (closed, noise) in [(0.2, 0.0), (0.2, 0.1), (0.6, 0.0), (0.6, 0.1)] {
                let of_cell = |n: usize| {
                    let is_closed = random(1, n) < 2.0 * closed - 1.0;
                    if is_closed { 0.0 } else { 1.0 + noise * random(2, n) }
                };
                let field: Vec<f64> = (0..shape.cells()).map(of_cell).collect();
                let sides = [[Side::Closed; 2]; 3];
                let stencil = Diffusion::of_field(shape, field, [1.0, 1.0, 100.0], None, sides).unwrap();
                let rows = DiffusionRows::new(&stencil);
                for products in [None, Some(160.0)] {
                    let asked = RefCell::new(Vec::new());
                    let find = |samples| {
                        asked.borrow_mut().push(samples);
                        nearest(&rows, None, samples).ok()
                    };
                    let is_tried = stencil.box_to_try(products, find).is_some();
                    let is_box = closed < 0.5 && (noise == 0.0 || products.is_none());
                    assert_eq!(is_tried, is_box, "{shape}, {closed}, {noise}, {products:?}");
                    let expected = match (is_large, is_box && noise > 0.0) {
                        (true, false) => vec![Samples::Few],
                        (true, true) => vec![Samples::Few, Samples::Many],
                        (false, _) => vec![Samples::Many],
                    };
                    assert_eq!(*asked.borrow(), expected, "{shape}, {closed}, {noise}, {products:?}");
                }
            }
        }
    }
}
