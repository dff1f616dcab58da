//! `isobar export`

use std::io;
use std::path::Path;

use isobar::Shape;
use isobar::internals::build::Overhead;
use isobar::stencil::matrix_market;
use isobar_case::{Footprint, memory};

use crate::args::ExportArgs;
use crate::{Console, Result, SUCCESS, files};

/// Writes a case's matrix and right-hand side for other packages.
///
/// # Errors
/// The case cannot be assembled, or a file cannot be written.
pub fn run(args: &ExportArgs) -> Result<u8> {
    let case = args.case.load()?;
    let targets = [("--matrix", Some(args.matrix.as_path())), ("--rhs", args.rhs.as_deref())];
    files::check(&targets, &case.inputs())?;
    let shape = case.problem.shape();
    // Seven entries per row, each a value and a column index; vectors grow by half.
    let stored = shape.cells() as f64 * 7.0 * 12.0 * 1.5;
    let footprint = Footprint { solver: stored, ..case.footprint(&Overhead::default())? };
    memory::require(&format!("the stored matrix of a grid of {shape} cells"), footprint.needed())?;
    let assembled = case.problem.assemble()?;
    let matrix = assembled.matrix.to_csr()?;

    let mut console = Console::new(files::summary_stream(&targets), args.quiet);
    write(&args.matrix, "--matrix", |mut out| matrix_market::write_matrix(&mut out, &matrix, ORDER))?;
    let (rows, entries) = (matrix.rows(), matrix.entries());
    let written = match matrix_market::entries_written(&matrix) {
        written if written < entries => format!(", of which the {written} of the lower triangle are in the file"),
        _ => String::new(),
    };
    console.line(format_args!("wrote {}: {rows} rows, {entries} entries{written}; {ORDER}", args.matrix.display()));
    let inactive = assembled.active.iter().flatten().filter(|active| !**active).count();
    if inactive > 0 {
        console.line(format_args!("the rows of {inactive} inactive cells are empty"));
    }
    if let Some(path) = &args.rhs {
        let vector = in_matrix_order(&assembled.rhs, shape)?;
        write(path, "--rhs", |mut out| matrix_market::write_vector(&mut out, &vector, ORDER))?;
        console.line(format_args!("wrote {}: {} entries", path.display(), vector.len()));
    }
    console.finish()?;
    Ok(SUCCESS)
}

/// The order of unknowns, in the summary and in the files.
const ORDER: &str = "unknown (i, j, k) is row 1 + i + nx (k + nz j)";

/// Reorders from (z, y, x) C order to the matrix's order, in which z runs before y.
fn in_matrix_order(values: &[f64], Shape { nx, ny, nz }: Shape) -> Result<Vec<f64>> {
    let row = |k: usize, j: usize| &values[nx * (j + ny * k)..][..nx];
    let ordered = (0..ny).flat_map(|j| (0..nz).flat_map(move |k| row(k, j).iter().copied()));
    Ok(memory::collect("the right-hand side", values.len(), ordered)?)
}

fn write(path: &Path, option: &str, fill: impl FnOnce(&mut dyn io::Write) -> isobar::Result<()>) -> Result<()> {
    files::write_text(option, path, |out| {
        fill(out).map_err(|error| match error {
            isobar::Error::Io(error) => error,
            other => io::Error::other(other),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vertical_runs_before_y() {
        let shape = Shape::new(2, 3, 2);
        let values: Vec<f64> = (0..12).map(f64::from).collect();
        assert_eq!(in_matrix_order(&values, shape).unwrap(), [0., 1., 6., 7., 2., 3., 8., 9., 4., 5., 10., 11.]);
    }
}
