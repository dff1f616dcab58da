// Point relaxation within tiles (paper C): a block does all sub-iterations of a tile.
//
// A thread has STRIP cells of a tile, consecutive in y, with their part of the matrix and their values in registers;
// the values next to a strip are read from shared memory, which is double-buffered
// and includes one layer of fixed cells around the tile.
//
// Block (THREADS). Grid: x: tiles, x fastest. Defined by the host:
//   TILE_X, TILE_Y, TILE_Z           cells of a tile.
//   OVERLAP_X, OVERLAP_Y, OVERLAP_Z  cells shared with the next tile.
//   STRIP, THREADS                   see above; THREADS is a number of whole warps.
//   LINES                            whether sums are per line of cells along x, with one layer.
#include "reduce.cuh"
#include "seven_point/column.cuh"

constexpr int STRIPS = (TILE_Y + STRIP - 1) / STRIP;
// Shared memory: length of a row in x and of a layer.
constexpr int ROW = TILE_X + 2, LAYER = ROW * (TILE_Y + 2), BOX = LAYER * (FLAT ? 1 : TILE_Z + 2);
constexpr int DIRECTIONS = FLAT ? 4 : 6;

// A tile in one direction: relaxed cells, and the valid cells among them.
struct Span {
    int start, end, first, last;
    __device__ __forceinline__ bool leaves(int n) const { return n >= first && n < last; }
};

__device__ __forceinline__ int tiles(int n, int tile, int overlap) {
    return tile >= n ? 1 : (n - overlap + tile - overlap - 1) / (tile - overlap);
}

__device__ __forceinline__ Span span(int t, int n, int tile, int overlap) {
    Span s;
    s.start = t * (tile - overlap);
    s.end = min(s.start + tile, n);
    s.first = s.start + (t > 0 ? overlap / 2 : 0);
    s.last = s.end - (t + 1 < tiles(n, tile, overlap) ? overlap / 2 : 0);
    return s;
}

// Cell n of `count` in a direction, or the one at the other end; -1 if there is none.
__device__ __forceinline__ int inside(int n, int count, bool wraps) {
    if (n >= 0 && n < count) return n;
    return wraps && count > 1 ? (n < 0 ? count - 1 : 0) : -1;
}

#if LINES
// The position of a line's number, in the layout of one row of lines.
__device__ __forceinline__ int line_place(int j, int pitch) { return (j >> 1) + pitch * (j & 1); }

// Adds the rows of a tile's numbers, one per tile at the same place in x.
__device__ __forceinline__ void sum_rows(const double* squares, const Span& sy, int tile, int tiles_x, const Reduction& to) {
    const int lane = threadIdx.x % 32;
    for (int row = threadIdx.x / 32; row < TILE_Y; row += THREADS / 32) {
        double sum = 0;
        for (int x = lane; x < TILE_X; x += 32) sum += squares[row * TILE_X + x];
        for (int step = 16; step > 0; step >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, step);
        if (lane == 0 && sy.leaves(sy.start + row)) {
            to.partial[(long long)(sy.start + row) * tiles_x + tile] = sum;
            __threadfence();
        }
    }
}

// The last block adds all blocks' sums of every line.
__device__ __forceinline__ void sum_lines(int lines, int tiles_x, int pitch, const Reduction& to) {
    __shared__ bool is_last;
    __syncthreads();
    if (threadIdx.x == 0) is_last = atomicInc(to.counter, gridDim.x - 1) == gridDim.x - 1;
    __syncthreads();
    if (!is_last) return;
    __threadfence();
    for (int j = threadIdx.x; j < lines; j += THREADS) {
        double sum = 0;
        for (int tile = 0; tile < tiles_x; tile++) sum += __ldcg(to.partial + (long long)j * tiles_x + tile);
        to.result[line_place(j, pitch)] = sum;
    }
}

// worst = max w norm;  n += 1 for lines with w norm above the limit. One block (256).
KERNEL(judge_lines, __launch_bounds__(256))(int lines, int pitch, double allowed, const double* __restrict__ norms,
                                            const double* __restrict__ weights, double* __restrict__ n, double* worst) {
    await_previous();
    __shared__ double found[256];
    double most = 0;
    for (int j = threadIdx.x; j < lines; j += 256) {
        const int at = line_place(j, pitch);
        const double relative = weights[at] * norms[at];
        if (!(relative <= allowed)) n[at] += 1.0;
        // NaN counts as the worst, and remains.
        if (!(relative <= most) && most == most) most = relative;
    }
    found[threadIdx.x] = most;
    __syncthreads();
    for (int half = 128; half > 0; half >>= 1) {
        if (threadIdx.x < half) {
            const double other = found[threadIdx.x + half];
            if (!(other <= most) && most == most) found[threadIdx.x] = most = other;
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) *worst = most;
}
#endif

// v = u after a cycle;  ||f - A u||^2, in total or per line
KERNEL(relax_tiles, __launch_bounds__(THREADS))(Stencil op, int sub_iterations, T omega, In f,
                                                In u, Out v,
#if LINES
                                                int line_pitch,
#endif
                                                Reduction to) {
    await_previous();
    extern __shared__ double shared[];
#if LINES
    double* squares = shared;
    T* before = reinterpret_cast<T*>(shared + TILE_X * TILE_Y);
#else
    double sum[1] = {0};
    T* before = reinterpret_cast<T*>(shared);
#endif
    T* after = before + BOX;
    const int tiles_x = tiles(op.nx, TILE_X, OVERLAP_X), tiles_y = tiles(op.ny, TILE_Y, OVERLAP_Y);
    const int t = blockIdx.x;
    const Span sx = span(t % tiles_x, op.nx, TILE_X, OVERLAP_X);
    const Span sy = span(t / tiles_x % tiles_y, op.ny, TILE_Y, OVERLAP_Y);
    const Span sz = span(t / tiles_x / tiles_y, LAYERS(op), TILE_Z, OVERLAP_Z);

    for (int at = threadIdx.x; at < BOX; at += THREADS) {
        const int i = inside(sx.start + at % ROW - 1, op.nx, periodic(X));
        const int j = inside(sy.start + at / ROW % (TILE_Y + 2) - 1, op.ny, periodic(Y));
        const int k = FLAT ? 0 : inside(sz.start + at / LAYER - 1, LAYERS(op), periodic(Z));
        const T value = i >= 0 && j >= 0 && k >= 0 ? u[place(op, i, j, k)] : T(0);
        before[at] = value;
        after[at] = value;
    }
    __syncthreads();

    const int x = threadIdx.x % TILE_X, y = threadIdx.x / TILE_X % STRIPS * STRIP, z = threadIdx.x / (TILE_X * STRIPS);
    const int i = sx.start + x, j = sy.start + y, k = sz.start + z;
    // The number of this thread's cells in the grid.
    const int cells = i < sx.end && k < sz.end && z < TILE_Z ? max(min(STRIP, sy.end - j), 0) : 0;
    const int place_of_first = min((FLAT ? 0 : (z + 1) * LAYER) + (y + 1) * ROW + x + 1, BOX - 1);
    T own[STRIP], constant[STRIP], weight[STRIP][DIRECTIONS];
#pragma unroll
    for (int n = 0; n < STRIP; n++) {
#if LINES
        if (z == 0 && y + n < TILE_Y) squares[(y + n) * TILE_X + x] = 0;
#endif
        constant[n] = T(0);
#pragma unroll
        for (int d = 0; d < DIRECTIONS; d++) weight[n][d] = T(0);
        const int place_of = place_of_first + n * ROW;
        own[n] = before[min(place_of, BOX - 1)];
        if (n >= cells) continue;
        const Column column = neighbours(op, i >> 1, j + n, (i + j + n) & 1);
        const Index at = column.start + (Index)op.pitch * k;
        const Fields here = load(op, at);
        T t[DIRECTIONS];
#pragma unroll
        for (int d = 0; d < 4; d++) {
            const Fields h = load(op, at + column.to[d]);
            const T between = d == WEST    ? face<X>(op, h, here)
                              : d == EAST  ? face<X>(op, here, h)
                              : d == SOUTH ? face<Y>(op, h, here)
                                           : face<Y>(op, here, h);
            t[d] = column.has[d] ? between : T(0);
        }
#if !FLAT
#pragma unroll
        for (int upper = 0; upper < 2; upper++) {
            const int other = inside(upper ? k + 1 : k - 1, op.nz, periodic(Z));
            const Fields h = load(op, at + (Index)op.pitch * (other >= 0 ? other - k : 0));
            const T between = upper ? face<Z>(op, here, h) : face<Z>(op, h, here);
            t[BELOW + upper] = other >= 0 ? between : T(0);
        }
#endif
        const T shift = load_shift(op, at) + sides(op, here, i, j + n, k);
        T diagonal = shift, image = shift * own[n];
        const int to[6] = {-1, 1, -ROW, ROW, -LAYER, LAYER};
#pragma unroll
        for (int d = 0; d < DIRECTIONS; d++) {
            diagonal += t[d];
            image = fma(t[d], own[n] - before[place_of + to[d]], image);
        }
        const T scale = omega * inverse(diagonal), right = f[at], residual = right - image;
        constant[n] = scale * right;
#pragma unroll
        for (int d = 0; d < DIRECTIONS; d++) weight[n][d] = scale * t[d];
        if (sx.leaves(i) && sy.leaves(j + n) && sz.leaves(k))
#if LINES
            squares[(y + n) * TILE_X + x] = double(residual) * double(residual);
#else
            sum[0] += double(residual) * double(residual);
#endif
    }
#if LINES
    __syncthreads();
    sum_rows(squares, sy, t % tiles_x, tiles_x, to);
#endif

    const T rest = T(1) - omega;
    for (int s = 0; s < sub_iterations; s++) {
        T south = before[min(place_of_first - ROW, BOX - 1)];
        const T north = before[min(place_of_first + STRIP * ROW, BOX - 1)];
#pragma unroll
        for (int n = 0; n < STRIP; n++) {
            const T old = own[n];
            if (n < cells) {
                const int place_of = place_of_first + n * ROW;
                T value = fma(rest, old, constant[n]);
                value = fma(weight[n][WEST], before[place_of - 1], value);
                value = fma(weight[n][EAST], before[place_of + 1], value);
                value = fma(weight[n][SOUTH], south, value);
                value = fma(weight[n][NORTH], n + 1 < STRIP ? own[min(n + 1, STRIP - 1)] : north, value);
#if !FLAT
                value = fma(weight[n][BELOW], before[place_of - LAYER], value);
                value = fma(weight[n][ABOVE], before[place_of + LAYER], value);
#endif
                own[n] = value;
                after[place_of] = value;
            }
            south = old;
        }
        __syncthreads();
        T* swap = before;
        before = after;
        after = swap;
    }

#pragma unroll
    for (int n = 0; n < STRIP; n++)
        if (n < cells && sx.leaves(i) && sy.leaves(j + n) && sz.leaves(k)) v[place(op, i, j + n, k)] = own[n];
#if LINES
    sum_lines(op.ny, tiles_x, line_pitch, to);
#else
    grid_sum(sum, to);
#endif
}
