//! Transfers of a caller's arrays to the device and back.

use crate::array::average_copies;
use crate::stencil::turns::Turns;
use crate::{ArrayView, ArrayViewMut, Backend, DeviceArray, Error, Layout, Real, Result, Shape, Slab, Source, Target};

/// A caller's grid, and the parts of it in arrays and vectors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallersGrid {
    /// The copies of it in the solver's grid.
    pub(crate) turns: Turns,
    /// The rows of it that arrays have here.
    pub(crate) own: Slab,
    /// The rows, where ranks divide a direction of several copies.
    divided: Option<Divided>,
}

/// A rank's rows of the grid, where they differ from its rows of the copies of an odd periodic direction.
#[derive(Clone, Copy, Debug)]
struct Divided {
    grid: Shape,
    /// The first row of vectors, which have rows of all copies.
    first: usize,
    /// The shape of vectors.
    shape: Shape,
}

impl CallersGrid {
    /// Takes a grid whose copies have vectors of this layout.
    pub(crate) fn new<B: Backend>(backend: &B, grid: Shape, turns: Turns, layout: &Layout) -> Result<Self> {
        let (first, shape) = (layout.first_row(), layout.shape());
        if !turns.are_divided(layout) {
            let own = Slab { first, beyond: first + turns.once(shape).ny };
            return Ok(Self { turns, own, divided: None });
        }
        Ok(Self { turns, own: backend.own_rows(grid)?, divided: Some(Divided { grid, first, shape }) })
    }

    /// Returns the shape of arrays here, for vectors of this layout.
    pub(crate) fn shape(&self, layout: &Layout) -> Shape {
        self.own.shape(self.turns.once(layout.shape()))
    }

    /// Gives every copy of a periodic direction the mean over all of them, bit for bit the values that a caller
    /// reads.
    pub(crate) fn average<B: Backend>(&self, backend: &B, layout: &Layout, x: &mut B::Vector<f64>) -> Result<()> {
        if self.turns.count() == 1 {
            return Ok(());
        }
        let shape = self.shape(layout);
        if self.divided.is_some() {
            let mut mean = vec![0.0; shape.cells()];
            fetch(backend, self, x, &mut ArrayViewMut::c_order(&mut mean, shape)?)?;
            return send(backend, self, ArrayView::c_order(&mean, shape)?, x);
        }
        backend.average(layout, [shape.nx, shape.ny], x)
    }

    /// Describes a caller's array in the memory of a GPU on all copies.
    fn repeat(&self, array: DeviceArray) -> Result<DeviceArray> {
        if self.divided.is_some() {
            self.turns.require_one("arrays in the memory of GPUs of several ranks")?;
        }
        Ok(self.turns.repeat_on_device(array))
    }
}

impl Divided {
    /// Expands an array of this rank's own rows to the vectors' rows of all copies, through the whole array.
    fn repeat<B: Backend, T: Real>(&self, backend: &B, own: &ArrayView<'_, T>) -> Result<Vec<f64>> {
        let rows = |of: Shape| (0..of.nz).flat_map(move |k| (0..of.ny).map(move |j| (j, k)));
        let line = |(j, k)| (0..own.shape().nx).map(move |i| own.get(i, j, k).to_f64());
        let all = backend.collect(rows(own.shape()).flat_map(line).collect(), self.grid)?;
        let &Self { grid, first, shape } = self;
        let place = |(j, k)| grid.nx * ((first + j) % grid.ny + grid.ny * k);
        let places = rows(shape).map(place).flat_map(|row| (0..shape.nx).map(move |i| row + i % grid.nx));
        Ok(places.map(|place| all[place]).collect())
    }
}

/// Copies a caller's array to all copies in a solver's grid.
pub(crate) fn upload<B: Backend>(
    backend: &B,
    callers: &CallersGrid,
    source: Source<'_>,
    target: &mut B::Vector<f64>,
) -> Result<()> {
    match source {
        Source::F64(view) => send(backend, callers, view, target),
        Source::F32(view) => send(backend, callers, view, target),
        Source::Device(array) => backend.import(&callers.repeat(array)?, target),
    }
}

/// Uploads from host memory.
pub(crate) fn send<B: Backend, T: Real>(
    backend: &B,
    callers: &CallersGrid,
    view: ArrayView<'_, T>,
    target: &mut B::Vector<f64>,
) -> Result<()> {
    let turns = callers.turns;
    if turns.count() == 1 {
        return backend.upload(view.in_order(turns.order), target);
    }
    if let Some(divided) = &callers.divided {
        return backend.upload(ArrayView::c_order(&divided.repeat(backend, &view)?, divided.shape)?, target);
    }
    let values = turns.repeat(&view);
    backend.upload(ArrayView::c_order(&values, turns.around(view.shape()))?, target)
}

/// Copies the mean over all copies in a solver's grid to a caller's array.
pub(crate) fn download<B: Backend>(
    backend: &B,
    callers: &CallersGrid,
    source: &B::Vector<f64>,
    target: &mut Target<'_>,
) -> Result<()> {
    match target {
        Target::F64(view) => fetch(backend, callers, source, view),
        Target::F32(view) => fetch(backend, callers, source, view),
        Target::Device(array) => backend.export(source, &mut callers.repeat(*array)?),
        Target::Nothing(_) => Ok(()),
    }
}

/// Downloads to host memory.
pub(crate) fn fetch<B: Backend, T: Real>(
    backend: &B,
    callers: &CallersGrid,
    source: &B::Vector<f64>,
    target: &mut ArrayViewMut<'_, T>,
) -> Result<()> {
    let turns = callers.turns;
    if turns.count() == 1 {
        return backend.download(source, &mut target.in_order(turns.order));
    }
    if let Some(divided) = &callers.divided {
        let mut own = vec![0.0; divided.shape.cells()];
        backend.download(source, &mut ArrayViewMut::c_order(&mut own, divided.shape)?)?;
        let mut all = backend.collect(own, turns.around(divided.grid))?;
        take_means(turns, divided.grid, callers.own, &mut all, target);
        return Ok(());
    }
    let shape = target.shape();
    let around = turns.around(shape);
    let mut values = vec![T::ZERO; around.cells()];
    backend.download(source, &mut ArrayViewMut::c_order(&mut values, around)?)?;
    take_means(turns, shape, Slab::whole(shape), &mut values, target);
    Ok(())
}

/// Stores means over all copies of a grid, some rows of it, in a caller's array.
fn take_means<S: Real, T: Real>(
    turns: Turns,
    grid: Shape,
    own: Slab,
    around: &mut [S],
    target: &mut ArrayViewMut<'_, T>,
) {
    let Shape { nx, ny, .. } = turns.around(grid);
    average_copies(turns.around(grid), [grid.nx, grid.ny], around);
    let mut line = vec![T::ZERO; grid.nx];
    for (k, layer) in around.chunks_exact(nx * ny).enumerate() {
        for (j, row) in layer.chunks_exact(nx).take(own.beyond).skip(own.first).enumerate() {
            line.iter_mut().zip(row).for_each(|(to, from)| *to = T::from_f64(from.to_f64()));
            target.set_line(j, k, &line);
        }
    }
}

/// Names the first entry of a host array that is not finite, if there is one.
pub(crate) fn find_not_finite(what: &str, array: Source<'_>) -> Result<()> {
    fn find<T: Real>(what: &str, array: &ArrayView<'_, T>) -> Result<()> {
        let Shape { nx, ny, nz } = array.shape();
        for k in 0..nz {
            for j in 0..ny {
                for i in 0..nx {
                    let value = array.get(i, j, k).to_f64();
                    if !value.is_finite() {
                        return Err(Error::NotFinite { what: what.into(), value, i, j, k });
                    }
                }
            }
        }
        Ok(())
    }
    match array {
        Source::F64(view) => find(what, &view),
        Source::F32(view) => find(what, &view),
        Source::Device(_) => Ok(()),
    }
}
