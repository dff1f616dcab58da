// Corrections of strongly coupled aggregates of cells (bodies) by constants.
//
// Blocks of 128 threads, of which `width`, 32 or 128, share an aggregate. Code is short: on small levels fetching instructions for the first
// time takes longer than the work.
#include "layout.cuh"

constexpr int THREADS = 128;
// Cells that a thread loads at a time.
constexpr int AT_ONCE = 4;

// An aggregate: its number, its cells, and a thread's place among those that share it. Setup made the lists, so that a kernel may load them
// before it waits for the previous kernel.
struct Body {
    int number, lane, width;
    unsigned int begin, end;

    __device__ __forceinline__ Body(int bodies, int width, const unsigned int* __restrict__ starts)
        : number(blockIdx.x * (THREADS / width) + threadIdx.x / width), lane(threadIdx.x % width), width(width) {
        begin = number < bodies ? starts[number] : 0;
        end = number < bodies ? starts[number + 1] : 0;
    }
    // Calls f(cells) for AT_ONCE of the thread's cells at a time, those that are missing replaced by the thread's first.
    template <class F> __device__ __forceinline__ void for_each(const unsigned int* __restrict__ cells, F f) const {
#pragma unroll 1
        for (unsigned int at = begin + lane; at < end; at += AT_ONCE * width) {
            unsigned int some[AT_ONCE];
#pragma unroll
            for (int n = 0; n < AT_ONCE; n++) some[n] = cells[at + n * width < end ? at + n * width : at];
            f(some, at);
        }
    }
    // The sum of r over its cells, in all its threads.
    __device__ __forceinline__ double sum(const unsigned int* __restrict__ cells, In r) const {
        __shared__ double of_warps[THREADS / 32];
        double sum = 0;
        for_each(cells, [&](const unsigned int (&some)[AT_ONCE], unsigned int at) {
            T value[AT_ONCE];
#pragma unroll
            for (int n = 0; n < AT_ONCE; n++) value[n] = r[some[n]];
#pragma unroll
            for (int n = 0; n < AT_ONCE; n++) sum += at + n * width < end ? double(value[n]) : 0;
        });
        for (int other = 16; other > 0; other >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, other);
        if (width == 32) return sum;
        if (!(threadIdx.x & 31)) of_warps[threadIdx.x / 32] = sum;
        __syncthreads();
        return of_warps[0] + of_warps[1] + of_warps[2] + of_warps[3];
    }
    // u += correction in its cells.
    __device__ __forceinline__ void add(const unsigned int* __restrict__ cells, T correction, Out u) const {
        for_each(cells, [&](const unsigned int (&some)[AT_ONCE], unsigned int at) {
            T before[AT_ONCE];
#pragma unroll
            for (int n = 0; n < AT_ONCE; n++) before[n] = u[some[n]];
#pragma unroll
            for (int n = 0; n < AT_ONCE; n++)
                if (at + n * width < end) u[some[n]] = before[n] + correction;
        });
    }
};

// u += factor sum r, in the cells of each aggregate.
KERNEL(correct_bodies, __launch_bounds__(THREADS))(int bodies, int width, const unsigned int* __restrict__ starts,
                                                   const unsigned int* __restrict__ cells, const double* __restrict__ factors,
                                                   In r, Out u) {
    const Body body(bodies, width, starts);
    const double factor = body.number < bodies ? factors[body.number] : 0;
    await_previous();
    body.add(cells, T(factor * body.sum(cells, r)), u);
}

// sums = sum r over this subdomain's cells of each aggregate.
KERNEL(sum_bodies, __launch_bounds__(THREADS))(int bodies, int width, const unsigned int* __restrict__ starts,
                                               const unsigned int* __restrict__ cells, In r, double* __restrict__ sums) {
    const Body body(bodies, width, starts);
    await_previous();
    const double sum = body.sum(cells, r);
    if (body.number < bodies && body.lane == 0) sums[body.number] = sum;
}

// u += factor sum, in the cells of each aggregate, with sums over all subdomains.
KERNEL(correct_by_sums, __launch_bounds__(THREADS))(int bodies, int width, const unsigned int* __restrict__ starts,
                                                    const unsigned int* __restrict__ cells, const double* __restrict__ factors,
                                                    const double* __restrict__ sums, Out u) {
    const Body body(bodies, width, starts);
    await_previous();
    body.add(cells, body.number < bodies ? T(factors[body.number] * sums[body.number]) : T(0), u);
}
