// A symmetric matrix with couplings to the 26 cells around each:
//
// (A u)_n = s_n u_n + sum_m c_nm (u_n - u_m)
//
// Couplings are stored for 13 of the directions, those to a higher plane j, to a higher layer of the same plane, or farther
// along the same row; the others are found at the other cell.
#pragma once
#include "layout.cuh"

constexpr int UPPER = 13;
// Number of the stored direction along z.
constexpr int UPWARDS = 2;

struct Matrix {
    const T* couplings[UPPER];
    const T* sums;
    // Of the columns' tridiagonal blocks: 1 over the pivots, and the coupling to the layer above over the pivot.
    T* inverse;
    T* ratio;
    int nx, ny, nz, pitch;
    // Bits of the stored directions that there are couplings for, and of the periodic ones.
    unsigned int present, periodic;
};

__device__ __forceinline__ long long place(const Matrix& a, int i, int j, int k) {
    return (i >> 1) + (long long)a.pitch * (k + (long long)a.nz * (((i + j) & 1) + 2LL * j));
}

// Brings n into 0 … count - 1 across a periodic side; whether there is such a cell.
__device__ __forceinline__ bool bring_inside(int& n, int count, bool periodic, bool& wraps) {
    if (n >= 0 && n < count) return true;
    n += n < 0 ? count : -count;
    wraps = true;
    return periodic;
}

// A coupling of a cell: to which place, how strong, and whether it stays within the column without crossing a periodic end,
// and then upwards or not; whether it crosses one to a cell of the same colour, which lags behind.
struct Coupling {
    long long to;
    T c;
    bool in_line, upwards, lags;
};

template <class F>
__device__ __forceinline__ void for_each_coupling(const Matrix& a, int i, int j, int k, F f) {
    const long long at = place(a, i, j, k);
#pragma unroll
    for (int n = 0; n < UPPER; n++) {
        if (!(a.present >> n & 1)) continue;
        const int dx = (n + 14) % 3 - 1, dy = (n + 14) / 9 - 1, dz = (n + 14) / 3 % 3 - 1;
#pragma unroll
        for (int sign = 1; sign >= -1; sign -= 2) {
            int x = i + sign * dx, y = j + sign * dy, z = k + sign * dz;
            bool across = false, around = false;
            if (!bring_inside(x, a.nx, a.periodic & 1, across) || !bring_inside(y, a.ny, a.periodic & 2, across) ||
                !bring_inside(z, a.nz, a.periodic & 4, around))
                continue;
            Coupling coupling;
            coupling.to = place(a, x, y, z);
            coupling.c = __ldg(a.couplings[n] + (sign > 0 ? at : coupling.to));
            coupling.in_line = dx == 0 && dy == 0 && !around;
            coupling.upwards = sign * dz > 0;
            coupling.lags = (across || around) && !((x ^ i) & 1) && !((y ^ j) & 1);
            f(coupling);
        }
    }
}

// This thread's cell: (m, k) in a block, (j, colour) in the grid. Whether there is one.
__device__ __forceinline__ bool own_cell(const Matrix& a, int& i, int& j, int& k) {
    int m = blockIdx.x * blockDim.x + threadIdx.x;
    k = blockIdx.y * blockDim.y + threadIdx.y;
    j = blockIdx.z >> 1;
    i = 2 * m + ((j + blockIdx.z) & 1);
    return i < a.nx && k < a.nz;
}
