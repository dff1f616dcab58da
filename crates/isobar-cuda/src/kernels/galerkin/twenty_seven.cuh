// A symmetric matrix that couples each cell to the 26 cells around it:
//
// (A u)_n = s_n u_n + sum_m c_nm (u_n - u_m)
//
// Couplings are stored for 13 directions, those to a higher plane j, to a higher layer of the same plane, or to a higher cell
// of the same row; the others are stored at the other cell.
#pragma once
#include "layout.cuh"

constexpr int UPPER = 13;
// Number of the stored direction along z.
constexpr int UPWARDS = 2;

struct Matrix {
    const T* couplings[UPPER];
    const T* sums;
    // The columns' tridiagonal blocks: 1 over the pivots, and the coupling to the layer above divided by the pivot.
    T* inverse;
    T* ratio;
    int nx, ny, nz, pitch;
    // Bits of the stored directions with couplings, and of the periodic directions.
    unsigned int present, periodic;
    // Stored rows, halo rows included: 0 and ny if the level is not divided. Couplings of the row before the first are stored
    // too.
    int start, end;
};

__device__ __forceinline__ long long place(const Matrix& a, int i, int j, int k) {
    return (i >> 1) + (long long)a.pitch * (k + (long long)a.nz * (((i + j) & 1) + 2LL * j));
}

// The columns around a column, by offset in x and y. A missing column is replaced by the column itself, without effect, so that
// loads are unconditional and can all be issued at once.
struct Around {
    long long first[3][3];
    // Bit 3 (1 + dx) + 1 + dy: whether there is one, and whether it is across a periodic end and of the same colour.
    unsigned int exist, lag;
};

// Maps n into start ... end - 1 across a periodic side; returns whether there is such a cell.
__device__ __forceinline__ bool bring_inside(int& n, int start, int end, bool periodic) {
    const bool is_inside = n >= start && n < end;
    n += n < start ? end - start : n >= end ? start - end : 0;
    return is_inside || periodic;
}

__device__ __forceinline__ Around columns_around(const Matrix& a, int i, int j) {
    Around around;
    around.exist = around.lag = 0;
#pragma unroll
    for (int dx = -1; dx <= 1; dx++) {
        int x = i + dx;
        const bool is_x = bring_inside(x, 0, a.nx, a.periodic & 1);
#pragma unroll
        for (int dy = -1; dy <= 1; dy++) {
            int y = j + dy;
            const bool exists = bring_inside(y, a.start, a.end, a.periodic & 2) && is_x;
            const bool lags = exists && (dx || dy) && !((x ^ i) & 1) && !((y ^ j) & 1);
            const int bit = 3 * (1 + dx) + 1 + dy;
            around.exist |= exists ? 1u << bit : 0;
            around.lag |= lags ? 1u << bit : 0;
            around.first[1 + dx][1 + dy] = exists ? place(a, x, y, 0) : place(a, i, j, 0);
        }
    }
    return around;
}

// A coupling of a cell: whether it exists, its target, its strength; whether it stays within the column without crossing
// a periodic end, and then whether it goes upwards; whether it crosses one to a cell of the same colour, whose value is old.
struct Coupling {
    bool exists;
    long long to;
    T c;
    bool in_line, upwards, lags;
};

// Selections of neighbours by their parity differences in i and j, bit |dx| + 2 |dy|.
constexpr unsigned int EVERYWHERE = 15, ACROSS = 14, BESIDE = 2, IN_OTHER_PLANES = 12, NOWHERE = 0;

// The strengths of a cell's couplings, two for each stored direction, upper before lower: read when they are used, or loaded before. Setup wrote
// them more than a launch ago, so that a kernel may load them before it waits for the previous one.
struct Stored {
    const Matrix& a;
    __device__ __forceinline__ T operator()(int n, long long at) const { return __ldg(a.couplings[n >> 1] + at); }
};

struct Loaded {
    T c[2 * UPPER];
    __device__ __forceinline__ T operator()(int n, long long) const { return c[n]; }
};

template <unsigned int WHICH, bool ALL>
__device__ __forceinline__ Loaded load_present(const Matrix& a, const Around& around, int k) {
    Loaded strengths;
    const long long own = around.first[1][1] + (long long)a.pitch * k;
#pragma unroll
    for (int n = 0; n < UPPER; n++) {
        const int dx = (n + 14) % 3 - 1, dy = (n + 14) / 9 - 1, dz = (n + 14) / 3 % 3 - 1;
        if (!(WHICH >> ((dx ? 1 : 0) + (dy ? 2 : 0)) & 1)) continue;
        if (!ALL && !(a.present >> n & 1)) continue;
        int z = k - dz;
        z += z < 0 ? a.nz : z >= a.nz ? -a.nz : 0;
        strengths.c[2 * n] = __ldg(a.couplings[n] + own);
        strengths.c[2 * n + 1] = __ldg(a.couplings[n] + around.first[1 - dx][1 - dy] + (long long)a.pitch * z);
    }
    return strengths;
}

template <unsigned int WHICH> __device__ __forceinline__ Loaded load_strengths(const Matrix& a, const Around& around, int k) {
    if (a.present == (1u << UPPER) - 1) return load_present<WHICH, true>(a, around, k);
    return load_present<WHICH, false>(a, around, k);
}

template <unsigned int WHICH, bool ALL, class C, class F>
__device__ __forceinline__ void for_each_present(const Matrix& a, const Around& around, int k, const C& strength, F f) {
    const long long own = around.first[1][1] + (long long)a.pitch * k;
    const bool is_ring = a.periodic & 4;
#pragma unroll
    for (int n = 0; n < UPPER; n++) {
        const int dx = (n + 14) % 3 - 1, dy = (n + 14) / 9 - 1, dz = (n + 14) / 3 % 3 - 1;
        if (!(WHICH >> ((dx ? 1 : 0) + (dy ? 2 : 0)) & 1)) continue;
        if (!ALL && !(a.present >> n & 1)) continue;
#pragma unroll
        for (int sign = 1; sign >= -1; sign -= 2) {
            int z = k + sign * dz;
            const int bit = 3 * (1 + sign * dx) + 1 + sign * dy;
            const bool is_within = z >= 0 && z < a.nz;
            z += z < 0 ? a.nz : z >= a.nz ? -a.nz : 0;
            Coupling coupling;
            coupling.exists = (around.exist >> bit & 1) && (is_within || is_ring);
            coupling.to = around.first[1 + sign * dx][1 + sign * dy] + (long long)a.pitch * z;
            const T c = strength(2 * n + (sign < 0), sign > 0 ? own : coupling.to);
            coupling.c = coupling.exists ? c : T(0);
            coupling.in_line = dx == 0 && dy == 0 && is_within;
            coupling.upwards = sign * dz > 0;
            coupling.lags = (around.lag >> bit & 1) || (dx == 0 && dy == 0 && !is_within);
            f(coupling);
        }
    }
}

// Calls f for the selected couplings of a cell in a column, present or zero.
template <unsigned int WHICH, class C, class F>
__device__ __forceinline__ void for_each_coupling(const Matrix& a, const Around& around, int k, const C& strength, F f) {
    if (a.present == (1u << UPPER) - 1) for_each_present<WHICH, true>(a, around, k, strength, f);
    else for_each_present<WHICH, false>(a, around, k, strength, f);
}

template <unsigned int WHICH, class F>
__device__ __forceinline__ void for_each_coupling(const Matrix& a, const Around& around, int k, F f) {
    for_each_coupling<WHICH>(a, around, k, Stored{a}, f);
}

// Computes this thread's cell, (m, k) in a block and (j, colour) in the grid; returns whether there is one.
__device__ __forceinline__ bool own_cell(const Matrix& a, int& i, int& j, int& k) {
    int m = blockIdx.x * blockDim.x + threadIdx.x;
    k = blockIdx.y * blockDim.y + threadIdx.y;
    j = blockIdx.z >> 1;
    i = 2 * m + ((j + blockIdx.z) & 1);
    return i < a.nx && k < a.nz;
}
