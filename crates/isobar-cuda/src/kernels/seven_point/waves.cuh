// Sweeps over the whole grid in the order of unknowns, one launch each, for recurrences of incomplete Cholesky.
//
// A warp has WIDTH cells along x of one row at a time, CELLS a lane, and marches along MARCH (y or z), a row a step. Along x the
// recurrence is solved by a scan over the lanes, so that memory is read in order. A thread block has WARPS rows that follow
// each other in the other direction, CHAIN; warp w is w steps behind the first, and hands its row on in shared memory. That is
// a tile: some columns of x, WARPS of CHAIN, all of MARCH.
//
// Tiles depend on the one before in x (one cell a row) and the one before in CHAIN (one row), from both of which they read
// what those wrote to memory. Every STEPS steps a tile publishes how many it has taken; one warp more does
// that, and another waits for the tiles before, while the others are at work. Tiles are claimed by a ticket, in an order in which
// each comes after those that it depends on: whatever a claimed tile waits for is done or at work, however few blocks are
// resident. At the other end of a periodic direction are the first rows of all, which the tiles before have waited for.
//
// Specialised by MARCH (1 or 2), PAIRS, WARPS and STEPS, beside what seven_point.cuh says. Block: THREADS; grid: a block a tile.
#pragma once
#include "seven_point/seven_point.cuh"

constexpr int CHAIN = MARCH == Y ? Z : Y, CELLS = 2 * PAIRS, WIDTH = 32 * CELLS;
constexpr int THREADS = 32 * (WARPS + 2);
// Rows that are loaded in advance.
constexpr int AHEAD = 2;
static_assert(STEPS % AHEAD == 0, "a step is known by its parity");
// Rows that memory is asked for in advance of that.
constexpr int PREFETCH = 6;

// Zero between launches.
struct Progress {
    int ticket;
    unsigned int finished;
    int steps[1]; // by tile
};

// Where a warp is, counted from the corner that the sweep starts in, but for the position of its lane's cells.
struct Place {
    int i;            // the lane's first cell, which is even
    int march, chain; // positions
    bool first_chunk, last_chunk, first_march, last_march, first_chain, last_chain;
    bool takes_row; // its row before in CHAIN comes from memory
    int j, k;
    Index even, odd; // of cells i and i + 1

    __device__ __forceinline__ Index at(int e) const { return (e & 1 ? odd : even) + e / 2; }
};

__device__ __forceinline__ void set_row(const Stencil& op, Place& p) {
    p.j = MARCH == Y ? p.march : p.chain;
    p.k = MARCH == Y ? p.chain : p.march;
    p.even = place(op, p.i, p.j, p.k);
    p.odd = place(op, p.i + 1, p.j, p.k);
}

// The position of cell i in the row that is `march` and `chain` in their directions.
__device__ __forceinline__ Index place_of(const Stencil& op, int i, int march, int chain) {
    return MARCH == Y ? place(op, i, march, chain) : place(op, i, chain, march);
}

__device__ __forceinline__ int extent(const Stencil& op, int axis) { return axis == Y ? op.ny : LAYERS(op); }

// The threads of a block, or those of its warps that have rows.
__device__ __forceinline__ void meet_all() { asm volatile("bar.sync 0, %0;" ::"n"(THREADS) : "memory"); }
__device__ __forceinline__ void meet_workers() { asm volatile("bar.sync 1, %0;" ::"n"(32 * WARPS) : "memory"); }

template <int N> struct Parity {
    enum { value = N };
};

// Waits until a tile has taken so many steps.
__device__ __forceinline__ void wait_for(const int* steps, int wanted) {
    while (peek(steps) < wanted) {
    }
    acquire(steps);
}

// Calls step(parity, now, has_now, next, has_next) for all rows of a warp: it is to work on the row `now`, having loaded what it
// needs when that was `next`, a step of the same parity before. Returns the tile. All threads must call it.
template <bool UP, class Step> __device__ __forceinline__ int in_waves(const Stencil& op, Progress* progress, Step step) {
    __shared__ int claimed;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int rows = extent(op, MARCH), layers = extent(op, CHAIN), chunks = (op.nx + WIDTH - 1) / WIDTH;
    const int total = rows + WARPS - 1;
    if (threadIdx.x == 0) claimed = atomicAdd(&progress->ticket, 1);
    meet_all();
    const int tile = claimed, chunk = tile % chunks, group = tile / chunks;
    if (warp == WARPS) {
        for (int s0 = 0; s0 < total; s0 += STEPS) {
            if (lane == 0) {
                // Rows of the steps to come, and of those after, which are loaded in them.
                const int s1 = min(s0 + STEPS, total);
                if (chunk > 0) wait_for(progress->steps + tile - 1, min(s1 + AHEAD, total));
                if (group > 0) wait_for(progress->steps + tile - chunks, min(s1 + AHEAD + WARPS - 1, total));
            }
            __syncwarp();
            meet_all();
        }
        meet_all();
        return tile;
    }
    if (warp > WARPS) {
        meet_all();
        for (int s0 = 0; s0 < total; s0 += STEPS) {
            meet_all();
            if (lane == 0) release(progress->steps + tile, min(s0 + STEPS, total));
            __syncwarp();
        }
        return tile;
    }
    Place now;
    const int from_chain = group * WARPS + warp;
    const bool is_mine = from_chain < layers;
    now.i = (UP ? chunk : chunks - 1 - chunk) * WIDTH + lane * CELLS;
    now.chain = UP ? from_chain : layers - 1 - from_chain;
    now.first_chunk = chunk == 0;
    now.last_chunk = chunk == chunks - 1;
    now.first_chain = from_chain == 0;
    now.last_chain = from_chain == layers - 1;
    now.takes_row = warp == 0 && group > 0;
    auto at_step = [&](int s) {
        Place p = now;
        p.march = UP ? s - warp : rows - 1 - (s - warp);
        p.first_march = s == warp;
        p.last_march = s - warp == rows - 1;
        set_row(op, p);
        return p;
    };
    for (int s0 = 0; s0 < total; s0 += STEPS) {
        const int s1 = min(s0 + STEPS, total);
        meet_all();
        auto take = [&](auto parity, int s) {
            const int ahead = s + AHEAD;
            const bool has_now = s >= warp && s < warp + rows, has_next = ahead >= warp && ahead < warp + rows;
            if (is_mine && (has_now || has_next)) step(parity, at_step(s), has_now, at_step(ahead), has_next);
            meet_workers();
        };
        // Steps more before the first, in which the first rows are loaded.
        for (int s = s0 == 0 ? -AHEAD : s0; s < s1; s += 2) {
            take(Parity<0>{}, s);
            take(Parity<1>{}, s + 1);
        }
    }
    meet_all();
    return tile;
}

// After all of a block's work: the last one leaves the progress as it was.
__device__ __forceinline__ void forget(Progress* progress) {
    __shared__ bool last;
    meet_all();
    if (threadIdx.x == 0) last = atomicInc(&progress->finished, gridDim.x - 1) == gridDim.x - 1;
    meet_all();
    if (!last) return;
    for (int n = threadIdx.x; n < gridDim.x; n += THREADS) progress->steps[n] = 0;
    if (threadIdx.x == 0) progress->ticket = 0;
}

// t between a cell and the one before it in the sweep, and between the last of a periodic direction and the first.
template <bool UP, int AXIS>
__device__ __forceinline__ T between(const Stencil& op, const Fields& before, const Fields& here) {
    return UP ? face<AXIS>(op, before, here) : face<AXIS>(op, here, before);
}
template <bool UP, int AXIS>
__device__ __forceinline__ T around(const Stencil& op, const Fields& here, const Fields& first) {
    return UP ? face<AXIS>(op, here, first) : face<AXIS>(op, first, here);
}

// The cell of a lane's that comes n-th in the sweep.
template <bool UP> __device__ __forceinline__ constexpr int nth(int n) { return UP ? n : CELLS - 1 - n; }

// Of a lane before this one in the sweep.
template <bool UP> __device__ __forceinline__ T from_lane(T value, int before) {
    return UP ? __shfl_up_sync(0xffffffffu, value, before) : __shfl_down_sync(0xffffffffu, value, before);
}
