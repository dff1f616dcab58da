//! Changes of a case's keys from outside its file.

/// A change of one key, such as `solver.tolerance=1e-8`: a dotted key and a TOML value, or a bare word, which is
/// taken as a string. The key need not be in the file; the last of several changes counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// `KEY=VALUE`
    pub(crate) assignment: String,
    /// What messages call it.
    pub(crate) shown: String,
}

impl Override {
    /// `assignment` is `KEY=VALUE`; messages about it begin with `shown`, which is what the user typed, such as
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
