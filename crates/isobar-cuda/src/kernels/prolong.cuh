// Bilinear interpolation (9, 3, 3, 1)/16: to one cell, and folded into the couplings of one column.
#pragma once
#include "tensor_product.cuh"

// The four coarse cells a fine cell (i, j) interpolates from, nearest first. Outside a Dirichlet boundary
// the coarse value is the negative of the one inside.
struct Bilinear {
    T weight[4];
    int at[4]; // index in the coarse field at level 0
};

template <class C> __device__ __forceinline__ Bilinear bilinear(const Coarse<C>& coarse, int i, int j) {
    int ci = i >> 1, cj = j >> 1, fi = ci + ((i & 1) ? 1 : -1), fj = cj + ((j & 1) ? 1 : -1);
    bool out_i = fi < 0 || fi >= coarse.nx, out_j = fj < 0 || fj >= coarse.ny;
    T near_i = out_i ? T(0.5) : T(0.75), far_i = out_i ? T(0) : T(0.25);
    T near_j = out_j ? T(0.5) : T(0.75), far_j = out_j ? T(0) : T(0.25);
    fi = out_i ? ci : fi;
    fj = out_j ? cj : fj;
    return {{near_i * near_j, far_i * near_j, near_i * far_j, far_i * far_j},
            {coarse_index(coarse.hp, coarse.nz, ci, cj), coarse_index(coarse.hp, coarse.nz, fi, cj),
             coarse_index(coarse.hp, coarse.nz, ci, fj), coarse_index(coarse.hp, coarse.nz, fi, fj)}};
}

template <class C>
__device__ __forceinline__ T interpolate(const Bilinear& cell, const Coarse<C>& coarse, int k) {
    const C* level = coarse.u + coarse.hp * k;
    T sum = cell.weight[0] * T(level[cell.at[0]]);
#pragma unroll
    for (int n = 1; n < 4; n++) sum = fma(cell.weight[n], T(level[cell.at[n]]), sum);
    return sum;
}

// A fine cell's four neighbours together interpolate from eight coarse cells. What they contribute
// to the cell's row is a weighted sum of those with weights that do not depend on the level.
struct ProlongStencil {
    T weight[8];
    int at[8]; // index in the coarse field at level 0
};

// `west` … `north`: couplings of the fine cell (i, j).
template <class C>
__device__ __forceinline__ ProlongStencil prolong_stencil(const Coarse<C>& coarse, int i, int j, T west, T east,
                                                          T south, T north) {
    int ci = i >> 1, cj = j >> 1;
    int di = (i & 1) ? 1 : -1, dj = (j & 1) ? 1 : -1;
    T xf = ((i & 1) ? east : west) / T(16), xb = ((i & 1) ? west : east) / T(16);
    T yf = ((j & 1) ? north : south) / T(16), yb = ((j & 1) ? south : north) / T(16);
    // w[q][p]: coarse cell (ci + (p - 1) di, cj + (q - 1) dj).
    T w[3][3];
    w[0][0] = T(0);
    w[0][1] = T(3) * yb;
    w[0][2] = yb;
    w[1][0] = T(3) * xb;
    w[1][1] = T(3) * xf + T(9) * xb + T(3) * yf + T(9) * yb;
    w[1][2] = T(9) * xf + yf + T(3) * yb;
    w[2][0] = xb;
    w[2][1] = xf + T(3) * xb + T(9) * yf;
    w[2][2] = T(3) * xf + T(3) * yf;
    bool before = ci - di < 0 || ci - di >= coarse.nx, after = ci + di < 0 || ci + di >= coarse.nx;
#pragma unroll
    for (int q = 0; q < 3; q++) {
        if (before) { w[q][1] -= w[q][0]; w[q][0] = T(0); }
        if (after) { w[q][1] -= w[q][2]; w[q][2] = T(0); }
    }
    bool below = cj - dj < 0 || cj - dj >= coarse.ny, above = cj + dj < 0 || cj + dj >= coarse.ny;
#pragma unroll
    for (int p = 0; p < 3; p++) {
        if (below) { w[1][p] -= w[0][p]; w[0][p] = T(0); }
        if (above) { w[1][p] -= w[2][p]; w[2][p] = T(0); }
    }
    // An index without weight still has to be a legal one.
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
                stencil.at[n] = coarse_index(coarse.hp, coarse.nz, xs[p], ys[q]);
                n++;
            }
    return stencil;
}

template <class C>
__device__ __forceinline__ T prolong_apply(const ProlongStencil& stencil, const Coarse<C>& coarse, int k, T sum) {
    const C* level = coarse.u + coarse.hp * k;
#pragma unroll
    for (int n = 0; n < 8; n++) sum = fma(stencil.weight[n], T(level[stencil.at[n]]), sum);
    return sum;
}
