// Forward and backward substitution with the triangular parts of the diffusion operator, blocks of consecutive
// unknowns apart (block-IC).
#include "diffusion.cuh"

// Calls f(place, T, number) for the neighbours of lower (or, where HIGHER, of higher) number, numbers in C order.
template <bool HIGHER, class F>
__device__ __forceinline__ void neighbours(const Diffusion& op, int i, int j, int k, long long number, const Half& here,
                                           F f) {
    const long long row = op.nx, level = (long long)op.nx * op.ny;
    const int nz = LEVELS(op);
    auto visit = [&](auto axis, bool lower, int ni, int nj, int nk, long long there) {
        if ((there > number) != HIGHER) return;
        Index at = place(op, ni, nj, nk);
        Half h = load(op, at);
        f(at, lower ? face<decltype(axis)::value>(op, h, here) : face<decltype(axis)::value>(op, here, h), there);
    };
    struct OnX { enum { value = X }; };
    struct OnY { enum { value = Y }; };
    struct OnZ { enum { value = Z }; };
    if (i > 0) visit(OnX{}, true, i - 1, j, k, number - 1);
    else if (periodic(X) && op.nx > 1) visit(OnX{}, true, op.nx - 1, j, k, number + (op.nx - 1));
    if (i + 1 < op.nx) visit(OnX{}, false, i + 1, j, k, number + 1);
    else if (periodic(X) && op.nx > 1) visit(OnX{}, false, 0, j, k, number - (op.nx - 1));
    if (j > 0) visit(OnY{}, true, i, j - 1, k, number - row);
    else if (periodic(Y) && op.ny > 1) visit(OnY{}, true, i, op.ny - 1, k, number + row * (op.ny - 1));
    if (j + 1 < op.ny) visit(OnY{}, false, i, j + 1, k, number + row);
    else if (periodic(Y) && op.ny > 1) visit(OnY{}, false, i, 0, k, number - row * (op.ny - 1));
    if (k > 0) visit(OnZ{}, true, i, j, k - 1, number - level);
    else if (periodic(Z) && nz > 1) visit(OnZ{}, true, i, j, nz - 1, number + level * (nz - 1));
    if (k + 1 < nz) visit(OnZ{}, false, i, j, k + 1, number + level);
    else if (periodic(Z) && nz > 1) visit(OnZ{}, false, i, j, 0, number - level * (nz - 1));
}

// z = (D + L^T)^-1 D (D + L)^-1 r, D the pivots, L without the couplings between blocks of `block` unknowns.
//
// A thread block takes one block of unknowns at a time. Rows of cells are a thread's each; thread t is t cells behind the
// first, so that whatever a cell depends on, all of it on earlier hyperplanes i + t, is done. More rows than threads
// come one batch after the other. Block: any number of threads; grid: any.
extern "C" __global__ void __launch_bounds__(512)
    substitute(Diffusion op, long long cells, long long block, long long blocks,
               const T* __restrict__ inverse_pivots, const T* __restrict__ r, T* z) {
    const int nx = op.nx, ny = op.ny;
    for (long long b = blockIdx.x; b < blocks; b += gridDim.x) {
        const long long begin = b * block, end = min(begin + block, cells);
        const long long first_row = begin / nx, last_row = (end - 1) / nx, rows = last_row - first_row + 1;
        const int batch = blockDim.x;
        const long long batches = (rows + batch - 1) / batch;
        // Of a single row, only its part.
        const int s0 = rows == 1 ? int(begin - first_row * nx) : 0;
        for (long long n = 0; n < batches; n++) {
            const long long in_batch = min((long long)batch, rows - n * batch);
            const int s1 = rows == 1 ? int(end - first_row * nx) : nx + int(in_batch) - 1;
            const long long line = first_row + n * batch + threadIdx.x;
            const int j = int(line % ny), k = int(line / ny);
            for (int s = s0; s < s1; s++) {
                const int i = s - int(threadIdx.x);
                const long long number = line * nx + i;
                if (threadIdx.x < in_batch && i >= 0 && i < nx && number >= begin && number < end) {
                    Index at = place(op, i, j, k);
                    T sum = r[at];
                    neighbours<false>(op, i, j, k, number, load(op, at), [&](Index there, T t, long long other) {
                        if (other >= begin) sum = fma(t, z[there], sum);
                    });
                    z[at] = sum * inverse_pivots[at];
                }
                __syncthreads();
            }
        }
        for (long long n = batches - 1; n >= 0; n--) {
            const long long in_batch = min((long long)batch, rows - n * batch);
            const int s1 = rows == 1 ? int(end - first_row * nx) : nx + int(in_batch) - 1;
            const long long line = first_row + n * batch + threadIdx.x;
            const int j = int(line % ny), k = int(line / ny);
            for (int s = s1 - 1; s >= s0; s--) {
                const int i = s - int(threadIdx.x);
                const long long number = line * nx + i;
                if (threadIdx.x < in_batch && i >= 0 && i < nx && number >= begin && number < end) {
                    Index at = place(op, i, j, k);
                    T sum = T(0);
                    neighbours<true>(op, i, j, k, number, load(op, at), [&](Index there, T t, long long other) {
                        if (other < end) sum = fma(t, z[there], sum);
                    });
                    z[at] = fma(sum, inverse_pivots[at], z[at]);
                }
                __syncthreads();
            }
        }
    }
}
