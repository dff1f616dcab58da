// Corrections of strongly coupled aggregates of cells (bodies) by constants.
#include "layout.cuh"

// A warp per aggregate: its number, its cells, and the thread's lane. Aggregates have at most some hundred cells, all of which a warp loads in
// one round.
struct Body {
    static constexpr int ROUNDS = 16;
    int number, lane;
    unsigned int begin, end;
    // The lane's cells of the first round.
    unsigned int first_cell[ROUNDS];

    // Waits for the kernel before when it has loaded what setup made.
    __device__ __forceinline__ Body(int bodies, const unsigned int* __restrict__ starts, const unsigned int* __restrict__ cells) {
        number = (blockIdx.x * 256 + threadIdx.x) >> 5;
        lane = threadIdx.x & 31;
        begin = number < bodies ? starts[number] : 0;
        end = number < bodies ? starts[number + 1] : 0;
#pragma unroll
        for (int n = 0; n < ROUNDS; n++) first_cell[n] = exists(n) ? cells[begin + 32 * n + lane] : 0;
        await_previous();
    }
    // Whether the lane has a cell in the first round.
    __device__ __forceinline__ bool exists(int n) const { return begin + 32 * n + lane < end; }
    // The numbers of a vector in the lane's cells of the first round, elsewhere 0.
    __device__ __forceinline__ void load(const T* __restrict__ from, T (&value)[ROUNDS]) const {
#pragma unroll
        for (int n = 0; n < ROUNDS; n++) value[n] = exists(n) ? from[first_cell[n]] : T(0);
    }
    // Calls f(cell) for this lane's cells of other rounds.
    template <class F> __device__ __forceinline__ void for_each_other(const unsigned int* __restrict__ cells, F f) const {
        for (unsigned int at = begin + 32 * ROUNDS + lane; at < end; at += 32) f(cells[at]);
    }
    // The sum of r over its cells, in all lanes.
    __device__ __forceinline__ double sum(const unsigned int* __restrict__ cells, const T* __restrict__ r) const {
        T value[ROUNDS];
        load(r, value);
        double sum = 0;
#pragma unroll
        for (int n = 0; n < ROUNDS; n++) sum += double(value[n]);
        for_each_other(cells, [&](unsigned int cell) { sum += double(r[cell]); });
        for (int other = 16; other > 0; other >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, other);
        return sum;
    }
    // u += correction, where `before` has been loaded from u.
    __device__ __forceinline__ void add(const unsigned int* __restrict__ cells, T correction, const T (&before)[ROUNDS],
                                        T* __restrict__ u) const {
#pragma unroll
        for (int n = 0; n < ROUNDS; n++)
            if (exists(n)) u[first_cell[n]] = before[n] + correction;
        for_each_other(cells, [&](unsigned int cell) { u[cell] += correction; });
    }
};

// u += factor sum r, in the cells of each aggregate. Block 256.
KERNEL(correct_bodies, __launch_bounds__(256))(int bodies, const unsigned int* __restrict__ starts,
                                               const unsigned int* __restrict__ cells, const double* __restrict__ factors,
                                               const T* __restrict__ r, T* __restrict__ u) {
    const Body body(bodies, starts, cells);
    const double factor = body.number < bodies ? factors[body.number] : 0;
    T before[Body::ROUNDS];
    body.load(u, before);
    body.add(cells, T(factor * body.sum(cells, r)), before, u);
}

// sums = sum r over this subdomain's cells of each aggregate. Block 256.
KERNEL(sum_bodies, __launch_bounds__(256))(int bodies, const unsigned int* __restrict__ starts,
                                           const unsigned int* __restrict__ cells, const T* __restrict__ r,
                                           double* __restrict__ sums) {
    const Body body(bodies, starts, cells);
    const double sum = body.sum(cells, r);
    if (body.number < bodies && body.lane == 0) sums[body.number] = sum;
}

// u += factor sum, in the cells of each aggregate, with sums over all subdomains. Block 256.
KERNEL(correct_by_sums, __launch_bounds__(256))(int bodies, const unsigned int* __restrict__ starts,
                                                const unsigned int* __restrict__ cells, const double* __restrict__ factors,
                                                const double* __restrict__ sums, T* __restrict__ u) {
    const Body body(bodies, starts, cells);
    T before[Body::ROUNDS];
    body.load(u, before);
    body.add(cells, body.number < bodies ? T(factors[body.number] * sums[body.number]) : T(0), before, u);
}
