//! Aggregates, by plain loops.

use super::{Reference, Vector};
use crate::backend::AggregateBackend;
use crate::{AggregateMap, Real, Result};

/// A dense matrix, stored row by row.
#[derive(Clone, Debug)]
pub struct DenseMatrix {
    size: usize,
    entries: Vec<f64>,
}

impl AggregateBackend for Reference {
    type Aggregates = AggregateMap;
    type AggregateVector = Vec<f64>;
    type AggregateMatrix = DenseMatrix;

    fn aggregates(&self, map: &AggregateMap) -> Result<AggregateMap> {
        Ok(map.clone())
    }

    fn aggregate_vector(&self, count: usize) -> Result<Vec<f64>> {
        Ok(vec![0.0; count])
    }

    fn aggregate_matrix(&self, size: usize, entries: &[f64]) -> Result<DenseMatrix> {
        Ok(DenseMatrix { size, entries: entries.to_vec() })
    }

    fn aggregate_sums<T: Real>(&self, x: &Vector<T>, aggregates: &AggregateMap, sums: &mut Vec<f64>) -> Result<()> {
        sums.fill(0.0);
        for_each_cell(aggregates, |i, j, k, aggregate| {
            if let Some(aggregate) = aggregate {
                sums[aggregate] += x.get(i, j, k).to_f64();
            }
        });
        Ok(())
    }

    fn add_aggregated<T: Real>(&self, aggregates: &AggregateMap, a: &Vec<f64>, y: &mut Vector<T>) -> Result<()> {
        for_each_cell(aggregates, |i, j, k, aggregate| {
            if let Some(aggregate) = aggregate {
                y.set(i, j, k, y.get(i, j, k) + T::from_f64(a[aggregate]));
            }
        });
        Ok(())
    }

    fn aggregate_multiply(&self, matrix: &DenseMatrix, x: &Vec<f64>, y: &mut Vec<f64>) -> Result<()> {
        for (y, row) in y.iter_mut().zip(matrix.entries.chunks(matrix.size.max(1))) {
            *y = row.iter().zip(x).map(|(a, x)| a * x).sum();
        }
        Ok(())
    }

    fn aggregate_scale(&self, f: &Vec<f64>, x: &Vec<f64>, y: &mut Vec<f64>) -> Result<()> {
        for ((y, f), x) in y.iter_mut().zip(f).zip(x) {
            *y = f * x;
        }
        Ok(())
    }

    fn read_aggregated(&self, x: &Vec<f64>, to: &mut [f64]) -> Result<()> {
        to.copy_from_slice(x);
        Ok(())
    }

    fn write_aggregated(&self, from: &[f64], x: &mut Vec<f64>) -> Result<()> {
        x.copy_from_slice(from);
        Ok(())
    }
}

fn for_each_cell(aggregates: &AggregateMap, mut f: impl FnMut(usize, usize, usize, Option<usize>)) {
    for (n, [i, j, k]) in aggregates.shape().places().enumerate() {
        f(i, j, k, aggregates.aggregate(n));
    }
}
