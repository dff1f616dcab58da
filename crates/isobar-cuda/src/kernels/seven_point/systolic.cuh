// Sweeps over the whole grid in the order of unknowns, each one launch of a systolic array.
//
// A lane has two adjacent cells along x in one layer of CHAIN (y or z), and marches along MARCH (the other direction), one row per step.
// LANES lanes are adjacent in x, DEPTH in CHAIN; each is one step behind the previous lane in x and in CHAIN,
// so the values that it needs of these are those of their previous step: one shuffle each. Warps of a block are adjacent in CHAIN
// and pass rows on through shared memory. Together they form a tile: WIDTH cells of x, some layers of CHAIN, all of MARCH.
//
// Work that does not depend on the recurrence is done for a row at a time, in the order of memory: a row's data is prepared a step
// before the first lane needs it, and is kept in shared memory for the other lanes; results are kept there until the last lane has processed
// the row, and are stored together.
//
// Six warps share the work of one: one computes, HELPERS prepare rows in turn and store results, one copies values
// from the previous tile in x to shared memory; one more per block copies values from the previous tile in CHAIN, so that
// memory latency is not part of the critical path. The computing warp reads four counters per step, each of which limits
// the steps that it may take (Limits): it waits for nothing else, and lanes need no tests, because all receive and send
// values at every step. Before the first row they have rows of zeros; their results behind the last row are ignored.
//
// Tiles exchange values through slots in memory: a slot is empty (zero) until its single writer fills it; its single reader waits for the value and
// empties the slot. The value itself is the signal, so no memory ordering is needed.
//
// Tiles are claimed by tickets, in an order in which each follows those that it waits for: a claimed tile waits only for tiles
// that are done or running, however few blocks are resident. The last cells of a periodic direction receive values from the first.
//
// Specialised by MARCH (1 or 2) and AHEAD, in addition to seven_point.cuh. Block: up to MOST_THREADS; grid: one block per tile;
// dynamic shared memory: warp_bytes(...) per computing warp. Tickets are followed by space for the slots; all of it is zero
// between launches.
#pragma once
#include "seven_point/seven_point.cuh"

constexpr int CHAIN = MARCH == Y ? Z : Y;
constexpr int DEPTH = 32 / LANES, WIDTH = 2 * LANES;
// Steps by which the last lane is behind the first, and rows in shared memory: those being processed
// and those prepared in advance.
constexpr int SKEW = LANES + DEPTH - 2, RING = SKEW + 1 + AHEAD;
// Warps that prepare rows for a computing warp, in turn.
constexpr int HELPERS = 4;
// One warp copies values along x, and one per block copies values along CHAIN.
constexpr int ROLES = 2 + HELPERS, MOST_THREADS = 32 * (4 * ROLES + 1);
// Steps for which a warp has slots for values along CHAIN and along x.
constexpr int SLOTS = 16, X_SLOTS = 64 / DEPTH;
constexpr bool CHAIN_AROUND = !FLAT && periodic(CHAIN);
constexpr int NO_LIMIT = 1 << 30;

// The steps that a warp may take: those below all of these.
struct alignas(16) Limits {
    int x, chain; // values from the previous tile in x, and from the previous warp or tile in CHAIN
    int room;     // for its values to the next warp
    int prepared; // the last prepared row, since each is needed a step ahead

    __device__ __forceinline__ bool allow(int step) const {
        const int4 now = look(reinterpret_cast<const int4*>(this));
        return min(min(now.x, now.y), min(now.z, now.w)) > step;
    }
};

// The progress of a warp.
struct Counts {
    Limits limits;
    int taken; // steps
    int unused[3];
};

// Shared memory of a warp, given the numbers per row for a lane's two cells and for the lane.
__device__ constexpr int warp_bytes(int pairs, int singles) {
    return (RING * 32 * (2 * pairs + singles) + SLOTS * WIDTH + X_SLOTS * DEPTH) * int(sizeof(T)) + int(sizeof(Counts));
}

// Numbers as messages: the complement of their bits, so that zero stands for one particular NaN, which is never sent.
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
// The positions of a lane's two cells, by row.
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
    // Both cells of a row. If rows lie along y, colours alternate.
    __device__ __forceinline__ void of(int march, Index (&at)[2]) const {
        const Index row = start + stride * march;
        const bool swapped = MARCH == Y && (march & 1);
        at[0] = swapped ? row + to_odd : row;
        at[1] = swapped ? row : row + to_odd;
    }
};

__device__ __forceinline__ int extent(const Stencil& op, int axis) { return axis == Y ? op.ny : LAYERS(op); }

// t between a cell and the previous one in the order of the sweep, and between the last of a periodic direction and the first.
template <bool UP, int AXIS> __device__ __forceinline__ T between(T ratio, const Fields& before, const Fields& here) {
    return UP ? face<AXIS>(ratio, before, here) : face<AXIS>(ratio, here, before);
}
template <bool UP, int AXIS>
__device__ __forceinline__ T around(const Stencil& op, const Fields& here, const Fields& first) {
    return UP ? face<AXIS>(op, here, first) : face<AXIS>(op, first, here);
}

// The value of an earlier lane.
__device__ __forceinline__ T from_lane(T value, int before) { return __shfl_up_sync(0xffffffffu, value, before); }

// The position of a lane.
struct Lane {
    int warp, warps, helper;          // helper: -1 computes, HELPERS copies values along x, HELPERS + 1 along CHAIN
    int in_x, in_chain;               // within its warp, in the order of the sweep
    int chunk, chunks, group, groups; // the tile
    int rows, layers, layer;          // layer: in the order of the sweep
    int i, chain;                     // its first cell, which is even, and its position in CHAIN
    int first_cell, last_cell;        // of a row, in the order of the sweep
    bool inside;                      // whether its layer exists
    bool ends_x, ends_chain;          // whether it has the last cells of a periodic direction
    int nx;
    Places places;

    __device__ __forceinline__ bool has(int e) const { return inside && i + e < nx; }
    __device__ __forceinline__ bool has_cell(int cell) const { return inside && cell >= i && cell < i + 2; }
};

// Whether a lane's cell has a predecessor in its row.
template <bool UP> __device__ __forceinline__ bool has_before(const Lane& at, int e) {
    return UP ? at.i + e > 0 && at.i + e < at.nx : at.i + e + 1 < at.nx;
}

// The values that a lane's cells need from others.
struct Inputs {
    T x;               // the predecessor of its first cell in x
    Pair chain, march; // the predecessors in these directions
    Pair around_chain, around_march; // for the last cells of a periodic direction, the first ones
};

// Slots in memory for values exchanged between tiles.
struct Boxes {
    Mail* x;     // [sending chunk][layers / DEPTH][rows + DEPTH - 1][DEPTH]
    Mail* chain; // [sending group][chunk][rows + LANES - 1][LANES][2]

    __device__ __forceinline__ Boxes(const Lane& at, Tickets* tickets) {
        const long long decks = (at.layers + DEPTH - 1) / DEPTH;
        x = reinterpret_cast<Mail*>(tickets + 1);
        chain = x + (at.chunks - (periodic(X) ? 0 : 1)) * decks * (at.rows + DEPTH - 1) * DEPTH;
    }
    __device__ __forceinline__ Mail* of_x(const Lane& at, int from, int step) const {
        const long long decks = (at.layers + DEPTH - 1) / DEPTH;
        return x + ((from * decks + at.layer / DEPTH) * (at.rows + DEPTH - 1) + step) * DEPTH;
    }
    __device__ __forceinline__ Mail* of_chain(const Lane& at, int from, int step) const {
        return chain + (((long long)from * at.chunks + at.chunk) * (at.rows + LANES - 1) + step) * WIDTH;
    }
};

// Copies values, NUMBERS per step, from other tiles to a warp's slots in shared memory, several steps at a time.
template <int NUMBERS, int BOXES, int LOADS>
__device__ __forceinline__ void carry(Mail* from, int steps, T* boxes, int* limit, const int* taken) {
    constexpr int STEPS = 32 / NUMBERS, LOT = STEPS * LOADS;
    const int lane = threadIdx.x % 32, of_load = lane / NUMBERS;
    from += lane;
    for (int first = 0; first < steps; first += LOT, from += 32 * LOADS) {
        // The old contents of these slots have been read.
        while (look(taken) < first + LOT - BOXES) __nanosleep(40);
        __syncwarp();
        Mail mail[LOADS];
#pragma unroll
        for (int n = 0; n < LOADS; n++) mail[n] = first + n * STEPS + of_load < steps ? Mail(0) : Mail(1);
        for (int come = 0; come < LOT;) {
#pragma unroll
            for (int n = 0; n < LOADS; n++)
                if (mail[n] == 0) mail[n] = peek(from + 32 * n);
            // Steps for which all numbers have arrived.
            int now = 0;
#pragma unroll
            for (int n = 0; n < LOADS; n++) {
                const unsigned int missing = __ballot_sync(0xffffffffu, mail[n] == 0);
                if (now == n * STEPS) now += missing == 0 ? STEPS : (__ffs(int(missing)) - 1) / NUMBERS;
            }
            if (now == come) continue;
#pragma unroll
            for (int n = 0; n < LOADS; n++) {
                const int step = n * STEPS + of_load;
                if (step >= come && step < now) boxes[(first % BOXES + n * STEPS) * NUMBERS + lane] = opened(mail[n]);
            }
            __syncwarp();
            if (lane == 0) tell(limit, first + now);
#pragma unroll
            for (int n = 0; n < LOADS; n++) {
                const int step = n * STEPS + of_load;
                if (step >= come && step < now && first + step < steps) put(from + 32 * n, Mail(0));
            }
            come = now;
        }
    }
    if (lane == 0) tell(limit, NO_LIMIT);
}

// Claims a tile. All threads must call it.
template <bool UP> __device__ __forceinline__ Lane claim(const Stencil& op, Tickets* tickets) {
    __shared__ int claimed;
    if (threadIdx.x == 0) claimed = atomicAdd(&tickets->next, 1);
    __syncthreads();
    Lane at;
    const int lane = threadIdx.x % 32;
    at.warps = (blockDim.x / 32 - 1) / ROLES;
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

// Does `work` for all rows of a tile, and returns its number. All threads must call it.
//   PAIRS, SINGLES                   numbers per row for each of a lane's cells, and for the lane
//   load(at, march)                  loads the data of a row for prepare
//   Row prepare(at, march, row)      computes these numbers
//   leave(row, ring, singles), Row read(ring, singles)
//                                    writes them to shared memory, each number 32 lanes apart, and reads them
//   advance(at, row, ready, inputs, out)
//                                    the recurrence
//   close(at, ready, first, out)
//                                    if x is periodic, adds the contribution of a row's first cell to its last
//   done(at, march, out)             called with a row that all lanes have processed
template <bool UP, class Work> __device__ __forceinline__ int in_order(const Stencil& op, Tickets* tickets, Work& work) {
    extern __shared__ double shared[];
    const Lane at = claim<UP>(op, tickets);
    const int tile = at.group * at.chunks + at.chunk, lane = threadIdx.x % 32;
    constexpr int ROW = Work::PAIRS * 32, SINGLES_ROW = Work::SINGLES * 32;
    // Shared memory of the first warp: a ring of rows, slots, counters.
    Pair* const rings = reinterpret_cast<Pair*>(shared);
    Pair* const chain_boxes = rings + at.warps * (RING * ROW);
    T* const x_boxes = reinterpret_cast<T*>(chain_boxes + at.warps * (SLOTS * LANES));
    T* const all_singles = x_boxes + at.warps * (X_SLOTS * DEPTH);
    Counts* const counts = reinterpret_cast<Counts*>(all_singles + at.warps * (RING * SINGLES_ROW)) + at.warp;
    const Boxes boxes(at, tickets);
    // Rows of zeros come before the first row.
    for (T* n = reinterpret_cast<T*>(rings) + threadIdx.x; n < reinterpret_cast<T*>(counts - at.warp); n += blockDim.x) *n = T(0);
    const int first_layer = at.layer - at.in_chain;
    const bool has_next = first_layer + DEPTH < at.layers, hands_on = has_next && at.warp + 1 < at.warps;
    if (at.helper < 0 && lane == 0) {
        counts->limits.x = at.chunk > 0 ? 0 : NO_LIMIT;
        counts->limits.chain = at.warp + at.group > 0 ? 0 : NO_LIMIT;
        counts->limits.room = hands_on ? SLOTS + DEPTH - 1 : NO_LIMIT;
        counts->limits.prepared = -1;
        counts->taken = 0;
    }
    __syncthreads();
    if (first_layer >= at.layers) return tile;

    if (at.helper == HELPERS) {
        if (at.chunk > 0)
            carry<DEPTH, X_SLOTS, 1>(boxes.of_x(at, at.chunk - 1, 0), at.rows + DEPTH - 1, x_boxes + at.warp * (X_SLOTS * DEPTH),
                                     &counts->limits.x, &counts->taken);
        return tile;
    }
    if (at.helper > HELPERS) {
        if (at.group > 0)
            carry<WIDTH, SLOTS, SLOTS * WIDTH / 64>(boxes.of_chain(at, at.group - 1, 0), at.rows + LANES - 1,
                                                    reinterpret_cast<T*>(chain_boxes), &counts->limits.chain, &counts->taken);
        return tile;
    }
    Pair* const ring = rings + at.warp * (RING * ROW) + lane;
    T* const singles = all_singles + at.warp * (RING * SINGLES_ROW) + lane;
    const int march_step = UP ? 1 : -1, march_start = UP ? 0 : at.rows - 1;
    if (at.helper >= 0) {
        // The results of the row in this slot, once all lanes have processed it.
        int slot = at.helper;
        auto result = [&](int done) {
            while (look(&counts->taken) <= done + SKEW) __nanosleep(20);
            __syncwarp();
            return ring[slot * ROW];
        };
        auto next_slot = [&] { slot = slot + HELPERS >= RING ? slot + HELPERS - RING : slot + HELPERS; };
        int row = at.helper;
        if (row < at.rows) work.load(at, march_start + march_step * row);
        for (; row < at.rows; row += HELPERS) {
            const int done = row - RING;
            const typename Work::Row ready = work.prepare(at, march_start + march_step * row, row);
            const Pair out = result(done);
            work.leave(ready, ring + slot * ROW, singles + slot * SINGLES_ROW);
            __syncwarp();
            // After the previous helper.
            while (look(&counts->limits.prepared) != row - 1) {
            }
            __syncwarp();
            if (lane == 0) tell(&counts->limits.prepared, row);
            if (row + HELPERS < at.rows) work.load(at, march_start + march_step * (row + HELPERS));
            if (done >= 0) work.done(at, march_start + march_step * done, out);
            next_slot();
        }
        // Values that lanes read behind the last row are not used.
        if (row == at.rows + HELPERS - 1 && lane == 0) tell(&counts->limits.prepared, NO_LIMIT);
        for (; row < at.rows + RING; row += HELPERS, next_slot()) {
            const int done = row - RING;
            if (done < 0) continue;
            work.done(at, march_start + march_step * done, result(done));
        }
        return tile;
    }

    // Which lanes exchange values with other tiles.
    const bool sends_x = at.in_x == LANES - 1 && at.chunk + 1 < at.chunks;
    const bool sends_chain = at.in_chain == DEPTH - 1 && has_next && !hands_on;
    const bool sends_next = at.in_chain == DEPTH - 1 && hands_on;
    // In a row of two cells, one lane has the first and the last.
    const bool is_long = op.nx > 2;
    const bool takes_around_x = at.ends_x && is_long, starts_x = periodic(X) && is_long && at.has_cell(at.first_cell);
    const bool starts_chain = CHAIN_AROUND && at.layers > 1 && at.layer == 0;
    // Which counters the first lanes update: of helpers, the next warp, the previous one; and by how many steps.
    const bool tells = lane == 0 || (lane == 1 && hands_on) || (lane == 2 && at.warp > 0);
    int* const told = lane == 0 ? &counts->taken : lane == 1 ? &counts[1].limits.chain : &counts[-1].limits.room;
    const int allows = lane == 0 ? 1 : lane == 1 ? 1 - (DEPTH - 1) : 1 + SLOTS + DEPTH - 1;

    const int behind = at.in_x + at.in_chain;
    // The slots from which a lane receives and to which it sends.
    const T* const x_in = x_boxes + at.warp * (X_SLOTS * DEPTH) + at.in_chain;
    const Pair* const chain_in = chain_boxes + at.warp * (SLOTS * LANES) + at.in_x;
    Pair* const chain_next = chain_boxes + (at.warp + 1) * (SLOTS * LANES) + at.in_x;
    Mail* x_out = boxes.of_x(at, at.chunk, -(LANES - 1)) + at.in_chain;
    Mail* chain_out = boxes.of_chain(at, at.group, -(DEPTH - 1)) + 2 * at.in_x;
    Mail* x_end = boxes.of_x(at, at.chunks - 1, -at.in_x) + at.in_chain;
    Mail* chain_end = boxes.of_chain(at, at.groups - 1, -at.in_chain) + 2 * at.in_x;
    // Values received across the periodic ends.
    Mail around_x = 0, around_chain[2] = {0, 0};
    T out[2] = {T(0), T(0)};
    Inputs inputs;
    inputs.around_chain = inputs.around_march = Pair{{T(0), T(0)}};

    int slot = (RING - behind) % RING;
    while (look(&counts->limits.prepared) < 0) {
    }
    __syncwarp();
    for (int s = 0; s < at.rows + SKEW; s++) {
        const int row = s - behind;
        const bool active = at.inside && row >= 0 && row < at.rows, next_active = at.inside && row + 1 >= 0 && row + 1 < at.rows;
        // The previous lanes' values of the previous step.
        inputs.march = {{out[0], out[1]}};
        inputs.x = from_lane(out[UP ? 1 : 0], 1);
        if (!FLAT) inputs.chain = {{from_lane(out[0], LANES), from_lane(out[1], LANES)}};
        // This row was prepared a step ago.
        const typename Work::Row ready = work.read(ring + slot * ROW, singles + slot * SINGLES_ROW);
        while (!counts->limits.allow(s)) {
        }
        __syncwarp();
        if (periodic(X) || CHAIN_AROUND) {
            auto waits = [&] {
                return (takes_around_x && active && around_x == 0) ||
                       (CHAIN_AROUND && at.ends_chain && active && (around_chain[0] == 0 || around_chain[1] == 0));
            };
            while (__any_sync(0xffffffffu, waits())) {
                if (periodic(X) && takes_around_x && active) around_x = peek(x_end);
                if (CHAIN_AROUND && at.ends_chain && active) {
                    around_chain[0] = peek(chain_end);
                    around_chain[1] = peek(chain_end + 1);
                }
            }
        }
        if (at.in_x == 0) inputs.x = x_in[(s & (X_SLOTS - 1)) * DEPTH];
        if (!FLAT && at.in_chain == 0) inputs.chain = chain_in[(s & (SLOTS - 1)) * LANES];
        if (CHAIN_AROUND && active) inputs.around_chain = {{opened(around_chain[0]), opened(around_chain[1])}};
        work.advance(at, row, ready, inputs, out);
        if (periodic(X) && at.ends_x) {
            const T first = is_long ? (active ? opened(around_x) : T(0)) : at.first_cell % 2 ? out[1] : out[0];
            work.close(at, ready, first, out);
        }
        // Behind the last row are results that have not been stored yet.
        if (row < at.rows) ring[slot * ROW] = {{out[0], out[1]}};
        if (sends_next) chain_next[((s + SLOTS - (DEPTH - 1)) & (SLOTS - 1)) * LANES] = {{out[0], out[1]}};
        __syncwarp();
        if (tells) tell(told, s + allows);
        if (sends_x && s >= LANES - 1) put(x_out, sealed(out[UP ? 1 : 0]));
        if (sends_chain && s >= DEPTH - 1) {
            put(chain_out, sealed(out[0]));
            put(chain_out + 1, sealed(out[1]));
        }
        x_out += DEPTH, chain_out += WIDTH;
        if (periodic(X) || CHAIN_AROUND || periodic(MARCH)) {
            if (active) {
                if (starts_x) put(x_end, sealed(at.first_cell % 2 ? out[1] : out[0]));
                if (starts_chain) {
                    put(chain_end, sealed(out[0]));
                    put(chain_end + 1, sealed(out[1]));
                }
                // Empties the slots that were read.
                if (periodic(X) && takes_around_x) put(x_end, Mail(0));
                if (CHAIN_AROUND && at.ends_chain) {
                    put(chain_end, Mail(0));
                    put(chain_end + 1, Mail(0));
                }
                if (periodic(MARCH) && row == 0) inputs.around_march = {{out[0], out[1]}};
            }
            x_end += DEPTH, chain_end += WIDTH;
            // Values received for the next step.
            if (periodic(X) && takes_around_x) around_x = next_active ? peek(x_end) : Mail(0);
            if (CHAIN_AROUND && at.ends_chain) {
                around_chain[0] = next_active ? peek(chain_end) : Mail(0);
                around_chain[1] = next_active ? peek(chain_end + 1) : Mail(0);
            }
        }
        slot = slot + 1 == RING ? 0 : slot + 1;
    }
    if (lane == 1 && hands_on) tell(told, NO_LIMIT);
    return tile;
}

// After all of a block's work: the last block resets the tickets.
__device__ __forceinline__ void forget(Tickets* tickets) {
    __syncthreads();
    if (threadIdx.x == 0 && atomicInc(&tickets->finished, gridDim.x - 1) == gridDim.x - 1) tickets->next = 0;
}
