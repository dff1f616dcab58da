//! The header must agree with the sources.

use std::path::Path;

#[test]
fn the_header_is_that_of_the_sources() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).unwrap();
    // cbindgen finds the modules itself.
    let builder = cbindgen::Builder::new().with_config(config).with_src(folder.join("src/lib.rs"));
    let mut made = Vec::new();
    builder.generate().unwrap().write(&mut made);
    // Rust's documentation has a section for the caller's obligations, C's a sentence.
    let made = String::from_utf8(made).unwrap().replace("// # Safety\n", "// Asks of the caller:\n");
    let path = folder.join("include/isobar.h");
    if std::env::var_os("UPDATE_HEADER").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    for (part, number) in [
        ("MAJOR", env!("CARGO_PKG_VERSION_MAJOR")),
        ("MINOR", env!("CARGO_PKG_VERSION_MINOR")),
        ("PATCH", env!("CARGO_PKG_VERSION_PATCH")),
    ] {
        let line = format!("#define ISOBAR_VERSION_{part} {number}\n");
        assert!(made.contains(&line), "src/lib.rs: ISOBAR_VERSION_{part} is not {number}");
    }
    assert!(committed == made, "include/isobar.h is out of date; UPDATE_HEADER=1 cargo test -p isobar-c --test header");
}
