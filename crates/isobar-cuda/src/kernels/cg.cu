// The two passes of a preconditioned conjugate gradient iteration.
#include "line_relax.cuh"
#include "reduce.cuh"

#ifndef MIN_BLOCKS
#define MIN_BLOCKS 1
#endif
#ifndef ROWS
#define ROWS 4
#endif
#ifndef ADVANCE_BLOCKS
#define ADVANCE_BLOCKS 1
#endif
#ifndef ADVANCE_UNROLL
#define ADVANCE_UNROLL 2
#endif

// u += alpha p_old;  p = z + beta p_old;  q = A p;  result = <p, q>.
// alpha is the previous iteration's. p_old must be
// finite, so zero it before the first iteration. p and p_old are different fields, so that p can be
// recomputed wherever it is a neighbour. Traffic: u, z, p_old read; u, p, q written.
//
// A thread climbs both colours of (m, j). Two rows a thread were tried and are slower.
// Block (32, ROWS); grid (ceil(hp / 32), ceil(ny / ROWS), runs of levels).
extern "C" __global__ void __launch_bounds__(32 * ROWS, ADVANCE_BLOCKS)
    advance_direction(Operator op, Ratio alpha_ratio, Ratio beta_ratio, const T* __restrict__ z,
                      const T* __restrict__ p_old, T* __restrict__ u, T* __restrict__ p, T* __restrict__ q,
                      double* partial, unsigned int* counter, double* result) {
    __shared__ double sums[32];
    int nz = LEVELS(op);
    int m = blockIdx.x * 32 + threadIdx.x, j = blockIdx.y * ROWS + threadIdx.y;
    int length = (nz + gridDim.z - 1) / gridDim.z, k0 = blockIdx.z * length, k1 = min(k0 + length, nz);
    double product[1] = {0};
    if (m < op.hp && j < op.ny && k0 < k1) {
        T alpha = alpha_ratio.value(), beta = beta_ratio.value();
        long long row = 2LL * op.hp * nz, colour = (long long)op.hp * nz;
        long long base = plane(op, j, 0) + m;
        long long to_south = j > 0 ? -row : 0, to_north = j + 1 < op.ny ? row : 0;
        Column column[2] = {load_column(op, j, 0, m), load_column(op, j, 1, m)};
        T below[2], here[2], above[2];

        auto direction = [&](long long at) { return fma(beta, p_old[at], z[at]); };
        // Makes p at level k known, and where the level is this run's, stores it and updates u.
        auto enter = [&](int c, int k) {
            long long at = base + c * colour + op.hp * k;
            T old = p_old[at];
            T value = fma(beta, old, z[at]);
            if (k < k1) {
                u[at] = fma(alpha, old, u[at]);
                p[at] = value;
            }
            return value;
        };
#pragma unroll
        for (int c = 0; c < 2; c++) {
            below[c] = k0 > 0 ? direction(base + c * colour + op.hp * (k0 - 1)) : T(0);
            here[c] = enter(c, k0);
        }
#pragma unroll(ADVANCE_UNROLL)
        for (int k = k0; k < k1; k++) {
            RowLevel v = op.row[k];
#pragma unroll
            for (int c = 0; c < 2; c++) above[c] = k + 1 < nz ? enter(c, k + 1) : T(0);
#pragma unroll
            for (int c = 0; c < 2; c++) {
                long long other = base + (1 - c) * colour + op.hp * k;
                T sum = column[c].same * here[1 - c];
                sum = fma(column[c].shifted, direction(other + column[c].shift), sum);
                sum = fma(column[c].south, direction(other + to_south), sum);
                sum = fma(column[c].north, direction(other + to_north), sum);
                T image = -residual(column[c], v, T(0), below[c], here[c], above[c], sum);
                q[base + c * colour + op.hp * k] = image;
                product[0] += double(here[c]) * double(image);
            }
#pragma unroll
            for (int c = 0; c < 2; c++) {
                below[c] = here[c];
                here[c] = above[c];
            }
        }
    }
    grid_sum<1>(product, sums, partial, counter, result);
}

// What both of the kernels below do, on the tiles blockIdx.x, blockIdx.x + gridDim.x, …: while one tile is
// solved the next one's loads are on their way. lines: the (j, c) to go through, first + step n.
template <bool SUBTRACT>
__device__ __forceinline__ void precondition_tiles(const Operator& op, int first, int step, int lines, T alpha,
                                                   const T* q, T* r, T* z, double (&sum)[2], LineScratch& scratch) {
    int nz = LEVELS(op);
    int lane = threadIdx.x % LX, chunk = threadIdx.x / LX;
    int k0 = chunk * K, k_at = op.hp * (k0 < nz ? k0 : nz - 1);
    const LineLevel* level = op.line + k0;
    int strips = (op.hp + LX - 1) / LX, tiles = strips * lines;
    T r_next[K], q_next[K], total, area, pivot;

    auto load = [&](int tile) {
        int m = min(tile % strips * LX + lane, op.hp - 1), line = first + step * (tile / strips);
        long long base = (long long)op.hp * nz * line + m + k_at;
        total = op.total[m + op.hp * line];
        area = op.area[m + op.hp * line];
        pivot = op.pivot[m + op.hp * ((long long)chunk + W * line)];
#pragma unroll
        for (int i = 0; i < K; i++) {
            int offset = op.hp * (FULL || k0 + i < nz ? i : 0);
            r_next[i] = r[base + offset];
            if (SUBTRACT) q_next[i] = q[base + offset];
        }
    };

    int tile = blockIdx.x;
    if (tile < tiles) load(tile);
    for (; tile < tiles; tile += gridDim.x) {
        T x[K], rest[K], d[K];
        line_factor(d, total, pivot, level);
        T per_area = reciprocal(area);
#pragma unroll
        for (int i = 0; i < K; i++) {
            rest[i] = SUBTRACT ? fma(-alpha, q_next[i], r_next[i]) : r_next[i];
            x[i] = rest[i] * (per_area * level[i].scale);
        }
        if (tile + gridDim.x < tiles) load(tile + gridDim.x);
        line_solve(x, d, level, scratch, chunk, lane);
        int m = tile % strips * LX + lane;
        long long base = (long long)op.hp * nz * (first + step * (tile / strips)) + m + k_at;
        if (m < op.hp) {
#pragma unroll
            for (int i = 0; i < K; i++)
                if (FULL || k0 + i < nz) {
                    if (SUBTRACT) {
                        r[base + op.hp * i] = rest[i];
                        sum[0] += double(rest[i]) * double(x[i]);
                        sum[1] += double(rest[i]) * double(rest[i]);
                    }
                    z[base + op.hp * i] = x[i];
                }
        }
    }
}

// r -= alpha q;  z = M^-1 r;  rho = <r, z>;  norm = |r|^2.
// Traffic: r, q read; r, z written. Block LX W; grid: as many blocks as fit on the card at once.
extern "C" __global__ void __launch_bounds__(LX* W, MIN_BLOCKS)
    precondition_residual(Operator op, Ratio alpha, const T* __restrict__ q, T* r, T* __restrict__ z, double* partial,
                          unsigned int* counter, double* rho, double* norm) {
    __shared__ LineScratch scratch;
    __shared__ double sums[64];
    double sum[2] = {0, 0};
    precondition_tiles<true>(op, 0, 1, 2 * op.ny, alpha.value(), q, r, z, sum, scratch);
    grid_sum<2>(sum, sums, partial, counter, rho, norm);
}

// z = M^-1 r on the colours first … first + colours - 1: the block-Jacobi preconditioner, and the first half
// sweep from zero. Traffic a colour: r/2 read; z/2 written. Launch as above.
extern "C" __global__ void __launch_bounds__(LX* W, MIN_BLOCKS)
    precondition(Operator op, int first, int colours, T* r, T* __restrict__ z) {
    __shared__ LineScratch scratch;
    double unused[2];
    precondition_tiles<false>(op, first, 3 - colours, colours * op.ny, T(0), nullptr, r, z, unused, scratch);
}
