// The residual after a red-black sweep, streaming along y as in advance.cu: a warp has 32 columns, a thread DEPTH layers of a red
// column and of its black neighbour, with every row loaded into registers in advance. Black residuals are zero.
// Block (32, CHUNKS); grid (ceil(pitch / 32), ceil(nz / (CHUNKS DEPTH)), segments).
#include "reduce.cuh"
#include "tensor_product/tensor_product.cuh"

constexpr int K = DEPTH;
#ifdef NZ
#define LAYERS(op) NZ
#else
#define LAYERS(op) (op).nz
#endif

// result = |f - A u|^2 over red columns. Traffic: u, f/2 read.
KERNEL(residual_norm_red, __launch_bounds__(32 * CHUNKS, MIN_BLOCKS))(Operator op, In f, In u, Reduction to) {
    await_previous();
    int nz = LAYERS(op), lane = threadIdx.x;
    int m0 = blockIdx.x * 32, m = min(m0 + lane, op.pitch - 1), k0 = (blockIdx.y * CHUNKS + threadIdx.y) * K;
    int rows = (op.ny + gridDim.z - 1) / gridDim.z, j0 = blockIdx.z * rows, j1 = min(j0 + rows, op.ny);
    double square[1] = {0};
    if (k0 < nz && j0 < j1) {
        bool active = m0 + lane < op.pitch;
        int at[K + 2], edge = op.pitch * min(k0 + min(lane, K - 1), nz - 1);
#pragma unroll
        for (int i = 0; i < K + 2; i++) at[i] = op.pitch * min(max(k0 + i - 1, 0), nz - 1);
        T south[K], here[K], north[K], beside, beside_north, own[K + 2], rhs[K];
        T next_black[K], next_beside, next_own[K + 2], next_rhs[K];
        auto load_black = [&](int j) {
            int inside = readable_row(j, op.ny, op.start, op.end);
            const T* row = u + plane(op, inside, 1);
#pragma unroll
            for (int i = 0; i < K; i++) next_black[i] = row[m + at[i + 1]];
            next_beside = row[(looks_east(inside, 0) ? min(m0 + 32, op.pitch - 1) : max(m0 - 1, 0)) + edge];
        };
        auto load_red = [&](int j) {
            long long row = plane(op, j, 0) + m;
#pragma unroll
            for (int i = 0; i < K + 2; i++) next_own[i] = u[row + at[i]];
#pragma unroll
            for (int i = 0; i < K; i++) next_rhs[i] = f[row + at[i + 1]];
        };
        load_black(j0 - 1);
#pragma unroll
        for (int i = 0; i < K; i++) south[i] = next_black[i];
        load_black(j0);
#pragma unroll
        for (int i = 0; i < K; i++) here[i] = next_black[i];
        beside = next_beside;
        load_black(j0 + 1);
        load_red(j0);
        for (int j = j0; j < j1; j++) {
#pragma unroll
            for (int i = 0; i < K; i++) north[i] = next_black[i], rhs[i] = next_rhs[i];
            beside_north = next_beside;
#pragma unroll
            for (int i = 0; i < K + 2; i++) own[i] = next_own[i];
            Column column = load_column(op, j, 0, m);
            if (j + 1 < j1) {
                load_black(j + 2);
                load_red(j + 1);
            }
            int shift = looks_east(j, 0) ? 1 : -1;
            bool at_edge = lane == (shift > 0 ? 31 : 0);
#pragma unroll
            for (int i = 0; i < K; i++) {
                T next = __shfl_sync(0xffffffffu, here[i], (lane + shift) & 31);
                T far = __shfl_sync(0xffffffffu, beside, i);
                T sum = column.same * here[i];
                sum = fma(column.shifted, at_edge ? far : next, sum);
                sum = fma(column.south, south[i], sum);
                sum = fma(column.north, north[i], sum);
                T r = residual(column, op.row[min(k0 + i, nz - 1)], rhs[i], own[i], own[i + 1], own[i + 2], sum);
                if (active && k0 + i < nz) square[0] += double(r) * double(r);
            }
#pragma unroll
            for (int i = 0; i < K; i++) south[i] = here[i], here[i] = north[i];
            beside = beside_north;
        }
    }
    grid_sum(square, to);
}
