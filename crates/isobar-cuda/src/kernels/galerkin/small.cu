// Fused steps of levels that do not fill the GPU: a sweep over all four colours, the residual, the residual's restriction, in one launch each.
//
// On these levels launches take longer than their work, and so does fetching instructions that have not been executed before: code is short,
// in loops. Blocks do not wait for each other. A block copies its operands to shared memory, those made by setup before the previous kernel
// has ended; in a sweep it relaxes the columns of its tile and, once more, those around it on which these depend. Every number has the same
// bits as by lines.cu, apply.cu and interpolate.cu.
#include "galerkin/interpolation.cuh"
#include "galerkin/twenty_seven.cuh"

// The threads of a block, by number.
__device__ __forceinline__ int own_thread() { return threadIdx.x + blockDim.x * threadIdx.y; }
__device__ __forceinline__ int threads() { return blockDim.x * blockDim.y; }

// A block's cells and those around them, in shared memory: couplings, then other fields, each in the order [parity of x][row][layer][half
// column]. LAYERS is 0 if their number is known at run time only; the threads are then as many as the cells of two rows of half columns.
template <int HALF, int ROWS, int LAYERS> struct Region {
    static constexpr int COLUMNS = 2 * ROWS;
    const Matrix& a;
    // The first cell, with even x.
    int x0, y0, z0;
    int run_time_layers;
    T* fields;

    __device__ __forceinline__ int layers() const { return LAYERS ? LAYERS : run_time_layers; }
    // Numbers of a field and of the zeros before it. Beyond its first and last layer a column has, as couplings, those that leave the grid
    // from the end of another column, which are zero, or the zeros between fields.
    __device__ __forceinline__ int stride() const { return HALF * (COLUMNS * layers() + 1); }
    __device__ __forceinline__ T* field(int n) const { return fields + HALF + n * stride(); }
    __device__ __forceinline__ int index(int x, int y, int z) const {
        return (x >> 1) + HALF * (z + layers() * (y + ROWS * (x & 1)));
    }
    // The distance in a field from a cell with even or odd x to a neighbour.
    __device__ __forceinline__ int offset(int parity, int dx, int dy, int dz) const {
        const int x = 2 + parity;
        return index(x + dx, 1 + dy, 1 + dz) - index(x, 1, 1);
    }
    // Calls f(index, place, exists) for this thread's cells; a place can be read also where there is no cell.
    template <class F> __device__ __forceinline__ void for_each_cell(F f) const {
        int column = LAYERS ? 0 : own_thread() / (HALF * layers()), rest = own_thread() - column * HALF * layers();
#pragma unroll 1
        for (int n = own_thread(); n < HALF * COLUMNS * layers(); n += threads()) {
            if constexpr (LAYERS > 0) {
                column = n / (HALF * LAYERS);
                rest = n % (HALF * LAYERS);
            }
            const int odd = column >= ROWS;
            int i = x0 + 2 * (rest % HALF) + odd, j = y0 + column - (odd ? ROWS : 0), k = z0 + rest / HALF;
            const bool is_x = bring_inside(i, 0, a.nx, a.periodic & 1), is_y = bring_inside(j, 0, a.ny, a.periodic & 2);
            const bool exists = is_x && is_y && k >= 0 && k < a.nz;
            f(n, exists ? place(a, i, j, k) : 0, exists);
            column += 2;
        }
    }
    // Sets the zeros before fields `first` to `end`, inclusive.
    __device__ __forceinline__ void separate(int first, int end) const {
        for (int n = own_thread(); n < HALF * (end + 1 - first); n += threads())
            fields[n % HALF + (first + n / HALF) * stride()] = T(0);
    }
    // Calls f(to, from, exists) for the couplings of this thread's cells, which go into the first fields, and for other vectors, which go
    // into the next ones. Setup stores couplings that leave the grid as zeros.
    template <int COUNT, class F> __device__ __forceinline__ void for_each_number(const T* const (&others)[COUNT], F f) const {
        for_each_cell([&](int n, long long at, bool exists) {
            T* to = field(0) + n;
#pragma unroll
            for (int d = 0; d < UPPER; d++, to += stride()) {
                const T* const from = a.couplings[d];
                f(to, (from ? from : a.sums) + at, exists && from);
            }
#pragma unroll
            for (int other = 0; other < COUNT; other++, to += stride()) f(to, others[other] + at, exists);
        });
    }
    // Begins to copy them.
    template <int COUNT> __device__ __forceinline__ void load_matrix(const T* const (&others)[COUNT]) const {
        for_each_number<COUNT>(others, [](T* to, const T* from, bool exists) { copy_async(to, from, exists); });
    }
    // Begins to copy vectors into fields from this one; a null pointer counts as zero.
    template <int COUNT> __device__ __forceinline__ void load(int first, const T* const (&from)[COUNT]) const {
        for_each_cell([&](int n, long long at, bool exists) {
            T* to = field(first) + n;
#pragma unroll
            for (int m = 0; m < COUNT; m++, to += stride()) copy_async(to, (from[m] ? from[m] : a.sums) + at, exists && from[m]);
        });
    }
};

// Distances to the neighbours in upper and lower directions, of cells with even and with odd x.
struct Offsets {
    int2 to[2][UPPER];
};

template <class R> __device__ __forceinline__ void fill_offsets(const R& region, Offsets& offsets) {
    for (int n = own_thread(); n < 2 * UPPER; n += threads()) {
        const int parity = n / UPPER, d = n % UPPER + 14, dx = d % 3 - 1, dy = d / 9 - 1, dz = d / 3 % 3 - 1;
        offsets.to[parity][n % UPPER] = {region.offset(parity, dx, dy, dz), region.offset(parity, -dx, -dy, -dz)};
    }
}

// Columns of a tile of a sweep.
constexpr int TILE_X = 8, TILE_Y = 2;
// The last colour of a sweep depends on columns of the first up to 3 away in x and 1 in y; these, on columns one further away.
constexpr int REACH_X = 4, REACH_Y = 2;
constexpr int HALF = (TILE_X + 2 * REACH_X) / 2, ROWS = TILE_Y + 2 * REACH_Y;
// The fields after the couplings.
enum { INVERSE = UPPER, RATIO, RIGHT, VALUE, FIELDS };

// The most threads of a block.
#ifndef TILE_THREADS
#define TILE_THREADS 512
#endif

struct Pair {
    T offset, slope;
};

// A tile with its surroundings.
struct Tile : Region<HALF, ROWS, 0> {
    __device__ __forceinline__ Tile(const Matrix& a, T* fields)
        : Region<HALF, ROWS, 0>{a, TILE_X * int(blockIdx.x) - REACH_X, TILE_Y * int(blockIdx.y) - REACH_Y, 0, a.nz, fields} {}
    // The numbers made by setup: all fields before RIGHT.
    __device__ __forceinline__ int made() const { return RIGHT * stride(); }
    __device__ __forceinline__ long long number() const { return blockIdx.x + (long long)gridDim.x * blockIdx.y; }
};

// Stores the matrix data of sweeps tile by tile, in the order of shared memory. Block and grid as for sweeps.
KERNEL(pack_small, __launch_bounds__(TILE_THREADS, 1))(Matrix a, Out image) {
    // Sweeps read it before they wait.
    await_previous_alone();
    const Tile tile(a, nullptr);
    const Tile own(a, image + tile.number() * tile.made());
    own.separate(0, RIGHT - 1);
    own.for_each_number<2>({a.inverse, a.ratio}, [](T* to, const T* from, bool exists) { *to = exists ? *from : T(0); });
}

// result = a sweep from u, or from zero if u is null, beginning with colour `turn`, 0 or 3. Block (HALF, 2 nz): the cells of two rows of
// half columns; grid: tiles. Shared memory: FIELDS fields, a pair for each thread.
KERNEL(sweep_small, __launch_bounds__(TILE_THREADS, 1))(Matrix a, int turn, In image, In u, In f, Out result) {
    extern __shared__ __align__(128) unsigned char dynamic[];
    __shared__ Offsets offsets;
    const int nz = a.nz, m = threadIdx.x, row = int(threadIdx.y) >= nz, k = threadIdx.y - row * nz;
    const Tile region(a, reinterpret_cast<T*>(dynamic));
    Pair* const maps = reinterpret_cast<Pair*>(region.field(FIELDS));
    fill_offsets(region, offsets);
    region.separate(RIGHT, FIELDS);
    constexpr int AT_ONCE = 16 / sizeof(T);
    const T* const made = image + region.number() * region.made();
    for (int n = AT_ONCE * own_thread(); n < region.made(); n += AT_ONCE * threads()) copy_async_16(region.fields + n, made + n, true);
    await_previous();
    region.load<2>(RIGHT, {f, u});
    T* const values = region.field(VALUE);
    copy_async_wait();
    __syncthreads();
#pragma unroll 1
    for (int rank = 0; rank < 4; rank++) {
        const int p = (rank ^ turn) & 1, q = (rank ^ turn) >> 1;
        // The first columns at or after these that have this parity; how many there are.
        const int more = 3 - rank, beside = rank < 2 ? 1 : 0, first_x = REACH_X - more, first_y = REACH_Y - beside;
        auto column = [&](int row) {
            return region.index(first_x + ((first_x + p) & 1) + 2 * m, first_y + ((first_y + q) & 1) + 2 * row, 0);
        };
        auto is_own = [&](int row) { return m < TILE_X / 2 + more && row < TILE_Y / 2 + beside; };
        const int own = is_own(row) ? column(row) + HALF * k : region.index(2 + p, 1, k);
        T sum = region.field(RIGHT)[own];
        const int2* const to = offsets.to[p];
        const T* c = region.field(0) + own;
#pragma unroll 4
        for (int d = 0; d < UPPER; d++, c += region.stride()) {
            const int2 by = to[d];
            const T above = values[own + by.x], below = values[own + by.y], c_above = c[0], c_below = c[by.y];
            if (d == UPWARDS) continue;
            sum += c_above * above;
            sum += c_below * below;
        }
        const T inverse = region.field(INVERSE)[own];
        maps[m + HALF * threadIdx.y] = {sum * inverse, region.field(UPWARDS)[own - HALF] * inverse};
        __syncthreads();
        // A thread per column: elimination upwards and substitution downwards, AT_ONCE layers at a time.
        if (threadIdx.y < 2 && is_own(threadIdx.y)) {
            Pair* const map = maps + m + HALF * nz * threadIdx.y;
            const T* const ratio = region.field(RATIO) + column(threadIdx.y);
            T* const relaxed = values + column(threadIdx.y);
            constexpr int AT_ONCE = 8;
            T value = T(0);
#pragma unroll 1
            for (int start = 0; start < nz; start += AT_ONCE) {
                Pair some[AT_ONCE];
#pragma unroll
                for (int n = 0; n < AT_ONCE; n++) some[n] = map[HALF * min(start + n, nz - 1)];
#pragma unroll
                for (int n = 0; n < AT_ONCE; n++) {
                    value = some[n].offset + some[n].slope * value;
                    if (start + n < nz) map[HALF * (start + n)].offset = value;
                }
            }
            value = T(0);
#pragma unroll 1
            for (int end = nz; end > 0; end -= AT_ONCE) {
                T some[AT_ONCE], ratios[AT_ONCE];
#pragma unroll
                for (int n = 0; n < AT_ONCE; n++) {
                    const int layer = max(end - 1 - n, 0);
                    some[n] = map[HALF * layer].offset;
                    ratios[n] = ratio[HALF * layer];
                }
#pragma unroll
                for (int n = 0; n < AT_ONCE; n++) {
                    value = some[n] + ratios[n] * value;
                    if (end - 1 - n >= 0) relaxed[HALF * (end - 1 - n)] = value;
                }
            }
        }
        __syncthreads();
    }
    const int x = REACH_X + 2 * (m & 3) + (m >> 2), y = REACH_Y + row, i = region.x0 + x, j = region.y0 + y;
    if (i < a.nx && j < a.ny) result[place(a, i, j, k)] = values[region.index(x, y, k)];
}

// The fields after the couplings of a region in which residuals are computed.
enum { SUM = UPPER, FINE_RIGHT, FINE_VALUE, FINE_FIELDS };

// f - A u in a cell of the region; `turn` is negative, or after a sweep from zero 0 or 3, see `residual_later` of apply.cu.
template <class R> __device__ __forceinline__ T residual_in(const R& region, const Offsets& offsets, int x, int y, int z, int turn) {
    const int own = region.index(x, y, z);
    const T* const values = region.field(FINE_VALUE) + own;
    const int2* const to = offsets.to[x & 1];
    const T here = values[0];
    // After a sweep from zero only couplings to columns that are relaxed later count, and here - there is replaced by there.
    const int rank = ((x & 1) + 2 * (y & 1)) ^ turn;
    const bool is_full = turn < 0;
    T total = is_full ? region.field(SUM)[own] * here : T(0);
    const T* c = region.field(0) + own;
#pragma unroll 4
    for (int d = 0; d < UPPER; d++, c += region.stride()) {
        const int2 by = to[d];
        const int across = ((d + 14) % 3 != 1) + 2 * ((d + 14) / 9 != 1);
        const bool counts = is_full || (rank ^ across) > rank;
        const T above = values[by.x], below = values[by.y], c_above = c[0], c_below = c[by.y];
        total += (counts ? c_above : T(0)) * (is_full ? here - above : above);
        total += (counts ? c_below : T(0)) * (is_full ? here - below : below);
    }
    return is_full ? region.field(FINE_RIGHT)[own] - total : total;
}

// Cells of a block of `residual_small`.
constexpr int CELLS_X = 8, CELLS_Y = 4, CELLS_Z = 8;

// r = f - A u. Block (CELLS_X, CELLS_Z CELLS_Y); grid: as many as needed, in x, z and y.
KERNEL(residual_small, __launch_bounds__(CELLS_X * CELLS_Y * CELLS_Z, 1))(Matrix a, In f, In u, Out r) {
    extern __shared__ __align__(128) unsigned char dynamic[];
    __shared__ Offsets offsets;
    const int x = threadIdx.x, y = threadIdx.y / CELLS_Z, z = threadIdx.y % CELLS_Z;
    const int x0 = CELLS_X * blockIdx.x - 2, y0 = CELLS_Y * blockIdx.z - 1, z0 = CELLS_Z * blockIdx.y - 1;
    const Region<CELLS_X / 2 + 2, CELLS_Y + 2, CELLS_Z + 2> region = {a, x0, y0, z0, 0, reinterpret_cast<T*>(dynamic)};
    fill_offsets(region, offsets);
    region.separate(0, FINE_FIELDS);
    region.load_matrix<1>({a.sums});
    await_previous();
    region.load<2>(FINE_RIGHT, {f, u});
    copy_async_wait();
    __syncthreads();
    const int i = x0 + 2 + x, j = y0 + 1 + y, k = z0 + 1 + z;
    const T value = residual_in(region, offsets, 2 + x, 1 + y, 1 + z, -1);
    if (i < a.nx && j < a.ny && k < a.nz) r[place(a, i, j, k)] = value;
}

// Coarse cells of a block of `restrict_small`, and the fine cells that they need.
constexpr int COARSE_X = 4, COARSE_Y = 2, COARSE_Z = 4;
constexpr int FINE_X = 2 * COARSE_X + 1, FINE_Y = 2 * COARSE_Y + 1, FINE_Z = 2 * COARSE_Z + 1;

// f_c = R (f - A u). `turn` as in `residual_in`. Block (FINE_X, FINE_Z FINE_Y); grid: as many as needed, in x, z and y.
KERNEL(restrict_small, __launch_bounds__(FINE_X * FINE_Y * FINE_Z, 1))(Matrix a, Interpolation p, int turn, In f, In u, Out coarse_f) {
    extern __shared__ __align__(128) unsigned char dynamic[];
    __shared__ T fine[FINE_Y][FINE_Z][FINE_X], in_x[FINE_Y][FINE_Z][COARSE_X], in_y[COARSE_Y][FINE_Z][COARSE_X];
    __shared__ Offsets offsets;
    const int x = threadIdx.x, y = threadIdx.y / FINE_Z, z = threadIdx.y % FINE_Z;
    const int x0 = 2 * COARSE_X * blockIdx.x - 2, y0 = 2 * COARSE_Y * blockIdx.z - 2, z0 = 2 * COARSE_Z * blockIdx.y - 2;
    const Region<(FINE_X + 3) / 2, FINE_Y + 2, FINE_Z + 2> region = {a, x0, y0, z0, 0, reinterpret_cast<T*>(dynamic)};
    fill_offsets(region, offsets);
    region.separate(0, FINE_FIELDS);
    region.load_matrix<1>({a.sums});
    int I = COARSE_X * blockIdx.x + x, J = COARSE_Y * blockIdx.z + y, K = COARSE_Z * blockIdx.y + z;
    // The fine cell of this thread, the first one below the block's first coarse cell.
    int i = x0 + 1 + x, j = y0 + 1 + y, k = z0 + 1 + z;
    const bool is_x = bring_inside(i, 0, a.nx, a.periodic & 1), is_y = bring_inside(j, 0, a.ny, a.periodic & 2);
    const bool is_z = k >= 0 && k < a.nz, exists = is_x && is_y && is_z;
    // Indices of cells that do not exist are replaced by indices that can be read without effect.
    i = is_x ? i : 0;
    j = is_y ? j : 0;
    k = is_z ? k : 0;
    // The coarse cells of this thread, if there are any: one of each step.
    const bool has_x = x < COARSE_X && I < p.coarse[0], has_y = has_x && y < COARSE_Y && J < p.coarse[1];
    const bool has_z = has_y && z < COARSE_Z && K < p.coarse[2];
    I = has_x ? I : 0;
    J = has_y ? J : 0;
    K = has_z ? K : 0;
    const Children<0> of_x(p, I);
    const Children<1> of_y(p, J);
    const Children<2> of_z(p, K);
    const T over_x = child_weight<0, OVER>(p, of_x, I, j, k), under_x = child_weight<0, UNDER>(p, of_x, I, j, k);
    const T over_y = child_weight<1, OVER>(p, of_y, I, J, k), under_y = child_weight<1, UNDER>(p, of_y, I, J, k);
    const T over_z = child_weight<2, OVER>(p, of_z, I, J, K), under_z = child_weight<2, UNDER>(p, of_z, I, J, K);
    await_previous();
    region.load<2>(FINE_RIGHT, {f, u});
    copy_async_wait();
    __syncthreads();
    const T value = residual_in(region, offsets, 1 + x, 1 + y, 1 + z, turn);
    fine[y][z][x] = exists ? value : T(0);
    __syncthreads();
    if (x < COARSE_X) {
        T line = fine[y][z][2 * x + 1];
        line += over_x * fine[y][z][2 * x + 2];
        in_x[y][z][x] = line + under_x * fine[y][z][2 * x];
    }
    __syncthreads();
    if (x < COARSE_X && y < COARSE_Y) {
        T plane = in_x[2 * y + 1][z][x];
        plane += over_y * in_x[2 * y + 2][z][x];
        in_y[y][z][x] = plane + under_y * in_x[2 * y][z][x];
    }
    __syncthreads();
    if (has_z) {
        T all = in_y[y][2 * z + 1][x];
        all += over_z * in_y[y][2 * z + 2][x];
        coarse_f[place(p.coarse, I, J, K)] = all + under_z * in_y[y][2 * z][x];
    }
}
