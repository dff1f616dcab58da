// Relaxation of a 27-point matrix by columns, those of one of four colours (i mod 2, j mod 2) at a time: in one kernel, several
// threads a column; or, where columns of one colour are coupled or too long for that, in two: what columns of other colours give, a
// cell a thread, then the columns' tridiagonal solves, a column a thread.
#include "galerkin/twenty_seven.cuh"

// Layers whose numbers are on their way at once.
constexpr int AHEAD = 8;

// A pivot this small beside its diagonal is rounding.
constexpr double SINGULAR_PIVOT = 1e-13;

__device__ __forceinline__ T magnitude(T c) { return c < T(0) ? -c : c; }

// Where the columns around one begin, by offset in x and y.
struct Around {
    long long first[3][3];
};

// Whether all neighbours of a column's cells but those above and below its ends are there, none of them across a ring's end;
// and where they are.
__device__ __forceinline__ bool find_around(const Matrix& a, int i, int j, Around& columns) {
    const bool is_inside = a.present == (1u << UPPER) - 1 && i > 0 && i + 1 < a.nx && j > 0 && j + 1 < a.ny;
#pragma unroll
    for (int dx = -1; dx <= 1; dx++) {
#pragma unroll
        for (int dy = -1; dy <= 1; dy++) columns.first[1 + dx][1 + dy] = is_inside ? place(a, i + dx, j + dy, 0) : 0;
    }
    return is_inside;
}

// Calls f(n, is_stored, c, to) for the couplings of a cell that has all neighbours, in stored direction n and in the opposite one:
// nothing is decided before they are read.
template <class F>
__device__ __forceinline__ void for_each_coupling_inside(const Matrix& a, const Around& columns, int k, F f) {
    const long long own = columns.first[1][1] + (long long)a.pitch * k;
#pragma unroll
    for (int n = 0; n < UPPER; n++) {
        const int dx = (n + 14) % 3 - 1, dy = (n + 14) / 9 - 1, dz = (n + 14) / 3 % 3 - 1;
        const long long upper = columns.first[1 + dx][1 + dy] + (long long)a.pitch * (k + dz);
        const long long lower = columns.first[1 - dx][1 - dy] + (long long)a.pitch * (k - dz);
        f(n, true, __ldg(a.couplings[n] + own), upper);
        f(n, false, __ldg(a.couplings[n] + lower), lower);
    }
}

// Pivots are sums of row sums and couplings, without a difference, in double precision. Couplings to cells of the same colour
// across the ends of rings, which lag behind, count twice. Block 64, a column a thread; grid: (m, (j, colour)).
extern "C" __global__ void __launch_bounds__(64) factorise(Matrix a) {
    const int j = blockIdx.y >> 1, i = 2 * (blockIdx.x * blockDim.x + threadIdx.x) + ((j + blockIdx.y) & 1);
    if (i >= a.nx) return;
    Around columns;
    const bool is_inside = find_around(a, i, j, columns);
    double ratio = 0, below = 0;
    for (int k = 0; k < a.nz; k++) {
        const long long at = place(a, i, j, k);
        double out = a.sums[at], above = 0, diagonal = out;
        if (is_inside && k > 0 && k + 1 < a.nz) {
            for_each_coupling_inside(a, columns, k, [&](int n, bool is_stored, double c, long long) {
                diagonal += c;
                if (n != UPWARDS) out += c;
                else if (is_stored) above = c;
            });
        } else {
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
        }
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

// u += rho (M^-1 (f + sum c u) - u) in the columns of colour (p, q), which are not coupled to each other. Block (32, chunks): 32
// columns, in chunks of `length` layers, in which elimination and substitution are affine maps of what comes in from the chunk
// before; grid: (m, (j - q) / 2). Shared: a number a cell, four a chunk of a column.
extern "C" __global__ void __launch_bounds__(512)
    relax_columns(Matrix a, int p, int q, int length, T rho, const T* __restrict__ f, T* u) {
    extern __shared__ __align__(128) unsigned char dynamic[];
    const int lane = threadIdx.x, chunk = threadIdx.y, chunks = blockDim.y;
    T* const y = reinterpret_cast<T*>(dynamic) + lane;
    T* const slopes = y + 32 * a.nz;
    T* const offsets = slopes + 32 * chunks;
    T* const slopes_back = offsets + 32 * chunks;
    T* const offsets_back = slopes_back + 32 * chunks;
    const int i = 2 * (blockIdx.x * 32 + lane) + p, j = 2 * blockIdx.y + q;
    const bool is_column = i < a.nx;
    const int begin = min(chunk * length, a.nz), end = is_column ? min(begin + length, a.nz) : begin;
    Around columns;
    const bool is_inside = find_around(a, i, j, columns);
    const long long first = is_column ? place(a, i, j, 0) : 0;
    // With one layer nothing is coupled upwards, and the sums are read, in vain.
    const T* __restrict__ upwards = (a.present >> UPWARDS & 1) ? a.couplings[UPWARDS] : a.sums;

    T slope = T(1), offset = T(0);
    for (int k = begin; k < end; k++) {
        const long long at = first + (long long)a.pitch * k;
        T sum = f[at];
        const T inverse = a.inverse[at], below = k > 0 ? upwards[at - a.pitch] : T(0);
        if (is_inside && k > 0 && k + 1 < a.nz) {
            for_each_coupling_inside(a, columns, k, [&](int n, bool, T c, long long to) {
                if (n != UPWARDS) sum += c * u[to];
            });
        } else {
            for_each_coupling(a, i, j, k, [&](const Coupling& to) {
                if (to.in_line) return;
                sum += to.c * u[to.to];
                if (to.lags) sum += magnitude(to.c) * u[at];
            });
        }
        const T given = sum * inverse, factor = below * inverse;
        y[32 * k] = given;
        offset = given + factor * offset;
        slope *= factor;
    }
    slopes[32 * chunk] = slope;
    offsets[32 * chunk] = offset;
    __syncthreads();
    T value = T(0);
    for (int n = 0; n < chunk; n++) value = offsets[32 * n] + slopes[32 * n] * value;
    for (int k = begin; k < end; k++) {
        const long long at = first + (long long)a.pitch * k;
        const T below = k > 0 ? upwards[at - a.pitch] : T(0);
        value = y[32 * k] + below * a.inverse[at] * value;
        y[32 * k] = value;
    }
    slope = T(1);
    offset = T(0);
    for (int k = end - 1; k >= begin; k--) {
        const T ratio = a.ratio[first + (long long)a.pitch * k];
        offset = y[32 * k] + ratio * offset;
        slope *= ratio;
    }
    slopes_back[32 * chunk] = slope;
    offsets_back[32 * chunk] = offset;
    __syncthreads();
    value = T(0);
    for (int n = chunks - 1; n > chunk; n--) value = offsets_back[32 * n] + slopes_back[32 * n] * value;
    for (int k = end - 1; k >= begin; k--) {
        const long long at = first + (long long)a.pitch * k;
        value = y[32 * k] + a.ratio[at] * value;
        const T before = rho == T(1) ? value : u[at];
        u[at] = before + rho * (value - before);
    }
}
