//! What the case file's format knows but this version cannot do yet. Such a case gets an answer that
//! says so, rather than being taken for a misspelling. A name leaves these lists when it works.

/// Sections.
const SECTIONS: [&str; 1] = ["solver.jacobi"];

/// Choices, by key.
const CHOICES: [(&str, &[&str]); 1] = [("solver.method", &["jacobi"])];

pub(crate) fn is_section(path: &str) -> bool {
    SECTIONS.contains(&path)
}

pub(crate) fn is_choice(path: &str, value: &str) -> bool {
    CHOICES.iter().any(|(key, values)| *key == path && values.contains(&value))
}
