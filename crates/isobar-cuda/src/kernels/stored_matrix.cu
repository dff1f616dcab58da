// What a stored matrix needs beside cuSPARSE.
#include "layout.cuh"

// z = d r, entry by entry. Launch: any grid, block 256.
extern "C" __global__ void multiply(long long n, const T* __restrict__ d, const T* __restrict__ r,
                                    T* __restrict__ z) {
    long long stride = gridDim.x * (long long)blockDim.x;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += stride) z[i] = d[i] * r[i];
}

// cuSPARSE wants columns interleaved over the whole grid: row m of level k of half plane h, which is row
// k + nz h of the checkerboard, is row h + H k there, H being the number of half planes.
// Block (32, 8); grid (ceil(hp / 32), ceil(levels / 8), H).

// x = r, and the diagonals again, which the last solve has overwritten. Levels beyond nz, which only grids of
// one or two have, get zeros.
extern "C" __global__ void interleave(int hp, int nz, int levels, const T* __restrict__ r,
                                      const T* __restrict__ below, const T* __restrict__ diagonal,
                                      const T* __restrict__ above, T* __restrict__ to_below,
                                      T* __restrict__ to_diagonal, T* __restrict__ to_above, T* __restrict__ x) {
    int m = blockIdx.x * 32 + threadIdx.x, k = blockIdx.y * 8 + threadIdx.y;
    if (m >= hp || k >= levels) return;
    long long h = blockIdx.z, H = gridDim.z, to = m + hp * (h + H * k);
    T value = k < nz ? r[m + hp * (k + nz * h)] : T(0);
    T lower = below[to], middle = diagonal[to], upper = above[to];
    x[to] = value;
    to_below[to] = lower;
    to_diagonal[to] = middle;
    to_above[to] = upper;
}

// z = x
extern "C" __global__ void deinterleave(int hp, int nz, const T* __restrict__ x, T* __restrict__ z) {
    int m = blockIdx.x * 32 + threadIdx.x, k = blockIdx.y * 8 + threadIdx.y;
    if (m >= hp || k >= nz) return;
    long long h = blockIdx.z, H = gridDim.z;
    z[m + hp * (k + nz * h)] = x[m + hp * (h + H * k)];
}
