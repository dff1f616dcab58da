// Red-black point relaxation, (i + j + k) & 1, and transfers to and from a level coarsened in some directions.
//
// In a layer, the cells of one colour are in one of the two half planes of a row, given by colour and layer, so lanes have
// contiguous memory. If all cells have equal coefficients, which is detected when they are copied, no coefficients are read.
//
// Block (32, 8): cells of a row, and layers; or, with one layer, rows. A thread processes `march` rows.
#include "reduce.cuh"
#include "seven_point/gather.cuh"

// Calls give(column, k, at) for the cells of one colour.
template <class F> __device__ __forceinline__ void for_each_of(const Stencil& op, int colour, int march, F give) {
    const int m = blockIdx.x * 32 + threadIdx.x;
    const int k = FLAT ? 0 : blockIdx.y * 8 + threadIdx.y, c = (colour + k) & 1;
    if (k >= LAYERS(op)) return;
    const int first = FLAT ? blockIdx.y * 8 * march + threadIdx.y : blockIdx.z * march, step = FLAT ? 8 : 1;
    for (int n = 0; n < march; n++) {
        const int j = first + n * step;
        if (j >= op.ny) return;
        if (2 * m + ((j + c) & 1) >= op.nx) continue;
        const Column column = neighbours(op, m, j, c);
        give(column, k, column.start + (Index)op.pitch * k);
    }
}

// The state of u before the sweep of a colour.
enum { GIVEN, ZERO, OWN_ZERO };

template <bool EVEN, int BEFORE>
__device__ __forceinline__ void sweep(const Stencil& op, const Even* even, int march, int colour, T rho, In f, T* u) {
    const Known known = EVEN ? know(op, even) : Known{};
    for_each_of(op, colour, march, [&](const Column& column, int k, Index at) {
        const T right = f[at];
        const T own = BEFORE == GIVEN ? u[at] : T(0);
        const Gathered cell = gather<EVEN, BEFORE != ZERO>(op, known, column, k, at, u);
        u[at] = fma(rho, (right + cell.sum - cell.diagonal * own) * inverse(cell.diagonal), own);
    });
}

// u += rho D^-1 (f - A u) in the cells of one colour.
KERNEL(sweep_cells, __launch_bounds__(256, 4))(Stencil op, const Even* even, int march, int colour, T rho, const T* f, T* u) {
    await_previous();
    if (even->is_even) sweep<true, GIVEN>(op, even, march, colour, rho, f, u);
    else sweep<false, GIVEN>(op, even, march, colour, rho, f, u);
}

// Sweep of one colour if all of u counts as zero, whatever it contains.
KERNEL(sweep_cells_zero, __launch_bounds__(256, 4))(Stencil op, const Even* even, int march, int colour, T rho, const T* f,
                                                    T* u) {
    await_previous();
    if (even->is_even) sweep<true, ZERO>(op, even, march, colour, rho, f, u);
    else sweep<false, ZERO>(op, even, march, colour, rho, f, u);
}

// Sweep of one colour if u counts as zero in the cells of this colour, whatever it contains there.
KERNEL(sweep_cells_own_zero, __launch_bounds__(256, 4))(Stencil op, const Even* even, int march, int colour, T rho, const T* f,
                                                        T* u) {
    await_previous();
    if (even->is_even) sweep<true, OWN_ZERO>(op, even, march, colour, rho, f, u);
    else sweep<false, OWN_ZERO>(op, even, march, colour, rho, f, u);
}

// f - A u in a cell, by differences if that is cheap: a constant then gives s u up to rounding.
template <bool EVEN>
__device__ __forceinline__ T residual(const Stencil& op, const Known& known, const Column& column, int k, Index at, In f, In u) {
    const Gathered cell = gather<EVEN, true>(op, known, column, k, at, u);
    return f[at] - (cell.diagonal * u[at] - cell.sum);
}

// f - A u in cells 2m and 2m + 1 of a row, and 0 beyond its end. With equal coefficients, neighbours' positions are shared.
struct Two {
    T even, odd;
};

template <bool EVEN>
__device__ __forceinline__ Two residuals(const Stencil& op, const Known& known, int m, int j, int k, In f, In u) {
    const int i = 2 * m, nx = op.nx, ny = op.ny, nz = LAYERS(op), colour = j & 1;
    const bool has_odd = i + 1 < nx;
    Two r = {T(0), T(0)};
    if (!EVEN) {
        for (int odd = 0; odd < 1 + has_odd; odd++) {
            const Column column = neighbours(op, m, j, colour ^ odd);
            (odd ? r.odd : r.even) = residual<false>(op, known, column, k, column.start + (Index)op.pitch * k, f, u);
        }
        return r;
    }
    const Index plane = half_plane(op), row = m + (Index)op.pitch * k;
    const Index even = row + plane * (colour + 2 * (Index)j), odd = row + plane * (1 - colour + 2 * (Index)j);
    const bool ring_x = periodic(X) && nx > 1, ring_y = periodic(Y) && ny > 1, ring_z = periodic(Z) && nz > 1;
    // A missing neighbour is replaced by the cell itself, with t = 0. In y, the neighbour of an even cell is stored where odd ones are.
    const bool has[6] = {i > 0 || ring_x, i + 2 < nx || ring_x, j > op.start || ring_y, j + 1 < op.end || ring_y, k > 0 || ring_z, k + 1 < nz || ring_z};
    const Index west = i > 0 ? odd - 1 : ring_x ? odd + ((nx - 1) >> 1) : even, east = i + 2 < nx ? even + 1 : ring_x ? even - m : odd;
    const Index south = j > op.start ? -2 * plane : 2 * plane * (ny - 1), north = j + 1 < op.end ? 2 * plane : -2 * plane * (ny - 1);
#if !FLAT
    const Index below = k > 0 ? -(Index)op.pitch : (Index)op.pitch * (nz - 1);
    const Index above = k + 1 < nz ? (Index)op.pitch : -(Index)op.pitch * (nz - 1);
#endif
    const T own[2] = {u[even], u[odd]};
    const T in_x[2][2] = {{u[west], own[1]}, {own[0], u[east]}};
    const T t_x[2][2] = {{has[WEST] ? known.t[X] : T(0), has_odd ? known.t[X] : T(0)}, {known.t[X], has[EAST] ? known.t[X] : T(0)}};
#pragma unroll
    for (int n = 0; n < 2; n++) {
        const Index at = n ? odd : even, other = n ? even : odd;
        const T here = own[n];
        T sum = (load_shift(op, at) + sides(op, known.fields, i + n, j, k)) * here;
        sum = fma(t_x[n][0], here - in_x[n][0], fma(t_x[n][1], here - in_x[n][1], sum));
        sum = fma(has[SOUTH] ? known.t[Y] : T(0), here - u[has[SOUTH] ? other + south : at], sum);
        sum = fma(has[NORTH] ? known.t[Y] : T(0), here - u[has[NORTH] ? other + north : at], sum);
#if !FLAT
        sum = fma(has[BELOW] ? known.t[Z] : T(0), here - u[has[BELOW] ? at + below : at], sum);
        sum = fma(has[ABOVE] ? known.t[Z] : T(0), here - u[has[ABOVE] ? at + above : at], sum);
#endif
        (n ? r.odd : r.even) = n == 0 || has_odd ? f[at] - sum : T(0);
    }
    return r;
}

// r = f - A u, rounded, if r is given;  ||f - A u||^2
template <bool EVEN>
__device__ __forceinline__ double squares(const Stencil& op, const Even* even, int march, In f, In u, float* __restrict__ r) {
    const Known known = EVEN ? know(op, even) : Known{};
    const int m = blockIdx.x * 32 + threadIdx.x, k = FLAT ? 0 : blockIdx.y * 8 + threadIdx.y;
    double sum = 0;
    if (2 * m >= op.nx || k >= LAYERS(op)) return sum;
    const int first = FLAT ? blockIdx.y * 8 * march + threadIdx.y : blockIdx.z * march, step = FLAT ? 8 : 1;
    for (int n = 0; n < march; n++) {
        const int j = first + n * step;
        if (j >= op.ny) break;
        const Two two = residuals<EVEN>(op, known, m, j, k, f, u);
        sum += double(two.even) * double(two.even) + double(two.odd) * double(two.odd);
        if (r) {
            const Index at = m + (Index)op.pitch * k + half_plane(op) * ((j & 1) + 2 * (Index)j);
            r[at] = float(two.even);
            if (2 * m + 1 < op.nx) r[at + half_plane(op) * (1 - 2 * (j & 1))] = float(two.odd);
        }
    }
    return sum;
}

KERNEL(norm_cells, __launch_bounds__(256, 4))(Stencil op, const Even* even, int march, const T* f, const T* u, float* r, Reduction to) {
    await_previous();
    __shared__ double scratch[8];
    double sum[1] = {even->is_even ? squares<true>(op, even, march, f, u, r) : squares<false>(op, even, march, f, u, r)};
    grid_sum<1>(sum, scratch, to);
}

// Computes this thread's cell of a grid, with rows and layers in the block's second dimension and the grid's second and third.
__device__ __forceinline__ bool own_cell(const int (&grid)[4], int& i, int& j, int& k) {
    i = blockIdx.x * 32 + threadIdx.x;
    const bool is_flat = grid[2] == 1;
    k = is_flat ? 0 : blockIdx.y * 8 + threadIdx.y;
    j = is_flat ? blockIdx.y * 8 + threadIdx.y : blockIdx.z;
    return i < grid[0] && j < grid[1] && k < grid[2];
}

// f_c = sum of `give` over the fine cells (i, j, k).
template <class F> __device__ __forceinline__ void restrict_with(const Halving& h, Out coarse, F give) {
    int i, j, k;
    if (!own_cell(h.coarse, i, j, k)) return;
    T sum = T(0);
    const int i0 = first_part(h, X, i), i1 = parts_end(h, X, i) - 1;
    for (int kk = first_part(h, Z, k); kk < parts_end(h, Z, k); kk++) {
#pragma unroll 2
        for (int jj = first_part(h, Y, j); jj < parts_end(h, Y, j); jj++) {
            sum += give(i0, jj, kk);
            if (i1 > i0) sum += give(i1, jj, kk);
        }
    }
    coarse[place_in(h.coarse, i, j, k)] = sum;
}

template <bool EVEN>
__device__ __forceinline__ void restrict_residual(const Halving& h, const Stencil& op, const Even* even, In f, In u, Out coarse) {
    const Known known = EVEN ? know(op, even) : Known{};
    int i, j, k;
    if (!own_cell(h.coarse, i, j, k)) return;
    T sum = T(0);
    for (int kk = first_part(h, Z, k); kk < parts_end(h, Z, k); kk++) {
#pragma unroll 2
        for (int jj = first_part(h, Y, j); jj < parts_end(h, Y, j); jj++) {
            // If x is coarsened, both cells of a pair contribute; else one does.
            const Two two = residuals<EVEN>(op, known, is_halved(h, X) ? i : i >> 1, jj, kk, f, u);
            sum += is_halved(h, X) ? two.even + two.odd : i & 1 ? two.odd : two.even;
        }
    }
    coarse[place_in(h.coarse, i, j, k)] = sum;
}

// f_c = R (f - A u)
KERNEL(restrict_cells, __launch_bounds__(256, 4))(Halving h, Stencil op, const Even* even, const T* f, const T* u, T* coarse) {
    await_previous();
    if (even->is_even) restrict_residual<true>(h, op, even, f, u, coarse);
    else restrict_residual<false>(h, op, even, f, u, coarse);
}

// f_c = R f
KERNEL(restrict_field, __launch_bounds__(256))(Halving h, In f, Out coarse) {
    await_previous();
    restrict_with(h, coarse, [&](int i, int j, int k) { return f[place_in(h.fine, i, j, k)]; });
}

// Coefficients of coarse cells: scale times the sum of (d / d_c)^2 h, `share` in direction d.
KERNEL(halve_field, __launch_bounds__(256, 4))(Halving h, int d, T scale, In share, In field, Out coarse) {
    await_previous();
    restrict_with(h, coarse, [&](int i, int j, int k) {
        return scale * share[d == X ? i : d == Y ? j : k] * field[place_in(h.fine, i, j, k)];
    });
}

// Blocks of prolong_cells per multiprocessor; Turing's multiprocessors hold 1024 threads.
#if __CUDA_ARCH__ >= 800
constexpr int PROLONG_BLOCKS = 5;
#else
constexpr int PROLONG_BLOCKS = 4;
#endif

// u += P u_c. A thread has two cells of a row, and processes `march` rows.
KERNEL(prolong_cells, __launch_bounds__(256, PROLONG_BLOCKS))(Halving h, int march, In coarse, Out u) {
    await_previous();
    const bool is_flat = h.fine[2] == 1;
    const int m = blockIdx.x * 32 + threadIdx.x, k = is_flat ? 0 : blockIdx.y * 8 + threadIdx.y;
    if (2 * m >= h.fine[0] || k >= h.fine[2]) return;
    const int first = is_flat ? blockIdx.y * 8 * march + threadIdx.y : blockIdx.z * march, step = is_flat ? 8 : 1;
    const int i0 = 2 * m, i1 = min(2 * m + 1, h.fine[0] - 1);
    const int own0 = part_of(h, X, i0), own1 = part_of(h, X, i1), beside0 = beside(h, X, i0), beside1 = beside(h, X, i1);
    const T near0 = h.near[X][i0], far0 = h.far[X][i0], near1 = h.near[X][i1], far1 = h.far[X][i1];
    const int below = part_of(h, Z, k), above = beside(h, Z, k);
    const T in_below = h.near[Z][k], in_above = h.far[Z][k];
    const Index plane = (Index)h.coarse[3] * h.coarse[2], row_below = (Index)h.coarse[3] * below, row_above = (Index)h.coarse[3] * above;
    for (int n = 0; n < march; n++) {
        const int j = first + n * step;
        if (j >= h.fine[1]) return;
        const int south = part_of(h, Y, j), north = beside(h, Y, j);
        const T in_south = h.near[Y][j], in_north = h.far[Y][j];
        // The rows of either plane, by the colour of their cells with even i.
        const T* in_plane[2] = {coarse + 2 * plane * (Index)south, coarse + 2 * plane * (Index)north};
        // Interpolates between the four coarse rows.
        auto between = [&](int i) {
            const T* from_south = in_plane[0] + (i >> 1) + ((i + south) & 1 ? plane : 0);
            const T* from_north = in_plane[1] + (i >> 1) + ((i + north) & 1 ? plane : 0);
            const T lower = fma(in_south, from_south[row_below], in_north * from_north[row_below]);
            const T upper = fma(in_south, from_south[row_above], in_north * from_north[row_above]);
            return fma(in_below, lower, in_above * upper);
        };
        const T at_own0 = between(own0), at_own1 = own1 == own0 ? at_own0 : between(own1);
        const Index at0 = place_in(h.fine, i0, j, k);
        u[at0] += fma(near0, at_own0, far0 * between(beside0));
        if (i1 > i0) u[place_in(h.fine, i1, j, k)] += fma(near1, at_own1, far1 * between(beside1));
    }
}
