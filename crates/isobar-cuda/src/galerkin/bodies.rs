//! Corrections of strongly coupled bodies on a card.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use isobar_core::error::Result;
use isobar_core::operator::Correction;
use isobar_core::real::Real;

use super::{Lists, sources};
use crate::cuda::Cuda;
use crate::launch::{Arguments, refuse_while_recording};
use crate::memory::Buffer;
use crate::module::Module;
use crate::vector::Vector;

/// u += ω Σ_θ Z D⁻¹ Zᵀ r
#[derive(Debug)]
pub struct BodyCorrection<T> {
    cuda: Cuda,
    lists: RwLock<Vec<Lists>>,
    module: Arc<Module>,
    precision: std::marker::PhantomData<T>,
}

impl<T: Real> BodyCorrection<T> {
    pub(super) fn new(cuda: &Cuda, bodies: Vec<Lists>) -> Result<Self> {
        refuse_while_recording("making a correction")?;
        let [.., source] = sources::<T>();
        let module = cuda.module(source);
        let this = Self { cuda: cuda.clone(), lists: RwLock::default(), module, precision: std::marker::PhantomData };
        this.update(bodies)?;
        Ok(this)
    }

    /// Replaces the bodies.
    pub(super) fn update(&self, bodies: Vec<Lists>) -> Result<()> {
        refuse_while_recording("updating a correction")?;
        if !bodies.is_empty() {
            self.module.prepare(&["correct_bodies"], 0)?;
        }
        // What was submitted with the old lists must not find them gone.
        self.cuda.context().synchronize()?;
        *self.lists.write().unwrap_or_else(PoisonError::into_inner) = bodies;
        Ok(())
    }

    /// Replaced as a whole, so a panic elsewhere cannot have spoilt them.
    fn lists(&self) -> RwLockReadGuard<'_, Vec<Lists>> {
        self.lists.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Real> Correction<Cuda, T> for BodyCorrection<T> {
    fn is_active(&self) -> bool {
        !self.lists().is_empty()
    }

    fn correct(&self, r: &Vector<T>, u: &mut Vector<T>) -> Result<()> {
        let kernel = self.module.kernel("correct_bodies")?;
        for Lists { count, starts, cells, factors } in self.lists().iter() {
            let lists = [starts, cells, factors].map(Buffer::start);
            let arguments = lists.into_iter().fold(Arguments::new().with(*count as i32), Arguments::with);
            let arguments = arguments.with(r.pointer()).with(u.pointer());
            self.cuda.launch(kernel, [count.div_ceil(32), 1, 1], [256, 1], arguments)?;
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.lists().iter().map(Lists::bytes).sum()
    }
}
