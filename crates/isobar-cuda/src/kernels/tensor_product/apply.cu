// Unfused products, diagonal and residuals.
#include "reduce.cuh"
#include "tensor_product/cell.cuh"
#include "tensor_product/residual.cuh"

// Launched over cells (cell.cuh).

// y = A x
KERNEL(apply)(Operator op, In x, Out y) {
    await_previous();
    Cell cell = this_cell(op.pitch, op.nz);
    if (!cell.inside) return;
    Column column = load_column(op, cell.j, cell.c, cell.m);
    long long colour = (long long)op.pitch * op.nz;
    const T* own = x + cell.at;
    const T* other = cell.c ? own - colour : own + colour;
    T sum = column.same * other[0];
    sum = fma(column.shifted, other[column.shift], sum);
    sum = fma(column.south, other[cell.j > op.start ? -2 * colour : 0], sum);
    sum = fma(column.north, other[cell.j + 1 < op.end ? 2 * colour : 0], sum);
    T below = cell.k > 0 ? own[-op.pitch] : T(0), above = cell.k + 1 < op.nz ? own[op.pitch] : T(0);
    y[cell.at] = -residual(column, op.row[cell.k], T(0), below, own[0], above, sum);
}

// z = D^-1 r, D the diagonal of A
KERNEL(divide_by_diagonal)(Operator op, In r, Out z) {
    await_previous();
    Cell cell = this_cell(op.pitch, op.nz);
    if (!cell.inside) return;
    int column = cell.m + op.pitch * blockIdx.z;
    RowLayer v = op.row[cell.k];
    z[cell.at] = r[cell.at] / (op.area[column] * (v.a + v.b + v.c + op.total[column] * v.d));
}

// Launched as in residual.cuh. The _red kernels are for residuals after a red-black sweep, when the black ones are zero.

// result = |f - A u|^2. Traffic: u, f read (red: u, f/2).
KERNEL(residual_norm, __launch_bounds__(32 * ROWS))(Operator op, In f, In u, Reduction to) {
    await_previous();
    double square[1] = {residual_rows<2, NORM_ONLY, true, T>(op, f, u, nullptr, 0)};
    grid_sum(square, to);
}

KERNEL(residual_norm_red, __launch_bounds__(32 * ROWS))(Operator op, In f, In u, Reduction to) {
    await_previous();
    double square[1] = {residual_rows<1, NORM_ONLY, true, T>(op, f, u, nullptr, 0)};
    grid_sum(square, to);
}

// r = f - A u and result = |r|^2
KERNEL(residual_field, __launch_bounds__(32 * ROWS))(Operator op, In f, In u, Out r, Reduction to) {
    await_previous();
    double square[1] = {residual_rows<2, STORE, true, T>(op, f, u, r, 0)};
    grid_sum(square, to);
}

#if !SINGLE

// r = f - A u, rounded to single precision, with the sum before rounding; the _red kernel sets r's black cells to zero.
KERNEL(residual_in_single, __launch_bounds__(32 * ROWS))(Operator op, In f, In u, float* __restrict__ r, Reduction to) {
    await_previous();
    double square[1] = {residual_rows<2, STORE, true, float>(op, f, u, r, 0)};
    grid_sum(square, to);
}

KERNEL(residual_in_single_red, __launch_bounds__(32 * ROWS))(Operator op, In f, In u, float* __restrict__ r, Reduction to) {
    await_previous();
    double square[1] = {residual_rows<1, STORE, true, float>(op, f, u, r, 0)};
    grid_sum(square, to);
}

#endif
