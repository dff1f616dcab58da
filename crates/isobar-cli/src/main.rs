//! The `isobar` command. Everything it does is in the library beside it.

fn main() -> std::process::ExitCode {
    isobar_cli::main()
}
