// Matrices during setup of the levels: isobar_core::stencil::galerkin on a GPU. They are stored in numbers of type
// NUMBER; sums are computed in double precision.
//
// Fields contain the couplings of the 13 stored directions (see twenty_seven.cuh), contiguously for those that are present, then
// the row sums. In a field j is the fastest index, even planes before odd ones, then i and k: whichever direction is coarsened,
// adjacent threads have adjacent cells.
//
// PRESENT, if defined, has the bits of the matrix's coupling directions, so that they can be read without
// tests.
#pragma once
#include "layout.cuh"

enum { X = 0, Y = 1, Z = 2 };

constexpr int UPPER = 13;

typedef NUMBER Number;

// A number to divide by, for dividends below 2^31: the quotient is n * factor >> shift.
struct Divisor {
    unsigned int factor, shift;
};

__device__ __forceinline__ unsigned int quotient(unsigned int n, const Divisor& by) {
    return (unsigned int)((unsigned long long)n * by.factor >> by.shift);
}

struct Matrix {
    Number* fields;
    long long cells;
    int nx, ny, nz;
    // Bits of the stored directions with couplings, and of the periodic directions.
    unsigned int present, periodic;
    // The row that is the first of a period; 0 unless the matrix has only some rows of a grid, in which it continues before that row.
    int seam;
    Divisor by_nx, by_ny;
};

// The rows of a matrix that are a GPU's own: it may have others too, beside these.
struct OwnRows {
    int first, end;
    __device__ __forceinline__ bool has(int j) const { return j >= first && j < end; }
};

// The weights of odd cells, numbered like the coarse cells below them, in the order of a matrix's fields.
struct Weights {
    Number* below;
    Number* above;
    int nx, ny, nz;
    // Whether the last odd cell lies below the first coarse cell (periodic).
    int ring;
    Divisor by_nx, by_ny;
};

struct Cell {
    int i, j, k;
};

// The position of plane j among all planes.
__device__ __forceinline__ unsigned int folded(int j, int ny) { return (j >> 1) + (j & 1 ? (ny + 1) >> 1 : 0); }

// The plane at a position.
__device__ __forceinline__ int unfolded(int n, int ny) {
    const int even = (ny + 1) >> 1;
    return n < even ? 2 * n : 2 * (n - even) + 1;
}

__device__ __forceinline__ unsigned int place(int nx, int ny, int i, int j, int k) {
    return folded(j, ny) + (unsigned int)ny * (i + (unsigned int)nx * k);
}

__device__ __forceinline__ unsigned int place(const Matrix& a, const Cell& at) { return place(a.nx, a.ny, at.i, at.j, at.k); }

__device__ __forceinline__ unsigned int place(const Weights& w, const Cell& at) { return place(w.nx, w.ny, at.i, at.j, at.k); }

// The cell at a position of a matrix or of weights.
template <class Grid> __device__ __forceinline__ Cell cell_at(const Grid& grid, unsigned int place) {
    const unsigned int row = quotient(place, grid.by_ny), k = quotient(row, grid.by_nx);
    return {int(row - k * grid.nx), unfolded(place - row * grid.ny, grid.ny), int(k)};
}

// Bits of the stored directions for which kernels are compiled.
__device__ __forceinline__ unsigned int directions(const Matrix& a) {
#ifdef PRESENT
    return PRESENT;
#else
    return a.present;
#endif
}

__device__ __forceinline__ Number* sums(const Matrix& a) { return a.fields + a.cells * __popc(directions(a)); }

// Maps n into 0 ... count - 1 across a periodic side; returns whether there is such a cell.
__device__ __forceinline__ bool bring_inside(int& n, int count, bool periodic) {
    if ((unsigned int)n < (unsigned int)count) return true;
    n += n < 0 ? count : -count;
    return periodic;
}

// Computes the cell at an offset; returns whether there is one.
__device__ __forceinline__ bool neighbour(const Matrix& a, const Cell& at, int dx, int dy, int dz, Cell& to) {
    to = {at.i + dx, at.j + dy, at.k + dz};
    return bring_inside(to.i, a.nx, a.periodic & 1) && bring_inside(to.j, a.ny, a.periodic & 2) &&
           bring_inside(to.k, a.nz, a.periodic & 4);
}

// Calls f(dx, dy, dz, c, to) for the couplings of a cell; with c = 0 and the cell itself if there is no cell at the offset, so that loads
// wait for no test.
template <class F> __device__ __forceinline__ void for_each_coupling(const Matrix& a, const Cell& at, F f) {
    const Number* __restrict__ field = a.fields;
#pragma unroll 1
    for (unsigned int left = a.present; left != 0; left &= left - 1) {
        const int offset = __ffs(left) + UPPER, dx = offset % 3 - 1, dy = offset / 9 - 1, dz = offset / 3 % 3 - 1;
        Cell up, down;
        const bool is_up = neighbour(a, at, dx, dy, dz, up), is_down = neighbour(a, at, -dx, -dy, -dz, down);
        up = is_up ? up : at;
        down = is_down ? down : at;
        const Number own = field[place(a, at)], other = field[place(a, down)];
        f(dx, dy, dz, is_up ? double(own) : 0.0, up);
        f(-dx, -dy, -dz, is_down ? double(other) : 0.0, down);
        field += a.cells;
    }
}

// COUNT cells above one another in z: the first, and every step-th from it; beyond the grid, its last cell.
template <int COUNT> struct Column {
    int i, j, k[COUNT];
    // The position in layer 0, and the distance of layers.
    unsigned int base, layer;

    __device__ __forceinline__ Column(const Matrix& a, const Cell& first, int step) : i(first.i), j(first.j) {
        base = place(a, {i, j, 0});
        layer = (unsigned int)a.nx * a.ny;
#pragma unroll
        for (int m = 0; m < COUNT; m++) k[m] = min(first.k + step * m, a.nz - 1);
    }

    __device__ __forceinline__ unsigned int place_of(int m) const { return base + layer * k[m]; }
};

// Calls f(m, dx, dy, dz, c) for the couplings of cell m of a column, in the same order. The loads of all cells are under way together.
template <int COUNT, class F> __device__ __forceinline__ void for_each_coupling(const Matrix& a, const Column<COUNT>& column, F f) {
    const Number* __restrict__ field = a.fields;
#pragma unroll 1
    for (unsigned int left = a.present; left != 0; left &= left - 1) {
        const int offset = __ffs(left) + UPPER, dx = offset % 3 - 1, dy = offset / 9 - 1, dz = offset / 3 % 3 - 1;
        Cell up, down;
        const bool is_up = neighbour(a, {column.i, column.j, 0}, dx, dy, 0, up);
        const bool is_down = neighbour(a, {column.i, column.j, 0}, -dx, -dy, 0, down);
        const unsigned int below = is_down ? place(a, {down.i, down.j, 0}) : column.base;
        Number c[2][COUNT];
#pragma unroll
        for (int m = 0; m < COUNT; m++) {
            int to = column.k[m] + dz, from = column.k[m] - dz;
            const bool has_up = bring_inside(to, a.nz, a.periodic & 4) && is_up;
            const bool has_down = bring_inside(from, a.nz, a.periodic & 4) && is_down;
            const Number own = field[column.place_of(m)];
            const Number other = field[below + column.layer * (has_down ? from : column.k[m])];
            c[0][m] = has_up ? own : Number(0);
            c[1][m] = has_down ? other : Number(0);
        }
#pragma unroll
        for (int m = 0; m < COUNT; m++) {
            f(m, dx, dy, dz, double(c[0][m]));
            f(m, -dx, -dy, -dz, double(c[1][m]));
        }
        field += a.cells;
    }
}

// A fine cell whose weight for a coarse cell exceeds this may be coupled to nothing else.
constexpr double NEARLY_ALL = 0.99;

// Whether a coarse cell may have collapsed, judged by the weights of the odd cells on its sides and the couplings to them.
__device__ __forceinline__ bool may_collapse(const double (&weight)[2], const double (&c)[2]) {
    return (c[0] <= 0 || weight[0] > NEARLY_ALL) && (c[1] <= 0 || weight[1] > NEARLY_ALL) && c[0] + c[1] > 0;
}

// Selects the number of a direction.
template <int AXIS> __device__ __forceinline__ int along(int x, int y, int z) { return AXIS == X ? x : AXIS == Y ? y : z; }
