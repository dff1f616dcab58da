//! C and Fortran programs, compiled and run like a user's.
//!
//! They link the static or the shared library.

mod programs;

use std::path::Path;
use std::process::Command;

use programs::{C_STRICT, crate_folder, fortran, libraries, run};
use tempfile::TempDir;

/// Compiles a program with warnings denied, links it in either way, runs it, and returns what it prints.
fn run_program(source: &str, shared: bool) -> Option<String> {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    if Command::new(&compiler).arg("--version").output().is_err() {
        eprintln!("no C compiler ({compiler}): {source} was not compiled");
        return None;
    }
    let folder = TempDir::new().unwrap();
    let program = folder.path().join("program");
    let mut compile = Command::new(compiler);
    compile.args(C_STRICT).arg(crate_folder().join("include"));
    compile.arg(crate_folder().join(source)).arg("-o").arg(&program);
    if shared {
        compile.arg("-L").arg(libraries()).args(["-lisobar_c", "-lm", "-lpthread", "-ldl"]);
    } else {
        compile.arg(libraries().join("libisobar_c.a")).args(["-lm", "-lpthread", "-ldl"]);
    }
    run(&mut compile);
    Some(run(Command::new(&program).env("LD_LIBRARY_PATH", libraries())))
}

/// Compiles a Fortran program with warnings denied, runs it, and returns what it prints.
fn run_fortran(source: &str) -> Option<String> {
    let mut compile = fortran(source)?;
    let folder = TempDir::new().unwrap();
    let program = folder.path().join("program");
    compile.arg("-J").arg(folder.path());
    for source in ["fortran/isobar.f90", source] {
        compile.arg(crate_folder().join(source));
    }
    run(compile.arg("-L").arg(libraries()).arg("-lisobar_c").arg("-o").arg(&program));
    Some(run(Command::new(&program).env("LD_LIBRARY_PATH", libraries())))
}

/// The output of the first programs in both languages: u is 0.0736714 at the centre (by a Fourier series), and a little less in the
/// cells around it.
const LARGEST: &str = "largest u: 0.073666\n";
const FINE: &str = "0 failures\n";

/// Tests of programs by what they print.
macro_rules! programs {
    ($($test:ident: $run:ident($($of:tt)*), $check:expr;)*) => {$(
        #[test]
        fn $test() {
            let Some(text) = $run($($of)*) else { return };
            let check: fn(&str) -> bool = $check;
            assert!(check(&text), "{text}");
        }
    )*};
}

programs! {
    a_first_solve: run_program("examples/poisson.c", true), |text| text == LARGEST;
    a_first_solve_from_fortran: run_fortran("examples/poisson.f90"), |text| text == LARGEST;
    conductances_and_their_derivatives: run_program("tests/faces.c", true), |text| text == FINE;
    derivatives_by_shared_and_separate_kappa: run_program("tests/directions.c", true), |text| text == FINE;
    derivatives_on_a_thin_grid_from_fortran: run_fortran("tests/gradient.f90"), |text| text == FINE;
    masks_and_widths_from_fortran: run_fortran("tests/diffusion.f90"), |text| text == FINE;
    floating_point_environments_are_the_callers: run_program("tests/environment.c", true), |text| text == FINE;
    arrays_of_handles_are_freed: run_fortran("tests/handles.f90"), |text| text == FINE;
    conductances_from_fortran: run_fortran("tests/faces.f90"), |text| text == FINE;
    misuse_comes_back_as_codes: run_program("tests/misuse.c", true), |text| text == FINE;
    fortran_describes_arrays_of_a_gpu: run_fortran("tests/cuda_array.f90"), |text| text == FINE;
    coefficients_on_a_gpu: run_program("tests/gpu.c", true), |text| {
        text == FINE || std::env::var_os("ISOBAR_REQUIRE_CUDA").is_none() && text == "no GPU\n"
    };
    the_heat_equation_is_stepped_from_c: run_program("examples/heat.c", false), |text| {
        text.starts_with("after 40 steps, at 0.020")
    };
    the_heat_equation_is_stepped_from_fortran: run_fortran("examples/heat.f90"), |text| {
        text.starts_with("after 20 steps") && text.contains("has been reached")
    };
    a_fortran_model_solves_in_its_steps: run_fortran("examples/model_step.f90"), |text| {
        text.starts_with("after 20 steps") && text.contains("problem is a null pointer: in Fortran, one that is not made")
    };
}

#[test]
fn the_example_solves() {
    for shared in [true, false] {
        let Some(text) = run_program("examples/solve.c", shared) else { return };
        assert!(text.starts_with(concat!("isobar ", env!("CARGO_PKG_VERSION"), "\n")), "{text}");
        assert!(text.contains("pressure on 32 x 32 x 16 cells") && text.contains("\"stop\": \"converged\""), "{text}");
    }
}

#[test]
fn derivatives_of_a_solve() {
    let Some(text) = run_program("examples/gradient.c", true) else { return };
    let Some(rest) = text.strip_prefix("mean ") else { panic!("{text}") };
    let (mean, rest) = rest.split_once(", sum of kappa times its derivatives -").unwrap();
    assert!(rest.starts_with(mean), "{text}");
    let west: f64 = rest.split_once("west side ").unwrap().1.trim().parse().unwrap();
    assert!((0.2..0.3).contains(&west), "{text}");
}

#[test]
fn derivatives_of_a_solve_from_fortran() {
    let Some(text) = run_fortran("examples/gradient.f90") else { return };
    let numbers: Vec<f64> =
        text.split(|c: char| !c.is_ascii_digit() && c != '.' && c != '-').filter_map(|n| n.parse().ok()).collect();
    let [mean, by_f, by_kappa, by_sides, by_widths] = numbers[..] else { panic!("{text}") };
    assert!(mean > 0.0 && (by_f - mean).abs() < 2e-6 && (by_kappa + mean).abs() < 2e-6, "{text}");
    assert!((by_sides - 1.0).abs() < 2e-6 && (by_widths - 2.0 * mean).abs() < 3e-6, "{text}");
}

#[test]
fn the_header_is_one_of_cpp_too() {
    let folder = TempDir::new().unwrap();
    let source = folder.path().join("header.cpp");
    std::fs::write(&source, "#include <isobar.h>\nint main() { return isobar_version() == nullptr; }\n").unwrap();
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    let mut compile = Command::new("c++");
    compile.args(["-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I"]).arg(include).arg(&source);
    if Command::new("c++").arg("--version").output().is_ok() {
        run(&mut compile);
    }
}
