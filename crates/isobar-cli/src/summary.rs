//! The summary, printed before and after a solve.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Write};

use isobar::options::{Method, Preconditioner, Smoother};
use isobar::{Description, Outcome, Shape, Stop};
use isobar_case::text::plural;
use isobar_case::{Case, Footprint, memory};

use isobar_case::report::{ErrorReport, Seconds, TrafficReport};

/// Formats a line of the summary: a name and a text.
pub fn entry(name: &str, text: impl Display) -> String {
    format!("{name:<10} {text}")
}

/// Rounds a time to ten digits for people: a sum of steps has rounding errors.
pub fn ten_digits(time: f64) -> f64 {
    format!("{time:.9e}").parse().unwrap_or(time)
}

/// Returns the lines about the problem, the device and the solver, printed before the solve.
pub fn opening(case: &Case, description: &Description, footprint: &Footprint) -> String {
    let mut lines = vec![
        entry("problem", case.problem.describe()),
        entry("device", device(description)),
        entry("solver", solver(case, description)),
    ];
    lines.extend(description.shares.map(|shares| entry("slabs", shares)));
    if !description.levels.is_empty() {
        let levels: Vec<String> = description.levels.iter().map(Shape::to_string).collect();
        lines.push(entry("levels", levels.join("  ")));
    }
    let [vectors, coefficients] = [description.bytes, description.coefficient_bytes];
    lines.push(entry(
        "memory",
        format!(
            "{} of vectors, {} of coefficients; predicted peak of {} {}{}",
            memory::readable(vectors as f64),
            memory::readable(coefficients as f64),
            if description.device.ranks > 1 { "a rank" } else { "the whole run" },
            memory::readable(footprint.peak()),
            if footprint.device > 0.0 {
                format!(" on the host, {} on the GPU", memory::readable(footprint.device))
            } else {
                String::new()
            }
        ),
    ));
    lines.extend(description.notes.iter().chain(&case.notes).map(|note| entry("note", note)));
    lines.join("\n")
}

fn device(description: &Description) -> String {
    let device = &description.device;
    let mut text = format!("{}: {}", device.kind, device.name);
    if device.count > 1 {
        let _ = write!(text, " × {}", device.count);
    }
    if device.ranks > 1 {
        let _ = write!(text, ", {} ranks of {}", device.ranks, plural(device.threads, "thread"));
    } else if device.kind == "cpu" {
        let _ = write!(text, ", {}", plural(device.threads, "thread"));
    }
    text
}

fn solver(case: &Case, description: &Description) -> String {
    let mut text = format!("{} in {}", description.method, description.precision);
    if description.preconditioner != "none" {
        let _ = write!(text, ", preconditioner {}", description.preconditioner);
    }
    if !description.levels.is_empty() {
        let multigrid = &case.solver.multigrid;
        let _ = write!(
            text,
            ", {} V({},{}), {}",
            description.smoother.name(),
            multigrid.pre,
            multigrid.post,
            plural(multigrid.coarse_sweeps, "coarse sweep")
        );
    }
    if (case.solver.method, case.solver.preconditioner) == (Method::Auto, Preconditioner::Auto) {
        let is_given = case.solver.multigrid.smoother != Smoother::Auto;
        text.push_str(match (description.method.as_str(), description.preconditioner.as_str()) {
            ("multigrid", _) if is_given => "; chosen for solver.multigrid.smoother",
            ("cg", "multigrid") if is_given => {
                "; chosen for solver.multigrid.smoother; falls back to lines or the diagonal if slow"
            }
            ("cg", "multigrid") if description.smoother == Smoother::PointLine => {
                "; chosen for these coefficients; falls back to lines on all levels if slow"
            }
            ("cg", "multigrid") => {
                "; chosen because it is fast for any coefficients; falls back to lines or the diagonal if slow"
            }
            ("multigrid", _) if description.smoother == Smoother::PointRedBlack => {
                "; chosen for these coefficients; falls back to cg with lines on Galerkin levels if slow"
            }
            _ => "; the default for this matrix",
        });
    } else if case.solver.method == Method::Multigrid
        && case.solver.multigrid.smoother == Smoother::Auto
        && description.smoother == Smoother::PointRedBlack
    {
        text.push_str("; a smoother for these coefficients, falls back to lines on Galerkin levels if slow");
    }
    text
}

/// Returns the lines about the result: the outcome with advice, the error, the times, the bandwidth.
pub fn closing(
    case: &Case,
    outcome: &Outcome,
    has_solution: bool,
    error: Option<ErrorReport>,
    seconds: &Seconds,
    traffic: &TrafficReport,
) -> String {
    let iterations = plural(outcome.iterations, "iteration");
    let verdict = if outcome.converged() {
        format!("converged in {iterations}")
    } else {
        format!("NOT converged: {} after {iterations}", outcome.stop.to_string().replace('_', " "))
    };
    // Without an iteration there is no convergence factor.
    let factor = match outcome.iterations {
        0 => String::new(),
        _ => format!(", convergence factor {:.3}", outcome.mean_rate()),
    };
    let mut lines = vec![entry(
        "outcome",
        format!(
            "{verdict}; relative residual {:.3e} (tolerance {:.0e}){factor}",
            outcome.relative_residual, case.solver.tolerance
        ),
    )];
    if let (Stop::Breakdown | Stop::Diverged, Some((iteration, residual))) = (outcome.stop, outcome.last_good()) {
        lines.push(entry("last good", format!("iteration {iteration}, relative residual {residual:.3e}")));
    }
    lines.extend(outcome.notes.iter().map(|note| entry("note", note)));
    if !has_solution {
        lines.push(entry("solution", "none: the result is not finite, or worse than the first guess"));
    }
    if let Some(advice) = &outcome.advice {
        lines.push(entry("try", advice));
    }
    if let Some(error) = error {
        lines.push(entry("error", format!("largest {:.3e}, root mean square {:.3e}", error.max, error.l2)));
    }
    if let Some(batch) = &outcome.batch {
        let (count, least, most) = (batch.iterations.len(), batch.least(), batch.most());
        lines.push(entry(
            "batch",
            format!("{count} lines, {least} to {most} iterations, largest relative residual {:.1e}", batch.worst),
        ));
    }
    if let Some(estimate) = outcome.error_estimate {
        lines.push(entry("estimate", error_estimate(estimate, outcome.relative_residual)));
    }
    if let Some(spectrum) = outcome.spectrum {
        let (smallest, largest) = (spectrum.smallest, spectrum.largest);
        let matrix =
            if case.solver.method_name() == "deflated-cg" { "deflated, preconditioned" } else { "preconditioned" };
        lines.push(entry(
            "condition",
            format!("{:.3e} of the {matrix} matrix: eigenvalues {smallest:.3e} to {largest:.3e}", spectrum.condition()),
        ));
    }
    lines.push(entry(
        "time",
        format!(
            "{} solve, {} setup, {} upload, {} download; {} total",
            Time(seconds.solve),
            Time(seconds.setup),
            Time(seconds.upload),
            Time(seconds.download),
            Time(seconds.total)
        ),
    ));
    lines.push(entry("traffic", bandwidth(traffic)));
    lines.join("\n")
}

/// Formats the outflow through each side.
pub fn flow(flux: &BTreeMap<&'static str, f64>) -> String {
    let totals: Vec<String> = flux.iter().map(|(side, total)| format!("{side} {total:.6e}")).collect();
    entry("flow", format!("{} out of the domain", totals.join(", ")))
}

/// Formats the estimated error, with a warning if the residual is far smaller.
fn error_estimate(estimate: f64, residual: f64) -> String {
    /// Warns if the error is this many times larger than the residual…
    const HIDDEN: f64 = 1e3;
    /// …and at least this large.
    const LARGE: f64 = 1e-3;
    if estimate >= 1.0 {
        return format!("the error may be as large as the solution, in spite of the residual of {residual:.1e}");
    }
    let mut text = format!("the error is about {estimate:.1e} of the solution");
    if estimate > LARGE && estimate > HIDDEN * residual {
        text.push_str("; far more than the residual: lower solver.tolerance");
    }
    text
}

/// Returns whether a run of this many seconds is compared with a plain copy, whose timing takes a tenth of a second. Ranks always
/// are, since they time it together.
pub fn is_worth_a_copy(has_ranks: bool, seconds: f64) -> bool {
    has_ranks || seconds >= 1.0
}

/// Formats the bandwidth of a solve.
pub fn bandwidth(traffic: &TrafficReport) -> String {
    if !traffic.copy_gb_per_s.is_finite() {
        return match traffic.bytes > 0.0 && traffic.gb_per_s.is_finite() {
            true => format!("{:.1} GB/s; `isobar bench` compares it with a plain copy", traffic.gb_per_s),
            false => "none".to_owned(),
        };
    }
    if traffic.bytes > 0.0 && traffic.gb_per_s.is_finite() {
        format!(
            "{:.1} GB/s, {:.0} % of the {:.1} GB/s of a plain copy",
            traffic.gb_per_s,
            100.0 * traffic.fraction_of_copy,
            traffic.copy_gb_per_s
        )
    } else {
        format!("none; a plain copy reaches {:.1} GB/s", traffic.copy_gb_per_s)
    }
}

/// Seconds, formatted in a suitable unit.
#[derive(Clone, Copy, Debug)]
pub struct Time(pub f64);

impl Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            s if s >= 100.0 => write!(f, "{s:.0} s"),
            s if s >= 1.0 => write!(f, "{s:.2} s"),
            s if s >= 1e-3 => write!(f, "{:.2} ms", s * 1e3),
            s => write!(f, "{:.1} µs", s * 1e6),
        }
    }
}
