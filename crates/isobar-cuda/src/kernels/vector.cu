// Vector operations that are not fused into anything. All take whole fields, padding included (it is
// zero), so the checkerboard does not show. Launch: any grid, block 256.
#include "layout.cuh"
#include "reduce.cuh"

#ifndef FROM_REAL
#define FROM_REAL float
#endif

__device__ __forceinline__ long long first_index() { return blockIdx.x * (long long)blockDim.x + threadIdx.x; }
__device__ __forceinline__ long long stride() { return gridDim.x * (long long)blockDim.x; }

extern "C" __global__ void fill(long long n, T value, T* x) {
    for (long long i = first_index(); i < n; i += stride()) x[i] = value;
}

// y = x, from another precision.
extern "C" __global__ void convert(long long n, const FROM_REAL* __restrict__ x, T* __restrict__ y) {
    for (long long i = first_index(); i < n; i += stride()) y[i] = T(x[i]);
}

// y += (sign over/under) x.
extern "C" __global__ void axpy(long long n, T sign, const double* over, const double* under,
                                const T* __restrict__ x, T* __restrict__ y) {
    T a = sign * quotient(over, under);
    for (long long i = first_index(); i < n; i += stride()) y[i] = fma(a, x[i], y[i]);
}

// y = x + (over/under) y.
extern "C" __global__ void xpay(long long n, const double* over, const double* under, const T* __restrict__ x,
                                T* __restrict__ y) {
    T a = quotient(over, under);
    for (long long i = first_index(); i < n; i += stride()) y[i] = fma(a, y[i], x[i]);
}

// y += x, x in another precision.
extern "C" __global__ void add_converted(long long n, const FROM_REAL* __restrict__ x, T* __restrict__ y) {
    for (long long i = first_index(); i < n; i += stride()) y[i] += T(x[i]);
}

// result = <x, y>, accumulated in double.
extern "C" __global__ void dot(long long n, const T* __restrict__ x, const T* __restrict__ y, double* partial,
                               unsigned int* counter, double* result) {
    __shared__ double sums[32];
    double sum[1] = {0};
    for (long long i = first_index(); i < n; i += stride()) sum[0] += double(x[i]) * double(y[i]);
    grid_sum<1>(sum, sums, partial, counter, result);
}
