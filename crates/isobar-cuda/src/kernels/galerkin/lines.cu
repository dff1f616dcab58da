// Relaxation of a 27-point matrix by columns, those of one of four colours (i mod 2, j mod 2) at a time: what columns of other
// colours give, a cell a thread; then the columns' tridiagonal solves, a column a thread.
#include "galerkin/twenty_seven.cuh"

// Layers whose numbers are on their way at once.
constexpr int AHEAD = 8;

// A pivot this small beside its diagonal is rounding.
constexpr double SINGULAR_PIVOT = 1e-13;

__device__ __forceinline__ T magnitude(T c) { return c < T(0) ? -c : c; }

// Pivots are sums of row sums and couplings, without a difference, in double precision. Couplings to cells of the same colour across the ends of
// rings, which lag behind, count twice. Block 64, a column a thread; grid: (m, (j, colour)).
extern "C" __global__ void __launch_bounds__(64) factorise(Matrix a) {
    const int j = blockIdx.y >> 1, i = 2 * (blockIdx.x * blockDim.x + threadIdx.x) + ((j + blockIdx.y) & 1);
    if (i >= a.nx) return;
    double ratio = 0, below = 0;
    for (int k = 0; k < a.nz; k++) {
        const long long at = place(a, i, j, k);
        double out = a.sums[at], above = 0, diagonal = out;
        for_each_coupling(a, i, j, k, [&](const Coupling& to) {
            const double c = to.c;
            diagonal += c;
            if (to.in_line) {
                if (to.upwards) above = c;
            } else {
                out += c;
                if (to.lags) out += fabs(c);
            }
        });
        const double excess = out + below * ratio, pivot = above + excess;
        const double inverse = pivot > SINGULAR_PIVOT * diagonal && pivot > 0 ? 1 / pivot : 0;
        a.inverse[at] = T(inverse);
        a.ratio[at] = T(above * inverse);
        ratio = excess * inverse;
        below = above;
    }
}

// y = f + sum c u over the couplings out of the columns of colour (p, q). Block: 256 threads (m, k); grid z: (j - q) / 2.
extern "C" __global__ void __launch_bounds__(256)
    gather(Matrix a, int p, int q, const T* __restrict__ f, const T* __restrict__ u, T* __restrict__ y) {
    const int i = 2 * (blockIdx.x * blockDim.x + threadIdx.x) + p, j = 2 * blockIdx.z + q;
    const int k = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= a.nx || k >= a.nz) return;
    const long long at = place(a, i, j, k);
    T sum = f[at];
    for_each_coupling(a, i, j, k, [&](const Coupling& to) {
        if (to.in_line) return;
        sum += to.c * u[to.to];
        if (to.lags) sum += magnitude(to.c) * u[at];
    });
    y[at] = sum;
}

// u += rho (M^-1 y - u) in the columns of colour (p, q); y is overwritten. Block 32, a column a thread; grid: (m, (j - q) / 2).
extern "C" __global__ void __launch_bounds__(32)
    solve_columns(Matrix a, int p, int q, T rho, T* __restrict__ y, T* __restrict__ u) {
    const int i = 2 * (blockIdx.x * blockDim.x + threadIdx.x) + p, j = 2 * blockIdx.y + q;
    if (i >= a.nx) return;
    const long long first = place(a, i, j, 0);
    // With one layer nothing is coupled upwards, and the sums are read, in vain.
    const T* __restrict__ upwards = (a.present >> UPWARDS & 1) ? a.couplings[UPWARDS] : a.sums;
    T last = T(0), below = T(0);
    for (int start = 0; start < a.nz; start += AHEAD) {
        T right[AHEAD], inverse[AHEAD], above[AHEAD];
#pragma unroll
        for (int n = 0; n < AHEAD; n++) {
            const long long at = first + (long long)a.pitch * min(start + n, a.nz - 1);
            right[n] = y[at];
            inverse[n] = a.inverse[at];
            above[n] = upwards[at];
        }
#pragma unroll
        for (int n = 0; n < AHEAD; n++) {
            if (start + n >= a.nz) break;
            last = (right[n] + below * last) * inverse[n];
            below = above[n];
            y[first + (long long)a.pitch * (start + n)] = last;
        }
    }
    T value = T(0);
    for (int end = a.nz; end > 0; end -= AHEAD) {
        T left[AHEAD], ratio[AHEAD], before[AHEAD];
#pragma unroll
        for (int n = 0; n < AHEAD; n++) {
            const long long at = first + (long long)a.pitch * max(end - 1 - n, 0);
            left[n] = y[at];
            ratio[n] = a.ratio[at];
            before[n] = rho == T(1) ? T(0) : u[at];
        }
#pragma unroll
        for (int n = 0; n < AHEAD; n++) {
            if (end - 1 - n < 0) break;
            value = left[n] + ratio[n] * value;
            u[first + (long long)a.pitch * (end - 1 - n)] = rho == T(1) ? value : before[n] + rho * (value - before[n]);
        }
    }
}
