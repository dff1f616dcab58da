//! Boxes that are periodic in y, and in x too, with rows divided among processes.

use tempfile::tempdir;

use crate::jobs::Mpi;
use crate::support::{Trial, check_trials, file};
use crate::{BUBBLES, ROCK, SMOOTH};

const IN_X: &str = "west = \"periodic\", east = \"periodic\"";
const IN_Y: &str = "south = \"periodic\", north = \"periodic\"";

/// Checks a floating box, random coefficients, and bubbles, by the automatic choice and in other ways.
pub(crate) fn rings_are_those_of_one_process(mpi: &Mpi) {
    let files = tempdir().unwrap();
    let file = |name: &str, text: &str| file(&files, name, text);
    let sides = format!("coefficient = 2.0\nboundary = {{ {IN_X}, {IN_Y} }}");
    let smooth = file("smooth.toml", &SMOOTH.replace("coefficient = 2.0", &sides));
    let rock = file("rock.toml", &ROCK.replace("south = { dirichlet = 0.0 }", IN_Y));
    let bubbles = file("bubbles.toml", &BUBBLES.replace("south = { dirichlet = 0.0 }", IN_Y));
    let cg = ["--set", "solver.method=cg", "--set", "solver.preconditioner.kind=line"];
    // Coarser levels are even too, so that points are relaxed.
    let even = ["--set", "grid.nx=32", "--set", "grid.ny=32"];
    let odd = ["--set", "grid.nx=23", "--set", "grid.ny=27"];
    let trials: [Trial<'_>; 9] = [
        (&smooth, &[], &[1, 2, 3, 4], None),
        (&smooth, &even, &[3, 4], None),
        (&smooth, &even, &[4], Some("2x2")),
        (&rock, &[], &[2, 3], None),
        (&rock, &cg, &[2, 4], None),
        (&rock, &cg, &[4], Some("2x2")),
        (&bubbles, &[], &[2, 4], None),
        // Two copies of periodic directions with odd numbers of cells.
        (&rock, &odd, &[2, 3], None),
        (&smooth, &odd, &[2, 3], None),
    ];
    check_trials(mpi, files.path(), &trials);
}
