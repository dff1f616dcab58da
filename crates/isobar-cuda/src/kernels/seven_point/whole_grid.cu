// Incomplete Cholesky over the whole grid: the pivots, and substitution forwards and backwards.
//
// Specialised by, and launched as, waves.cuh says.
#include "reduce.cuh"
#include "seven_point/waves.cuh"

// Upwards: z = inverse_pivots (r + sum of T z over lower neighbours); downwards: z += inverse_pivots (sum of T z over upper ones).
// With q, r -= alpha q before, and sums are <r, M^-1 r> = <z, z / inverse_pivots> and <r, r>.
template <bool UP, bool RESIDUAL>
__device__ __forceinline__ int sweep(const Stencil& op, Progress* progress, const T* __restrict__ inverse_pivots, T* r,
                                     const T* __restrict__ q, T alpha, T* z, double (&sums)[2]) {
    __shared__ T handed[2][WARPS][CELLS][32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, order = UP ? lane : 31 - lane;
    // Of the rows to come, by the parity of their steps.
    T r_to_come[2][CELLS], q_to_come[2][CELLS], inverses_to_come[2][CELLS], row_to_come[2][CELLS];
    T carries[2] = {T(0), T(0)}, firsts[2] = {T(0), T(0)};
    Fields here_to_come[2][CELLS], chain_to_come[2][CELLS], edges[2] = {Fields{}, Fields{}}, arounds[2] = {Fields{}, Fields{}};
    // Of the row before.
    T z_before[CELLS];
    Fields before[CELLS];
#pragma unroll
    for (int e = 0; e < CELLS; e++) {
        z_before[e] = T(0);
        before[e] = Fields{};
#pragma unroll
        for (int n = 0; n < 2; n++) {
            r_to_come[n][e] = q_to_come[n][e] = inverses_to_come[n][e] = row_to_come[n][e] = T(0);
            here_to_come[n][e] = chain_to_come[n][e] = Fields{};
        }
    }
    const T* from = UP ? r : z;
    // The first and the last cell of a row, as the sweep goes.
    const int first_cell = UP ? 0 : op.nx - 1, last_cell = UP ? op.nx - 1 : 0;
    return in_waves<UP>(op, progress, [&](auto parity_of, const Place& p, bool has_now, const Place& next, bool has_next) {
        constexpr int parity = decltype(parity_of)::value;
        T(&r_next)[CELLS] = r_to_come[parity], (&q_next)[CELLS] = q_to_come[parity];
        T(&inverse_next)[CELLS] = inverses_to_come[parity], (&row_next)[CELLS] = row_to_come[parity];
        T &carry_next = carries[parity], &first_next = firsts[parity];
        Fields(&here_next)[CELLS] = here_to_come[parity], (&chain_next)[CELLS] = chain_to_come[parity];
        Fields &edge_next = edges[parity], &around_next = arounds[parity];
        T r_now[CELLS], inverse_now[CELLS], row_now[CELLS];
        Fields here[CELLS], below[CELLS];
        const Fields edge = edge_next, far = around_next;
        const T carry = carry_next, first = first_next;
#pragma unroll
        for (int e = 0; e < CELLS; e++) {
            r_now[e] = RESIDUAL ? fma(-alpha, q_next[e], r_next[e]) : r_next[e];
            inverse_now[e] = inverse_next[e];
            row_now[e] = row_next[e];
            here[e] = here_next[e];
            below[e] = chain_next[e];
        }
        const bool has_last = periodic(X) && op.nx > 1 && p.last_chunk && last_cell >= p.i && last_cell < p.i + CELLS;
        if (has_next) {
            const int chain_before = UP ? next.chain - 1 : next.chain + 1;
#pragma unroll
            for (int e = 0; e < CELLS; e++) {
                if (next.i + e >= op.nx) continue;
                const Index at = next.at(e);
                r_next[e] = from[at];
                if (RESIDUAL) q_next[e] = q[at];
                inverse_next[e] = inverse_pivots[at];
                here_next[e] = load(op, at);
                if (!next.first_chain) {
                    const Index there = place_of(op, next.i + e, next.march, chain_before);
                    chain_next[e] = load(op, there);
                    if (next.takes_row) row_next[e] = __ldcg(z + there);
                }
            }
            const int edge_cell = UP ? next.i - 1 : next.i + CELLS;
            if (edge_cell >= 0 && edge_cell < op.nx) {
                const Index there = place(op, edge_cell, next.j, next.k);
                edge_next = load(op, there);
                if (order == 0) carry_next = __ldcg(z + there);
            }
            if (has_last) {
                const Index there = place(op, first_cell, next.j, next.k);
                around_next = load(op, there);
                if (!next.first_chunk) first_next = __ldcg(z + there);
            }
            const int ahead = UP ? next.march + PREFETCH : next.march - PREFETCH;
            if (ahead >= 0 && ahead < extent(op, MARCH) && next.i < op.nx) {
                const Index there = place_of(op, next.i, ahead, next.chain), other = place_of(op, next.i + 1, ahead, next.chain);
                prefetch_l2(from + there);
                prefetch_l2(from + other);
                prefetch_l2(inverse_pivots + there);
                prefetch_l2(inverse_pivots + other);
                if (RESIDUAL) prefetch_l2(q + there);
                if (RESIDUAL) prefetch_l2(q + other);
                prefetch(op, there);
                prefetch(op, other);
            }
        }
        if (!has_now) return;
        // What is not along x, and T along x.
        T sum[CELLS], along[CELLS], out[CELLS];
#pragma unroll
        for (int e = 0; e < CELLS; e++) {
            sum[e] = UP ? r_now[e] : T(0);
            if (!p.first_march) sum[e] = fma(between<UP, MARCH>(op, before[e], here[e]), z_before[e], sum[e]);
            if (!p.first_chain) {
                const T row = p.takes_row ? row_now[e] : handed[parity ^ 1][warp - 1][e][lane];
                sum[e] = fma(between<UP, CHAIN>(op, below[e], here[e]), row, sum[e]);
            }
            const bool has_before = UP ? p.i + e > 0 && p.i + e < op.nx : p.i + e + 1 < op.nx;
            const Fields& x_before = UP ? (e > 0 ? here[e > 0 ? e - 1 : 0] : edge)
                                        : (e < CELLS - 1 ? here[e < CELLS - 1 ? e + 1 : e] : edge);
            along[e] = has_before ? between<UP, X>(op, x_before, here[e]) : T(0);
        }
        if ((periodic(MARCH) && p.last_march && !p.first_march) || (periodic(CHAIN) && p.last_chain && !p.first_chain)) {
            const int march_end = UP ? 0 : extent(op, MARCH) - 1, chain_end = UP ? 0 : extent(op, CHAIN) - 1;
#pragma unroll
            for (int e = 0; e < CELLS; e++) {
                if (p.i + e >= op.nx) continue;
                if (periodic(MARCH) && p.last_march && !p.first_march) {
                    const Index there = place_of(op, p.i + e, march_end, p.chain);
                    sum[e] = fma(around<UP, MARCH>(op, here[e], load(op, there)), __ldcg(z + there), sum[e]);
                }
                if (periodic(CHAIN) && p.last_chain && !p.first_chain) {
                    const Index there = place_of(op, p.i + e, p.march, chain_end);
                    sum[e] = fma(around<UP, CHAIN>(op, here[e], load(op, there)), __ldcg(z + there), sum[e]);
                }
            }
        }
        // z = constant + factor (z before), for a lane's cells, then for all lanes up to this one.
        T constant = T(0), factor = T(1);
#pragma unroll
        for (int n = 0; n < CELLS; n++) {
            const int e = nth<UP>(n);
            const T own = UP ? sum[e] * inverse_now[e] : fma(sum[e], inverse_now[e], r_now[e]), c = along[e] * inverse_now[e];
            constant = fma(c, constant, own);
            factor *= c;
        }
        if (order == 0) constant = fma(factor, carry, constant);
#pragma unroll
        for (int d = 1; d < 32; d *= 2) {
            const T c = from_lane<UP>(constant, d), f = from_lane<UP>(factor, d);
            if (order >= d) {
                constant = fma(factor, c, constant);
                factor *= f;
            }
        }
        T last = from_lane<UP>(constant, 1);
        if (order == 0) last = carry;
#pragma unroll
        for (int n = 0; n < CELLS; n++) {
            const int e = nth<UP>(n);
            sum[e] = fma(along[e], last, sum[e]);
            last = out[e] = UP ? sum[e] * inverse_now[e] : fma(sum[e], inverse_now[e], r_now[e]);
        }
        if (periodic(X) && op.nx > 1 && p.last_chunk) {
            // The last cell of the row, on which nothing in it depends, and the first.
            T here_first = first;
            if (p.first_chunk) {
                const int e = first_cell % CELLS;
                T value = T(0);
#pragma unroll
                for (int n = 0; n < CELLS; n++)
                    if (n == e) value = out[n];
                here_first = __shfl_sync(0xffffffffu, value, first_cell / CELLS);
            }
#pragma unroll
            for (int e = 0; e < CELLS; e++)
                if (has_last && p.i + e == last_cell) {
                    sum[e] = fma(around<UP, X>(op, here[e], far), here_first, sum[e]);
                    out[e] = UP ? sum[e] * inverse_now[e] : fma(sum[e], inverse_now[e], r_now[e]);
                }
        }
#pragma unroll
        for (int e = 0; e < CELLS; e++) {
            handed[parity][warp][e][lane] = z_before[e] = out[e];
            before[e] = here[e];
            if (p.i + e >= op.nx) continue;
            z[p.at(e)] = out[e];
            if (RESIDUAL) {
                r[p.at(e)] = r_now[e];
                sums[0] += double(out[e]) * double(sum[e]);
                sums[1] += double(r_now[e]) * double(r_now[e]);
            }
        }
    });
}

extern "C" __global__ void __launch_bounds__(THREADS)
    substitute_up(Stencil op, Progress* progress, const T* __restrict__ inverse_pivots, const T* __restrict__ r, T* z) {
    double none[2] = {0, 0};
    sweep<true, false>(op, progress, inverse_pivots, const_cast<T*>(r), nullptr, T(0), z, none);
    forget(progress);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    substitute_up_residual(Stencil op, Progress* progress, Ratio alpha, const T* __restrict__ inverse_pivots,
                           const T* __restrict__ q, T* r, T* z, double* partial, unsigned int* counter, double* result) {
    __shared__ double scratch[2 * (WARPS + 2)];
    double sums[2] = {0, 0};
    const int tile = sweep<true, true>(op, progress, inverse_pivots, r, q, alpha.value(), z, sums);
    grid_sum<2>(sums, scratch, partial, counter, result, tile);
    forget(progress);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    substitute_down(Stencil op, Progress* progress, const T* __restrict__ inverse_pivots, T* z) {
    double none[2] = {0, 0};
    sweep<false, false>(op, progress, inverse_pivots, nullptr, nullptr, T(0), z, none);
    forget(progress);
}

// Sum of T over the upper neighbours of a cell. Not inline: what the compiler takes for its many calls is more than what they do.
__device__ __noinline__ T upper_sum(const Stencil& op, int i, int j, int k) {
    const Fields here = load(op, place(op, i, j, k));
    const int nz = LAYERS(op);
    T sum = T(0);
    if (i + 1 < op.nx) sum += face<X>(op, here, load(op, place(op, i + 1, j, k)));
    if (j + 1 < op.ny) sum += face<Y>(op, here, load(op, place(op, i, j + 1, k)));
    if (k + 1 < nz) sum += face<Z>(op, here, load(op, place(op, i, j, k + 1)));
    if (periodic(X) && i == 0 && op.nx > 1) sum += face<X>(op, load(op, place(op, op.nx - 1, j, k)), here);
    if (periodic(Y) && j == 0 && op.ny > 1) sum += face<Y>(op, load(op, place(op, i, op.ny - 1, k)), here);
    if (periodic(Z) && k == 0 && nz > 1) sum += face<Z>(op, load(op, place(op, i, j, nz - 1)), here);
    return sum;
}

// x -> (a x + b) / (c x + d), none of them negative, so that products of such maps lose no digits.
struct Map {
    T a, b, c, d;
};

// First `inner`, then `outer`; scaled, which changes nothing.
__device__ __forceinline__ Map after(const Map& outer, const Map& inner) {
    const T c = fma(outer.c, inner.a, outer.d * inner.c), d = fma(outer.c, inner.b, outer.d * inner.d), scale = reciprocal(c + d);
    return {scale * fma(outer.a, inner.a, outer.b * inner.c), scale * fma(outer.a, inner.b, outer.b * inner.d), scale * c, scale * d};
}

// The pivots d_n = a_nn - sum of T_nm / d_m (T_nm + omega sum of T_pm) over lower neighbours m and the other upper neighbours p
// of m, as 1 / d_n. A pivot that is no more than rounding of a_nn is replaced by that.
//
// With U_n the sum of T over the upper neighbours and d_n = U_n + e_n, t the coupling to the cell before in x, m, and h what e_n
// has of all others,
//     e_n = h + t (e_m + (1 - omega) (U_m - t)) / (e_m + U_m),
// so that cells along x are a product of maps of e.
extern "C" __global__ void __launch_bounds__(THREADS)
    factorise_whole(Stencil op, Progress* progress, T singular, T omega, T* inverse_pivots) {
    __shared__ T handed[2][WARPS][CELLS][32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const T keep = T(1) - omega;
    T upper_before[CELLS], inverse_before[CELLS];
    Fields before[CELLS];
#pragma unroll
    for (int e = 0; e < CELLS; e++) {
        upper_before[e] = inverse_before[e] = T(0);
        before[e] = Fields{};
    }
    in_waves<true>(op, progress, [&](auto parity_of, const Place& p, bool has_now, const Place&, bool) {
        constexpr int parity = decltype(parity_of)::value;
        if (!has_now) return;
        T upper[CELLS], rest[CELLS], diagonal[CELLS], along[CELLS], inverses[CELLS];
        Fields here[CELLS];
#pragma unroll
        for (int e = 0; e < CELLS; e++) {
            upper[e] = rest[e] = diagonal[e] = T(0);
            here[e] = Fields{};
            const int i = p.i + e;
            if (i >= op.nx) continue;
            here[e] = load(op, p.at(e));
            upper[e] = upper_sum(op, i, p.j, p.k);
            rest[e] = load_shift(op, p.at(e)) + sides(op, here[e], i, p.j, p.k);
            diagonal[e] = rest[e] + upper[e];
            auto take = [&](T t, T upper_there, T inverse_there) {
                diagonal[e] += t;
                rest[e] += t * (T(1) - fma(keep, t, omega * upper_there) * inverse_there);
            };
            auto take_from = [&](auto axis, int march, int chain, bool is_around, bool in_memory) {
                constexpr int AXIS = decltype(axis)::value;
                const Index there = place_of(op, i, march, chain);
                const Fields fields = load(op, there);
                const T sum = MARCH == Y ? upper_sum(op, i, march, chain) : upper_sum(op, i, chain, march);
                take(is_around ? face<AXIS>(op, here[e], fields) : face<AXIS>(op, fields, here[e]), sum,
                     in_memory ? __ldcg(inverse_pivots + there) : handed[parity ^ 1][warp - 1][e][lane]);
            };
            struct OnMarch { enum { value = MARCH }; };
            struct OnChain { enum { value = CHAIN }; };
            if (!p.first_march) take(face<MARCH>(op, before[e], here[e]), upper_before[e], inverse_before[e]);
            if (!p.first_chain) take_from(OnChain{}, p.march, p.chain - 1, false, p.takes_row);
            if (periodic(MARCH) && p.last_march && !p.first_march) take_from(OnMarch{}, 0, p.chain, true, true);
            if (periodic(CHAIN) && p.last_chain && !p.first_chain) take_from(OnChain{}, p.march, 0, true, true);
        }
        // Of the cell before a lane's own.
        T upper_edge = T(0), carry = T(0);
        Fields edge = Fields{};
        if (p.i > 0 && p.i < op.nx) {
            const Index there = place(op, p.i - 1, p.j, p.k);
            edge = load(op, there);
            upper_edge = upper_sum(op, p.i - 1, p.j, p.k);
            if (lane == 0) carry = max(inverse(__ldcg(inverse_pivots + there)) - upper_edge, T(0));
        }
        Map map = {T(1), T(0), T(0), T(1)};
#pragma unroll
        for (int e = 0; e < CELLS; e++) {
            const bool has_before = p.i + e > 0 && p.i + e < op.nx;
            along[e] = has_before ? face<X>(op, e > 0 ? here[e > 0 ? e - 1 : 0] : edge, here[e]) : T(0);
            const T t = along[e], u = e > 0 ? upper[e > 0 ? e - 1 : 0] : upper_edge, h = rest[e];
            diagonal[e] += t;
            const Map own = t > T(0) ? Map{h + t, fma(h, u, t * keep * max(u - t, T(0))), T(1), u} : Map{T(0), h, T(0), T(1)};
            map = after(own, map);
        }
        if (lane == 0) map = after(map, Map{T(0), carry, T(0), T(1)});
#pragma unroll
        for (int d = 1; d < 32; d *= 2) {
            const Map other = {from_lane<true>(map.a, d), from_lane<true>(map.b, d), from_lane<true>(map.c, d), from_lane<true>(map.d, d)};
            if (lane >= d) map = after(map, other);
        }
        T last = from_lane<true>(map.b * inverse(map.d), 1);
        if (lane == 0) last = carry;
#pragma unroll
        for (int e = 0; e < CELLS; e++) {
            const T t = along[e], u = e > 0 ? upper[e > 0 ? e - 1 : 0] : upper_edge;
            if (t > T(0)) rest[e] += t * fma(keep, max(u - t, T(0)), last) * reciprocal(last + u);
            last = rest[e];
            const T pivot = upper[e] + rest[e];
            inverses[e] = inverse(pivot > singular * diagonal[e] ? pivot : diagonal[e]);
        }
        if (periodic(X) && op.nx > 1 && p.last_chunk) {
            // The last cell of the row, on which nothing in it depends, and the first.
            T inverse_first = __shfl_sync(0xffffffffu, inverses[0], 0);
            const Index there = place(op, 0, p.j, p.k);
            if (!p.first_chunk) inverse_first = __ldcg(inverse_pivots + there);
#pragma unroll
            for (int e = 0; e < CELLS; e++) {
                if (p.i + e != op.nx - 1) continue;
                const T t = face<X>(op, here[e], load(op, there));
                diagonal[e] += t;
                rest[e] += t * (T(1) - fma(keep, t, omega * upper_sum(op, 0, p.j, p.k)) * inverse_first);
                const T pivot = upper[e] + rest[e];
                inverses[e] = inverse(pivot > singular * diagonal[e] ? pivot : diagonal[e]);
            }
        }
#pragma unroll
        for (int e = 0; e < CELLS; e++) {
            handed[parity][warp][e][lane] = inverse_before[e] = inverses[e];
            upper_before[e] = upper[e];
            before[e] = here[e];
            if (p.i + e < op.nx) inverse_pivots[p.at(e)] = inverses[e];
        }
    });
    forget(progress);
}
