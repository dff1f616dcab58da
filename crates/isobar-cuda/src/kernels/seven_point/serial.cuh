// Solves with the tridiagonal block of a column, one thread per column: for one layer, few layers, and more layers than blocks of
// threads can hold.
#pragma once
#include "seven_point/column.cuh"

// Number of layers prefetched to L2; neighbouring rows are prefetched by other threads.
constexpr int AHEAD = 4;

// Solves with the right-hand side rhs(at, true) plus the contributions of neighbours' u, and calls finish(at, x) for every
// layer. prefetch_rhs(at) prefetches what rhs reads. y and ratio are temporary vectors, unused if FLAT; y may be
// the vector that finish writes.
template <bool NEIGHBOURS, class Rhs, class Prefetch, class Finish>
__device__ __forceinline__ void solve(const Stencil& op, const Column& column, bool valid, In u, Out y, Out ratio, Rhs rhs,
                                      Prefetch prefetch_rhs, Finish finish) {
    if (!valid) return;
#if FLAT
    Fields here = load(op, column.start);
    Outside sum = outside<NEIGHBOURS>(op, column, 0, column.start, here, u);
    finish(column.start, (rhs(column.start, true) + sum.in) * inverse(sum.out));
#else
    const int nz = op.nz;
    T below = T(0), excess_over_pivot = T(0), value = T(0);
    Index at = column.start;
    Fields here = load(op, at);
#pragma unroll 2
    for (int k = 0; k < nz; k++, at += op.pitch) {
        if (k + AHEAD < nz) {
            const Index ahead = at + (Index)AHEAD * op.pitch;
            prefetch(op, ahead);
            prefetch(op, ahead + column.other);
            if (NEIGHBOURS) prefetch_l2(u + ahead + column.other);
            prefetch_rhs(ahead);
        }
        Fields over{};
        if (k + 1 < nz) over = load(op, at + op.pitch);
        Outside sum = outside<NEIGHBOURS>(op, column, k, at, here, u);
        T above = k + 1 < nz ? face<Z>(op, here, over) : T(0);
        T excess = fma(below, excess_over_pivot, sum.out);
        T reciprocal_pivot = inverse(above + excess);
        value = fma(below, value, rhs(at, true) + sum.in) * reciprocal_pivot;
        y[at] = value;
        ratio[at] = above * reciprocal_pivot;
        excess_over_pivot = excess * reciprocal_pivot;
        below = above;
        here = over;
    }
    at -= op.pitch;
    finish(at, value);
#pragma unroll 8
    for (int k = nz - 2; k >= 0; k--) {
        at -= op.pitch;
        value = fma(ratio[at], value, y[at]);
        finish(at, value);
    }
#endif
}
