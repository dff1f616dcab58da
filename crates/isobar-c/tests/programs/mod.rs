//! Compilation and execution of users' programs.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns cargo's folder of libraries, which contains this test.
pub(crate) fn libraries() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_path_buf()
}

/// Returns this crate's folder.
pub(crate) fn crate_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the output of a command, which must succeed.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}\n{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// A C compiler's options that deny warnings.
pub(crate) const C_STRICT: [&str; 6] = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"];
/// A Fortran compiler's options that deny warnings.
pub(crate) const FORTRAN_STRICT: [&str; 6] =
    ["-std=f2018", "-Wall", "-Wextra", "-Wno-compare-reals", "-Werror", "-fcheck=all"];

/// Returns the Fortran compiler, where there is one.
pub(crate) fn fortran(source: &str) -> Option<Command> {
    let compiler = std::env::var("FC").unwrap_or_else(|_| "gfortran".to_owned());
    if Command::new(&compiler).arg("--version").output().is_err() {
        assert!(std::env::var_os("ISOBAR_REQUIRE_FORTRAN").is_none(), "no Fortran compiler ({compiler})");
        eprintln!("no Fortran compiler ({compiler}): {source} was not compiled");
        return None;
    }
    let mut compile = Command::new(compiler);
    compile.args(FORTRAN_STRICT);
    Some(compile)
}
