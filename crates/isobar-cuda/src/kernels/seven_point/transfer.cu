// Between two grids, with weights that are fields. In a direction that is halved, a fine cell i takes its correction
// from coarse cell I = i div 2 with weight 1 - w and from I - 1 (even i) or I + 1 (odd i) with weight w, one w a fine cell and
// direction; otherwise from the same i. Restriction is the transpose, gathered.
//
// Block: 256 threads (m, k); grid: as many as it takes, z: (j, colour) of the grid that is written.
#include "layout.cuh"

// The fine and the coarse grid; weights, where there are any; bits of the periodic directions.
struct Transfer {
    const T* weight[2];
    int nx, ny, pitch, nz;
    int coarse_nx, coarse_ny, coarse_pitch, periodic;
};

__device__ __forceinline__ long long index(int pitch, int nz, int i, int j, int k) {
    return (i >> 1) + (long long)pitch * (k + (long long)nz * (((i + j) & 1) + 2LL * j));
}

// The cell of this thread on a grid of nx columns in a row.
__device__ __forceinline__ bool own_cell(int nx, int nz, int& i, int& j, int& k) {
    int m = blockIdx.x * blockDim.x + threadIdx.x;
    k = blockIdx.y * blockDim.y + threadIdx.y;
    j = blockIdx.z >> 1;
    i = 2 * m + ((j + blockIdx.z) & 1);
    return i < nx && k < nz;
}

// The second coarse cell in one direction; -1 where there is none.
__device__ __forceinline__ int far(int i, int coarse, bool periodic) {
    int there = (i >> 1) + (i & 1 ? 1 : -1);
    if (there >= 0 && there < coarse) return there;
    return periodic ? (there < 0 ? coarse - 1 : 0) : -1;
}

// u += P u_c
extern "C" __global__ void __launch_bounds__(256)
    prolong(Transfer grids, const T* __restrict__ coarse, T* __restrict__ u) {
    int i, j, k;
    if (!own_cell(grids.nx, grids.nz, i, j, k)) return;
    const bool halved[2] = {grids.weight[0] != nullptr, grids.weight[1] != nullptr};
    const long long at = index(grids.pitch, grids.nz, i, j, k);
    auto value = [&](int ci, int cj) {
        return ci < 0 || cj < 0 ? T(0) : coarse[index(grids.coarse_pitch, grids.nz, ci, cj, k)];
    };
    const int own_i = halved[0] ? i >> 1 : i, own_j = halved[1] ? j >> 1 : j;
    const int far_i = halved[0] ? far(i, grids.coarse_nx, grids.periodic & 1) : -1;
    const int far_j = halved[1] ? far(j, grids.coarse_ny, grids.periodic & 2) : -1;
    const T wx = halved[0] ? grids.weight[0][at] : T(0), wy = halved[1] ? grids.weight[1][at] : T(0);
    T near = (T(1) - wx) * value(own_i, own_j) + wx * value(far_i, own_j);
    T beyond = (T(1) - wx) * value(own_i, far_j) + wx * value(far_i, far_j);
    u[at] += (T(1) - wy) * near + wy * beyond;
}

// Fine cells that a coarse one may give to, in one direction, a halved one: 2I - 1, 2I, 2I + 1, 2I + 2; -1 where there is none.
__device__ __forceinline__ int candidate(int n, int own, int fine, bool periodic) {
    int i = 2 * own - 1 + n;
    if (i >= 0 && i < fine) return i;
    // 2I + 1 is missing where the last coarse cell is one fine cell wide, which no periodic direction has.
    return periodic ? (i < 0 ? fine - 1 : 0) : -1;
}

// What a coarse cell gathers; loads do not wait for tests.
template <bool HALVED_X, bool HALVED_Y>
__device__ __forceinline__ T gather(const Transfer& grids, const T* __restrict__ f, int ci, int cj, int k) {
    T sum = T(0);
#pragma unroll
    for (int b = 0; b < (HALVED_Y ? 4 : 1); b++) {
        const int j = HALVED_Y ? candidate(b, cj, grids.ny, grids.periodic & 2) : cj;
#pragma unroll
        for (int a = 0; a < (HALVED_X ? 4 : 1); a++) {
            const int i = HALVED_X ? candidate(a, ci, grids.nx, grids.periodic & 1) : ci;
            const long long at = index(grids.pitch, grids.nz, max(i, 0), max(j, 0), k);
            T weight = T(1);
            if (HALVED_X) weight = a == 1 || a == 2 ? T(1) - grids.weight[0][at] : grids.weight[0][at];
            if (HALVED_Y) weight *= b == 1 || b == 2 ? T(1) - grids.weight[1][at] : grids.weight[1][at];
            sum = fma(i < 0 || j < 0 ? T(0) : weight, f[at], sum);
        }
    }
    return sum;
}

// f_c = R f
extern "C" __global__ void __launch_bounds__(256)
    restrict_field(Transfer grids, const T* __restrict__ f, T* __restrict__ coarse) {
    int ci, cj, k;
    if (!own_cell(grids.coarse_nx, grids.nz, ci, cj, k)) return;
    const bool x = grids.weight[0] != nullptr, y = grids.weight[1] != nullptr;
    coarse[index(grids.coarse_pitch, grids.nz, ci, cj, k)] = x && y ? gather<true, true>(grids, f, ci, cj, k)
                                                          : x    ? gather<true, false>(grids, f, ci, cj, k)
                                                          : y    ? gather<false, true>(grids, f, ci, cj, k)
                                                                 : gather<false, false>(grids, f, ci, cj, k);
}
