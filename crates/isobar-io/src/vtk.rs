//! VTK's ImageData (`.vti`) and RectilinearGrid (`.vtr`) in XML, which ParaView opens.
//!
//! A RectilinearGrid holds the boundaries of cells along each axis. ImageData is uniform: evenly spaced cells are written with their
//! spacing. Atmospheric cells are placed by index, with spacing 1, because a panel in [−1, 1]² under 50 km of height could not be seen
//! otherwise. Other grids are an error. Cell positions are written as field data `x`, `y`, `z` (centres) and `z_faces` (boundaries of layers).
//! The values follow the XML as raw binary, each block preceded by its length in bytes:
//! <https://docs.vtk.org/en/latest/vtk_file_formats/vtkxml_file_format.html>.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;

use crate::field::{Field, Format, Mesh, Units};
use crate::npy::write_f64;

/// Returns a note on the coordinates.
fn note(field: &Field<'_>, format: Format) -> String {
    let place = if field.mesh.spacing.is_some() || format == Format::Vtr {
        "Cells are at their true positions, in the units of the case."
    } else {
        "Cells are placed by index (spacing 1)."
    };
    let units = match field.mesh.units {
        Units::Atmosphere => "; z and z_faces are in m",
        Units::Unspecified => "",
    };
    format!("{place} Field data x, y, z are the true cell centres, z_faces the boundaries of the layers{units}.")
}

/// Returns the start of a file, which depends on its grid alone, and the name of its kind.
fn start([nz, ny, nx]: [usize; 3], mesh: &Mesh, format: Format) -> (String, &'static str) {
    let (kind, place) = match (format, mesh.spacing) {
        (Format::Vtr, _) => ("RectilinearGrid", String::new()),
        (_, None) => ("ImageData", " Origin=\"0 0 0\" Spacing=\"1 1 1\"".to_owned()),
        (_, Some([dx, dy, dz])) => {
            let [x, y, z] = [0, 1, 2].map(|d| mesh.edges(d).first().copied().unwrap_or_default());
            ("ImageData", format!(" Origin=\"{x} {y} {z}\" Spacing=\"{dx} {dy} {dz}\""))
        }
    };
    let text = format!(
        "<?xml version=\"1.0\"?>\n\
         <VTKFile type=\"{kind}\" version=\"1.0\" byte_order=\"LittleEndian\" header_type=\"UInt64\">\n\
         <{kind} WholeExtent=\"0 {nx} 0 {ny} 0 {nz}\"{place}>\n"
    );
    (text, kind)
}

/// Returns the names and values of the arrays that give the positions of cells.
fn coordinates(mesh: &Mesh) -> [(&'static str, &[f64]); 4] {
    let [x, y, z] = &mesh.centres;
    [("x", x), ("y", y), ("z", z), ("z_faces", &mesh.faces[2])]
}

/// The end of the XML, before the raw arrays.
const APPENDED: &str = "<AppendedData encoding=\"raw\">\n_";

/// Returns whether a file that isobar wrote holds a field on this grid; false for another program's file.
pub(crate) fn is_on(path: &Path, format: Format, shape: [usize; 3], mesh: &Mesh) -> io::Result<bool> {
    let mut file = BufReader::new(File::open(path)?);
    let ((start, _), mut begin) = (start(shape, mesh, format), Vec::new());
    file.by_ref().take(start.len() as u64).read_to_end(&mut begin)?;
    if begin != start.as_bytes() {
        return Ok(false);
    }
    // The names of the solver and the case follow, a line each.
    let (last, mut line) = (APPENDED.lines().next().unwrap_or_default(), Vec::new());
    while line.trim_ascii_end() != last.as_bytes() {
        line.clear();
        if file.read_until(b'\n', &mut line)? == 0 {
            return Ok(false);
        }
    }
    let mut expected = b"_".to_vec();
    coordinates(mesh).iter().try_for_each(|(_, values)| write_block(&mut expected, values))?;
    let mut found = vec![0; expected.len()];
    Ok(file.read_exact(&mut found).is_ok() && found == expected)
}

/// Writes a field as cell data of a RectilinearGrid ([`Format::Vtr`]) or of ImageData.
pub(crate) fn write(out: &mut dyn Write, field: &Field<'_>, format: Format) -> io::Result<()> {
    let [nz, ny, nx] = field.shape;
    let extent = format!("0 {nx} 0 {ny} 0 {nz}");
    let name = escape(field.name);
    let coordinates = coordinates(field.mesh);
    let edges = [0, 1, 2].map(|d| field.mesh.edges(d));
    let (start, kind) = start(field.shape, field.mesh, format);
    writeln!(out, "{start}<FieldData>")?;
    let mut offset = 0;
    let mut write_array = |out: &mut dyn Write, name: &str, values: &[f64]| {
        let (tuples, start) = (values.len(), offset);
        offset += 8 + size_of_val(values);
        writeln!(
            out,
            "<DataArray type=\"Float64\" Name=\"{name}\" NumberOfTuples=\"{tuples}\" format=\"appended\" offset=\"{start}\"/>"
        )
    };
    for (name, values) in coordinates {
        write_array(out, name, values)?;
    }
    write_text(out, "note", &note(field, format))?;
    for (key, value) in &field.attributes {
        write_text(out, key, value)?;
    }
    writeln!(out, "</FieldData>\n<Piece Extent=\"{extent}\">\n<PointData/>\n<CellData Scalars=\"{name}\">")?;
    write_array(out, &name, field.values)?;
    writeln!(out, "</CellData>")?;
    if format == Format::Vtr {
        writeln!(out, "<Coordinates>")?;
        for (name, edges) in ["x_faces", "y_faces", "z_faces"].into_iter().zip(&edges) {
            write_array(out, name, edges)?;
        }
        writeln!(out, "</Coordinates>")?;
    }
    write!(out, "</Piece>\n</{kind}>\n{APPENDED}")?;
    for (_, values) in coordinates {
        write_block(out, values)?;
    }
    // x runs fastest in both orders, (z, y, x) in C and VTK's.
    write_block(out, field.values)?;
    if format == Format::Vtr {
        edges.iter().try_for_each(|edges| write_block(out, edges))?;
    }
    writeln!(out, "\n</AppendedData>\n</VTKFile>")
}

fn write_block(out: &mut dyn Write, values: &[f64]) -> io::Result<()> {
    out.write_all(&(size_of_val(values) as u64).to_le_bytes())?;
    write_f64(out, values)
}

/// Writes a string as the numbers of its bytes, ended by a zero.
fn write_text(out: &mut dyn Write, name: &str, text: &str) -> io::Result<()> {
    let name = escape(name);
    write!(out, "<DataArray type=\"String\" Name=\"{name}\" NumberOfTuples=\"1\" format=\"ascii\">")?;
    for byte in text.bytes().filter(|&byte| byte != 0) {
        write!(out, "{byte} ")?;
    }
    writeln!(out, "0</DataArray>")
}

/// Escapes text for an XML attribute. Control characters, which XML cannot hold, become spaces.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            control if control.is_control() => escaped.push(' '),
            plain => escaped.push(plain),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::field::Mesh;

    /// Returns the head, and the arrays that it names in the order of their offsets.
    fn read(bytes: &[u8]) -> (String, Vec<Vec<f64>>) {
        let mark = b"encoding=\"raw\">\n_";
        let start = bytes.windows(mark.len()).position(|w| w == mark).unwrap();
        let xml = String::from_utf8(bytes[..start].to_vec()).unwrap();
        let data = &bytes[start + mark.len()..];
        assert!(data.ends_with(b"\n</AppendedData>\n</VTKFile>\n"));
        let offsets =
            xml.split("offset=\"").skip(1).map(|rest| rest.split('"').next().unwrap().parse::<usize>().unwrap());
        let array = |offset: usize| {
            let (length, rest) = data[offset..].split_first_chunk().unwrap();
            let length = u64::from_le_bytes(*length) as usize;
            rest[..length].as_chunks().0.iter().map(|&b| f64::from_le_bytes(b)).collect()
        };
        let arrays = offsets.map(array).collect();
        (xml, arrays)
    }

    #[test]
    fn every_offset_points_at_a_block_of_its_length() {
        let mesh = Mesh {
            centres: [vec![0.15, 0.25, 0.35], vec![0.4, 0.5], vec![7.0]],
            faces: [vec![], vec![], vec![0.0, 14.0]],
            spacing: Some([0.1, 0.1, 14.0]),
            units: Units::Unspecified,
        };
        let field = Field {
            name: "u <1>",
            values: &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
            shape: [1, 2, 3],
            mesh: &mesh,
            active: None,
            attributes: BTreeMap::from([("case \"a\"".into(), "ν = 8.4".into())]),
        };
        let mut bytes = Vec::new();
        write(&mut bytes, &field, Format::Vti).unwrap();
        let (xml, arrays) = read(&bytes);
        assert!(xml.contains("WholeExtent=\"0 3 0 2 0 1\""), "{xml}");
        assert!(xml.contains("Spacing=\"0.1 0.1 14\""), "{xml}");
        let origin = xml.split("Origin=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
        let origin: Vec<f64> = origin.split(' ').map(|number| number.parse().unwrap()).collect();
        assert!(origin.iter().zip([0.1, 0.35, 0.0]).all(|(found, wanted)| (found - wanted).abs() < 1e-15), "{xml}");
        assert!(xml.contains("Name=\"u &lt;1&gt;\""), "{xml}");
        assert!(xml.contains("Name=\"case &quot;a&quot;\""), "{xml}");
        let [x, y, z] = mesh.centres.clone();
        assert_eq!(arrays, [x, y, z, mesh.faces[2].clone(), field.values.to_vec()]);
    }

    #[test]
    fn a_graded_grid_is_rectilinear() {
        let mesh = Mesh {
            centres: [vec![0.5, 2.0], vec![-1.0, 0.0, 3.0], vec![7.0]],
            faces: [vec![0.0, 1.0, 3.0], vec![], vec![0.0, 14.0]],
            spacing: None,
            units: Units::Unspecified,
        };
        let values = [1.0, 2.0, 3.0, 4.0, 5.0, f64::INFINITY];
        let mut bytes = Vec::new();
        write(&mut bytes, &Field::new("u", &values, [1, 3, 2], &mesh), Format::Vtr).unwrap();
        let (xml, arrays) = read(&bytes);
        assert!(xml.contains("<RectilinearGrid WholeExtent=\"0 2 0 3 0 1\">") && !xml.contains("Spacing"), "{xml}");
        let [x, y, z] = mesh.centres.clone();
        // Only centres are known in y: faces lie half-way between them, the outer ones as far out.
        let edges = [vec![0.0, 1.0, 3.0], vec![-1.5, -0.5, 1.5, 4.5], vec![0.0, 14.0]];
        let [x_faces, y_faces, z_faces] = edges;
        assert_eq!(arrays, [x, y, z, z_faces.clone(), values.to_vec(), x_faces, y_faces, z_faces]);
    }
}
