// Red-black point relaxation in one pass over memory, fused with the multigrid steps before and after it, for equal
// coefficients in all cells and no periodic directions.
//
// A block has a tile in x and z and streams along y, with half sweeps as stages, each a row behind the previous one, and the residual behind the last.
// A thread has one cell of each colour in every row: cells 2m and 2m + 1, whose rows are in the same half planes throughout. The neighbours
// in y and the other cell of the pair are in the thread's registers; other neighbours are read from shared memory, to which
// every stage writes its result for the next step: there is one barrier per step. Tiles overlap.
//
// Block (LANES x DEPTH). Grid: x: tiles, x fastest; y: segments of `length` rows, an even number. Defined by the host:
//   LANES, DEPTH  pairs of cells of a tile in x, and layers, an even number or 1.
//   MIN_BLOCKS    blocks per multiprocessor.
#include "reduce.cuh"
#include "seven_point/halving.cuh"

constexpr int TILE = LANES * DEPTH;
// Two half sweeps.
constexpr int STAGES = 2;
// Cells at a tile's end that are invalid: one for interpolation, one for each stage, and one for the residual.
constexpr int HALO = STAGES + 2, HALO_PAIRS = HALO / 2, HALO_LAYERS = STAGES + 1;
// Steps with separate code, so that a thread's rows can be registers.
constexpr int ROWS = 6;
// Rows of f that are stored, and rows being loaded; rows of u.
constexpr int F_ROWS = 6, COMING = 2, U_ROWS = COMING + 1;
// Rows prefetched to L2 in advance.
constexpr int AHEAD = 4;

// Rows in shared memory: of each colour after each stage, for this step and the previous one; the last but one is read twice.
struct Shared {
    T left[STAGES + 1][2][TILE];
    T third[TILE];
    T corrections[2][TILE]; // interpolated in y and z
    T near[2][LANES], far[2][LANES]; // of the even and the odd cell of a pair
    T residuals[TILE];
    // Rows being loaded, each read by its own thread only.
    T u[U_ROWS][2][TILE], f[F_ROWS][2][TILE], shift[SHIFT ? F_ROWS : 1][2][SHIFT ? TILE : 1];

    // The result of stage s - 1 in a row; for stage 0, the old values.
    __device__ __forceinline__ T* row(int s, int slot) {
        if (s != STAGES - 1) return left[s][slot % 2];
        return slot % 3 == 2 ? third : left[s][slot % 3];
    }
};

// The multigrid step of the pass.
struct Pass {
    const T* f;
    const T* u;            // before
    T* v;                  // after
    const T* correction;   // on the coarser grid, on the way up
    T* coarse_f;           // on the way down
};

template <bool ZERO, bool UP, bool RESIDUAL>
__device__ __forceinline__ double relax(const Halving& h, const Stencil& op, const Even* __restrict__ even, int length, int first,
                                        T rho, const Pass& pass) {
    extern __shared__ double dynamic[];
    Shared& shared = *reinterpret_cast<Shared*>(dynamic);
    const int t = threadIdx.x, x = t % LANES, z = t / LANES, ny = op.ny;
    const Known known = know(op, even);

    // A tile begins such that its results begin with an even layer.
    const int pairs = (op.nx + 1) >> 1, left_x = LANES - 2 * HALO_PAIRS;
    const int tiles_x = max((pairs - 2 * HALO_PAIRS + left_x - 1) / left_x, 1);
    const int tile_x = blockIdx.x % tiles_x, tile_z = blockIdx.x / tiles_x;
    const int m = tile_x * left_x + x;
    // Layer -1 does not exist, so that a tile's results begin with an even layer.
    const int k = FLAT ? 0 : tile_z * (DEPTH - 2 * HALO_LAYERS) - 1 + z;
    const bool is_last_x = tile_x + 1 == tiles_x;
    const bool is_cell = m < pairs && k >= 0 && k < LAYERS(op);
    const bool is_left = is_cell && (tile_x == 0 || x >= HALO_PAIRS) && (is_last_x || x < LANES - HALO_PAIRS) &&
                         (FLAT || ((tile_z == 0 || z >= HALO_LAYERS) && z < DEPTH - HALO_LAYERS));

    const int j0 = blockIdx.y * length, j1 = min(j0 + length, ny);
    const int start = max(j0 - HALO, 0), end = min(j1 + HALO, ny);

    // The positions of the first and the second colour's cells in row 0.
    const Index plane = half_plane(op);
    const int c = (first + k) & 1;
    const Index at[2] = {m + (Index)op.pitch * k + plane * c, m + (Index)op.pitch * k + plane * (1 - c)};

    // Whether a cell is the even or the odd one of its pair: in this order for stages of even steps, reversed for odd steps.
    const int order = (first + k + 1) & 1;
    const bool has_own = is_cell && 2 * m + 1 < op.nx;
    const bool has_below = !FLAT && is_cell && k > 0, has_above = !FLAT && is_cell && k + 1 < LAYERS(op);
    bool exists[2], has_side[2], is_inner[2];
    int beside_x[2];
#pragma unroll
    for (int n = 0; n < 2; n++) {
        const int odd = order ^ n, i = 2 * m + odd;
        exists[n] = is_cell && i < op.nx;
        has_side[n] = is_cell && (odd ? i + 1 < op.nx : m > 0);
        // A cell inside its row; the first and the last row are tested elsewhere.
        is_inner[n] = has_own && has_side[n] && (FLAT || (has_below && has_above)) && !on_side(op, i, 1, k);
        beside_x[n] = odd ? (x + 1 < LANES ? t + 1 : t) : (x > 0 ? t - 1 : t);
    }
    // Whether this holds for all cells of a warp, which then needs no tests.
    const bool is_plain = __all_sync(0xffffffffu, is_inner[0] && is_inner[1]);
    const int to_below = z > 0 ? t - LANES : t, to_above = z + 1 < DEPTH ? t + LANES : t;
    const T t_x = known.t[X], t_y = known.t[Y], t_z = FLAT ? T(0) : known.t[Z];
    const T weight = rho * inverse(T(2) * (t_x + t_y + t_z)), rest = T(1) - rho;

    // The contribution of the grid's sides to a cell's diagonal.
    auto outer = [&](int n, int r) { return sides(op, known.fields, 2 * m + (order ^ n), r, k); };

    // The correction: a row of the coarse level interpolated in z, and rows of the fine level interpolated in y and z.
    const int coarse_k = FLAT ? 0 : part_of(h, Z, min(k, LAYERS(op) - 1)), other_k = FLAT ? 0 : beside(h, Z, min(k, LAYERS(op) - 1));
    const T near_z = UP && is_cell ? (FLAT ? T(1) : h.near[Z][k]) : T(0), far_z = UP && !FLAT && is_cell ? h.far[Z][k] : T(0);
    struct Two {
        T near, far;
    };
    auto load_coarse = [&](int j) {
        Two two = {T(0), T(0)};
        if (!UP || !is_cell || j < 0 || j >= h.coarse[1]) return two;
        two.near = pass.correction[place_in(h.coarse, m, j, coarse_k)];
        if (!FLAT) two.far = pass.correction[place_in(h.coarse, m, j, other_k)];
        return two;
    };
    auto in_z = [&](const Two& two) { return FLAT ? two.near : fma(near_z, two.near, far_z * two.far); };
    auto in_y = [&](int j, T from_own, T from_other) {
        return j < ny ? fma(__ldg(h.near[Y] + j), from_own, __ldg(h.far[Y] + j) * from_other) : T(0);
    };

    T u[2][ROWS];
#pragma unroll
    for (int n = 0; n < ROWS; n++) u[0][n] = u[1][n] = T(0);
    for (int n = t; n < int(sizeof(Shared) / sizeof(T)); n += TILE) reinterpret_cast<T*>(dynamic)[n] = T(0);
    __syncthreads();
    auto load_row = [&](int slot, int j) {
        const bool exists = is_cell && j < end;
#pragma unroll
        for (int colour = 0; colour < 2; colour++) {
            const Index there = exists ? at[colour] + 2 * plane * (Index)j : 0;
            if (!ZERO) copy_async(&shared.u[slot % U_ROWS][colour][t], pass.u + there, exists);
            copy_async(&shared.f[slot % F_ROWS][colour][t], pass.f + there, exists);
            if (SHIFT) copy_async(&shared.shift[slot % F_ROWS][colour][t], op.shift + there, exists);
        }
        copy_async_commit();
    };
    load_row(0, start);
    load_row(1, start + 1);
    static_assert(COMING == 2, "rows on their way");
    // Coarse rows j / 2 and j / 2 + 1, and the next one being loaded. `start` is even.
    T lower = T(0), upper = T(0), correction = T(0);
    Two coming = {T(0), T(0)};
    __syncthreads();
    if (UP) {
        for (int n = t; n < 2 * LANES; n += TILE) {
            const int odd = n / LANES, i = 2 * (m - x + n % LANES) + odd;
            shared.near[odd][n % LANES] = i < op.nx ? h.near[X][i] : T(0);
            shared.far[odd][n % LANES] = i < op.nx ? h.far[X][i] : T(0);
        }
        lower = in_z(load_coarse(start / 2));
        upper = in_z(load_coarse(start / 2 + 1));
        correction = in_y(start, lower, in_z(load_coarse(start / 2 - 1)));
        shared.corrections[0][t] = correction;
        __syncthreads();
    }

    T total = T(0); // of the residual, over two rows
    double squares = 0;
    const int after = ((j1 + 1) & ~1) + STAGES + 2;
    for (int j = start; j < after;) {
#pragma unroll
        for (int phase = 0; phase < ROWS; phase++) {
            if (j >= after) break;
            const int now = phase & 1;
            auto slot = [&](int back) { return (phase - back + 2 * ROWS) % ROWS; };
            if (is_cell && j + AHEAD < end) {
#pragma unroll
                for (int colour = 0; colour < 2; colour++) {
                    const Index there = at[colour] + 2 * plane * (Index)(j + AHEAD);
                    prefetch_l2(pass.f + there);
                    if (!ZERO) prefetch_l2(pass.u + there);
                    if (SHIFT) prefetch_l2(op.shift + there);
                }
            }
            load_row((phase + 2) % ROWS, j + 2);
            copy_async_wait_for<COMING>();
#pragma unroll
            for (int colour = 0; colour < 2; colour++) u[colour][phase] = ZERO ? T(0) : shared.u[phase % U_ROWS][colour][t];
            // Row j has arrived; its cells are in opposite order to those of row j - 1.
            if (UP) {
                const int q = now;
#pragma unroll
                for (int colour = 0; colour < 2; colour++) {
                    const int n = 1 ^ now ^ colour, odd = order ^ n;
                    u[colour][phase] += fma(shared.near[odd][x], correction, shared.far[odd][x] * shared.corrections[q][beside_x[n]]);
                }
                correction = now == 0 ? in_y(j + 1, lower, upper) : in_y(j + 1, upper, lower);
                shared.corrections[q ^ 1][t] = correction;
                if (now == 0) {
                    coming = load_coarse(j / 2 + 2);
                } else {
                    lower = upper;
                    upper = in_z(coming);
                }
            }
            if (!ZERO) shared.row(0, phase)[t] = u[1][phase];
#pragma unroll
            for (int s = 0; s < STAGES; s++) {
                const int r = j - 1 - s, here = slot(1 + s), colour = s & 1;
                const T* others = shared.row(s, here);
                const T right = shared.f[here % F_ROWS][colour][t], before = u[colour][here];
                const bool is_known = ZERO && s == 0;
                if (!SHIFT && is_plain && r > 0 && r + 1 < ny) {
                    T sum = right;
                    if (!is_known) {
                        sum = fma(t_x, u[colour ^ 1][here] + others[beside_x[now]], sum);
                        sum = fma(t_y, u[colour ^ 1][slot(2 + s)] + u[colour ^ 1][slot(s)], sum);
                        if (!FLAT) sum = fma(t_z, others[to_below] + others[to_above], sum);
                    }
                    u[colour][here] = fma(weight, sum, rest * before);
                } else {
                    T sum = right, d = outer(now, r);
                    auto add = [&](bool has, T coupling, T value) {
                        if (!has) return;
                        d += coupling;
                        if (!is_known) sum = fma(coupling, value, sum);
                    };
                    add(has_own, t_x, u[colour ^ 1][here]);
                    add(has_side[now], t_x, others[beside_x[now]]);
                    add(r > 0, t_y, u[colour ^ 1][slot(2 + s)]);
                    add(r + 1 < ny, t_y, u[colour ^ 1][slot(s)]);
                    add(has_below, t_z, others[to_below]);
                    add(has_above, t_z, others[to_above]);
                    if (SHIFT) d += shared.shift[here % F_ROWS][colour][t];
                    u[colour][here] = exists[now] ? fma(rho * inverse(d), sum, rest * before) : T(0);
                }
                shared.row(s + 1, here)[t] = u[colour][here];
            }
            {
                const int r = j - STAGES;
                if (is_left && r >= j0 && r < j1) {
#pragma unroll
                    for (int colour = 0; colour < 2; colour++)
                        if (exists[1 ^ now ^ colour]) pass.v[at[colour] + 2 * plane * (Index)r] = u[colour][slot(STAGES)];
                }
            }
            if (RESIDUAL) {
                const int r = j - 1 - STAGES, here = slot(1 + STAGES);
                const bool is_row = r >= j0 && r < j1;
                T residual[2];
#pragma unroll
                for (int colour = 0; colour < 2; colour++) {
                    const int n = now ^ colour;
                    const T* others = shared.row(STAGES - colour, here);
                    const T value = u[colour][here];
                    const T right = shared.f[here % F_ROWS][colour][t];
                    if (!SHIFT && is_plain && r > 0 && r + 1 < ny) {
                        T sum = t_x * ((value - u[colour ^ 1][here]) + (value - others[beside_x[n]]));
                        sum = fma(t_y, (value - u[colour ^ 1][slot(2 + STAGES)]) + (value - u[colour ^ 1][slot(STAGES)]), sum);
                        if (!FLAT) sum = fma(t_z, (value - others[to_below]) + (value - others[to_above]), sum);
                        residual[colour] = right - sum;
                        continue;
                    }
                    T sum = outer(n, r) * value;
                    if (SHIFT) sum = fma(shared.shift[here % F_ROWS][colour][t], value, sum);
                    if (has_own) sum = fma(t_x, value - u[colour ^ 1][here], sum);
                    if (has_side[n]) sum = fma(t_x, value - others[beside_x[n]], sum);
                    if (r > 0) sum = fma(t_y, value - u[colour ^ 1][slot(2 + STAGES)], sum);
                    if (r + 1 < ny) sum = fma(t_y, value - u[colour ^ 1][slot(STAGES)], sum);
                    if (has_below) sum = fma(t_z, value - others[to_below], sum);
                    if (has_above) sum = fma(t_z, value - others[to_above], sum);
                    residual[colour] = exists[n] ? right - sum : T(0);
                }
                if (UP) {
                    if (is_left && is_row) squares += double(residual[0]) * double(residual[0]) + double(residual[1]) * double(residual[1]);
                } else {
                    // Row r is even if j is odd.
                    const T both = is_row ? residual[0] + residual[1] : T(0);
                    if (!FLAT && now == 1 && r > j0 && is_left && !(k & 1)) {
                        pass.coarse_f[place_in(h.coarse, m, r / 2 - 1, k / 2)] = shared.residuals[t] + shared.residuals[to_above];
                    }
                    total = now == 1 ? both : total + both;
                    if (now == 0 && r > j0) {
                        if (FLAT) {
                            if (is_left) pass.coarse_f[place_in(h.coarse, m, r / 2, 0)] = total;
                        } else {
                            shared.residuals[t] = total;
                        }
                    }
                }
            }
            j++;
            __syncthreads();
        }
    }
    return squares;
}

// v = u after a sweep of both colours;  f_c = R (f - A v)
KERNEL(relax_restrict, __launch_bounds__(TILE, MIN_BLOCKS))(Halving h, Stencil op, const Even* even, int length, int first,
                                                            T rho, const T* f, const T* u, T* v, T* coarse_f) {
    await_previous();
    relax<false, false, true>(h, op, even, length, first, rho, {f, u, v, nullptr, coarse_f});
}

// v = u after a sweep of both colours from u = 0;  f_c = R (f - A v)
KERNEL(relax_zero_restrict, __launch_bounds__(TILE, MIN_BLOCKS))(Halving h, Stencil op, const Even* even, int length, int first,
                                                                 T rho, const T* f, T* v, T* coarse_f) {
    await_previous();
    relax<true, false, true>(h, op, even, length, first, rho, {f, nullptr, v, nullptr, coarse_f});
}

// v = u + P u_c after a sweep of both colours
KERNEL(prolong_relax, __launch_bounds__(TILE, MIN_BLOCKS))(Halving h, Stencil op, const Even* even, int length, int first,
                                                           T rho, const T* f, const T* coarse_u, const T* u, T* v) {
    await_previous();
    relax<false, true, false>(h, op, even, length, first, rho, {f, u, v, coarse_u, nullptr});
}

// v = u + P u_c after a sweep of both colours;  ||f - A v||^2
KERNEL(prolong_relax_norm, __launch_bounds__(TILE, MIN_BLOCKS))(Halving h, Stencil op, const Even* even, int length, int first,
                                                                T rho, const T* f, const T* coarse_u, const T* u, T* v, Reduction to) {
    await_previous();
    double sum[1] = {relax<false, true, true>(h, op, even, length, first, rho, {f, u, v, coarse_u, nullptr})};
    grid_sum(sum, to);
}
