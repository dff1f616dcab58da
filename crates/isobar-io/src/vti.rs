//! VTK ImageData in XML (`.vti`), which ParaView opens.
//!
//! ImageData is uniform, and a grid's layers need not be, nor does a panel in [−1, 1]² under 50 km
//! of height look like anything: such cells are placed by their index, with spacing 1, and only those of a
//! uniform box where they are. Where all really are goes along as field data `x`, `y`, `z` (cell centres) and
//! `z_faces` (boundaries of layers).
//! The values follow the XML as raw binary, each block after its length in bytes:
//! <https://docs.vtk.org/en/latest/vtk_file_formats/vtkxml_file_format.html>.

use std::io::{self, Write};

use crate::field::{Field, Units};
use crate::npy::write_f64;

/// How to read the coordinates.
fn note(field: &Field<'_>) -> String {
    let place = if field.mesh.spacing.is_some() {
        "Cells are where they are, in the units of the case."
    } else {
        "Cells are placed by index (spacing 1)."
    };
    let units = match field.mesh.units {
        Units::Atmosphere => "; z and z_faces are in m",
        Units::Unspecified => "",
    };
    format!("{place} Field data x, y, z are the true cell centres, z_faces the heights between the layers{units}.")
}

/// Writes a field as cell data.
pub(crate) fn write(out: &mut dyn Write, field: &Field<'_>) -> io::Result<()> {
    let [nz, ny, nx] = field.shape;
    let extent = format!("0 {nx} 0 {ny} 0 {nz}");
    let name = escape(field.name);
    let [x, y, z] = &field.mesh.centres;
    let coordinates = [("x", x), ("y", y), ("z", z), ("z_faces", &field.mesh.faces[2])];
    let [dx, dy, dz] = field.mesh.spacing.unwrap_or([1.0; 3]);
    writeln!(out, "<?xml version=\"1.0\"?>")?;
    writeln!(out, "<VTKFile type=\"ImageData\" version=\"1.0\" byte_order=\"LittleEndian\" header_type=\"UInt64\">")?;
    writeln!(out, "<ImageData WholeExtent=\"{extent}\" Origin=\"0 0 0\" Spacing=\"{dx} {dy} {dz}\">\n<FieldData>")?;
    let mut offset = 0;
    for (name, values) in coordinates {
        let tuples = values.len();
        writeln!(
            out,
            "<DataArray type=\"Float64\" Name=\"{name}\" NumberOfTuples=\"{tuples}\" format=\"appended\" offset=\"{offset}\"/>"
        )?;
        offset += 8 + size_of_val(values.as_slice());
    }
    write_text(out, "note", &note(field))?;
    for (key, value) in &field.attributes {
        write_text(out, key, value)?;
    }
    writeln!(out, "</FieldData>\n<Piece Extent=\"{extent}\">\n<PointData/>\n<CellData Scalars=\"{name}\">")?;
    writeln!(out, "<DataArray type=\"Float64\" Name=\"{name}\" format=\"appended\" offset=\"{offset}\"/>")?;
    write!(out, "</CellData>\n</Piece>\n</ImageData>\n<AppendedData encoding=\"raw\">\n_")?;
    for (_, values) in coordinates {
        write_block(out, values)?;
    }
    // x runs fastest in both orders, (z, y, x) in C and VTK's.
    write_block(out, field.values)?;
    writeln!(out, "\n</AppendedData>\n</VTKFile>")
}

fn write_block(out: &mut dyn Write, values: &[f64]) -> io::Result<()> {
    out.write_all(&(size_of_val(values) as u64).to_le_bytes())?;
    write_f64(out, values)
}

/// A string is its bytes as numbers, ended by a zero.
fn write_text(out: &mut dyn Write, name: &str, text: &str) -> io::Result<()> {
    let name = escape(name);
    write!(out, "<DataArray type=\"String\" Name=\"{name}\" NumberOfTuples=\"1\" format=\"ascii\">")?;
    for byte in text.bytes().filter(|&byte| byte != 0) {
        write!(out, "{byte} ")?;
    }
    writeln!(out, "0</DataArray>")
}

/// Text as the value of an XML attribute. Control characters, which XML cannot hold, become spaces.
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

    #[test]
    fn every_offset_points_at_a_block_of_its_length() {
        let mesh = Mesh {
            centres: [vec![0.1, 0.2, 0.3], vec![0.4, 0.5], vec![7.0]],
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
        write(&mut bytes, &field).unwrap();
        let mark = b"encoding=\"raw\">\n_";
        let start = bytes.windows(mark.len()).position(|w| w == mark).unwrap();
        let xml = String::from_utf8(bytes[..start].to_vec()).unwrap();
        let data = &bytes[start + mark.len()..];
        assert!(xml.contains("WholeExtent=\"0 3 0 2 0 1\""), "{xml}");
        assert!(xml.contains("Spacing=\"0.1 0.1 14\""), "{xml}");
        assert!(xml.contains("Name=\"u &lt;1&gt;\""), "{xml}");
        assert!(xml.contains("Name=\"case &quot;a&quot;\""), "{xml}");
        let offsets =
            xml.split("offset=\"").skip(1).map(|rest| rest.split('"').next().unwrap().parse::<usize>().unwrap());
        let [x, y, z] = &mesh.centres;
        let arrays = [x, y, z, &mesh.faces[2], field.values];
        assert_eq!(offsets.clone().count(), arrays.len());
        for (offset, array) in offsets.zip(arrays) {
            let (length, rest) = data[offset..].split_first_chunk().unwrap();
            let length = u64::from_le_bytes(*length) as usize;
            let values: Vec<f64> = rest[..length].as_chunks().0.iter().map(|&b| f64::from_le_bytes(b)).collect();
            assert_eq!(values, array);
        }
        assert!(data.ends_with(b"\n</AppendedData>\n</VTKFile>\n"));
    }
}
