use super::*;
use crate::conformance::direct::SIDES;
use crate::stencil::{Coefficients, Diffusion, KnownShift, Side, Spread, Stencil};
use crate::{DeviceArray, Shape};

/// Makes an axis with these ends, masses and couplings from widths.
fn axis(widths: &[f64], sides: [Side; 2]) -> AxisMatrix {
    let n = widths.len();
    let half = |i: usize| 2.0 / widths[i];
    let couple = |a: f64, b: f64| a * b / (a + b);
    let is_periodic = sides[0] == Side::Periodic && n > 1;
    let couplings =
        (0..n).map(|i| if i + 1 < n || is_periodic { couple(half(i), half((i + 1) % n)) } else { 0.0 }).collect();
    let mut shift = vec![0.0; n];
    shift[0] += if sides[0] == Side::Fixed { half(0) } else { 0.0 };
    shift[n - 1] += if sides[1] == Side::Fixed { half(n - 1) } else { 0.0 };
    AxisMatrix { mass: widths.to_vec(), shift, couplings }
}

fn times(matrix: &AxisMatrix, v: &[f64]) -> Vec<f64> {
    let AxisMatrix { shift, couplings, .. } = matrix;
    let n = v.len();
    (0..n)
        .map(|i| {
            let (above, below) = ((i + 1) % n, (i + n - 1) % n);
            shift[i] * v[i] + couplings[i] * (v[i] - v[above]) + couplings[below] * (v[i] - v[below])
        })
        .collect()
}

#[test]
fn bases_are_eigenvectors_of_their_pencils() {
    for n in [1, 2, 3, 4, 5, 7, 8, 12, 17] {
        for sides in SIDES {
            for stretching in [1.0, 1.7] {
                let widths: Vec<f64> = (0..n).map(|i| 0.3 * f64::powi(stretching, i as i32 % 5)).collect();
                let matrix = axis(&widths, sides);
                let basis = Basis::new(&matrix).unwrap();
                assert_eq!(basis.trig().is_some(), n > 1 && (stretching == 1.0 || n < 1), "{n} {sides:?} {stretching}");
                let vectors = basis.vectors();
                let norm = matrix.couplings.iter().chain(&matrix.shift).fold(1e-300f64, |most, x| most.max(x.abs()));
                for k in 0..n {
                    let v = &vectors[k * n..][..n];
                    let image = times(&matrix, v);
                    for i in 0..n {
                        let wanted = basis.values()[k] * matrix.mass[i] * v[i];
                        assert!((image[i] - wanted).abs() < 1e-12 * norm, "{n} {sides:?} {k}: {} {wanted}", image[i]);
                    }
                    for m in 0..n {
                        let product: f64 = (0..n).map(|i| v[i] * matrix.mass[i] * vectors[m * n + i]).sum();
                        let wanted = if m == k { 1.0 } else { 0.0 };
                        assert!((product - wanted).abs() < 1e-12, "{n} {sides:?}: {k} {m} {product}");
                    }
                    let mirror = |i: usize| match basis.symmetry() {
                        Symmetry::None => None,
                        Symmetry::Reversal => Some(n - 1 - i),
                        Symmetry::Periodic => Some((n - i) % n),
                    };
                    for i in 0..n {
                        let Some(other) = mirror(i) else { continue };
                        let sign = if basis.is_even(k) { 1.0 } else { -1.0 };
                        assert!((v[i] - sign * v[other]).abs() < 1e-11, "{n} {sides:?} {k} {i}");
                    }
                }
            }
        }
    }
}

/// Points a whole cell away from the sides have the sine transform of type I.
#[test]
fn values_a_whole_cell_away_have_a_transform() {
    let n = 6;
    let matrix = AxisMatrix {
        mass: vec![2.0; n],
        shift: (0..n).map(|i| if i == 0 || i == n - 1 { 3.0 } else { 0.0 }).collect(),
        couplings: (0..n).map(|i| if i + 1 < n { 3.0 } else { 0.0 }).collect(),
    };
    let basis = Basis::new(&matrix).unwrap();
    assert_eq!(basis.trig(), Some(Trig::SineOne));
    for k in 0..n {
        let v: Vec<f64> = (0..n).map(|i| basis.entry(k, i)).collect();
        for (image, v) in times(&matrix, &v).iter().zip(&v) {
            assert!((image - basis.values()[k] * 2.0 * v).abs() < 1e-13);
        }
    }
}

#[test]
fn stretched_axes_keep_their_small_eigenvalues() {
    // λ_1 of −u'' between closed sides is (π/L)², for any smallest cell.
    let n = 400;
    let widths: Vec<f64> = (0..n).map(|i| f64::powf(1e6, f64::from(i) / f64::from(n - 1))).collect();
    let length: f64 = widths.iter().sum();
    let basis = Basis::new(&axis(&widths, [Side::Closed; 2])).unwrap();
    let wanted = (std::f64::consts::PI / length).powi(2);
    assert!((basis.values()[1] / wanted - 1.0).abs() < 1e-2, "{:e} {wanted:e}", basis.values()[1]);
    assert_eq!(basis.values()[0], 0.0);
}

#[test]
fn coefficients_of_one_value_need_no_copy_from_a_gpu() {
    let shape = Shape::new(6, 5, 4);
    let sides = [[Side::Fixed; 2], [Side::Periodic; 2], [Side::Closed, Side::Fixed]];
    let (axes, values) = ([(0, 2.0), (0, 0.5), (1, 3.0)], [1.5, 7.0]);
    let made = |coefficients| Diffusion::new(shape, coefficients, None, sides).unwrap();
    let host = made(Coefficients::Cells { fields: values.map(|value| vec![value; 120].into()).into(), axes });
    // SAFETY: the elements are never read.
    let field = unsafe { DeviceArray::c_order::<f64>(0, shape, 0) };
    let device = made(Coefficients::DeviceCells { fields: vec![field; 2], axes, shift: None });
    let of = |spreads: [[f64; 2]; 2]| {
        device.clone().with_spreads(spreads.map(|[least, most]| Spread { least, positive: least, most }).into())
    };
    let known = of(values.map(|value| [value; 2])).unwrap();
    assert_eq!(known.separable().unwrap(), host.separable().unwrap());
    for unknown in [&device, &of([[1.0, 2.0], [3.0, 3.0]]).unwrap()] {
        assert!(!unknown.has_rows() && unknown.chooses_direct().is_none());
        assert!(unknown.separable().unwrap_err().to_string().contains("memory of a GPU"));
    }
    for wrong in [[[-1.0, 1.0], [1.0, 1.0]], [[1.0, 1.0], [f64::NAN, 1.0]], [[1.0, f64::INFINITY], [1.0, 1.0]]] {
        assert!(of(wrong).unwrap_err().to_string().contains("finite and not negative"));
    }
    assert!(device.with_spreads(Vec::new()).is_err());
}

#[test]
fn shifts_that_are_sums_need_no_copy_from_a_gpu() {
    let (shape, one) = (Shape::new(7, 4, 5), [Spread::of_one(2.0)]);
    let sides = [[Side::Periodic; 2], [Side::Closed, Side::Fixed], [Side::Closed; 2]];
    // SAFETY: the elements are never read.
    let field = unsafe { DeviceArray::c_order::<f64>(0, shape, 0) };
    for [films, c] in [[0.0, 0.7], [3.0, 0.7], [3.0, -2.5], [0.0, -2.5]] {
        let films_at = |n: usize, last: usize| if n == 0 || n == last { films } else { 0.0 };
        let x = vec![c; 7];
        let y: Vec<f64> = (0..4).map(|j| films_at(j, 3)).collect();
        let z: Vec<f64> = (0..5).map(|k| 0.5 * films_at(k, 4) - 0.1 * k as f64).collect();
        let shift: Vec<f64> = shape.places().map(|[i, j, k]| x[i] + y[j] + z[k]).collect();
        let negative = shift.iter().position(|&shift| shift < 0.0).map(|n| (shape.place(n), shift[n]));
        let host = Diffusion::of_field(shape, vec![2.0; shape.cells()], [1.0; 3], Some(shift), sides).unwrap();
        let cells = Coefficients::DeviceCells { fields: vec![field], axes: [(0, 1.0); 3], shift: Some(field) };
        let device = Diffusion::new(shape, cells, None, sides).unwrap().with_spreads(one.to_vec()).unwrap();
        assert!(!device.has_rows() && device.chooses_direct().is_none() && device.is_definite());
        let known = |sums| device.clone().with_known_shift(KnownShift { negative, sums });
        let sums = || Some([x.clone(), y.clone(), z.clone()]);
        let (known, unknown) = (known(sums()).unwrap(), known(None).unwrap());
        assert!(known.has_rows() && !unknown.has_rows());
        for known in [&known, &unknown] {
            let [found, expected] = [known, &host].map(|stencil| stencil.check_iterated().map_err(|e| e.to_string()));
            assert_eq!((found, known.is_definite()), (expected, host.is_definite()));
        }
        // On the copies of the odd period too.
        for [found, expected] in
            [[&known, &host], [&*known.around(known.turns()).unwrap(), &*host.around(host.turns()).unwrap()]]
        {
            assert_eq!(found.separable().unwrap(), expected.separable().unwrap());
            assert_eq!(found.chooses_direct(), expected.chooses_direct());
            assert!(found.cells().all(|at| found.shift(at) == expected.shift(at)));
        }
        assert!(device.with_known_shift(KnownShift { negative, sums: Some([x, z, y]) }).is_err());
    }
}

#[test]
fn what_does_not_fit_is_named() {
    let shape = Shape::new(4, 3, 2);
    let with = |fields: Vec<Vec<f64>>, shift: Option<Vec<f64>>| {
        let axes = [0, 1, 2].map(|d| (d.min(fields.len() - 1), 1.0));
        let cells = Coefficients::Cells { fields: fields.into_iter().map(Into::into).collect(), axes };
        Diffusion::new(shape, cells, shift, [[Side::Closed; 2]; 3]).unwrap().separable().map(|found| found.line)
    };
    let of = |field: Vec<f64>, shift| with(vec![field], shift);
    assert_eq!(of(vec![2.0; 24], None).unwrap(), 2);
    // Layers along each axis.
    let layers = |stride: usize, n: usize| (0..24).map(|cell| 1.0 + (cell / stride % n) as f64).collect();
    for (stride, n) in [(1, 4), (4, 3), (12, 2)] {
        // A matrix of one axis: the stretched one.
        let line = [1, 4, 12].iter().position(|&other| other == stride).unwrap();
        assert_eq!(of(layers(stride, n), None).unwrap(), line);
        assert_eq!(of(layers(stride, n), Some(vec![0.5; 24])).unwrap(), line);
        let fields = (0..3).map(|d| if d == (line + 1) % 3 { layers(stride, n) } else { vec![1.0; 24] }).collect();
        assert_eq!(with(fields, Some(vec![0.5; 24])).unwrap(), line);
    }
    let message = of((0..24).map(|n| if n == 6 { 5.0 } else { 1.0 }).collect(), None).unwrap_err().to_string();
    assert!(message.contains("[2, 1, 0]") && message.contains("5.0") && message.contains("auto"), "{message}");
    let message = of((0..24).map(|n| f64::from(u8::from(n % 4 != 2))).collect(), None).unwrap_err().to_string();
    assert!(message.contains("[2, 0, 0]") && message.contains("above 0"), "{message}");
    let well = (0..24).map(|n| f64::from(u8::from(n == 5))).collect();
    let message = of(vec![1.0; 24], Some(well)).unwrap_err().to_string();
    assert!(message.contains("(1, 1, 0)") && message.contains("reaction"), "{message}");
    let columns = (0..24).map(|n| f64::from(1 + n % 4) * f64::from(1 + n / 4 % 3)).collect();
    let message = with(vec![vec![1.0; 24], vec![1.0; 24], columns], None).unwrap_err().to_string();
    assert!(message.contains("vary along one axis"), "{message}");
}
