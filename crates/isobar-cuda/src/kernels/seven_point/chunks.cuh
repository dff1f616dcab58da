// Solves with the tridiagonal block of a column by several threads, one chunk of DEPTH layers each.
//
// The excess e after a chunk is a Moebius function of the excess before it, (A e + B) / (e + D) with A, B, D >= 0, so chunks
// can be combined without cancellation; y and x are then linear in the values from the chunks below
// and above.
#pragma once
#include "seven_point/column.cuh"

// The values that a chunk passes to others.
struct Exchange {
    double a[MOST_CHUNKS * LANES], b[MOST_CHUNKS * LANES], d[MOST_CHUNKS * LANES];
};

// Solves with the right-hand side rhs(at, own) plus the contributions of neighbours' u, and calls finish(at, x) and note(at, 1 / pivot)
// for every layer. If not `own`, the result of rhs is not used, and it must write nothing. All threads of the block take
// part.
template <bool NEIGHBOURS, class Rhs, class Finish, class Note>
__device__ __forceinline__ void solve_noting(const Stencil& op, const Column& column, bool valid, In u, Rhs rhs, Finish finish, Note note) {
    __shared__ Exchange exchange;
    const int nz = LAYERS(op), lane = threadIdx.x, chunk = threadIdx.y, chunks = blockDim.y;
    const int k0 = chunk * DEPTH, own = lane + LANES * chunk;
    const Index start = column.start + (Index)op.pitch * k0;
    // First coefficients, then the recurrences of y and x: y_k = value + g y_{k-1}, x_k = y_k + ratio x_{k+1}.
    T g[DEPTH], ratio[DEPTH], value[DEPTH];
    T first = T(0); // the face below the chunk
    {
        double a = 0, b = 0, d = 0;
        // Above the top, the top layer is read without effect: unconditional loads can all be issued
        // at once.
        const Index top = column.start + (Index)op.pitch * (nz - 1);
        Fields here = load(op, min(start, top));
        if (k0 > 0 && k0 < nz) first = face<Z>(op, load(op, start - op.pitch), here);
        T below = first;
#pragma unroll
        for (int n = 0; n < DEPTH; n++) {
            const int k = k0 + n;
            const bool ok = valid && k < nz;
            const Index at = min(start + (Index)op.pitch * n, top);
            const Fields over = load(op, min(at + op.pitch, top));
            const Outside sum = outside<NEIGHBOURS>(op, column, k, at, here, u);
            const T right = rhs(at, ok) + sum.in, to_above = face<Z>(op, here, over);
            value[n] = ok ? right : T(0);
            g[n] = ok ? sum.out : T(0);
            ratio[n] = ok && k + 1 < nz ? to_above : T(0);
            // A closed face transmits nothing, for any e: s = (s e + s t) / (e + t) for any t.
            const bool closed = below == T(0);
            const double s = g[n], t = closed ? 1.0 : double(below), s_and_t = closed ? s : s + t;
            if (n == 0) {
                a = s_and_t;
                b = s * t;
                d = t;
            } else {
                const double scale = reciprocal(a + t), next_a = (s_and_t * a + s * t) * scale;
                const double next_b = (s_and_t * b + s * t * d) * scale;
                d = (b + t * d) * scale;
                a = next_a;
                b = next_b;
            }
            below = ratio[n];
            here = over;
        }
        exchange.a[own] = a;
        exchange.b[own] = b;
        exchange.d[own] = d;
    }
    __syncthreads();

    // The excess below the chunk, as over/under. The value below the lowest layer does not matter.
    double over = 1, under = 1;
    for (int w = 0; w < chunk; w++) {
        const int at = lane + LANES * w;
        const double next = exchange.a[at] * over + exchange.b[at] * under;
        under = over + exchange.d[at] * under;
        over = next;
        if ((w & 3) == 3) {
            over *= reciprocal(under);
            under = 1;
        }
    }
    T y = T(0), product = T(1);
    {
        const T excess_below = chunk > 0 ? T(over * reciprocal(under)) : T(0);
        T carried = first * (excess_below * inverse(first + excess_below)), below = first;
#pragma unroll
        for (int n = 0; n < DEPTH; n++) {
            const T above = ratio[n], excess = g[n] + carried, reciprocal_pivot = inverse(above + excess);
            if (valid && k0 + n < nz) note(start + (Index)op.pitch * n, reciprocal_pivot);
            g[n] = below * reciprocal_pivot;
            value[n] *= reciprocal_pivot;
            ratio[n] = above * reciprocal_pivot;
            carried = above * (excess * reciprocal_pivot);
            below = above;
            y = fma(g[n], y, value[n]);
            product *= g[n];
        }
    }
    __syncthreads();
    exchange.a[own] = y;
    exchange.b[own] = product;
    __syncthreads();

    y = T(0);
    for (int w = 0; w < chunk; w++) {
        const int at = lane + LANES * w;
        y = fma(T(exchange.b[at]), y, T(exchange.a[at]));
    }
#pragma unroll
    for (int n = 0; n < DEPTH; n++) value[n] = y = fma(g[n], y, value[n]);
    T x = T(0);
    product = T(1);
#pragma unroll
    for (int n = DEPTH - 1; n >= 0; n--) {
        x = fma(ratio[n], x, value[n]);
        product *= ratio[n];
    }
    __syncthreads();
    exchange.a[own] = x;
    exchange.b[own] = product;
    __syncthreads();

    x = T(0);
    for (int w = chunks - 1; w > chunk; w--) {
        const int at = lane + LANES * w;
        x = fma(T(exchange.b[at]), x, T(exchange.a[at]));
    }
#pragma unroll
    for (int n = DEPTH - 1; n >= 0; n--) {
        x = fma(ratio[n], x, value[n]);
        if (valid && k0 + n < nz) finish(start + (Index)op.pitch * n, x);
    }
}

// The same interface as in serial.cuh; nothing is stored in between and nothing is prefetched.
template <bool NEIGHBOURS, class Rhs, class Prefetch, class Finish>
__device__ __forceinline__ void solve(const Stencil& op, const Column& column, bool valid, In u, T*, T*, Rhs rhs, Prefetch, Finish finish) {
    solve_noting<NEIGHBOURS>(op, column, valid, u, rhs, finish, [](Index, T) {});
}
