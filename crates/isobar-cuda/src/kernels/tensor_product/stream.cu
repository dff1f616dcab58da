// Red-black half sweeps that stream along y, fastest on large grids. See stream.cuh.
#include "tensor_product/stream.cuh"

// The steps of smooth.cu with the same recurrences.
KERNEL(line_sweep, __launch_bounds__(LX* W, MIN_BLOCKS))(Operator op, int colour, In f, T* u) {
    await_previous();
    stream<0>(op, colour, f, u, u, nullptr, Coarse<TC>{}, nullptr);
}

KERNEL(prolong_smooth, __launch_bounds__(LX* W, MIN_BLOCKS))(Operator op, int colour, In f, T* u, Coarse<TC> coarse) {
    await_previous();
    stream<PROLONG>(op, colour, f, u, u, nullptr, coarse, nullptr);
}
