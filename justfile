# The commands that developers use; `just` lists them.

default:
    @just --list

# Formatting, lints and documentation, warnings denied.
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

# All tests.
test:
    cargo test --workspace

# The conformance suite on this machine's NVIDIA card; fails where there is none.
test-gpu:
    ISOBAR_REQUIRE_CUDA=1 cargo test --release -p isobar-cuda
    cargo test --release -p isobar-cuda -p isobar --lib -- --ignored

# Every kernel of the main case against the copy bandwidth of this machine.
bench *ARGS:
    cargo run --release -- bench cases/panel.toml --set grid.nx=256 --set grid.ny=256 {{ARGS}}

# The same solve by hypre (needs `apt-get install libhypre-dev openmpi-bin libopenmpi-dev`); --problem bubbles and --help for others.
compare-hypre *ARGS:
    validation/hypre/run {{ARGS}}

# The papers' tables.
reproduce PAPER *ARGS:
    cargo run --release -p isobar-papers -- reproduce {{PAPER}} {{ARGS}}

# Predictions for many ranks.
model RANKS *ARGS:
    cargo run --release -p isobar-papers -- model --ranks {{RANKS}} {{ARGS}}

# Packs of compiled kernels, which the next wheel contains; needs NVRTC, but no GPU.
packs ARCHITECTURES="80,90,120":
    cargo run --release -p isobar-cuda --example pack -- {{ARCHITECTURES}} crates/isobar-python/python/isobar

# The wheel for any Linux with glibc 2.28 or newer, into target/wheels; needs `pip install 'maturin[zig]'`.
wheel:
    maturin build --profile dist --zig --compatibility manylinux_2_28 -m crates/isobar-python/Cargo.toml --out target/wheels

# The site, with its gallery; $PYTHON has the package, Sphinx, MyST, furo and matplotlib.
site:
    docs/site/build

# API documentation.
docs:
    cargo doc --workspace --no-deps --open
