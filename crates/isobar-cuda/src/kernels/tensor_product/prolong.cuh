// Bilinear interpolation (9, 3, 3, 1)/16: to one cell, and fused with the couplings of one column.
#pragma once
#include "tensor_product/tensor_product.cuh"

// Returns whether fine column (or row) n of `count` is alone in its coarse one: the last of an odd number. ODD states whether
// nx or ny is odd; otherwise the compiler omits the test and saves registers.
__device__ __forceinline__ bool is_alone(int n, int count) { return ODD && !(n & 1) && n + 1 == count; }

// The coarse columns (or rows) from which fine column n of `count` is interpolated: its own, and the one on its side. Beyond
// a Dirichlet boundary, the value is the negative of the one inside. The last of an odd number, alone in
// its coarse column, has that column's value.
struct Linear {
    T near, far;
    int own, beyond; // a column with weight 0 is a readable one
};

__device__ __forceinline__ Linear linear(int n, int count, int coarse_start, int coarse_end) {
    int own = n >> 1, beyond = own + ((n & 1) ? 1 : -1);
    bool alone = is_alone(n, count), outside = beyond < coarse_start || beyond >= coarse_end;
    return {alone ? T(1) : outside ? T(0.5) : T(0.75), alone || outside ? T(0) : T(0.25), own,
            alone || outside ? own : beyond};
}

// The four coarse cells from which fine cell (i, j) of nx columns and rows up to `end` is interpolated, nearest first.
struct Bilinear {
    T weight[4];
    int at[4]; // index in the coarse field at layer 0
};

template <class C> __device__ __forceinline__ Bilinear bilinear(const Coarse<C>& coarse, int nx, int end, int i, int j) {
    Linear x = linear(i, nx, 0, coarse.nx), y = linear(j, end, coarse.start, coarse.end);
    return {{x.near * y.near, x.far * y.near, x.near * y.far, x.far * y.far},
            {coarse_index(coarse.pitch, coarse.nz, x.own, y.own), coarse_index(coarse.pitch, coarse.nz, x.beyond, y.own),
             coarse_index(coarse.pitch, coarse.nz, x.own, y.beyond),
             coarse_index(coarse.pitch, coarse.nz, x.beyond, y.beyond)}};
}

template <class C>
__device__ __forceinline__ T interpolate(const Bilinear& cell, const Coarse<C>& coarse, int k) {
    const C* layer = coarse.u + coarse.pitch * k;
    T sum = cell.weight[0] * T(layer[cell.at[0]]);
#pragma unroll
    for (int n = 1; n < 4; n++) sum = fma(cell.weight[n], T(layer[cell.at[n]]), sum);
    return sum;
}

// A fine cell's four neighbours together interpolate from eight coarse cells. Their contribution
// to the cell's row is a weighted sum of those, with weights that do not depend on the layer.
struct ProlongStencil {
    T weight[8];
    int at[8]; // index in the coarse field at layer 0
};

// `west` … `north`: couplings of the fine cell (i, j) of nx columns and rows up to `end`.
template <class C>
__device__ __forceinline__ ProlongStencil prolong_stencil(const Coarse<C>& coarse, int nx, int end, int i, int j, T west,
                                                          T east, T south, T north) {
    int ci = i >> 1, cj = j >> 1;
    int di = (i & 1) ? 1 : -1, dj = (j & 1) ? 1 : -1;
    T xf = ((i & 1) ? east : west) / T(16), xb = ((i & 1) ? west : east) / T(16);
    T yf = ((j & 1) ? north : south) / T(16), yb = ((j & 1) ? south : north) / T(16);
    // In quarters, the weights of the cell's own coarse column and of the one on its side: 3 and 1, but 4 and 0 for a
    // column alone in its own. The neighbour on that side has the same weights, from the other end; the one on the
    // other side is in the cell's own coarse column, and never alone.
    bool alone_i = is_alone(i, nx), next_alone_i = is_alone(i + 1, nx);
    bool alone_j = is_alone(j, end), next_alone_j = is_alone(j + 1, end);
    T own_i = alone_i ? T(4) : T(3), side_i = alone_i ? T(0) : T(1);
    T own_j = alone_j ? T(4) : T(3), side_j = alone_j ? T(0) : T(1);
    T x_there = (next_alone_i ? T(4) : T(3)) * xf, x_here = (next_alone_i ? T(0) : xf) + T(3) * xb;
    T y_there = (next_alone_j ? T(4) : T(3)) * yf, y_here = (next_alone_j ? T(0) : yf) + T(3) * yb;
    // w[q][p]: coarse cell (ci + (p - 1) di, cj + (q - 1) dj).
    T w[3][3];
    w[0][0] = T(0);
    w[0][1] = own_i * yb;
    w[0][2] = side_i * yb;
    w[1][0] = own_j * xb;
    w[1][1] = own_j * x_here + own_i * y_here;
    w[1][2] = own_j * x_there + side_i * y_here;
    w[2][0] = side_j * xb;
    w[2][1] = side_j * x_here + own_i * y_there;
    w[2][2] = side_j * x_there + side_i * y_there;
    bool before = ci - di < 0 || ci - di >= coarse.nx, after = ci + di < 0 || ci + di >= coarse.nx;
#pragma unroll
    for (int q = 0; q < 3; q++) {
        if (before) { w[q][1] -= w[q][0]; w[q][0] = T(0); }
        if (after) { w[q][1] -= w[q][2]; w[q][2] = T(0); }
    }
    bool below = cj - dj < coarse.start || cj - dj >= coarse.end,
         above = cj + dj < coarse.start || cj + dj >= coarse.end;
#pragma unroll
    for (int p = 0; p < 3; p++) {
        if (below) { w[1][p] -= w[0][p]; w[0][p] = T(0); }
        if (above) { w[1][p] -= w[2][p]; w[2][p] = T(0); }
    }
    // A cell with weight 0 must still be readable.
    int xs[3] = {before ? ci : ci - di, ci, after ? ci : ci + di};
    int ys[3] = {below ? cj : cj - dj, cj, above ? cj : cj + dj};
    ProlongStencil stencil;
    int n = 0;
#pragma unroll
    for (int q = 0; q < 3; q++)
#pragma unroll
        for (int p = 0; p < 3; p++)
            if (p + q > 0) {
                stencil.weight[n] = w[q][p];
                stencil.at[n] = coarse_index(coarse.pitch, coarse.nz, xs[p], ys[q]);
                n++;
            }
    return stencil;
}

template <class C>
__device__ __forceinline__ T prolong_apply(const ProlongStencil& stencil, const Coarse<C>& coarse, int k, T sum) {
    const C* layer = coarse.u + coarse.pitch * k;
#pragma unroll
    for (int n = 0; n < 8; n++) sum = fma(stencil.weight[n], T(layer[stencil.at[n]]), sum);
    return sum;
}
