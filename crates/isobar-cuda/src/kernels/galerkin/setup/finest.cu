// The finest matrix from the coefficients of a diffusion operator, and the data of levels' kernels from
// such matrices and weights. A tile has 32 by 32 cells of a layer, with i the fast index on one side and j on the other; block
// (32, 8), grid (tiles in i, tiles in j, layers, of which a block may have several).
#include "galerkin/setup/setup.cuh"

constexpr int TILE = 32, ROWS = 8;
// Rows of the finest matrix that are loaded together.
constexpr int AHEAD = 2;

// `Stencil` of diffusion.cuh.
struct Stencil {
    const T* field[3];
    const T* shift;
    const T* ratio;
    int nx, ny, nz, pitch, start, end;
};

// The specialisation of diffusion.cuh.
struct Form {
    int stored_faces;
    int field[3];
    int fixed;
    int shift;
};

__device__ __forceinline__ long long checkerboard(int pitch, int nz, int i, int j, int k) {
    return (i >> 1) + pitch * (k + (long long)nz * (((i + j) & 1) + 2LL * j));
}

__device__ __forceinline__ Number harmonic(Number a, Number b) { return a > 0 && b > 0 ? a * (b / (a + b)) : Number(0); }

// The rows of an operator in a matrix: row `first` of the matrix is the operator's row 0, of `rows`, and row `start` of `whole` rows of the grid, which may be
// periodic. With a halo row behind the operator has `stored` rows.
struct Part {
    int first, rows, stored, start, whole, periodic;
};

// The matrix of a diffusion operator; other rows stay undefined.
KERNEL(couplings_of_cells, __launch_bounds__(256))(Stencil op, Form form, Part part, Matrix a) {
    await_previous();
    __shared__ Number tile[4][TILE][TILE + 1];
    const int extents[3] = {a.nx, part.whole, a.nz};
    double ratios[3];
    In fields[3];
#pragma unroll
    for (int d = 0; d < 3; d++) {
        ratios[d] = form.stored_faces ? 1 : double(op.ratio[d]);
        fields[d] = form.field[d] == 0 ? op.field[0] : form.field[d] == 1 ? op.field[1] : op.field[2];
    }
    const int first_i = blockIdx.x * TILE, first_j = blockIdx.y * TILE;
    for (int k = blockIdx.z; k < a.nz; k += gridDim.z) {
#pragma unroll 1
        for (int start = threadIdx.y; start < TILE; start += AHEAD * ROWS) {
            // Loads are unconditional: beyond the grid the last cell is read without effect, and above the last cell the first one.
            Cell at[AHEAD];
            T own[AHEAD][3], next[AHEAD][3], shift[AHEAD];
#pragma unroll
            for (int m = 0; m < AHEAD; m++) {
                const int row = unfolded(min(first_j + start + ROWS * m, a.ny - 1), a.ny) - part.first;
                at[m] = {min(first_i + int(threadIdx.x), a.nx - 1), min(max(row, 0), part.rows - 1), k};
                const long long own_place = checkerboard(op.pitch, op.nz, at[m].i, at[m].j, k);
                shift[m] = form.shift ? op.shift[own_place] : T(0);
#pragma unroll
                for (int d = 0; d < 3; d++) {
                    Cell to = at[m];
                    int& number = d == X ? to.i : d == Y ? to.j : to.k;
                    number = number + 1 < (d == Y ? part.stored : extents[d]) ? number + 1 : 0;
                    own[m][d] = fields[d][own_place];
                    next[m][d] = fields[d][checkerboard(op.pitch, op.nz, to.i, to.j, to.k)];
                }
            }
#pragma unroll
            for (int m = 0; m < AHEAD; m++) {
                const int row = start + ROWS * m;
                double sum = shift[m];
#pragma unroll
                for (int d = 0; d < 3; d++) {
                    const int number = d == X ? at[m].i : d == Y ? part.start + at[m].j : at[m].k;
                    const bool lower = form.fixed >> (2 * d) & 1, upper = form.fixed >> (2 * d + 1) & 1;
                    const bool is_last = number + 1 == extents[d], exists = extents[d] > 1 && (!is_last || (d == Y ? part.periodic : int(a.periodic >> d & 1)));
                    const Number half = ratios[d] * double(own[m][d]), other = ratios[d] * double(next[m][d]);
                    if (lower && number == 0) sum += half;
                    if (upper && is_last) sum += half;
                    const Number face = form.stored_faces ? half : harmonic(half, other);
                    tile[d][row][threadIdx.x] = exists ? face : Number(0);
                }
                tile[3][row][threadIdx.x] = sum;
            }
        }
        __syncthreads();
        for (int row = threadIdx.y; row < TILE; row += ROWS) {
            const int i = first_i + row, m = first_j + threadIdx.x;
            if (i >= a.nx || m >= a.ny || (unsigned int)(unfolded(m, a.ny) - part.first) >= (unsigned int)part.rows) continue;
            Number* to = a.fields + (m + (unsigned int)a.ny * (i + (unsigned int)a.nx * k));
            // Stored directions are numbered x, z, y.
#pragma unroll
            for (int n = 0; n < 3; n++) {
                const int d = n == 0 ? X : n == 1 ? Z : Y;
                if (extents[d] == 1) continue;
                *to = tile[d][threadIdx.x][row];
                to += a.cells;
            }
            *to = tile[3][threadIdx.x][row];
        }
        __syncthreads();
    }
}

// Destinations of the fields.
struct Targets {
    T* field[UPPER + 1];
};

// Some planes; plane `first` is stored in row 0 of a target. In a periodic direction numbers continue beyond its ends, where subdomains
// have halo rows: -1 is the last plane. One plane may be both the row before a subdomain and the one after it.
struct Planes {
    int first, begin, end;
};

// Copies contiguous fields of a grid to vectors with a pitch, if the plane in row 0 is even; with pitch 0, to
// arrays in the order (i, k, j).
KERNEL(store, __launch_bounds__(256))(const Number* __restrict__ fields, int nx, int ny, int nz, int count, int pitch,
                                      Planes planes, Targets targets) {
    await_previous();
    // Fields that are loaded together.
    constexpr int TOGETHER = 16 / sizeof(Number);
    __shared__ Number tile[TOGETHER][TILE][TILE + 1];
    const int first_i = blockIdx.x * TILE, first_j = blockIdx.y * TILE;
    const long long cells = (long long)nx * ny * nz;
    for (int k = blockIdx.z; k < nz; k += gridDim.z) {
        for (int first = 0; first < count; first += TOGETHER) {
            const int own = min(TOGETHER, count - first);
            Number value[TOGETHER][TILE / ROWS];
            // Loads are unconditional: beyond the grid the last cell is read without effect.
#pragma unroll
            for (int m = 0; m < TOGETHER; m++) {
                if (m >= own) break;
#pragma unroll
                for (int r = 0; r < TILE / ROWS; r++) {
                    const int i = min(first_i + int(threadIdx.y) + ROWS * r, nx - 1), n = min(first_j + int(threadIdx.x), ny - 1);
                    value[m][r] = fields[(first + m) * cells + n + (unsigned int)ny * (i + (unsigned int)nx * k)];
                }
            }
#pragma unroll
            for (int m = 0; m < TOGETHER; m++) {
                if (m >= own) break;
#pragma unroll
                for (int r = 0; r < TILE / ROWS; r++) tile[m][threadIdx.y + ROWS * r][threadIdx.x] = value[m][r];
            }
            __syncthreads();
            for (int m = 0; m < own; m++) {
                T* to = targets.field[first + m];
                for (int row = threadIdx.y; row < TILE; row += ROWS) {
                    const int i = first_i + threadIdx.x, n = first_j + row;
                    if (i >= nx || n >= ny) continue;
                    const T value = T(tile[m][threadIdx.x][row]);
                    for (int plane = unfolded(n, ny) - ny; plane < planes.end; plane += ny) {
                        if (plane < planes.begin) continue;
                        const int j = plane - planes.first;
                        to[pitch ? checkerboard(pitch, nz, i, j, k) : i + (long long)nx * (k + (long long)nz * j)] = value;
                    }
                }
            }
            __syncthreads();
        }
    }
}
