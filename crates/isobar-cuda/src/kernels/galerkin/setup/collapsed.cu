// Coarse cells whose fine cells are coupled only to each other: see isobar_core::stencil::galerkin::product.
// Threads loop over coarse cells, block 256. `any` is 0 if products have found no cell that may have collapsed.
#include "galerkin/setup/setup.cuh"

// A diagonal this small relative to its contributions is rounding error.
constexpr double ROUNDING = COLLAPSED;

__device__ __forceinline__ double diagonal(const Matrix& a, const Cell& at) {
    double sum = sums(a)[place(a, at)];
    for_each_coupling(a, at, [&](int, int, int, double c, const Cell&) { sum += c; });
    return sum;
}

// Fixes a cell of P^T A P if it has collapsed.
template <int AXIS> __device__ __forceinline__ void hold(const Matrix& a, const Weights& w, const Matrix& coarse, unsigned int n) {
    constexpr int ALONG = AXIS == X ? 0 : AXIS == Z ? 2 : 8;
    if (!(a.present >> ALONG & 1)) return;
    const Cell own = cell_at(coarse, n);
    const Number* __restrict__ next = a.fields + a.cells * __popc(a.present & ((1u << ALONG) - 1));
    const int number = along<AXIS>(own.i, own.j, own.k), count = along<AXIS>(w.nx, w.ny, w.nz);
    // The odd cell `to`, numbered like the coarse cell below it, or coarse cell `to` if `is_odd` is 0.
    auto fine = [&](int to, int is_odd) -> Cell {
        const int at = 2 * to + is_odd;
        return {AXIS == X ? at : own.i, AXIS == Y ? at : own.j, AXIS == Z ? at : own.k};
    };
    auto odd_place = [&](int to) {
        return place(w, {AXIS == X ? to : own.i, AXIS == Y ? to : own.j, AXIS == Z ? to : own.k});
    };
    const int odd[2] = {number > 0 ? number - 1 : w.ring ? count - 1 : -1, number < count ? number : -1};
    // Weights of the odd cells before and after, and the couplings to them.
    double weight[2] = {0, 0}, c[2] = {0, 0};
    if (odd[0] >= 0) {
        weight[0] = w.above[odd_place(odd[0])];
        c[0] = next[place(a, fine(odd[0], 1))];
    }
    if (odd[1] >= 0) {
        weight[1] = w.below[odd_place(odd[1])];
        c[1] = next[place(a, fine(number, 0))];
    }
    // In a periodic direction of two coarse cells, both neighbours are the same cell.
    if (w.ring && along<AXIS>(coarse.nx, coarse.ny, coarse.nz) == 1) {
        weight[1] += weight[0];
        c[1] += c[0];
        weight[0] = c[0] = 0;
    }
    // Other cells need no further data.
    if (!may_collapse(weight, c)) return;
    double total = diagonal(a, fine(number, 0));
    for (int side = 0; side < 2; side++) {
        if (weight[side] > 0) total += weight[side] * weight[side] * diagonal(a, fine(odd[side], 1));
    }
    if (total - 2 * (weight[0] * c[0] + weight[1] * c[1]) > ROUNDING * total) return;
    Number* field = coarse.fields;
    for (int stored = 0; stored < UPPER; stored++) {
        if (!(coarse.present >> stored & 1)) continue;
        const int dx = (stored + 14) % 3 - 1, dy = (stored + 14) / 9 - 1, dz = (stored + 14) / 3 % 3 - 1;
        Cell lower;
        field[n] = 0;
        if (neighbour(coarse, own, -dx, -dy, -dz, lower)) field[place(coarse, lower)] = 0;
        field += coarse.cells;
    }
    *(field + n) = total;
}

#define FOR_AXIS(AXIS, NAME)                                                                             \
    KERNEL(hold_##NAME, __launch_bounds__(256, 4))(Matrix a, Weights w, Matrix coarse, const int* any) { \
        await_previous();                                                                                \
        if (!*any) return;                                                                               \
        for (unsigned int n = blockIdx.x * 256 + threadIdx.x; n < coarse.cells; n += gridDim.x * 256)    \
            hold<AXIS>(a, w, coarse, n);                                                                 \
    }

FOR_AXIS(X, x)
FOR_AXIS(Y, y)
FOR_AXIS(Z, z)
