// Sweeps of a grid in double precision of which all but the last are in single. In each half plane's place in u lies u rounded, and
// after it, until the last sweep, the right-hand side rounded (`project_rhs` of modes.cu stores it).
// Launch as stream.cuh says; SINGLE says which of them this is.
#if SINGLE
#define ROOM 2
#else
#define OTHER_REAL float
#endif
#define ODD 0 // nothing is interpolated
#include "tensor_product/stream.cuh"

#if SINGLE

// u_c = M^-1 (f_c - offdiag u_other), in place. Traffic, in single precision: f/2, u/2 read; u/2 written.
extern "C" __global__ void __launch_bounds__(LX* W, MIN_BLOCKS) line_sweep(Operator op, int colour, T* u) {
    stream<0>(op, colour, u + (long long)op.pitch * op.nz, u, u, nullptr, Coarse<TC>{}, nullptr);
}

#else

// The same of a u whose other colour is in single precision; this one is in double afterwards. Traffic: f/2, u/4 read; u/2 written.
extern "C" __global__ void __launch_bounds__(LX* W, MIN_BLOCKS)
    line_sweep_rounded(Operator op, int colour, const T* __restrict__ f, T* u) {
    stream<0>(op, colour, f, u, u, nullptr, Coarse<TC>{}, nullptr);
}

#endif
