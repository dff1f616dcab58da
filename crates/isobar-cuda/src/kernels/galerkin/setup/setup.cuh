// Matrices while the levels of a hierarchy are made of them: isobar_core::stencil::galerkin on a GPU. Stored in numbers of type
// NUMBER; what is added up is added up in double precision.
//
// Fields hold the couplings of the 13 stored directions (see twenty_seven.cuh), those that are present one after the other, then
// the row sums. In a field j is the fastest number, even planes before odd ones, then come i and k: whatever direction is halved,
// threads side by side have cells side by side.
//
// PRESENT, where it is defined, has the bits of the directions that the matrix has couplings for, so that nothing must be asked
// before they are read.
#pragma once
#include "layout.cuh"

enum { X = 0, Y = 1, Z = 2 };

constexpr int UPPER = 13;

typedef NUMBER Number;

struct Matrix {
    Number* fields;
    long long cells;
    int nx, ny, nz;
    // Bits of the stored directions that there are couplings for, and of the periodic ones.
    unsigned int present, periodic, unused;
};

// The weights of odd cells, which are numbered like the coarse cells below them, in the order of a matrix's fields.
struct Weights {
    Number* below;
    Number* above;
    int nx, ny, nz;
    // Whether below the first coarse cell lies the last odd one.
    int ring;
};

struct Cell {
    int i, j, k;
};

// Where plane j is among all.
__device__ __forceinline__ unsigned int folded(int j, int ny) { return (j >> 1) + (j & 1 ? (ny + 1) >> 1 : 0); }

// The plane that is there.
__device__ __forceinline__ int unfolded(int n, int ny) {
    const int even = (ny + 1) >> 1;
    return n < even ? 2 * n : 2 * (n - even) + 1;
}

__device__ __forceinline__ unsigned int place(int nx, int ny, int i, int j, int k) {
    return folded(j, ny) + (unsigned int)ny * (i + (unsigned int)nx * k);
}

__device__ __forceinline__ unsigned int place(const Matrix& a, const Cell& at) { return place(a.nx, a.ny, at.i, at.j, at.k); }

__device__ __forceinline__ unsigned int place(const Weights& w, const Cell& at) { return place(w.nx, w.ny, at.i, at.j, at.k); }

// The cell at a place.
__device__ __forceinline__ Cell cell_at(int nx, int ny, unsigned int place) {
    const unsigned int row = place / ny;
    return {int(row % nx), unfolded(place - row * ny, ny), int(row / nx)};
}

// Bits of the stored directions of the matrix that kernels are made for.
__device__ __forceinline__ unsigned int directions(const Matrix& a) {
#ifdef PRESENT
    return PRESENT;
#else
    return a.present;
#endif
}

__device__ __forceinline__ Number* sums(const Matrix& a) { return a.fields + a.cells * __popc(directions(a)); }

// Brings n into 0 ... count - 1 across a periodic side; whether there is such a cell.
__device__ __forceinline__ bool bring_inside(int& n, int count, bool periodic) {
    if ((unsigned int)n < (unsigned int)count) return true;
    n += n < 0 ? count : -count;
    return periodic;
}

// The cell at an offset; whether there is one.
__device__ __forceinline__ bool neighbour(const Matrix& a, const Cell& at, int dx, int dy, int dz, Cell& to) {
    to = {at.i + dx, at.j + dy, at.k + dz};
    return bring_inside(to.i, a.nx, a.periodic & 1) && bring_inside(to.j, a.ny, a.periodic & 2) &&
           bring_inside(to.k, a.nz, a.periodic & 4);
}

// Calls f(dx, dy, dz, c, to) for the couplings of a cell.
template <class F> __device__ __forceinline__ void for_each_coupling(const Matrix& a, const Cell& at, F f) {
    const unsigned int own = place(a, at);
    const Number* __restrict__ c = a.fields;
#pragma unroll
    for (int n = 0; n < UPPER; n++) {
        if (!(a.present >> n & 1)) continue;
        const int dx = (n + 14) % 3 - 1, dy = (n + 14) / 9 - 1, dz = (n + 14) / 3 % 3 - 1;
        Cell to;
        if (neighbour(a, at, dx, dy, dz, to)) f(dx, dy, dz, c[own], to);
        if (neighbour(a, at, -dx, -dy, -dz, to)) f(-dx, -dy, -dz, c[place(a, to)], to);
        c += a.cells;
    }
}

// A cell whose weights for a coarse cell are more than this may be all of that coarse cell.
constexpr double NEARLY_ALL = 0.99;

// Whether a coarse cell may have collapsed, from the weights that the odd cells on its sides have for it, and the couplings to them.
__device__ __forceinline__ bool may_collapse(const double (&weight)[2], const double (&c)[2]) {
    return (c[0] <= 0 || weight[0] > NEARLY_ALL) && (c[1] <= 0 || weight[1] > NEARLY_ALL) && c[0] + c[1] > 0;
}

// Of three numbers that of a direction.
template <int AXIS> __device__ __forceinline__ int along(int x, int y, int z) { return AXIS == X ? x : AXIS == Y ? y : z; }
