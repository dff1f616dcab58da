// Relaxation of one column by its line: x = M^-1 (f - horizontal couplings), the step that line
// Jacobi, red-black line Gauss-Seidel and the block-Jacobi preconditioner are made of.
#pragma once
#include "line_solve.cuh"
#include "prolong.cuh"

#ifdef NZ
#define LEVELS(op) NZ
#define FULL (NZ == W * K)
#else
#define LEVELS(op) (op).nz
#define FULL false
#endif

enum Guess { FROM_ZERO, FROM_FIELD, FROM_PROLONGED };

// Sums the squares of a column's residuals, level by level upwards from k0. Keeps three levels of `own`.
struct ResidualSquare {
    T below, here;
    double square;

    __device__ __forceinline__ void start(const T* own, int hp, int k0, int nz) {
        below = k0 > 0 && k0 < nz ? own[-hp] : T(0);
        here = own[0];
        square = 0;
    }

    __device__ __forceinline__ void add(const Operator& op, const Column& column, T f, const T* own, int k, int i,
                                        int nz, T sum) {
        if (!FULL && k >= nz) return;
        T above = k + 1 < nz ? own[op.hp * (i + 1)] : T(0);
        T r = residual(column, op.row[k], f, below, here, above, sum);
        square += double(r) * double(r);
        below = here;
        here = above;
    }
};

// out = (1 - rho) own + rho M^-1 (f - couplings * u) on the column (m, j) of colour c, where u is the
// field of the other colour, plus the interpolated coarse field with FROM_PROLONGED. RELAX off means
// rho = 1. Called by all threads of the block: it has barriers in it. Returns the sum of squared
// residuals of this thread's levels, before the relaxation, when NORM.
template <Guess GUESS, bool RELAX, bool NORM, class C>
__device__ __forceinline__ double line_relax(const Operator& op, int c, int j, int m, bool active, int chunk, int lane,
                                             LineScratch& scratch, const T* f, const T* u, const T* own, T* out,
                                             T rho, const Coarse<C>& coarse) {
    int nz = LEVELS(op);
    m = m < op.hp ? m : op.hp - 1;
    j = j < op.ny ? j : op.ny - 1;
    int k0 = chunk * K;
    int first = k0 < nz ? k0 : nz - 1;
    Column column = load_column(op, j, c, m);
    T pivot = op.pivot[m + (long long)op.hp * (chunk + W * (c + 2 * j))];
    const LineLevel* level = op.line + k0;

    long long base = plane(op, j, c);
    long long other = plane(op, j, 1 - c);
    long long row = 2LL * op.hp * nz;
    int at = m + op.hp * first;
    const T* f_at = f + base + at;
    const T* same = u + other + at;
    const T* shifted = same + column.shift;
    const T* south = j > 0 ? same - row : same;
    const T* north = j + 1 < op.ny ? same + row : same;
    ProlongStencil stencil;
    if (GUESS == FROM_PROLONGED)
        stencil = prolong_stencil(coarse, 2 * m + ((j + c) & 1), j, column.shift > 0 ? column.same : column.shifted,
                                  column.shift > 0 ? column.shifted : column.same, column.south, column.north);

    T x[K], d[K];
#pragma unroll
    for (int i = 0; i < K; i++) x[i] = f_at[op.hp * (FULL || k0 + i < nz ? i : 0)];
    line_factor(d, column.total, pivot, level);
    ResidualSquare norm;
    if (NORM) norm.start(own + base + at, op.hp, k0, nz);
    T per_area = reciprocal(column.area);
#pragma unroll
    for (int i = 0; i < K; i++) {
        int k = FULL || k0 + i < nz ? i : 0; // past the top: any finite value will do
        int offset = op.hp * k;
        T s = T(0);
        if (GUESS != FROM_ZERO) {
            s = column.same * same[offset];
            s = fma(column.shifted, shifted[offset], s);
            s = fma(column.south, south[offset], s);
            s = fma(column.north, north[offset], s);
            if (GUESS == FROM_PROLONGED) s = prolong_apply(stencil, coarse, first + k, s);
        }
        LineLevel v = level[i];
        T rhs = x[i];
        x[i] = fma(v.d, s, rhs * (per_area * v.scale));
        if (NORM) norm.add(op, column, rhs, own + base + at, k0 + i, i, nz, s);
    }

    line_solve(x, d, level, scratch, chunk, lane);
    if (active) {
#pragma unroll
        for (int i = 0; i < K; i++)
            if (FULL || k0 + i < nz) {
                long long to = base + at + op.hp * i;
                if (RELAX) {
                    T old = own[to];
                    out[to] = fma(rho, x[i] - old, old);
                } else {
                    out[to] = x[i];
                }
            }
    }
    return NORM && active ? norm.square : 0.0;
}
