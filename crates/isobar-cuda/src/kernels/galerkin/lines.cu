// Relaxation of a 27-point matrix by columns of one of four colours (i mod 2, j mod 2) at a time: in one kernel with several
// threads per column; or, if columns of one colour are coupled or too long for that, in two: the contributions of other columns, one
// thread per cell, then the columns' tridiagonal solves, one thread per column.
#include "galerkin/twenty_seven.cuh"

// Layers loaded in advance.
constexpr int AHEAD = 8;

// A pivot this small relative to its diagonal is rounding error.
constexpr double SINGULAR_PIVOT = 1e-13;

__device__ __forceinline__ T magnitude(T c) { return c < T(0) ? -c : c; }

// Prepares the pivots: the sum of a cell's couplings other than those in its column, and its diagonal, in their places. Couplings to cells of
// the same colour across the ends of periodic directions, whose values are old, count twice. Block: 256 threads (m, k); grid z: (j, colour).
KERNEL(begin_factorise, __launch_bounds__(256))(Matrix a) {
    await_previous();
    int i, j, k;
    if (!own_cell(a, i, j, k)) return;
    const long long at = place(a, i, j, k);
    double out = a.sums[at], diagonal = out;
    for_each_coupling<EVERYWHERE>(a, columns_around(a, i, j), k, [&](const Coupling& to) {
        const double c = to.c;
        diagonal += c;
        if (!to.in_line) out += to.lags ? c + fabs(c) : c;
    });
    a.inverse[at] = T(out);
    a.ratio[at] = T(diagonal);
}

// Pivots are sums of row sums and couplings, without subtractions, in double precision. Block 64, one thread per column; grid:
// (m, (j, colour)).
KERNEL(factorise, __launch_bounds__(64))(Matrix a) {
    // Relaxation reads the pivots before it waits.
    await_previous_alone();
    const int j = blockIdx.y >> 1, i = 2 * (blockIdx.x * blockDim.x + threadIdx.x) + ((j + blockIdx.y) & 1);
    if (i >= a.nx) return;
    const long long first = place(a, i, j, 0);
    In upwards = (a.present >> UPWARDS & 1) ? a.couplings[UPWARDS] : a.sums;
    double excess_over_pivot = 0, below = 0;
    for (int start = 0; start < a.nz; start += AHEAD) {
        double out[AHEAD], diagonal[AHEAD], above[AHEAD];
#pragma unroll
        for (int n = 0; n < AHEAD; n++) {
            const int k = min(start + n, a.nz - 1);
            const long long at = first + (long long)a.pitch * k;
            out[n] = a.inverse[at];
            diagonal[n] = a.ratio[at];
            const double c = upwards[at];
            above[n] = k + 1 < a.nz ? c : 0;
        }
#pragma unroll
        for (int n = 0; n < AHEAD; n++) {
            if (start + n >= a.nz) break;
            const double excess = out[n] + below * excess_over_pivot, pivot = above[n] + excess;
            const double inverse = pivot > SINGULAR_PIVOT * diagonal[n] && pivot > 0 ? 1 / pivot : 0;
            const long long at = first + (long long)a.pitch * (start + n);
            a.inverse[at] = T(inverse);
            a.ratio[at] = T(above[n] * inverse);
            excess_over_pivot = excess * inverse;
            below = above[n];
        }
    }
}

// y = f + sum c u over the couplings from columns of colour (p, q) to others. Block: 256 threads (m, k); grid z: (j - q) / 2.
KERNEL(gather, __launch_bounds__(256))(Matrix a, int p, int q, In f, In u, Out y) {
    await_previous();
    const int i = 2 * (blockIdx.x * blockDim.x + threadIdx.x) + p, j = 2 * blockIdx.z + q;
    const int k = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= a.nx || k >= a.nz) return;
    const long long at = place(a, i, j, k);
    T sum = f[at];
    for_each_coupling<EVERYWHERE>(a, columns_around(a, i, j), k, [&](const Coupling& to) {
        const T value = u[to.to];
        if (to.in_line || !to.exists) return;
        sum += to.c * value;
        if (to.lags) sum += magnitude(to.c) * u[at];
    });
    y[at] = sum;
}

// u += rho (M^-1 y - u) in the columns of colour (p, q); y is overwritten. Block 32, one thread per column; grid: (m, (j - q) / 2).
KERNEL(solve_columns, __launch_bounds__(32))(Matrix a, int p, int q, T rho, Out y, Out u) {
    await_previous();
    const int i = 2 * (blockIdx.x * blockDim.x + threadIdx.x) + p, j = 2 * blockIdx.y + q;
    if (i >= a.nx) return;
    const long long first = place(a, i, j, 0);
    // With one layer there are no upward couplings, and the row sums are read without effect.
    In upwards = (a.present >> UPWARDS & 1) ? a.couplings[UPWARDS] : a.sums;
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

// u += rho (M^-1 (f + sum c u) - u) in the columns of one colour, which are not coupled to each other, with the selected neighbours;
// from zero, the columns' own u may contain anything. Block (lanes, chunks): columns in chunks of `length` layers, in
// which elimination and substitution are affine maps of the values from the previous chunk; grid: (m, (j - q) / 2). Shared memory: a
// number per cell, four per chunk of a column.
struct Columns {
    int p, q, length, from_zero;
};

// The most threads of a block. With few, on small levels, a thread has the registers to load all that it needs at once.
#ifndef COLUMN_THREADS
#define COLUMN_THREADS 512
#endif
constexpr bool IS_SMALL = COLUMN_THREADS <= 256;

template <unsigned int WHICH>
__device__ __forceinline__ void relax(const Matrix& a, const Columns& colour, T rho, In f, T* u) {
    extern __shared__ __align__(128) unsigned char dynamic[];
    const int lane = threadIdx.x, lanes = blockDim.x, chunk = threadIdx.y, chunks = blockDim.y;
    T* const y = reinterpret_cast<T*>(dynamic) + lane;
    T* const slopes = y + lanes * a.nz;
    T* const offsets = slopes + lanes * chunks;
    T* const slopes_back = offsets + lanes * chunks;
    T* const offsets_back = slopes_back + lanes * chunks;
    const int i = 2 * (blockIdx.x * lanes + lane) + colour.p, j = 2 * blockIdx.y + colour.q;
    const bool is_column = i < a.nx;
    const int begin = min(chunk * colour.length, a.nz), end = is_column ? min(begin + colour.length, a.nz) : begin;
    const Around around = columns_around(a, is_column ? i : colour.p, j);
    const long long first = around.first[1][1];
    // With one layer there are no upward couplings, and the row sums are read without effect.
    const bool has_upwards = a.present >> UPWARDS & 1;
    In upwards = has_upwards ? a.couplings[UPWARDS] : a.sums;
    const bool is_ring = WHICH == ACROSS && has_upwards && (a.periodic & 4) && !colour.from_zero;

    // Loads what the chunk's first layer (the only one on small levels) needs of the matrix before this kernel waits for the previous one.
    const long long begins = first + (long long)a.pitch * min(begin, a.nz - 1);
    const T first_inverse = a.inverse[begins], first_ratio = a.ratio[begins], first_below = upwards[begins - (begin > 0 ? a.pitch : 0)];
    auto inverse_of = [&](int k) { return IS_SMALL && k == begin ? first_inverse : a.inverse[first + (long long)a.pitch * k]; };
    auto ratio_of = [&](int k) { return IS_SMALL && k == begin ? first_ratio : a.ratio[first + (long long)a.pitch * k]; };
    // 0 below the lowest layer.
    auto below_of = [&](int k) {
        const T c = IS_SMALL && k == begin ? first_below : upwards[first + (long long)a.pitch * (k - (k > 0 ? 1 : 0))];
        return k > 0 ? c : T(0);
    };

    Loaded of_first;
    if (IS_SMALL) of_first = load_strengths<WHICH>(a, around, min(begin, a.nz - 1));
    await_previous();

    T slope = T(1), offset = T(0);
    for (int k = begin; k < end; k++) {
        const long long at = first + (long long)a.pitch * k;
        T sum = f[at];
        const T inverse = inverse_of(k), below = below_of(k);
        auto add = [&](const Coupling& to) {
            const T value = u[to.to];
            sum += to.c * (to.exists ? value : T(0));
        };
        if (IS_SMALL && k == begin) for_each_coupling<WHICH>(a, around, k, of_first, add);
        else for_each_coupling<WHICH>(a, around, k, add);
        if (is_ring && (k == 0 || k + 1 == a.nz)) {
            // Values at the other end of a periodic direction are old.
            const long long other = first + (long long)a.pitch * (a.nz - 1 - k);
            const T c = upwards[k == 0 ? other : at];
            sum += c * u[other] + magnitude(c) * u[at];
        }
        const T given = sum * inverse, factor = below * inverse;
        y[lanes * k] = given;
        offset = given + factor * offset;
        slope *= factor;
    }
    slopes[lanes * chunk] = slope;
    offsets[lanes * chunk] = offset;
    __syncthreads();
    T value = T(0);
#pragma unroll 4
    for (int n = 0; n < chunk; n++) value = offsets[lanes * n] + slopes[lanes * n] * value;
    for (int k = begin; k < end; k++) {
        value = y[lanes * k] + below_of(k) * inverse_of(k) * value;
        y[lanes * k] = value;
    }
    slope = T(1);
    offset = T(0);
    for (int k = end - 1; k >= begin; k--) {
        const T ratio = ratio_of(k);
        offset = y[lanes * k] + ratio * offset;
        slope *= ratio;
    }
    slopes_back[lanes * chunk] = slope;
    offsets_back[lanes * chunk] = offset;
    __syncthreads();
    value = T(0);
#pragma unroll 4
    for (int n = chunks - 1; n > chunk; n--) value = offsets_back[lanes * n] + slopes_back[lanes * n] * value;
    for (int k = end - 1; k >= begin; k--) {
        const long long at = first + (long long)a.pitch * k;
        value = y[lanes * k] + ratio_of(k) * value;
        const T before = colour.from_zero || rho == T(1) ? T(0) : u[at];
        u[at] = rho == T(1) ? value : before + rho * (value - before);
    }
}

#define BOUNDS __launch_bounds__(COLUMN_THREADS, IS_SMALL ? 1 : 2)

KERNEL(relax_alone, BOUNDS)(Matrix a, Columns colour, T rho, In f, T* u) {
    relax<NOWHERE>(a, colour, rho, f, u);
}

KERNEL(relax_beside, BOUNDS)(Matrix a, Columns colour, T rho, In f, T* u) {
    relax<BESIDE>(a, colour, rho, f, u);
}

KERNEL(relax_between_planes, BOUNDS)(Matrix a, Columns colour, T rho, In f, T* u) {
    relax<IN_OTHER_PLANES>(a, colour, rho, f, u);
}

KERNEL(relax_columns, BOUNDS)(Matrix a, Columns colour, T rho, In f, T* u) {
    relax<ACROSS>(a, colour, rho, f, u);
}
