// Corrections of the constants of strongly coupled bodies of cells.
#include "layout.cuh"

// u += factor sum r, in the cells of each body: eight threads a body. Block 256.
extern "C" __global__ void __launch_bounds__(256)
    correct_bodies(int bodies, const unsigned int* __restrict__ starts, const unsigned int* __restrict__ cells,
                   const double* __restrict__ factors, const T* __restrict__ r, T* __restrict__ u) {
    const int body = (blockIdx.x * 256 + threadIdx.x) >> 3, lane = threadIdx.x & 7;
    const bool is_one = body < bodies;
    const unsigned int begin = is_one ? starts[body] : 0, end = is_one ? starts[body + 1] : 0;
    double sum = 0;
    for (unsigned int n = begin + lane; n < end; n += 8) sum += double(r[cells[n]]);
    for (int other = 4; other > 0; other >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, other);
    const T correction = is_one ? T(factors[body] * sum) : T(0);
    for (unsigned int n = begin + lane; n < end; n += 8) u[cells[n]] += correction;
}
