// Incomplete Cholesky over the whole grid: the pivots, and substitution forwards and backwards.
//
// Specialisation and launch: see systolic.cuh; the host uses SUBSTITUTE_BYTES and FACTORISE_BYTES of shared memory per warp.
#include "reduce.cuh"
#include "seven_point/systolic.cuh"

// z = own + from_march z + from_x z + from_chain z of the predecessors. Upwards: z = inverse_pivots (r + sum of T z over lower
// neighbours); downwards: z += inverse_pivots (sum of T z over upper ones).
// With q, r -= alpha q first; the sums are <r, M^-1 r> = <z, z / inverse_pivots> and <r, r>.
template <bool UP, bool RESIDUAL> struct Substitution {
    static constexpr int PAIRS = 3 + !FLAT + CHAIN_AROUND, SINGLES = periodic(X);
    // Positions of a row's numbers. Results overwrite `own`.
    static constexpr int OWN = 0, FROM_MARCH = 32, FROM_X = 64, FROM_CHAIN = FLAT ? 0 : 96, AROUND_CHAIN = CHAIN_AROUND ? 128 : 0;

    struct Row {
        Pair own, from_march, from_x, from_chain, around_chain;
        T around_x;
    };

    const Stencil& op;
    In inverse_pivots;
    T* r;
    In q;
    T alpha;
    T* z;
    double sums[2];
    T ratio_x, ratio_march, ratio_chain; // of faces
    // Data of the row to be prepared.
    T r_next[2], q_next[2], inverse_next[2];
    Fields here_next[2], below_next[2], edge_next, far_next;
    Fields before_next[2];

    __device__ __forceinline__ Substitution(const Stencil& op, In inverse_pivots, T* r, In q,
                                            T alpha, T* z)
        : op(op), inverse_pivots(inverse_pivots), r(r), q(q), alpha(alpha), z(z), sums{0, 0}, ratio_x(ratio_once<X>(op)),
          ratio_march(ratio_once<MARCH>(op)), ratio_chain(ratio_once<CHAIN>(op)), edge_next{}, far_next{} {
#pragma unroll
        for (int e = 0; e < 2; e++) {
            r_next[e] = q_next[e] = inverse_next[e] = T(0);
            here_next[e] = below_next[e] = before_next[e] = Fields{};
        }
    }

    __device__ __forceinline__ void load(const Lane& at, int march) {
        const T* from = UP ? r : z;
        Index here[2];
        at.places.of(march, here);
        Index before[2];
        at.places.of(UP ? march - 1 : march + 1, before);
        const bool has_march = UP ? march > 0 : march + 1 < at.rows;
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const bool has = at.has(e);
            if (has) r_next[e] = from[here[e]];
            if (RESIDUAL && has) q_next[e] = q[here[e]];
            if (has) inverse_next[e] = inverse_pivots[here[e]];
            if (has) here_next[e] = ::load(op, here[e]);
            if (has && at.layer > 0) below_next[e] = ::load(op, here[e] + at.places.before[e]);
            if (has && has_march) before_next[e] = ::load(op, before[e]);
        }
        if (at.inside && has_before<UP>(at, UP ? 0 : 1)) edge_next = ::load(op, UP ? here[1] - 1 : here[0] + 1);
        if (periodic(X) && at.ends_x) far_next = ::load(op, place_of(op, at.first_cell, march, at.chain));
    }

    __device__ __forceinline__ Row prepare(const Lane& at, int march, int row) {
        Row ready;
        if (CHAIN_AROUND) ready.around_chain = {{T(0), T(0)}};
        if (periodic(X)) ready.around_x = T(0);
        Index here[2];
        at.places.of(march, here);
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const T inverse = inverse_next[e];
            T value = r_next[e];
            if (RESIDUAL) {
                value = fma(-alpha, q_next[e], value);
                if (at.has(e)) r[here[e]] = value;
                sums[1] += double(value) * double(value);
            }
            ready.own.e[e] = UP ? value * inverse : value;
            // The inverse is zero for a missing cell, and a missing lower neighbour closes its face.
            const Fields& x_before = UP ? (e > 0 ? here_next[0] : edge_next) : (e < 1 ? here_next[1] : edge_next);
            const bool has_march = UP || row > 0, has_chain = UP || at.layer > 0, has_x = UP || has_before<UP>(at, e);
            ready.from_march.e[e] = between<UP, MARCH>(ratio_march, before_next[e], here_next[e]) * (has_march ? inverse : T(0));
            ready.from_x.e[e] = between<UP, X>(ratio_x, x_before, here_next[e]) * (has_x ? inverse : T(0));
            if (FLAT) continue;
            ready.from_chain.e[e] = between<UP, CHAIN>(ratio_chain, below_next[e], here_next[e]) * (has_chain ? inverse : T(0));
        }
        if (CHAIN_AROUND && at.ends_chain)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                if (!at.has(e)) continue;
                const Fields first = ::load(op, place_of(op, at.i + e, march, UP ? 0 : at.layers - 1));
                ready.around_chain.e[e] = around<UP, CHAIN>(op, here_next[e], first) * inverse_next[e];
            }
        if (periodic(X) && at.ends_x)
#pragma unroll
            for (int e = 0; e < 2; e++)
                if (at.i + e == at.last_cell) ready.around_x = around<UP, X>(op, here_next[e], far_next) * inverse_next[e];
        return ready;
    }

    __device__ __forceinline__ void leave(const Row& ready, Pair* ring, T* singles) const {
        ring[OWN] = ready.own;
        ring[FROM_MARCH] = ready.from_march;
        ring[FROM_X] = ready.from_x;
        if (!FLAT) ring[FROM_CHAIN] = ready.from_chain;
        if (CHAIN_AROUND) ring[AROUND_CHAIN] = ready.around_chain;
        if (periodic(X)) singles[0] = ready.around_x;
    }

    __device__ __forceinline__ Row read(const Pair* ring, const T* singles) const {
        return {ring[OWN], ring[FROM_MARCH], ring[FROM_X], ring[FROM_CHAIN], ring[AROUND_CHAIN], periodic(X) ? singles[0] : T(0)};
    }

    __device__ __forceinline__ void advance(const Lane& at, int row, const Row& ready, const Inputs& in, T (&out)[2]) {
        T sum[2];
#pragma unroll
        for (int e = 0; e < 2; e++) {
            sum[e] = fma(ready.from_march.e[e], in.march.e[e], ready.own.e[e]);
            if (!FLAT) sum[e] = fma(ready.from_chain.e[e], in.chain.e[e], sum[e]);
            if (periodic(MARCH) && at.rows > 1 && row + 1 == at.rows && at.has(e)) {
                const Index here = place_of(op, at.i + e, UP ? at.rows - 1 : 0, at.chain);
                const Fields first = ::load(op, place_of(op, at.i + e, UP ? 0 : at.rows - 1, at.chain));
                const T coefficient = around<UP, MARCH>(op, ::load(op, here), first) * inverse_pivots[here];
                sum[e] = fma(coefficient, in.around_march.e[e], sum[e]);
            }
            if (CHAIN_AROUND && at.ends_chain) sum[e] = fma(ready.around_chain.e[e], in.around_chain.e[e], sum[e]);
        }
        constexpr int FIRST = UP ? 0 : 1, LAST = 1 - FIRST;
        out[FIRST] = fma(ready.from_x.e[FIRST], in.x, sum[FIRST]);
        out[LAST] = fma(ready.from_x.e[LAST], out[FIRST], sum[LAST]);
    }

    __device__ __forceinline__ void close(const Lane& at, const Row& ready, T first, T (&out)[2]) {
#pragma unroll
        for (int e = 0; e < 2; e++)
            if (at.i + e == at.last_cell) out[e] = fma(ready.around_x, first, out[e]);
    }

    __device__ __forceinline__ void done(const Lane& at, int march, const Pair& out) {
        Index there[2];
        at.places.of(march, there);
#pragma unroll
        for (int e = 0; e < 2; e++) {
            if (!at.has(e)) continue;
            z[there[e]] = out.e[e];
            if (RESIDUAL) sums[0] += double(out.e[e]) * double(out.e[e]) * double(inverse(inverse_pivots[there[e]]));
        }
    }
};

static_assert(warp_bytes(Substitution<true, true>::PAIRS, Substitution<true, true>::SINGLES) == SUBSTITUTE_BYTES, "as on the host");

KERNEL(substitute_up, __launch_bounds__(MOST_THREADS))(Stencil op, Tickets* tickets, In inverse_pivots, In r, T* z) {
    await_previous();
    Substitution<true, false> work(op, inverse_pivots, const_cast<T*>(r), nullptr, T(0), z);
    in_order<true>(op, tickets, work);
    forget(tickets);
}

KERNEL(substitute_up_residual, __launch_bounds__(MOST_THREADS))(Stencil op, Tickets* tickets, Ratio alpha, In inverse_pivots,
                                                                In q, T* r, T* z, Reduction to) {
    await_previous();
    __shared__ double scratch[2 * MOST_THREADS / 32];
    Substitution<true, true> work(op, inverse_pivots, r, q, alpha.value(), z);
    const int tile = in_order<true>(op, tickets, work);
    grid_sum<2>(work.sums, scratch, to, tile);
    forget(tickets);
}

KERNEL(substitute_down, __launch_bounds__(MOST_THREADS))(Stencil op, Tickets* tickets, In inverse_pivots, T* z) {
    await_previous();
    Substitution<false, false> work(op, inverse_pivots, nullptr, nullptr, T(0), z);
    in_order<false>(op, tickets, work);
    forget(tickets);
}

// Sum of T over the upper neighbours of a cell across the ends of periodic directions.
__device__ __noinline__ T upper_sum_around(const Stencil& op, int i, int j, int k) {
    const Fields here = load(op, place(op, i, j, k));
    const int nz = LAYERS(op);
    T sum = T(0);
    if (periodic(X) && i == 0 && op.nx > 1) sum += face<X>(op, load(op, place(op, op.nx - 1, j, k)), here);
    if (periodic(Y) && j == 0 && op.ny > 1) sum += face<Y>(op, load(op, place(op, i, op.ny - 1, k)), here);
    if (periodic(Z) && k == 0 && nz > 1) sum += face<Z>(op, load(op, place(op, i, j, nz - 1)), here);
    return sum;
}

// The pivots d_n = a_nn - sum of T_nm / d_m (T_nm + omega sum of T_pm) over lower neighbours m and the other upper neighbours p
// of m, stored as 1 / d_n, computed as d_n = s_n + sum of T over the upper neighbours + sum of (T_nm - taken / d_m), all terms
// nonnegative. A pivot that is only rounding error of a_nn is replaced by a_nn.
struct Factorisation {
    // For a lower neighbour: T and the amount taken.
    static constexpr int PAIRS = 5 + 2 * !FLAT + 2 * CHAIN_AROUND, SINGLES = 2 * periodic(X);
    static constexpr int UPPER = 0, FROM_MARCH = 32, FROM_X = 96, FROM_CHAIN = FLAT ? 0 : 160;
    static constexpr int AROUND_CHAIN = CHAIN_AROUND ? 224 : 0;

    struct Row {
        Pair upper, t_march, taken_march, t_x, taken_x, t_chain, taken_chain, t_around, taken_around;
        T t_around_x, taken_around_x;
    };

    const Stencil& op;
    T singular, omega;
    T* inverse_pivots;
    // The numbers of the current row, before pivots are replaced.
    T pivot[2], diagonal[2];

    __device__ __forceinline__ Factorisation(const Stencil& op, T singular, T omega, T* inverse_pivots)
        : op(op), singular(singular), omega(omega), inverse_pivots(inverse_pivots) {
#pragma unroll
        for (int e = 0; e < 2; e++) {
            pivot[e] = diagonal[e] = T(0);
        }
    }

    template <int AXIS> __device__ __forceinline__ T face_if(bool has, Index lower, Index upper) const {
        return has ? face<AXIS>(op, ::load(op, lower), ::load(op, upper)) : T(0);
    }
    // Returns the step from a lane's cell to the one above it in CHAIN.
    __device__ __forceinline__ Index to_above(const Lane& at, int e) const {
        return place_of(op, at.i + e, 0, at.chain + 1) - place_of(op, at.i + e, 0, at.chain);
    }
    // The position of a cell and its upper neighbours, some of which may be missing.
    struct Above {
        Index here, x, march, chain;
    };
    // Sum of T over the upper neighbours of a cell.
    __device__ __forceinline__ T upper_sum(const Lane& at, int i, int march, int chain, const Above& of) const {
        T sum = face_if<X>(i + 1 < at.nx, of.here, of.x);
        const T along_march = face_if<MARCH>(march + 1 < at.rows, of.here, of.march);
        const T along_chain = FLAT ? T(0) : face_if<CHAIN>(chain + 1 < at.layers, of.here, of.chain);
        sum = MARCH == Y ? sum + along_march + along_chain : sum + along_chain + along_march;
        if (PERIODIC && (i == 0 || march == 0 || chain == 0))
            sum += MARCH == Y ? upper_sum_around(op, i, march, chain) : upper_sum_around(op, i, chain, march);
        return sum;
    }
    // The sum for any cell.
    __device__ __noinline__ T upper_sum_of(const Lane& at, int i, int march, int chain) const {
        return upper_sum(at, i, march, chain,
                         {place_of(op, i, march, chain), place_of(op, i + 1, march, chain), place_of(op, i, march + 1, chain),
                          place_of(op, i, march, chain + 1)});
    }
    // The amount that a lower neighbour, with coupling t, takes from this cell's pivot.
    __device__ __forceinline__ T taken(T t, T upper) const { return t * fma(T(1) - omega, t, omega * upper); }

    __device__ __forceinline__ void load(const Lane&, int) {}

    __device__ __forceinline__ Row prepare(const Lane& at, int march, int row) {
        Row ready{};
        Index here[2], south[2], north[2]; // in this row, the one before, the one behind
        at.places.of(march, here);
        at.places.of(march - 1, south);
        at.places.of(march + 1, north);
        const Index(&below)[2] = at.places.before;
        const Index above[2] = {to_above(at, 0), to_above(at, 1)};
        T upper[2];
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const int i = at.i + e, j = MARCH == Y ? march : at.chain, k = MARCH == Y ? at.chain : march;
            const Index east = e ? here[0] + 1 : here[1];
            upper[e] = T(0);
            if (!at.has(e)) continue;
            upper[e] = upper_sum(at, i, march, at.chain, {here[e], east, north[e], here[e] + above[e]});
            ready.upper.e[e] = upper[e] + load_shift(op, here[e]) + sides(op, ::load(op, here[e]), i, j, k);
            if (row > 0) {
                const Index south_east = e ? south[0] + 1 : south[1];
                ready.t_march.e[e] = face_if<MARCH>(true, south[e], here[e]);
                const Above of{south[e], south_east, here[e], south[e] + above[e]};
                ready.taken_march.e[e] = taken(ready.t_march.e[e], upper_sum(at, i, march - 1, at.chain, of));
            }
            if (i > 0) {
                const Index west = e ? here[0] : here[1] - 1;
                ready.t_x.e[e] = face_if<X>(true, west, here[e]);
                const Above of{west, here[0], north[1] - 1, west + above[1]};
                ready.taken_x.e[e] = taken(ready.t_x.e[e], e ? upper[0] : upper_sum(at, i - 1, march, at.chain, of));
            }
            if (at.layer > 0) {
                const Index down = here[e] + below[e], down_east = e ? here[0] + below[0] + 1 : here[1] + below[1];
                ready.t_chain.e[e] = face_if<CHAIN>(true, down, here[e]);
                const Above of{down, down_east, north[e] + below[e], here[e]};
                ready.taken_chain.e[e] = taken(ready.t_chain.e[e], upper_sum(at, i, march, at.chain - 1, of));
            }
            if (CHAIN_AROUND && at.ends_chain) {
                ready.t_around.e[e] = face_if<CHAIN>(true, here[e], place_of(op, i, march, 0));
                ready.taken_around.e[e] = taken(ready.t_around.e[e], upper_sum_of(at, i, march, 0));
            }
            if (periodic(X) && at.ends_x && i == at.last_cell) {
                ready.t_around_x = face_if<X>(true, here[e], place_of(op, 0, march, at.chain));
                ready.taken_around_x = taken(ready.t_around_x, upper_sum_of(at, 0, march, at.chain));
            }
        }
        return ready;
    }

    __device__ __forceinline__ void leave(const Row& ready, Pair* ring, T* singles) const {
        ring[UPPER] = ready.upper;
        ring[FROM_MARCH] = ready.t_march;
        ring[FROM_MARCH + 32] = ready.taken_march;
        ring[FROM_X] = ready.t_x;
        ring[FROM_X + 32] = ready.taken_x;
        if (!FLAT) {
            ring[FROM_CHAIN] = ready.t_chain;
            ring[FROM_CHAIN + 32] = ready.taken_chain;
        }
        if (CHAIN_AROUND) {
            ring[AROUND_CHAIN] = ready.t_around;
            ring[AROUND_CHAIN + 32] = ready.taken_around;
        }
        if (periodic(X)) {
            singles[0] = ready.t_around_x;
            singles[32] = ready.taken_around_x;
        }
    }

    __device__ __forceinline__ void add(int e, T t, T taken, T inverse) {
        pivot[e] += fma(-taken, inverse, t);
        diagonal[e] += t;
    }
    __device__ __forceinline__ T inverse_of(int e) const {
        return inverse(pivot[e] > singular * diagonal[e] ? pivot[e] : diagonal[e]);
    }

    __device__ __forceinline__ Row read(const Pair* ring, const T* singles) const {
        return {ring[UPPER], ring[FROM_MARCH], ring[FROM_MARCH + 32], ring[FROM_X], ring[FROM_X + 32], ring[FROM_CHAIN],
                ring[FROM_CHAIN + (FLAT ? 0 : 32)], ring[AROUND_CHAIN], ring[AROUND_CHAIN + (CHAIN_AROUND ? 32 : 0)],
                periodic(X) ? singles[0] : T(0), periodic(X) ? singles[32] : T(0)};
    }

    __device__ __forceinline__ void advance(const Lane& at, int row, const Row& ready, const Inputs& in, T (&out)[2]) {
#pragma unroll
        for (int e = 0; e < 2; e++) {
            pivot[e] = diagonal[e] = ready.upper.e[e];
            add(e, ready.t_march.e[e], ready.taken_march.e[e], in.march.e[e]);
            if (!FLAT) add(e, ready.t_chain.e[e], ready.taken_chain.e[e], in.chain.e[e]);
            if (periodic(MARCH) && at.rows > 1 && row + 1 == at.rows && at.has(e)) {
                const Fields here = ::load(op, place_of(op, at.i + e, row, at.chain));
                const T t = face<MARCH>(op, here, ::load(op, place_of(op, at.i + e, 0, at.chain)));
                add(e, t, taken(t, upper_sum_of(at, at.i + e, 0, at.chain)), in.around_march.e[e]);
            }
            if (CHAIN_AROUND && at.ends_chain) add(e, ready.t_around.e[e], ready.taken_around.e[e], in.around_chain.e[e]);
        }
#pragma unroll
        for (int e = 0; e < 2; e++) {
            add(e, ready.t_x.e[e], ready.taken_x.e[e], e > 0 ? out[0] : in.x);
            out[e] = inverse_of(e);
        }
    }

    __device__ __forceinline__ void close(const Lane& at, const Row& ready, T first, T (&out)[2]) {
#pragma unroll
        for (int e = 0; e < 2; e++)
            if (at.i + e == at.last_cell) {
                add(e, ready.t_around_x, ready.taken_around_x, first);
                out[e] = inverse_of(e);
            }
    }

    __device__ __forceinline__ void done(const Lane& at, int march, const Pair& out) {
        Index there[2];
        at.places.of(march, there);
#pragma unroll
        for (int e = 0; e < 2; e++)
            if (at.has(e)) inverse_pivots[there[e]] = out.e[e];
    }
};

static_assert(warp_bytes(Factorisation::PAIRS, Factorisation::SINGLES) == FACTORISE_BYTES, "as on the host");

KERNEL(factorise_whole, __launch_bounds__(MOST_THREADS))(Stencil op, Tickets* tickets, T singular, T omega, T* inverse_pivots) {
    await_previous();
    Factorisation work(op, singular, omega, inverse_pivots);
    in_order<true>(op, tickets, work);
    forget(tickets);
}
