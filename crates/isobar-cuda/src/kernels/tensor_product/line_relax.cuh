// Relaxation of one column: x = M^-1 (f - horizontal couplings), the common step of line
// Jacobi, red-black line Gauss-Seidel and the block Jacobi preconditioner.
#pragma once
#include "tensor_product/line_solve.cuh"
#include "tensor_product/prolong.cuh"

enum Guess { FROM_ZERO, FROM_FIELD, FROM_PROLONGED };

// out = (1 - rho) u + rho M^-1 (f - couplings * u) on the column (m, j) of colour c, where u is the
// field of the other colour, plus the interpolated coarse field with FROM_PROLONGED. Without RELAX,
// rho = 1. All threads of the block must call it, because it contains barriers.
template <Guess GUESS, bool RELAX, class C>
__device__ __forceinline__ void line_relax(const Operator& op, int c, int j, int m, bool active, int chunk, int lane,
                                           LineScratch& scratch, const T* f, const T* u, T* out, T rho,
                                           const Coarse<C>& coarse) {
    int nz = LAYERS(op);
    m = m < op.pitch ? m : op.pitch - 1;
    j = j < op.ny ? j : op.ny - 1;
    int k0 = chunk * K;
    int first = k0 < nz ? k0 : nz - 1;
    Column column = load_column(op, j, c, m);
    T pivot = op.pivot[m + (long long)op.pitch * (chunk + W * (c + 2 * j))];
    const LineLayer* layer = op.line + k0;

    long long base = plane(op, j, c);
    long long other = plane(op, j, 1 - c);
    long long row = plane(op, 1, 0);
    int at = m + op.pitch * first;
    const T* f_at = f + base + at;
    const T* same = u + other + at;
    const T* shifted = same + column.shift;
    const T* south = j > op.start ? same - row : same;
    const T* north = j + 1 < op.end ? same + row : same;
    ProlongStencil stencil;
    if (GUESS == FROM_PROLONGED)
        stencil = prolong_stencil(coarse, op.nx, op.end, 2 * m + looks_east(j, c), j,
                                  looks_east(j, c) ? column.same : column.shifted,
                                  looks_east(j, c) ? column.shifted : column.same, column.south, column.north);

    T x[K], d[K];
#pragma unroll
    for (int i = 0; i < K; i++) x[i] = f_at[op.pitch * (FULL || k0 + i < nz ? i : 0)];
    line_factor(d, column.total, pivot, layer);
    T per_area = reciprocal(column.area);
#pragma unroll
    for (int i = 0; i < K; i++) {
        int k = FULL || k0 + i < nz ? i : 0; // beyond the top any finite value may be used
        int offset = op.pitch * k;
        T s = T(0);
        if (GUESS != FROM_ZERO) {
            s = column.same * same[offset];
            s = fma(column.shifted, shifted[offset], s);
            s = fma(column.south, south[offset], s);
            s = fma(column.north, north[offset], s);
            if (GUESS == FROM_PROLONGED) s = prolong_apply(stencil, coarse, first + k, s);
        }
        LineLayer v = layer[i];
        x[i] = fma(v.d, s, x[i] * (per_area * v.scale));
    }

    line_solve(x, d, layer, scratch, chunk, lane);
    if (active) {
#pragma unroll
        for (int i = 0; i < K; i++)
            if (FULL || k0 + i < nz) {
                long long to = base + at + op.pitch * i;
                if (RELAX) {
                    T old = u[to];
                    out[to] = fma(rho, x[i] - old, old);
                } else {
                    out[to] = x[i];
                }
            }
    }
}
