// Unfused vector operations on whole fields, including padding (which is
// zero), so that they do not depend on the checkerboard. Launch: any grid, block 256.
#include "layout.cuh"
#include "reduce.cuh"

__device__ __forceinline__ long long first_index() { return blockIdx.x * (long long)blockDim.x + threadIdx.x; }
__device__ __forceinline__ long long stride() { return gridDim.x * (long long)blockDim.x; }

KERNEL(fill)(long long n, T value, T* x) {
    await_previous();
    for (long long i = first_index(); i < n; i += stride()) x[i] = value;
}

// x = a x
KERNEL(scale)(long long n, T a, T* x) {
    await_previous();
    for (long long i = first_index(); i < n; i += stride()) x[i] *= a;
}

// y += more (y - x)
KERNEL(extrapolate)(long long n, T more, In x, Out y) {
    await_previous();
    for (long long i = first_index(); i < n; i += stride()) y[i] = fma(more, y[i] - x[i], y[i]);
}

// y = x
template <class S> __device__ __forceinline__ void convert(long long n, const S* x, T* y) {
    for (long long i = first_index(); i < n; i += stride()) y[i] = T(x[i]);
}

KERNEL(convert_f64)(long long n, const double* __restrict__ x, Out y) {
    await_previous();
    convert(n, x, y);
}
KERNEL(convert_f32)(long long n, const float* __restrict__ x, Out y) {
    await_previous();
    convert(n, x, y);
}

// y += a x
template <class S> __device__ __forceinline__ void axpy(long long n, T a, const S* x, T* y) {
    for (long long i = first_index(); i < n; i += stride()) y[i] = fma(a, T(x[i]), y[i]);
}

KERNEL(axpy_f64)(long long n, Ratio a, const double* __restrict__ x, Out y) {
    await_previous();
    axpy(n, a.value(), x, y);
}

KERNEL(axpy_f32)(long long n, Ratio a, const float* __restrict__ x, Out y) {
    await_previous();
    axpy(n, a.value(), x, y);
}

// y += a x;  result = <y, y>, accumulated in double
KERNEL(axpy_norm)(long long n, Ratio ratio, In x, Out y, Reduction to) {
    await_previous();
    const T a = ratio.value();
    double sum[1] = {0};
    for (long long i = first_index(); i < n; i += stride()) {
        const T value = fma(a, x[i], y[i]);
        y[i] = value;
        sum[0] += double(value) * double(value);
    }
    grid_sum(sum, to);
}

// y = x + a y
template <class S> __device__ __forceinline__ void xpay(long long n, T a, const S* x, T* y) {
    for (long long i = first_index(); i < n; i += stride()) y[i] = fma(a, y[i], T(x[i]));
}

KERNEL(xpay_f64)(long long n, Ratio a, const double* __restrict__ x, Out y) {
    await_previous();
    xpay(n, a.value(), x, y);
}

KERNEL(xpay_f32)(long long n, Ratio a, const float* __restrict__ x, Out y) {
    await_previous();
    xpay(n, a.value(), x, y);
}

// result = <x, y>, accumulated in double. x and y may be the same.
KERNEL(dot)(long long n, const T* x, const T* y, Reduction to) {
    await_previous();
    double sum[1] = {0};
    for (long long i = first_index(); i < n; i += stride()) sum[0] += double(x[i]) * double(y[i]);
    grid_sum(sum, to);
}

// Stores one scalar.
KERNEL(set_scalar)(double value, double* scalar) {
    await_previous();
    *scalar = value;
}

// Copies the bank to host memory, then increments the count: whoever sees the count sees the bank. Block 32.
KERNEL(publish)(int scalars, const double* bank, unsigned long long* published, volatile double* host_bank,
                volatile unsigned long long* host_published) {
    await_previous();
    if (threadIdx.x < scalars) host_bank[threadIdx.x] = bank[threadIdx.x];
    __threadfence_system();
    __syncthreads();
    if (threadIdx.x == 0) {
        unsigned long long count = *published + 1;
        *published = count;
        *host_published = count;
    }
}
