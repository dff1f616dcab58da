// What is looked at before a matrix is coarsened: which directions are strong, whether there can be strongly coupled bodies.
// Block 256; as many blocks as there is room for partial sums.
#include "galerkin/setup/setup.cuh"
#include "reduce.cuh"

// Of each direction: the sum of the couplings to the plane above, added up for each cell, where that is positive, and in how
// many cells it is.
extern "C" __global__ void __launch_bounds__(256)
    mean_couplings(Matrix a, double* partial, unsigned int* counter, double* result) {
    __shared__ double scratch[8 * 6];
    double total[6] = {0, 0, 0, 0, 0, 0};
    for (unsigned int n = blockIdx.x * 256 + threadIdx.x; n < a.cells; n += gridDim.x * 256) {
        double up[3] = {0, 0, 0};
        for_each_coupling(a, cell_at(a.nx, a.ny, n), [&](int dx, int dy, int dz, double c, const Cell&) {
            if (dx == 1) up[X] += c;
            if (dy == 1) up[Y] += c;
            if (dz == 1) up[Z] += c;
        });
        for (int d = 0; d < 3; d++) {
            if (up[d] > 0) {
                total[2 * d] += up[d];
                total[2 * d + 1] += 1;
            }
        }
    }
    grid_sum<6>(total, scratch, partial, counter, result);
}

// Of a matrix with three stored directions, zero before: result[0] becomes 1 where anywhere a coupling is much weaker than the next in
// its direction; then the largest coupling, and the largest of their inverses, infinite where cells side by side are not coupled.
extern "C" __global__ void __launch_bounds__(256) find_contrast(Matrix a, double* result) {
    const Number never = __longlong_as_double(0x7ff0000000000000LL);
    Number most = 0, least = never;
    bool found = false;
    for (unsigned int n = blockIdx.x * 256 + threadIdx.x; n < a.cells; n += gridDim.x * 256) {
        const Cell at = cell_at(a.nx, a.ny, n);
        Number lower[3] = {-1, -1, -1}, upper[3] = {-1, -1, -1};
        for_each_coupling(a, at, [&](int dx, int dy, int dz, Number c, const Cell&) {
            const int d = dx ? X : dy ? Y : Z;
            (dx + dy + dz > 0 ? upper : lower)[d] = c;
        });
        for (int d = 0; d < 3; d++) {
            if (upper[d] >= 0) {
                most = max(most, upper[d]);
                least = min(least, upper[d]);
            }
            // Beyond a closed side is no coupling to compare with.
            if (lower[d] < 0 || upper[d] < 0) continue;
            found = found || upper[d] < Number(CONTRAST) * lower[d] || lower[d] < Number(CONTRAST) * upper[d];
        }
    }
    if (found) *result = 1;
    keep_most(result + 1, most);
    keep_most(result + 2, least > 0 ? 1 / double(least) : double(never));
}
