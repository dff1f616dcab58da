// Copies between a caller's array with any strides and the checkerboard layout. x is the fast index in both, so no
// transposition is needed if the array's x stride is one (the (z, y, x) C order).
// Block (32, 8); grid (ceil(pitch / 32), ceil(nz / 8), ny).
#include "layout.cuh"

// A caller's array: its strides in elements, and its elements in x and y, after which it is repeated.
struct Array {
    long long x, y, z;
    int nx, ny;

    __device__ __forceinline__ long long place(int i, int j, int k) const {
        // There are few copies.
        while (i >= nx) i -= nx;
        while (j >= ny) j -= ny;
        return i * x + j * y + k * z;
    }
};

// The position of a cell.
__device__ __forceinline__ long long cell_at(int nz, int pitch, int i, int j, int k) {
    return i / 2 + (long long)pitch * (k + nz * (((i + j) & 1) + 2LL * j));
}

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
__device__ __forceinline__ void import_field(int nx, int nz, int pitch, const Array& array, const U* from, T* to) {
    for_each_cell(nz, pitch, [&](int i, int j, int k, long long at) {
        to[at] = i < nx ? T(from[array.place(i, j, k)]) : T(0);
    });
}

// Calls f(position) for all copies of a cell of an array with these elements.
template <class F> __device__ __forceinline__ void for_each_copy(int3 cells, int2 period, int pitch, int i, int j, int k, F f) {
    for (int b = j; b < cells.y; b += period.y) {
        for (int a = i; a < cells.x; a += period.x) f(cell_at(cells.z, pitch, a, b, k));
    }
}

// The mean of all copies, rounded to U before.
template <class U> __device__ __forceinline__ U mean(int3 cells, int2 period, int pitch, const T* x, int i, int j, int k) {
    U sum = 0;
    int copies = 0;
    for_each_copy(cells, period, pitch, i, j, k, [&](long long at) {
        sum += U(x[at]);
        copies++;
    });
    return U(1.0 / copies) * sum;
}

template <class U>
__device__ __forceinline__ void export_field(int nx, int ny, int nz, int pitch, const Array& array, const T* from, U* to) {
    const bool is_one = array.nx == nx && array.ny == ny;
    for_each_cell(nz, pitch, [&](int i, int j, int k, long long at) {
        if (i >= array.nx || j >= array.ny) return;
        to[array.place(i, j, k)] = is_one ? U(from[at]) : mean<U>({nx, ny, nz}, {array.nx, array.ny}, pitch, from, i, j, k);
    });
}

KERNEL(import_f64)(int nx, int nz, int pitch, Array array, const double* __restrict__ from, Out to) {
    await_previous();
    import_field(nx, nz, pitch, array, from, to);
}

KERNEL(import_f32)(int nx, int nz, int pitch, Array array, const float* __restrict__ from, Out to) {
    await_previous();
    import_field(nx, nz, pitch, array, from, to);
}

KERNEL(export_f64)(int nx, int ny, int nz, int pitch, Array array, In from, double* __restrict__ to) {
    await_previous();
    export_field(nx, ny, nz, pitch, array, from, to);
}

KERNEL(export_f32)(int nx, int ny, int nz, int pitch, Array array, In from, float* __restrict__ to) {
    await_previous();
    export_field(nx, ny, nz, pitch, array, from, to);
}

// Replaces every copy of a cell by the mean of all.
KERNEL(average)(int nx, int ny, int nz, int pitch, int period_x, int period_y, T* x) {
    await_previous();
    const int3 cells = {nx, ny, nz};
    const int2 period = {period_x, period_y};
    for_each_cell(nz, pitch, [&](int i, int j, int k, long long) {
        if (i >= period_x || j >= period_y) return;
        const T own = mean<T>(cells, period, pitch, x, i, j, k);
        for_each_copy(cells, period, pitch, i, j, k, [&](long long at) { x[at] = own; });
    });
}

// Copies coefficients: multiplied by a factor, and zero in cells i, j, k from `end` on in any direction, whatever
// the array contains there. report[0] is lowered to the number, in C order, of the first cell whose coefficient is below `least` or not
// finite, and report[1] set to 1 if a number differs from the one that was there.
struct End {
    int x, y, z;
};

template <class U>
__device__ __forceinline__ void import_coefficients(int nx, int ny, int nz, int pitch, const Array& array, double factor, double least,
                                                    End end, const U* from, T* to, unsigned long long* report) {
    // Both cells are loaded first.
    double value[2];
    T before[2];
    for_each_cell(nz, pitch, [&](int i, int j, int k, long long at) {
        bool inside = i < end.x && j < end.y && k < end.z;
        value[i & 1] = inside ? double(from[array.place(i, j, k)]) : 0.0;
        before[i & 1] = to[at];
    });
    bool differs = false;
    for_each_cell(nz, pitch, [&](int i, int j, int k, long long at) {
        const double own = value[i & 1];
        unsigned long long cell = i + (unsigned long long)nx * (j + (unsigned long long)ny * k);
        // Few of many invalid cells, as shifts may have, precede the first one so far, so that the test saves most atomic operations.
        if (!(own >= least && own <= 1.7976931348623157e308) && cell < report[0]) atomicMin(report, cell);
        T made = T(factor * own);
        differs |= before[i & 1] != made;
        to[at] = made;
    });
    // Writes of all threads to one address would take longer than the copies. All writers write the same number.
    if (__syncthreads_or(differs) && threadIdx.x == 0 && threadIdx.y == 0 && report[1] == 0) report[1] = 1;
}

KERNEL(import_coefficients_f64)(int nx, int ny, int nz, int pitch, Array array, double factor, double least, End end,
                                const double* __restrict__ from, Out to, unsigned long long* report) {
    await_previous();
    import_coefficients(nx, ny, nz, pitch, array, factor, least, end, from, to, report);
}

KERNEL(import_coefficients_f32)(int nx, int ny, int nz, int pitch, Array array, double factor, double least, End end,
                                const float* __restrict__ from, Out to, unsigned long long* report) {
    await_previous();
    import_coefficients(nx, ny, nz, pitch, array, factor, least, end, from, to, report);
}
