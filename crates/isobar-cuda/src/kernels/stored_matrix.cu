// Kernels for stored matrices in addition to cuSPARSE.
#include "layout.cuh"

// z = d r, elementwise. Launch: any grid, block 256.
KERNEL(multiply)(long long n, const T* __restrict__ d, const T* __restrict__ r, T* __restrict__ z) {
    await_previous();
    long long stride = gridDim.x * (long long)blockDim.x;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += stride) z[i] = d[i] * r[i];
}

// cuSPARSE needs columns interleaved over the whole grid: row m of layer k of half plane h, which is row
// k + nz h of the checkerboard, becomes row h + H k, with H the number of half planes.
// Block (32, 8); grid (ceil(pitch / 32), ceil(layers / 8), H).

// x = r, and copies of the diagonals, which the last solve has overwritten. Layers beyond nz, added to grids of
// one or two, get zeros.
KERNEL(interleave)(int pitch, int nz, int layers, const T* __restrict__ r, const T* __restrict__ below,
                   const T* __restrict__ diagonal, const T* __restrict__ above, T* __restrict__ to_below,
                   T* __restrict__ to_diagonal, T* __restrict__ to_above, T* __restrict__ x) {
    await_previous();
    int m = blockIdx.x * 32 + threadIdx.x, k = blockIdx.y * 8 + threadIdx.y;
    if (m >= pitch || k >= layers) return;
    long long h = blockIdx.z, H = gridDim.z, to = m + pitch * (h + H * k);
    T value = k < nz ? r[m + pitch * (k + nz * h)] : T(0);
    T lower = below[to], middle = diagonal[to], upper = above[to];
    x[to] = value;
    to_below[to] = lower;
    to_diagonal[to] = middle;
    to_above[to] = upper;
}

// z = x
KERNEL(deinterleave)(int pitch, int nz, const T* __restrict__ x, T* __restrict__ z) {
    await_previous();
    int m = blockIdx.x * 32 + threadIdx.x, k = blockIdx.y * 8 + threadIdx.y;
    if (m >= pitch || k >= nz) return;
    long long h = blockIdx.z, H = gridDim.z;
    z[m + pitch * (k + nz * h)] = x[m + pitch * (h + H * k)];
}
