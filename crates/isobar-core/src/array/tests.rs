//! Bounds, strides, parts and passes of callers' arrays.

use super::*;

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
fn negative_strides_count_backwards() {
    let mut data: Vec<f64> = (0..24).map(f64::from).collect();
    let shape = Shape::new(4, 3, 2);
    let reversed = ArrayView::from_origin(&data, 23, shape, [-1, -4, -12]).unwrap();
    assert_eq!((reversed.get(0, 0, 0), reversed.get(1, 2, 1)), (23.0, 2.0));
    assert!(reversed.as_c_order().is_none());
    let part = reversed.part(Patch { x: Slab { first: 1, beyond: 3 }, y: Slab { first: 1, beyond: 3 } }).unwrap();
    assert_eq!(part.get(0, 1, 1), 2.0);
    for (origin, strides) in [(22, [-1, -4, -12]), (23, [-2, -4, -12]), (1, [1, 4, 12]), (0, [isize::MIN, 1, 1])] {
        assert!(ArrayView::from_origin(&data, origin, shape, strides).is_err(), "{origin} {strides:?}");
    }
    ArrayViewMut::from_origin(&mut data, 12, shape, [1, 4, -12]).unwrap().set(3, 2, 1, -1.0);
    assert_eq!(data[11], -1.0);
}

#[test]
fn parts_are_those_of_the_array() {
    let shape = Shape::new(4, 3, 2);
    let part = |x: [usize; 2], y: [usize; 2]| {
        let [x, y] = [x, y].map(|[first, beyond]| Slab { first, beyond });
        Patch { x, y }
    };
    let mut data: Vec<f64> = (0..24).map(f64::from).collect();
    for strides in [[1, 4, 12], [6, 2, 1], [0, 0, 0]] {
        let view = ArrayView::new(&data, shape, strides).unwrap();
        let rows = view.part(part([0, 4], [1, 3])).unwrap();
        assert_eq!(rows.shape(), Shape::new(4, 2, 2));
        assert_eq!((rows.get(3, 0, 1), rows.get(0, 1, 0)), (view.get(3, 1, 1), view.get(0, 2, 0)));
        let some = view.part(part([2, 4], [1, 2])).unwrap();
        assert_eq!(some.shape(), Shape::new(2, 1, 2));
        assert_eq!(some.get(1, 0, 1), view.get(3, 1, 1));
        for (x, y) in [([0, 4], [2, 4]), ([0, 4], [2, 2]), ([3, 5], [0, 3]), ([1, 1], [0, 3])] {
            assert!(view.part(part(x, y)).is_err(), "{x:?} {y:?}");
        }
    }
    let view = ArrayViewMut::c_order(&mut data, shape).unwrap();
    view.into_part(part([0, 4], [2, 3])).unwrap().set(1, 0, 1, -1.0);
    assert_eq!(data[1 + 4 * (2 + 3)], -1.0);
}
