// Several sweeps of points in one pass over memory for equal coefficients, which are not read: a block has a tile in x
// and z and streams along y, with sweeps as stages, each a row behind the previous one.
//
// A thread has cells 2m and 2m + 1 of every row. Neighbours in y are in its registers, others in shared
// memory, which has two rows of each stage: there is one barrier per step. u and f are loaded through shared memory, a few rows ahead.
// Tiles overlap by the cells that SWEEPS sweeps make invalid. Arithmetic is that of streamed.cu and passes.cu, bit for bit. No direction may be periodic.
//
// Block (LANES x DEPTH). Grid: x: tiles, x fastest; y: segments of `length` rows. Defined by the host:
//   SWEEPS        number of sweeps, 1 or more.
//   MOVES         whether sweeps have momentum.
//   LANES, DEPTH  pairs of cells and layers of a tile.
//   MIN_BLOCKS    blocks per multiprocessor.
#include "reduce.cuh"
#include "seven_point/halving.cuh"

constexpr int TILE = LANES * DEPTH, DIRECTIONS = FLAT ? 4 : 6;
// Invalid cells at a tile's ends, and rows before a segment.
constexpr int HALO_PAIRS = (SWEEPS + 1) / 2, HALO_LAYERS = SWEEPS;
// Rows being loaded; rows of u and f in shared memory.
constexpr int COMING = 2, U_ROWS = COMING + 2, F_ROWS = COMING + SWEEPS + 1;
// Steps with separate code, so that a thread's rows can be registers.
constexpr int STEPS = 6;
// Rows prefetched to L2 in advance.
constexpr int AHEAD = 4;

typedef T Pair[2][TILE]; // the even cells and the odd ones

// v = u after SWEEPS sweeps, and `last` = u after one sweep fewer; with momentum, `before` is the previous u.  ||f - A u||^2 of the initial u.
KERNEL(relax_even, __launch_bounds__(TILE, MIN_BLOCKS))(Stencil op, const Even* __restrict__ even, int length, T omega,
                                                        T momentum, In f, In u, const T* before, T* v, T* last, Reduction to) {
    await_previous();
    extern __shared__ double dynamic[];
    Pair* const u_rows = reinterpret_cast<Pair*>(dynamic);
    Pair* const f_rows = u_rows + U_ROWS;
    Pair* const left = f_rows + F_ROWS; // results of all stages but the last, two rows each
    Pair* const scales = left + 2 * (SWEEPS - 1);
    Pair* const befores = scales + (SHIFT ? F_ROWS : 0);
    constexpr int NUMBERS = 2 * TILE * (U_ROWS + F_ROWS + 2 * (SWEEPS - 1) + (SHIFT ? F_ROWS : 0) + (MOVES ? U_ROWS : 0));
    const int t = threadIdx.x, x = t % LANES, z = t / LANES, nx = op.nx, ny = op.ny, nz = LAYERS(op);
    const Known known = know(op, even);
    const T t_x = known.t[X], t_y = known.t[Y], t_z = FLAT ? T(0) : known.t[Z], rest = T(1) - omega;

    const int pairs = (nx + 1) >> 1, left_x = LANES - 2 * HALO_PAIRS, left_z = DEPTH - 2 * HALO_LAYERS;
    const int tiles_x = max((pairs - 2 * HALO_PAIRS + left_x - 1) / left_x, 1);
    const int tiles_z = FLAT ? 1 : max((nz - 2 * HALO_LAYERS + left_z - 1) / left_z, 1);
    const int tile_x = blockIdx.x % tiles_x, tile_z = blockIdx.x / tiles_x;
    const int m = tile_x * left_x + x, k = FLAT ? 0 : tile_z * left_z + z;
    const bool is_pair = m < pairs && k < nz;
    const bool is_left = is_pair && (tile_x == 0 || x >= HALO_PAIRS) && (tile_x + 1 == tiles_x || x < LANES - HALO_PAIRS) &&
                         (FLAT || ((tile_z == 0 || z >= HALO_LAYERS) && (tile_z + 1 == tiles_z || z < DEPTH - HALO_LAYERS)));
    const bool exists[2] = {is_pair, is_pair && 2 * m + 1 < nx};
    const bool has_west = is_pair && m > 0, has_east = is_pair && 2 * m + 2 < nx, has_below = !FLAT && is_pair && k > 0,
               has_above = !FLAT && is_pair && k + 1 < nz;
    // Whether all cells of a warp have all neighbours and are on no side, except in the first and last row, so that no tests are needed.
    const bool is_inside = has_west && has_east && (FLAT || (has_below && has_above));
    const bool is_plain = __all_sync(0xffffffffu, is_inside && !on_side(op, 2 * m, 1, k) && !on_side(op, 2 * m + 1, 1, k));
    // At a tile's ends the value does not matter.
    const int west = x > 0 ? t - 1 : t, east = x + 1 < LANES ? t + 1 : t;
    const int below = z > 0 ? t - LANES : t, above = z + 1 < DEPTH ? t + LANES : t;

    const int j0 = blockIdx.y * length, j1 = min(j0 + length, ny);
    // The start is even, so that the half plane of a cell in a step is known.
    const int start = max(j0 - SWEEPS, 0) & ~1, end = min(j1 + SWEEPS, ny);
    const Index plane = half_plane(op), at = m + (Index)op.pitch * k;
    auto where = [&](int parity, int cell, int j) { return at + plane * ((parity ^ cell) + 2 * (Index)j); };

    // omega over the diagonal of a cell with all neighbours.
    T d = t_x;
    d += t_x;
    d += t_y;
    d += t_y;
    if (!FLAT) d += t_z;
    if (!FLAT) d += t_z;
    const T inner = omega * inverse(d), weight[3] = {inner * t_x, inner * t_y, inner * t_z};

    for (int n = t; n < NUMBERS; n += TILE) reinterpret_cast<T*>(dynamic)[n] = T(0);
    __syncthreads();
    auto load_row = [&](int parity, int j, int u_slot, int f_slot) {
        const bool is_row = is_pair && j < end;
#pragma unroll
        for (int cell = 0; cell < 2; cell++) {
            const Index there = is_row ? where(parity, cell, j) : 0;
            copy_async(&u_rows[u_slot][cell][t], u + there, is_row);
            copy_async(&f_rows[f_slot][cell][t], f + there, is_row);
            if (SHIFT) copy_async(&scales[f_slot][cell][t], op.shift + there, is_row);
            if (MOVES) copy_async(&befores[u_slot][cell][t], before + there, is_row);
        }
        copy_async_commit();
    };
    load_row(0, start, 0, 0);
    load_row(1, start + 1, 1, 1);

    // Three rows of each stage, by row number.
    T row[SWEEPS][2][3];
#pragma unroll
    for (int s = 0; s < SWEEPS; s++)
#pragma unroll
        for (int n = 0; n < 6; n++) row[s][n / 3][n % 3] = T(0);

    double sum[1] = {0};
    int u_slot = 0, f_slot = 0; // of row j
    for (int j = start; j < j1 + SWEEPS;) {
#pragma unroll
        for (int phase = 0; phase < STEPS; phase++) {
            if (j >= j1 + SWEEPS) break;
            const int parity = phase & 1;
            if (is_pair && j + AHEAD < end) {
#pragma unroll
                for (int cell = 0; cell < 2; cell++) {
                    const Index there = where(parity, cell, j + AHEAD);
                    prefetch_l2(u + there);
                    prefetch_l2(f + there);
                    if (SHIFT) prefetch_l2(op.shift + there);
                    if (MOVES) prefetch_l2(before + there);
                }
            }
            load_row(parity, j + COMING, (u_slot + COMING) % U_ROWS, f_slot + COMING < F_ROWS ? f_slot + COMING : f_slot + COMING - F_ROWS);
            copy_async_wait_for<COMING>();
            row[0][0][phase % 3] = u_rows[u_slot][0][t];
            row[0][1][phase % 3] = u_rows[u_slot][1][t];
            const int u_before = (u_slot + U_ROWS - 1) % U_ROWS;
#pragma unroll
            for (int s = 0; s < SWEEPS; s++) {
                const int r = j - 1 - s, here = (phase + 6 * SWEEPS - 1 - s) % STEPS;
                int slot = f_slot - 1 - s;
                slot += slot < 0 ? F_ROWS : 0;
                const Pair& others = s == 0 ? u_rows[u_before] : left[2 * (s - 1) + here % 2];
                const bool is_row = r >= j0 && r < j1;
                const T own[2] = {row[s][0][here % 3], row[s][1][here % 3]};
                T result[2];
#pragma unroll
                for (int cell = 0; cell < 2; cell++) {
                    const T right = f_rows[slot][cell][t];
                    const bool has[6] = {cell ? exists[1] : has_west, cell ? has_east : exists[1], r > 0, r + 1 < ny, has_below, has_above};
                    const T beside[6] = {cell ? own[0] : others[1][west],    cell ? others[0][east] : own[1],
                                         row[s][cell][(here + 2) % 3],       row[s][cell][(here + 1) % 3],
                                         FLAT ? T(0) : others[cell][below], FLAT ? T(0) : others[cell][above]};
                    const T t_of[3] = {t_x, t_y, t_z};
                    T value, image = T(0);
                    if (!SHIFT && is_plain && r > 0 && r + 1 < ny) {
                        value = fma(rest, own[cell], inner * right);
#pragma unroll
                        for (int n = 0; n < DIRECTIONS; n++) {
                            value = fma(weight[n / 2], beside[n], value);
                            if (s == 0) image = fma(t_of[n / 2], own[cell] - beside[n], image);
                        }
                    } else {
                        T scale = SHIFT ? scales[slot][cell][t] : T(0);
                        if (s == 0 || !SHIFT) {
                            T diagonal = scale + sides(op, known.fields, 2 * m + cell, r, k);
                            image = diagonal * own[cell];
#pragma unroll
                            for (int n = 0; n < DIRECTIONS; n++) {
                                if (!has[n]) continue;
                                diagonal += t_of[n / 2];
                                image = fma(t_of[n / 2], own[cell] - beside[n], image);
                            }
                            scale = exists[cell] ? omega * inverse(diagonal) : T(0);
                            if (SHIFT) scales[slot][cell][t] = scale;
                        }
                        value = fma(rest, own[cell], scale * right);
#pragma unroll
                        for (int n = 0; n < DIRECTIONS; n++)
                            if (has[n]) value = fma(scale * t_of[n / 2], beside[n], value);
                    }
                    if (s == 0 && is_left && is_row && exists[cell]) sum[0] += double(right - image) * double(right - image);
                    if (MOVES) {
                        const T old = s == 0 ? befores[u_before][cell][t] : row[s > 0 ? s - 1 : 0][cell][here % 3];
                        value = fma(momentum, own[cell] - old, value);
                    }
                    result[cell] = value;
                }
#pragma unroll
                for (int cell = 0; cell < 2; cell++) {
                    if (s + 1 < SWEEPS) {
                        row[s + 1 < SWEEPS ? s + 1 : s][cell][here % 3] = result[cell];
                        left[2 * s + here % 2][cell][t] = result[cell];
                    } else if (is_left && is_row && exists[cell]) {
                        const Index there = where(here & 1, cell, r);
                        v[there] = result[cell];
                        if (MOVES && SWEEPS > 1) last[there] = own[cell];
                    }
                }
            }
            u_slot = (u_slot + 1) % U_ROWS;
            f_slot = f_slot + 1 < F_ROWS ? f_slot + 1 : 0;
            j++;
            __syncthreads();
        }
    }
    grid_sum(sum, to);
}
