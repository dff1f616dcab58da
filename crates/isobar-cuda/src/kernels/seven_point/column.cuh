// A column of cells, and the positions of its neighbours.
#pragma once
#include "seven_point/seven_point.cuh"

// The positions of a column's neighbours, relative to the column.
struct Column {
    int i, j;
    Index start;
    Index other; // to the other colour of its row
    Index to[4]; // WEST to NORTH; 0 if there is none
    bool has[4];
};

__device__ __forceinline__ Column neighbours(const Stencil& op, int m, int j, int c) {
    const Index plane = half_plane(op);
    const int odd = (j + c) & 1, nx = op.nx, ny = op.ny;
    Column at;
    at.i = 2 * m + odd;
    at.j = j;
    at.start = m + plane * (c + 2 * (Index)j);
    const Index other = at.other = plane * (1 - 2 * c);
    at.has[WEST] = at.i > 0 || (periodic(X) && nx > 1);
    at.to[WEST] = other + (at.i > 0 ? odd - 1 : ((nx - 1) >> 1) - m);
    at.has[EAST] = at.i + 1 < nx || (periodic(X) && nx > 1);
    at.to[EAST] = other + (at.i + 1 < nx ? odd : -m);
    at.has[SOUTH] = j > op.start || (periodic(Y) && ny > 1);
    at.to[SOUTH] = other + 2 * plane * (j > op.start ? -1 : ny - 1);
    at.has[NORTH] = j + 1 < op.end || (periodic(Y) && ny > 1);
    at.to[NORTH] = other + 2 * plane * (j + 1 < op.end ? 1 : -(ny - 1));
#pragma unroll
    for (int n = 0; n < 4; n++)
        if (!at.has[n]) at.to[n] = 0;
    return at;
}

// The sum of couplings out of the column at one layer, and their contributions if neighbours have values u.
struct Outside {
    T out, in;
};

// Whether values are read where there is no neighbour too, those of the column itself: loads without conditions can be issued at once. For
// many layers a thread has no registers for so many.
#ifdef SWEEP_DEPTH
constexpr bool AT_ONCE = SWEEP_DEPTH <= 12;
#else
constexpr bool AT_ONCE = true;
#endif

// The coupling through the face to neighbour n.
__device__ __forceinline__ T face_to(const Stencil& op, int n, const Fields& here, const Fields& there) {
    return n == WEST    ? face<X>(op, there, here)
           : n == EAST  ? face<X>(op, here, there)
           : n == SOUTH ? face<Y>(op, there, here)
                        : face<Y>(op, here, there);
}

template <bool NEIGHBOURS>
__device__ __forceinline__ Outside outside(const Stencil& op, const Column& column, int k, Index at, const Fields& here, In u) {
    Outside sum = {load_shift(op, at) + sides(op, here, column.i, column.j, k), T(0)};
#pragma unroll
    for (int n = 0; n < 4; n++) {
        const Index there = at + column.to[n];
        const T between = face_to(op, n, here, load(op, there));
        const T t = column.has[n] ? between : T(0);
        sum.out += t;
        if (NEIGHBOURS) {
            // The value of a missing neighbour is undefined.
            T beside = AT_ONCE || column.has[n] ? u[there] : T(0);
            if (!column.has[n]) beside = T(0);
            sum.in = fma(t, beside, sum.in);
        }
    }
#if !FLAT
    if (periodic(Z) && op.nz > 1 && (k == 0 || k + 1 == op.nz)) {
        // With two layers each cell has one such face, on either side.
        Index there = at + (Index)op.pitch * (k == 0 ? op.nz - 1 : 1 - op.nz);
        Fields h = load(op, there);
        T t = k == 0 ? face<Z>(op, h, here) : face<Z>(op, here, h);
        sum.out += t + t;
        if (NEIGHBOURS) sum.in = fma(t, u[there] + u[at], sum.in);
    }
#endif
    return sum;
}
