// Residuals without a line solve.
//
// A thread follows its columns upwards through gridDim.z ranges of layers, keeping three layers of its
// own columns in registers; neighbours in y come through the L1 cache,
// where the other rows of the block have loaded them.
// Block (32, ROWS); grid (ceil(pitch / 32), ceil(ceil(ny/2) / ROWS), runs). ODD states whether nx or ny is odd.
#pragma once
#include "tensor_product/tensor_product.cuh"

#ifndef ROWS
#define ROWS 4
#endif
#ifdef NZ
#define LAYERS(op) NZ
#else
#define LAYERS(op) (op).nz
#endif

// One column: its couplings and three layers of its values.
struct Walker {
    Column column;
    const T* at; // the column's value at layer 0
    T below, here, above;

    __device__ __forceinline__ void start(const Operator& op, const T* u, int j, int c, int m, int k) {
        column = load_column(op, j, c, m);
        at = u + plane(op, j, c) + m;
        below = k > 0 ? at[op.pitch * (k - 1)] : T(0);
        here = at[op.pitch * k];
    }

    __device__ __forceinline__ void look_up(const Operator& op, int k, int nz) {
        above = k + 1 < nz ? at[op.pitch * (k + 1)] : T(0);
    }

    __device__ __forceinline__ void step() {
        below = here;
        here = above;
    }

    __device__ __forceinline__ T at_layer(const Operator& op, int k, T f, T same, T shifted, T south, T north) const {
        T sum = column.same * same;
        sum = fma(column.shifted, shifted, sum);
        sum = fma(column.south, south, sum);
        sum = fma(column.north, north, sum);
        return residual(column, op.row[k], f, below, here, above, sum);
    }
};

// The use of the residuals of a thread's cells.
enum Use { NORM_ONLY, STORE, RESTRICT };

// With an odd number of rows the last thread's second row is its first one again, and does not count. If there is no such
// thread, this is known at compile time: a test at run time made restriction a quarter slower (docs/notes/cuda-kernels.md).
__device__ __forceinline__ bool has_two_rows(const Operator& op, int jc) { return !ODD || 2 * jc + 1 < op.ny; }

// Residuals of rows 2 jc and 2 jc + 1, red or red and black. Two rows per thread, because the northern neighbour of one is
// next to the other. u is a whole field, so values next to a row are finite, with couplings of zero. A missing column or
// row contributes nothing: its entries are padding, or its row is not used. Returns the sum of squares.
template <int COLOURS, Use USE, bool NORM, class R>
__device__ __forceinline__ double residual_rows(const Operator& op, const T* f, const T* u, R* out, int coarse_pitch) {
    int nz = LAYERS(op);
    int m = blockIdx.x * 32 + threadIdx.x, jc = blockIdx.y * ROWS + threadIdx.y;
    int length = (nz + gridDim.z - 1) / gridDim.z, k0 = blockIdx.z * length, k1 = min(k0 + length, nz);
    double square = 0;
    if (m >= (USE == RESTRICT ? (op.nx + 1) / 2 : op.pitch) || 2 * jc >= op.ny || k0 >= k1) return square;

    const bool two = has_two_rows(op, jc);
    long long row = two ? 2LL * op.pitch * nz : 0, colour = (long long)op.pitch * nz;
    // The row after the first one: of this thread, or a halo row where a subdomain has an odd number of rows.
    long long next = !ODD || 2 * jc + 1 < op.end ? 2LL * op.pitch * nz : 0;
    Walker own[COLOURS][2];
#pragma unroll
    for (int c = 0; c < COLOURS; c++)
#pragma unroll
        for (int q = 0; q < 2; q++) own[c][q].start(op, u, 2 * jc + (q && two), c, m, k0);
    const T* centre[2] = {u + plane(op, 2 * jc, 0) + m, u + plane(op, 2 * jc, 1) + m};
    long long to_south = 2 * jc > op.start ? -2 * colour : 0, to_north = 2 * jc + 2 < op.end ? 2 * row : row;
    long long f_at = plane(op, 2 * jc, 0) + m;
    R* to = out;
    if (USE == STORE) to += f_at;
    if (USE == RESTRICT) to += coarse_index(coarse_pitch, nz, m, jc);
#pragma unroll(COLOURS == 1 ? 4 : 2)
    for (int k = k0; k < k1; k++) {
        int at = op.pitch * k;
        T total = T(0);
#pragma unroll
        for (int c = 0; c < COLOURS; c++)
#pragma unroll
            for (int q = 0; q < 2; q++) own[c][q].look_up(op, k, nz);
#pragma unroll
        for (int c = 0; c < COLOURS; c++) {
            const T* other = centre[1 - c] + at;
            T low = COLOURS == 2 ? own[COLOURS - 1 - c][0].here : other[0];
            T high = COLOURS == 2 && two ? own[COLOURS - 1 - c][1].here : other[next];
            const T* rhs = f + f_at + c * colour + at;
            int shift = c ? 1 : -1; // in row 2 jc; the opposite in row 2 jc + 1
            T r0 = own[c][0].at_layer(op, k, rhs[0], low, other[shift], other[to_south], high);
            T r1 = own[c][1].at_layer(op, k, rhs[row], high, other[row - shift], low, other[to_north]);
            if (NORM) {
                square += double(r0) * double(r0);
                if (two) square += double(r1) * double(r1);
            }
            if (USE == RESTRICT) total += two ? r0 + r1 : r0;
            if (USE == STORE) {
                to[c * colour + at] = R(r0);
                if (two) to[c * colour + row + at] = R(r1);
                if (COLOURS == 1) {
                    to[colour + at] = R(0);
                    if (two) to[colour + row + at] = R(0);
                }
            }
        }
        if (USE == RESTRICT) to[coarse_pitch * k] = R(total);
#pragma unroll
        for (int c = 0; c < COLOURS; c++)
#pragma unroll
            for (int q = 0; q < 2; q++) own[c][q].step();
    }
    return square;
}
