//! Steps of the heat equation on several GPUs.

use std::sync::Mutex;

use isobar_core::build::Description;
use isobar_core::prelude::{Evolve, Heat, HeatOptions, Observer, Result, Shape, SolverOptions, Source, Target};
use isobar_core::stepping::{Moment, Step};
use isobar_core::team::lock;
use isobar_dist::Communicator;

use super::{Cards, Parts, Told, Verdicts, on_a_device};
use crate::divided::OnRanks;

/// The steppers of all GPUs as one: each GPU has its rows of the state.
struct Marching {
    parts: Parts<Box<dyn Evolve>>,
    /// The grids of multigrid on one GPU.
    levels: Vec<Shape>,
    description: Description,
}

impl Cards {
    /// Makes a stepper on all GPUs.
    pub(crate) fn stepper(&self, heat: &Heat, options: HeatOptions, solver: &SolverOptions) -> Result<Box<dyn Evolve>> {
        let parts = Parts::new(self, heat.shape(), |rank| {
            isobar_cuda::solvers::heat(&rank.backend, heat.clone(), options, solver)
        })?;
        let levels = heat.stiffness.levels();
        let description = parts.describe(&levels, |stepper| stepper.description());
        Ok(Box::new(Marching { parts, levels, description }))
    }
}

impl Marching {
    /// Runs `work` on all GPUs.
    fn each<R: Send>(&self, work: impl Fn(&mut dyn Evolve) -> Result<R> + Sync) -> Result<R> {
        Ok(self.parts.each(|part, _| work(&mut *part.work))?.swap_remove(0))
    }

    /// Reads each GPU's rows, if there are any to read, into the caller's array.
    fn read_by(
        &self,
        to: Target<'_>,
        read: impl Fn(&mut dyn Evolve, Target<'_>) -> Result<bool> + Sync,
    ) -> Result<bool> {
        self.parts.check(&[to.shape()])?;
        Ok(self.parts.each_with(to, |part, rows, _| read(&mut *part.work, rows))?.swap_remove(0))
    }
}

impl Evolve for Marching {
    fn step(&mut self, observer: &mut Observer<'_>) -> Result<Step> {
        let (verdicts, observer) = (&Verdicts::default(), &Mutex::new(observer));
        let mut steps = self.parts.each(|part, rank| {
            let rank = rank.world.rank();
            // The others must not wait for rank 0, however it ends.
            let _told = (rank == 0).then_some(Told(verdicts));
            part.work.step(&mut verdicts.observer(rank, observer))
        })?;
        // A step may have replaced a slow preconditioner.
        self.description = self.parts.describe(&self.levels, |stepper| stepper.description());
        Ok(steps.swap_remove(0))
    }

    fn set(&mut self, state: Source<'_>, before: Option<Source<'_>>, steps: usize) -> Result<()> {
        self.parts.check(&[state.shape(), before.map_or(self.parts.shape, |before| before.shape())])?;
        if [Some(state), before].iter().any(|array| matches!(array, Some(Source::Device(_)))) {
            return Err(on_a_device());
        }
        // Each GPU takes its rows of the whole grid.
        self.each(|stepper| stepper.set(state, before, steps))
    }

    fn read(&mut self, state: Target<'_>) -> Result<()> {
        self.read_by(state, |stepper, rows| stepper.read(rows).map(|()| true)).map(drop)
    }

    fn read_before(&mut self, state: Target<'_>) -> Result<bool> {
        self.read_by(state, |stepper, rows| stepper.read_before(rows))
    }

    fn energy(&mut self) -> Result<f64> {
        self.each(|stepper| stepper.energy())
    }

    fn update(&mut self, heat: Heat) -> Result<()> {
        self.each(|stepper| stepper.update(heat.clone()))?;
        self.levels = heat.stiffness.levels();
        Ok(())
    }

    fn taken(&self) -> usize {
        self.parts.first().work.taken()
    }

    fn moment(&self) -> Moment {
        self.parts.first().work.moment()
    }

    fn resume(&mut self, moment: Moment) {
        self.parts.all.iter().for_each(|part| lock(part).work.resume(moment));
    }

    fn is_finished(&self) -> bool {
        self.parts.first().work.is_finished()
    }

    fn description(&self) -> &Description {
        &self.description
    }
}

#[cfg(test)]
mod tests {
    use isobar_core::array::{ArrayView, ArrayViewMut};
    use isobar_core::options::{Method, Preconditioner, Scheme, StepGuess, Steps};
    use isobar_core::problem::{Boundary, Coefficient, DiffusionProblem, random};
    use isobar_core::solver::ignore;

    use super::*;

    /// Returns the iterations of every step, the last state and the one before, and the energy.
    fn run(stepper: &mut dyn Evolve, first: &[f64], shape: Shape) -> (Vec<usize>, [Vec<f64>; 2], f64) {
        stepper.set(ArrayView::c_order(first, shape).unwrap().into(), None, 0).unwrap();
        let [mut u, mut before] = [0, 1].map(|_| vec![0.0; shape.cells()]);
        assert!(!stepper.read_before(ArrayViewMut::c_order(&mut before, shape).unwrap().into()).unwrap());
        let mut iterations = Vec::new();
        while !stepper.is_finished() {
            let step = stepper.step(&mut ignore).unwrap();
            assert!(step.is_taken && step.number == stepper.taken(), "{step:?}");
            iterations.push(step.iterations);
        }
        stepper.read(ArrayViewMut::c_order(&mut u, shape).unwrap().into()).unwrap();
        assert!(stepper.read_before(ArrayViewMut::c_order(&mut before, shape).unwrap().into()).unwrap());
        let energy = stepper.energy().unwrap();
        (iterations, [u, before], energy)
    }

    /// Checks that ranks that share a GPU take the steps of one, in a box closed in y, and with y periodic of an even and an odd
    /// number of rows.
    #[test]
    #[ignore = "needs a GPU"]
    fn steps_are_those_of_one_card() {
        let solver = SolverOptions {
            method: Method::Cg,
            preconditioner: Preconditioner::Line,
            tolerance: 1e-10,
            ..SolverOptions::default()
        };
        let options = HeatOptions {
            steps: Steps::new(2e-3, 1e-2).unwrap(),
            error: None,
            scheme: Scheme::CrankNicolson,
            guess: StepGuess::Extrapolated,
        };
        for (rows, is_ring) in [(14, false), (14, true), (13, true)] {
            let shape = Shape::new(8, rows, 6);
            let kappa = (0..shape.cells()).map(|n| 10f64.powf(random(1, n))).collect();
            let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(kappa));
            problem.boundary[0] = [Boundary::Dirichlet(0.3), Boundary::Dirichlet(0.0)];
            if is_ring {
                problem.boundary[1] = [Boundary::Periodic; 2];
            }
            let heat = Heat::in_cells(&problem, None).unwrap();
            let first: Vec<f64> = (0..shape.cells()).map(|n| random(2, n)).collect();
            let one = Cards::on(&[0]).unwrap().stepper(&heat, options, &solver);
            let (alone, states, energy) = run(&mut *one.unwrap(), &first, shape);
            for ranks in [2, 3] {
                let several = Cards::on(&vec![0; ranks]).unwrap().stepper(&heat, options, &solver);
                let mut several = several.unwrap();
                assert_eq!(several.description().device.ranks, ranks);
                let (counts, found, found_energy) = run(&mut *several, &first, shape);
                assert_eq!(counts.len(), alone.len());
                assert!(counts.iter().zip(&alone).all(|(a, b)| a.abs_diff(*b) <= 1), "{counts:?} {alone:?}");
                assert!((found_energy - energy).abs() <= 1e-8 * energy.abs(), "{found_energy:e} {energy:e}");
                for (a, b) in found.iter().flatten().zip(states.iter().flatten()) {
                    assert!((a - b).abs() <= 1e-8, "{a:e} instead of {b:e} on {ranks} ranks, {rows} rows");
                }
            }
        }
    }
}
