//! Passes over a grid by the host of a card.

use isobar_core::execute::Execute;
use rayon::prelude::*;

/// All cores of the host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Host;

impl Execute for Host {
    fn for_each<X: Send>(&self, items: &mut [X], f: impl Fn(usize, &mut X) + Sync) {
        items.par_iter_mut().enumerate().for_each(|(n, item)| f(n, item));
    }
}
