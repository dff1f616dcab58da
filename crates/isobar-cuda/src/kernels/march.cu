// Red-black half sweeps that march along y: every row of the other colour is fetched once, by
// asynchronous copies a row ahead, into a ring of three slabs in shared memory.
//
// A block owns LX columns and a run of rows. At row j the slabs hold rows j (neighbours west and east),
// j+1 (north) and, on its way, j+2; row j-1 (south) is kept in registers. So the L2 cache is
// read once for what smooth.cu reads three times.
// Launch: grid (ceil(hp / LX), segments), block LX W, dynamic shared memory march_bytes =
// 3 nz (LX + EDGE) sizeof(T) + W K sizeof(LineLevel) + sizeof(LineScratch).
#include "line_relax.cuh"

#ifndef MIN_BLOCKS
#define MIN_BLOCKS 1
#endif
#ifndef COARSE_REAL
#define COARSE_REAL REAL
#endif
typedef COARSE_REAL TC; // what the coarse field is stored in

// How the right-hand side gets here in time: 1 a row ahead in registers (the fastest where registers
// allow), 2 a row ahead into L2 only, 0 not ahead: other blocks fill the wait.
#ifndef AHEAD
#define AHEAD 1
#endif

// A row needs its western or its eastern neighbour, by its parity, and not both: one 16-byte piece.
constexpr int EDGE = 16 / (int)sizeof(T);
constexpr int PITCH = LX + EDGE;

__device__ __forceinline__ bool looks_east(int j, int colour) { return (j + colour) & 1; }

// Where a tile's first column is in a slab.
__device__ __forceinline__ int tile_start(int j, int colour) { return looks_east(j, colour) ? 0 : EDGE; }

// Fetches row j of the colour that `colour` looks at; zeros when there is no such row. First the tile's
// own columns, then the piece beside it, so that no index needs a division.
__device__ __forceinline__ void fetch_row(const Operator& op, const T* u, int j, int colour, int m0, T* slab) {
    constexpr int pieces = LX / EDGE, levels = LX * W / pieces, edge_levels = LX * W;
    bool valid = j >= 0 && j < op.ny;
    const T* from = u + plane(op, valid ? j : 0, 1 - colour) + m0;
    int k = threadIdx.x / pieces, x = threadIdx.x % pieces * EDGE;
    const T* source = from + op.hp * k + x;
    T* target = slab + k * PITCH + tile_start(j, colour) + x;
    int rounds = (LEVELS(op) + levels - 1) / levels; // known to the compiler where NZ is, tests and all
#pragma unroll
    for (int n = 0; n < rounds; n++)
        if (LEVELS(op) % levels == 0 || k + n * levels < LEVELS(op))
            copy_async_16(target + n * (PITCH * levels), source + op.hp * levels * n, valid);
    bool east = looks_east(j, colour);
    from += east ? LX : -EDGE;
    slab += east ? LX : 0;
    for (k = threadIdx.x; k < LEVELS(op); k += edge_levels) copy_async_16(slab + k * PITCH, from + op.hp * k, valid);
}

// Adds the interpolated coarse correction, the fine one, or both to a fetched row in its slab.
template <bool PROLONG, bool CORRECT>
__device__ __forceinline__ void correct_row(const Operator& op, const TC* e, const Coarse<TC>& coarse, int j, int colour,
                                            int m0, int lane, int k0, T* slab) {
    if (j >= op.ny) return;
    int nz = LEVELS(op);
    bool east = looks_east(j, colour);
    // The other colour's cell m of row j is i = 2m + parity, parity the opposite of this colour's.
    int parity = east ? 0 : 1;
    int m = m0 + lane;
    if (2 * m + parity < op.nx && k0 < nz) {
        Bilinear cell = PROLONG ? bilinear(coarse, 2 * m + parity, j) : Bilinear{};
        const TC* fine = e + plane(op, j, 1 - colour) + m + op.hp * k0;
        T* here = slab + tile_start(j, colour) + lane + k0 * PITCH;
#pragma unroll
        for (int i = 0; i < K; i++)
            if (FULL || k0 + i < nz) {
                T add = PROLONG ? interpolate(cell, coarse, k0 + i) : T(0);
                if (CORRECT) add += T(fine[op.hp * i]);
                here[i * PITCH] += add;
            }
    }
    m = east ? m0 + LX : m0 - 1;
    if (m < 0 || 2 * m + parity >= op.nx) return;
    Bilinear cell = PROLONG ? bilinear(coarse, 2 * m + parity, j) : Bilinear{};
    const TC* fine = e + plane(op, j, 1 - colour) + m;
    for (int k = threadIdx.x; k < nz; k += LX * W) {
        T add = PROLONG ? interpolate(cell, coarse, k) : T(0);
        if (CORRECT) add += T(fine[op.hp * k]);
        slab[(east ? LX : EDGE - 1) + k * PITCH] += add;
    }
}

// Asks for the next row's right-hand side and couplings to be brought into L2.
__device__ __forceinline__ void announce_row(const Operator& op, const T* f, int j, int colour, int m0) {
    constexpr int lines = (LX * (int)sizeof(T) + 127) / 128;
    const T* from = f + plane(op, j, colour) + m0;
    for (int n = threadIdx.x; n < lines * LEVELS(op); n += LX * W)
        prefetch_l2(from + op.hp * (n / lines) + n % lines * (128 / (int)sizeof(T)));
    int n = threadIdx.x - LX * W / 2; // lanes of another warp than the ones above, where there are enough
    if (n >= 0 && n < 5) {
        const T* array = n == 0 ? op.west : n == 1 ? op.east : n == 2 ? op.south : n == 3 ? op.north : op.area;
        prefetch_l2(array + m0 + op.hp * (colour + 2 * j));
    }
}

template <bool PROLONG, bool CORRECT>
__device__ __forceinline__ void march(const Operator& op, int colour, const T* f, const T* u, T* out, const TC* e,
                                      const Coarse<TC>& coarse) {
    extern __shared__ __align__(128) unsigned char dynamic[];
    constexpr bool ADD = PROLONG || CORRECT;
    int nz = LEVELS(op);
    T* slab = reinterpret_cast<T*>(dynamic);
    LineLevel* line = reinterpret_cast<LineLevel*>(slab + 3 * nz * PITCH);
    LineScratch& scratch = *reinterpret_cast<LineScratch*>(line + W * K);
    for (int n = threadIdx.x; n < W * K; n += LX * W) line[n] = op.line[n];

    int lane = threadIdx.x % LX, chunk = threadIdx.x / LX;
    int m0 = blockIdx.x * LX, m = m0 + lane;
    bool active = m < op.hp;
    m = active ? m : op.hp - 1;
    int rows = (op.ny + gridDim.y - 1) / gridDim.y;
    int j0 = blockIdx.y * rows, j1 = min(j0 + rows, op.ny);
    int k0 = chunk * K, first = k0 < nz ? k0 : nz - 1;
    const LineLevel* level = line + k0;
    int at = m + op.hp * first, in_slab = lane + first * PITCH;
    if (j0 >= j1) return;

    fetch_row(op, u, j0, colour, m0, slab);
    fetch_row(op, u, j0 + 1, colour, m0, slab + nz * PITCH);
    T south[K], ahead[K];
    int pivot_at = m + op.hp * chunk, pivot_row = op.hp * W * 2, total_at = m + op.hp * (colour + 2 * j0);
    const T* pivots = op.pivot + (long long)op.hp * W * (colour + 2 * j0) + pivot_at;
    T total = op.total[total_at], pivot = *pivots;
    {
        const T* below = u + plane(op, j0 > 0 ? j0 - 1 : j0, 1 - colour) + at; // coupling 0 where there is none
        const T* f_at = f + plane(op, j0, colour) + at;
#pragma unroll
        for (int i = 0; i < K; i++) {
            int offset = op.hp * (FULL || k0 + i < nz ? i : 0);
            south[i] = below[offset];
            if (AHEAD == 1) ahead[i] = f_at[offset];
        }
        if (ADD && j0 > 0 && 2 * m + 1 < op.nx + looks_east(j0 - 1, colour)) {
            Bilinear cell = PROLONG ? bilinear(coarse, 2 * m + !looks_east(j0 - 1, colour), j0 - 1) : Bilinear{};
#pragma unroll
            for (int i = 0; i < K; i++) {
                int k = FULL || k0 + i < nz ? i : 0;
                if (PROLONG) south[i] += interpolate(cell, coarse, first + k);
                if (CORRECT) south[i] += T(e[(below - u) + op.hp * k]);
            }
        }
    }
    if (ADD) copy_async_wait();
    __syncthreads(); // the vertical table is complete
    if (ADD) correct_row<PROLONG, CORRECT>(op, e, coarse, j0, colour, m0, lane, k0, slab);

    int slot = 0; // of row j
    for (int j = j0; j < j1; j++) {
        int slot_north = slot == 2 ? 0 : slot + 1, slot_far = slot == 0 ? 2 : slot - 1;
        long long base = plane(op, j, colour);
        Column column = load_column(op, j, colour, m);
        T x[K], d[K];
#pragma unroll
        for (int i = 0; i < K; i++) x[i] = AHEAD == 1 ? ahead[i] : f[base + at + op.hp * (FULL || k0 + i < nz ? i : 0)];
        line_factor(d, total, pivot, level);
        if (j + 1 < j1) {
            total_at += 2 * op.hp;
            pivots += pivot_row;
            total = op.total[total_at];
            pivot = *pivots;
            if (AHEAD == 2) announce_row(op, f, j + 1, colour, m0);
        }
        copy_async_wait();
        __syncthreads();
        if (j + 1 < j1) fetch_row(op, u, j + 2, colour, m0, slab + slot_far * nz * PITCH);
        if (ADD) {
            // The next row is corrected where it lies, by the threads that read it as north. Its neighbours
            // to the west and east are read after the next row's barrier.
            correct_row<PROLONG, CORRECT>(op, e, coarse, j + 1, colour, m0, lane, k0, slab + slot_north * nz * PITCH);
        }

        const T* same = slab + slot * nz * PITCH + in_slab + tile_start(j, colour);
        const T* north = slab + slot_north * nz * PITCH + in_slab + tile_start(j + 1, colour);
        T per_area = reciprocal(column.area);
#pragma unroll
        for (int i = 0; i < K; i++) {
            int offset = PITCH * (FULL || k0 + i < nz ? i : 0);
            T here = same[offset];
            T s = column.south * south[i];
            s = fma(column.same, here, s);
            s = fma(column.shifted, same[offset + column.shift], s);
            s = fma(column.north, north[offset], s);
            south[i] = here;
            LineLevel v = level[i];
            x[i] = fma(v.d, s, x[i] * (per_area * v.scale));
        }
        if (AHEAD == 1 && j + 1 < j1) {
            // The next row's loads travel while this row is solved.
            const T* f_at = f + plane(op, j + 1, colour) + at;
#pragma unroll
            for (int i = 0; i < K; i++) ahead[i] = f_at[op.hp * (FULL || k0 + i < nz ? i : 0)];
        }
        line_solve(x, d, level, scratch, chunk, lane);
        if (active) {
            T* to = out + base + at;
#pragma unroll
            for (int i = 0; i < K; i++)
                if (FULL || k0 + i < nz) to[op.hp * i] = x[i];
        }
        slot = slot_north;
    }
}

// The same steps as in smooth.cu, by the same recurrences.
extern "C" __global__ void __launch_bounds__(LX* W, MIN_BLOCKS)
    line_sweep_march(Operator op, int colour, const T* __restrict__ f, T* u) {
    march<false, false>(op, colour, f, u, u, nullptr, Coarse<TC>{});
}

extern "C" __global__ void __launch_bounds__(LX* W, MIN_BLOCKS)
    prolong_smooth_march(Operator op, int colour, const T* __restrict__ f, T* u, Coarse<TC> coarse) {
    march<true, false>(op, colour, f, u, u, nullptr, coarse);
}

// u_c = M^-1 (f_c - offdiag (u + e)_other): a correction, perhaps in a lower precision, applied on the way. As after
// prolong_smooth_march, the sweep of the other colour must follow. Traffic: f/2, u/2, e/2 read; u/2 written.
extern "C" __global__ void __launch_bounds__(LX* W, MIN_BLOCKS)
    correct_smooth_march(Operator op, int colour, const T* __restrict__ f, T* u, const TC* __restrict__ e) {
    march<false, true>(op, colour, f, u, u, e, Coarse<TC>{});
}
