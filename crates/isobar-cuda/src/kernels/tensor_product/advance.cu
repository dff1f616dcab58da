// The first pass of a conjugate gradient iteration, streaming along y.
//
// A warp has 32 columns of both colours, a thread DEPTH layers of two columns, and goes from row to row. A cell's
// neighbours in y and of the other colour are in its own registers, those in the next columns in the neighbouring lanes'
// registers, as are those in the next layers except at the ends of its layers; so every vector is read once, a row ahead of its use.
// Values beyond the warp's layers and columns are recomputed.
// Block (32, CHUNKS); grid (ceil(pitch / 32), ceil(nz / (CHUNKS DEPTH)), segments).
#include "reduce.cuh"
#include "tensor_product/tensor_product.cuh"

#ifndef CHUNKS
#define CHUNKS 4
#endif
#ifndef DEPTH
#define DEPTH 4
#endif
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 1
#endif
constexpr int K = DEPTH;
#ifdef NZ
#define LAYERS(op) NZ
#else
#define LAYERS(op) (op).nz
#endif

// One row of a thread's two columns and their surroundings.
struct Row {
    T own[2][K];
    T beyond[2][2]; // the layers below and above
    T beside[2];    // the column beside the warp's that the other colour looks at, on layer k0 + lane
};

// u += alpha p_old;  p = z + beta p_old;  q = A p;  result = <p, q>.
// alpha is that of the previous iteration. p_old must be finite, so it must be zeroed before the first iteration. p and p_old are
// different fields, so that p can be recomputed. z and q are in this or in single precision. Traffic: u, z, p_old read; u, p, q written.
template <class R>
__device__ __forceinline__ void advance(const Operator& op, T alpha, T beta, const R* __restrict__ z, In p_old, Out u, Out p,
                                        R* __restrict__ q, Reduction to) {
    int nz = LAYERS(op), lane = threadIdx.x;
    int m0 = blockIdx.x * 32, m = min(m0 + lane, op.pitch - 1), k0 = (blockIdx.y * CHUNKS + threadIdx.y) * K;
    int rows = (op.ny + gridDim.z - 1) / gridDim.z, j0 = blockIdx.z * rows, j1 = min(j0 + rows, op.ny);
    double product[1] = {0};
    if (k0 < nz && j0 < j1) {
        bool active = m0 + lane < op.pitch;
        long long colour = (long long)op.pitch * nz;
        auto layer = [&](int k) { return op.pitch * min(max(k, 0), nz - 1); }; // clamped; coefficients outside are zero
        Row zs, ps, south, here, north;
        T us[2][K];

        // Loads the data of row j; outside the grid, of a row inside, with zero couplings.
        auto load = [&](int j) {
            int inside = readable_row(j, op.ny, op.start, op.end);
            long long row = plane(op, inside, 0);
#pragma unroll
            for (int c = 0; c < 2; c++) {
                long long column = row + c * colour + m;
#pragma unroll
                for (int i = 0; i < K; i++) {
                    long long at = column + layer(k0 + i);
                    zs.own[c][i] = T(z[at]);
                    ps.own[c][i] = p_old[at];
                    if (j >= j0 && j < j1) us[c][i] = u[at];
                }
#pragma unroll
                for (int n = 0; n < 2; n++) {
                    long long at = column + layer(n ? k0 + K : k0 - 1);
                    zs.beyond[c][n] = T(z[at]);
                    ps.beyond[c][n] = p_old[at];
                }
                // The neighbours of the other colour in row j; beyond the row's ends, with a coupling of zero, a cell of it.
                int beside = looks_east(inside, 1 - c) ? min(m0 + 32, op.pitch - 1) : max(m0 - 1, 0);
                long long at = row + c * colour + beside + layer(k0 + min(lane, K - 1));
                zs.beside[c] = T(z[at]);
                ps.beside[c] = p_old[at];
            }
        };
        // Computes p, and if the row belongs to this block, stores it and updates u. Halo rows of p are advanced too, from
        // those of z, as the neighbours do with their rows.
        auto enter = [&](Row& to, int j) {
            bool own = j >= j0 && j < j1, beside = j < 0 ? j >= op.start : j >= op.ny && j < op.end;
            long long column = plane(op, j, 0) + m;
#pragma unroll
            for (int c = 0; c < 2; c++) {
#pragma unroll
                for (int i = 0; i < K; i++) {
                    T old = ps.own[c][i], value = fma(beta, old, zs.own[c][i]);
                    to.own[c][i] = value;
                    if (active && (own || beside) && (k0 + i < nz)) {
                        long long at = column + c * colour + op.pitch * (k0 + i);
                        if (own) u[at] = fma(alpha, old, us[c][i]);
                        p[at] = value;
                    }
                }
#pragma unroll
                for (int n = 0; n < 2; n++) to.beyond[c][n] = fma(beta, ps.beyond[c][n], zs.beyond[c][n]);
                to.beside[c] = fma(beta, ps.beside[c], zs.beside[c]);
            }
        };

        load(j0 - 1);
        enter(south, j0 - 1);
        load(j0);
        enter(here, j0);
        load(j0 + 1);
        for (int j = j0; j < j1; j++) {
            Column column[2] = {load_column(op, j, 0, m), load_column(op, j, 1, m)};
            enter(north, j + 1);
            if (j + 1 < j1) load(j + 2);
            long long base = plane(op, j, 0) + m;
#pragma unroll
            for (int c = 0; c < 2; c++) {
                int shift = looks_east(j, c) ? 1 : -1;
                bool at_edge = lane == (shift > 0 ? 31 : 0);
#pragma unroll
                for (int i = 0; i < K; i++) {
                    T next = __shfl_sync(0xffffffffu, here.own[1 - c][i], (lane + shift) & 31);
                    T beside = __shfl_sync(0xffffffffu, here.beside[1 - c], i);
                    T below = i > 0 ? here.own[c][i - 1] : here.beyond[c][0];
                    T above = i + 1 < K ? here.own[c][i + 1] : here.beyond[c][1];
                    T sum = column[c].same * here.own[1 - c][i];
                    sum = fma(column[c].shifted, at_edge ? beside : next, sum);
                    sum = fma(column[c].south, south.own[1 - c][i], sum);
                    sum = fma(column[c].north, north.own[1 - c][i], sum);
                    int k = min(k0 + i, nz - 1);
                    T image = -residual(column[c], op.row[k], T(0), below, here.own[c][i], above, sum);
                    if (active && k0 + i < nz) {
                        q[base + c * colour + op.pitch * k] = R(image);
                        product[0] += double(here.own[c][i]) * double(image);
                    }
                }
            }
            south = here;
            here = north;
        }
    }
    grid_sum(product, to);
}

KERNEL(advance_direction, __launch_bounds__(32 * CHUNKS, MIN_BLOCKS))(Operator op, Ratio alpha, Ratio beta, In z, In p_old, Out u,
                                                                      Out p, Out q, Reduction to) {
    await_previous();
    advance(op, alpha.value(), beta.value(), z, p_old, u, p, q, to);
}

KERNEL(advance_direction_single, __launch_bounds__(32 * CHUNKS, MIN_BLOCKS))(Operator op, Ratio alpha, Ratio beta,
                                                                             const float* __restrict__ z, In p_old, Out u, Out p,
                                                                             float* __restrict__ q, Reduction to) {
    await_previous();
    advance(op, alpha.value(), beta.value(), z, p_old, u, p, q, to);
}
