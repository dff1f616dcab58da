// Between a grid and the Galerkin one below it: P = P_x P_y P_z in as many of these directions as are halved, R = P^T.
//
// In a halved direction an even cell 2I is coarse cell I, and an odd cell 2I + 1 takes below u_I + above u_(I + 1), with
// weights of its own. Weights in y live on rows that are halved in x already, those in z on such halved in x and y. All are in
// the order of (i, k, j), i fastest.
//
// Block: 256 threads (m, k); grid: as many as it takes, z: (j, colour) of the grid that is written.
#include "layout.cuh"

struct Interpolation {
    // By direction; null where that is not halved.
    const T* below[3];
    const T* above[3];
    // Cells, then the distance of rows.
    int fine[4];
    int coarse[4];
    // Odd cells, of halved directions.
    int odd[3];
    // Bits of directions in which the last odd cell lies below the first coarse one.
    int ring;
};

__device__ __forceinline__ long long place(const int (&grid)[4], int i, int j, int k) {
    return (i >> 1) + (long long)grid[3] * (k + (long long)grid[2] * (((i + j) & 1) + 2LL * j));
}

// The cell of this thread on a grid.
__device__ __forceinline__ bool own_cell(const int (&grid)[4], int& i, int& j, int& k) {
    int m = blockIdx.x * blockDim.x + threadIdx.x;
    k = blockIdx.y * blockDim.y + threadIdx.y;
    j = blockIdx.z >> 1;
    i = 2 * m + ((j + blockIdx.z) & 1);
    return i < grid[0] && k < grid[2];
}

// Where the weights of odd cell number n of direction d are, in the line (i, j, k), two of which count.
template <int D>
__device__ __forceinline__ long long weight_place(const Interpolation& p, int n, int i, int j, int k) {
    const int nx = D == 0 ? p.odd[0] : p.below[0] ? p.coarse[0] : p.fine[0];
    const int nz = D == 2 ? p.odd[2] : p.fine[2];
    const int x = D == 0 ? n : i, y = D == 1 ? n : j, z = D == 2 ? n : k;
    return x + (long long)nx * (z + (long long)nz * y);
}

// Calls f(coarse number, weight) for what cell n of direction d takes its value from.
template <int D, class F>
__device__ __forceinline__ void for_each_parent(const Interpolation& p, int i, int j, int k, F f) {
    const int n = D == 0 ? i : D == 1 ? j : k;
    if (!p.below[D]) return f(n, T(1));
    if (!(n & 1)) return f(n >> 1, T(1));
    const long long at = weight_place<D>(p, n >> 1, i, j, k);
    f(n >> 1, p.below[D][at]);
    const int next = (n >> 1) + 1;
    f(next < p.coarse[D] ? next : 0, p.above[D][at]);
}

// Calls f(fine number, weight) for what gives to coarse cell n of direction d.
template <int D, class F>
__device__ __forceinline__ void for_each_child(const Interpolation& p, int i, int j, int k, F f) {
    const int n = D == 0 ? i : D == 1 ? j : k;
    if (!p.below[D]) return f(n, T(1));
    f(2 * n, T(1));
    if (n < p.odd[D]) f(2 * n + 1, p.below[D][weight_place<D>(p, n, i, j, k)]);
    const int before = n > 0 ? n - 1 : p.ring >> D & 1 ? p.odd[D] - 1 : -1;
    if (before >= 0) f(2 * before + 1, p.above[D][weight_place<D>(p, before, i, j, k)]);
}

// u += P u_c
extern "C" __global__ void __launch_bounds__(256)
    prolong(Interpolation p, const T* __restrict__ coarse, T* __restrict__ u) {
    int i, j, k;
    if (!own_cell(p.fine, i, j, k)) return;
    T sum = T(0);
    for_each_parent<0>(p, i, j, k, [&](int x, T wx) {
        for_each_parent<1>(p, x, j, k, [&](int y, T wy) {
            for_each_parent<2>(p, x, y, k, [&](int z, T wz) { sum += wx * (wy * (wz * coarse[place(p.coarse, x, y, z)])); });
        });
    });
    u[place(p.fine, i, j, k)] += sum;
}

// f_c = R f
extern "C" __global__ void __launch_bounds__(256)
    restrict_field(Interpolation p, const T* __restrict__ f, T* __restrict__ coarse_f) {
    int i, j, k;
    if (!own_cell(p.coarse, i, j, k)) return;
    T sum = T(0);
    for_each_child<2>(p, i, j, k, [&](int z, T wz) {
        T plane = T(0);
        for_each_child<1>(p, i, j, z, [&](int y, T wy) {
            T line = T(0);
            for_each_child<0>(p, i, y, z, [&](int x, T wx) { line += wx * f[place(p.fine, x, y, z)]; });
            plane += wy * line;
        });
        sum += wz * plane;
    });
    coarse_f[place(p.coarse, i, j, k)] = sum;
}
