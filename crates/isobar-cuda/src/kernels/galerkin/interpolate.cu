// Transfers between a level and the next Galerkin level, see interpolation.cuh.
//
// Block: 256 threads (m, k); grid: as needed, z: (j, colour) of the level that is written, or j for one colour.
#include "galerkin/interpolation.cuh"

// This thread's cell of a grid, of both colours, or of colour 0 or 1.
__device__ __forceinline__ bool own_cell(const int (&grid)[4], int colour, int& i, int& j, int& k) {
    const int m = blockIdx.x * blockDim.x + threadIdx.x;
    k = blockIdx.y * blockDim.y + threadIdx.y;
    j = colour < 0 ? blockIdx.z >> 1 : blockIdx.z;
    i = 2 * m + ((j + (colour < 0 ? blockIdx.z & 1 : colour)) & 1);
    return i < grid[0] && k < grid[2];
}

// Calls f(coarse number, weight) for the coarse cells from which cell n of direction d is interpolated.
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

// u += P u_c, in cells of one colour, or of both if it is negative.
KERNEL(prolong, __launch_bounds__(256))(Interpolation p, int colour, In coarse, Out u) {
    await_previous();
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

// The next coarse number in a direction: beyond the last the first, whose weight is zero unless the direction is periodic.
template <int D> __device__ __forceinline__ int after(const Interpolation& p, int n) {
    return n + 1 < p.coarse[D] + (D == 1 ? p.after : 0) ? n + 1 : 0;
}

// Prolongs where all directions are coarsened: a thread has the four cells of one colour among eight, which share their parents. Block: 256
// threads (m, K); grid z: (J, colour), or J for one colour, with K and J as in 2K, 2K + 1.
KERNEL(prolong_halved, __launch_bounds__(256))(Interpolation p, int colour, In coarse, Out u) {
    await_previous();
    const int m = blockIdx.x * blockDim.x + threadIdx.x, K = blockIdx.y * blockDim.y + threadIdx.y;
    const int J = colour < 0 ? blockIdx.z >> 1 : blockIdx.z, c = colour < 0 ? blockIdx.z & 1 : colour;
    if (2 * m >= p.fine[0] || 2 * K >= p.fine[2]) return;
    // One of the two rows has the even cell 2m, the other the odd cell 2m + 1.
    const int even_row = 2 * J + c, odd_row = 2 * J + 1 - c;
    const bool has_even = even_row < p.fine[1], has_odd = odd_row < p.fine[1] && 2 * m + 1 < p.fine[0];
    const int layers = 2 * K + 1 < p.fine[2] ? 2 : 1, nz = p.fine[2];
    const int x[2] = {m, after<0>(p, m)}, y[2] = {J, after<1>(p, J)};
    // Columns of parents, interpolated in z.
    T column[2][2][2];
#pragma unroll
    for (int a = 0; a < 2; a++) {
#pragma unroll
        for (int b = 0; b < 2; b++) {
            if (a && b && c) continue;
            const T* const parents = coarse + place(p.coarse, x[a], y[b], 0);
            const T under = parents[p.coarse[3] * K];
            column[a][b][0] = column[a][b][1] = under;
            if (layers == 1) continue;
            const long long at = x[a] + (long long)p.coarse[0] * (K + (long long)p.odd[2] * y[b]);
            column[a][b][1] = p.below[2][at] * under + p.above[2][at] * parents[p.coarse[3] * after<2>(p, K)];
        }
    }
#pragma unroll
    for (int layer = 0; layer < 2; layer++) {
        if (layer == layers) return;
        const int k = 2 * K + layer;
        // Interpolated in y, if the row is odd.
        const long long line = (long long)p.coarse[0] * (k + (long long)nz * J);
        auto in_row = [&](int a, bool is_odd) {
            if (!is_odd) return column[a][0][layer];
            return p.below[1][line + x[a]] * column[a][0][layer] + p.above[1][line + x[a]] * column[a][1][layer];
        };
        if (has_even) u[place(p.fine, 2 * m, even_row, k)] += in_row(0, c);
        if (has_odd) {
            const long long at = m + (long long)p.odd[0] * (k + (long long)nz * odd_row);
            u[place(p.fine, 2 * m + 1, odd_row, k)] += p.below[0][at] * in_row(0, !c) + p.above[0][at] * in_row(1, !c);
        }
    }
}

// The contributions of children in x for one row of fine cells; of a fine field that is zero except in columns with (x + y) mod 2 = COLOUR,
// or of any field if COLOUR is negative.
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
__device__ __forceinline__ T plane(const Interpolation& p, In f, const Children<0>& in_x, const Children<1>& in_y, int i, int j, int z) {
    T sum = Row<COLOUR, ITSELF>{p, f, in_x, i}(in_y.cell[ITSELF], z);
    sum += child_weight<1, OVER>(p, in_y, i, j, z) * Row<COLOUR, OVER>{p, f, in_x, i}(in_y.cell[OVER], z);
    return sum + child_weight<1, UNDER>(p, in_y, i, j, z) * Row<COLOUR, UNDER>{p, f, in_x, i}(in_y.cell[UNDER], z);
}

// f_c = R f, if all three directions are coarsened.
template <int COLOUR>
__device__ __forceinline__ void restrict_all(const Interpolation& p, In f, Out coarse_f) {
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

KERNEL(restrict_halved, __launch_bounds__(256))(Interpolation p, In f, Out coarse_f) {
    await_previous();
    restrict_all<-1>(p, f, coarse_f);
}

// f_c = R f, if f is zero in odd columns.
KERNEL(restrict_even, __launch_bounds__(256))(Interpolation p, In f, Out coarse_f) {
    await_previous();
    restrict_all<0>(p, f, coarse_f);
}

// f_c = R f, if f is zero in even columns.
KERNEL(restrict_odd, __launch_bounds__(256))(Interpolation p, In f, Out coarse_f) {
    await_previous();
    restrict_all<1>(p, f, coarse_f);
}

// Calls f(fine number, weight) for the fine cells that contribute to coarse cell n of direction d.
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
KERNEL(restrict_field, __launch_bounds__(256))(Interpolation p, In f, Out coarse_f) {
    await_previous();
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
