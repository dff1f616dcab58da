// A V-cycle by red-black point relaxation on all levels of up to a thousand cells, in one launch of one block: a step on such a level takes as long
// as a launch.
//
// The code is short, without variants for equal coefficients, as instructions that are fetched for the first time take longer than they do.
// Vectors below the first level, and the residuals of a level, are in shared memory.
#include "seven_point/gather.cuh"

constexpr int MOST_LEVELS = 16;

// A level, and the coarsening to the next one.
struct Level {
    Stencil op;
    Halving down;
};

// Levels with their right-hand sides and solutions, and the residual of one of them.
struct Levels {
    Level level[MOST_LEVELS];
    const T* f[MOST_LEVELS];
    T* u[MOST_LEVELS];
    T* left;
};

// Calls give(i, j, k) for the cells of a grid, in parallel.
template <class F> __device__ __forceinline__ void for_each_in(const int (&grid)[4], F give) {
    const int nx = grid[X], nz = grid[Z], count = nx * nz * grid[Y];
#pragma unroll 1
    for (int n = threadIdx.x; n < count; n += THREADS) {
        const int row = n / nx, j = row / nz;
        give(n - row * nx, j, row - j * nz);
    }
    __syncthreads();
}

// u += rho D^-1 (f - A u) in the cells of one colour. If all of u counts as zero, or that of this colour, its numbers are not used.
__device__ __forceinline__ void relax(const Stencil& op, int colour, T rho, bool is_zero, bool is_own_zero, const T* f, T* u) {
    const Known none{};
    const int width = (op.nx + 1) >> 1, nz = LAYERS(op), count = width * op.ny * nz;
#pragma unroll 1
    for (int n = threadIdx.x; n < count; n += THREADS) {
        const int row = n / width, m = n - row * width, j = row / nz, k = row - j * nz, c = (colour + k) & 1;
        if (2 * m + ((j + c) & 1) >= op.nx) continue;
        const Column column = neighbours(op, m, j, c);
        const Index at = column.start + (Index)op.pitch * k;
        const T own = is_own_zero ? T(0) : u[at];
        Gathered cell = gather<false, true>(op, none, column, k, at, u);
        if (is_zero) cell.sum = T(0);
        u[at] = fma(rho, (f[at] + cell.sum - cell.diagonal * own) * inverse(cell.diagonal), own);
    }
    __syncthreads();
}

// f_c = R (f - A u)
__device__ __forceinline__ void restrict_to(const Halving& h, const Stencil& op, const T* f, const T* u, T* left, T* coarse) {
    const Known none{};
    auto place_of = [&](int i, int j, int k) { return i + h.fine[X] * (k + h.fine[Z] * j); };
    for_each_in(h.fine, [&](int i, int j, int k) {
        const Column column = neighbours(op, i >> 1, j, (i + j) & 1);
        const Index at = column.start + (Index)op.pitch * k;
        const Gathered cell = gather<false, true>(op, none, column, k, at, u);
        left[place_of(i, j, k)] = f[at] - (cell.diagonal * u[at] - cell.sum);
    });
    for_each_in(h.coarse, [&](int i, int j, int k) {
        T sum = T(0);
#pragma unroll 1
        for (int kk = first_part(h, Z, k); kk < parts_end(h, Z, k); kk++)
#pragma unroll 1
            for (int jj = first_part(h, Y, j); jj < parts_end(h, Y, j); jj++)
#pragma unroll 1
                for (int ii = first_part(h, X, i); ii < parts_end(h, X, i); ii++) sum += left[place_of(ii, jj, kk)];
        coarse[place_in(h.coarse, i, j, k)] = sum;
    });
}

// u += P u_c
__device__ __forceinline__ void prolong_from(const Halving& h, const T* coarse, T* u) {
    for_each_in(h.fine, [&](int i, int j, int k) {
        const int at[3] = {i, j, k};
        int own[3], other[3];
        T near[3], far[3];
#pragma unroll
        for (int d = 0; d < 3; d++) {
            own[d] = part_of(h, d, at[d]);
            other[d] = beside(h, d, at[d]);
            near[d] = h.near[d][at[d]];
            far[d] = h.far[d][at[d]];
        }
        auto along_x = [&](int j, int k) {
            return fma(near[X], coarse[place_in(h.coarse, own[X], j, k)], far[X] * coarse[place_in(h.coarse, other[X], j, k)]);
        };
        auto in_plane = [&](int k) { return fma(near[Y], along_x(own[Y], k), far[Y] * along_x(other[Y], k)); };
        u[place_in(h.fine, i, j, k)] += fma(near[Z], in_plane(own[Z]), far[Z] * in_plane(other[Z]));
    });
}

// u = one cycle from zero for the right-hand side f on the first of some levels, with so many sweeps before and after each correction, and instead of
// both on the last level.
KERNEL(cycle, __launch_bounds__(THREADS, 1))(const Level* given, int count, int pre, int post, int on_coarsest, T rho, const T* f, T* u) {
    extern __shared__ __align__(16) unsigned char dynamic[];
    __shared__ Levels all;
    for (int n = threadIdx.x; n < count * (int)(sizeof(Level) / sizeof(int)); n += THREADS) ((int*)all.level)[n] = ((const int*)given)[n];
    __syncthreads();
    if (threadIdx.x == 0) {
        T* at = (T*)dynamic;
        for (int n = 0; n < count; n++) {
            const Stencil& op = all.level[n].op;
            const int length = 2 * op.pitch * LAYERS(op) * op.ny;
            all.f[n] = n == 0 ? f : at;
            all.u[n] = n == 0 ? u : at + length;
            if (n > 0) at += 2 * length;
        }
        all.left = at;
    }
    await_previous();
    __syncthreads();
#pragma unroll 1
    for (int n = 0, is_going_up = 0; n >= 0; n += is_going_up ? -1 : 1) {
        const Level& level = all.level[n];
        const T* right = all.f[n];
        T* solution = all.u[n];
        const bool is_coarsest = n + 1 == count;
        if (is_going_up) prolong_from(level.down, all.u[n + 1], solution);
        const int sweeps = is_coarsest ? on_coarsest : is_going_up ? post : pre;
#pragma unroll 1
        for (int s = 0; s < 2 * sweeps; s++) relax(level.op, s & 1, rho, !is_going_up && s == 0, !is_going_up && s < 2, right, solution);
        if (is_coarsest) is_going_up = 1;
        else if (!is_going_up) restrict_to(level.down, level.op, right, solution, all.left, const_cast<T*>(all.f[n + 1]));
    }
}
