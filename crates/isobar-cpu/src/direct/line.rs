//! A box of one line of cells, whose pivots are kept.

use isobar_core::backend::{DirectSolver, Judged};
use isobar_core::direct::Pivot;
use isobar_core::prelude::{Layout, Result, Separable, Source, Target};

use super::callers;
use super::judge::judge;
use crate::{Cpu, Shared, Vector};

/// The solver of one tridiagonal system.
pub(super) struct OneLine {
    cpu: Cpu,
    layout: Layout,
    factors: Separable,
    pivots: Vec<Pivot>,
    /// What the two axes of one cell multiply solutions by.
    scale: f64,
    description: String,
    /// The line, of a vector.
    line: Vec<f64>,
}

impl OneLine {
    /// Factors the matrix of a line.
    ///
    /// # Errors
    /// See [`Separable::bases`].
    pub(super) fn new(cpu: &Cpu, layout: Layout, factors: &Separable) -> Result<Self> {
        let bases = factors.bases()?;
        let [mu, nu] = bases.each_ref().map(|basis| basis.values()[0]);
        let entry = bases[0].entry(0, 0) * bases[1].entry(0, 0);
        Ok(Self {
            cpu: cpu.clone(),
            layout,
            pivots: factors.lines.pivots([mu, nu]).collect(),
            scale: entry * entry,
            description: factors.describe(&bases, |_| "products with its eigenvectors"),
            line: vec![0.0; factors.lines.len()],
            factors: factors.clone(),
        })
    }

    /// Computes u = A⁻¹ (b − mean), both of the same line.
    fn solve_line(pivots: &[Pivot], scale: f64, b: impl Fn(usize) -> f64, u: &mut [f64]) {
        let Some((end, pivots)) = pivots.split_last() else { return };
        let Some((last, u)) = u.split_last_mut() else { return };
        let (mut carried, mut to_last) = (0.0, scale * b(u.len()));
        for (k, (u, pivot)) in u.iter_mut().zip(pivots).enumerate() {
            *u = scale.mul_add(b(k), carried);
            carried = pivot.next * *u;
            to_last += pivot.last * *u;
        }
        *last = (to_last + carried) * end.inverse;
        let mut above = *last;
        for (u, pivot) in u.iter_mut().zip(pivots).rev() {
            above = pivot.next * above + (pivot.inverse * *u + pivot.last * *last);
            *u = above;
        }
    }

    /// Solves from one vector to another, which may be the same.
    fn run(&mut self, b: Shared<f64>, u: Shared<f64>) {
        let (once, all) = (self.factors.shape, self.layout.shape());
        let place = |[i, j, k]: [usize; 3]| self.layout.index(i, j, k) as isize;
        // SAFETY: cells of the vector, which nobody writes meanwhile.
        let cell = |n: usize| unsafe { b.row(place(once.place(n)), 1)[0] };
        Self::solve_line(&self.pivots, self.scale, cell, &mut self.line);
        for at @ [i, j, k] in all.places() {
            // SAFETY: cells of the vector, which nobody else uses.
            unsafe { u.set(place(at), self.line[once.number([i % once.nx, j % once.ny, k])]) };
        }
    }
}

impl DirectSolver<Cpu> for OneLine {
    fn solve(&mut self, b: &Vector<f64>, u: &mut Vector<f64>) -> Result<()> {
        self.run(b.share(), u.share_mut());
        Ok(())
    }

    fn solve_in_place(&mut self, x: &mut Vector<f64>) -> Result<()> {
        let x = x.share_mut();
        self.run(x, x);
        Ok(())
    }

    fn solve_arrays(&mut self, b: &Source<'_>, u: &mut Target<'_>) -> Result<Option<Judged>> {
        let Some((b, u)) = callers::in_c_order(b, u, self.pivots.len()) else { return Ok(None) };
        let (sum, cells) = (b.iter().sum::<f64>(), b.len() as f64);
        if !sum.is_finite() {
            return Ok(None);
        }
        let mean = if self.factors.is_singular() { sum / cells } else { 0.0 };
        Self::solve_line(&self.pivots, self.scale, |n| b[n] - mean, u);
        if self.factors.is_singular() {
            let own = u.iter().sum::<f64>() / cells;
            u.iter_mut().for_each(|u| *u -= own);
        }
        Ok(Some(callers::judged(&self.factors, judge(&self.cpu, &self.factors, None, [b, u], mean), mean)))
    }

    fn update(&mut self, factors: &Separable) -> Result<()> {
        *self = Self::new(&self.cpu, self.layout, factors)?;
        Ok(())
    }

    fn describe(&self) -> String {
        self.description.clone()
    }

    fn bytes(&self) -> usize {
        size_of_val(&self.pivots[..]) + size_of_val(&self.line[..])
    }
}
