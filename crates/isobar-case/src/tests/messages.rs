//! Tests of error messages for wrong case files.

use super::*;

#[test]
fn an_unknown_key_is_shown_with_its_line_and_the_nearest_one() {
    let text = format!("{MINIMAL}[solver]\ntolerence = 1e-5\n");
    says(
        &text,
        &[],
        &[
            "cases/x.toml:8:1",
            "unknown key \"tolerence\" in [solver]",
            "did you mean \"tolerance\"?",
            "8 | tolerence = 1e-5",
            "^^^^^^^^^",
        ],
    );
    says(
        MINIMAL,
        &["solver.multigrid.smother=line-jacobi"],
        &[
            "--set solver.multigrid.smother=line-jacobi",
            "unknown key \"smother\" in [solver.multigrid]",
            "\"smoother\"",
        ],
    );
    says("[problm]\n", &[], &["x.toml:1:2", "unknown key \"problm\"", "\"problem\""]);
    says(
        MINIMAL,
        &["tolerance=1e-5"],
        &["--set tolerance=1e-5", "unknown key \"tolerance\"", "did you mean solver.tolerance?"],
    );
    says(MINIMAL, &["problem.knd=1"], &["did you mean \"kind\"?"]);
    says(MINIMAL, &["problem.rhs.sead=1"], &["[problem.rhs]", "did you mean \"seed\"?"]);
}

#[test]
fn an_unknown_choice_lists_what_there_is() {
    says(
        MINIMAL,
        &["grid.geometry=boxx"],
        &["grid.geometry = \"boxx\"", "did you mean \"box\"?", "available: panel, equiangular-panel, box"],
    );
    says(
        MINIMAL,
        &["solver.method=sor"],
        &["solver.method", "available: auto, direct, multigrid, modes, jacobi, cg, deflated-cg, bicgstab"],
    );
    says("[problem]\nkind = \"helmholz\"", &[], &["x.toml:2:8", "did you mean \"helmholtz\"?"]);
}

#[test]
fn wrong_types_are_named() {
    for (set, parts) in [
        ("grid.nx=12.5", &["grid.nx must be a whole number, 1 or more, not the number 12.5"][..]),
        ("grid.nx=-5", &["grid.nx must be a whole number, 1 or more, not the whole number -5"]),
        ("grid.nx=\"12\"", &["grid.nx must be a whole number, 1 or more, not the string \"12\""]),
        ("grid.nx=12 34", &["not the string \"12 34\""]),
        ("grid.nx=true", &["not the boolean true"]),
        ("grid.nx=[1, 2]", &["grid.nx must be a whole number, 1 or more, not a list"]),
        ("grid.nx={}", &["grid.nx must be a whole number, 1 or more, not a section"]),
        (
            "grid.nx=99999999999999999999999",
            &["grid.nx = 99999999999999999999999 is too large; the largest number is 18446744073709551615"],
        ),
        ("grid.depth=deep", &["grid.depth must be a number, not the string \"deep\""]),
        ("grid.geometry=3", &["grid.geometry must be"]),
        ("solver.multigrid=5", &["solver.multigrid must be a section, not the whole number 5"]),
        ("grid=5", &["grid must be a section"]),
        ("problem.kind=3", &["problem.kind must be a string"]),
        ("problem.rhs=random", &["problem.rhs must be a section, not the string \"random\""]),
    ] {
        let message = message(MINIMAL, &[set]);
        assert_all_in(&message, parts);
        assert_all_in(&message, &[&format!("--set {set}: ")]);
    }
}

#[test]
fn values_out_of_range_name_the_key_and_the_range() {
    for (set, parts) in [
        ("grid.nx=0", &["grid.nx", "1 or more"][..]),
        ("grid.depth=-1", &["grid.depth", "-1"]),
        ("grid.depth=0", &["grid.depth"]),
        ("solver.tolerance=0", &["solver.tolerance", "between 0 and 1"]),
        ("solver.tolerance=-1e-5", &["solver.tolerance"]),
        ("solver.multigrid.levels=0", &["solver.multigrid.levels"]),
        ("solver.multigrid.pre=18446744073709551615", &["solver.multigrid.pre", "use 1000 or fewer"]),
        ("solver.multigrid.post=1000000", &["solver.multigrid.post", "1000000 sweeps"]),
        ("solver.multigrid.coarse_sweeps=20000", &["solver.multigrid.coarse_sweeps", "use 10000 or fewer"]),
        ("solver.multigrid.visits=[2, 0]", &["solver.multigrid.visits", "0 visits", "use 1 (a V-cycle) to 10"]),
        ("solver.multigrid.relaxation=7", &["solver.multigrid.relaxation", "between 0 and 2"]),
        ("solver.jacobi.sub_iterations=0", &["solver.jacobi.sub_iterations", "use 1 (plain sweeps) or more"]),
        ("solver.jacobi.overlap=3", &["solver.jacobi.overlap", "3 is odd", "even number"]),
        ("solver.jacobi.tile=[0]", &["solver.jacobi.tile", "0 cells"]),
        ("solver.jacobi.relaxation=2", &["solver.jacobi.relaxation", "between 0 and 2"]),
        ("problem.courant=-1", &["problem.courant", "0 to 1e12"]),
        ("problem.lambda=1e300", &["problem.lambda"]),
        ("solver.tolerance=nan", &["solver.tolerance", "not a finite number"]),
        ("grid.depth=inf", &["grid.depth", "not a finite number"]),
        ("grid.depth=-inf", &["grid.depth", "not a finite number"]),
        ("grid.depth=1e999", &["grid.depth", "not a finite number"]),
        ("problem.rhs.path=", &["no value"]),
        ("problem.rhs.kind=file", &["problem.rhs.path"]),
        ("problem.rhs.path=rhs.npy", &["problem.rhs.path", "problem.rhs.kind is \"file\""]),
    ] {
        let message = message(MINIMAL, &[set]);
        assert_all_in(&message, parts);
        assert_all_in(&message, &[&format!("--set {set}: ")]);
    }
    // Keys of which one replaces the other.
    says(
        MINIMAL,
        &["problem.courant=8.4", "problem.omega=0.1"],
        &["--set problem.omega=0.1: problem.omega: problem.courant is given too; remove one of them"],
    );
    assert!(parse(MINIMAL, &["problem.omega=0.1"]).is_ok());
    says(
        MINIMAL,
        &["solver.modes.count=99"],
        &["--set solver.modes.count=99: solver.modes.count: 99 modes of a grid of 4 layers"],
    );
    // A section that the case has not has no line.
    says(MINIMAL, &["problem.kind=heat"], &["x.toml: [heat] needs the key \"dt\""]);
    says(MINIMAL, &["grid.nx=1000000000", "grid.ny=1000000000", "grid.nz=1000000000"], &["grid", "cells"]);
}

#[test]
fn the_line_of_a_value_out_of_range_is_shown() {
    let text = format!("{MINIMAL}[solver]\ntolerance = 0.0 # too small\n");
    says(&text, &[], &["cases/x.toml:8:13: solver.tolerance:", "8 | tolerance = 0.0"]);
}

#[test]
fn overrides_that_are_none_say_how_to_write_one() {
    for (set, part) in [
        ("grid.nx", "no \"=\""),
        ("=5", "dotted names"),
        ("grid..nx=5", "dotted names"),
        (".=5", "dotted names"),
        ("grid.nx=", "no value"),
        ("grid.nx.deep=3", "nx is a value in the case, not a section; change grid.nx as a whole"),
    ] {
        says(MINIMAL, &[set], &[&format!("--set {set}: "), part]);
    }
}

#[test]
fn broken_toml_is_shown_with_its_line() {
    says("[problem]\nkind = \n", &[], &["x.toml:2:"]);
    says("[problem]\nkind = \"a\"\nkind = \"b\"\n", &[], &["x.toml:3:", "duplicate"]);
    says("[problem", &[], &["x.toml:1:"]);
    says("", &[], &["x.toml", "problem.kind"]);
}

#[test]
fn bottomless_cases_are_refused() {
    for text in ["a = [", "a = {a=", "a."].map(|part| part.repeat(100_000)) {
        says(&text, &[], &["x.toml"]);
    }
    says(&format!("{}a = 1", "a.".repeat(100_000)), &[], &["nested too deeply"]);
    let set = format!("{}a=1", "a.".repeat(100_000));
    says(MINIMAL, &[&set], &["more parts than any key"]);
    let set = format!("grid.nx={}", "[".repeat(100_000));
    says(MINIMAL, &[&set], &["grid.nx must be"]);
}

/// Returns a case of diffusion with this line in `[diffusion]`.
fn with(line: &str) -> String {
    format!("[problem]\nkind = \"diffusion\"\n[grid]\nnx = 8\nny = 6\nnz = 4\n[diffusion]\n{line}\n")
}

#[test]
fn lists_of_another_length_are_counted() {
    for (text, set, parts) in [
        (MINIMAL, "problem.advection=[1, 2, 3, 4]", &["problem.advection has 4 entries; give 3"][..]),
        (MINIMAL, "problem.advection=[1, 2]", &["problem.advection has 2 entries; give 3"]),
        (MINIMAL, "solver.deflation.stripes={ blocks = [1, 2, 3, 4] }", &["stripes.blocks has 4 entries; give 3"]),
        (MINIMAL, "solver.deflation.stripes={ blocks = [1] }", &["stripes.blocks has 1 entry; give 3"]),
        (&with(""), "grid.size=[1, 1, 1, 1]", &["grid.size", "4 entries", "x, y and z"]),
        (&with(""), "grid.spacing=[1, 1, 1, 1, 1]", &["grid.spacing", "5 entries"]),
        (&with(""), "grid.spacing=[1]", &["grid.spacing: 1 entry; give"]),
        (&with(""), "grid.spacing=[1, 1, [1, 2, 3, 4, 5]]", &["grid.spacing", "5 widths in z", "4 cells"]),
        (
            &with(""),
            "diffusion.sources=[{ i = 1, j = 1, k = [1, 2, 3], rate = 1.0 }]",
            &["diffusion.sources[0].k: a list of length 3", "a layer"],
        ),
        (
            &with(""),
            "diffusion.wells=[{ i = 1, j = 1, k = [1], value = 1.0, radius = 1e-3 }]",
            &["diffusion.wells[0].k: a list of length 1", "[0, 21]"],
        ),
    ] {
        says(text, &[set], parts);
    }
}

#[test]
fn lists_are_no_sections() {
    for set in ["problem.rhs=[\"random\", 3]", "solver.multigrid=[3]"] {
        says(&with(""), &[set], &["must be a section, not a list"]);
    }
    let sides = message(&with(""), &["diffusion.boundary=[\"neumann\"]"]);
    assert_all_in(&sides, &["diffusion.boundary must be a section of sides, or", "not a list"]);
    says(&with("sources = [[1, 2, 3, 4.0]]"), &[], &["x.toml:8:12", "diffusion.sources[0]", "not a list"]);
    says(&with("sources = [1, 2]"), &[], &["diffusion.sources[0]", "i = 0", "not the whole number 1"]);
    says(&with("sources = { i = 1 }"), &[], &["diffusion.sources must be a list, not a section"]);
}

#[test]
fn entries_of_sources_and_wells_are_named() {
    let good = "{ i = 1, j = 1, rate = 1.0 }";
    for (entry, parts) in [
        ("{ i = 1, rate = 1.0 }", &["diffusion.sources[1] needs the key \"j\""][..]),
        ("{ i = 1, j = 1 }", &["diffusion.sources[1] needs the key \"rate\""]),
        (
            "{ i = 1, j = \"a\", rate = 1.0 }",
            &["diffusion.sources[1].j must be a whole number, 0 or more, not the string \"a\""],
        ),
        (
            "{ i = -1, j = 1, rate = 1.0 }",
            &["diffusion.sources[1].i must be a whole number, 0 or more, not the whole number -1"],
        ),
        ("{ i = 1, j = 1, k = 2.5, rate = 1.0 }", &["diffusion.sources[1].k must be a layer", "not the number 2.5"]),
        (
            "{ i = 1, j = 1, k = -1, rate = 1.0 }",
            &["diffusion.sources[1].k must be a layer", "not the whole number -1"],
        ),
        (
            "{ i = 1, j = 1, k = [5, 2], rate = 1.0 }",
            &["diffusion.sources[1].k: the range [5, 2] is reversed; write [2, 5]"],
        ),
        (
            "{ i = 1, j = 1, rat = 1.0 }",
            &[
                "unknown key \"rat\" in diffusion.sources[1]; did you mean \"rate\"?",
                "keys of diffusion.sources[1]: i, j, k, rate",
            ],
        ),
    ] {
        says(&with(&format!("sources = [{good}, {entry}]")), &[], parts);
        says(&with(&format!("sources = [{good}, {entry}]")), &[], &["cases/x.toml:8:"]);
    }
    says(&with("wells = [{ i = 1, j = 1, value = 1.0 }]"), &[], &["diffusion.wells[0] needs the key \"radius\""]);
}

#[test]
fn choices_say_which_forms_there_are() {
    let stripes = |value: &str| message(MINIMAL, &[&format!("solver.deflation.stripes={value}")]);
    for value in ["{}", "{ blocks = [1, 1, 1], bodies = 1 }", "[1, 1, 1]", "3"] {
        assert_all_in(
            &stripes(value),
            &[
                "solver.deflation.stripes must be \"half-rows\", \"bodies\", \"large-bodies\", or",
                "{ blocks = [4, 4, 1] }",
            ],
        );
    }
    assert_all_in(&stripes("blocks"), &["solver.deflation.stripes = \"blocks\" needs a value, { blocks = … }"]);
    assert_all_in(&stripes("{ bodies = [] }"), &["\"bodies\" takes no value"]);
    assert_all_in(&stripes("{ block = [1, 1, 1] }"), &["\"block\" is not a known choice; did you mean \"blocks\"?"]);
    assert_all_in(&stripes("{ blocks = 3 }"), &["stripes.blocks must be a list of 3, not the whole number 3"]);
    says(
        MINIMAL,
        &["solver.multigrid.smoother=points"],
        &[
            "solver.multigrid.smoother = \"points\" is not a known choice",
            "available: auto, line-jacobi, line-red-black, chebyshev, point-line, point-red-black",
        ],
    );
    says(MINIMAL, &["solver.modes.count=all"], &["solver.modes.count", "a whole number, 1 or more, or \"auto\""]);
    says(MINIMAL, &["solver.modes.sweeps=0"], &["solver.modes.sweeps", "0 sweeps"]);
    says(
        MINIMAL,
        &["solver.method=3"],
        &[
            "solver.method must be one of \"auto\", \"direct\", \"multigrid\", \"modes\", \"jacobi\", \"cg\"",
            "not the whole number 3",
        ],
    );
    for value in ["true", "open", "[1]"] {
        let message = message(&with(""), &[&format!("diffusion.boundary.east={value}")]);
        assert_all_in(
            &message,
            &["diffusion.boundary.east must be \"neumann\" (no flow)", "{ dirichlet = VALUE }", ", not "],
        );
    }
    let side = |value: &str| message(&with(""), &[&format!("diffusion.boundary.east={value}")]);
    assert_all_in(&side("{ dirichlet = 1, neumann = 2 }"), &["2 conditions; give exactly one, such as"]);
    assert_all_in(&side("{}"), &["diffusion.boundary.east: 0 conditions; give exactly one, such as"]);
    assert_all_in(
        &side("{ dirichlet = \"a\" }"),
        &["diffusion.boundary.east.dirichlet must be a number, or a table", "not the string \"a\""],
    );
    assert_all_in(
        &side("{ newton = 1 }"),
        &["unknown key \"newton\" in [diffusion.boundary.east]", "neumann, dirichlet, robin"],
    );
    assert_all_in(&side("{ robin = 1 }"), &["diffusion.boundary.east.robin must be a section"]);
    assert_all_in(
        &side("{ robin = { value = 1 } }"),
        &["[diffusion.boundary.east.robin] needs the key \"coefficient\""],
    );
    let negative = side("{ robin = { coefficient = -3.5, value = 1 } }");
    assert_all_in(&negative, &["diffusion.boundary.east: the coefficient -3.5 is negative; use 0 or more"]);
    assert_all_in(
        &side("{ neumann = { noise = { sigma = 1 } } }"),
        &["diffusion.boundary.east: neumann: give a number or"],
    );
    assert_all_in(&side("{ file = \"\" }"), &["an empty path"]);
    let half = message(&with(""), &["diffusion.boundary.x=periodic", "diffusion.boundary.east=1"]);
    assert_all_in(&half, &["diffusion.boundary.x: \"periodic\", but diffusion.boundary.east is not"]);
}

#[test]
fn dates_are_dates() {
    for (set, parts) in [
        ("grid.nx=1979-05-27", "grid.nx must be a whole number, 1 or more, not the date 1979-05-27"),
        ("grid.depth=07:32:00", "grid.depth must be a number, not the time 07:32:00"),
        (
            "problem.kind=1979-05-27T07:32:00Z",
            "problem.kind must be a string in quotes, not the date 1979-05-27T07:32:00Z",
        ),
        ("solver=1979-05-27", "solver must be a section, [solver], not the date"),
        ("solver.method=1979-05-27", "not the date 1979-05-27"),
    ] {
        says(MINIMAL, &[set], &[parts]);
    }
    says(
        &with("coefficient = 1979-05-27"),
        &[],
        &["diffusion.coefficient must be a number, or a table such as", "not the date"],
    );
}

#[test]
fn numbers_are_short() {
    for (set, parts) in [
        ("solver.tolerance=1e308", &["solver.tolerance: 1e308 is not between 0 and 1"][..]),
        ("solver.multigrid.relaxation=1e308", &["solver.multigrid.relaxation: 1e308 is not"]),
        ("grid.depth=1e308", &["grid.depth: 1e308 m"]),
        ("grid.depth=1e-308", &["grid.depth: 1e-308 m"]),
        ("problem.courant=-1e300", &["problem.courant: -1e300 is out of range"]),
        ("grid.nx=1e308", &["not the number 1e308"]),
    ] {
        let message = message(MINIMAL, &[set]);
        assert_all_in(&message, parts);
        assert!(message.len() < 300, "{message}");
    }
    for line in ["coefficient = -1e308", "coefficient = 1e308", "coefficient = 1e-300", "reaction = 1e100"] {
        let message = message(&with(line), &[]);
        assert_all_in(&message, &["cases/x.toml:8:", "diffusion.", line.rsplit(' ').next().unwrap(), "use 0 or"]);
        assert!(message.len() < 300, "{message}");
    }
}

#[test]
fn cells_are_neither_tiny_nor_huge() {
    for (set, parts) in [
        (
            "grid.spacing=[1e-200, 1, 1]",
            &["grid.spacing: cell 0 in x has the width 1e-200; use a positive number, 1e-30 to 1e30"][..],
        ),
        ("grid.spacing=[1, 1e200, 1]", &["cell 0 in y has the width 1e200"]),
        ("grid.spacing=[1, 1, [1, 1, 0, 1]]", &["cell 2 in z has the width 0"]),
        ("grid.size=[1e-200, 1, 1]", &["grid.size: 1e-200 in x makes 8 cells 1.250e-201 wide"]),
        ("grid.size=[-1, 1, 1]", &["grid.size: -1 in x"]),
    ] {
        says(&with(""), &[set], parts);
    }
}

#[test]
fn the_terminal_is_not_commanded() {
    for set in ["grid.nx=\u{1b}[31mred", "grid.\u{1b}[31mnx=3", "\u{1b}]0;title\u{7}=1", "grid.nx=a\nb\r"] {
        let message = message(MINIMAL, &[set]);
        assert!(!message.contains(|c: char| c.is_control() && c != '\n'), "{message:?}");
        assert!(
            message.starts_with("--set ") && message.contains("\\u{") || message.contains("a\\nb\\r: "),
            "{message:?}"
        );
    }
    let long = format!("grid.nx={}", "9".repeat(10_000));
    assert!(message(MINIMAL, &[&long]).len() < 1000);
    says("\u{1b}[31m = 3", &[], &["x.toml:1:"]);
    says("[\"\\u001b[31m\"]", &[], &["\\u{1b}[31m"]);
}

#[test]
fn the_first_lines_of_a_case_are_shown() {
    says("", &[], &["  [problem]\n  kind = \"helmholtz\"  # or \"poisson\", \"diffusion\""]);
}

#[test]
fn images_have_values_and_labels_are_whole_numbers() {
    let of = |values: &str| message(&with(&format!("coefficient = {values}")), &[]);
    let both = "image and values must be given together";
    assert_all_in(&of("{ image = \"a.tif\" }"), &["x.toml:8", both, "values = { 0 = 0.0, 255 = 1.0 }"]);
    assert_all_in(&of("{ values = { 0 = 1.0 } }"), &[both]);
    let labels = |values: &str| of(&format!("{{ image = \"a.tif\", values = {values} }}"));
    assert_all_in(&labels("{ pore = 1.0 }"), &["\"pore\" is not a label of an image; use whole numbers"]);
    assert_all_in(&labels("{ 0 = \"a\" }"), &["must be a number"]);
    assert_all_in(&labels("{}"), &["diffusion.coefficient", "a table without labels"]);
    assert_all_in(&labels("{ 0 = 0.0, 7 = -1.0 }"), &["diffusion.coefficient", "-1 for label 7; it must be finite"]);
    assert_all_in(&labels("{ 0 = nan }"), &["diffusion.coefficient.values.0 = nan is not a finite number"]);
    let active = message(&with("active = { image = \"a.tif\", values = { 1 = 1.0 } }"), &[]);
    assert_all_in(&active, &["diffusion.active", "give a number or { file ="]);
}

#[test]
fn fluxes_are_those_of_cells() {
    let output = |line: &str| with(&format!("{line}\n[output]\nflux = \"q.zarr\""));
    let case = parse(&output(""), &[]).unwrap();
    assert_eq!(case.output.flux.as_deref(), Some(Path::new("cases/q.zarr")));
    says(&output("unknowns = \"points\""), &[], &["output.flux", "set diffusion.unknowns = \"cells\""]);
    says(&output(""), &["output.flux=q.npy"], &["--set output.flux=q.npy", "use a name that ends in .zarr"]);
    let others = format!("{MINIMAL}[output]\nflux = \"q.zarr\"\n");
    says(&others, &[], &["fluxes are computed for problem.kind = \"diffusion\" only, not \"helmholtz\""]);
    says(&output(""), &["output.flx=1"], &["unknown key \"flx\" in [output]", "did you mean \"flux\"?"]);
}
