//! Steps with triangular parts.

use isobar_core::backend::Scalar;
use isobar_core::error::Result;
use isobar_core::operator::Triangular;
use isobar_core::operator::triangular::singular_pivot;
use isobar_core::real::Real;

use super::SevenPoint;
use super::kind::Kind;
use super::passes::Passes;
use crate::cuda::Cuda;
use crate::launch::Arguments;
use crate::scalars::Scalars;
use crate::vector::Vector;

impl<K: Kind, T: Real> Triangular<Cuda, T> for SevenPoint<Passes<K, T>> {
    fn relax_lower(
        &self,
        r: &Vector<T>,
        w: &Vector<T>,
        v: &mut Vector<T>,
        rho: Option<(Scalar, &mut Scalars)>,
    ) -> Result<()> {
        let vectors = [r.pointer(), w.pointer(), v.pointer()];
        match rho {
            Some((rho, scalars)) => self.kernels.pass_with_sums("relax_lower_sum", &vectors, scalars.pointer(rho)),
            None => self.kernels.pass("relax_lower", &vectors),
        }
    }

    fn relax_upper(&self, v: &Vector<T>, w: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        self.kernels.pass("relax_upper", &[v.pointer(), w.pointer(), z.pointer()])
    }

    fn incomplete_poisson(
        &self,
        scaled: bool,
        inverse_diagonal: &Vector<T>,
        r: &Vector<T>,
        z: &mut Vector<T>,
    ) -> Result<()> {
        let name = if scaled { "incomplete_poisson_scaled" } else { "incomplete_poisson" };
        self.kernels.pass(name, &[inverse_diagonal.pointer(), r.pointer(), z.pointer()])
    }

    fn factorise(&self, block: usize, relaxation: f64, inverse_pivots: &mut Vector<T>) -> Result<()> {
        let to = inverse_pivots.pointer();
        if block == 1 {
            return self.kernels.pass("inverse_diagonal", &[to]);
        }
        self.kernels.in_blocks("factorise", block, |arguments| {
            arguments.with_real::<T>(singular_pivot::<T>()).with_real::<T>(relaxation).with(to)
        })
    }

    fn substitute(&self, block: usize, inverse_pivots: &Vector<T>, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        let vectors = [inverse_pivots.pointer(), r.pointer(), z.pointer()];
        self.kernels.in_blocks("substitute", block, |arguments| vectors.into_iter().fold(arguments, Arguments::with))
    }
}
