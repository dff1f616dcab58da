// Sweeps over columns with stored pivots, SWEEP_DEPTH layers per thread.
//
// Let w be the eliminated right-hand side before division by the pivots d, and g_k = T_{k+1/2} / d_k. Then
// w_k = f_k + g_{k-1} w_{k-1} and x_k = w_k / d_k + g_k x_{k+1}: both are affine in the values from the previous chunk. Faces are
// recomputed: coefficients are one vector, faces three.
//
// Block (LANES, chunks); grid: x: ceil(ceil(nx / 2) / LANES), y: ny, z: colours.
#include "seven_point/column.cuh"

// Threads per multiprocessor: half of the maximum, so that each has 64 registers.
#define BOUNDS __launch_bounds__(LANES* MOST_CHUNKS, 1024 / (LANES * MOST_CHUNKS))

// u += rho (M^-1 (f + couplings of neighbours' u) - u) in the columns of one colour, written to `to`: to u itself, of which only the other
// colour is then read, or, for both colours at once, to another vector.
template <bool NEIGHBOURS>
__device__ __forceinline__ void sweep(const Stencil& op, int first, T rho, In inverse_pivots, In f, const T* u, T* to) {
    __shared__ T values[LANES * MOST_CHUNKS], slopes[LANES * MOST_CHUNKS];
    const int nz = op.nz, lane = threadIdx.x, chunk = threadIdx.y, chunks = blockDim.y, k0 = chunk * SWEEP_DEPTH;
    const int own_m = blockIdx.x * LANES + lane, j = blockIdx.y, c = first ^ blockIdx.z;
    // Without a column of its own, a thread reads another one without effect.
    const int m = min(own_m, op.pitch - 1);
    const bool valid = 2 * own_m + ((j + c) & 1) < op.nx;
    const Column column = neighbours(op, m, j, c);
    const Index start = column.start + (Index)op.pitch * k0, top = column.start + (Index)op.pitch * (nz - 1);

    T value[SWEEP_DEPTH], ratio[SWEEP_DEPTH];
    T first_ratio = T(0); // of the layer below the chunk
    {
        // Above the top, the top layer is read without effect: unconditional loads can all be issued at
        // once.
        Fields here = load(op, min(start, top));
        if (k0 > 0 && k0 < nz)
            first_ratio = face<Z>(op, load(op, start - op.pitch), here) * inverse_pivots[start - op.pitch];
#pragma unroll
        for (int n = 0; n < SWEEP_DEPTH; n++) {
            const int k = k0 + n;
            const bool ok = valid && k < nz;
            const Index at = min(start + (Index)op.pitch * n, top);
            const Fields over = load(op, min(at + op.pitch, top));
            const T right = f[at] + (NEIGHBOURS ? outside<true>(op, column, k, at, here, u).in : T(0));
            const T upwards = face<Z>(op, here, over) * inverse_pivots[at];
            value[n] = ok ? right : T(0);
            ratio[n] = ok && k + 1 < nz ? upwards : T(0);
            here = over;
        }
    }
    T w = T(0), slope = T(1), below = first_ratio;
#pragma unroll
    for (int n = 0; n < SWEEP_DEPTH; n++) {
        w = fma(below, w, value[n]);
        slope *= below;
        below = ratio[n];
    }
    values[lane + LANES * chunk] = w;
    slopes[lane + LANES * chunk] = slope;
    __syncthreads();

    w = T(0);
#pragma unroll 4
    for (int n = 0; n < chunk; n++) w = fma(slopes[lane + LANES * n], w, values[lane + LANES * n]);
    below = first_ratio;
#pragma unroll
    for (int n = 0; n < SWEEP_DEPTH; n++) {
        w = fma(below, w, value[n]);
        value[n] = w * inverse_pivots[min(start + (Index)op.pitch * n, top)];
        below = ratio[n];
    }
    T x = T(0);
    slope = T(1);
#pragma unroll
    for (int n = SWEEP_DEPTH - 1; n >= 0; n--) {
        x = fma(ratio[n], x, value[n]);
        slope *= ratio[n];
    }
    __syncthreads();
    values[lane + LANES * chunk] = x;
    slopes[lane + LANES * chunk] = slope;
    __syncthreads();

    x = T(0);
#pragma unroll 4
    for (int n = chunks - 1; n > chunk; n--) x = fma(slopes[lane + LANES * n], x, values[lane + LANES * n]);
#pragma unroll
    for (int n = SWEEP_DEPTH - 1; n >= 0; n--) {
        x = fma(ratio[n], x, value[n]);
        if (!valid || k0 + n >= nz) continue;
        const Index at = start + (Index)op.pitch * n;
        if (rho == T(1)) to[at] = x;
        else if (NEIGHBOURS) to[at] = fma(rho, x - u[at], u[at]);
        else to[at] = rho * x;
    }
}

KERNEL(sweep_lines, BOUNDS)(Stencil op, int first, T rho, const T* inverse_pivots, const T* f, const T* u, T* to) {
    await_previous();
    sweep<true>(op, first, rho, inverse_pivots, f, u, to);
}

// The sweep from u = 0.
KERNEL(sweep_lines_zero, BOUNDS)(Stencil op, int first, T rho, const T* inverse_pivots, const T* f, T* to) {
    await_previous();
    sweep<false>(op, first, rho, inverse_pivots, f, nullptr, to);
}

// Rows per thread in the kernels below: the neighbour row that it reads is then in the cache.
#define MARCH 8

// Calls give(at, k, column, fields) for the cells of one colour. Block (32, 8): pairs and layers; grid z: segments of rows.
template <class F> __device__ __forceinline__ void for_each_cell(const Stencil& op, int colour, F give) {
    const int m = blockIdx.x * 32 + threadIdx.x, k = blockIdx.y * 8 + threadIdx.y, j0 = blockIdx.z * MARCH;
    if (k >= op.nz) return;
    for (int j = j0; j < min(j0 + MARCH, op.ny); j++) {
        if (2 * m + ((j + colour) & 1) >= op.nx) continue;
        const Column column = neighbours(op, m, j, colour);
        const Index at = column.start + (Index)op.pitch * k;
        give(at, k, column, load(op, at));
    }
}

// r = f - A u in columns of one colour, after a sweep from zero that ended with the other colour: the contributions of that colour.
KERNEL(residual_coupled, __launch_bounds__(256))(Stencil op, int colour, In u, Out r) {
    await_previous();
    for_each_cell(op, colour, [&](Index at, int k, const Column& column, const Fields& here) {
        r[at] = outside<true>(op, column, k, at, here, u).in;
    });
}

// r = f - A u in columns of one colour, if columns are not periodic.
KERNEL(residual_of_colour, __launch_bounds__(256))(Stencil op, int colour, In f, In u, Out r) {
    await_previous();
    for_each_cell(op, colour, [&](Index at, int k, const Column& column, const Fields& here) {
        const T own = u[at];
        // The sum is taken over differences, so that a constant gives exactly s u. Without a neighbour the difference is that of the cell
        // and itself: loads without conditions are issued at once.
        T sum = (load_shift(op, at) + sides(op, here, column.i, column.j, k)) * own;
#pragma unroll
        for (int n = 0; n < 4; n++) {
            const Index there = at + column.to[n];
            sum = fma(face_to(op, n, here, load(op, there)), own - u[there], sum);
        }
        const Index below = at - (k > 0 ? op.pitch : 0), above = at + (k + 1 < op.nz ? op.pitch : 0);
        sum = fma(face<Z>(op, load(op, below), here), own - u[below], sum);
        sum = fma(face<Z>(op, here, load(op, above)), own - u[above], sum);
        r[at] = f[at] - sum;
    });
}
