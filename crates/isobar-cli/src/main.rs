//! The `isobar` command, implemented in the library of this crate.

#[global_allocator]
static ALLOCATOR: isobar::LargePages = isobar::LargePages;

fn main() -> std::process::ExitCode {
    isobar_cli::main()
}
