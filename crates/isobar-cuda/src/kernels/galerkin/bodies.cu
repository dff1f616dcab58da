// Corrections of strongly coupled aggregates of cells (bodies) by constants.
#include "layout.cuh"

// Eight threads per aggregate: its number, its cells, and the thread among the eight.
struct Body {
    int number, lane;
    unsigned int begin, end;

    __device__ __forceinline__ Body(int bodies, const unsigned int* __restrict__ starts) {
        number = (blockIdx.x * 256 + threadIdx.x) >> 3;
        lane = threadIdx.x & 7;
        begin = number < bodies ? starts[number] : 0;
        end = number < bodies ? starts[number + 1] : 0;
    }
    // The sum of r over its cells, in all eight threads.
    __device__ __forceinline__ double sum(const unsigned int* __restrict__ cells, const T* __restrict__ r) const {
        double sum = 0;
        for (unsigned int n = begin + lane; n < end; n += 8) sum += double(r[cells[n]]);
        for (int other = 4; other > 0; other >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, other);
        return sum;
    }
    __device__ __forceinline__ void add(const unsigned int* __restrict__ cells, T correction, T* __restrict__ u) const {
        for (unsigned int n = begin + lane; n < end; n += 8) u[cells[n]] += correction;
    }
};

// u += factor sum r, in the cells of each aggregate. Block 256.
KERNEL(correct_bodies, __launch_bounds__(256))(int bodies, const unsigned int* __restrict__ starts,
                                               const unsigned int* __restrict__ cells, const double* __restrict__ factors,
                                               const T* __restrict__ r, T* __restrict__ u) {
    const Body body(bodies, starts);
    const double sum = body.sum(cells, r);
    body.add(cells, body.number < bodies ? T(factors[body.number] * sum) : T(0), u);
}

// sums = sum r over this subdomain's cells of each aggregate. Block 256.
KERNEL(sum_bodies, __launch_bounds__(256))(int bodies, const unsigned int* __restrict__ starts,
                                           const unsigned int* __restrict__ cells, const T* __restrict__ r,
                                           double* __restrict__ sums) {
    const Body body(bodies, starts);
    const double sum = body.sum(cells, r);
    if (body.number < bodies && body.lane == 0) sums[body.number] = sum;
}

// u += factor sum, in the cells of each aggregate, with sums over all subdomains. Block 256.
KERNEL(correct_by_sums, __launch_bounds__(256))(int bodies, const unsigned int* __restrict__ starts,
                                                const unsigned int* __restrict__ cells, const double* __restrict__ factors,
                                                const double* __restrict__ sums, T* __restrict__ u) {
    const Body body(bodies, starts);
    body.add(cells, body.number < bodies ? T(factors[body.number] * sums[body.number]) : T(0), u);
}
