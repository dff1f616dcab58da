// The tensor-product operator of Mueller, Scheichl and Vainikko: four vertical vectors, and a few
// numbers a column.
//
// (A u)_k = |T| [a u_k + |b| (u_k - u_{k+1}) + |c| (u_k - u_{k-1}) + |d| (s u_k - sum of coupling u')],
// with couplings alpha_TT'/|T| and s = alpha_T/|T|. Written so, the vertical part has no cancellation
// between its coefficients, which single precision needs.
#pragma once
#include "layout.cuh"

// One layer of the vertical operator as the line solver wants it: every number >= 0, divided by
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
    int start, end; // rows of the larger grid that this is a part of: 0 and ny where it is all
};

// A half plane has room for ROOM times as many numbers as it has cells: for two vectors in single precision where one in double
// precision has its place.
#ifndef ROOM
#define ROOM 1
#endif

__device__ __forceinline__ long long plane(const Operator& op, int j, int c) {
    return (long long)op.pitch * op.nz * ROOM * (c + 2 * j);
}

// Row j, or the nearest that can be read, of rows start to end of which a part has halo rows beside its own ny.
__device__ __forceinline__ int readable_row(int j, int ny, int start, int end) {
    return min(max(j, max(start, -1)), min(end, ny + 1) - 1);
}

// Couplings of one column, arranged for the layout: `same` goes with the other colour's cell of the
// same row and same m, `shifted` with the one at m + shift. Where there is no such cell, shift is 0: what else is beside
// a row may be another colour's, which may not have been written yet, and zero times NaN is NaN.
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
