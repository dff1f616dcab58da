// The second pass of a preconditioned conjugate gradient iteration, and the preconditioner alone.
#include "reduce.cuh"
#include "tensor_product/line_solve.cuh"

#ifndef MIN_BLOCKS
#define MIN_BLOCKS 1
#endif

// Common part of both kernels below, for the tiles blockIdx.x, blockIdx.x + gridDim.x, ...: the next tile's data is
// loaded while a tile is solved. lines: the (j, c) to process, first + step n.
template <bool SUBTRACT>
__device__ __forceinline__ void precondition_tiles(const Operator& op, int first, int step, int lines, T alpha,
                                                   const T* q, T* r, T* z, double (&sum)[2], LineScratch& scratch) {
    int nz = LAYERS(op);
    int lane = threadIdx.x % LX, chunk = threadIdx.x / LX;
    int k0 = chunk * K, k_at = op.pitch * (k0 < nz ? k0 : nz - 1);
    const LineLayer* layer = op.line + k0;
    int strips = (op.pitch + LX - 1) / LX, tiles = strips * lines;
    T r_next[K], q_next[K], total, area, pivot;

    auto load = [&](int tile) {
        int m = min(tile % strips * LX + lane, op.pitch - 1), line = first + step * (tile / strips);
        long long base = (long long)op.pitch * nz * line + m + k_at;
        total = op.total[m + op.pitch * line];
        area = op.area[m + op.pitch * line];
        pivot = op.pivot[m + op.pitch * ((long long)chunk + W * line)];
#pragma unroll
        for (int i = 0; i < K; i++) {
            int offset = op.pitch * (FULL || k0 + i < nz ? i : 0);
            r_next[i] = r[base + offset];
            if (SUBTRACT) q_next[i] = q[base + offset];
        }
    };

    int tile = blockIdx.x;
    if (tile < tiles) load(tile);
    for (; tile < tiles; tile += gridDim.x) {
        T x[K], rest[K], d[K];
        line_factor(d, total, pivot, layer);
        T per_area = reciprocal(area);
#pragma unroll
        for (int i = 0; i < K; i++) {
            rest[i] = SUBTRACT ? fma(-alpha, q_next[i], r_next[i]) : r_next[i];
            x[i] = rest[i] * (per_area * layer[i].scale);
        }
        if (tile + gridDim.x < tiles) load(tile + gridDim.x);
        line_solve(x, d, layer, scratch, chunk, lane);
        int m = tile % strips * LX + lane;
        long long base = (long long)op.pitch * nz * (first + step * (tile / strips)) + m + k_at;
        if (m < op.pitch) {
#pragma unroll
            for (int i = 0; i < K; i++)
                if (FULL || k0 + i < nz) {
                    if (SUBTRACT) {
                        r[base + op.pitch * i] = rest[i];
                        sum[0] += double(rest[i]) * double(x[i]);
                        sum[1] += double(rest[i]) * double(rest[i]);
                    }
                    z[base + op.pitch * i] = x[i];
                }
        }
    }
}

// r -= alpha q;  z = M^-1 r;  rho = <r, z>;  |r|^2, side by side.
// Traffic: r, q read; r, z written. Block LX W; grid: as many blocks as fit on the GPU at once. The parts of the reduction are arguments of their own:
// as one they cost 2 %.
KERNEL(precondition_residual, __launch_bounds__(LX* W, MIN_BLOCKS))(Operator op, Ratio alpha, In q, T* r, Out z, double* partial,
                                                                    unsigned int* counter, double* rho_norm) {
    await_previous();
    __shared__ LineScratch scratch;
    __shared__ double sums[64];
    double sum[2] = {0, 0};
    precondition_tiles<true>(op, 0, 1, 2 * op.ny, alpha.value(), q, r, z, sum, scratch);
    grid_sum(sum, sums, {partial, counter, rho_norm});
}

// z = M^-1 r on the colours first ... first + colours - 1: the block Jacobi preconditioner, and the first half
// sweep from zero. Traffic per colour: r/2 read; z/2 written. Launch as above.
KERNEL(precondition, __launch_bounds__(LX* W, MIN_BLOCKS))(Operator op, int first, int colours, T* r, Out z) {
    await_previous();
    __shared__ LineScratch scratch;
    double unused[2];
    precondition_tiles<false>(op, first, 3 - colours, colours * op.ny, T(0), nullptr, r, z, unused, scratch);
}
