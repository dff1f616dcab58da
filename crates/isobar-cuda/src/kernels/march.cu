// Red-black half sweeps that march along y: the fast ones on large grids. See march.cuh.
#include "march.cuh"

// The same steps as in smooth.cu, by the same recurrences.
extern "C" __global__ void __launch_bounds__(LX* W, MIN_BLOCKS)
    line_sweep_march(Operator op, int colour, const T* __restrict__ f, T* u) {
    march<0>(op, colour, f, u, u, nullptr, Coarse<TC>{}, nullptr);
}

extern "C" __global__ void __launch_bounds__(LX* W, MIN_BLOCKS)
    prolong_smooth_march(Operator op, int colour, const T* __restrict__ f, T* u, Coarse<TC> coarse) {
    march<PROLONG>(op, colour, f, u, u, nullptr, coarse, nullptr);
}

// u_c = M^-1 (f_c - offdiag (u + e)_other): a correction, perhaps in a lower precision, applied on the way. As after
// prolong_smooth_march, the sweep of the other colour must follow. Traffic: f/2, u/2, e/2 read; u/2 written.
extern "C" __global__ void __launch_bounds__(LX* W, MIN_BLOCKS)
    correct_smooth_march(Operator op, int colour, const T* __restrict__ f, T* u, const TC* __restrict__ e) {
    march<CORRECT>(op, colour, f, u, u, e, Coarse<TC>{}, nullptr);
}
