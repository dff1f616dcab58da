//! Overrides of keys of a case.

/// An override of one key, such as `solver.tolerance=1e-8`: a dotted key and a TOML value, or an unquoted word, which is
/// taken as a string. The key need not be in the file; the last of several overrides of a key is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// `KEY=VALUE`
    pub(crate) assignment: String,
    /// The override's name in messages.
    pub(crate) shown: String,
}

impl Override {
    /// Makes an override from `assignment`, `KEY=VALUE`. Messages about it begin with `shown`, the text that the user typed, such as
    /// `--precision f32`.
    pub fn new(assignment: impl Into<String>, shown: impl Into<String>) -> Self {
        Self { assignment: assignment.into(), shown: shown.into() }
    }
}

impl From<&str> for Override {
    fn from(assignment: &str) -> Self {
        Self::new(assignment, format!("override {assignment}"))
    }
}

impl From<String> for Override {
    fn from(assignment: String) -> Self {
        Self::from(assignment.as_str())
    }
}
