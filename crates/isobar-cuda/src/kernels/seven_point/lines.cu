// The tridiagonal blocks of a matrix's columns.
//
// All terms are sums of positive numbers: the pivot of layer k is T_{k+1/2} + e_k, with the excess
// e_k = (s and faces out of the column)_k + T_{k-1/2} e_{k-1} / (T_{k-1/2} + e_{k-1}). A periodic coupling is not part of the
// block; its two cells have 2T on the diagonal instead.
//
// DEPTH > 0: a thread has DEPTH layers of a column (chunks.cuh). Block (LANES, chunks), chunks even and at most
// MOST_CHUNKS; grid: x: ceil(ceil(nx / 2) / LANES), y: ny, z: colours.
// DEPTH = 0: a thread has a column. Block (LANES, ROWS); grid: y: ceil(ny / ROWS), otherwise the same.
#include "reduce.cuh"
#if DEPTH
#include "seven_point/chunks.cuh"
#else
#include "seven_point/serial.cuh"
#endif

#if DEPTH
#define BOUNDS __launch_bounds__(LANES* MOST_CHUNKS)
#else
#define BOUNDS __launch_bounds__(LANES* ROWS)
#endif

// Computes m, j and colour of this thread's column, of one colour or of both; if there is none, of a column that may be
// read without effect.
__device__ __forceinline__ bool own_column(const Stencil& op, int first, int& m, int& j, int& c) {
    const int own_m = blockIdx.x * LANES + threadIdx.x, own_j = DEPTH ? blockIdx.y : blockIdx.y * ROWS + threadIdx.y;
    m = min(own_m, op.pitch - 1);
    j = min(own_j, op.ny - 1);
    c = first ^ blockIdx.z;
    return own_j < op.ny && 2 * own_m + ((j + c) & 1) < op.nx;
}

// z = M^-1 r
KERNEL(solve_lines, BOUNDS)(Stencil op, In r, T* z, Out ratio) {
    await_previous();
    int m, j, c;
    const bool valid = own_column(op, 0, m, j, c);
    auto rhs = [&](Index at, bool) { return r[at]; };
    auto prefetch_rhs = [&](Index at) { prefetch_l2(r + at); };
    auto finish = [&](Index at, T x) { z[at] = x; };
    solve<false>(op, neighbours(op, m, j, c), valid, nullptr, z, ratio, rhs, prefetch_rhs, finish);
}

// r -= alpha q;  z = M^-1 r;  rho = <r, z>;  ||r||^2, side by side
KERNEL(precondition_residual, BOUNDS)(Stencil op, Ratio alpha_ratio, In q, T* r, T* z, Out ratio, Reduction to) {
    await_previous();
    double sum[2] = {0, 0};
    int m, j, c;
    const bool valid = own_column(op, 0, m, j, c);
    {
        T alpha = alpha_ratio.value();
        auto rhs = [&](Index at, bool own) {
            if (!own) return T(0);
            T value = fma(-alpha, q[at], r[at]);
            r[at] = value;
            sum[1] += double(value) * double(value);
            return value;
        };
        auto prefetch_rhs = [&](Index at) {
            prefetch_l2(q + at);
            prefetch_l2(r + at);
        };
        auto finish = [&](Index at, T x) {
            z[at] = x;
            sum[0] += double(r[at]) * double(x);
        };
        solve<false>(op, neighbours(op, m, j, c), valid, nullptr, z, ratio, rhs, prefetch_rhs, finish);
    }
    grid_sum(sum, to);
}

#if DEPTH
// 1 over the pivots of all columns, for the sweeps of sweeps.cu.
KERNEL(factorise_lines, BOUNDS)(Stencil op, Out inverse_pivots) {
    await_previous();
    int m, j, c;
    const bool valid = own_column(op, 0, m, j, c);
    solve_noting<false>(
        op, neighbours(op, m, j, c), valid, nullptr, [](Index, bool) { return T(0); }, [](Index, T) {},
        [&](Index at, T inverse_pivot) { inverse_pivots[at] = inverse_pivot; });
}
#else
// u += rho (M^-1 (f + couplings of neighbours' u) - u) in the columns of one colour, written to `to`: to u itself, of which only the other
// colour is then read, or, for both colours at once, to another vector.
template <bool NEIGHBOURS>
__device__ __forceinline__ void relax(const Stencil& op, int first, T rho, In f, const T* u, T* to, T* y, Out ratio) {
    int m, j, c;
    const bool valid = own_column(op, first, m, j, c);
    auto rhs = [&](Index at, bool) { return f[at]; };
    auto prefetch_rhs = [&](Index at) { prefetch_l2(f + at); };
    auto finish = [&](Index at, T x) {
        if (rho == T(1)) to[at] = x;
        else if (NEIGHBOURS) to[at] = fma(rho, x - u[at], u[at]);
        else to[at] = rho * x;
    };
    solve<NEIGHBOURS>(op, neighbours(op, m, j, c), valid, u, y, ratio, rhs, prefetch_rhs, finish);
}

KERNEL(relax_lines, BOUNDS)(Stencil op, int first, T rho, const T* f, const T* u, T* to, T* y, T* ratio) {
    await_previous();
    relax<true>(op, first, rho, f, u, to, y, ratio);
}

// The sweep from u = 0.
KERNEL(relax_lines_zero, BOUNDS)(Stencil op, int first, T rho, const T* f, T* to, T* y, T* ratio) {
    await_previous();
    relax<false>(op, first, rho, f, nullptr, to, y, ratio);
}
#endif
