// Red-black half sweeps that stream along y: every row of the other colour is loaded once, by
// asynchronous copies a row ahead, into a cyclic buffer of three slabs in shared memory.
//
// A block has LX columns and a range of rows. At row j the slabs hold rows j (neighbours west and east),
// j+1 (north) and j+2, which is being loaded; row j-1 (south) is kept in registers, as is the right-hand side, a row ahead. So the
// L2 cache is read once, where smooth.cu reads it three times.
// Launch: grid (ceil(pitch / LX), segments), block LX W, dynamic shared memory stream_bytes =
// 3 nz (LX + EDGE) sizeof(TU) + W K sizeof(LineLayer) + sizeof(LineScratch).
#pragma once
#include "tensor_product/line_relax.cuh"

#ifndef MIN_BLOCKS
#define MIN_BLOCKS 1
#endif
#ifndef CORRECTION_REAL
#define CORRECTION_REAL REAL
#endif
typedef CORRECTION_REAL TC; // the type of stored corrections
#ifndef OTHER_REAL
#define OTHER_REAL REAL
#endif
typedef OTHER_REAL TU; // the type of u of the other colour, stored at the start of its half planes

// The operations fused with a sweep.
enum : unsigned {
    PROLONG = 1, // the other colour is corrected by an interpolated coarse field first,
    CORRECT = 2, // or by a fine field, or by both;
    KEEP = 4,    // the correction is stored
    CHANGE = 8,  // the change by the sweep and by the correction stored by KEEP replaces the latter
    NO_RHS = 16, // f = 0
    NORM = 32    // with it: |couplings u|^2
};

// A row needs its western or its eastern neighbour, by its parity, never both: one 16-byte piece.
constexpr int EDGE = 16 / (int)sizeof(TU);
constexpr int SLAB_PITCH = LX + EDGE;

// Whether corrections are loaded into registers a row ahead; a block in single precision has half as many registers per number.
constexpr bool CORRECT_AHEAD = sizeof(T) == 8;

// A half plane of the other colour.
__device__ __forceinline__ const TU* other_plane(const Operator& op, const T* u, int j, int c) {
    return reinterpret_cast<const TU*>(u + plane(op, j, c));
}

// The position of a tile's first column in a slab.
__device__ __forceinline__ int tile_start(int j, int colour) { return looks_east(j, colour) ? 0 : EDGE; }

// Loads the neighbour row j of `colour`; zeros if there is no such row, and beyond its ends, where another colour's cells lie, which may not have
// been written yet. The tile's own columns come first, then its neighbour columns, so that no index needs a division.
__device__ __forceinline__ void fetch_row(const Operator& op, const T* u, int j, int colour, int m0, TU* slab) {
    constexpr int pieces = LX / EDGE, layers = LX * W / pieces, edge_layers = LX * W;
    bool valid = j >= op.start && j < op.end;
    const TU* from = other_plane(op, u, valid ? j : 0, 1 - colour) + m0;
    int k = threadIdx.x / pieces, x = threadIdx.x % pieces * EDGE;
    const TU* source = from + op.pitch * k + x;
    TU* target = slab + k * SLAB_PITCH + tile_start(j, colour) + x;
    bool own = valid && m0 + x < op.pitch;
    int rounds = (LAYERS(op) + layers - 1) / layers; // known at compile time if NZ is
#pragma unroll
    for (int n = 0; n < rounds; n++)
        if (LAYERS(op) % layers == 0 || k + n * layers < LAYERS(op))
            copy_async_16(target + n * (SLAB_PITCH * layers), source + op.pitch * layers * n, own);
    bool east = looks_east(j, colour), beside = valid && (east ? m0 + LX < op.pitch : m0 > 0);
    from += east ? LX : -EDGE;
    slab += east ? LX : 0;
    for (k = threadIdx.x; k < LAYERS(op); k += edge_layers)
        copy_async_16(slab + k * SLAB_PITCH, from + op.pitch * k, beside);
}

// The coarse columns over a tile, in the two coarse rows from which a fine row is interpolated. A coarse value
// is loaded once and used for four fine rows; values of adjacent columns come from the lane that has them.
// A chunk is no longer than its tile is wide (ensured by `streams` in tile.rs), so that a lane can represent a layer.
struct CoarseRows {
    TC low[K], high[K]; // column m0 + lane, in coarse rows J and J + 1
    TC edge[2][4];      // columns m0 - 1, m0, m0 + LX - 1, m0 + LX in the same rows, on layer k0 + lane

    // Loads the coarse row `row`. Rows and columns outside have weight 0 and are replaced by ones inside.
    __device__ __forceinline__ static void load(TC (&own)[K], TC (&edge)[4], const Coarse<TC>& coarse, int row, int m0,
                                                int nz, int k0, int lane) {
        row = readable_row(row, coarse.ny, coarse.start, coarse.end);
        int last = coarse.nx - 1;
        const TC* from = coarse.u + coarse.pitch * (k0 < nz ? k0 : nz - 1);
        const TC* column = from + coarse_index(coarse.pitch, nz, min(m0 + lane, last), row);
#pragma unroll
        for (int i = 0; i < K; i++) own[i] = column[coarse.pitch * (FULL || k0 + i < nz ? i : 0)];
        from += coarse.pitch * (lane < K && k0 + lane < nz ? lane : 0);
        edge[0] = from[coarse_index(coarse.pitch, nz, max(m0 - 1, 0), row)];
        edge[1] = from[coarse_index(coarse.pitch, nz, min(m0, last), row)];
        edge[2] = from[coarse_index(coarse.pitch, nz, min(m0 + LX - 1, last), row)];
        edge[3] = from[coarse_index(coarse.pitch, nz, min(m0 + LX, last), row)];
    }

    // Begins with fine row j.
    __device__ __forceinline__ void start(const Coarse<TC>& coarse, int j, int m0, int nz, int k0, int lane) {
        int row = (j + 1) / 2 - 1;
        load(low, edge[0], coarse, row, m0, nz, k0, lane);
        load(high, edge[1], coarse, row + 1, m0, nz, k0, lane);
    }

    // Advances from fine row j - 1 to j.
    __device__ __forceinline__ void advance(const Coarse<TC>& coarse, int j, int m0, int nz, int k0, int lane) {
        if ((j & 1) == 0) return;
#pragma unroll
        for (int i = 0; i < K; i++) low[i] = high[i];
#pragma unroll
        for (int n = 0; n < 4; n++) edge[0][n] = edge[1][n];
        load(high, edge[1], coarse, (j + 1) / 2, m0, nz, k0, lane);
    }

    // P e in the fine cells (2 (m0 + lane) + parity, j) of nx columns and rows start to end, and in the cell next to the tile on layer k0 + lane:
    // to the east for parity 0, to the west for 1. Called by whole warps. Weights as in prolong.cuh.
    __device__ __forceinline__ void interpolate(TC (&out)[K], TC& beside, const Coarse<TC>& coarse, int nx, int start, int end, int j,
                                                int parity, int m0, int lane) const {
        bool odd = j & 1, outside = odd ? j + 1 >= 2 * coarse.end : j <= start, alone = is_alone(j, end);
        TC near_y = alone ? TC(1) : outside ? TC(0.5) : TC(0.75), far_y = alone || outside ? TC(0) : TC(0.25);
        TC low_y = odd ? near_y : far_y, high_y = odd ? far_y : near_y;
        TC column[4];
#pragma unroll
        for (int n = 0; n < 4; n++) column[n] = low_y * edge[0][n] + high_y * edge[1][n];
        auto mix = [&](TC near, TC far, int m, int far_m) {
            bool alone = is_alone(2 * m + parity, nx), out = far_m < 0 || far_m >= coarse.nx;
            return (alone ? TC(1) : out ? TC(0.5) : TC(0.75)) * near + (alone || out ? TC(0) : TC(0.25)) * far;
        };
        beside = parity ? mix(column[0], column[1], m0 - 1, m0) : mix(column[3], column[2], m0 + LX, m0 + LX - 1);
        TC beyond = parity ? column[3] : column[0];
        int far_m = m0 + lane + (parity ? 1 : -1);
        bool at_edge = lane == (parity ? LX - 1 : 0);
#pragma unroll
        for (int i = 0; i < K; i++) {
            TC own = low_y * low[i] + high_y * high[i];
            TC next = __shfl_sync(0xffffffffu, own, lane + (parity ? 1 : -1), LX);
            TC edge_layer = __shfl_sync(0xffffffffu, beyond, i, LX);
            out[i] = mix(own, at_edge ? edge_layer : next, m0 + lane, far_m);
        }
    }
};

// The correction of the other colour's rows: one row, possibly loaded a row ahead.
template <unsigned WHAT> struct Correction {
    CoarseRows rows;
    TC fine[K], fine_beside;

    __device__ __forceinline__ void load(const Operator& op, const TC* e, const Coarse<TC>& coarse, int j, int colour,
                                         int m0, int nz, int k0, int lane) {
        if (WHAT & PROLONG) rows.start(coarse, j, m0, nz, k0, lane);
        load_fine(op, e, j, colour, m0, nz, k0, lane);
    }

    __device__ __forceinline__ void load_fine(const Operator& op, const TC* e, int j, int colour, int m0, int nz,
                                              int k0, int lane) {
        if (!(WHAT & CORRECT)) return;
        const TC* row = e + plane(op, readable_row(j, op.ny, op.start, op.end), 1 - colour) + op.pitch * (k0 < nz ? k0 : nz - 1);
#pragma unroll
        for (int i = 0; i < K; i++) fine[i] = row[min(m0 + lane, op.pitch - 1) + op.pitch * (FULL || k0 + i < nz ? i : 0)];
        int layer = lane < K && k0 + lane < nz ? lane : 0;
        fine_beside = row[(looks_east(j, colour) ? m0 + LX : m0 - 1) + op.pitch * layer]; // the field has guards
    }

    __device__ __forceinline__ void start(const Operator& op, const TC* e, const Coarse<TC>& coarse, int j, int colour,
                                          int m0, int nz, int k0, int lane) {
        if (CORRECT_AHEAD) load(op, e, coarse, j, colour, m0, nz, k0, lane);
    }

    // Advances from row j - 1 to j.
    __device__ __forceinline__ void advance(const Operator& op, const TC* e, const Coarse<TC>& coarse, int j,
                                            int colour, int m0, int nz, int k0, int lane) {
        if (!CORRECT_AHEAD) return;
        if (WHAT & PROLONG) rows.advance(coarse, j, m0, nz, k0, lane);
        load_fine(op, e, j, colour, m0, nz, k0, lane);
    }

    // Returns the correction of row j, in its stored precision.
    __device__ __forceinline__ void get(TC (&add)[K], TC& beside, const Operator& op, const TC* e,
                                        const Coarse<TC>& coarse, int j, int colour, int m0, int nz, int k0, int lane) {
        if (!CORRECT_AHEAD) load(op, e, coarse, j, colour, m0, nz, k0, lane);
        if (WHAT & PROLONG) rows.interpolate(add, beside, coarse, op.nx, op.start, op.end, j, !looks_east(j, colour), m0, lane);
        if (WHAT & CORRECT) {
#pragma unroll
            for (int i = 0; i < K; i++) add[i] = WHAT & PROLONG ? add[i] + fine[i] : fine[i];
            beside = WHAT & PROLONG ? beside + fine_beside : fine_beside;
        }
    }

    // Adds it to row j in its slab; with KEEP, stores it at `kept`, the row's cell of this lane on layer k0.
    __device__ __forceinline__ void add_to(TU* slab, TC* kept, const Operator& op, const TC* e, const Coarse<TC>& coarse,
                                           int j, int colour, int m0, int nz, int k0, int lane) {
        if (j >= op.end) return;
        bool east = looks_east(j, colour);
        // The other colour's cell m of row j is i = 2m + parity, with the parity opposite to this colour's.
        int parity = east ? 0 : 1, beside_m = east ? m0 + LX : m0 - 1;
        TC add[K], beside;
        get(add, beside, op, e, coarse, j, colour, m0, nz, k0, lane);
        if (2 * (m0 + lane) + parity < op.nx) {
            TU* here = slab + tile_start(j, colour) + lane + k0 * SLAB_PITCH;
#pragma unroll
            for (int i = 0; i < K; i++)
                if (FULL || k0 + i < nz) {
                    here[i * SLAB_PITCH] += TU(add[i]);
                    if ((WHAT & KEEP) && kept) kept[op.pitch * i] = add[i];
                }
        }
        if (lane < K && k0 + lane < nz && beside_m >= 0 && 2 * beside_m + parity < op.nx)
            slab[(east ? LX : EDGE - 1) + (k0 + lane) * SLAB_PITCH] += TU(beside);
    }
};

// Sweeps the columns of `colour`: reads f and u (of the other colour), writes `out` (u itself, or another field), and uses
// `kept`, e and `coarse` according to WHAT. Returns this thread's share of the norm for NORM.
template <unsigned WHAT>
__device__ __forceinline__ double stream(const Operator& op, int colour, const T* f, const T* u, T* out, const TC* e,
                                        const Coarse<TC>& coarse, TC* kept) {
    extern __shared__ __align__(128) unsigned char dynamic[];
    constexpr bool ADD = WHAT & (PROLONG | CORRECT), RHS = !(WHAT & NO_RHS);
    int nz = LAYERS(op);
    TU* slab = reinterpret_cast<TU*>(dynamic);
    LineLayer* line = reinterpret_cast<LineLayer*>(slab + 3 * nz * SLAB_PITCH);
    LineScratch& scratch = *reinterpret_cast<LineScratch*>(line + W * K);
    for (int n = threadIdx.x; n < W * K; n += LX * W) line[n] = op.line[n];

    int lane = threadIdx.x % LX, chunk = threadIdx.x / LX;
    int m0 = blockIdx.x * LX, m = m0 + lane;
    bool active = m < op.pitch;
    m = active ? m : op.pitch - 1;
    int rows = (op.ny + gridDim.y - 1) / gridDim.y;
    int j0 = blockIdx.y * rows, j1 = min(j0 + rows, op.ny);
    int k0 = chunk * K, first = k0 < nz ? k0 : nz - 1;
    const LineLayer* layer = line + k0;
    int at = m + op.pitch * first, in_slab = lane + first * SLAB_PITCH;
    double square = 0;
    if (j0 >= j1) return square;

    fetch_row(op, u, j0, colour, m0, slab);
    fetch_row(op, u, j0 + 1, colour, m0, slab + nz * SLAB_PITCH);
    TU south[K];
    T ahead[K];
    int pivot_at = m + op.pitch * chunk, pivot_row = op.pitch * W * 2, total_at = m + op.pitch * (colour + 2 * j0);
    const T* pivots = op.pivot + (long long)op.pitch * W * (colour + 2 * j0) + pivot_at;
    T total = op.total[total_at], pivot = *pivots;
    Correction<WHAT> correction;
    {
        const TU* below = other_plane(op, u, j0 > op.start ? j0 - 1 : j0, 1 - colour) + at; // coupling 0 if there is none
        const T* f_at = f + plane(op, j0, colour) + at;
#pragma unroll
        for (int i = 0; i < K; i++) {
            int offset = op.pitch * (FULL || k0 + i < nz ? i : 0);
            south[i] = below[offset];
            if (RHS) ahead[i] = f_at[offset];
        }
        if (ADD) {
            correction.start(op, e, coarse, j0 > op.start ? j0 - 1 : j0, colour, m0, nz, k0, lane);
            if (j0 > op.start) {
                TC add[K], beside;
                correction.get(add, beside, op, e, coarse, j0 - 1, colour, m0, nz, k0, lane);
                if (2 * m + 1 < op.nx + looks_east(j0 - 1, colour)) {
#pragma unroll
                    for (int i = 0; i < K; i++) south[i] += TU(add[i]);
                }
                correction.advance(op, e, coarse, j0, colour, m0, nz, k0, lane);
            }
        }
    }
    if (ADD) copy_async_wait();
    __syncthreads(); // the vertical table is complete
    // The positions where the corrections of a row are stored.
    auto kept_in = [&](int j) { return active ? kept + plane(op, j, 1 - colour) + at : nullptr; };
    if (ADD) {
        correction.add_to(slab, kept_in(j0), op, e, coarse, j0, colour, m0, nz, k0, lane);
        correction.advance(op, e, coarse, j0 + 1, colour, m0, nz, k0, lane);
    }

    int ring = 0; // the slab of row j
    for (int j = j0; j < j1; j++) {
        int north_slab = ring == 2 ? 0 : ring + 1, far_slab = ring == 0 ? 2 : ring - 1;
        long long base = plane(op, j, colour);
        Column column = load_column(op, j, colour, m);
        T x[K], d[K];
        if (RHS) {
#pragma unroll
            for (int i = 0; i < K; i++) x[i] = ahead[i];
        }
        T old[K];
        TC change[K];
        if (WHAT & CHANGE) {
#pragma unroll
            for (int i = 0; i < K; i++) {
                int offset = at + op.pitch * (FULL || k0 + i < nz ? i : 0);
                old[i] = out[base + offset];
                change[i] = kept[base + offset];
            }
        }
        line_factor(d, total, pivot, layer);
        if (j + 1 < j1) {
            total_at += 2 * op.pitch;
            pivots += pivot_row;
            total = op.total[total_at];
            pivot = *pivots;
        }
        copy_async_wait();
        __syncthreads();
        if (j + 1 < j1) fetch_row(op, u, j + 2, colour, m0, slab + far_slab * nz * SLAB_PITCH);
        if (ADD) {
            // The next row is corrected in its slab, by the threads that read it as north. Its neighbours
            // to the west and east are read after the next row's barrier.
            TC* to = j + 1 < j1 ? kept_in(j + 1) : nullptr; // the next segment stores its own rows
            correction.add_to(slab + north_slab * nz * SLAB_PITCH, to, op, e, coarse, j + 1, colour, m0, nz, k0,
                              lane);
        }

        const TU* same = slab + ring * nz * SLAB_PITCH + in_slab + tile_start(j, colour);
        const TU* north = slab + north_slab * nz * SLAB_PITCH + in_slab + tile_start(j + 1, colour);
        T per_area = reciprocal(column.area);
        int shift = looks_east(j, colour) ? 1 : -1; // zeros beyond the row's ends
#pragma unroll
        for (int i = 0; i < K; i++) {
            int offset = SLAB_PITCH * (FULL || k0 + i < nz ? i : 0);
            TU here = same[offset];
            T s = column.south * T(south[i]);
            s = fma(column.same, T(here), s);
            s = fma(column.shifted, T(same[offset + shift]), s);
            s = fma(column.north, T(north[offset]), s);
            south[i] = here;
            LineLayer v = layer[i];
            x[i] = RHS ? fma(v.d, s, x[i] * (per_area * v.scale)) : v.d * s;
            if ((WHAT & NORM) && active && (FULL || k0 + i < nz)) {
                double r = double(column.area * x[i] * reciprocal(v.scale));
                square += r * r;
            }
        }
        // The next row's loads are pending while this row is solved.
        if (RHS && j + 1 < j1) {
            const T* f_at = f + plane(op, j + 1, colour) + at;
#pragma unroll
            for (int i = 0; i < K; i++) ahead[i] = f_at[op.pitch * (FULL || k0 + i < nz ? i : 0)];
        }
        if (ADD && j + 1 < j1) correction.advance(op, e, coarse, j + 2, colour, m0, nz, k0, lane);
        line_solve(x, d, layer, scratch, chunk, lane);
        if (active) {
            T* to = out + base + at;
#pragma unroll
            for (int i = 0; i < K; i++)
                if (FULL || k0 + i < nz) {
                    to[op.pitch * i] = x[i];
                    if (WHAT & CHANGE) kept[base + at + op.pitch * i] = TC(x[i] - (old[i] + T(change[i])));
                }
        }
        ring = north_slab;
    }
    return square;
}
