// Red-black half sweeps that stream along y, fastest on large grids. See stream.cuh.
#include "tensor_product/stream.cuh"

// The steps of smooth.cu with the same recurrences.
extern "C" __global__ void __launch_bounds__(LX* W, MIN_BLOCKS)
    line_sweep(Operator op, int colour, const T* __restrict__ f, T* u) {
    stream<0>(op, colour, f, u, u, nullptr, Coarse<TC>{}, nullptr);
}

extern "C" __global__ void __launch_bounds__(LX* W, MIN_BLOCKS)
    prolong_smooth(Operator op, int colour, const T* __restrict__ f, T* u, Coarse<TC> coarse) {
    stream<PROLONG>(op, colour, f, u, u, nullptr, coarse, nullptr);
}
