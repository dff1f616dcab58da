// Copies between a caller's array with any strides and the checkerboard layout. x is the fast index in both, so no
// transposition is needed if the array's x stride is one (the (z, y, x) C order).
// Block (32, 8); grid (ceil(pitch / 32), ceil(nz / 8), ny).
#include "layout.cuh"

// Strides of a caller's array, in elements.
struct Strides {
    long long x, y, z;
};

// Calls f(i, j, k, position) for this thread's two cells, including those beyond the end of a row.
template <class F> __device__ __forceinline__ void for_each_cell(int nz, int pitch, F f) {
    int m = blockIdx.x * 32 + threadIdx.x, k = blockIdx.y * 8 + threadIdx.y, j = blockIdx.z;
    if (m >= pitch || k >= nz) return;
#pragma unroll
    for (int p = 0; p < 2; p++) {
        int i = 2 * m + p, c = (i + j) & 1;
        f(i, j, k, m + (long long)pitch * (k + nz * (c + 2LL * j)));
    }
}

template <class U>
__device__ __forceinline__ void import_field(int nx, int nz, int pitch, Strides stride, const U* from, T* to) {
    for_each_cell(nz, pitch, [&](int i, int j, int k, long long at) {
        to[at] = i < nx ? T(from[i * stride.x + j * stride.y + k * stride.z]) : T(0);
    });
}

template <class U>
__device__ __forceinline__ void export_field(int nx, int nz, int pitch, Strides stride, const T* from, U* to) {
    for_each_cell(nz, pitch, [&](int i, int j, int k, long long at) {
        if (i < nx) to[i * stride.x + j * stride.y + k * stride.z] = U(from[at]);
    });
}

KERNEL(import_f64)(int nx, int nz, int pitch, Strides stride, const double* __restrict__ from, T* __restrict__ to) {
    await_previous();
    import_field(nx, nz, pitch, stride, from, to);
}

KERNEL(import_f32)(int nx, int nz, int pitch, Strides stride, const float* __restrict__ from, T* __restrict__ to) {
    await_previous();
    import_field(nx, nz, pitch, stride, from, to);
}

KERNEL(export_f64)(int nx, int nz, int pitch, Strides stride, const T* __restrict__ from, double* __restrict__ to) {
    await_previous();
    export_field(nx, nz, pitch, stride, from, to);
}

KERNEL(export_f32)(int nx, int nz, int pitch, Strides stride, const T* __restrict__ from, float* __restrict__ to) {
    await_previous();
    export_field(nx, nz, pitch, stride, from, to);
}

// Copies coefficients: multiplied by a factor, and zero in cells i, j, k from `end` on in any direction, whatever
// the array contains there. report[0] is lowered to the number, in C order, of the first cell with a negative or not
// finite coefficient, and report[1] set to 1 if a number differs from the one that was there.
struct End {
    int x, y, z;
};

template <class U>
__device__ __forceinline__ void import_coefficients(int nx, int ny, int nz, int pitch, Strides stride, double factor,
                                                    End end, const U* from, T* to, unsigned long long* report) {
    // Both cells are loaded first.
    double value[2];
    T before[2];
    for_each_cell(nz, pitch, [&](int i, int j, int k, long long at) {
        bool inside = i < end.x && j < end.y && k < end.z;
        value[i & 1] = inside ? double(from[i * stride.x + j * stride.y + k * stride.z]) : 0.0;
        before[i & 1] = to[at];
    });
    bool differs = false;
    for_each_cell(nz, pitch, [&](int i, int j, int k, long long at) {
        const double own = value[i & 1];
        unsigned long long cell = i + (unsigned long long)nx * (j + (unsigned long long)ny * k);
        // Of many invalid ones, as shifts may have, few are lower than those before.
        if (!(own >= 0.0 && own <= 1.7976931348623157e308) && cell < report[0]) atomicMin(report, cell);
        T made = T(factor * own);
        differs |= before[i & 1] != made;
        to[at] = made;
    });
    // Writes of all threads to one address would take longer than the copies. All that write it write the same.
    if (__syncthreads_or(differs) && threadIdx.x == 0 && threadIdx.y == 0 && report[1] == 0) report[1] = 1;
}

KERNEL(import_coefficients_f64)(int nx, int ny, int nz, int pitch, Strides stride, double factor, End end,
                                const double* __restrict__ from, T* __restrict__ to, unsigned long long* report) {
    await_previous();
    import_coefficients(nx, ny, nz, pitch, stride, factor, end, from, to, report);
}

KERNEL(import_coefficients_f32)(int nx, int ny, int nz, int pitch, Strides stride, double factor, End end,
                                const float* __restrict__ from, T* __restrict__ to, unsigned long long* report) {
    await_previous();
    import_coefficients(nx, ny, nz, pitch, stride, factor, end, from, to, report);
}
