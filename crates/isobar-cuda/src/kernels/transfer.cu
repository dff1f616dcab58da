// Residuals, restriction and prolongation: stencils without a line solve.
//
// A thread follows its columns upwards through gridDim.z runs of levels, keeping three levels of its
// own columns in registers; the neighbours to the south and north come through the L1 cache,
// where the other rows of the block have brought them.
// Block (32, ROWS).
#include "prolong.cuh"
#include "reduce.cuh"

#ifndef ROWS
#define ROWS 4
#endif
#ifndef RESIDUAL_REAL
#define RESIDUAL_REAL REAL
#endif
typedef RESIDUAL_REAL TR; // what a residual is stored in
#ifdef NZ
#define LEVELS(op) NZ
#else
#define LEVELS(op) (op).nz
#endif

// One column: its couplings and three levels of its values.
struct Walker {
    Column column;
    const T* at; // the column's value at level 0
    T below, here, above;

    __device__ __forceinline__ void start(const Operator& op, const T* u, int j, int c, int m, int k) {
        column = load_column(op, j, c, m);
        at = u + plane(op, j, c) + m;
        below = k > 0 ? at[op.hp * (k - 1)] : T(0);
        here = at[op.hp * k];
    }

    __device__ __forceinline__ void look_up(const Operator& op, int k, int nz) {
        above = k + 1 < nz ? at[op.hp * (k + 1)] : T(0);
    }

    __device__ __forceinline__ void step() {
        below = here;
        here = above;
    }

    __device__ __forceinline__ T at_level(const Operator& op, int k, T f, T same, T shifted, T south, T north) const {
        T sum = column.same * same;
        sum = fma(column.shifted, shifted, sum);
        sum = fma(column.south, south, sum);
        sum = fma(column.north, north, sum);
        return residual(column, op.row[k], f, below, here, above, sum);
    }
};

// What becomes of the residuals of one thread's cells.
enum Use { NORM_ONLY, STORE, RESTRICT };

// Residuals of rows 2 jc and 2 jc + 1, red or red and black. Two rows a thread, because what is north
// of one is level with the other. Returns the sum of squares.
template <int COLOURS, Use USE, bool NORM>
__device__ __forceinline__ double residual_rows(const Operator& op, const T* f, const T* u, TR* out, int hp_coarse) {
    int nz = LEVELS(op);
    int m = blockIdx.x * 32 + threadIdx.x, jc = blockIdx.y * ROWS + threadIdx.y;
    int length = (nz + gridDim.z - 1) / gridDim.z, k0 = blockIdx.z * length, k1 = min(k0 + length, nz);
    double square = 0;
    if (m >= (USE == RESTRICT ? op.nx / 2 : op.hp) || 2 * jc >= op.ny || k0 >= k1) return square;

    // With an odd number of rows the last thread's second row is its first again, and does not count.
    bool two = USE == RESTRICT || 2 * jc + 1 < op.ny;
    long long row = two ? 2LL * op.hp * nz : 0, colour = (long long)op.hp * nz;
    Walker own[COLOURS][2];
#pragma unroll
    for (int c = 0; c < COLOURS; c++)
#pragma unroll
        for (int q = 0; q < 2; q++) own[c][q].start(op, u, 2 * jc + (q && two), c, m, k0);
    const T* centre[2] = {u + plane(op, 2 * jc, 0) + m, u + plane(op, 2 * jc, 1) + m};
    long long to_south = jc > 0 ? -2 * colour : 0, to_north = 2 * jc + 2 < op.ny ? 2 * row : row;
    long long f_at = plane(op, 2 * jc, 0) + m;
    TR* to = out;
    if (USE == STORE) to += f_at;
    if (USE == RESTRICT) to += coarse_index(hp_coarse, nz, m, jc);
#pragma unroll(COLOURS == 1 ? 4 : 2)
    for (int k = k0; k < k1; k++) {
        int at = op.hp * k;
        T total = T(0);
#pragma unroll
        for (int c = 0; c < COLOURS; c++)
#pragma unroll
            for (int q = 0; q < 2; q++) own[c][q].look_up(op, k, nz);
#pragma unroll
        for (int c = 0; c < COLOURS; c++) {
            const T* other = centre[1 - c] + at;
            T low = COLOURS == 2 ? own[COLOURS - 1 - c][0].here : other[0];
            T high = COLOURS == 2 ? own[COLOURS - 1 - c][1].here : other[row];
            const T* rhs = f + f_at + c * colour + at;
            int shift = c ? 1 : -1; // of row 2 jc; the other way in row 2 jc + 1
            T r0 = own[c][0].at_level(op, k, rhs[0], low, other[shift], other[to_south], high);
            T r1 = own[c][1].at_level(op, k, rhs[row], high, other[row - shift], low, other[to_north]);
            if (NORM) {
                square += double(r0) * double(r0);
                if (two) square += double(r1) * double(r1);
            }
            if (USE == RESTRICT) total += r0 + r1;
            if (USE == STORE) {
                to[c * colour + at] = TR(r0);
                if (two) to[c * colour + row + at] = TR(r1);
                if (COLOURS == 1) {
                    to[colour + at] = TR(0);
                    if (two) to[colour + row + at] = TR(0);
                }
            }
        }
        if (USE == RESTRICT) to[hp_coarse * k] = TR(total);
#pragma unroll
        for (int c = 0; c < COLOURS; c++)
#pragma unroll
            for (int q = 0; q < 2; q++) own[c][q].step();
    }
    return square;
}

// All of these: grid (ceil(hp / 32), ceil(ceil(ny/2) / ROWS), runs). The _red ones are for after a
// red-black sweep, when the black residuals are zero.

// result = |f - A u|^2. Traffic: u, f read (red: u, f/2).
extern "C" __global__ void __launch_bounds__(32 * ROWS)
    residual_norm(Operator op, const T* __restrict__ f, const T* __restrict__ u, double* partial,
                  unsigned int* counter, double* result) {
    __shared__ double sums[32];
    double square[1] = {residual_rows<2, NORM_ONLY, true>(op, f, u, nullptr, 0)};
    grid_sum<1>(square, sums, partial, counter, result);
}

extern "C" __global__ void __launch_bounds__(32 * ROWS)
    residual_norm_red(Operator op, const T* __restrict__ f, const T* __restrict__ u, double* partial,
                      unsigned int* counter, double* result) {
    __shared__ double sums[32];
    double square[1] = {residual_rows<1, NORM_ONLY, true>(op, f, u, nullptr, 0)};
    grid_sum<1>(square, sums, partial, counter, result);
}

// r = f - A u and result = |r|^2; the red one sets r's black cells to zero.
extern "C" __global__ void __launch_bounds__(32 * ROWS)
    residual_field(Operator op, const T* __restrict__ f, const T* __restrict__ u, TR* __restrict__ r, double* partial,
                   unsigned int* counter, double* result) {
    __shared__ double sums[32];
    double square[1] = {residual_rows<2, STORE, true>(op, f, u, r, 0)};
    grid_sum<1>(square, sums, partial, counter, result);
}

extern "C" __global__ void __launch_bounds__(32 * ROWS)
    residual_field_red(Operator op, const T* __restrict__ f, const T* __restrict__ u, TR* __restrict__ r,
                       double* partial, unsigned int* counter, double* result) {
    __shared__ double sums[32];
    double square[1] = {residual_rows<1, STORE, true>(op, f, u, r, 0)};
    grid_sum<1>(square, sums, partial, counter, result);
}

// coarse = sum of the four fine residuals of a coarse cell: fine cells (2I + p, 2J + q) are m = I in both
// colours of rows 2J and 2J + 1. Even nx and ny. Traffic: u, f/2 read and 1/4 written (both: u, f read).
extern "C" __global__ void __launch_bounds__(32 * ROWS)
    residual_restrict(Operator op, const T* __restrict__ f, const T* __restrict__ u, TR* __restrict__ coarse,
                      int hp_coarse) {
    residual_rows<1, RESTRICT, false>(op, f, u, coarse, hp_coarse);
}

extern "C" __global__ void __launch_bounds__(32 * ROWS)
    residual_restrict_both(Operator op, const T* __restrict__ f, const T* __restrict__ u, TR* __restrict__ coarse,
                           int hp_coarse) {
    residual_rows<2, RESTRICT, false>(op, f, u, coarse, hp_coarse);
}

// The same after one red-black sweep that began from u = 0. The red columns were solved with zeros around
// them, so all that is left of their residual is the coupling to what the black half sweep put there: no
// vertical part, no difference of large numbers. Traffic: u/2 read and 1/4 written.
extern "C" __global__ void __launch_bounds__(32 * ROWS)
    coupling_restrict(Operator op, const T* __restrict__ u, TR* __restrict__ coarse, int hp_coarse) {
    int nz = LEVELS(op);
    int m = blockIdx.x * 32 + threadIdx.x, jc = blockIdx.y * ROWS + threadIdx.y;
    int length = (nz + gridDim.z - 1) / gridDim.z, k0 = blockIdx.z * length, k1 = min(k0 + length, nz);
    if (m >= op.nx / 2 || 2 * jc >= op.ny) return;
    Column low = load_column(op, 2 * jc, 0, m), high = load_column(op, 2 * jc + 1, 0, m);
    long long colour = (long long)op.hp * nz, row = 2 * colour;
    long long to_south = jc > 0 ? -row : 0, to_north = 2 * jc + 2 < op.ny ? 2 * row : row;
    const T* black = u + plane(op, 2 * jc, 1) + m;
    TR* to = coarse + coarse_index(hp_coarse, nz, m, jc);
#pragma unroll 4
    for (int k = k0; k < k1; k++) {
        const T* at = black + op.hp * k;
        T level = at[0], above = at[row]; // rows 2 jc and 2 jc + 1
        T sum_low = fma(low.same, level, low.shifted * at[low.shift]);
        sum_low = fma(low.south, at[to_south], fma(low.north, above, sum_low));
        T sum_high = fma(high.same, above, high.shifted * at[row + high.shift]);
        sum_high = fma(high.south, level, fma(high.north, at[to_north], sum_high));
        to[hp_coarse * k] = TR(op.row[k].d * fma(low.area, sum_low, high.area * sum_high));
    }
}

// u_c += P e, bilinear (9, 3, 3, 1)/16, e = -e outside, for the colours first, first + 1, … in grid z.
// Grid: (ceil(hp / 32), ceil(ny / ROWS), runs x colours).
extern "C" __global__ void __launch_bounds__(32 * ROWS)
    prolong_add(Operator op, int first, int colours, T* u, Coarse<TR> coarse) {
    int nz = LEVELS(op);
    int m = blockIdx.x * 32 + threadIdx.x, j = blockIdx.y * ROWS + threadIdx.y, c = first + blockIdx.z % colours;
    int runs = gridDim.z / colours, length = (nz + runs - 1) / runs;
    int k0 = (blockIdx.z / colours) * length, k1 = min(k0 + length, nz);
    int i = 2 * m + ((j + c) & 1);
    if (i >= op.nx || j >= op.ny) return;
    Bilinear cell = bilinear(coarse, i, j);
    T* to = u + plane(op, j, c) + m;
#pragma unroll 4
    for (int k = k0; k < k1; k++) to[op.hp * k] += interpolate(cell, coarse, k);
}
