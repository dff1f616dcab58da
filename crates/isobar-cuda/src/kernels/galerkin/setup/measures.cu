// Measures of a matrix before it is coarsened: which directions are strong, and whether there can be strongly coupled aggregates.
// Block 256; as many blocks as there is space for partial sums.
#include "galerkin/setup/setup.cuh"
#include "reduce.cuh"

// Cells of a thread whose couplings are loaded together.
constexpr int AHEAD = 2;

// For each direction: the sum of the positive coupling sums of each cell to the plane above, and the number of such
// cells.
KERNEL(mean_couplings, __launch_bounds__(256))(Matrix a, double* partial, unsigned int* counter, double* result) {
    await_previous();
    __shared__ double scratch[8 * 6];
    double total[6] = {0, 0, 0, 0, 0, 0};
    const unsigned int cells = a.cells, threads = gridDim.x * 256;
    for (unsigned int n = blockIdx.x * 256 + threadIdx.x; n < cells; n += AHEAD * threads) {
        Cell at[AHEAD];
        double up[AHEAD][3] = {};
#pragma unroll
        for (int m = 0; m < AHEAD; m++) at[m] = cell_at(a, min(n + m * threads, cells - 1));
        const Number* __restrict__ field = a.fields;
#pragma unroll 1
        for (unsigned int left = a.present; left != 0; left &= left - 1) {
            const int offset = __ffs(left) + UPPER, dx = offset % 3 - 1, dy = offset / 9 - 1, dz = offset / 3 % 3 - 1;
            Number c[AHEAD][2];
#pragma unroll
            for (int m = 0; m < AHEAD; m++) {
                Cell to, from;
                const bool has_to = neighbour(a, at[m], dx, dy, dz, to), has_from = neighbour(a, at[m], -dx, -dy, -dz, from);
                const Number own = field[place(a, at[m])], other = field[place(a, has_from ? from : at[m])];
                c[m][0] = has_to ? own : Number(0);
                c[m][1] = has_from ? other : Number(0);
            }
#pragma unroll
            for (int m = 0; m < AHEAD; m++) {
                if (dx != 0) up[m][X] += (dx < 0 ? c[m][1] : c[m][0]);
                if (dy != 0) up[m][Y] += c[m][0];
                if (dz != 0) up[m][Z] += (dz < 0 ? c[m][1] : c[m][0]);
            }
            field += a.cells;
        }
#pragma unroll
        for (int m = 0; m < AHEAD; m++) {
            if (n + m * threads >= cells) break;
#pragma unroll
            for (int d = 0; d < 3; d++) {
                if (up[m][d] > 0) {
                    total[2 * d] += up[m][d];
                    total[2 * d + 1] += 1;
                }
            }
        }
    }
    grid_sum<6>(total, scratch, partial, counter, result);
}

// For a matrix with three stored directions: the result of `mean_couplings`; then, initially zero: result[6] becomes 1 if anywhere a coupling
// is much weaker than the next in its direction; the largest coupling; and the largest inverse coupling, infinite if adjacent
// cells are not coupled. A warp processes one row of planes at a time.
KERNEL(look_at_finest, __launch_bounds__(256))(Matrix a, double* partial, unsigned int* counter, double* result) {
    await_previous();
    __shared__ double scratch[8 * 6];
    const Number never = __longlong_as_double(0x7ff0000000000000LL);
    Number most = 0, least = never;
    bool found = false;
    double total[6] = {0, 0, 0, 0, 0, 0};
    const int extents[3] = {a.nx, a.ny, a.nz}, stored[3] = {0, 8, 2};
    const Number* fields[3];
#pragma unroll
    for (int d = 0; d < 3; d++) fields[d] = a.fields + a.cells * __popc(a.present & ((1u << stored[d]) - 1));
    // Whether there is a coupling from cell n of a direction to the one above.
    auto is_coupled = [&](int d, int n) { return (a.present >> stored[d] & 1) && (n + 1 < extents[d] || a.periodic >> d & 1); };
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
                    // Loads are unconditional: without a coupling, what follows in memory is read, at least the row sums. Missing
                    // couplings are negative.
                    const int to = above(d, at[d]);
                    const Number c = fields[d][a.ny * row + n];
                    const Number other = fields[d][place(a, {d == X ? to : i, d == Y ? to : at[Y], d == Z ? to : k})];
                    own[m][d] = is_coupled(d, at[d]) ? c : Number(-1);
                    next[m][d] = is_coupled(d, at[d]) && is_coupled(d, to) ? other : Number(-1);
                }
            }
#pragma unroll
            for (int m = 0; m < AHEAD; m++) {
                if (start + 32 * m >= a.ny) break;
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
    grid_sum<6>(total, scratch, partial, counter, result);
}
