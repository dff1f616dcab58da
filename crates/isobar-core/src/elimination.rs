//! Elimination of sparse symmetric matrices of couplings on the host, such as deflation's.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::mem;

/// The factors A = (1 − R) D (1 − R)ᵀ in an order that keeps them sparse, for A with row sums s ≥ 0 and couplings c ≥ 0: A_kk =
/// s_k + Σ c_kl, A_kl = −c_kl.
///
/// Elimination computes row sums besides couplings (Grassmann, Taksar and Heyman, 1985), so that every number is a sum of
/// positive ones, without cancellation for any contrast.
pub(crate) struct Elimination {
    /// The order of elimination.
    pub(crate) order: Vec<u32>,
    /// The place of each column of R in `rows` and `ratios`, and the end of the last.
    starts: Vec<usize>,
    /// Rows by place in the order, ascending in each column.
    rows: Vec<u32>,
    ratios: Vec<f64>,
    pivots: Vec<f64>,
}

impl Elimination {
    /// Eliminates, given row sums and the couplings (k, l, c) of pairs, each once. Returns nothing if a pivot is not positive.
    pub(crate) fn new(sums: &[f64], couplings: &[(usize, usize, f64)]) -> Option<Self> {
        let n = sums.len();
        let mut neighbours = vec![Vec::new(); n];
        for &(k, l, _) in couplings {
            neighbours[k].push(l as u32);
            neighbours[l].push(k as u32);
        }
        let (order, columns) = minimum_degree(neighbours);
        let places = places(&order);
        let mut starts = vec![0];
        let mut rows = Vec::with_capacity(columns.iter().map(Vec::len).sum());
        for column in columns {
            let first = rows.len();
            rows.extend(column.into_iter().map(|l| places[l as usize]));
            rows[first..].sort_unstable();
            starts.push(rows.len());
        }
        let mut below = vec![Vec::new(); n];
        for &(k, l, c) in couplings {
            let (k, l) = (places[k], places[l]);
            below[k.min(l) as usize].push((k.max(l), c));
        }
        let sums = order.iter().map(|&k| sums[k as usize]).collect();
        let mut this = Self { order, starts, ratios: vec![0.0; rows.len()], rows, pivots: Vec::with_capacity(n) };
        this.eliminate(sums, &below).then_some(this)
    }

    /// Eliminates column by column, each from the previous ones with an entry in its row; returns whether all pivots are
    /// positive.
    fn eliminate(&mut self, mut sums: Vec<f64>, below: &[Vec<(u32, f64)>]) -> bool {
        const NONE: u32 = u32::MAX;
        let Self { starts, rows, ratios, pivots, .. } = self;
        let n = sums.len();
        // The first unused entry of every column, and chains of the columns that wait for a row.
        let mut next = starts.clone();
        let (mut waiting, mut chain) = (vec![NONE; n], vec![NONE; n]);
        let mut couplings = vec![0.0; n];
        for k in 0..n {
            for &(l, c) in &below[k] {
                couplings[l as usize] += c;
            }
            let mut before = mem::replace(&mut waiting[k], NONE);
            while before != NONE {
                let m = before as usize;
                before = chain[m];
                let (from, end) = (next[m], starts[m + 1]);
                let ratio = ratios[from];
                sums[k] += ratio * sums[m];
                let coupling = ratio * pivots[m];
                for (&l, ratio) in rows[from + 1..end].iter().zip(&ratios[from + 1..end]) {
                    couplings[l as usize] += coupling * ratio;
                }
                next[m] += 1;
                if next[m] < end {
                    chain[m] = mem::replace(&mut waiting[rows[next[m]] as usize], m as u32);
                }
            }
            let (from, end) = (starts[k], starts[k + 1]);
            let mut pivot = sums[k];
            for (&l, ratio) in rows[from..end].iter().zip(&mut ratios[from..end]) {
                *ratio = mem::take(&mut couplings[l as usize]);
                pivot += *ratio;
            }
            if !(pivot > 0.0 && pivot.is_finite()) {
                return false;
            }
            ratios[from..end].iter_mut().for_each(|ratio| *ratio /= pivot);
            pivots.push(pivot);
            if from < end {
                chain[k] = mem::replace(&mut waiting[rows[from] as usize], k as u32);
            }
        }
        true
    }

    /// Computes x = A⁻¹ x for W right-hand sides, in the order of elimination.
    pub(crate) fn solve<const W: usize>(&self, x: &mut [[f64; W]]) {
        let column = |k: usize| {
            let entries = self.starts[k]..self.starts[k + 1];
            self.rows[entries.clone()].iter().zip(&self.ratios[entries])
        };
        for k in 0..x.len() {
            let from = x[k];
            for (&row, ratio) in column(k) {
                x[row as usize].iter_mut().zip(&from).for_each(|(x, from)| *x += ratio * from);
            }
        }
        for k in (0..x.len()).rev() {
            let mut to = x[k].map(|x| x / self.pivots[k]);
            for (&row, ratio) in column(k) {
                to.iter_mut().zip(&x[row as usize]).for_each(|(to, x)| *to += ratio * x);
            }
            x[k] = to;
        }
    }
}

/// Returns the place of each number of a permutation.
pub(crate) fn places(order: &[u32]) -> Vec<u32> {
    let mut places = vec![0; order.len()];
    order.iter().zip(0..).for_each(|(&k, place)| places[k as usize] = place);
    places
}

/// Returns an order of approximate minimum degree (Amestoy, Davis and Duff, 1996), and the couplings of each unknown when it is
/// eliminated.
fn minimum_degree(mut neighbours: Vec<Vec<u32>>) -> (Vec<u32>, Vec<Vec<u32>>) {
    const GONE: usize = usize::MAX;
    let n = neighbours.len();
    // An eliminated unknown couples the rest of its column with each other. A clique represents those couplings, until another
    // one contains it.
    let mut cliques: Vec<Vec<u32>> = vec![Vec::new(); n];
    let mut columns = Vec::with_capacity(n);
    let mut cliques_of: Vec<Vec<u32>> = vec![Vec::new(); n];
    let mut is_contained = vec![false; n];
    let mut degrees: Vec<usize> = neighbours.iter().map(Vec::len).collect();
    let mut queue: BinaryHeap<_> = degrees.iter().copied().zip(0u32..).map(Reverse).collect();
    // The last step at which an element was met; for cliques also the size of their part outside the newest one, and the visits
    // since the last cleaning of an unknown's neighbours.
    let (mut met, mut rest, mut visits) = (vec![0; n], vec![(0, 0); n], vec![0; n]);
    let mut order = Vec::with_capacity(n);
    let mut turn = 0;
    while let Some(Reverse((degree, pivot))) = queue.pop() {
        let p = pivot as usize;
        if met[p] == GONE || degrees[p] != degree {
            continue;
        }
        turn += 1;
        order.push(pivot);
        met[p] = GONE;
        let mut column = Vec::new();
        let own = mem::take(&mut neighbours[p]);
        let others = mem::take(&mut cliques_of[p]).into_iter().map(|clique| {
            is_contained[clique as usize] = true;
            mem::take(&mut cliques[clique as usize])
        });
        for k in others.chain([own]).flatten() {
            if met[k as usize] < turn {
                met[k as usize] = turn;
                column.push(k);
            }
        }
        for &k in &column {
            cliques_of[k as usize].retain(|&clique| !is_contained[clique as usize]);
            for &clique in &cliques_of[k as usize] {
                let (at, left) = &mut rest[clique as usize];
                if *at < turn {
                    (*at, *left) = (turn, cliques[clique as usize].len());
                }
                *left -= 1;
            }
        }
        let mut alike = Vec::new();
        column.retain(|&k| {
            let (cliques, neighbours) = (&mut cliques_of[k as usize], &mut neighbours[k as usize]);
            cliques.retain(|&clique| {
                is_contained[clique as usize] = rest[clique as usize].1 == 0;
                !is_contained[clique as usize]
            });
            // Long lists are cleaned only now and then.
            visits[k as usize] += 1;
            if 8 * visits[k as usize] >= neighbours.len() {
                visits[k as usize] = 0;
                neighbours.retain(|&l| met[l as usize] < turn);
            }
            let is_alike = cliques.is_empty() && neighbours.is_empty();
            if is_alike {
                alike.push(k);
            }
            !is_alike
        });
        // Unknowns without other couplings are eliminated with the pivot.
        for (n, &k) in alike.iter().enumerate() {
            columns.push(alike[n..].iter().chain(&column).copied().collect());
            order.push(k);
            met[k as usize] = GONE;
        }
        columns.push(column.clone());
        for &k in &column {
            let k = k as usize;
            let apart: usize = cliques_of[k].iter().map(|&clique| rest[clique as usize].1).sum();
            cliques_of[k].push(pivot);
            let most = (degrees[k] + column.len() - 1).min(n - order.len() - 1);
            degrees[k] = most.min(neighbours[k].len() + column.len() - 1 + apart);
            queue.push(Reverse((degrees[k], k as u32)));
        }
        cliques[p] = column;
    }
    (order, columns)
}

#[cfg(test)]
mod tests;
