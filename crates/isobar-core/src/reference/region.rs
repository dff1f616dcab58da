//! Regions, by plain loops.

use super::{Reference, Vector};
use crate::error::Result;
use crate::real::Real;
use crate::region::{RegionBackend, RegionMap};

/// A dense matrix, row after row.
#[derive(Clone, Debug)]
pub struct DenseMatrix {
    size: usize,
    entries: Vec<f64>,
}

impl RegionBackend for Reference {
    type Regions = RegionMap;
    type RegionVector = Vec<f64>;
    type RegionMatrix = DenseMatrix;

    fn regions(&self, map: &RegionMap) -> Result<RegionMap> {
        Ok(map.clone())
    }

    fn region_vector(&self, count: usize) -> Result<Vec<f64>> {
        Ok(vec![0.0; count])
    }

    fn region_matrix(&self, size: usize, entries: &[f64]) -> Result<DenseMatrix> {
        Ok(DenseMatrix { size, entries: entries.to_vec() })
    }

    fn region_sums<T: Real>(&self, x: &Vector<T>, regions: &RegionMap, sums: &mut Vec<f64>) -> Result<()> {
        sums.fill(0.0);
        for_each_cell(regions, |i, j, k, region| {
            if let Some(region) = region {
                sums[region] += x.get(i, j, k).to_f64();
            }
        });
        Ok(())
    }

    fn add_regional<T: Real>(&self, regions: &RegionMap, a: &Vec<f64>, y: &mut Vector<T>) -> Result<()> {
        for_each_cell(regions, |i, j, k, region| {
            if let Some(region) = region {
                y.set(i, j, k, y.get(i, j, k) + T::from_f64(a[region]));
            }
        });
        Ok(())
    }

    fn clear_outside<T: Real>(&self, regions: &RegionMap, x: &mut Vector<T>) -> Result<()> {
        for_each_cell(regions, |i, j, k, region| {
            if region.is_none() {
                x.set(i, j, k, T::ZERO);
            }
        });
        Ok(())
    }

    fn region_multiply(&self, matrix: &DenseMatrix, x: &Vec<f64>, y: &mut Vec<f64>) -> Result<()> {
        for (y, row) in y.iter_mut().zip(matrix.entries.chunks(matrix.size.max(1))) {
            *y = row.iter().zip(x).map(|(a, x)| a * x).sum();
        }
        Ok(())
    }

    fn read_regional(&self, x: &Vec<f64>, to: &mut [f64]) -> Result<()> {
        to.copy_from_slice(x);
        Ok(())
    }

    fn write_regional(&self, from: &[f64], x: &mut Vec<f64>) -> Result<()> {
        x.copy_from_slice(from);
        Ok(())
    }
}

fn for_each_cell(regions: &RegionMap, mut f: impl FnMut(usize, usize, usize, Option<usize>)) {
    let shape = regions.shape();
    for k in 0..shape.nz {
        for j in 0..shape.ny {
            for i in 0..shape.nx {
                f(i, j, k, regions.region(i + shape.nx * (j + shape.ny * k)));
            }
        }
    }
}
