// Recurrences over the unknowns in C order, in independent blocks of consecutive
// unknowns (block-IC): the pivots, and forward and backward substitution.
//
// A thread block processes one block of unknowns at a time. Each thread has a row of cells; thread t is t cells behind the
// first, so that all dependencies of a cell, which are on earlier hyperplanes i + t, are satisfied. If there are more rows than threads,
// they are processed in batches. Block: any number of threads; grid: any.
//
// Numbers are those of the whole grid. On a subdomain, cells elsewhere are omitted; cells of a block in the adjacent rows are
// in the halo rows.
#include "seven_point/seven_point.cuh"

// Rows of the whole grid.
__device__ __forceinline__ int all_rows(const Stencil& op) { return op.end - op.start; }

// Calls f(position, number, t) for the neighbours of a cell, west to above; t() is the coupling of the face between.
template <class F>
__device__ __forceinline__ void for_each_neighbour(const Stencil& op, int i, int j, int k, long long number,
                                                   const Fields& here, F f) {
    const long long row = op.nx, layer = row * all_rows(op);
    const int nz = LAYERS(op);
    auto visit = [&](auto axis, bool lower, int ni, int nj, int nk, long long there) {
        constexpr int AXIS = decltype(axis)::value;
        Index at = place(op, ni, nj, nk);
        f(at, there, [&] {
            Fields h = load(op, at);
            return lower ? face<AXIS>(op, h, here) : face<AXIS>(op, here, h);
        });
    };
    struct OnX { enum { value = X }; };
    struct OnY { enum { value = Y }; };
    struct OnZ { enum { value = Z }; };
    if (i > 0) visit(OnX{}, true, i - 1, j, k, number - 1);
    else if (periodic(X) && op.nx > 1) visit(OnX{}, true, op.nx - 1, j, k, number + (op.nx - 1));
    if (i + 1 < op.nx) visit(OnX{}, false, i + 1, j, k, number + 1);
    else if (periodic(X) && op.nx > 1) visit(OnX{}, false, 0, j, k, number - (op.nx - 1));
    if (j > op.start) visit(OnY{}, true, i, j - 1, k, number - row);
    else if (periodic(Y) && op.ny > 1) visit(OnY{}, true, i, op.ny - 1, k, number + row * (op.ny - 1));
    if (j + 1 < op.end) visit(OnY{}, false, i, j + 1, k, number + row);
    else if (periodic(Y) && op.ny > 1) visit(OnY{}, false, i, 0, k, number - row * (op.ny - 1));
    if (k > 0) visit(OnZ{}, true, i, j, k - 1, number - layer);
    else if (periodic(Z) && nz > 1) visit(OnZ{}, true, i, j, nz - 1, number + layer * (nz - 1));
    if (k + 1 < nz) visit(OnZ{}, false, i, j, k + 1, number + layer);
    else if (periodic(Z) && nz > 1) visit(OnZ{}, false, i, j, 0, number - layer * (nz - 1));
}

// Whether a subdomain has cells of the rows from `first` to `last`, counted through all layers of the whole grid.
__device__ __forceinline__ bool has_any(const Stencil& op, long long first, long long last) {
    const int rows = all_rows(op), from = int(first % rows) + op.start, to = int(last % rows) + op.start;
    if (last - first + 1 >= rows) return true;
    return from <= to ? to >= 0 && from < op.ny : to >= 0 || from < op.ny;
}

// Calls f(i, j, k, number) for the unknowns from `begin` to `end`, upwards or downwards, each after its predecessors.
template <bool UP, class F>
__device__ __forceinline__ void in_order(const Stencil& op, long long begin, long long end, F f) {
    const int nx = op.nx, all = all_rows(op);
    const long long first_row = begin / nx, last_row = (end - 1) / nx, rows = last_row - first_row + 1;
    if (!has_any(op, first_row, last_row)) return;
    const int batch = blockDim.x;
    const long long batches = (rows + batch - 1) / batch;
    // If there is a single row, only the part within the block.
    const int s0 = rows == 1 ? int(begin - first_row * nx) : 0;
    for (long long b = 0; b < batches; b++) {
        const long long n = UP ? b : batches - 1 - b, in_batch = min((long long)batch, rows - n * batch);
        const int s1 = rows == 1 ? int(end - first_row * nx) : nx + int(in_batch) - 1;
        const long long line = first_row + n * batch + threadIdx.x;
        const int j = int(line % all) + op.start, k = int(line / all);
        const bool has = threadIdx.x < in_batch && j >= 0 && j < op.ny;
        for (int step = 0; step < s1 - s0; step++) {
            const int i = (UP ? s0 + step : s1 - 1 - step) - int(threadIdx.x);
            const long long number = line * nx + i;
            if (has && i >= 0 && i < nx && number >= begin && number < end) f(i, j, k, number);
            __syncthreads();
        }
    }
}

// Sum of T over the upper neighbours below number `end`. Not inline, to keep compile times short.
__device__ __noinline__ T upper_sum(const Stencil& op, long long number, long long end) {
    const int all = all_rows(op);
    const int i = int(number % op.nx), j = int(number / op.nx % all) + op.start, k = int(number / op.nx / all);
    T sum = T(0);
    for_each_neighbour(op, i, j, k, number, load(op, place(op, i, j, k)), [&](Index, long long other, auto face) {
        if (other > number && other < end) sum += face();
    });
    return sum;
}

// The pivots d_n = a_nn - sum of T_nm / d_m (T_nm + omega sum of T_pm) over lower neighbours m in the same block and the
// other upper neighbours p of m in it, stored as 1 / d_n. A pivot that is only rounding error of a_nn is replaced by a_nn.
KERNEL(factorise, __launch_bounds__(512))(Stencil op, long long cells, long long block, long long blocks, T singular, T omega,
                                          T* inverse_pivots) {
    await_previous();
    for (long long b = blockIdx.x; b < blocks; b += gridDim.x) {
        const long long begin = b * block, end = min(begin + block, cells);
        in_order<true>(op, begin, end, [&](int i, int j, int k, long long number) {
            const Index at = place(op, i, j, k);
            const Fields here = load(op, at);
            T diagonal = load_shift(op, at) + sides(op, here, i, j, k), pivot = diagonal;
            for_each_neighbour(op, i, j, k, number, here, [&](Index there, long long other, auto face) {
                const T t = face();
                diagonal += t;
                // t - t^2/d, without a difference of sums.
                T taken = T(0);
                if (other < number && other >= begin) {
                    taken = t * inverse_pivots[there];
                    if (omega > T(0)) taken += omega * (upper_sum(op, other, end) - t) * inverse_pivots[there];
                }
                pivot += t * (T(1) - taken);
            });
            inverse_pivots[at] = inverse(pivot > singular * diagonal ? pivot : diagonal);
        });
    }
}

// z = (D + L^T)^-1 D (D + L)^-1 r, with pivots D, and L without the couplings between blocks of `block` unknowns: upwards, downwards, or
// both.
KERNEL(substitute, __launch_bounds__(512))(Stencil op, long long cells, long long block, long long blocks, int upwards,
                                           int downwards, In inverse_pivots, In r, T* z) {
    await_previous();
    for (long long b = blockIdx.x; b < blocks; b += gridDim.x) {
        const long long begin = b * block, end = min(begin + block, cells);
        if (upwards)
            in_order<true>(op, begin, end, [&](int i, int j, int k, long long number) {
                const Index at = place(op, i, j, k);
                T sum = r[at];
                for_each_neighbour(op, i, j, k, number, load(op, at), [&](Index there, long long other, auto face) {
                    if (other < number && other >= begin) sum = fma(face(), z[there], sum);
                });
                z[at] = sum * inverse_pivots[at];
            });
        if (downwards)
            in_order<false>(op, begin, end, [&](int i, int j, int k, long long number) {
                const Index at = place(op, i, j, k);
                T sum = T(0);
                for_each_neighbour(op, i, j, k, number, load(op, at), [&](Index there, long long other, auto face) {
                    if (other > number && other < end) sum = fma(face(), z[there], sum);
                });
                z[at] = fma(sum, inverse_pivots[at], z[at]);
            });
    }
}

// Contribution of the row before the first, r += T z; of the row after the last, z += inverse_pivots T z. One thread per cell of
// that row. Block 32 x 8; grid: cells / 32, layers / 8.
template <bool FIRST, class F> __device__ __forceinline__ void beside(const Stencil& op, F f) {
    const int i = blockIdx.x * 32 + threadIdx.x, k = blockIdx.y * 8 + threadIdx.y;
    if (i >= op.nx || k >= LAYERS(op)) return;
    const int j = FIRST ? 0 : op.ny - 1;
    const Index here = place(op, i, j, k), there = place(op, i, FIRST ? -1 : op.ny, k);
    const Fields h = load(op, here), h_there = load(op, there);
    f(here, there, FIRST ? face<Y>(op, h_there, h) : face<Y>(op, h, h_there));
}
KERNEL(add_row_before, __launch_bounds__(256))(Stencil op, In z, T* r) {
    await_previous();
    beside<true>(op, [&](Index here, Index there, T t) { r[here] = fma(t, z[there], r[here]); });
}
KERNEL(add_row_behind, __launch_bounds__(256))(Stencil op, In inverse_pivots, T* z) {
    await_previous();
    beside<false>(op, [&](Index here, Index there, T t) { z[here] = fma(t * z[there], inverse_pivots[here], z[here]); });
}
