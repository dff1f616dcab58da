// Aggregates: sets of cells with one value each, and small dense matrices. Sums are always added in the same order.
#include "layout.cuh"
#include "reduce.cuh"

#define NONE 0xffffffffu

// Runs are contiguous pieces of memory that belong to one aggregate: start << 16 | length. A warp sums the runs of one item and
// stores a partial sum. Block 256.
KERNEL(sum_runs, __launch_bounds__(256))(int items, const unsigned int* __restrict__ first_run,
                                         const unsigned long long* __restrict__ runs, In x, double* __restrict__ partial) {
    await_previous();
    // Runs of at most this length are summed by one lane each.
    constexpr unsigned int SHORT = 12;
    const int lane = threadIdx.x & 31, item = (blockIdx.x * 256 + threadIdx.x) >> 5;
    if (item >= items) return;
    double sum = 0;
    const unsigned int begin = first_run[item], end = first_run[item + 1];
    for (unsigned int n = begin; n < end; n += 32) {
        const unsigned long long run = n + lane < end ? runs[n + lane] : 0;
        const unsigned int length = (unsigned int)(run & 0xffff);
        const int count = min(32u, end - n);
        if (count > 4 && __all_sync(0xffffffffu, length <= SHORT)) {
            const T* from = x + (run >> 16);
            for (unsigned int c = 0; c < length; c++) sum += double(from[c]);
            continue;
        }
        // The first cells of several runs at once; runs beyond the last are empty.
        constexpr int TOGETHER = 8;
        for (int first = 0; first < count; first += TOGETHER) {
            T value[TOGETHER];
#pragma unroll
            for (int other = 0; other < TOGETHER; other++) {
                const unsigned long long one = __shfl_sync(0xffffffffu, run, first + other);
                value[other] = lane < int(one & 0xffff) ? x[(one >> 16) + lane] : T(0);
            }
#pragma unroll
            for (int other = 0; other < TOGETHER; other++) {
                const unsigned long long one = __shfl_sync(0xffffffffu, run, first + other);
                const T* from = x + (one >> 16);
                const int cells = int(one & 0xffff);
                sum += double(value[other]);
#pragma unroll 4
                for (int c = lane + 32; c < cells; c += 32) sum += double(from[c]);
            }
        }
    }
    for (int offset = 16; offset > 0; offset >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, offset);
    if (lane == 0) partial[item] = sum;
}

// Sums the partial sums of an aggregate. One block per aggregate, of up to 1024 threads.
KERNEL(sum_items, __launch_bounds__(1024))(const unsigned int* __restrict__ first_item, const double* __restrict__ partial,
                                           double* __restrict__ sums) {
    await_previous();
    __shared__ double scratch[32];
    const unsigned int aggregate = blockIdx.x, end = first_item[aggregate + 1];
    double sum[1] = {0};
    for (unsigned int n = first_item[aggregate] + threadIdx.x; n < end; n += blockDim.x) sum[0] += partial[n];
    block_sum<1>(sum, scratch);
    if (threadIdx.x == 0) sums[aggregate] = sum[0];
}

// u = M f, with a row of M for each aggregate of one cell, whose runs say where it is. A warp for a row; block 256. Shared memory: a number for each.
KERNEL(multiply_cells, __launch_bounds__(256))(int size, const unsigned long long* __restrict__ runs,
                                               const double* __restrict__ m, In f, Out u) {
    extern __shared__ __align__(16) double values[];
    // The entries per lane that setup has written, and that are loaded before this kernel waits for the previous one.
    constexpr int EARLY = 16;
    const int lane = threadIdx.x & 31, row = blockIdx.x * 8 + (threadIdx.x >> 5);
    const double* const entries = m + (size_t)min(row, size - 1) * size;
    double entry[EARLY];
#pragma unroll
    for (int n = 0; n < EARLY; n++) entry[n] = lane + 32 * n < size ? entries[lane + 32 * n] : 0;
    await_previous();
    for (int n = threadIdx.x; n < size; n += 256) values[n] = f[runs[n] >> 16];
    __syncthreads();
    if (row >= size) return;
    double sum = 0;
#pragma unroll
    for (int n = 0; n < EARLY; n++) sum += lane + 32 * n < size ? entry[n] * values[lane + 32 * n] : 0;
#pragma unroll 8
    for (int n = lane + 32 * EARLY; n < size; n += 32) sum += entries[n] * values[n];
    for (int offset = 16; offset > 0; offset >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, offset);
    if (lane == 0) u[runs[row] >> 16] = T(sum);
}

// Assigns all cells to aggregate 0, and padding to none. Block 256.
KERNEL(number_all)(int nx, int ny, int nz, int pitch, unsigned int* __restrict__ ids) {
    await_previous();
    const long long n = 2LL * ny * nz * pitch;
    for (long long at = blockIdx.x * 256LL + threadIdx.x; at < n; at += gridDim.x * 256LL) {
        const int m = int(at % pitch);
        const long long half_plane = at / pitch / nz;
        const int i = 2 * m + int(((half_plane >> 1) + half_plane) & 1);
        ids[at] = i < nx ? 0 : NONE;
    }
}

// The aggregate of the positions of runs, which are sorted by aggregate; `first` has the first run of each, and the number of runs at the end. A lane a
// run, then a warp a run; block 256.
KERNEL(number_runs, __launch_bounds__(256))(int aggregates, const unsigned int* __restrict__ first,
                                            const unsigned long long* __restrict__ runs, unsigned int* __restrict__ ids) {
    await_previous();
    const unsigned int n = blockIdx.x * 256 + threadIdx.x, lane = threadIdx.x & 31, count = first[aggregates];
    const unsigned long long run = n < count ? runs[n] : 0;
    unsigned int id = 0;
    for (unsigned int end = aggregates; end - id > 1;) {
        const unsigned int middle = id + (end - id) / 2;
        if (first[middle] <= n) id = middle;
        else end = middle;
    }
    for (int other = 0; other < 32; other++) {
        const unsigned long long one = __shfl_sync(0xffffffffu, run, other);
        const unsigned int aggregate = __shfl_sync(0xffffffffu, id, other);
        for (unsigned int c = lane; c < (one & 0xffff); c += 32) ids[(one >> 16) + c] = aggregate;
    }
}

// y += Z a. Block 256.
KERNEL(add_aggregated)(long long n, const unsigned int* __restrict__ ids, const double* __restrict__ a, Out y) {
    await_previous();
    for (long long i = blockIdx.x * 256LL + threadIdx.x; i < n; i += gridDim.x * 256LL) {
        unsigned int id = ids[i];
        if (id != NONE) y[i] += T(a[id]);
    }
}

// y = x + Z a. Block 256.
KERNEL(plus_aggregated)(long long n, const unsigned int* __restrict__ ids, const double* __restrict__ a, In x, Out y) {
    await_previous();
    for (long long i = blockIdx.x * 256LL + threadIdx.x; i < n; i += gridDim.x * 256LL) {
        const unsigned int id = ids[i];
        y[i] = id != NONE ? x[i] + T(a[id]) : x[i];
    }
}

// y = f x, elementwise. Block 256.
KERNEL(scale)(long long n, const double* __restrict__ f, const double* __restrict__ x, double* y) {
    await_previous();
    for (long long i = blockIdx.x * 256LL + threadIdx.x; i < n; i += gridDim.x * 256LL) y[i] = f[i] * x[i];
}

// y = M x; one row of M per block of 128.
KERNEL(multiply, __launch_bounds__(128))(int size, const double* __restrict__ matrix, const double* __restrict__ x,
                                         double* __restrict__ y) {
    await_previous();
    __shared__ double scratch[4];
    const double* row = matrix + blockIdx.x * (long long)size;
    double sum[1] = {0};
#pragma unroll 8
    for (int n = threadIdx.x; n < size; n += 128) sum[0] = fma(row[n], x[n], sum[0]);
    block_sum<1>(sum, scratch);
    if (threadIdx.x == 0) y[blockIdx.x] = sum[0];
}
