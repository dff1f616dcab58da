// Several sweeps of points in one pass over memory: a block has a tile in x and z and streams along y, with sweeps
// as stages, each a row behind the previous one (as in AN5D, Matsumura et al. 2020).
//
// A thread has one cell of every row. The weights of a row's cells are computed when the row is loaded, and stay in the
// thread's registers until the last stage has passed, as do the values of neighbours in y.
// Values of other neighbours are read from shared memory, which has two buffers for a row of every stage:
// there is one barrier per step of all stages. Tiles overlap by 2 SWEEPS cells, half of which each tile discards: stage s is valid from s
// cells inside on. No direction may be periodic.
//
// Block (LANES x DEPTH). Grid: x: tiles, x fastest; y: segments of `length` rows. Defined by the host:
//   SWEEPS        number of sweeps, 1 or more.
//   MOVES         whether sweeps have momentum.
//   STORED        number of a cell's weights in shared memory instead of registers.
//   LANES, DEPTH  cells of a tile in x and z; more than 2 SWEEPS, or the whole extent if there is one tile.
//   MIN_BLOCKS    blocks per multiprocessor.
#include "reduce.cuh"
#include "seven_point/seven_point.cuh"

constexpr int DIRECTIONS = FLAT ? 4 : 6, TILE = LANES * DEPTH;
// The position of a coefficient field in shared memory, among those that are read.
__device__ constexpr int field_slot(int n) {
    int slot = 0;
    for (int before = 0; before < n; before++) slot += reads_field(before);
    return slot;
}

// Rows prefetched to L2 in advance.
constexpr int AHEAD = 3;

// A tile in one direction of n cells: its first cell, and its valid cells.
struct Span {
    int start, first, last;
    __device__ __forceinline__ Span(int t, int n, int tile) {
        const bool is_one = tile >= n, is_last = is_one || (t + 1) * (tile - 2 * SWEEPS) + 2 * SWEEPS >= n;
        start = is_one ? 0 : t * (tile - 2 * SWEEPS);
        first = start + (t > 0 ? SWEEPS : 0);
        last = is_last ? n : start + tile - SWEEPS;
    }
    __device__ __forceinline__ bool leaves(int n) const { return n >= first && n < last; }
};

__device__ __forceinline__ int tiles(int n, int tile) {
    return tile >= n ? 1 : (n - 2 * SWEEPS + tile - 2 * SWEEPS - 1) / (tile - 2 * SWEEPS);
}

// A cell of a row being loaded; zeros if there is none.
struct Cell {
    T u, f, shift, before;
    Fields h;
};

// The data of a cell's sweeps: v = c + (1 - omega) u + sum of w times the neighbours' u.
struct Update {
    T c, w[DIRECTIONS]; // the first STORED of w are in shared memory
};

// v = u after SWEEPS sweeps, and `last` = u after one sweep fewer; with momentum, `before` is the previous u.  ||f - A u||^2 of the initial u.
// In the order of operations of passes.cu.
KERNEL(relax_streamed, __launch_bounds__(TILE, MIN_BLOCKS))(Stencil op, int length, T omega, T momentum, In f, In u,
                                                            const T* before, T* v, T* last, Reduction to) {
    await_previous();
    extern __shared__ double shared[];
    typedef T Plane[TILE];
    Plane(*level)[2] = reinterpret_cast<Plane(*)[2]>(shared);
    Plane(*fields)[2] = level + SWEEPS;
    Plane(*stored)[STORED > 0 ? STORED : 1] = reinterpret_cast<Plane(*)[STORED > 0 ? STORED : 1]>(fields + field_slot(FIELDS));

    const int t = threadIdx.x, x = t % LANES, z = t / LANES;
    const int tiles_x = tiles(op.nx, LANES);
    const Span sx(blockIdx.x % tiles_x, op.nx, LANES), sz(blockIdx.x / tiles_x, LAYERS(op), DEPTH);
    const int i = sx.start + x, k = sz.start + z;
    const bool is_cell = i < op.nx && k < LAYERS(op), is_left = is_cell && sx.leaves(i) && sz.leaves(k);
    const bool has[6] = {is_cell && i > 0,           is_cell && i + 1 < op.nx, false, false,
                         is_cell && !FLAT && k > 0, is_cell && !FLAT && k + 1 < LAYERS(op)};
    // At a tile's ends the value does not matter.
    const int beside[6] = {x > 0 ? t - 1 : t, x + 1 < LANES ? t + 1 : t, t, t,
                           z > 0 ? t - LANES : t, z + 1 < DEPTH ? t + LANES : t};

    const int j0 = blockIdx.y * length, j1 = min(j0 + length, op.ny);
    const int start = max(j0 - SWEEPS, 0), end = min(j1 + SWEEPS, op.ny);
    auto enter = [&](int j) {
        Cell cell{};
        if (is_cell && j < end) {
            const Index at = place(op, i, j, k);
            cell.u = u[at];
            cell.h = load(op, at);
            cell.f = f[at];
            cell.shift = load_shift(op, at);
            if (MOVES) cell.before = before[at];
        }
        return cell;
    };
    auto put_fields = [&](int side, const Fields& h) {
#pragma unroll
        for (int n = 0; n < FIELDS; n++)
            if (reads_field(n)) fields[field_slot(n)][side][t] = h.f[n];
    };
    auto get_fields = [&](int side, int d) {
        Fields h{};
#pragma unroll
        for (int n = 0; n < FIELDS; n++)
            if (reads_field(n)) h.f[n] = fields[field_slot(n)][side][beside[d]];
        return h;
    };

    Cell here = enter(start), next = enter(start + 1);
    T south[SWEEPS], centre[SWEEPS], t_south = T(0);
    Update rows[SWEEPS];
#pragma unroll
    for (int s = 0; s < SWEEPS; s++) {
        south[s] = centre[s] = T(0);
        rows[s] = Update{};
        level[s][0][t] = T(0);
#pragma unroll
        for (int d = 0; d < STORED; d++) stored[s][d][t] = T(0);
    }
    centre[0] = here.u;
    level[0][0][t] = here.u;
    put_fields(0, here.h);
    __syncthreads();

    const T rest = T(1) - omega;
    double sum[1] = {0};
    int side = 0;
    // The row j is that of the first stage.
    for (int j = start; j < j1 + SWEEPS - 1;) {
#pragma unroll
        for (int phase = 0; phase < SWEEPS; phase++) {
            if (j >= j1 + SWEEPS - 1) break;
            const Cell coming = enter(j + 2);
            if (is_cell && j + AHEAD < end) {
                const Index at = place(op, i, j + AHEAD, k);
                prefetch(op, at);
                prefetch_l2(u + at);
                prefetch_l2(f + at);
                if (MOVES) prefetch_l2(before + at);
            }
            {
                T weight[6];
#pragma unroll
                for (int d = 0; d < DIRECTIONS; d++) {
                    if (d == SOUTH || d == NORTH) continue;
                    const Fields h = get_fields(side, d);
                    const T between = d == WEST    ? face<X>(op, h, here.h)
                                      : d == EAST  ? face<X>(op, here.h, h)
                                      : d == BELOW ? face<Z>(op, h, here.h)
                                                   : face<Z>(op, here.h, h);
                    weight[d] = has[d] ? between : T(0);
                }
                weight[SOUTH] = t_south;
                t_south = weight[NORTH] = j + 1 < end ? face<Y>(op, here.h, next.h) : T(0);
                const T shift = here.shift + sides(op, here.h, i, j, k);
                T diagonal = shift, image = shift * centre[0];
#pragma unroll
                for (int d = 0; d < DIRECTIONS; d++) {
                    diagonal += weight[d];
                    const T value = d == SOUTH ? south[0] : d == NORTH ? next.u : level[0][side][beside[d]];
                    image = fma(weight[d], centre[0] - value, image);
                }
                const T scale = omega * inverse(diagonal), residual = here.f - image;
                if (is_left && j >= j0 && j < j1) sum[0] += double(residual) * double(residual);
                rows[phase].c = scale * here.f;
#pragma unroll
                for (int d = 0; d < DIRECTIONS; d++) {
                    if (d < STORED) stored[phase][d][t] = scale * weight[d];
                    else rows[phase].w[d] = scale * weight[d];
                }
            }
            // Stage s has row j - s; `north` is the previous stage's new result in the next row.
            T north = next.u, old = here.before;
#pragma unroll
            for (int s = 0; s < SWEEPS; s++) {
                const int which = (phase - s + SWEEPS) % SWEEPS;
                const Update& row = rows[which];
                T value = fma(rest, centre[s], row.c);
#pragma unroll
                for (int d = 0; d < DIRECTIONS; d++) {
                    const T from = d == SOUTH ? south[s] : d == NORTH ? north : level[s][side][beside[d]];
                    value = fma(d < STORED ? stored[which][d][t] : row.w[d], from, value);
                }
                if (MOVES) value = fma(momentum, centre[s] - old, value);
                level[s][side ^ 1][t] = north;
                old = south[s];
                south[s] = centre[s];
                centre[s] = north;
                north = value;
            }
            const int done = j - (SWEEPS - 1);
            if (is_left && done >= j0) {
                const Index at = place(op, i, done, k);
                v[at] = north;
                if (MOVES && SWEEPS > 1) last[at] = south[SWEEPS - 1];
            }
            put_fields(side ^ 1, next.h);
            here = next;
            next = coming;
            side ^= 1;
            j++;
            __syncthreads();
        }
    }
    grid_sum(sum, to);
}
