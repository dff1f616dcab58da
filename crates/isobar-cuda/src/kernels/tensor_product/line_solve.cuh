// The vertical line solve, with a block's columns in registers.
//
// LX lanes are adjacent columns; a column consists of W chunks of K layers, one chunk per thread. The
// pivots are ratios of continuants: with e_k = a_k + s d_k + c_k t_{k-1}, t_k = e_k / (e_k + b_k),
// the code carries n_k, d_k with t = n/d, so that the recurrence has no division and the
// reciprocals 1/d_k are independent. Every term is positive: there is no cancellation.
// Chunks exchange affine maps: of the last y of the chunk below, and of the first x of the chunk above.
#pragma once
#include "tensor_product/tensor_product.cuh"

#ifndef LANES
#define LANES 16
#endif
#ifndef CHUNKS
#define CHUNKS 16
#endif
#ifndef DEPTH
#define DEPTH 8
#endif
constexpr int LX = LANES, W = CHUNKS, K = DEPTH;

#ifdef NZ
#define LAYERS(op) NZ
#define FULL (NZ == W * K)
#else
#define LAYERS(op) (op).nz
#define FULL false
#endif

struct alignas(2 * sizeof(T)) Affine {
    T offset, slope;
};

struct LineScratch {
    Affine up[W][LX];
    Affine down[W][LX];
};

// The data-independent half of the elimination, done while loads are pending: the
// continuants d of a chunk. `s` is the column's total coupling, `pivot` the t of the layer before.
__device__ __forceinline__ void line_factor(T (&d)[K], T s, T pivot, const LineLayer* layer) {
    T n = pivot, last = T(1);
#pragma unroll
    for (int i = 0; i < K; i++) {
        LineLayer v = layer[i];
        T e = fma(s, v.d, v.a), cn = v.c * n;
        n = fma(e, last, cn);
        last = fma(e + v.b, last, cn);
        d[i] = last;
    }
}

// Solves for one chunk; `x` contains the right-hand side divided by area and scale on entry and the
// solution on return. `d` comes from line_factor and is overwritten by h.
__device__ __forceinline__ void line_solve(T (&x)[K], T (&d)[K], const LineLayer* layer, LineScratch& shared,
                                           int chunk, int lane) {
    T y = T(0);
#pragma unroll
    for (int i = 0; i < K; i++) {
        if (i > 0) x[i] *= d[i - 1];
        y = fma(layer[i].c, y, x[i]);
    }
    T in = T(0);
    if (W > 1) {
        T inverse = reciprocal(d[K - 1]);
        shared.up[chunk][lane] = Affine{y * inverse, layer[K - 1].carry * inverse};
        __syncthreads();
#pragma unroll
        for (int below = 0; below < W - 1; below++)
            if (below < chunk) {
                Affine v = shared.up[below][lane];
                in = fma(v.slope, in, v.offset);
            }
    }
    y = in;
    T last = T(1);
#pragma unroll
    for (int i = 0; i < K; i++) {
        y = fma(layer[i].c, y, x[i]);
        T inverse = reciprocal(d[i]);
        T h = layer[i].b * last * inverse;
        x[i] = y * inverse;
        last = d[i];
        d[i] = h;
    }
    T next = T(0);
    if (W > 1) {
        T offset = T(0), slope = T(1);
#pragma unroll
        for (int i = K - 1; i >= 0; i--) {
            offset = fma(d[i], offset, x[i]);
            slope *= d[i];
        }
        shared.down[chunk][lane] = Affine{offset, slope};
        __syncthreads();
#pragma unroll
        for (int above = W - 1; above > 0; above--)
            if (above > chunk) {
                Affine v = shared.down[above][lane];
                next = fma(v.slope, next, v.offset);
            }
    }
#pragma unroll
    for (int i = K - 1; i >= 0; i--) {
        next = fma(d[i], next, x[i]);
        x[i] = next;
    }
}
