//! Everything a command is to write is looked at before the work: a run of an hour must not end
//! with "no such folder".

use std::path::Path;

use isobar_io::{Clash, clash};

use crate::failure::{Failure, Result};

/// A file to be written, and the option that asked for it.
pub type Target<'a> = (&'static str, Option<&'a Path>);

/// Checks that every target can be written, and that none would destroy another or an input: by being the same file,
/// whatever the spelling and the links, or by being a store that is replaced with the other one in it.
///
/// # Errors
/// The first target that could not be written, with the remedy.
pub fn check(targets: &[Target<'_>], inputs: &[&Path]) -> Result<()> {
    let wanted: Vec<(&str, &Path)> = targets.iter().filter_map(|&(option, path)| Some((option, path?))).collect();
    for (n, &(option, path)) in wanted.iter().enumerate() {
        let fail =
            |message: &str| Err(Failure::new(format!("{option} {}: {message}; choose another name", path.display())));
        for input in inputs {
            match clash(path, input) {
                Some(Clash::Same) => return fail("would overwrite an input of this run"),
                Some(Clash::Inside) => {
                    return fail(&format!("is replaced as a whole, and {}, an input, lies in it", input.display()));
                }
                None => {}
            }
        }
        for &(other, earlier) in &wanted[..n] {
            match (clash(earlier, path), clash(path, earlier)) {
                (None, None) => {}
                (Some(Clash::Same), _) | (_, Some(Clash::Same)) => {
                    return fail(&format!("{other} writes to the same file"));
                }
                (Some(Clash::Inside), _) => {
                    return fail(&format!("lies in {}, which {other} replaces as a whole", earlier.display()));
                }
                (_, Some(Clash::Inside)) => {
                    return fail(&format!("is replaced as a whole, and {} of {other} lies in it", earlier.display()));
                }
            }
        }
        isobar_io::check_writable(path).map_err(|error| Failure::new(format!("{option} {error}")))?;
    }
    Ok(())
}
