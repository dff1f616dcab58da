// Corrections of strongly coupled aggregates of cells (bodies) by constants.
#include "layout.cuh"

// A warp per aggregate: its number, its cells, and the thread's lane. Aggregates have at most some hundred cells; a lane loads
// those of several rounds at once.
struct Body {
    static constexpr int ROUNDS = 4;
    int number, lane;
    unsigned int begin, end;

    __device__ __forceinline__ Body(int bodies, const unsigned int* __restrict__ starts) {
        number = (blockIdx.x * 256 + threadIdx.x) >> 5;
        lane = threadIdx.x & 31;
        begin = number < bodies ? starts[number] : 0;
        end = number < bodies ? starts[number + 1] : 0;
    }
    // Calls f(cell, whether there is one) for this lane's cells.
    template <class F> __device__ __forceinline__ void for_each_cell(const unsigned int* __restrict__ cells, F f) const {
        for (unsigned int first = begin; first < end; first += 32 * ROUNDS) {
            unsigned int cell[ROUNDS];
            bool exists[ROUNDS];
#pragma unroll
            for (int n = 0; n < ROUNDS; n++) {
                const unsigned int at = first + 32 * n + lane;
                exists[n] = at < end;
                cell[n] = cells[exists[n] ? at : begin];
            }
            f(cell, exists);
        }
    }
    // The sum of r over its cells, in all lanes.
    __device__ __forceinline__ double sum(const unsigned int* __restrict__ cells, const T* __restrict__ r) const {
        double sum = 0;
        for_each_cell(cells, [&](const unsigned int (&cell)[ROUNDS], const bool (&exists)[ROUNDS]) {
            T value[ROUNDS];
#pragma unroll
            for (int n = 0; n < ROUNDS; n++) value[n] = r[cell[n]];
#pragma unroll
            for (int n = 0; n < ROUNDS; n++) sum += exists[n] ? double(value[n]) : 0.0;
        });
        for (int other = 16; other > 0; other >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, other);
        return sum;
    }
    __device__ __forceinline__ void add(const unsigned int* __restrict__ cells, T correction, T* __restrict__ u) const {
        for_each_cell(cells, [&](const unsigned int (&cell)[ROUNDS], const bool (&exists)[ROUNDS]) {
            T value[ROUNDS];
#pragma unroll
            for (int n = 0; n < ROUNDS; n++) value[n] = u[cell[n]];
#pragma unroll
            for (int n = 0; n < ROUNDS; n++)
                if (exists[n]) u[cell[n]] = value[n] + correction;
        });
    }
};

// u += factor sum r, in the cells of each aggregate. Block 256.
KERNEL(correct_bodies, __launch_bounds__(256))(int bodies, const unsigned int* __restrict__ starts,
                                               const unsigned int* __restrict__ cells, const double* __restrict__ factors,
                                               const T* __restrict__ r, T* __restrict__ u) {
    await_previous();
    const Body body(bodies, starts);
    const double sum = body.sum(cells, r);
    body.add(cells, body.number < bodies ? T(factors[body.number] * sum) : T(0), u);
}

// sums = sum r over this subdomain's cells of each aggregate. Block 256.
KERNEL(sum_bodies, __launch_bounds__(256))(int bodies, const unsigned int* __restrict__ starts,
                                           const unsigned int* __restrict__ cells, const T* __restrict__ r,
                                           double* __restrict__ sums) {
    await_previous();
    const Body body(bodies, starts);
    const double sum = body.sum(cells, r);
    if (body.number < bodies && body.lane == 0) sums[body.number] = sum;
}

// u += factor sum, in the cells of each aggregate, with sums over all subdomains. Block 256.
KERNEL(correct_by_sums, __launch_bounds__(256))(int bodies, const unsigned int* __restrict__ starts,
                                                const unsigned int* __restrict__ cells, const double* __restrict__ factors,
                                                const double* __restrict__ sums, T* __restrict__ u) {
    await_previous();
    const Body body(bodies, starts);
    body.add(cells, body.number < bodies ? T(factors[body.number] * sums[body.number]) : T(0), u);
}
