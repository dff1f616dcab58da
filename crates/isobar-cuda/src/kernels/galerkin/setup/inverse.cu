// The dense inverse of the coarsest matrix, 32 cells at a time: isobar_core::stencil::galerkin::coarsest on a GPU, in double precision. Cells are
// numbered i, then j, then k.
//
// Of the cells, E have been eliminated and R remain: x_E = G f_E + H x_R, and (D - C) x_R = f_R + H^T f_E, where D is the diagonal that row sums and
// couplings C of R give. G, H and C fill one symmetric matrix M. To eliminate a block k of R, with P = (D_k - C_kk)^-1: M_ij += M_ik P M_kj for all
// others, M_ik becomes M_ik P, and M_kk becomes P. Where couplings are positive all numbers are sums of positive ones, for any contrast.
#include "galerkin/setup/setup.cuh"

// Cells that are eliminated at a time; the width of a tile, and of the part of one thread in it.
constexpr int WIDTH = 32, TILE = 32, PART = TILE / 16;
// Rows of a panel loaded at once.
constexpr int AHEAD = 16;

struct Dense {
    double* m;
    // The row sums of R and the diagonal, one number per cell each.
    double* sums;
    double* diagonals;
    // M_ik for all i, a row of 32 for each, of this block and of the next.
    double* panels[2];
    double* pivot;
    // The fraction of its diagonal below which a pivot is zero: the cell is the last of a decoupled component.
    double singular;
    int n, first;
};

// M = C. A block of 128 threads for each cell.
KERNEL(begin_inverse, __launch_bounds__(128))(Matrix a, Dense d) {
    await_previous();
    const int row = blockIdx.x;
    double* const couplings = d.m + (size_t)row * d.n;
    for (int c = threadIdx.x; c < d.n; c += 128) couplings[c] = 0;
    __syncthreads();
    if (threadIdx.x == 0) {
        const Cell at = {row % a.nx, row / a.nx % a.ny, row / (a.nx * a.ny)};
        double total = sums(a)[place(a, at)];
        d.sums[row] = total;
        for_each_coupling(a, at, [&](int, int, int, double c, const Cell& to) {
            const int column = to.i + a.nx * (to.j + a.ny * to.k);
            if (column == row) return;
            couplings[column] += c;
            total += c;
        });
        d.diagonals[row] = total;
    }
    __syncthreads();
    if (threadIdx.x < WIDTH && threadIdx.x < d.n) d.panels[0][(size_t)row * WIDTH + threadIdx.x] = couplings[threadIdx.x];
}

// P, cell by cell. One block of (32, 32) threads.
KERNEL(invert_block, __launch_bounds__(1024, 1))(Dense d) {
    await_previous();
    __shared__ double c[WIDTH][WIDTH + 1], outside[WIDTH], least[WIDTH];
    const int x = threadIdx.x, y = threadIdx.y, rows = min(WIDTH, d.n - d.first);
    // Row sums, and couplings to cells that remain.
    double beyond = 0;
    for (int begin = d.first + WIDTH + y; begin < d.n; begin += AHEAD * WIDTH) {
        double ahead[AHEAD];
#pragma unroll
        for (int n = 0; n < AHEAD; n++) {
            // Beyond the last row it is read again without effect.
            ahead[n] = d.panels[0][(size_t)min(begin + n * WIDTH, d.n - 1) * WIDTH + x];
        }
#pragma unroll
        for (int n = 0; n < AHEAD; n++) beyond += begin + n * WIDTH < d.n ? ahead[n] : 0;
    }
    c[y][x] = beyond;
    __syncthreads();
    if (y == 0 && x < rows) {
        double sum = d.sums[d.first + x];
        for (int n = 0; n < WIDTH; n++) sum += c[n][x];
        outside[x] = sum;
        least[x] = d.singular * d.diagonals[d.first + x];
    }
    __syncthreads();
    c[y][x] = x < rows && y < rows && x != y ? d.panels[0][(size_t)(d.first + y) * WIDTH + x] : 0;
    __syncthreads();
    for (int m = 0; m < rows; m++) {
        const double across = c[m][x], down = c[y][m];
        double pivot = x > m ? across : 0;
        for (int other = 16; other > 0; other >>= 1) pivot += __shfl_xor_sync(0xffffffffu, pivot, other);
        const double own = outside[m];
        pivot += own;
        const double inverse = pivot > least[m] && pivot > 0 ? 1 / pivot : 0, factor = down * inverse;
        double value = x == m ? factor : y == m ? across * inverse : c[y][x] + factor * across;
        if (x == y && x >= m) value = x == m ? inverse : 0;
        __syncthreads();
        c[y][x] = value;
        if (x == 0 && y > m && y < rows) outside[y] += factor * own;
        __syncthreads();
    }
    d.pivot[y * WIDTH + x] = c[y][x];
}

// M without block k, in tiles at and below the diagonal, which are mirrored. Block (16, 16); grid: tiles (across, down).
KERNEL(eliminate_block, __launch_bounds__(256))(Dense d) {
    // Products with the inverse read it before they wait.
    await_previous_alone();
    const int tile[2] = {int(blockIdx.y) * TILE, int(blockIdx.x) * TILE};
    if (tile[1] > tile[0]) return;
    __shared__ double left[TILE][WIDTH + 1], right[TILE][WIDTH + 1], pivot[WIDTH][WIDTH + 1];
    const int tx = threadIdx.x, ty = threadIdx.y, thread = ty * 16 + tx, lane = thread & 31, first = d.first, n = d.n;
    auto in_block = [&](int cell) { return cell >= first && cell < first + WIDTH; };
    for (int m = thread >> 5; m < WIDTH; m += 8) pivot[m][lane] = d.pivot[m * WIDTH + lane];
    for (int m = thread >> 5; m < TILE; m += 8) {
        left[m][lane] = tile[0] + m < n ? d.panels[0][(size_t)(tile[0] + m) * WIDTH + lane] : 0;
        right[m][lane] = tile[1] + m < n ? d.panels[0][(size_t)(tile[1] + m) * WIDTH + lane] : 0;
    }
    __syncthreads();
    // M_ik P, or P itself in the rows of k.
    double product[TILE / 8];
#pragma unroll
    for (int r = 0; r < TILE / 8; r++) {
        const int row = 8 * r + (thread >> 5), cell = tile[0] + row;
        double sum = 0;
#pragma unroll
        for (int m = 0; m < WIDTH; m++) sum += left[row][m] * pivot[m][lane];
        product[r] = in_block(cell) ? pivot[cell - first][lane] : sum;
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < TILE / 8; r++) left[8 * r + (thread >> 5)][lane] = product[r];
    __syncthreads();
    if (tile[1] == 0 && thread < TILE) {
        const int cell = tile[0] + thread;
        if (cell >= first + WIDTH && cell < n) {
            double sum = d.sums[cell];
            for (int m = 0; m < WIDTH; m++) sum += left[thread][m] * d.sums[first + m];
            d.sums[cell] = sum;
        }
    }
    double value[PART][PART] = {};
#pragma unroll 8
    for (int m = 0; m < WIDTH; m++) {
        double across[PART];
#pragma unroll
        for (int b = 0; b < PART; b++) across[b] = right[tx + 16 * b][m];
#pragma unroll
        for (int a = 0; a < PART; a++) {
            const double down = left[ty + 16 * a][m];
#pragma unroll
            for (int b = 0; b < PART; b++) value[a][b] += down * across[b];
        }
    }
#pragma unroll
    for (int a = 0; a < PART; a++) {
#pragma unroll
        for (int b = 0; b < PART; b++) {
            const int i = tile[0] + ty + 16 * a, j = tile[1] + tx + 16 * b;
            if (i >= n || j > i) continue;
            double* const at = d.m + (size_t)i * n + j;
            const double now = in_block(j) ? left[ty + 16 * a][j - first] : in_block(i) ? value[a][b] : *at + value[a][b];
            *at = now;
            d.m[(size_t)j * n + i] = now;
            const int next = first + WIDTH;
            if (j >= next && j < next + WIDTH) d.panels[1][(size_t)i * WIDTH + j - next] = now;
            if (i >= next && i < next + WIDTH) d.panels[1][(size_t)j * WIDTH + i - next] = now;
        }
    }
}
