// The tensor-product operator of Mueller, Scheichl and Vainikko: four vertical vectors, and a few
// numbers per column.
//
// (A u)_k = |T| [a u_k + |b| (u_k - u_{k+1}) + |c| (u_k - u_{k-1}) + |d| (s u_k - sum of coupling u')],
// with couplings alpha_TT'/|T| and s = alpha_T/|T|. In this form, the vertical part has no cancellation
// between its coefficients, as single precision requires.
#pragma once
#include "layout.cuh"

// One layer of the vertical operator for the line solver: every number >= 0, divided by
// the layer's scale (a - b - c + max_columns(s) |d|), which keeps the pivots near one.
struct alignas(2 * sizeof(T)) LineLayer {
    T a, d;         // a_k and |d_k|
    T b, c;         // |b_k| and |c_k|
    T scale, carry; // 1/scale, and the product of c from the chunk's first layer to this one
};

// One layer of the vertical operator unscaled: a, |b|, |c|, |d|.
struct alignas(4 * sizeof(T)) RowLayer {
    T a, b, c, d;
};

// The operator on one grid. Horizontal arrays are stored as m + pitch (c + 2 j); couplings and their
// sum are divided by the cell's area. `pivot` holds, for every column and chunk w, the reduced
// off-diagonal t of the layer before the chunk (m + pitch (w + W (c + 2 j))).
struct Operator {
    const T* area;
    const T* west;
    const T* east;
    const T* south;
    const T* north;
    const T* total;
    const T* pivot;
    const LineLayer* line; // W K layers, the ones past nz being identity rows
    const RowLayer* row;   // nz layers
    int nx, ny, nz, pitch;
    int start, end; // rows of the whole grid: 0 and ny if it is not divided
};

// A half plane has space for ROOM times as many numbers as it has cells: for two vectors in single precision in the memory of one in double
// precision.
#ifndef ROOM
#define ROOM 1
#endif

__device__ __forceinline__ long long plane(const Operator& op, int j, int c) {
    return (long long)op.pitch * op.nz * ROOM * (c + 2 * j);
}

// Row j, or the nearest readable row, of rows start to end, which include a subdomain's halo rows in addition to its own ny rows.
__device__ __forceinline__ int readable_row(int j, int ny, int start, int end) {
    return min(max(j, max(start, -1)), min(end, ny + 1) - 1);
}

// Couplings of one column, arranged for the layout: `same` belongs to the other colour's cell of the
// same row and same m, `shifted` to the one at m + shift. If there is no such cell, shift is 0: positions beside
// a row may belong to another colour that has not been written yet, and zero times NaN is NaN.
struct Column {
    T same, shifted, south, north, total, area;
    int shift;
};

// Whether the shifted neighbour is the eastern one.
__device__ __forceinline__ bool looks_east(int j, int c) { return (j + c) & 1; }

__device__ __forceinline__ Column load_column(const Operator& op, int j, int c, int m) {
    int at = m + op.pitch * (c + 2 * j);
    bool to_east = looks_east(j, c);
    T west = op.west[at], east = op.east[at];
    Column column;
    column.same = to_east ? west : east;
    column.shifted = to_east ? east : west;
    int shift = to_east ? 1 : -1;
    bool outside = (unsigned int)(2 * m + to_east + shift) >= (unsigned int)op.nx;
    column.shift = outside ? 0 : shift;
    column.south = op.south[at];
    column.north = op.north[at];
    column.total = op.total[at];
    column.area = op.area[at];
    return column;
}

// f - A u on one cell; `sum` is the couplings applied to the four neighbours.
__device__ __forceinline__ T residual(const Column& column, const RowLayer& v, T f, T below, T here, T above, T sum) {
    T vertical = fma(v.b, here - above, fma(v.c, here - below, v.a * here));
    return f - column.area * fma(v.d, fma(column.total, here, -sum), vertical);
}
