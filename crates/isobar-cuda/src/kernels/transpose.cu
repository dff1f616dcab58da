// Between a user's array of any strides and the checkerboard. x stays the fast index in both, so no
// tile has to be turned when the user's x stride is one (the (z, y, x) C order).
// Block (32, 8); grid (ceil(hp / 32), ceil(nz / 8), ny).
#include "layout.cuh"

#ifndef USER_REAL
#define USER_REAL REAL
#endif
typedef USER_REAL U;

// Strides, in elements, of a user's array.
struct Strides {
    long long x, y, z;
};

extern "C" __global__ void import_field(int nx, int ny, int nz, int hp, Strides stride, const U* __restrict__ from,
                                        T* __restrict__ to) {
    int m = blockIdx.x * 32 + threadIdx.x, k = blockIdx.y * 8 + threadIdx.y, j = blockIdx.z;
    if (m >= hp || k >= nz) return;
#pragma unroll
    for (int p = 0; p < 2; p++) {
        int i = 2 * m + p, c = (i + j) & 1;
        T value = i < nx ? T(from[i * stride.x + j * stride.y + k * stride.z]) : T(0);
        to[m + (long long)hp * (k + nz * (c + 2LL * j))] = value;
    }
}

extern "C" __global__ void export_field(int nx, int ny, int nz, int hp, Strides stride, const T* __restrict__ from,
                                        U* __restrict__ to) {
    int m = blockIdx.x * 32 + threadIdx.x, k = blockIdx.y * 8 + threadIdx.y, j = blockIdx.z;
    if (m >= hp || k >= nz) return;
#pragma unroll
    for (int p = 0; p < 2; p++) {
        int i = 2 * m + p, c = (i + j) & 1;
        if (i < nx)
            to[i * stride.x + j * stride.y + k * stride.z] = U(from[m + (long long)hp * (k + nz * (c + 2LL * j))]);
    }
}
