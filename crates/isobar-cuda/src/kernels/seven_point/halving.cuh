// A level and one coarsened in some directions, and couplings for equal coefficients.
#pragma once
#include "seven_point/seven_point.cuh"

// The common values of all cells for their faces, if they are equal.
struct Even {
    Fields fields;
    int is_even;
};

// A level and one coarsened in some directions.
struct Halving {
    // The weights by direction and fine cell: of the coarse cell that contains it, and of the neighbour.
    const T* near[3];
    const T* far[3];
    int fine[4]; // cells, then the pitch
    int coarse[4];
    int halved; // bits of coarsened directions
    int rings;
    int start, end; // rows of the whole coarse level, counted from the first row here, as in seven_point.cuh
};

// Couplings for equal coefficients.
struct Known {
    Fields fields;
    T t[3];
};

__device__ __forceinline__ Known know(const Stencil& op, const Even* __restrict__ even) {
    Known known;
    known.fields = even->fields;
    known.t[X] = face<X>(op, known.fields, known.fields);
    known.t[Y] = face<Y>(op, known.fields, known.fields);
    known.t[Z] = face<Z>(op, known.fields, known.fields);
    return known;
}

__device__ __forceinline__ Index place_in(const int (&grid)[4], int i, int j, int k) {
    return (i >> 1) + (Index)grid[3] * (k + (Index)grid[2] * (((i + j) & 1) + 2 * (Index)j));
}

__device__ __forceinline__ bool is_halved(const Halving& h, int d) { return (h.halved >> d) & 1; }

__device__ __forceinline__ int part_of(const Halving& h, int d, int n) { return is_halved(h, d) ? n >> 1 : n; }

// The coarse neighbour on cell n's side of its coarse cell; the coarse cell itself if there is none.
__device__ __forceinline__ int beside(const Halving& h, int d, int n) {
    const int own = part_of(h, d, n), count = h.coarse[d];
    if (!is_halved(h, d)) return own;
    const int other = n & 1 ? own + 1 : own - 1;
    if (other >= (d == Y ? h.start : 0) && other < (d == Y ? h.end : count)) return other;
    return (h.rings >> d) & 1 ? (n & 1 ? 0 : count - 1) : own;
}

// The fine cells of direction d that make up coarse cell n: the first, and the end.
__device__ __forceinline__ int first_part(const Halving& h, int d, int n) { return is_halved(h, d) ? 2 * n : n; }
__device__ __forceinline__ int parts_end(const Halving& h, int d, int n) {
    return is_halved(h, d) ? min(2 * n + 2, h.fine[d]) : n + 1;
}
