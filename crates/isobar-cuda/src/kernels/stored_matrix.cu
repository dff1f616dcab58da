// Kernels for stored matrices.
#include "layout.cuh"

// z = d r, elementwise. Launch: any grid, block 256.
KERNEL(multiply)(long long n, In d, In r, Out z) {
    await_previous();
    long long stride = gridDim.x * (long long)blockDim.x;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += stride) z[i] = d[i] * r[i];
}

// y = A x, a thread a row: rows are in slices of 32, entry e of row r of slice s at 32 (starts[s] + e) + r. Columns are ~0u
// beyond the end of a row. Launch: grid ceil(rows / 256), block 256.
KERNEL(product)(long long rows, const unsigned* __restrict__ starts, const unsigned* __restrict__ columns, In values, In x, Out y) {
    await_previous();
    long long row = blockIdx.x * 256LL + threadIdx.x;
    if (row >= rows) return;
    unsigned end = starts[row / 32 + 1];
    T sum = 0;
#pragma unroll 4
    for (unsigned e = starts[row / 32]; e < end; e++) {
        unsigned column = columns[32LL * e + row % 32];
        T value = values[32LL * e + row % 32];
        if (column != ~0u) sum += value * x[column];
    }
    y[row] = sum;
}

// z = D^-1 r with the tridiagonal blocks D, a thread a column, by the bands below D's diagonal, 1 over its pivots, and above times that
// (Thomas' algorithm). Launch: grid ceil(columns / 256), block 256.
KERNEL(solve_lines)(long long columns, int pitch, int nz, In below, In inverse, In above, In r, Out z) {
    await_previous();
    long long column = blockIdx.x * 256LL + threadIdx.x;
    if (column >= columns) return;
    long long first = column / pitch * pitch * nz + column % pitch, last = first + (nz - 1LL) * pitch;
    T v = 0;
#pragma unroll 4
    for (long long n = first; n <= last; n += pitch) z[n] = v = (r[n] - below[n] * v) * inverse[n];
#pragma unroll 4
    for (long long n = last - pitch; n >= first; n -= pitch) z[n] = v = z[n] - above[n] * v;
}
