// Transfers between a grid and some of its vertical modes.
//
// A launch handles up to COUNT modes (modes.cuh), whose table a block keeps in shared memory. A warp has 32
// adjacent columns; `split` warps of a block share them, with a range of layers each.
// Block (32, WARPS), as many as the GPU holds. Dynamic shared memory: nz COUNT numbers, and 32 WARPS COUNT more if
// columns are shared.
#include "reduce.cuh"
#include "tensor_product/modes.cuh"
#include "tensor_product/residual.cuh"

#define WARPS 8

// Columns per thread in projection and expansion.
constexpr int PAIR = COUNT * sizeof(T) <= 160 ? 2 : 1;
// Layers that projection loads in advance.
constexpr int AHEAD = 4;

struct Share {
    const T* table; // s_m(k) in shared memory
    T* partial;
    int part, k0, k1;
    int tiles, strips, per_block, within;

    __device__ __forceinline__ Share(const Operator& op, const Modes& modes, int lines, int split) {
        extern __shared__ __align__(16) unsigned char shared[];
        T* to = reinterpret_cast<T*>(shared);
        for (int n = threadIdx.x + 32 * threadIdx.y; n < op.nz * COUNT; n += 32 * WARPS)
            to[n] = modes.values[modes.first + n % COUNT + modes.stride * (n / COUNT)];
        __syncthreads();
        table = to;
        partial = to + op.nz * COUNT;
        int length = (op.nz + split - 1) / split;
        part = threadIdx.y % split;
        k0 = min(part * length, op.nz);
        k1 = min(k0 + length, op.nz);
        strips = (op.pitch + 31) / 32;
        tiles = strips * lines;
        per_block = WARPS / split;
        within = threadIdx.y / split;
    }
};

// The residual of one column, layer by layer.
struct ColumnResidual {
    Walker own;
    const T* other;
    const T* rhs;
    long long to_south, to_north;

    __device__ __forceinline__ ColumnResidual(const Operator& op, const T* f, const T* u, int j, int c, int m, int k) {
        own.start(op, u, j, c, m, k);
        long long colour = (long long)op.pitch * op.nz;
        other = u + plane(op, j, 1 - c) + m;
        rhs = f + plane(op, j, c) + m;
        to_south = j > op.start ? -2 * colour : 0;
        to_north = j + 1 < op.end ? 2 * colour : 0;
    }

    __device__ __forceinline__ T next(const Operator& op, int k) {
        int at = op.pitch * k;
        own.look_up(op, k, op.nz);
        const T* beside = other + at;
        T r = own.at_layer(op, k, rhs[at], beside[0], beside[own.column.shift], beside[to_south], beside[to_north]);
        own.step();
        return r;
    }
};

// Stores the sums of one column, added over all warps that share it.
__device__ __forceinline__ void store(const Share& share, const T (&sums)[COUNT], int split, int count, bool inside, Mode* to,
                                      int pitch) {
    if (split == 1) {
#pragma unroll
        for (int q = 0; q < COUNT; q++)
            if (inside && q < count) to[pitch * q] = Mode(sums[q]);
        return;
    }
    T* own = share.partial + (threadIdx.y * COUNT) * 32 + threadIdx.x;
#pragma unroll
    for (int q = 0; q < COUNT; q++) own[32 * q] = sums[q];
    __syncthreads();
    const T* all = share.partial + (share.within * split * COUNT) * 32 + threadIdx.x;
    for (int q = share.part; inside && q < count; q += split) {
        T sum = T(0);
        for (int w = 0; w < split; w++) sum += all[32 * (w * COUNT + q)];
        to[pitch * q] = Mode(sum);
    }
    __syncthreads();
}

// The projected vector: f - A u of both colours, or of the red one, after a sweep that ends with the black one.
enum Which { RESIDUAL, RESIDUAL_RED };

template <Which WHICH>
__device__ __forceinline__ double project_tiles(const Operator& op, const T* f, const T* u, Mode* g,
                                                const Modes& modes, int split) {
    const bool red = WHICH == RESIDUAL_RED;
    Share share(op, modes, red ? op.ny : 2 * op.ny, split);
    const int count = min(COUNT, modes.all - modes.first);
    double square = 0;
    for (int first = blockIdx.x * share.per_block; first < share.tiles; first += gridDim.x * share.per_block) {
        int tile = first + share.within, line = tile / share.strips;
        int m = tile % share.strips * 32 + threadIdx.x;
        int j = red ? line : line >> 1, c = red ? 0 : line & 1;
        bool inside = tile < share.tiles && m < op.pitch;
        T sums[COUNT];
#pragma unroll
        for (int q = 0; q < COUNT; q++) sums[q] = T(0);
        if (inside && share.k0 < share.k1) {
            ColumnResidual column(op, f, u, j, c, m, share.k0);
#pragma unroll 2
            for (int k = share.k0; k < share.k1; k++) {
                T r = column.next(op, k);
                square += double(r) * double(r);
#pragma unroll
                for (int q = 0; q < COUNT; q++) sums[q] = fma(share.table[k * COUNT + q], r, sums[q]);
            }
        }
        Mode* to = g + modal_plane(op, modes, j, c) + m;
        store(share, sums, split, count, inside, to, op.pitch);
        if (red && inside) {
            // The residual of the other colour is zero.
            Mode* black = to + (long long)op.pitch * modes.all;
            for (int q = share.part; q < count; q += split) black[op.pitch * q] = Mode(0);
        }
    }
    return square;
}

// g_m = sum_k s_m(k) r_k. Traffic: r read. Two columns per thread if registers suffice, since reading the
// table is the limit. With ROUND, r is stored in single precision in the memory of u, for single.cu.
template <bool NORM, bool ROUND>
__device__ __forceinline__ double project_field(const Operator& op, const T* r, Mode* g, const Modes& modes, int split,
                                                T* u) {
    Share share(op, modes, 2 * op.ny / PAIR, split);
    const int count = min(COUNT, modes.all - modes.first);
    double square = 0;
    for (int first = blockIdx.x * share.per_block; first < share.tiles; first += gridDim.x * share.per_block) {
        int tile = first + share.within, line = PAIR * (tile / share.strips); // c + 2 j
        int m = tile % share.strips * 32 + threadIdx.x;
        bool inside = tile < share.tiles && m < op.pitch;
        T sums[PAIR][COUNT];
#pragma unroll
        for (int p = 0; p < PAIR; p++)
#pragma unroll
            for (int q = 0; q < COUNT; q++) sums[p][q] = T(0);
        if (inside) {
            const long long colour = (long long)op.pitch * op.nz, start = plane(op, line >> 1, line & 1);
            const T* at = r + start + m;
            float* rounded = ROUND ? reinterpret_cast<float*>(u + start) + colour + m : nullptr;
            T next[AHEAD][PAIR];
            // Loads the layers from k on; above the last, the last.
            auto load = [&](int k) {
#pragma unroll
                for (int i = 0; i < AHEAD; i++)
#pragma unroll
                    for (int p = 0; p < PAIR; p++) next[i][p] = at[op.pitch * min(k + i, share.k1 - 1) + p * colour];
            };
            if (share.k0 < share.k1) load(share.k0);
            for (int first_k = share.k0; first_k < share.k1; first_k += AHEAD) {
                T values[AHEAD][PAIR];
#pragma unroll
                for (int i = 0; i < AHEAD; i++)
#pragma unroll
                    for (int p = 0; p < PAIR; p++) values[i][p] = next[i][p];
                if (first_k + AHEAD < share.k1) load(first_k + AHEAD);
#pragma unroll
                for (int i = 0; i < AHEAD; i++) {
                    int k = first_k + i;
                    if (k >= share.k1) break;
#pragma unroll
                    for (int p = 0; p < PAIR; p++) {
                        T value = values[i][p];
                        if (NORM) square += double(value) * double(value);
                        if (ROUND) rounded[op.pitch * k + 2 * p * colour] = float(value);
                    }
#pragma unroll
                    for (int q = 0; q < COUNT; q++) {
                        T s = share.table[k * COUNT + q];
#pragma unroll
                        for (int p = 0; p < PAIR; p++) sums[p][q] = fma(s, values[i][p], sums[p][q]);
                    }
                }
            }
        }
#pragma unroll
        for (int p = 0; p < PAIR; p++) {
            Mode* to = g + modal_plane(op, modes, (line + p) >> 1, (line + p) & 1) + m;
            store(share, sums[p], split, count, inside, to, op.pitch);
        }
    }
    return square;
}

KERNEL(project, __launch_bounds__(32 * WARPS))(Operator op, Modes modes, int split, In r, Mode* __restrict__ g) {
    await_previous();
    project_field<false, false>(op, r, g, modes, split, nullptr);
}

// g_m = sum_k s_m(k) r_k and result = |r|^2.
KERNEL(project_norm, __launch_bounds__(32 * WARPS))(Operator op, Modes modes, int split, In r, Mode* __restrict__ g, Reduction to) {
    await_previous();
    double square[1] = {project_field<true, false>(op, r, g, modes, split, nullptr)};
    grid_sum(square, to);
}

#if !SINGLE

// g_m = sum_k s_m(k) r_k, |r|^2, and r rounded. Traffic: r read; half a vector written.
KERNEL(project_rounded, __launch_bounds__(32 * WARPS))(Operator op, Modes modes, int split, In r, Mode* __restrict__ g, Out u,
                                                       Reduction to) {
    await_previous();
    double square[1] = {project_field<true, true>(op, r, g, modes, split, u)};
    grid_sum(square, to);
}

#endif

// g_m = sum_k s_m(k) (f - A u)_k and result = |f - A u|^2. Traffic: f, u read (red: f/2).
KERNEL(project_residual, __launch_bounds__(32 * WARPS))(Operator op, Modes modes, int split, In f, In u, Mode* __restrict__ g,
                                                        Reduction to) {
    await_previous();
    double square[1] = {project_tiles<RESIDUAL>(op, f, u, g, modes, split)};
    grid_sum(square, to);
}

KERNEL(project_residual_red, __launch_bounds__(32 * WARPS))(Operator op, Modes modes, int split, In f, In u, Mode* __restrict__ g,
                                                            Reduction to) {
    await_previous();
    double square[1] = {project_tiles<RESIDUAL_RED>(op, f, u, g, modes, split)};
    grid_sum(square, to);
}

// u_k += sum_m s_m(k) x_m, or u_k = sum_m s_m(k) x_m; on one colour, or from red on both. As many columns per thread as
// in projection.
KERNEL(expand, __launch_bounds__(32 * WARPS))(Operator op, Modes modes, int split, int first_colour, int colours, int adds,
                                              const Mode* __restrict__ x, Out u) {
    await_previous();
    const int lines = colours * op.ny;
    Share share(op, modes, (lines + PAIR - 1) / PAIR, split);
    const int count = min(COUNT, modes.all - modes.first);
    for (int tile = blockIdx.x * share.per_block + share.within; tile < share.tiles;
         tile += gridDim.x * share.per_block) {
        int m = tile % share.strips * 32 + threadIdx.x;
        if (m >= op.pitch) continue;
        T mode[PAIR][COUNT];
        T* to[PAIR];
        bool present[PAIR];
#pragma unroll
        for (int p = 0; p < PAIR; p++) {
            int line = PAIR * (tile / share.strips) + p;
            present[p] = line < lines;
            if (!present[p]) line = lines - 1;
            int j = colours == 2 ? line >> 1 : line, c = colours == 2 ? line & 1 : first_colour;
            const Mode* from = x + modal_plane(op, modes, j, c) + m;
            to[p] = u + plane(op, j, c) + m;
#pragma unroll
            for (int q = 0; q < COUNT; q++) mode[p][q] = q < count ? T(from[op.pitch * q]) : T(0);
        }
#pragma unroll 2
        for (int k = share.k0; k < share.k1; k++) {
            T sum[PAIR];
#pragma unroll
            for (int p = 0; p < PAIR; p++) sum[p] = adds ? to[p][op.pitch * k] : T(0);
#pragma unroll
            for (int q = 0; q < COUNT; q++) {
                T s = share.table[k * COUNT + q];
#pragma unroll
                for (int p = 0; p < PAIR; p++) sum[p] = fma(s, mode[p][q], sum[p]);
            }
#pragma unroll
            for (int p = 0; p < PAIR; p++)
                if (present[p]) to[p][op.pitch * k] = sum[p];
        }
    }
}
