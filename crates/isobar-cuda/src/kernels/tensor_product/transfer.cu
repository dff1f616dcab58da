// Transfers between two levels: restriction adds the fine cells of a coarse one, prolongation is bilinear (prolong.cuh). A coarse
// level has half as many columns in each direction, rounded up.
#include "tensor_product/cell.cuh"
#include "tensor_product/prolong.cuh"
#include "tensor_product/residual.cuh"

// coarse = sum of the four fine residuals of a coarse cell: fine cells (2I + p, 2J + q) are m = I in both
// colours of rows 2J and 2J + 1. The first kernel is for residuals after a red-black sweep, when the black ones are zero.
// Launched as in residual.cuh. Traffic: u, f/2 read and 1/4 written (both: u, f read).
KERNEL(residual_restrict, __launch_bounds__(32 * ROWS))(Operator op, In f, In u, Out coarse, int coarse_pitch) {
    await_previous();
    residual_rows<1, RESTRICT, false, T>(op, f, u, coarse, coarse_pitch);
}

KERNEL(residual_restrict_both, __launch_bounds__(32 * ROWS))(Operator op, In f, In u, Out coarse, int coarse_pitch) {
    await_previous();
    residual_rows<2, RESTRICT, false, T>(op, f, u, coarse, coarse_pitch);
}

// coarse = R (f - A u) after one red-black sweep from u = 0. The red columns were solved with zeros around
// them, so their residual consists of the couplings to the new black values: no
// vertical part, no difference of large numbers. Traffic: u/2 read and 1/4 written.
KERNEL(coupling_restrict, __launch_bounds__(32 * ROWS))(Operator op, In u, Out coarse, int coarse_pitch) {
    await_previous();
    int nz = LAYERS(op);
    int m = blockIdx.x * 32 + threadIdx.x, jc = blockIdx.y * ROWS + threadIdx.y;
    int length = (nz + gridDim.z - 1) / gridDim.z, k0 = blockIdx.z * length, k1 = min(k0 + length, nz);
    if (m >= (op.nx + 1) / 2 || 2 * jc >= op.ny) return;
    const bool two = has_two_rows(op, jc);
    Column low = load_column(op, 2 * jc, 0, m), high = load_column(op, two ? 2 * jc + 1 : 2 * jc, 0, m);
    long long rows = 2LL * op.pitch * nz, row = two ? rows : 0;
    long long to_south = 2 * jc > op.start ? -rows : 0, to_north = 2 * jc + 2 < op.end ? 2 * rows : row;
    const T* black = u + plane(op, 2 * jc, 1) + m;
    T* to = coarse + coarse_index(coarse_pitch, nz, m, jc);
#pragma unroll 4
    for (int k = k0; k < k1; k++) {
        const T* at = black + op.pitch * k;
        T here = at[0], above = at[row]; // rows 2 jc and 2 jc + 1
        T sum_low = fma(low.same, here, low.shifted * at[low.shift]);
        sum_low = fma(low.south, at[to_south], fma(low.north, above, sum_low));
        T sum_high = fma(high.same, above, high.shifted * at[row + high.shift]);
        sum_high = fma(high.south, here, fma(high.north, at[to_north], sum_high));
        T sum = two ? fma(low.area, sum_low, high.area * sum_high) : low.area * sum_low;
        to[coarse_pitch * k] = op.row[k].d * sum;
    }
}

// coarse = R f, launched over the coarse cells (cell.cuh). A missing fine column is padding.
KERNEL(restrict_field)(Operator op, In f, int coarse_pitch, Out coarse) {
    await_previous();
    Cell cell = this_cell(coarse_pitch, op.nz);
    if (!cell.inside) return;
    int i = 2 * cell.m + ((cell.j + cell.c) & 1);
    T sum = T(0);
    if (2 * i < op.nx) {
        long long colour = (long long)op.pitch * op.nz;
        const T* fine = f + i + op.pitch * cell.k + 4 * colour * cell.j;
        sum = fine[0] + fine[colour];
        if (2 * cell.j + 1 < op.ny) sum += fine[2 * colour] + fine[3 * colour];
    }
    coarse[cell.at] = sum;
}

// u += P e. Block (32, ROWS); grid (ceil(pitch / 32), ceil(ny / ROWS), 2 runs of layers), a colour and a run in z.
KERNEL(prolong_add, __launch_bounds__(32 * ROWS))(Operator op, T* u, Coarse<T> coarse) {
    await_previous();
    int nz = LAYERS(op);
    int m = blockIdx.x * 32 + threadIdx.x, j = blockIdx.y * ROWS + threadIdx.y, c = blockIdx.z & 1;
    int runs = gridDim.z / 2, length = (nz + runs - 1) / runs;
    int k0 = (blockIdx.z / 2) * length, k1 = min(k0 + length, nz);
    int i = 2 * m + ((j + c) & 1);
    if (i >= op.nx || j >= op.ny) return;
    Bilinear cell = bilinear(coarse, op.nx, op.end, i, j);
    T* to = u + plane(op, j, c) + m;
#pragma unroll 4
    for (int k = k0; k < k1; k++) to[op.pitch * k] += interpolate(cell, coarse, k);
}
