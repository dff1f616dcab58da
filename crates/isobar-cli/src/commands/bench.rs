//! `isobar bench`

use isobar::{Setup, Timed};

use crate::args::BenchArgs;
use crate::summary::entry;
use crate::{Console, Result, Table, Time, device, files};
use isobar_case::Problem;
use isobar_case::report::{KernelReport, Report};

/// Explains the column GB/s.
const COUNTED: &str = "\
GB/s count each vector of a step once. A step that needs several passes over memory moves more: the two fused steps of sweeps and
transfers on multigrid's finest level move about 1.5 times as much on CUDA.";

/// Times the setup of a case's solver, each step of its iteration alone, and a whole solve.
///
/// # Errors
/// The case cannot be solved, or the report cannot be written.
pub fn run(args: &BenchArgs) -> Result<u8> {
    if let Some(scaling) = args.scaling {
        return super::scaling::run(args, scaling);
    }
    let case = args.case.load()?;
    let targets = [("--report", args.report.as_deref())];
    files::check(&targets, &case.inputs())?;
    let device = device::open(&args.device)?;
    let mut console = Console::new(files::summary_stream(&targets), args.quiet);
    case.require_memory(&device)?;
    let assembled = device.enter(|| case.assemble())?;
    if let Problem::Heat(_) = &case.problem {
        let steps = match case.solver.leaves_step_preconditioner() {
            true => "begin without a preconditioner, or with lines, if they are not solved directly",
            false => "relax lines where multigrid is named",
        };
        console
            .line(entry("note", format!("the matrix of a first step, with what suits a single solve; steps {steps}")));
    }
    // Measured before the solve, whose own setup would fill all caches.
    let (setup, timed) = assembled.matrix.bench(&device, &case.solver)?;
    let Setup { first, again, update } = setup;
    let times = format!("{} the first time, {} with warm caches; update {}", Time(first), Time(again), Time(update));
    console.line(entry("setup", times));

    let run = crate::run::solve_assembled(&case, assembled, &device, &mut console)?;
    let copy = run.traffic.copy_gb_per_s * 1e9;
    console.line("");
    console.line(table(&timed, copy));
    console.line(COUNTED);
    let in_steps: f64 = timed.iter().map(Timed::seconds_per_iteration).sum();
    if run.outcome.iterations > 0 {
        console.line(format_args!(
            "\nan iteration takes {}; its steps, timed separately, add up to {}",
            Time(run.outcome.timing.solve / run.outcome.iterations as f64),
            Time(in_steps)
        ));
    }
    if let Some(path) = &args.report {
        let kernels = timed.iter().map(|step| kernel_report(step, copy)).collect();
        files::write_report(path, &Report { timing: Some(setup.into()), kernels, ..run.report(&case) })?;
    }
    console.finish()?;
    Ok(super::status(&run))
}

fn table(timed: &[Timed], copy: f64) -> Table {
    let mut table =
        Table::new(["step", "grid", "precision", "a call", "GB/s", "of copy", "calls", "computes"]).with_words_in(7);
    for step in timed {
        table.row([
            step.step.step.name.to_owned(),
            step.shape.to_string(),
            if step.step.size == 8 { "f64" } else { "f32" }.to_owned(),
            Time(step.seconds).to_string(),
            format!("{:.1}", step.bandwidth() * 1e-9),
            format!("{:.0} %", 100.0 * step.bandwidth() / copy),
            format!("{}", step.step.count),
            step.step.step.recurrence.to_owned(),
        ]);
    }
    table
}

fn kernel_report(step: &Timed, copy: f64) -> KernelReport {
    KernelReport {
        name: step.step.step.name.to_owned(),
        recurrence: step.step.step.recurrence.to_owned(),
        grid: step.shape.extents(),
        precision: if step.step.size == 8 { "f64" } else { "f32" },
        calls_per_iteration: step.step.count,
        seconds: step.seconds,
        bytes: step.bytes(),
        flops: step.step.step.flops * step.step.cells as f64,
        gb_per_s: step.bandwidth() * 1e-9,
        fraction_of_copy: step.bandwidth() / copy,
    }
}
