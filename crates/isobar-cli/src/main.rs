//! The `isobar` command, implemented in the library of this crate.

fn main() -> std::process::ExitCode {
    isobar_cli::main()
}
