// Sweeps over the whole grid in the order of unknowns, one launch each, as a systolic array.
//
// A lane has two neighbouring cells along x in one layer of CHAIN (y or z), and marches along MARCH (the other), a row a step.
// LANES lanes are side by side in x, DEPTH in CHAIN; each is a step behind the one before it in x and the one before it in CHAIN,
// so that what it needs of those is what they had a step ago: a shuffle each. Warps of a block follow each other in CHAIN
// and hand rows on in shared memory. That is a tile: WIDTH cells of x, some layers of CHAIN, all of MARCH.
//
// What does not depend on the recurrence is done for a row at a time, in the order of memory: what a row needs is prepared a step
// before the first lane takes it, and waits in shared memory for the other lanes; results wait there until the last lane has taken
// the row, and are stored together.
//
// Between warps goes mail: a box for a number is empty (zero) until its one writer fills it, and its one reader, who waits for
// that, empties it again. The number is all that is told, so that nothing else needs to be in order.
//
// Tiles are claimed by a ticket, in an order in which each comes after those that it waits for: whatever a claimed tile waits for
// is done or at work, however few blocks are resident. The last cells of a periodic direction have mail from the first.
//
// Five warps share the work of one: one takes rows, HELPERS prepare them by turns and store results, one carries mail from other
// tiles to boxes in shared memory, so that memory's latency is not in the chain from row to row.
//
// Specialised by MARCH (1 or 2) and AHEAD, beside what seven_point.cuh says. Block: up to MOST_THREADS; grid: a block a tile;
// dynamic shared memory: warp_bytes(…) for every warp that takes rows. Tickets are followed by room for mail; all that is zero
// between launches.
#pragma once
#include "seven_point/seven_point.cuh"

constexpr int CHAIN = MARCH == Y ? Z : Y;
constexpr int LANES = FLAT ? 16 : 8, DEPTH = 32 / LANES, WIDTH = 2 * LANES;
// Steps by which the last lane is behind the first, and rows that wait in shared memory: those that some lanes have taken and
// others have not, and those that are prepared in advance.
constexpr int SKEW = LANES + DEPTH - 2, RING = SKEW + 1 + AHEAD;
// Warps that prepare rows for one that takes them, by turns; one more carries mail to it.
constexpr int HELPERS = 3;
constexpr int MOST_THREADS = 6 * 32 * (2 + HELPERS);
// Rows that memory is asked for in advance of being loaded.
constexpr int PREFETCH = 1;
// Steps of which a warp has boxes: for mail along CHAIN, and along x.
constexpr int SLOTS = 4, X_SLOTS = 32 / DEPTH;
constexpr bool CHAIN_AROUND = !FLAT && periodic(CHAIN);

// How far a warp and its helpers are.
struct alignas(16) Counts {
    int taken;             // steps
    int prepared[HELPERS]; // the row after the last that a helper has prepared
};

// Shared memory of a warp of which a row needs so many numbers for a lane's two cells, and so many for the lane.
__device__ constexpr int warp_bytes(int pairs, int singles) {
    return (RING * 32 * (2 * pairs + singles) + SLOTS * WIDTH + X_SLOTS * DEPTH) * int(sizeof(T)) + int(sizeof(Counts));
}

// Numbers as mail: the complement of their bits, so that zero stands for one NaN out of many, which is never sent.
template <int BYTES> struct Letter;
template <> struct Letter<8> {
    typedef unsigned long long type;
};
template <> struct Letter<4> {
    typedef unsigned int type;
};
typedef Letter<sizeof(T)>::type Mail;

__device__ __forceinline__ Mail bits(double value) { return Mail(__double_as_longlong(value)); }
__device__ __forceinline__ Mail bits(float value) { return Mail(__float_as_uint(value)); }
__device__ __forceinline__ void from_bits(unsigned long long bits, double& value) { value = __longlong_as_double((long long)bits); }
__device__ __forceinline__ void from_bits(unsigned int bits, float& value) { value = __uint_as_float(bits); }

__device__ __forceinline__ Mail sealed(T value) {
    const Mail mail = ~bits(value);
    return mail == 0 ? Mail(1) : mail;
}
__device__ __forceinline__ T opened(Mail mail) {
    T value;
    from_bits(Mail(~mail), value);
    return value;
}

// Two cells of a lane.
struct alignas(2 * sizeof(T)) Pair {
    T e[2];
};

// Zero between launches.
struct Tickets {
    int next;
    unsigned int finished;
    int unused[2];
};

__device__ __forceinline__ Index place_of(const Stencil& op, int i, int march, int chain) {
    return MARCH == Y ? place(op, i, march, chain) : place(op, i, chain, march);
}
// Where a lane's two cells are, by the row.
struct Places {
    Index start, to_odd, stride; // of row 0: the even cell, and from there to the odd one in even rows; from row to row
    Index before[2];             // from a cell to the one before it in CHAIN

    template <bool UP> __device__ __forceinline__ void set(const Stencil& op, int i, int chain) {
        start = place_of(op, i, 0, chain);
        to_odd = place_of(op, i + 1, 0, chain) - start;
        stride = MARCH == Y ? 2 * half_plane(op) : (Index)op.pitch;
#pragma unroll
        for (int e = 0; e < 2; e++) before[e] = place_of(op, i + e, 0, UP ? chain - 1 : chain + 1) - place_of(op, i + e, 0, chain);
    }
    // Both cells of a row. Where rows lie along y, colours change from one to the next.
    __device__ __forceinline__ void of(int march, Index (&at)[2]) const {
        const Index row = start + stride * march;
        const bool swapped = MARCH == Y && (march & 1);
        at[0] = swapped ? row + to_odd : row;
        at[1] = swapped ? row : row + to_odd;
    }
};

__device__ __forceinline__ int extent(const Stencil& op, int axis) { return axis == Y ? op.ny : LAYERS(op); }

// t between a cell and the one before it in the sweep, and between the last of a periodic direction and the first.
template <bool UP, int AXIS>
__device__ __forceinline__ T between(const Stencil& op, const Fields& before, const Fields& here) {
    return UP ? face<AXIS>(op, before, here) : face<AXIS>(op, here, before);
}
template <bool UP, int AXIS>
__device__ __forceinline__ T around(const Stencil& op, const Fields& here, const Fields& first) {
    return UP ? face<AXIS>(op, here, first) : face<AXIS>(op, first, here);
}

// Of a lane so many before this one.
__device__ __forceinline__ T from_lane(T value, int before) { return __shfl_up_sync(0xffffffffu, value, before); }

// Where a lane is.
struct Lane {
    int warp, warps, helper;          // helper: -1 for a warp that takes rows, HELPERS for one that carries mail
    int in_x, in_chain;               // within its warp, as the sweep goes
    int chunk, chunks, group, groups; // the tile
    int rows, layers, layer;          // layer: as the sweep goes
    int i, chain;                     // its first cell, which is even, and its position in CHAIN
    int first_cell, last_cell;        // of a row, as the sweep goes
    bool inside;                      // whether its layer is there
    bool ends_x, ends_chain;          // whether it has the last cells of a periodic direction
    int nx;
    Places places;

    __device__ __forceinline__ bool has(int e) const { return inside && i + e < nx; }
    __device__ __forceinline__ bool has_cell(int cell) const { return inside && cell >= i && cell < i + 2; }
};

// Whether a lane's cell has another before it in its row.
template <bool UP> __device__ __forceinline__ bool has_before(const Lane& at, int e) {
    return UP ? at.i + e > 0 && at.i + e < at.nx : at.i + e + 1 < at.nx;
}

// What the cells of a lane take of others.
struct Inputs {
    T x;               // the cell before its first in x
    Pair chain, march; // the cells before in these directions
    Pair around_chain, around_march; // the first in these directions, of the last in a periodic one
};

// Boxes of mail. Those in memory are between tiles, those in shared memory a warp's own, by the step at which it takes what is in them.
struct Boxes {
    Mail* x;           // [chunk that it comes from][layers / DEPTH][rows + DEPTH - 1][DEPTH]
    Mail* chain;       // [group that it comes from][chunk][rows + LANES - 1][2][LANES]
    Mail* taken_chain; // in shared memory: [warp][SLOTS][2][LANES]
    Mail* taken_x;     // in shared memory: [warp][X_SLOTS][DEPTH]

    __device__ __forceinline__ Mail* of_x(const Lane& at, int from, int step) const {
        const long long decks = (at.layers + DEPTH - 1) / DEPTH;
        return x + ((from * decks + at.layer / DEPTH) * (at.rows + DEPTH - 1) + step) * DEPTH;
    }
    __device__ __forceinline__ Mail* of_chain(const Lane& at, int from, int step) const {
        return chain + (((long long)from * at.chunks + at.chunk) * (at.rows + LANES - 1) + step) * WIDTH;
    }
    __device__ __forceinline__ volatile Mail* taken_along_chain(int warp, int step) const {
        return taken_chain + (warp * SLOTS + (step & (SLOTS - 1))) * WIDTH;
    }
    __device__ __forceinline__ volatile Mail* taken_along_x(int warp, int step) const {
        return taken_x + (warp * X_SLOTS + (step & (X_SLOTS - 1))) * DEPTH;
    }
};

// Carries a warp's mail from other tiles to its own boxes, several steps at a time: a lane has the numbers of every so-manyth step.
__device__ __forceinline__ void carry(const Lane& at, const Boxes& boxes) {
    // A box has one lane that fills it.
    constexpr int X_STEPS = X_SLOTS, CHAIN_STEPS = 32 / WIDTH, LOTS = SLOTS / CHAIN_STEPS;
    const int lane = threadIdx.x % 32, layer = at.layer - at.in_chain;
    const int deck = lane % DEPTH, cell = lane % WIDTH;
    // Steps to come.
    int x_step = at.chunk > 0 && layer + deck < at.layers ? lane / DEPTH : at.rows + DEPTH;
    int chain_step[LOTS];
    Mail x_mail = 0, chain_mail[LOTS];
#pragma unroll
    for (int n = 0; n < LOTS; n++) {
        chain_step[n] = at.group > 0 && at.warp == 0 ? lane / WIDTH + n * CHAIN_STEPS : at.rows + LANES;
        chain_mail[n] = 0;
    }
    auto skip = [&](int& step, int behind, int stride) {
        while (step < behind) step += stride;
        return step < at.rows + behind;
    };
    while (true) {
        const bool has_x = skip(x_step, deck, X_STEPS);
        bool has = has_x, has_chain[LOTS];
        if (has_x && x_mail == 0) x_mail = peek(boxes.of_x(at, at.chunk - 1, x_step) + deck);
#pragma unroll
        for (int n = 0; n < LOTS; n++) {
            has_chain[n] = skip(chain_step[n], cell % LANES, LOTS * CHAIN_STEPS);
            has = has || has_chain[n];
            if (has_chain[n] && chain_mail[n] == 0) chain_mail[n] = peek(boxes.of_chain(at, at.group - 1, chain_step[n]) + cell);
        }
        if (!__any_sync(0xffffffffu, has)) return;
        if (x_mail != 0) {
            volatile Mail* const box = boxes.taken_along_x(at.warp, x_step) + deck;
            if (*box == 0) {
                *box = x_mail;
                put(boxes.of_x(at, at.chunk - 1, x_step) + deck, Mail(0));
                x_mail = 0;
                x_step += X_STEPS;
            }
        }
#pragma unroll
        for (int n = 0; n < LOTS; n++) {
            if (chain_mail[n] == 0) continue;
            volatile Mail* const box = boxes.taken_along_chain(at.warp, chain_step[n]) + cell;
            if (*box == 0) {
                *box = chain_mail[n];
                put(boxes.of_chain(at, at.group - 1, chain_step[n]) + cell, Mail(0));
                chain_mail[n] = 0;
                chain_step[n] += LOTS * CHAIN_STEPS;
            }
        }
    }
}

// Claims a tile. All threads must call it.
template <bool UP> __device__ __forceinline__ Lane claim(const Stencil& op, Tickets* tickets) {
    __shared__ int claimed;
    if (threadIdx.x == 0) claimed = atomicAdd(&tickets->next, 1);
    __syncthreads();
    Lane at;
    const int lane = threadIdx.x % 32;
    at.warps = blockDim.x / (32 * (2 + HELPERS));
    at.warp = threadIdx.x / 32 % at.warps;
    at.helper = threadIdx.x / 32 / at.warps - 1;
    at.in_x = lane % LANES;
    at.in_chain = lane / LANES;
    at.rows = extent(op, MARCH);
    at.layers = extent(op, CHAIN);
    at.nx = op.nx;
    at.chunks = (op.nx + WIDTH - 1) / WIDTH;
    at.groups = (at.layers + at.warps * DEPTH - 1) / (at.warps * DEPTH);
    at.chunk = claimed % at.chunks;
    at.group = claimed / at.chunks;
    at.layer = (at.group * at.warps + at.warp) * DEPTH + at.in_chain;
    at.inside = at.layer < at.layers;
    at.i = (UP ? at.chunk : at.chunks - 1 - at.chunk) * WIDTH + 2 * (UP ? at.in_x : LANES - 1 - at.in_x);
    at.chain = UP ? at.layer : at.layers - 1 - at.layer;
    at.places.set<UP>(op, at.i, at.chain);
    at.first_cell = UP ? 0 : op.nx - 1;
    at.last_cell = UP ? op.nx - 1 : 0;
    at.ends_x = periodic(X) && op.nx > 1 && at.has_cell(at.last_cell);
    at.ends_chain = CHAIN_AROUND && at.layers > 1 && at.layer + 1 == at.layers;
    return at;
}

// Has `work` done for all rows of a tile, and returns its number. All threads must call it.
//   PAIRS, SINGLES                   numbers that a row needs, for each of a lane's cells, and for the lane
//   load(at, march)                  of a row, what prepare needs
//   prepare(at, march, row, ring, singles)
//                                    puts those numbers there, each for a lane 32 behind the one before
//   Row read(ring, singles)          takes them from there
//   advance(at, row, ready, inputs, out)
//                                    the recurrence
//   close(at, ready, first, out)
//                                    where x is periodic, what the last cell of a row has of its first
//   load_done(at, march), done(at, march, out)
//                                    of a row that all lanes have taken
template <bool UP, class Work> __device__ __forceinline__ int in_order(const Stencil& op, Tickets* tickets, Work& work) {
    extern __shared__ double shared[];
    const Lane at = claim<UP>(op, tickets);
    const int tile = at.group * at.chunks + at.chunk;
    constexpr int PAIRS = Work::PAIRS, SINGLES = Work::SINGLES;
    Pair* const rings = reinterpret_cast<Pair*>(shared);
    T* const all_singles = reinterpret_cast<T*>(rings + at.warps * (RING * PAIRS * 32));
    Boxes boxes;
    boxes.x = reinterpret_cast<Mail*>(tickets + 1);
    const long long decks = (at.layers + DEPTH - 1) / DEPTH;
    boxes.chain = boxes.x + (at.chunks - (periodic(X) ? 0 : 1)) * decks * (at.rows + DEPTH - 1) * DEPTH;
    boxes.taken_chain = reinterpret_cast<Mail*>(all_singles + at.warps * (RING * SINGLES * 32));
    boxes.taken_x = boxes.taken_chain + at.warps * (SLOTS * WIDTH);
    const int own_boxes = at.warps * (SLOTS * WIDTH + X_SLOTS * DEPTH);
    Pair* const ring = rings + at.warp * (RING * PAIRS * 32) + threadIdx.x % 32;
    T* const singles = all_singles + at.warp * (RING * SINGLES * 32) + threadIdx.x % 32;
    Counts* const counts = reinterpret_cast<Counts*>(boxes.taken_chain + own_boxes) + at.warp;
    for (int n = threadIdx.x; n < own_boxes; n += blockDim.x) boxes.taken_chain[n] = 0;
    if (at.helper < 0 && threadIdx.x % 32 == 0) *counts = Counts{};
    __syncthreads();
    if (at.layer - at.in_chain >= at.layers) return tile;

    const int march_step = UP ? 1 : -1, march_start = UP ? 0 : at.rows - 1;
    if (at.helper == HELPERS) {
        carry(at, boxes);
        return tile;
    }
    if (at.helper >= 0) {
        int row = at.helper, slot = row;
        if (row < at.rows) work.load(at, march_start + march_step * row);
        for (; row < at.rows + RING; row += HELPERS) {
            const int done = row - RING, next_done = done + HELPERS;
            Pair* const of_row = ring + slot * (PAIRS * 32);
            if (done >= 0) {
                while (look(&counts->taken) <= done + SKEW) __nanosleep(20);
                __threadfence_block();
                work.done(at, march_start + march_step * done, of_row[0]);
            }
            if (next_done >= 0 && next_done < at.rows) work.load_done(at, march_start + march_step * next_done);
            if (row < at.rows) {
                work.prepare(at, march_start + march_step * row, row, of_row, singles + slot * (SINGLES * 32));
                __threadfence_block();
                __syncwarp();
                if (threadIdx.x % 32 == 0) tell(&counts->prepared[at.helper], row + 1);
            }
            if (row + HELPERS < at.rows) work.load(at, march_start + march_step * (row + HELPERS));
            slot = slot + HELPERS >= RING ? slot + HELPERS - RING : slot + HELPERS;
        }
        return tile;
    }

    // Who has mail of whom.
    const bool has_next_layer = at.in_chain == DEPTH - 1 && at.layer + 1 < at.layers;
    const bool takes_x = at.inside && at.in_x == 0 && at.chunk > 0;
    const bool sends_x = at.inside && at.in_x == LANES - 1 && at.chunk + 1 < at.chunks;
    const bool takes_chain = at.inside && at.in_chain == 0 && at.warp + at.group > 0;
    const bool sends_chain = has_next_layer && at.warp + 1 == at.warps;
    const bool sends_next = has_next_layer && at.warp + 1 < at.warps;
    // Of a row of two cells, one lane has the first and the last.
    const bool is_long = op.nx > 2;
    const bool takes_around_x = at.ends_x && is_long, starts_x = periodic(X) && is_long && at.has_cell(at.first_cell);
    const bool starts_chain = CHAIN_AROUND && at.layers > 1 && at.layer == 0;

    const int behind = at.in_x + at.in_chain;
    // Boxes in memory of what a lane sends and takes at a step.
    Mail* x_out = boxes.of_x(at, at.chunk, -(LANES - 1)) + at.in_chain;
    Mail* chain_out = boxes.of_chain(at, at.group, -(DEPTH - 1)) + at.in_x;
    Mail* x_end = boxes.of_x(at, at.chunks - 1, -at.in_x) + at.in_chain;
    Mail* chain_end = boxes.of_chain(at, at.groups - 1, -at.in_chain) + at.in_x;
    // What has come of the mail around.
    Mail around_x = 0, around_chain[2] = {0, 0};
    T out[2] = {T(0), T(0)};
    Inputs inputs;
    inputs.around_chain = inputs.around_march = Pair{{T(0), T(0)}};

    int slot = (RING - behind) % RING;
    while (look(&counts->prepared[0]) == 0) {
    }
    __threadfence_block();
    for (int s = 0; s < at.rows + SKEW; s++) {
        const int row = s - behind;
        const bool active = at.inside && row >= 0 && row < at.rows, next_active = at.inside && row + 1 >= 0 && row + 1 < at.rows;
        // What the lanes before had a step ago.
        inputs.x = from_lane(out[UP ? 1 : 0], 1);
        inputs.march = {{out[0], out[1]}};
        inputs.chain = {{from_lane(out[0], LANES), from_lane(out[1], LANES)}};
        volatile Mail* const x_in = boxes.taken_along_x(at.warp, s) + at.in_chain;
        volatile Mail* const chain_in = boxes.taken_along_chain(at.warp, s) + at.in_x;
        volatile Mail* const next_out = boxes.taken_along_chain(at.warp + 1, s - (DEPTH - 1)) + at.in_x;
        const bool is_taking_x = takes_x && active, is_taking_chain = takes_chain && active, is_sending_next = sends_next && active;
        Mail of_x = 0, of_chain[2] = {0, 0}, full[2] = {0, 0};
        if (is_taking_x) of_x = x_in[0];
        if (is_taking_chain) {
            of_chain[0] = chain_in[0];
            of_chain[1] = chain_in[LANES];
        }
        if (is_sending_next) {
            full[0] = next_out[0];
            full[1] = next_out[LANES];
        }

        // This row was there a step ago.
        const typename Work::Row ready = work.read(ring + slot * (PAIRS * 32), singles + slot * (SINGLES * 32));
        const int* const prepared = &counts->prepared[(s + 1) % HELPERS];
        const int wanted_row = s + 1 < at.rows ? s + 1 : -1;
        bool is_prepared = look(prepared) > wanted_row;

        auto waits = [&] {
            bool any = !is_prepared || (is_taking_x && of_x == 0) || (is_taking_chain && (of_chain[0] == 0 || of_chain[1] == 0)) ||
                       full[0] != 0 || full[1] != 0;
            if (periodic(X)) any = any || (takes_around_x && active && around_x == 0);
            if (CHAIN_AROUND) any = any || (at.ends_chain && active && (around_chain[0] == 0 || around_chain[1] == 0));
            return any;
        };
        while (__any_sync(0xffffffffu, waits())) {
            is_prepared = look(prepared) > wanted_row;
            if (is_taking_x) of_x = x_in[0];
            if (is_taking_chain) {
                of_chain[0] = chain_in[0];
                of_chain[1] = chain_in[LANES];
            }
            if (is_sending_next) {
                full[0] = next_out[0];
                full[1] = next_out[LANES];
            }
            if (periodic(X) && takes_around_x && active) around_x = peek(x_end);
            if (CHAIN_AROUND && at.ends_chain && active) {
                around_chain[0] = peek(chain_end);
                around_chain[1] = peek(chain_end + LANES);
            }
        }
        __threadfence_block();
        if (at.in_x == 0) inputs.x = takes_x ? opened(of_x) : T(0);
        if (at.in_chain == 0) inputs.chain = {{takes_chain ? opened(of_chain[0]) : T(0), takes_chain ? opened(of_chain[1]) : T(0)}};
        if (CHAIN_AROUND) inputs.around_chain = {{opened(around_chain[0]), opened(around_chain[1])}};
        T taken[2];
        work.advance(at, row, ready, inputs, taken);
        if (periodic(X) && at.ends_x) {
            const T first = is_long ? opened(around_x) : at.first_cell % 2 ? taken[1] : taken[0];
            work.close(at, ready, first, taken);
        }
#pragma unroll
        for (int e = 0; e < 2; e++) out[e] = active ? taken[e] : T(0);
        if (active) {
            ring[slot * (PAIRS * 32)] = {{out[0], out[1]}};
            if (sends_next) {
                next_out[0] = sealed(out[0]);
                next_out[LANES] = sealed(out[1]);
            }
            if (sends_x) put(x_out, sealed(out[UP ? 1 : 0]));
            if (sends_chain) {
                put(chain_out, sealed(out[0]));
                put(chain_out + LANES, sealed(out[1]));
            }
            if (starts_x) put(x_end, sealed(at.first_cell % 2 ? out[1] : out[0]));
            if (starts_chain) {
                put(chain_end, sealed(out[0]));
                put(chain_end + LANES, sealed(out[1]));
            }
            // Empties what was taken.
            if (takes_x) x_in[0] = 0;
            if (takes_chain) {
                chain_in[0] = 0;
                chain_in[LANES] = 0;
            }
            if (periodic(X) && takes_around_x) put(x_end, Mail(0));
            if (CHAIN_AROUND && at.ends_chain) {
                put(chain_end, Mail(0));
                put(chain_end + LANES, Mail(0));
            }
            if (periodic(MARCH) && row == 0) inputs.around_march = {{out[0], out[1]}};
        }
        x_out += DEPTH, x_end += DEPTH, chain_out += WIDTH, chain_end += WIDTH;
        // What has come for the next step.
        if (periodic(X) && takes_around_x) around_x = next_active ? peek(x_end) : Mail(0);
        if (CHAIN_AROUND && at.ends_chain) {
            around_chain[0] = next_active ? peek(chain_end) : Mail(0);
            around_chain[1] = next_active ? peek(chain_end + LANES) : Mail(0);
        }

        __threadfence_block();
        __syncwarp();
        if (threadIdx.x % 32 == 0) tell(&counts->taken, s + 1);
        slot = slot + 1 == RING ? 0 : slot + 1;
    }
    return tile;
}

// After all of a block's work: the last one leaves the tickets as they were.
__device__ __forceinline__ void forget(Tickets* tickets) {
    __syncthreads();
    if (threadIdx.x == 0 && atomicInc(&tickets->finished, gridDim.x - 1) == gridDim.x - 1) tickets->next = 0;
}
