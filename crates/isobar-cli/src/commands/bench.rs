//! `isobar bench`

use crate::args::BenchArgs;
use crate::console::Console;
use crate::device;
use crate::failure::Result;
use crate::report::KernelReport;
use isobar::bench::Timed;

use crate::summary::Time;
use crate::table::Table;
use crate::{files, interrupt};

/// Solves a case, then times every step of its iteration alone.
///
/// # Errors
/// Whatever keeps the case from being solved or the report from being written.
pub fn run(args: &BenchArgs) -> Result<u8> {
    let case = args.case.load()?;
    let targets = [("--report", args.report.as_deref())];
    files::check(&targets, &case.inputs())?;
    let device = device::open(&args.device)?;
    let mut console = Console::new(files::summary_stream(&targets), args.quiet);
    let run = crate::run::solve(&case, &device, &mut console)?;
    let steps = if interrupt::requested() { &[][..] } else { &run.description.traffic };
    let timed = run.assembled.matrix.time_iteration(&device, &case.solver, steps)?;

    let copy = run.traffic.copy_gb_per_s * 1e9;
    console.line("");
    console.line(table(&timed, copy));
    let in_steps: f64 = timed.iter().map(Timed::seconds_per_iteration).sum();
    if run.outcome.iterations > 0 {
        console.line(format_args!(
            "\nan iteration takes {}; its steps, timed alone, add up to {}",
            Time(run.outcome.timing.solve / run.outcome.iterations as f64),
            Time(in_steps)
        ));
    }
    if let Some(path) = &args.report {
        let kernels = timed.iter().map(|step| kernel_report(step, copy)).collect();
        super::write_report(path, &run.report(&case, kernels))?;
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
        grid: [step.shape.nx, step.shape.ny, step.shape.nz],
        precision: if step.step.size == 8 { "f64" } else { "f32" },
        calls_per_iteration: step.step.count,
        seconds: step.seconds,
        bytes: step.bytes(),
        flops: step.step.step.flops * step.step.cells as f64,
        gb_per_s: step.bandwidth() * 1e-9,
        fraction_of_copy: step.bandwidth() / copy,
    }
}
