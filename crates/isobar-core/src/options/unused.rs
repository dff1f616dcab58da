//! Parts of the options that a solver does not use.

use super::{JacobiOptions, ModesOptions, MultigridOptions, Preconditioner, SolverOptions, Start};

impl SolverOptions {
    /// Returns notes about sections that differ from their defaults although a solver with this method and this preconditioner, by their names in
    /// its description, does not use them. Notes about the preconditioner and deflation are in the description itself.
    ///
    /// ```
    /// # use isobar_core::options::{JacobiOptions, SolverOptions};
    /// let jacobi = JacobiOptions { relaxation: Some(0.9), ..JacobiOptions::default() };
    /// let options = SolverOptions { jacobi, ..SolverOptions::default() };
    /// assert_eq!(options.unused_parts("multigrid", "none"), ["solver.jacobi is not used by the method \"multigrid\""]);
    /// assert!(options.unused_parts("jacobi", "none").is_empty());
    /// ```
    pub fn unused_parts(&self, method: &str, preconditioner: &str) -> Vec<String> {
        let is_either = |name: &str| method == name || preconditioner == name;
        let is_krylov = ["cg", "deflated-cg", "bicgstab"].contains(&method);
        // A preconditioner that is left open may be replaced by multigrid.
        let may_have_cycles = is_krylov && self.preconditioner == Preconditioner::Auto;
        let has_cycles = is_either("multigrid") || is_either("modes") || may_have_cycles;
        let parts = [
            ("multigrid", self.multigrid != MultigridOptions::default() && !has_cycles),
            ("multigrid.start", self.multigrid.start != Start::Zero && is_krylov && has_cycles),
            ("modes", self.modes != ModesOptions::default() && !is_either("modes")),
            ("jacobi", self.jacobi != JacobiOptions::default() && method != "jacobi"),
        ];
        let by = match preconditioner {
            preconditioner if is_krylov && preconditioner != "none" => {
                format!("the method {method:?} with the preconditioner {preconditioner:?}")
            }
            _ => format!("the method {method:?}"),
        };
        let notes = parts.into_iter().filter(|(_, is_unused)| *is_unused);
        notes.map(|(part, _)| format!("solver.{part} is not used by {by}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_other_methods_are_noted() {
        let all = r#"{"multigrid": {"pre": 2}, "modes": {"sweeps": 3}, "jacobi": {"relaxation": 0.5}}"#;
        let options: SolverOptions = serde_json::from_str(all).unwrap();
        let unused = |preconditioner, method: &str, used: &str| {
            let options = SolverOptions { preconditioner, ..options.clone() };
            let notes = options.unused_parts(method, used);
            let parts =
                notes.iter().map(|note| note.split_once(" is not used by ").unwrap().0["solver.".len()..].to_owned());
            parts.collect::<Vec<_>>().join(" ")
        };
        let (open, line) = (Preconditioner::Auto, Preconditioner::Line);
        assert_eq!(unused(open, "direct", "none"), "multigrid modes jacobi");
        assert_eq!(unused(open, "multigrid", "none"), "modes jacobi");
        assert_eq!(unused(open, "modes", "none"), "jacobi");
        assert_eq!(unused(open, "jacobi", "none"), "multigrid modes");
        assert_eq!(unused(line, "cg", "line"), "multigrid modes jacobi");
        assert_eq!(unused(open, "cg", "mic"), "modes jacobi");
        assert_eq!(unused(Preconditioner::Multigrid, "deflated-cg", "multigrid"), "modes jacobi");
        assert_eq!(unused(Preconditioner::Modes, "bicgstab", "modes"), "jacobi");
        let notes = options.unused_parts("bicgstab", "line");
        assert_eq!(notes[0], "solver.modes is not used by the method \"bicgstab\" with the preconditioner \"line\"");
        let full: SolverOptions = serde_json::from_str(r#"{"multigrid": {"start": "full"}}"#).unwrap();
        assert!(full.unused_parts("multigrid", "none").is_empty());
        assert!(full.unused_parts("cg", "multigrid")[0].starts_with("solver.multigrid.start is not used by"));
        assert!(SolverOptions::default().unused_parts("direct", "none").is_empty());
    }
}
