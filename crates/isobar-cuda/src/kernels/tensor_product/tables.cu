// The operator's tables from its factors, which the host sends in double precision, row by row.
// CHUNKS and DEPTH are those of the sweeps that use the tables.
#include "tensor_product/line_solve.cuh"

// area, and west ... total divided by it, in the layout's order. In padding an area of one keeps everything finite, and
// couplings of zero keep it zero. Leaves the largest total, at least `least` >= 0, in `largest` by an atomic maximum of
// bits: it must be zero before.
// Block (32, 8); grid (ceil(pitch / 32), ceil(2 ny / 8)).
KERNEL(horizontal, __launch_bounds__(256))(Operator op, const double* __restrict__ areas, const double* __restrict__ west,
                                           const double* __restrict__ east, const double* __restrict__ south,
                                           const double* __restrict__ north, const double* __restrict__ totals,
                                           unsigned long long* largest, double least) {
    await_previous();
    int m = blockIdx.x * 32 + threadIdx.x, line = blockIdx.y * 8 + threadIdx.y; // c + 2 j
    int j = line >> 1, i = 2 * m + ((j + line) & 1);
    bool own = line < 2 * op.ny && m < op.pitch, inside = own && i < op.nx;
    long long n = inside ? i + (long long)op.nx * j : 0;
    double area = areas[n], total = inside ? totals[n] / area : 0;
    if (own) {
        auto store = [&](const T* table, double value) { const_cast<T*>(table)[m + op.pitch * line] = T(value); };
        store(op.area, inside ? area : 1);
        store(op.west, inside ? west[n] / area : 0);
        store(op.east, inside ? east[n] / area : 0);
        store(op.south, inside ? south[n] / area : 0);
        store(op.north, inside ? north[n] / area : 0);
        // Pivots of padding are positive where a is 0, too.
        store(op.total, inside ? total : 1);
    }
    total = total > least ? total : least;
    for (int lane = 16; lane > 0; lane >>= 1) total = max(total, __shfl_down_sync(0xffffffffu, total, lane));
    if (threadIdx.x == 0) atomicMax(largest, (unsigned long long)__double_as_longlong(total));
}

// LineLayers, scaled to pivots near one and followed by identity rows, and RowLayers; one chunk per thread.
// Block CHUNKS; grid 1.
KERNEL(vertical)(Operator op, const double* __restrict__ as, const double* __restrict__ bs, const double* __restrict__ cs,
                 const double* __restrict__ ds, const unsigned long long* largest) {
    await_previous();
    double most = __longlong_as_double((long long)*largest), carry = 1;
    for (int i = 0; i < K; i++) {
        int k = K * threadIdx.x + i, nz = op.nz;
        double line[5] = {1, 0, 0, 0, 0};
        if (k < nz) {
            double a = as[k], b = bs[k], c = cs[k], d = ds[k];
            double scale = a - b - c - most * d;
            if (!(scale > 0 && scale <= 1.7e308)) scale = 1;
            line[0] = a / scale;
            line[1] = -d / scale;
            line[2] = -b / scale;
            line[3] = -c / scale;
            line[4] = 1 / scale;
            const_cast<RowLayer*>(op.row)[k] = RowLayer{T(a), T(-b), T(-c), T(-d)};
        }
        carry = i == 0 ? line[3] : carry * line[3];
        const_cast<LineLayer*>(op.line)[k] = LineLayer{T(line[0]), T(line[1]), T(line[2]), T(line[3]), T(line[4]), T(carry)};
    }
}

// The t of the layer before each chunk, for every column. Block 64; grid (ceil(pitch / 64), 2 ny).
KERNEL(line_pivots)(Operator op) {
    await_previous();
    int m = blockIdx.x * blockDim.x + threadIdx.x;
    if (m >= op.pitch) return;
    int line = blockIdx.y; // c + 2 j
    T* pivot = const_cast<T*>(op.pivot);
    T s = op.total[m + op.pitch * line];
    T t = T(0);
    for (int k = 0; k < W * K; k++) {
        if (k % K == 0) pivot[m + (long long)op.pitch * (k / K + W * line)] = k < op.nz ? t : T(0);
        LineLayer v = op.line[k];
        T e = fma(s, v.d, fma(v.c, t, v.a));
        t = e / (e + v.b);
    }
}
