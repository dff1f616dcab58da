// Expansion in vertical modes and the next half sweep, from u = 0: of the other colour, only the
// sums over four neighbours that a line solve reads are needed, and these are sums over modes.
//
// COUNT modes, which must be all (modes.cuh). Columns as in line_solve.cuh; each of a column's W threads sums neighbours for every
// W-th mode. Block LX W; grid: as many blocks as fit on the GPU at once. Dynamic shared memory: STRIDE numbers for each of W K
// layers and of LX columns.
#include "tensor_product/line_solve.cuh"
#include "tensor_product/modes.cuh"

#ifndef MIN_BLOCKS
#define MIN_BLOCKS 1
#endif

struct alignas(2 * sizeof(T)) Pair {
    T first, second;
};

constexpr int PAIRS = (COUNT + 1) / 2, STRIDE = 2 * PAIRS;
// Number of modes for which a thread sums neighbours.
constexpr int MINE = (COUNT + W - 1) / W;

// u_c = M^-1 (f_c - offdiag sum_m s_m x_m). Traffic: f/2 read; u/2 written; x.
KERNEL(expand_sweep, __launch_bounds__(LX* W, MIN_BLOCKS))(Operator op, Modes modes, int colour, const Mode* __restrict__ x, In f, Out u) {
    await_previous();
    extern __shared__ __align__(16) unsigned char dynamic[];
    __shared__ LineScratch scratch;
    T* table = reinterpret_cast<T*>(dynamic); // s_m(k), times the layer's d, at m + STRIDE k
    T* beside = table + STRIDE * W * K;       // sums over neighbours, at lane + LX m
    for (int n = threadIdx.x; n < STRIDE * (W * K + LX); n += LX * W) {
        int k = n / STRIDE, q = n % STRIDE;
        table[n] = k < op.nz && q < modes.all ? op.line[k].d * modes.values[q + modes.stride * k] : T(0);
    }
    __syncthreads();

    int nz = LAYERS(op);
    int lane = threadIdx.x % LX, chunk = threadIdx.x / LX;
    int k0 = chunk * K, k_at = op.pitch * (k0 < nz ? k0 : nz - 1);
    const LineLayer* layer = op.line + k0;
    int strips = (op.pitch + LX - 1) / LX, tiles = strips * op.ny;
    T next[K], pivot;
    Column column;
    Mode neighbours[MINE][4];

    auto load = [&](int tile) {
        int m = min(tile % strips * LX + lane, op.pitch - 1), j = tile / strips;
        column = load_column(op, j, colour, m);
        pivot = op.pivot[m + op.pitch * ((long long)chunk + W * (colour + 2 * j))];
        long long row = 2LL * op.pitch * modes.all, south = j > 0 ? -row : 0, north = j + 1 < op.ny ? row : 0;
#pragma unroll
        for (int n = 0; n < MINE; n++) {
            int q = min(chunk + W * n, modes.all - 1);
            const Mode* at = x + modal_plane(op, modes, j, 1 - colour) + m + op.pitch * q;
            neighbours[n][0] = at[0];
            neighbours[n][1] = at[column.shift];
            neighbours[n][2] = at[south];
            neighbours[n][3] = at[north];
        }
        const T* from = f + plane(op, j, colour) + m + k_at;
#pragma unroll
        for (int i = 0; i < K; i++) next[i] = from[op.pitch * (FULL || k0 + i < nz ? i : 0)];
    };
    auto add_up = [&] {
#pragma unroll
        for (int n = 0; n < MINE; n++) {
            int q = chunk + W * n;
            T sum = column.same * T(neighbours[n][0]);
            sum = fma(column.shifted, T(neighbours[n][1]), sum);
            sum = fma(column.south, T(neighbours[n][2]), sum);
            sum = fma(column.north, T(neighbours[n][3]), sum);
            if (q < STRIDE) beside[lane + LX * q] = q < modes.all ? sum : T(0);
        }
    };

    int tile = blockIdx.x;
    if (tile >= tiles) return;
    load(tile);
    add_up();
    for (; tile < tiles; tile += gridDim.x) {
        T d[K], right[K];
        line_factor(d, column.total, pivot, layer);
        T per_area = reciprocal(column.area);
#pragma unroll
        for (int i = 0; i < K; i++) right[i] = next[i] * (per_area * layer[i].scale);
        bool goes_on = tile + gridDim.x < tiles;
        if (goes_on) load(tile + gridDim.x);
        __syncthreads(); // the sums of this tile are complete
#pragma unroll 1
        for (int n = 0; n < PAIRS; n++) {
            T even = beside[lane + LX * (2 * n)], odd = beside[lane + LX * (2 * n + 1)];
            const Pair* row = reinterpret_cast<const Pair*>(table + STRIDE * k0) + n;
#pragma unroll
            for (int i = 0; i < K; i++) {
                Pair v = row[PAIRS * i];
                right[i] = fma(v.second, odd, fma(v.first, even, right[i]));
            }
        }
        line_solve(right, d, layer, scratch, chunk, lane);
        int m = tile % strips * LX + lane;
        T* to = u + plane(op, tile / strips, colour) + m + k_at;
        if (m < op.pitch) {
#pragma unroll
            for (int i = 0; i < K; i++)
                if (FULL || k0 + i < nz) to[op.pitch * i] = right[i];
        }
        if (goes_on) add_up();
    }
}
