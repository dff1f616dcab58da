// Line smoothers, one tile of columns per block: LX columns, W chunks of K layers.
// Launch: grid (ceil(pitch / LX), ny, colours), block LX W, no dynamic shared memory.
#include "tensor_product/line_relax.cuh"

#ifndef MIN_BLOCKS
#define MIN_BLOCKS 1
#endif

template <Guess GUESS, bool RELAX>
__device__ __forceinline__ void sweep(const Operator& op, int colour, const T* f, const T* u, T* out, T rho,
                                      const Coarse<T>& coarse) {
    __shared__ LineScratch scratch;
    int lane = threadIdx.x % LX, chunk = threadIdx.x / LX;
    int m = blockIdx.x * LX + lane;
    line_relax<GUESS, RELAX>(op, colour + blockIdx.z, blockIdx.y, m, m < op.pitch, chunk, lane, scratch, f, u, out, rho,
                             coarse);
}

// u_c = M^-1 (f_c - offdiag u_other), in place. Traffic: f/2, u/2 read; u/2 written.
KERNEL(line_sweep, __launch_bounds__(LX* W, MIN_BLOCKS))(Operator op, int colour, const T* f, T* u) {
    await_previous();
    sweep<FROM_FIELD, false>(op, colour, f, u, u, T(1), Coarse<T>{});
}

// u_c = M^-1 f_c: the first half sweep from u = 0, and the block Jacobi preconditioner with two
// colours in grid z. Traffic per colour: f/2 read; u/2 written.
KERNEL(line_sweep_zero, __launch_bounds__(LX* W, MIN_BLOCKS))(Operator op, int colour, const T* f, T* u) {
    await_previous();
    sweep<FROM_ZERO, false>(op, colour, f, u, u, T(1), Coarse<T>{});
}

// out = (1 - rho) u + rho M^-1 (f - offdiag u) = u + rho M^-1 (f - A u): line Jacobi with two colours in
// grid z and out distinct from u, relaxed Gauss-Seidel with one colour and out = u.
KERNEL(line_relax_to, __launch_bounds__(LX* W, MIN_BLOCKS))(Operator op, int colour, const T* f, const T* u, T* out, T rho) {
    await_previous();
    sweep<FROM_FIELD, true>(op, colour, f, u, out, rho, Coarse<T>{});
}

// u_c = M^-1 (f_c - offdiag (u + P e)_other). u_other is old afterwards and must be
// overwritten by the sweep of the other colour. Traffic: f/2, u/2, e/4 read; u/2 written.
KERNEL(prolong_smooth, __launch_bounds__(LX* W, MIN_BLOCKS))(Operator op, int colour, const T* f, T* u, Coarse<T> coarse) {
    await_previous();
    sweep<FROM_PROLONGED, false>(op, colour, f, u, u, T(1), coarse);
}
