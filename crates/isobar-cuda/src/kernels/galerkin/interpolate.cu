// Between a grid and the Galerkin one below it: P = P_x P_y P_z in as many of these directions as are halved, R = P^T.
//
// In a halved direction an even cell 2I is coarse cell I, and an odd cell 2I + 1 takes below u_I + above u_(I + 1), with
// weights of its own. Weights in y live on rows that are halved in x already, those in z on such halved in x and y. All are in
// the order of (i, k, j), i fastest.
//
// Of parts of two grids j counts from their first rows, which are even where y is halved, and may be that of a halo row: row -1 of the
// finer one gives to the first of the coarser one, and takes nothing; the row after the last of the coarser one gives alone.
//
// Block: 256 threads (m, k); grid: as many as it takes, z: (j, colour) of the grid that is written, or j where one colour is.
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
    // Halo rows of the finer grid before its first row, and of the coarser one after its last.
    int before, after;
};

__device__ __forceinline__ long long place(const int (&grid)[4], int i, int j, int k) {
    return (i >> 1) + (long long)grid[3] * (k + (long long)grid[2] * (((i + j) & 1) + 2LL * j));
}

// The cell of this thread on a grid, one of either colour or, where that is 0 or 1, of one.
__device__ __forceinline__ bool own_cell(const int (&grid)[4], int colour, int& i, int& j, int& k) {
    const int m = blockIdx.x * blockDim.x + threadIdx.x;
    k = blockIdx.y * blockDim.y + threadIdx.y;
    j = colour < 0 ? blockIdx.z >> 1 : blockIdx.z;
    i = 2 * m + ((j + (colour < 0 ? blockIdx.z & 1 : colour)) & 1);
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
    f(next < p.coarse[D] + (D == 1 ? p.after : 0) ? next : 0, p.above[D][at]);
}

// u += P u_c, in cells of one colour or, where that is negative, of both.
extern "C" __global__ void __launch_bounds__(256)
    prolong(Interpolation p, int colour, const T* __restrict__ coarse, T* __restrict__ u) {
    int i, j, k;
    if (!own_cell(p.fine, colour, i, j, k)) return;
    T sum = T(0);
    for_each_parent<0>(p, i, j, k, [&](int x, T wx) {
        for_each_parent<1>(p, x, j, k, [&](int y, T wy) {
            for_each_parent<2>(p, x, y, k, [&](int z, T wz) { sum += wx * (wy * (wz * coarse[place(p.coarse, x, y, z)])); });
        });
    });
    u[place(p.fine, i, j, k)] += sum;
}

// What gives to a coarse cell in a direction: the even cell itself, the odd one above it, the odd one below it.
enum { ITSELF = 0, OVER = 1, UNDER = 2 };

// Fine cells of a coarse one in direction D: their number, the odd cell's number, and whether there is one. Where there is
// none, numbers are those of something that may be read in vain.
template <int D> struct Children {
    int cell[3], odd[3];
    bool exists[3];

    __device__ __forceinline__ Children(const Interpolation& p, int n) {
        const bool halved = p.below[D] != nullptr;
        cell[ITSELF] = halved ? 2 * n : n;
        exists[ITSELF] = true;
        odd[ITSELF] = 0;
        const bool is_before = n > 0 || (D == 1 && p.before), is_around = p.ring >> D & 1;
        const int before = is_before ? n - 1 : p.odd[D] - 1;
        exists[OVER] = halved && n < p.odd[D];
        exists[UNDER] = halved && (is_before || is_around);
        odd[OVER] = exists[OVER] ? n : 0;
        odd[UNDER] = exists[UNDER] ? before : 0;
        cell[OVER] = exists[OVER] ? 2 * n + 1 : cell[ITSELF];
        cell[UNDER] = exists[UNDER] ? 2 * before + 1 : cell[ITSELF];
    }
};

// The weight of a child, in the line (i, j, k), two of which count; 0 where there is no child.
template <int D, int CHILD>
__device__ __forceinline__ T child_weight(const Interpolation& p, const Children<D>& children, int i, int j, int k) {
    if (CHILD == ITSELF) return T(1);
    const T* const weights = CHILD == OVER ? p.below[D] : p.above[D];
    const T weight = weights[weight_place<D>(p, children.odd[CHILD], i, j, k)];
    return children.exists[CHILD] ? weight : T(0);
}

// What children in x give, for one row of fine cells; of a fine field that is zero but in columns with (x + y) mod 2 = COLOUR,
// or that is not, where that is negative.
template <int COLOUR, int Y> struct Row {
    const Interpolation& p;
    const T* f;
    const Children<0>& in_x;
    int i;

    template <int X> __device__ __forceinline__ T child(int y, int z) const {
        constexpr bool counts = COLOUR < 0 || ((X != ITSELF) + (Y != ITSELF)) % 2 == COLOUR;
        if (!counts) return T(0);
        return child_weight<0, X>(p, in_x, i, y, z) * f[place(p.fine, in_x.cell[X], y, z)];
    }
    __device__ __forceinline__ T operator()(int y, int z) const {
        return child<ITSELF>(y, z) + child<OVER>(y, z) + child<UNDER>(y, z);
    }
};

template <int COLOUR>
__device__ __forceinline__ T plane(const Interpolation& p, const T* __restrict__ f, const Children<0>& in_x,
                                   const Children<1>& in_y, int i, int j, int z) {
    T sum = Row<COLOUR, ITSELF>{p, f, in_x, i}(in_y.cell[ITSELF], z);
    sum += child_weight<1, OVER>(p, in_y, i, j, z) * Row<COLOUR, OVER>{p, f, in_x, i}(in_y.cell[OVER], z);
    return sum + child_weight<1, UNDER>(p, in_y, i, j, z) * Row<COLOUR, UNDER>{p, f, in_x, i}(in_y.cell[UNDER], z);
}

// f_c = R f, where all three directions are halved.
template <int COLOUR>
__device__ __forceinline__ void restrict_all(const Interpolation& p, const T* __restrict__ f, T* __restrict__ coarse_f) {
    int i, j, k;
    if (!own_cell(p.coarse, -1, i, j, k)) return;
    const Children<0> in_x(p, i);
    const Children<1> in_y(p, j);
    const Children<2> in_z(p, k);
    T sum = plane<COLOUR>(p, f, in_x, in_y, i, j, in_z.cell[ITSELF]);
    sum += child_weight<2, OVER>(p, in_z, i, j, k) * plane<COLOUR>(p, f, in_x, in_y, i, j, in_z.cell[OVER]);
    sum += child_weight<2, UNDER>(p, in_z, i, j, k) * plane<COLOUR>(p, f, in_x, in_y, i, j, in_z.cell[UNDER]);
    coarse_f[place(p.coarse, i, j, k)] = sum;
}

extern "C" __global__ void __launch_bounds__(256)
    restrict_halved(Interpolation p, const T* __restrict__ f, T* __restrict__ coarse_f) {
    restrict_all<-1>(p, f, coarse_f);
}

// The same where f is zero in odd columns.
extern "C" __global__ void __launch_bounds__(256)
    restrict_even(Interpolation p, const T* __restrict__ f, T* __restrict__ coarse_f) {
    restrict_all<0>(p, f, coarse_f);
}

// The same where f is zero in even columns.
extern "C" __global__ void __launch_bounds__(256)
    restrict_odd(Interpolation p, const T* __restrict__ f, T* __restrict__ coarse_f) {
    restrict_all<1>(p, f, coarse_f);
}

// Calls f(fine number, weight) for what gives to coarse cell n of direction d.
template <int D, class F>
__device__ __forceinline__ void for_each_child(const Interpolation& p, int i, int j, int k, F f) {
    const int n = D == 0 ? i : D == 1 ? j : k;
    const Children<D> children(p, n);
    f(children.cell[ITSELF], T(1));
    if (!p.below[D]) return;
    f(children.cell[OVER], child_weight<D, OVER>(p, children, i, j, k));
    f(children.cell[UNDER], child_weight<D, UNDER>(p, children, i, j, k));
}

// f_c = R f
extern "C" __global__ void __launch_bounds__(256)
    restrict_field(Interpolation p, const T* __restrict__ f, T* __restrict__ coarse_f) {
    int i, j, k;
    if (!own_cell(p.coarse, -1, i, j, k)) return;
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
