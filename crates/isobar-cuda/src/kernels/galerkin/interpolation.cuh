// Transfers between a level and the next Galerkin level: P = P_x P_y P_z over the coarsened directions, R = P^T.
//
// In a coarsened direction an even cell 2I is coarse cell I, and an odd cell 2I + 1 gets below u_I + above u_(I + 1), with
// its own weights. Weights in y are stored for rows coarsened in x, weights in z for rows coarsened in x and y. All are in
// the order (i, k, j), i fastest.
//
// On subdomains, j counts from their first rows, which are even if y is coarsened, and may be a halo row: row -1 of the
// finer level contributes to the first coarse row and receives nothing; the row after the last coarse row only contributes.
#pragma once
#include "layout.cuh"

struct Interpolation {
    // The weights by direction; null if not coarsened.
    const T* below[3];
    const T* above[3];
    // Numbers of cells, then the distance of rows.
    int fine[4];
    int coarse[4];
    // Odd cells in coarsened directions.
    int odd[3];
    // Bits of directions in which the last odd cell lies below the first coarse cell (periodic).
    int ring;
    // Halo rows of the finer level before its first row, and of the coarser level after its last.
    int before, after;
};

__device__ __forceinline__ long long place(const int (&grid)[4], int i, int j, int k) {
    return (i >> 1) + (long long)grid[3] * (k + (long long)grid[2] * (((i + j) & 1) + 2LL * j));
}

// The position of the weights of odd cell n in direction d, in the line (i, j, k), of which two indices count.
template <int D>
__device__ __forceinline__ long long weight_place(const Interpolation& p, int n, int i, int j, int k) {
    const int nx = D == 0 ? p.odd[0] : p.below[0] ? p.coarse[0] : p.fine[0];
    const int nz = D == 2 ? p.odd[2] : p.fine[2];
    const int x = D == 0 ? n : i, y = D == 1 ? n : j, z = D == 2 ? n : k;
    return x + (long long)nx * (z + (long long)nz * y);
}

// The children of a coarse cell in a direction: the even cell itself, the odd one above, the odd one below.
enum { ITSELF = 0, OVER = 1, UNDER = 2 };

// The fine cells of a coarse cell in direction D: the cells' numbers, the odd cells' numbers, and whether they exist. For a missing
// child the numbers are those of a cell that can be read without effect.
template <int D> struct Children {
    int cell[3], odd[3];
    bool exists[3];

    __device__ __forceinline__ Children(const Interpolation& p, int n) {
        const bool halved = p.below[D] != nullptr;
        cell[ITSELF] = halved ? 2 * n : n;
        exists[ITSELF] = true;
        odd[ITSELF] = 0;
        const bool is_before = n > 0 || (D == 1 && p.before), is_around = p.ring >> D & 1;
        const int before = is_before ? n - 1 : p.odd[D] - 1;
        exists[OVER] = halved && n < p.odd[D];
        exists[UNDER] = halved && (is_before || is_around);
        odd[OVER] = exists[OVER] ? n : 0;
        odd[UNDER] = exists[UNDER] ? before : 0;
        cell[OVER] = exists[OVER] ? 2 * n + 1 : cell[ITSELF];
        cell[UNDER] = exists[UNDER] ? 2 * before + 1 : cell[ITSELF];
    }
};

// The weight of a child in the line (i, j, k), of which two indices count; 0 for a missing child.
template <int D, int CHILD>
__device__ __forceinline__ T child_weight(const Interpolation& p, const Children<D>& children, int i, int j, int k) {
    if (CHILD == ITSELF) return T(1);
    const T* const weights = CHILD == OVER ? p.below[D] : p.above[D];
    const T weight = weights[weight_place<D>(p, children.odd[CHILD], i, j, k)];
    return children.exists[CHILD] ? weight : T(0);
}
