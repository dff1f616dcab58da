// Measures of a matrix before it is coarsened: which directions are strong, and whether there can be strongly coupled aggregates.
// Block 256; as many blocks as there is space for partial sums.
#include "galerkin/setup/setup.cuh"
#include "reduce.cuh"

// For each direction: the sum of the positive coupling sums of each cell to the plane above, and the number of such
// cells.
KERNEL(mean_couplings, __launch_bounds__(256))(Matrix a, OwnRows own_rows, double* partial, unsigned int* counter, double* result) {
    await_previous();
    __shared__ double scratch[8 * 6];
    double total[6] = {0, 0, 0, 0, 0, 0};
    for (unsigned int n = blockIdx.x * 256 + threadIdx.x; n < a.cells; n += gridDim.x * 256) {
        double up[3] = {0, 0, 0};
        const Cell at = cell_at(a, n);
        if (!own_rows.has(at.j)) continue;
        for_each_coupling(a, at, [&](int dx, int dy, int dz, double c, const Cell&) {
            if (dx == 1) up[X] += c;
            if (dy == 1) up[Y] += c;
            if (dz == 1) up[Z] += c;
        });
        for (int d = 0; d < 3; d++) {
            if (up[d] > 0) {
                total[2 * d] += up[d];
                total[2 * d + 1] += 1;
            }
        }
    }
    grid_sum(total, scratch, {partial, counter, result});
}

// For a matrix with three stored directions: the result of `mean_couplings`; then, initially zero: result[6] becomes 1 if anywhere a coupling
// is much weaker than the next in its direction; the largest coupling; and the largest inverse coupling, infinite if adjacent
// cells are not coupled. A warp processes one row of planes at a time.
KERNEL(look_at_finest, __launch_bounds__(256))(Matrix a, OwnRows own_rows, double* partial, unsigned int* counter, double* result) {
    await_previous();
    constexpr int AHEAD = 2;
    __shared__ double scratch[8 * 6];
    const Number never = __longlong_as_double(0x7ff0000000000000LL);
    Number most = 0, least = never;
    bool found = false;
    double total[6] = {0, 0, 0, 0, 0, 0};
    const int extents[3] = {a.nx, a.ny, a.nz}, stored[3] = {0, 8, 2};
    const Number* fields[3];
#pragma unroll
    for (int d = 0; d < 3; d++) fields[d] = a.present >> stored[d] & 1 ? a.fields + a.cells * __popc(a.present & ((1u << stored[d]) - 1)) : nullptr;
    // Whether there is a coupling from cell n of a direction to the one above.
    auto is_coupled = [&](int d, int n) { return fields[d] != nullptr && (n + 1 < extents[d] || a.periodic >> d & 1); };
    auto above = [&](int d, int n) { return n + 1 < extents[d] ? n + 1 : 0; };
    const int lane = threadIdx.x & 31;
    const unsigned int rows = (unsigned int)a.nx * a.nz;
    for (unsigned int row = blockIdx.x * 8 + (threadIdx.x >> 5); row < rows; row += gridDim.x * 8) {
        const int k = quotient(row, a.by_nx), i = row - k * a.nx;
        for (int start = lane; start < a.ny; start += 32 * AHEAD) {
            Number own[AHEAD][3], next[AHEAD][3];
#pragma unroll
            for (int m = 0; m < AHEAD; m++) {
                const int n = min(start + 32 * m, a.ny - 1), at[3] = {i, unfolded(n, a.ny), k};
#pragma unroll
                for (int d = 0; d < 3; d++) {
                    // Missing couplings are negative.
                    own[m][d] = next[m][d] = -1;
                    if (!is_coupled(d, at[d])) continue;
                    own[m][d] = fields[d][a.ny * row + n];
                    const int to = above(d, at[d]);
                    if (!is_coupled(d, to)) continue;
                    next[m][d] = fields[d][place(a, {d == X ? to : i, d == Y ? to : at[Y], d == Z ? to : k})];
                }
            }
#pragma unroll
            for (int m = 0; m < AHEAD; m++) {
                const int n = start + 32 * m;
                if (n >= a.ny) break;
                if (!own_rows.has(unfolded(n, a.ny))) continue;
#pragma unroll
                for (int d = 0; d < 3; d++) {
                    const Number c = own[m][d], other = next[m][d];
                    if (c >= 0) {
                        most = max(most, c);
                        least = min(least, c);
                    }
                    if (c > 0) {
                        total[2 * d] += c;
                        total[2 * d + 1] += 1;
                    }
                    if (c >= 0 && other >= 0) found = found || other < Number(CONTRAST) * c || c < Number(CONTRAST) * other;
                }
            }
        }
    }
    if (found) result[6] = 1;
    keep_most(result + 7, most);
    keep_most(result + 8, least > 0 ? 1 / double(least) : double(never));
    grid_sum(total, scratch, {partial, counter, result});
}
