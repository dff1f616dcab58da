// Sweeps of a grid in double precision, all but the last in single precision. In each half plane of u, the first half of the memory holds u
// rounded, and the second half, until the last sweep, the rounded right-hand side (stored by `project_rhs` of modes.cu).
// Launch as in stream.cuh; SINGLE states which of the two precisions this is.
#if SINGLE
#define ROOM 2
#else
#define OTHER_REAL float
#endif
#define ODD 0 // nothing is interpolated
#include "tensor_product/stream.cuh"

#if SINGLE

// u_c = M^-1 (f_c - offdiag u_other), in place. Traffic, in single precision: f/2, u/2 read; u/2 written.
KERNEL(line_sweep, __launch_bounds__(LX* W, MIN_BLOCKS))(Operator op, int colour, T* u) {
    await_previous();
    stream<0>(op, colour, u + (long long)op.pitch * op.nz, u, u, nullptr, Coarse<TC>{}, nullptr);
}

#else

// u_c = M^-1 (f_c - offdiag u_other) with u_other in single and u_c in double precision. Traffic: f/2, u/4 read; u/2 written.
KERNEL(line_sweep_rounded, __launch_bounds__(LX* W, MIN_BLOCKS))(Operator op, int colour, In f, T* u) {
    await_previous();
    stream<0>(op, colour, f, u, u, nullptr, Coarse<TC>{}, nullptr);
}

#endif
