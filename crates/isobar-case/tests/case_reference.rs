//! The site's page of keys (`docs/site/case-file.md`) must list exactly the keys that the reader accepts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use isobar_case::{Case, Override};

/// The smallest case of each kind.
const CASES: [&str; 3] = [
    "problem.kind = \"helmholtz\"\n",
    "problem.kind = \"diffusion\"\n",
    "problem.kind = \"heat\"\nheat.dt = 0.1\nheat.end_time = 1.0\n",
];

/// Returns the rows of the page's tables of keys, by key.
fn rows(page: &str) -> BTreeMap<&str, &str> {
    page.lines()
        .filter_map(|line| {
            let key = line.strip_prefix("| `")?.split('`').next()?;
            (key.contains('.') && !key.contains(' ') && key.parse::<f64>().is_err()).then_some((key, line))
        })
        .collect()
}

/// Returns the names after `label` in the error caused by an override.
fn listed(case: &str, change: &str, label: &str) -> Option<Vec<String>> {
    let message = Case::parse(Path::new("case.toml"), case, &[Override::from(change)]).err()?.to_string();
    let line = message.lines().find_map(|line| line.trim().strip_prefix(label))?;
    Some(line.split(", ").map(str::to_owned).collect())
}

/// Collects every key below a section that the reader names, down to those with a row on the page.
fn collect(case: &str, section: &str, page: &str, found: &mut BTreeSet<String>) {
    let Some(keys) = listed(case, &format!("{section}.no_such_key=1"), &format!("keys of [{section}]: ")) else {
        // A key, or a section that this kind lacks.
        if section.contains('.') {
            found.insert(section.to_owned());
        }
        return;
    };
    if rows(page).contains_key(section) {
        // A value with several forms.
        for key in keys {
            let forms = [format!("{{ {key} = "), format!(", {key} = ")];
            assert!(
                forms.iter().any(|form| page.contains(form)),
                "{section} takes {{ {key} = … }}, which the page does not show"
            );
        }
        found.insert(section.to_owned());
        return;
    }
    for key in keys {
        collect(case, &format!("{section}.{key}"), page, found);
    }
}

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/site/case-file.md");
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn every_key_is_on_the_page_and_no_other() {
    let page = page();
    let mut found = BTreeSet::new();
    for case in CASES {
        for section in ["problem", "grid", "diffusion", "faces", "heat", "solver", "output"] {
            collect(case, section, &page, &mut found);
        }
    }
    let documented: BTreeSet<String> = rows(&page).into_keys().map(str::to_owned).collect();
    assert!(found.len() > 50, "{found:?}");
    let difference: Vec<_> = found.symmetric_difference(&documented).collect();
    assert!(difference.is_empty(), "read or documented, but not both: {difference:?}");
}

#[test]
fn every_choice_is_on_the_page() {
    let page = page();
    let mut count = 0;
    for (key, row) in rows(&page) {
        for case in CASES {
            for choice in listed(case, &format!("{key}=\"no such choice\""), "available: ").unwrap_or_default() {
                let forms = [format!("\"{choice}\""), format!("{{ {choice} = ")];
                assert!(forms.iter().any(|form| row.contains(form)), "{key} = \"{choice}\" is not on the page");
                count += 1;
            }
        }
    }
    assert!(count > 50, "{count} choices");
}
