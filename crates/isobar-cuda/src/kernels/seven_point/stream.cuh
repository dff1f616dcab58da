// A pass over all rows of the matrix, streaming along y: a thread has a pair of cells (2m, 2m + 1) in one layer, loads row
// j + 1 while it computes row j, and carries faces in y from row to row. Neighbours in x are in the warp's registers, except at
// the warp's ends; those in z are in shared memory, except at the block's: read by every warp, they took as much of the L2 cache's
// bandwidth as all else.
//
// Block (32, ROWS). A warp processes `length` rows. Grid: x: ceil(ceil(nx / 2) / 32); flat: z: segments of rows, one per
// warp; otherwise y: layers, one per warp, z: segments.
//
// The computation of a pass is a struct with
//   V, E                values needed of neighbours too, and values needed of the cell only,
//   V neighbour(at)     reads,
//   void keep(at, v)    receives the result of neighbour in a halo row, once for each of its cells,
//   void prefetch(at)   prefetches what enter and fetch will read to L2,
//   V enter(at, own)    reads for the cells of a row; if `own`, the cell belongs to this thread,
//   E fetch(at)         called for own cells only, a row ahead of
//   void cell(row, e)   which processes one row of the matrix.
#pragma once
#include "seven_point/seven_point.cuh"

// One row of the matrix, with the values read in its cells.
template <class V> struct Row {
    Index at;
    T shift;        // s
    T t[6];         // to the neighbours, WEST to ABOVE
    bool higher[6]; // whether the neighbour has the higher number
    V here, v[6];

    __device__ __forceinline__ T diagonal() const {
        T sum = shift;
#pragma unroll
        for (int n = 0; n < (FLAT ? 4 : 6); n++) sum += t[n];
        return sum;
    }
};

// (A u)_n by differences, so that a constant gives exactly s u.
__device__ __forceinline__ T image(const Row<T>& row) {
    T sum = row.shift * row.here;
#pragma unroll
    for (int n = 0; n < (FLAT ? 4 : 6); n++) sum = fma(row.t[n], row.here - row.v[n], sum);
    return sum;
}

// No values.
struct None {};

// Rows prefetched to L2 in advance.
constexpr int AHEAD = 2;

__device__ __forceinline__ T up(T v) { return __shfl_up_sync(0xffffffffu, v, 1); }
__device__ __forceinline__ T down(T v) { return __shfl_down_sync(0xffffffffu, v, 1); }
__device__ __forceinline__ None up(None v) { return v; }
__device__ __forceinline__ None down(None v) { return v; }
__device__ __forceinline__ Fields up(const Fields& h) {
    Fields from;
#pragma unroll
    for (int n = 0; n < int(sizeof(h.f) / sizeof(T)); n++) from.f[n] = up(h.f[n]);
    return from;
}
__device__ __forceinline__ Fields down(const Fields& h) {
    Fields from;
#pragma unroll
    for (int n = 0; n < int(sizeof(h.f) / sizeof(T)); n++) from.f[n] = down(h.f[n]);
    return from;
}

#if !FLAT
// A row's values for the layers below and above. There are two, in turn, so that a row takes one barrier.
template <class V> struct Shared {
    T h[ROWS][2][32];
    V v[ROWS][2][32];
};
#endif

template <class V> struct Pair {
    Fields h[2];
    V v[2];
};

template <class F> __device__ __forceinline__ void stream(const Stencil& op, int length, F& f) {
    using V = typename F::V;
    using E = typename F::E;
    const int nz = LAYERS(op), ny = op.ny, pairs = (op.nx + 1) >> 1;
    const int lane = threadIdx.x, m = blockIdx.x * 32 + lane;
#if FLAT
    const int k = 0, segment = blockIdx.z * blockDim.y + threadIdx.y;
#else
    __shared__ Shared<V> shared[2];
    const int k = blockIdx.y * ROWS + threadIdx.y, segment = blockIdx.z;
#endif
    const int j0 = segment * length, j1 = min(j0 + length, ny);
    // Whole warps return here, or blocks where these have barriers: the shuffles below need all lanes, including those beyond the end of the row.
    if (j0 >= ny) return;
    const bool inside = k < nz, valid[2] = {inside && m < pairs, inside && 2 * m + 1 < op.nx};
    const Index plane = half_plane(op), start = m + (Index)op.pitch * k;
    auto base = [&](int j, int s) { return start + plane * ((s ^ (j & 1)) + 2 * (Index)j); };
    auto pair = [&](int j, bool is_halo = false) {
        Pair<V> row{};
#pragma unroll
        for (int s = 0; s < 2; s++)
            if (valid[s]) {
                row.h[s] = load(op, base(j, s));
                row.v[s] = f.neighbour(base(j, s));
                if (is_halo) f.keep(base(j, s), row.v[s]);
            }
        return row;
    };

    Pair<V> here{}, next{};
    E e[2] = {}, e_next[2] = {};
    T shift[2] = {}, shift_next[2] = {};
    auto enter = [&](int j, bool own, Pair<V>& row, E(&extra)[2], T(&s)[2]) {
        row = Pair<V>{};
#pragma unroll
        for (int n = 0; n < 2; n++)
            if (valid[n]) {
                Index at = base(j, n);
                row.h[n] = load(op, at);
                row.v[n] = f.enter(at, own);
                if (own) {
                    extra[n] = f.fetch(at);
                    s[n] = load_shift(op, at);
                }
            }
    };

    T t_south[2];
    V v_south[2];
    enter(j0, true, here, e, shift);
    {
        Pair<V> before{};
        if (j0 > op.start) before = pair(j0 - 1, j0 == 0);
        else if (periodic(Y) && ny > 1) before = pair(ny - 1);
#pragma unroll
        for (int s = 0; s < 2; s++) {
            t_south[s] = face<Y>(op, before.h[s], here.h[s]);
            v_south[s] = before.v[s];
        }
    }
    for (int j = j0; j < j1; j++) {
#if !FLAT
        Shared<V>& layers = shared[(j - j0) & 1];
#pragma unroll
        for (int s = 0; s < 2; s++) {
            layers.h[threadIdx.y][s][lane] = along_z(here.h[s]);
            layers.v[threadIdx.y][s][lane] = here.v[s];
        }
#endif
        if (j + AHEAD < j1) {
#pragma unroll
            for (int s = 0; s < 2; s++)
                if (valid[s]) {
                    Index at = base(j + AHEAD, s);
                    prefetch(op, at);
                    f.prefetch(at);
                }
        }
        next = Pair<V>{};
        if (j + 1 < ny) enter(j + 1, j + 1 < j1, next, e_next, shift_next);
        else if (j + 1 < op.end) next = pair(ny, true);
        else if (periodic(Y) && ny > 1) next = pair(0);

        Fields h_west = up(here.h[1]), h_east = down(here.h[0]);
        V v_west = up(here.v[1]), v_east = down(here.v[0]);
        if (lane == 0) {
            h_west = Fields{};
            v_west = V{};
            if (inside && (m > 0 || (periodic(X) && op.nx > 1))) {
                Index at = base(j, 1) + (m > 0 ? -1 : pairs - 1);
                h_west = load(op, at);
                v_west = f.neighbour(at);
            }
        }
        if (lane == 31 || m == pairs - 1) {
            h_east = Fields{};
            v_east = V{};
            if (inside && (m + 1 < pairs || (periodic(X) && op.nx > 1 && m < pairs))) {
                Index at = base(j, 0) + (m + 1 < pairs ? 1 : -m);
                h_east = load(op, at);
                v_east = f.neighbour(at);
            }
        }
#if !FLAT
        __syncthreads();
#endif
        T t_west = face<X>(op, h_west, here.h[0]), t_between = face<X>(op, here.h[0], here.h[1]),
          t_east = face<X>(op, here.h[1], h_east);
#pragma unroll
        for (int s = 0; s < 2; s++) {
            int i = 2 * m + s;
            Row<V> row;
            row.at = base(j, s);
            row.here = here.v[s];
            row.shift = shift[s] + sides(op, here.h[s], i, j, k);
            row.t[WEST] = s ? t_between : t_west;
            row.t[EAST] = s ? t_east : t_between;
            row.v[WEST] = s ? here.v[0] : v_west;
            row.v[EAST] = s ? v_east : here.v[1];
            row.higher[WEST] = periodic(X) && i == 0;
            row.higher[EAST] = !periodic(X) || i + 1 < op.nx;
#if !FLAT
            Fields h_below{}, h_above{};
            row.v[BELOW] = V{};
            row.v[ABOVE] = V{};
            if (valid[s]) {
                if (k > 0 && threadIdx.y > 0) {
                    h_below = of_along_z(layers.h[threadIdx.y - 1][s][lane]);
                    row.v[BELOW] = layers.v[threadIdx.y - 1][s][lane];
                } else if (k > 0 || (periodic(Z) && nz > 1)) {
                    Index at = row.at + (Index)op.pitch * (k > 0 ? -1 : nz - 1);
                    h_below = load(op, at);
                    row.v[BELOW] = f.neighbour(at);
                }
                if (k + 1 < nz && threadIdx.y + 1 < ROWS) {
                    h_above = of_along_z(layers.h[threadIdx.y + 1][s][lane]);
                    row.v[ABOVE] = layers.v[threadIdx.y + 1][s][lane];
                } else if (k + 1 < nz || (periodic(Z) && nz > 1)) {
                    Index at = row.at + (Index)op.pitch * (k + 1 < nz ? 1 : 1 - nz);
                    h_above = load(op, at);
                    row.v[ABOVE] = f.neighbour(at);
                }
            }
            row.t[BELOW] = face<Z>(op, h_below, here.h[s]);
            row.t[ABOVE] = face<Z>(op, here.h[s], h_above);
            row.higher[BELOW] = periodic(Z) && k == 0;
            row.higher[ABOVE] = !periodic(Z) || k + 1 < nz;
#endif
            row.t[SOUTH] = t_south[s];
            row.v[SOUTH] = v_south[s];
            row.higher[SOUTH] = begins_ring(op, j);
            t_south[s] = row.t[NORTH] = face<Y>(op, here.h[s], next.h[s]);
            v_south[s] = here.v[s];
            row.v[NORTH] = next.v[s];
            row.higher[NORTH] = !ends_ring(op, j);
            if (valid[s]) f.cell(row, e[s]);
        }
        here = next;
#pragma unroll
        for (int s = 0; s < 2; s++) {
            e[s] = e_next[s];
            shift[s] = shift_next[s];
        }
    }
}
