//! Bounds, strides, parts and passes of callers' arrays.

use super::*;
use crate::Host;
use crate::layout::Axis;
use crate::problem::{Field, random};

#[test]
fn views_check_their_bounds() {
    let data = [0.0; 24];
    let shape = Shape::new(4, 3, 2);
    assert!(ArrayView::c_order(&data, shape).is_ok());
    assert!(ArrayView::c_order(&data[..23], shape).is_err());
    assert!(ArrayView::new(&data, shape, [6, 2, 1]).is_ok());
    assert!(ArrayView::new(&data, shape, [7, 2, 1]).is_err());
    assert!(ArrayView::new(&data, shape, [usize::MAX, 2, 1]).is_err());
}

#[test]
fn layers_are_slices_where_their_rows_follow_each_other() {
    let data: Vec<f64> = (0..24).map(f64::from).collect();
    let whole = ArrayView::c_order(&data, Shape::new(4, 3, 2)).unwrap();
    let rows = whole.part(Slab { first: 1, beyond: 3 }).unwrap();
    assert_eq!(rows.layers(), Some(vec![&data[4..12], &data[16..24]]));
    let columns = |first, rows| ArrayView::from_origin(&data, first, Shape::new(2, rows, 2), [1, 4, 12]).unwrap();
    assert_eq!(columns(9, 1).layers(), Some(vec![&data[9..11], &data[21..23]]));
    assert_eq!(columns(5, 2).layers(), None);
    let backwards = ArrayView::from_origin(&data, 12, Shape::new(4, 3, 2), [1, 4, -12]).unwrap();
    assert_eq!(backwards.layers(), Some(vec![&data[12..24], &data[..12]]));
}

#[test]
fn layers_are_written_one_by_one_wherever_they_lie() {
    let shape = Shape::new(4, 3, 2);
    for (origin, strides) in [(0, [1, 4, 12]), (12, [1, 4, -12]), (0, [2, 8, 1]), (23, [-1, -4, -12])] {
        let mut data = vec![-1.0; 24];
        let mut view = ArrayViewMut::from_origin(&mut data, origin, shape, strides).unwrap();
        view.for_each_slice(&Host, Axis::Z, |k, layer| {
            assert_eq!(layer.shape(), Shape::new(4, 3, 1));
            (0..3).for_each(|j| layer.set_line(j, 0, &[0, 1, 2, 3].map(|i| (i + 10 * j + 100 * k) as f64)));
        });
        let found = ArrayView::from_origin(&data, origin, shape, strides).unwrap();
        assert!(shape.places().all(|[i, j, k]| found.get(i, j, k) == (i + 10 * j + 100 * k) as f64), "{strides:?}");
    }
}

#[test]
fn negative_strides_count_backwards() {
    let mut data: Vec<f64> = (0..24).map(f64::from).collect();
    let shape = Shape::new(4, 3, 2);
    let reversed = ArrayView::from_origin(&data, 23, shape, [-1, -4, -12]).unwrap();
    assert_eq!((reversed.get(0, 0, 0), reversed.get(1, 2, 1)), (23.0, 2.0));
    assert!(reversed.as_c_order().is_none());
    let part = reversed.part(Slab { first: 1, beyond: 3 }).unwrap();
    assert_eq!(part.get(1, 1, 1), 2.0);
    for (origin, strides) in [(22, [-1, -4, -12]), (23, [-2, -4, -12]), (1, [1, 4, 12]), (0, [isize::MIN, 1, 1])] {
        assert!(ArrayView::from_origin(&data, origin, shape, strides).is_err(), "{origin} {strides:?}");
    }
    ArrayViewMut::from_origin(&mut data, 12, shape, [1, 4, -12]).unwrap().set(3, 2, 1, -1.0);
    assert_eq!(data[11], -1.0);
}

#[test]
fn parts_are_those_of_the_array() {
    let shape = Shape::new(4, 3, 2);
    let mut data: Vec<f64> = (0..24).map(f64::from).collect();
    for strides in [[1, 4, 12], [6, 2, 1], [0, 0, 0]] {
        let view = ArrayView::new(&data, shape, strides).unwrap();
        let rows = view.part(Slab { first: 1, beyond: 3 }).unwrap();
        assert_eq!(rows.shape(), Shape::new(4, 2, 2));
        assert_eq!((rows.get(3, 0, 1), rows.get(0, 1, 0)), (view.get(3, 1, 1), view.get(0, 2, 0)));
        for (first, beyond) in [(2, 4), (2, 2)] {
            assert!(view.part(Slab { first, beyond }).is_err(), "{first} {beyond}");
        }
    }
    let view = ArrayViewMut::c_order(&mut data, shape).unwrap();
    view.into_part(Slab { first: 2, beyond: 3 }).unwrap().set(1, 0, 1, -1.0);
    assert_eq!(data[1 + 4 * (2 + 3)], -1.0);
}

#[test]
fn layers_are_apart() {
    let (whole, rows) = (Shape::new(4, 6, 3), Shape::new(4, 2, 3));
    let mut data = vec![0.0; whole.cells()];
    // Rows 3 and 4 of an array in C order, as a rank has them.
    let mut view = ArrayViewMut::from_origin(&mut data, 12, rows, [1, 4, 24]).unwrap();
    for (k, layer) in view.layers().iter_mut().enumerate() {
        assert_eq!(layer.shape(), Shape::new(4, 2, 1));
        layer.set_line(1, 0, &[k as f64 + 1.0; 4]);
    }
    let found = data.iter().enumerate().filter(|(_, value)| **value != 0.0);
    assert!(
        found
            .map(|(n, value)| (n / 4, *value))
            .eq([4, 10, 16].into_iter().flat_map(|row| [(row, (row as f64 + 2.0) / 6.0); 4]))
    );
    // Columns first, with layers that are interleaved or in the opposite order.
    for (origin, strides) in [(0, [18, 3, 1]), (48, [1, 4, -24])] {
        assert_eq!(ArrayViewMut::from_origin(&mut data, origin, whole, strides).unwrap().layers().len(), 3);
    }
    for strides in [[1, 4, 23], [1, 3, 24], [0, 4, 24], [12, 4, 1]] {
        assert!(ArrayViewMut::from_origin(&mut data, 0, whole, strides).is_err(), "{strides:?}");
    }
}

/// Checks that threads write interleaved parts of an array at once.
#[test]
fn parts_are_written_at_once() {
    let shape = Shape::new(4, 6, 3);
    let part = |first, beyond| Slab { first, beyond };
    let parts = [part(0, 1), part(1, 4), part(4, 6)];
    for (origin, strides) in [(0, [1, 4, 24]), (0, [18, 3, 1]), (48, [1, 4, -24]), (71, [-1, -4, -24])] {
        let mut data = vec![0.0; shape.cells()];
        let whole = ArrayViewMut::from_origin(&mut data, origin, shape, strides).unwrap();
        std::thread::scope(|scope| {
            for (n, mut own) in whole.into_parts(&parts).unwrap().into_iter().enumerate() {
                scope.spawn(move || {
                    let line = vec![n as f64 + 1.0; own.shape().nx];
                    for [_, j, k] in own.shape().places().filter(|[i, ..]| *i == 0) {
                        own.set_line(j, k, &line);
                    }
                    assert!(own.shape().places().all(|[i, j, k]| own.as_view().get(i, j, k) == n as f64 + 1.0));
                });
            }
        });
        let view = ArrayView::from_origin(&data, origin, shape, strides).unwrap();
        for [i, j, k] in shape.places() {
            let owner = (0..3).find(|&n| (parts[n].first..parts[n].beyond).contains(&j)).unwrap();
            assert_eq!(view.get(i, j, k), owner as f64 + 1.0, "{:?}", [i, j, k]);
        }
    }
    let mut data = vec![0.0; shape.cells()];
    let mut divide = |strides, parts: &[Slab]| {
        ArrayViewMut::new(&mut data, shape, strides)
            .and_then(|array| array.into_parts(parts))
            .map(|parts| parts.len())
            .map_err(|e| e.to_string())
    };
    assert!(divide([1, 4, 24], &[part(0, 2), part(2, 7)]).unwrap_err().contains("rows 2 to 7"));
    assert!(divide([1, 4, 24], &[part(0, 2), part(1, 6)]).unwrap_err().contains("share a row"));
    assert!(divide([1, 0, 4], &[part(0, 2)]).unwrap_err().contains("share a number in memory"));
}

#[test]
#[should_panic(expected = "cell [0, 2, 0] of a grid of 4×2×3")]
fn a_part_does_not_reach_beyond_its_cells() {
    let mut data = vec![0.0; 72];
    let whole = ArrayViewMut::c_order(&mut data, Shape::new(4, 6, 3)).unwrap();
    whole.into_part(Slab { first: 1, beyond: 3 }).unwrap().set(0, 2, 0, 1.0);
}

#[test]
fn masks_hold_no_nan() {
    let view = ArrayView::c_order(&[1.0, 0.0, f64::NAN], Shape::new(3, 1, 1)).unwrap();
    let message = Source::from(view).to_mask().unwrap_err().to_string();
    assert!(message.contains("active cells: it holds NaN"), "{message}");
}

/// Reads and writes arrays of random strides in one pass, and compares with a loop over the elements.
#[test]
fn passes_meet_every_element_once() {
    let shapes = [[1, 1, 1], [1, 7, 1], [13, 1, 5], [8, 9, 11], [3, 1, 2], [0, 3, 2], [401, 19, 23], [1, 1, 200_003]];
    for (case, [nx, ny, nz]) in shapes.into_iter().flat_map(|shape| [shape; 12]).enumerate() {
        let draw = |n: usize, most: usize| ((0.5 * random(7, 10 * case + n) + 0.5) * most as f64) as usize;
        let shape = Shape::new(nx, ny, nz);
        let order = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]][draw(0, 6)];
        let (mut strides, mut step, mut repeats) = ([0isize; 3], 1 + draw(1, 2), false);
        for d in order {
            let n = [nx, ny, nz][d];
            // A direction may be repeated, reversed, or have a gap behind it.
            match draw(2 + d, 4) {
                0 => repeats |= n > 1,
                1 => strides[d] = -(step as isize),
                _ => strides[d] = step as isize,
            }
            step = if strides[d] == 0 { step } else { step * n.max(1) + draw(5 + d, 3) };
        }
        let origin: isize =
            [nx, ny, nz].into_iter().zip(strides).map(|(n, stride)| (n.max(1) as isize - 1) * (-stride).max(0)).sum();
        let origin = origin.unsigned_abs();
        let data: Vec<f64> = (0..step + 1).map(|n| if n % 5 == 1 { 0.0 } else { random(1, n).abs() }).collect();
        let view = ArrayView::from_origin(&data, origin, shape, strides).unwrap();
        let expected: Vec<f64> = shape.places().map(|[i, j, k]| view.get(i, j, k)).collect();
        let what = format!("{shape} {strides:?}");
        assert_eq!(Source::from(view).to_vec().unwrap(), expected, "{what}");
        assert_eq!(Field::read(view.into()).unwrap(), Field::from(&*expected), "{what}");
        let mask: Vec<bool> = expected.iter().map(|&value| value != 0.0).collect();
        assert_eq!(Source::from(view).to_mask().unwrap(), mask, "{what}");
        let singles: Vec<f32> = data.iter().map(|&value| value as f32).collect();
        let view = ArrayView::from_origin(&singles, origin, shape, strides).unwrap();
        let rounded: Vec<f64> = expected.iter().map(|&value| f64::from(value as f32)).collect();
        assert_eq!(Source::from(view).to_vec().unwrap(), rounded, "{what}");
        assert_eq!(Field::read(view.into()).unwrap().values(), rounded, "{what}");
        if repeats {
            let refused = ArrayViewMut::from_origin(&mut data.clone(), origin, shape, strides).unwrap_err().to_string();
            assert!(refused.contains("may share a number"), "{what}: {refused}");
            continue;
        }
        let (mut doubles, mut singles) = (vec![-1.0; data.len()], vec![-1.0f32; data.len()]);
        Target::from(ArrayViewMut::from_origin(&mut doubles, origin, shape, strides).unwrap())
            .write(&expected)
            .unwrap();
        Target::from(ArrayViewMut::from_origin(&mut singles, origin, shape, strides).unwrap())
            .write(&expected)
            .unwrap();
        let mut written = vec![-1.0; data.len()];
        let mut view = ArrayViewMut::from_origin(&mut written, origin, shape, strides).unwrap();
        shape.places().zip(&expected).for_each(|([i, j, k], &value)| view.set(i, j, k, value));
        assert_eq!(doubles, written, "{what}");
        assert_eq!(singles, written.iter().map(|&value| value as f32).collect::<Vec<_>>(), "{what}");
    }
    let shape = Shape::new(301, 17, 29);
    let number = Source::from(ArrayView::constant(&2.5, shape));
    assert_eq!(number.to_vec().unwrap(), vec![2.5; shape.cells()]);
}

#[test]
fn passes_check_shapes_and_places() {
    let shape = Shape::new(4, 3, 2);
    let mut data = [0.0; 24];
    assert!(Target::from(ArrayViewMut::c_order(&mut data, shape).unwrap()).write(&[1.0; 23]).is_err());
    // SAFETY: it is never used.
    let device = unsafe { DeviceArray::c_order::<f64>(8, shape, 0) };
    let refused = Source::from(device).to_vec().unwrap_err().to_string();
    assert!(refused.contains("in the memory of a GPU where one of the host is needed"), "{refused}");
    assert!(Field::read(device.into()).is_err() && Target::from(device).write(&data).is_err());
}

#[test]
fn columns_of_an_array_on_a_device_begin_at_their_first_layer() {
    // SAFETY: nothing reads it.
    let array = unsafe { DeviceArray::new::<f32>(4096, Shape::new(5, 4, 3), [1, 5, 20], 0) }.on_stream(7);
    let column = array.column([2, 3], [1, 2]).unwrap();
    assert_eq!((column.pointer(), column.shape()), (4096 + 4 * (2 + 15 + 20), Shape::new(1, 1, 2)));
    assert_eq!((column.strides(), column.stream()), (array.strides(), Some(7)));
    let repeated = array.repeated([2, 1]);
    assert_eq!((repeated.shape(), repeated.period(), column.period()), (Shape::new(10, 4, 3), [5, 4], [1, 1]));
    assert_eq!(repeated.column([2, 3], [1, 2]).unwrap(), column);
    let row = array.part([1, 3, 2], Shape::new(4, 1, 1)).unwrap();
    assert_eq!((row.pointer(), row.shape()), (4096 + 4 * (1 + 15 + 40), Shape::new(4, 1, 1)));
    assert!(array.part([1, 3, 2], Shape::new(5, 1, 1)).is_err() && array.part([0; 3], Shape::new(1, 0, 1)).is_err());
    assert_eq!(repeated.repeated([1, 3]).shape(), Shape::new(10, 12, 3));
    for (place, layers) in [([5, 0], [0, 0]), ([0, 4], [0, 0]), ([0, 0], [2, 1]), ([0, 0], [0, 3])] {
        assert!(array.column(place, layers).is_err());
    }
}
