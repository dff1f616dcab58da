// Measures of coefficients.
#include "seven_point/seven_point.cuh"
#include "reduce.cuh"

// For each number of Fields that a direction uses: the largest, and the largest inverse of a positive one; then the largest ratio between positive
// neighbours, and 1 if any is not positive. Initially zero. Halo rows are included. Then the sum of s, if there is a field of it, without halo rows.
// Block 256, one warp per row; as many blocks as keep the GPU busy.
KERNEL(measure_fields, __launch_bounds__(256))(Stencil op, double* result, double* partial, unsigned int* counter) {
    await_previous();
    constexpr int N = sizeof(Fields) / sizeof(T);
    const double never = __longlong_as_double(0x7ff0000000000000LL);
    double most[N], least[N], jump = 1, closed = 0, shift[1] = {0};
#pragma unroll
    for (int n = 0; n < N; n++) {
        most[n] = 0;
        least[n] = never;
    }
    const int first = max(op.start, -1), last = min(op.end, op.ny + 1) - 1;
    const int rows = (last - first + 1) * LAYERS(op), lane = threadIdx.x % 32;
    for (int row = blockIdx.x * 8 + threadIdx.x / 32; row < rows; row += gridDim.x * 8) {
        const int j = first + row / LAYERS(op), k = row % LAYERS(op);
        const bool is_last[2] = {j == last, k + 1 == LAYERS(op)};
        for (int i = lane; i < op.nx; i += 32) {
            const Fields here = load(op, place(op, i, j, k));
            if (SHIFT && j >= 0 && j < op.ny) shift[0] += load_shift(op, place(op, i, j, k));
            const Fields beside[3] = {load(op, place(op, min(i + 1, op.nx - 1), j, k)), load(op, place(op, i, j + !is_last[0], k)),
                                      load(op, place(op, i, j, k + !is_last[1]))};
#pragma unroll
            for (int field = 0; field < N; field++) {
                if (!takes_field(field)) continue;
                const double h = here.f[field];
                most[field] = fmax(most[field], h);
                if (!(h > 0)) closed = 1;
                least[field] = h > 0 ? fmin(least[field], h) : least[field];
#pragma unroll
                for (int d = 0; d < 3; d++) {
                    const double other = beside[d].f[field], larger = fmax(h, other), smaller = fmin(h, other);
                    // Divisions are expensive, and few ratios are the largest so far.
                    if (smaller > 0 && larger > jump * smaller) jump = larger / smaller;
                }
            }
        }
    }
#pragma unroll
    for (int n = 0; n < N; n++) {
        if (!takes_field(n)) continue;
        keep_most(result + n, most[n]);
        keep_most(result + N + n, 1 / least[n]);
    }
    keep_most(result + 2 * N, jump);
    keep_most(result + 2 * N + 1, closed);
    if (SHIFT) {
        __shared__ double sums[8];
        grid_sum(shift, sums, {partial, counter, result + 2 * N + 2});
    }
}
