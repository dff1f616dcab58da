//! The header is what the sources say.

use std::path::Path;

#[test]
fn the_header_is_that_of_the_sources() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).unwrap();
    // It finds the modules by itself.
    let builder = cbindgen::Builder::new().with_config(config).with_src(folder.join("src/lib.rs"));
    let mut made = Vec::new();
    builder.generate().unwrap().write(&mut made);
    // What Rust's documentation asks of callers in a section of its own, and C's says in words.
    let made = String::from_utf8(made).unwrap().replace("// # Safety\n", "// Asks of the caller:\n");
    let path = folder.join("include/isobar.h");
    if std::env::var_os("UPDATE_HEADER").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == made, "include/isobar.h is out of date; UPDATE_HEADER=1 cargo test -p isobar-c --test header");
}
