//! Transfers between two levels: weights and workspace.

use std::sync::{Arc, MutexGuard, RwLock, RwLockReadGuard};

use isobar_core::prelude::{Axis, Layout, LineSmoother, Real, Result, read, write};
use isobar_core::stencil::galerkin::{Directions, Execute, Weights};

use super::operator::Level27;
use super::weights::{AxisWeights, Stored};
use crate::diffusion::Diffusion;
use crate::per_queue::PerQueue;
use crate::{Cpu, Vector};

/// The finer level.
pub(super) enum Fine<T: Real> {
    Finest(Arc<Diffusion<T>>),
    Coarse(Arc<Level27<T>>),
}

impl<T: Real> Fine<T> {
    pub(super) fn smoother(&self) -> &dyn LineSmoother<Cpu, T> {
        match self {
            Self::Finest(operator) => &**operator,
            Self::Coarse(operator) => &**operator,
        }
    }
}

/// The transfer P = P_x P_y P_z over the halved directions, and R = Pᵀ. Between subdomains, a coarse plane receives the odd plane before the
/// subdomain's first one from the previous subdomain, as a plane of the middle grid.
pub struct Interpolation<T: Real> {
    pub(super) cpu: Cpu,
    pub(super) fine: Fine<T>,
    pub(super) fine_layout: Layout,
    pub(super) coarse: Layout,
    /// The numbers of either subdomain's first plane in the whole grids.
    pub(super) first: [usize; 2],
    /// Cells of the middle array in x.
    pub(super) nx: usize,
    /// Entries from one row of the middle to the next: a ghost beyond the last cell, and padding for the reads of a fine row.
    pub(super) row: usize,
    pub(super) periodic: [bool; 3],
    weights: RwLock<AxisWeights<T>>,
    workspace: PerQueue<Workspace<T>>,
}

pub(super) struct Workspace<T> {
    /// Planes of the middle, by fine j.
    pub(super) middle: Vec<Vec<T>>,
    /// The plane before the first.
    pub(super) before: Vec<T>,
    /// A plane with halo planes, by which the last plane of the middle goes to the next subdomain where y is halved.
    pub(super) edge: Option<Vector<T>>,
    /// A fine plane per thread.
    pub(super) residual: Vec<Vector<T>>,
    /// Two planes of rows of the middle grid per thread.
    pub(super) planes: Vec<[Vec<T>; 2]>,
}

impl<T: Real> Workspace<T> {
    /// Makes the workspace of the threads that are worth using on the finer grid; `meets` tells whether y is halved and a neighbour has the next
    /// plane.
    fn new(cpu: &Cpu, fine_layout: &Layout, row: usize, meets: bool) -> Result<Self> {
        let shape = fine_layout.shape();
        let threads = cpu.threads_for(fine_layout.len()).min(shape.ny);
        let plane = Layout::new(isobar_core::layout::Shape::new(shape.nx, 1, shape.nz))?;
        let mut middle = vec![Vec::new(); shape.ny];
        Execute::for_each(cpu, &mut middle, |_, plane| *plane = vec![T::ZERO; row * shape.nz]);
        let edge = plane.part_of(0, fine_layout.halo());
        Ok(Self {
            middle,
            before: vec![T::ZERO; if meets { row * shape.nz } else { 0 }],
            edge: meets.then(|| Vector::zeros(cpu, &edge)).transpose()?,
            residual: (0..threads).map(|_| Vector::zeros(cpu, &plane)).collect::<Result<_>>()?,
            planes: vec![[vec![T::ZERO; row * shape.nz], vec![T::ZERO; row * shape.nz]]; threads],
        })
    }
}

impl<T: Real> Interpolation<T> {
    pub(super) fn new(fine: Fine<T>, coarse: Layout, weights: &Directions) -> Result<Self> {
        match weights {
            Directions::Single(weights) => Self::of(fine, coarse, weights),
            Directions::Double(weights) => Self::of(fine, coarse, weights),
        }
    }

    fn of<N: Real>(fine: Fine<T>, coarse: Layout, weights: &[Weights<N>]) -> Result<Self> {
        let smoother = fine.smoother();
        let (cpu, fine_layout) = (smoother.backend().clone(), *smoother.layout());
        let periodic = weights.first().map_or([false; 3], |weights| fine_layout.periodic_within(weights.fine.periodic));
        let of = |axis: Axis| weights.iter().find(|weights| weights.axis == axis);
        let nx = coarse.shape().nx;
        let row = (nx.max(fine_layout.pitch()) + 1).next_multiple_of(8);
        let first = [fine_layout, coarse].map(|layout| layout.first_row());
        let stored = AxisWeights {
            x: of(Axis::X).map(|w| Stored::new(w, &fine_layout, row)),
            y: of(Axis::Y).map(|w| Stored::new(w, &coarse, row)),
            z: of(Axis::Z).map(|w| Stored::new(w, &coarse, row)),
        };
        let meets = fine_layout.halo() != [0; 2] && stored.y.is_some();
        let workspace = Workspace::new(&cpu, &fine_layout, row, meets)?;
        let this = Self {
            fine,
            fine_layout,
            coarse,
            first,
            nx,
            row,
            periodic,
            weights: RwLock::new(stored),
            workspace: PerQueue::new(&cpu, workspace),
            cpu,
        };
        this.set(weights);
        Ok(this)
    }

    pub(super) fn update(&self, weights: &Directions) {
        match weights {
            Directions::Single(weights) => self.set(weights),
            Directions::Double(weights) => self.set(weights),
        }
    }

    fn set<N: Real>(&self, weights: &[Weights<N>]) {
        let mut stored = write(&self.weights);
        for weights in weights {
            let stored = match weights.axis {
                Axis::X => &mut stored.x,
                Axis::Y => &mut stored.y,
                Axis::Z => &mut stored.z,
            };
            if let Some(stored) = stored {
                stored.set(&self.cpu, weights);
            }
        }
    }

    /// Returns the weights. They are written entry by entry, and stay valid numbers after a panic elsewhere.
    pub(super) fn weights(&self) -> RwLockReadGuard<'_, AxisWeights<T>> {
        read(&self.weights)
    }

    pub(super) fn workspace(&self) -> MutexGuard<'_, Workspace<T>> {
        let meets = || self.workspace.first().edge.is_some();
        let make = || Workspace::new(&self.cpu, &self.fine_layout, self.row, meets());
        self.workspace.lock(make)
    }
}
