// A_c = P^T A P in one direction, see isobar_core::stencil::galerkin::product. Block 128 for 64 coarse cells, each with one thread for the row
// sum and the coupling along the direction, and one for the other couplings: a thread for all would need twice the registers.
//
// With PRESENT, COARSE_PRESENT has the bits of the directions with couplings after the product. Loads are unconditional.
//
// *any becomes 1 if a coarse cell may have collapsed, see collapsed.cu.
//
// Coarse cell I is fine cell 2I; -1 and 1 are the odd cells before and after it, -2 and 2 the next coarse cells.
#include "galerkin/setup/setup.cuh"

// Sums of weights this close to 1 are taken as 1.
constexpr double ROUNDING = sizeof(Number) == 4 ? 1e-6 : 1e-9;

__device__ __forceinline__ unsigned int coarse_directions(const Matrix& coarse) {
#ifdef PRESENT
    return COARSE_PRESENT;
#else
    return coarse.present;
#endif
}

template <int AXIS> __device__ __forceinline__ void make_row(const Matrix& a, const Weights& w, const Matrix& coarse, int* any) {
    const unsigned int n = blockIdx.x * 64 + threadIdx.x % 64;
    if (n >= coarse.cells) return;
    const Cell own = cell_at(coarse, n);
    const int extents[3] = {a.nx, a.ny, a.nz}, odd_extents[3] = {w.nx, w.ny, w.nz};
    const int at[3] = {own.i, own.j, own.k};
    const int count = extents[AXIS], odd_count = odd_extents[AXIS];

    // The position of a cell is a sum of offsets of its three indices: fine cells from -2 to 2 or odd cells -1 and 1 along the
    // direction, lines from -1 to 1 across it. Missing cells are replaced by the cell itself.
    const unsigned int steps[3] = {(unsigned int)a.ny, 1, (unsigned int)a.ny * a.nx};
    const unsigned int odd_steps[3] = {(unsigned int)w.ny, 1, (unsigned int)w.ny * w.nx};
    unsigned int places[3][5], odd_places[3][3];
    bool exists[3][5];
#pragma unroll
    for (int d = 0; d < 3; d++) {
#pragma unroll
        for (int o = -2; o <= 2; o++) {
            if (d != AXIS && (o == -2 || o == 2)) continue;
            const int first = d == AXIS ? 2 * at[d] : at[d];
            int to = first + o;
            // In a periodic direction the first cells follow the last ones.
            const bool is_there = bring_inside(to, extents[d], a.periodic >> d & 1) && (unsigned int)to < (unsigned int)extents[d];
            exists[d][o + 2] = is_there;
            to = is_there ? to : first;
            places[d][o + 2] = d == Y ? folded(to, a.ny) : steps[d] * to;
            if (d != AXIS && o >= -1 && o <= 1) odd_places[d][o + 1] = d == Y ? folded(to, w.ny) : odd_steps[d] * to;
        }
    }
    const int before = at[AXIS] > 0 ? at[AXIS] - 1 : w.ring ? odd_count - 1 : -1, after = at[AXIS];
    const bool has_before = before >= 0 && before < odd_count, has_after = after < odd_count;
#pragma unroll
    for (int side = 0; side < 2; side++) {
        const bool has = side ? has_after : has_before;
        const int number = has ? (side ? after : before) : 0;
        odd_places[AXIS][2 * side] = AXIS == Y ? folded(number, w.ny) : odd_steps[AXIS] * number;
    }
    exists[AXIS][1] = has_before;
    exists[AXIS][3] = has_after;
    exists[AXIS][4] = exists[AXIS][4] && has_after;
    exists[AXIS][0] = exists[AXIS][0] && has_before;

    // Whether there is a line at an offset across.
    auto is_line = [&](int dx, int dy, int dz) {
        return (AXIS == X || exists[X][dx + 2]) && (AXIS == Y || exists[Y][dy + 2]) && (AXIS == Z || exists[Z][dz + 2]);
    };
    // Weights of the odd cell on a side, in the line at an offset across.
    auto weight_place = [&](int side, int dx, int dy, int dz) {
        return odd_places[X][AXIS == X ? side + 1 : dx + 1] + odd_places[Y][AXIS == Y ? side + 1 : dy + 1] +
               odd_places[Z][AXIS == Z ? side + 1 : dz + 1];
    };
    auto below = [&](int side, int dx, int dy, int dz) {
        const double weight = w.below[weight_place(side, dx, dy, dz)];
        return exists[AXIS][side + 2] ? weight : 0;
    };
    auto above = [&](int side, int dx, int dy, int dz) {
        const double weight = w.above[weight_place(side, dx, dy, dz)];
        return exists[AXIS][side + 2] ? weight : 0;
    };
    // Whether there are couplings in a direction; with PRESENT this is known at compile time.
    auto has = [&](int dx, int dy, int dz) {
        const int number = (dx + 1) + 3 * (dz + 1) + 9 * (dy + 1);
        return (directions(a) >> (number > UPPER ? number - UPPER - 1 : UPPER - 1 - number) & 1) != 0;
    };
    // The coupling of the fine cell at m of this line, in a direction; undefined if the line there does not exist.
    auto coupling = [&](int m, int dx, int dy, int dz) -> double {
        const int number = (dx + 1) + 3 * (dz + 1) + 9 * (dy + 1);
        const int stored = number > UPPER ? number - UPPER - 1 : UPPER - 1 - number;
        if (!(directions(a) >> stored & 1)) return 0;
        const Number* __restrict__ field = a.fields + a.cells * __popc(directions(a) & ((1u << stored) - 1));
        int x = 0, y = 0, z = 0;
        bool is_there = true;
        if (number < UPPER) {
            x = dx;
            y = dy;
            z = dz;
            is_there = exists[AXIS][m + along<AXIS>(dx, dy, dz) + 2];
        }
        (AXIS == X ? x : AXIS == Y ? y : z) += m;
        const double c = field[places[X][x + 2] + places[Y][y + 2] + places[Z][z + 2]];
        return is_there ? c : 0;
    };
    auto own_sum = [&](int m) {
        return sums(a)[places[X][AXIS == X ? m + 2 : 2] + places[Y][AXIS == Y ? m + 2 : 2] + places[Z][AXIS == Z ? m + 2 : 2]];
    };
    // P 1 at m = -1 or 1.
    auto of_one = [&](int m, int dx, int dy, int dz) {
        const double total = below(m, dx, dy, dz) + above(m, dx, dy, dz);
        return fabs(total - 1) < ROUNDING ? 1.0 : total;
    };

    const double own_below = below(1, 0, 0, 0), own_above = above(1, 0, 0, 0), own_before = above(-1, 0, 0, 0);
    // Both ends of a periodic direction of odd length are even cells.
    const bool is_odd_ring = (a.periodic >> AXIS & 1) && (count & 1);
    const bool is_one = along<AXIS>(coarse.nx, coarse.ny, coarse.nz) == 1;

    Number* __restrict__ to = coarse.fields + n;
    // The offset of a direction's field.
    auto field_of = [&](int stored) { return coarse.cells * __popc(coarse_directions(coarse) & ((1u << stored) - 1)); };
    constexpr int ALONG = AXIS == X ? 0 : AXIS == Z ? 2 : 8, ax = AXIS == X, ay = AXIS == Y, az = AXIS == Z;
    if (threadIdx.x < 64) {
        const double weights[2] = {own_before, own_below};
        const double coupling_before = coupling(0, AXIS == X ? -1 : 0, AXIS == Y ? -1 : 0, AXIS == Z ? -1 : 0);
        const double coupling_after = coupling(0, AXIS == X, AXIS == Y, AXIS == Z);
        const double couplings[2] = {has_before ? coupling_before : 0, has_after ? coupling_after : 0};
        // In a periodic direction of two coarse cells, both sides are the same cell.
        if (may_collapse(weights, couplings) || (is_one && w.ring)) *any = 1;

        // A P 1 at 2I, by differences, and at the odd cells with their diagonals.
        const double one_after = of_one(1, 0, 0, 0), one_before = of_one(-1, 0, 0, 0);
        double t = own_sum(0), t_after = has_after ? own_sum(1) : 0, t_before = has_before ? own_sum(-1) : 0;
        double diagonal = t_after;
        t_after *= one_after;
        t_before *= one_before;

#pragma unroll
        for (int number = 0; number < 27; number++) {
            if (number == UPPER) continue;
            const int dx = number % 3 - 1, dz = number / 3 % 3 - 1, dy = number / 9 - 1;
            const int step = along<AXIS>(dx, dy, dz);
            const int qx = AXIS == X ? 0 : dx, qy = AXIS == Y ? 0 : dy, qz = AXIS == Z ? 0 : dz;
            if (!has(dx, dy, dz)) continue;
            const bool is_there = is_line(qx, qy, qz);
            if (step != 0) {
                const double c = coupling(0, dx, dy, dz), one = of_one(step, qx, qy, qz);
                t += is_there && exists[AXIS][step + 2] ? c * (1 - one) : 0;
            }
            const double c_after = is_there && has_after ? coupling(1, dx, dy, dz) : 0;
            const double c_before = is_there && has_before ? coupling(-1, dx, dy, dz) : 0;
            diagonal += c_after;
            t_after += c_after * (one_after - (step == 0 ? of_one(1, qx, qy, qz) : 1.0));
            t_before += c_before * (one_before - (step == 0 ? of_one(-1, qx, qy, qz) : 1.0));
        }

        to[coarse.cells * __popc(coarse_directions(coarse))] = t + own_below * t_after + own_before * t_before;
        if (coarse_directions(coarse) >> ALONG & 1) {
            double c = own_above * coupling(0, ax, ay, az) + own_below * coupling(1, ax, ay, az) - own_below * own_above * diagonal;
            if (is_odd_ring && 2 * at[AXIS] + 1 == count) c += coupling(0, ax, ay, az);
            to[field_of(ALONG)] = c;
        }
        return;
    }

#pragma unroll
    for (int stored = 0; stored < UPPER; stored++) {
        if (stored == ALONG || !(coarse_directions(coarse) >> stored & 1)) continue;
        const int number = stored + UPPER + 1;
        const int dx = number % 3 - 1, dz = number / 3 % 3 - 1, dy = number / 9 - 1;
        const int step = along<AXIS>(dx, dy, dz);
        const int qx = AXIS == X ? 0 : dx, qy = AXIS == Y ? 0 : dy, qz = AXIS == Z ? 0 : dz;
        const bool is_across = has(qx, qy, qz), is_up = has(qx + ax, qy + ay, qz + az), is_down = has(qx - ax, qy - ay, qz - az);
        // C(I, I + 1) and C(I, I - 1)
        auto next = [&] {
            double sum = is_up ? own_below * coupling(1, qx + ax, qy + ay, qz + az) : 0;
            if (!is_up && !is_across) return sum;
            const double other = above(1, qx, qy, qz);
            if (is_up) sum += other * coupling(0, qx + ax, qy + ay, qz + az);
            return is_across ? sum + own_below * other * coupling(1, qx, qy, qz) : sum;
        };
        auto last = [&] {
            double sum = is_down ? own_before * coupling(-1, qx - ax, qy - ay, qz - az) : 0;
            if (!is_down && !is_across) return sum;
            const double other = below(-1, qx, qy, qz);
            if (is_down) sum += other * coupling(0, qx - ax, qy - ay, qz - az);
            return is_across ? sum + own_before * other * coupling(-1, qx, qy, qz) : sum;
        };
        double c;
        if (step > 0) {
            c = next();
        } else if (step < 0) {
            c = last();
        } else {
            c = is_across ? coupling(0, qx, qy, qz) : 0;
            if (is_across || is_down) {
                const double other = above(-1, qx, qy, qz);
                if (is_across) c += own_before * other * coupling(-1, qx, qy, qz);
                if (is_down) c += other * coupling(0, qx - ax, qy - ay, qz - az);
            }
            if (is_across || is_up) {
                const double other = below(1, qx, qy, qz);
                if (is_across) c += own_below * other * coupling(1, qx, qy, qz);
                if (is_up) c += other * coupling(0, qx + ax, qy + ay, qz + az);
            }
            if (is_up) c += own_before * coupling(-1, qx + ax, qy + ay, qz + az);
            if (is_down) c += own_below * coupling(1, qx - ax, qy - ay, qz - az);
            if (is_one) c += next() + last();
        }
        const bool is_end = step > 0 ? 2 * at[AXIS] + 1 == count : step < 0 && at[AXIS] == 0;
        if (is_odd_ring && is_end) c += coupling(0, dx, dy, dz);
        c = is_line(qx, qy, qz) ? c : 0;
        to[field_of(stored)] = c;
    }
}

// For a matrix with three directions the compiler would otherwise spill registers so that more blocks fit.
#if defined(PRESENT) && PRESENT == 0x105
#define BOUNDS __launch_bounds__(128, 8)
#else
#define BOUNDS __launch_bounds__(128)
#endif

#define FOR_AXIS(AXIS, NAME)                                                        \
    KERNEL(product_##NAME, BOUNDS)(Matrix a, Weights w, Matrix coarse, int* any) {  \
        await_previous();                                                           \
        make_row<AXIS>(a, w, coarse, any);                                          \
    }

FOR_AXIS(X, x)
FOR_AXIS(Y, y)
FOR_AXIS(Z, z)
