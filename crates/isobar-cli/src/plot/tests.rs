//! Tests of pictures of extreme fields and histories.

use std::collections::BTreeMap;
use std::f64::consts::PI;

use isobar_io::{Mesh, Units};

use super::*;

/// Makes a field of any shape on the unit square under 10 km with graded layers.
fn with_field<T>(shape: [usize; 3], value: impl Fn([f64; 3]) -> f64, then: impl FnOnce(&Field<'_>) -> T) -> T {
    let centres = |n: usize| (0..n).map(|i| (i as f64 + 0.5) / n as f64).collect::<Vec<_>>();
    let [nz, ny, nx] = shape;
    let z_faces: Vec<f64> = (0..=nz).map(|k| 1e4 * (k as f64 / nz as f64).powi(2)).collect();
    let z: Vec<f64> = z_faces.windows(2).map(|pair| (pair[0] + pair[1]) / 2.0).collect();
    let mesh = Mesh {
        centres: [centres(nx), centres(ny), z],
        faces: [Vec::new(), Vec::new(), z_faces],
        spacing: None,
        units: Units::Atmosphere,
    };
    let mut values = Vec::new();
    for z in &mesh.centres[2] {
        for y in &mesh.centres[1] {
            values.extend(mesh.centres[0].iter().map(|&x| value([z / 1e4, *y, x])));
        }
    }
    then(&Field { name: "u", values: &values, shape, mesh: &mesh, active: None, attributes: BTreeMap::new() })
}

fn wave([z, y, x]: [f64; 3]) -> f64 {
    1e-3 * (2.0 * PI * x).sin() * (PI * y).sin() * (1.0 - z)
}

fn pixels(history: &[f64], tolerance: f64, field: &Field<'_>) -> Vec<u8> {
    let input = PlotInput { title: "cases/a.toml: multigrid, f64", history, tolerance, is_converged: true, field };
    as_pixels(input.title, |panels| draw_solution(panels, &input)).unwrap()
}

#[test]
fn writes_a_png_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("u.png");
    check(&path).unwrap();
    with_field([8, 6, 10], wave, |field| {
        let input = PlotInput { title: "", history: &[1.0, 1e-3], tolerance: 1e-2, is_converged: true, field };
        solution(&path, &input).unwrap();
        let missing = folder.path().join("no/such/u.png");
        let error = solution(&missing, &input).unwrap_err().to_string();
        assert!(error.contains("mkdir -p"), "{error}");
    });
    let file = std::io::BufReader::new(std::fs::File::open(&path).unwrap());
    let reader = png::Decoder::new(file).read_info().unwrap();
    assert_eq!((reader.info().width, reader.info().height), SIZE);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn only_a_png_or_an_svg_is_a_plot() {
    let error = check(Path::new("plot.pdf")).unwrap_err().to_string();
    assert!(error.contains("ends in .png or .svg"), "{error}");
}

#[test]
fn an_svg_has_the_words_and_the_maps() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("u.SVG");
    check(&path).unwrap();
    with_field([8, 6, 10], wave, |field| {
        let input =
            PlotInput { title: "a < b & c", history: &[1.0, 0.1, 1e-3], tolerance: 1e-2, is_converged: true, field };
        solution(&path, &input).unwrap();
    });
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"));
    for words in ["a &lt; b &amp; c", ">iteration<", ">relative residual<", "rotate(270 "] {
        assert!(text.contains(words), "{words}");
    }
    // Two maps, each with its key, which decode to what the PNG shows.
    let images: Vec<&str> =
        text.split("base64,").skip(1).map(|rest| rest.split('"').next().unwrap_or_default()).collect();
    assert_eq!(images.len(), 4);
    assert!(images.iter().all(|image| image.starts_with("iVBORw0KGgo") && image.len() % 4 == 0));
    // Every element is closed: none is open at the end, and lines hold one each.
    let lines = text.lines().count();
    let closed = text.lines().filter(|line| line.ends_with("/>") || line.ends_with("</text>")).count();
    assert_eq!(closed, lines - 2);
}

#[test]
fn the_solution_is_in_the_picture() {
    let red = |pixels: &[u8]| pixels.chunks(3).filter(|p| p[0] > 150 && p[2] < 90).count();
    let (sign_changes, constant) = (
        with_field([8, 6, 10], wave, |field| pixels(&[1.0], 1e-5, field)),
        with_field([8, 6, 10], |_| 3.0, |field| pixels(&[1.0], 1e-5, field)),
    );
    assert!(red(&sign_changes) > red(&constant) + 10_000);
}

#[test]
fn every_shape_is_drawn() {
    for shape in [[1, 1, 1], [1, 1, 10], [1, 6, 10], [8, 1, 10], [8, 6, 1], [300, 3, 2000]] {
        with_field(shape, wave, |field| pixels(&[1.0, 0.1], 1e-5, field));
    }
}

#[test]
fn the_plane_with_several_cells_is_drawn() {
    // A map has an image, and one for its key.
    for (shape, names, absent, images) in [
        ([8, 6, 1], &[">y (dimensionless)<", ">height (km)<"][..], ">x (dimensionless)<", 2),
        ([8, 1, 10], &[">x (dimensionless)<", ">height (km)<"], ">y (dimensionless)<", 2),
        ([1, 6, 10], &[">x (dimensionless)<", ">y (dimensionless)<"], ">height (km)<", 2),
        ([1, 6, 1], &[">u along y<", ">y<"], ">x<", 0),
        ([8, 1, 1], &[">u along z<", ">z<"], ">x<", 0),
    ] {
        let both = with_field(shape, wave, |field| {
            let input = PlotInput { title: "", history: &[1.0, 0.1], tolerance: 1e-5, is_converged: true, field };
            let of_steps = StepsPlot { title: "", steps: &[], field };
            [
                as_svg("", |panels| draw_solution(panels, &input)).unwrap(),
                as_svg("", |panels| draw_steps(panels, &of_steps)).unwrap(),
            ]
        });
        for text in both {
            assert!(names.iter().all(|name| text.contains(name)) && !text.contains(absent), "{shape:?}");
            assert_eq!(text.matches("base64,").count(), images, "{shape:?}");
        }
    }
}

#[test]
fn every_value_is_drawn() {
    for value in [0.0, -2.0, 1e300, 1e-300, f64::MAX, f64::NAN, f64::INFINITY] {
        with_field([4, 4, 4], |_| value, |field| pixels(&[1.0, 0.1], 1e-5, field));
        let some = |[_, _, x]: [f64; 3]| if x < 0.5 { value } else { -value };
        with_field([4, 4, 4], some, |field| pixels(&[1.0, 0.1], 1e-5, field));
    }
}

#[test]
fn every_history_is_drawn() {
    let long: Vec<f64> = (0..5000).map(|n| 0.99_f64.powi(n)).collect();
    let histories: [&[f64]; 9] = [
        &[],
        &[1.0],
        &[0.0],
        &[1.0, 0.0],
        &[1.0, f64::NAN, 0.5, f64::INFINITY],
        &[f64::NAN],
        &[1.0, 1e300, f64::MAX],
        &[1e-5, 1e-5],
        &long,
    ];
    with_field([2, 2, 2], wave, |field| {
        for history in histories {
            for tolerance in [1e-5, 0.0, -1.0, f64::NAN, f64::MIN_POSITIVE] {
                pixels(history, tolerance, field);
            }
        }
    });
}

#[test]
fn broken_coordinates_are_counted_instead() {
    with_field([2, 3, 4], wave, |field| {
        let mut mesh = field.mesh.clone();
        mesh.centres[0] = vec![0.0; 4];
        mesh.centres[1] = vec![0.0, f64::NAN, 1.0];
        pixels(&[1.0], 1e-5, &Field { mesh: &mesh, ..field.clone() });
    });
}

/// Checks that the nearest layer and row with active cells are drawn if those in the middle have none, and that the
/// title says so.
#[test]
fn what_is_drawn_has_active_cells() {
    let title = |shape, is_active: fn([usize; 3]) -> bool| {
        with_field(shape, wave, |field| {
            let [nz, ny, nx] = shape;
            let cells = (0..nz * ny * nx).map(|n| [n / (nx * ny), n / nx % ny, n % nx]);
            let active: Vec<bool> = cells.map(is_active).collect();
            let field = Field { active: Some(&active), ..field.clone() };
            let input =
                PlotInput { title: "", history: &[1.0, 0.1], tolerance: 1e-5, is_converged: true, field: &field };
            as_svg("", |panels| draw_solution(panels, &input)).unwrap()
        })
    };
    let all = title([8, 6, 10], |_| true);
    assert!(all.contains("(layer 5 of 8)") && all.contains("(row 4 of 6)"));
    let corner = title([8, 6, 10], |[k, j, _]| k < 2 && j > 4);
    assert!(corner.contains("(layer 2 of 8; the middle is inactive)"));
    assert!(corner.contains("(row 6 of 6; the middle is inactive)"));
    assert!(title([8, 6, 10], |_| false).contains("(layer 5 of 8)"));
    assert!(title([8, 6, 1], |[k, ..]| k == 0).contains(">u<"));
}

#[test]
fn inactive_cells_look_like_no_value() {
    for values in [[0.0, 1.0], [-1.0, 1.0]] {
        let colours = scale::Colours::new(values.into_iter());
        for n in 0..=1000 {
            let colour = colours.colour(colours.low + f64::from(n) / 1000.0 * (colours.high - colours.low));
            let apart = |blank: [u8; 3]| (0..3).map(|c| colour[c].abs_diff(blank[c])).max();
            assert!(apart(slice::BLANK) >= Some(16) && apart(slice::HATCH) >= Some(16), "{colour:?}");
        }
    }
}

#[test]
fn inactive_cells_are_blank() {
    let blank = |pixels: &[u8]| pixels.chunks(3).filter(|p| *p == slice::BLANK).count();
    for shape in [[1, 1, 10], [1, 6, 10], [8, 6, 10]] {
        with_field(shape, wave, |field| {
            assert_eq!(blank(&pixels(&[1.0], 1e-5, field)), 0);
            let active: Vec<bool> = (0..field.values.len()).map(|n| n % 2 == 0).collect();
            let masked = pixels(&[1.0], 1e-5, &Field { active: Some(&active), ..field.clone() });
            assert_eq!(blank(&masked) > 10_000, shape[1] > 1, "{shape:?}");
        });
    }
}
