// The finest level of mixed-precision cycles: a red-black sweep in double precision that applies the correction on the
// fly, and the next sweep from zero in single precision, for the next correction.
//
// After a red-black sweep the black residuals are zero, and the red ones are couplings of the change w of the black half sweep:
// r_red = -offdiag w. So only w is converted between precisions, and neither the
// residual nor the right-hand side of the sweep in single precision is stored.
// Launch as in stream.cuh. SINGLE states which of the two precisions this is.
#define CORRECTION_REAL float
#include "reduce.cuh"
#include "tensor_product/stream.cuh"

#if !SINGLE

// u_c = M^-1 (f_c - offdiag (u + e)_other): a correction applied on the fly. u_other is old afterwards and must be
// overwritten by the sweep of the other colour. Traffic: f/2, u/2, e/4 read; u/2 written.
KERNEL(correct_sweep, __launch_bounds__(LX* W, MIN_BLOCKS))(Operator op, int colour, In f, T* u, const TC* __restrict__ e) {
    await_previous();
    stream<CORRECT>(op, colour, f, u, u, e, Coarse<TC>{}, nullptr);
}

// u_red = M^-1 (f_red - offdiag (u + e + P e_coarse)_black). The correction of u_black is
// stored as w_black and not added to u: sweep_black_change must follow, which adds it.
// Traffic: f/2, u/2, e/4, e_coarse read; u/2, w/4 written.
KERNEL(correct_sweep_red, __launch_bounds__(LX* W, MIN_BLOCKS))(Operator op, In f, T* u, const TC* __restrict__ e,
                                                                Coarse<TC> coarse, TC* __restrict__ w) {
    await_previous();
    stream<PROLONG | CORRECT | KEEP>(op, 0, f, u, u, e, coarse, w);
}

// v = M^-1 (f_black - offdiag u_red);  w_black = v - (u_black + w_black);  u_black = v.
// Traffic: f/2, u, w/4 read; u/2, w/4 written.
KERNEL(sweep_black_change, __launch_bounds__(LX* W, MIN_BLOCKS))(Operator op, In f, T* u, TC* w) {
    await_previous();
    stream<CHANGE>(op, 1, f, u, u, nullptr, Coarse<TC>{}, w);
}

#else

// r_red = -offdiag w_black;  e_red = M^-1 r_red;  result = |r_red|^2.
// Traffic: w/2 read; e/2 written.
KERNEL(sweep_red_from_change, __launch_bounds__(LX* W, MIN_BLOCKS))(Operator op, const T* w, T* e, Reduction to) {
    await_previous();
    double square[1] = {stream<NO_RHS | NORM>(op, 0, nullptr, w, e, nullptr, Coarse<TC>{}, nullptr)};
    grid_sum(square, to);
}

// e_black = -M^-1 offdiag e_red. Traffic: e/2 read; e/2 written.
KERNEL(sweep_black_homogeneous, __launch_bounds__(LX* W, MIN_BLOCKS))(Operator op, T* e) {
    await_previous();
    stream<NO_RHS>(op, 1, nullptr, e, e, nullptr, Coarse<TC>{}, nullptr);
}

#endif
