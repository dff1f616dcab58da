// Steps that pass over the matrix once. Launch: see stream.cuh; block (32, ROWS).
#include "reduce.cuh"
#include "seven_point/column.cuh"
#include "seven_point/stream.cuh"

#define BOUNDS __launch_bounds__(32 * ROWS, MIN_BLOCKS)

// Reads nothing in addition to the values.
struct Plain {
    using V = T;
    using E = None;
    In x;
    __device__ __forceinline__ T neighbour(Index at) const { return x[at]; }
    __device__ __forceinline__ void keep(Index, T) const {}
    __device__ __forceinline__ void prefetch(Index at) const { prefetch_l2(x + at); }
    __device__ __forceinline__ T enter(Index at, bool) const { return x[at]; }
    __device__ __forceinline__ None fetch(Index) const { return {}; }
};

// Reads coefficients only.
struct Bare {
    using V = None;
    __device__ __forceinline__ None neighbour(Index) const { return {}; }
    __device__ __forceinline__ void keep(Index, None) const {}
    __device__ __forceinline__ void prefetch(Index) const {}
    __device__ __forceinline__ None enter(Index, bool) const { return {}; }
};

// y = A x
KERNEL(apply, BOUNDS)(Stencil op, int length, In x, Out y) {
    await_previous();
    struct Pass : Plain {
        Out y;
        __device__ __forceinline__ void cell(const Row<T>& row, None) const { y[row.at] = image(row); }
    } pass{{x}, y};
    stream(op, length, pass);
}

// Reads a value of another vector in the same cell too.
struct One {
    T value;
};
struct Paired : Plain {
    using E = One;
    In other;
    __device__ __forceinline__ One fetch(Index at) const { return {other[at]}; }
};

// r = f - A u
KERNEL(residual_field, BOUNDS)(Stencil op, int length, In f, In u, Out r) {
    await_previous();
    struct Pass : Paired {
        Out r;
        __device__ __forceinline__ void cell(const Row<T>& row, One f) const { r[row.at] = f.value - image(row); }
    } pass{{{u}, f}, r};
    stream(op, length, pass);
}

// r = f - A u;  ||r||^2
KERNEL(residual, BOUNDS)(Stencil op, int length, In f, In u, Out r, Reduction to) {
    await_previous();
    struct Pass : Paired {
        Out r;
        double sum[1];
        __device__ __forceinline__ void cell(const Row<T>& row, One f) {
            T value = f.value - image(row);
            r[row.at] = value;
            sum[0] += double(value) * double(value);
        }
    } pass{{{u}, f}, r, {0}};
    stream(op, length, pass);
    grid_sum(pass.sum, to);
}

// ||f - A u||^2
KERNEL(residual_norm, BOUNDS)(Stencil op, int length, In f, In u, Reduction to) {
    await_previous();
    struct Pass : Paired {
        double sum[1];
        __device__ __forceinline__ void cell(const Row<T>& row, One f) {
            T value = f.value - image(row);
            sum[0] += double(value) * double(value);
        }
    } pass{{{u}, f}, {0}};
    stream(op, length, pass);
    grid_sum(pass.sum, to);
}

// The right-hand side of a cell, and its previous value.
struct Given {
    T f, before;
};

// v = u + omega D^-1 (f - A u), plus momentum (u - v) with MOVES;  ||f - A u||^2. In the order of operations of points.cu.
template <bool MOVES>
struct RelaxPoints : Plain {
    using E = Given;
    T omega, momentum;
    In f;
    T* v;
    double sum[1];
    __device__ __forceinline__ void prefetch(Index at) const {
        prefetch_l2(x + at);
        prefetch_l2(f + at);
        if (MOVES) prefetch_l2(v + at);
    }
    __device__ __forceinline__ Given fetch(Index at) const { return {f[at], MOVES ? v[at] : T(0)}; }
    __device__ __forceinline__ void cell(const Row<T>& row, Given given) {
        const T residual = given.f - image(row), scale = omega * inverse(row.diagonal());
        T value = fma(T(1) - omega, row.here, scale * given.f);
#pragma unroll
        for (int n = 0; n < (FLAT ? 4 : 6); n++) value = fma(scale * row.t[n], row.v[n], value);
        v[row.at] = MOVES ? fma(momentum, row.here - given.before, value) : value;
        sum[0] += double(residual) * double(residual);
    }
};

KERNEL(relax_points, BOUNDS)(Stencil op, int length, T omega, In f, In u, Out v, Reduction to) {
    await_previous();
    RelaxPoints<false> pass{{u}, omega, T(0), f, v, {0}};
    stream(op, length, pass);
    grid_sum(pass.sum, to);
}

KERNEL(relax_points_on, BOUNDS)(Stencil op, int length, T omega, T momentum, In f, In u, Out v, Reduction to) {
    await_previous();
    RelaxPoints<true> pass{{u}, omega, momentum, f, v, {0}};
    stream(op, length, pass);
    grid_sum(pass.sum, to);
}

// z = D^-1
KERNEL(inverse_diagonal, BOUNDS)(Stencil op, int length, Out z) {
    await_previous();
    struct Pass : Bare {
        using E = None;
        Out z;
        __device__ __forceinline__ None fetch(Index) const { return {}; }
        __device__ __forceinline__ void cell(const Row<None>& row, None) const { z[row.at] = inverse(row.diagonal()); }
    } pass{{}, z};
    stream(op, length, pass);
}

// z = D^-1 r
KERNEL(divide_by_diagonal, BOUNDS)(Stencil op, int length, In r, Out z) {
    await_previous();
    struct Pass : Bare {
        using E = One;
        In r;
        Out z;
        __device__ __forceinline__ One fetch(Index at) const { return {r[at]}; }
        __device__ __forceinline__ void cell(const Row<None>& row, One r) const {
            z[row.at] = r.value * inverse(row.diagonal());
        }
    } pass{{}, r, z};
    stream(op, length, pass);
}

// r -= alpha q;  z = D^-1 r;  rho = <r, z>;  ||r||^2, side by side
KERNEL(scale_residual, BOUNDS)(Stencil op, int length, Ratio alpha_ratio, In q, Out r, Out z, Reduction to) {
    await_previous();
    struct Pass : Bare {
        using E = One;
        T alpha;
        In q;
        Out r;
        Out z;
        double sum[2];
        __device__ __forceinline__ void prefetch(Index at) const {
            prefetch_l2(q + at);
            prefetch_l2(r + at);
        }
        __device__ __forceinline__ One fetch(Index at) const { return {fma(-alpha, q[at], r[at])}; }
        __device__ __forceinline__ void cell(const Row<None>& row, One updated) {
            T value = updated.value, scaled = value * inverse(row.diagonal());
            r[row.at] = value;
            z[row.at] = scaled;
            sum[0] += double(value) * double(scaled);
            sum[1] += double(value) * double(value);
        }
    } pass{{}, alpha_ratio.value(), q, r, z, {0, 0}};
    stream(op, length, pass);
    grid_sum(pass.sum, to);
}

// u += alpha p_old;  p = z + beta p_old;  q = A p;  sigma = <p, q>, with z and q in this or in single precision.
// p and p_old are different vectors, so that p can be recomputed for neighbours; it is stored in halo rows too.
template <class R> struct Advance {
    using V = T;
    using E = None;
    T alpha, beta;
    const R* __restrict__ z;
    In p_old;
    Out u;
    Out p;
    R* __restrict__ q;
    double sum[1];
    __device__ __forceinline__ T neighbour(Index at) const { return fma(beta, p_old[at], T(z[at])); }
    __device__ __forceinline__ void keep(Index at, T value) const { p[at] = value; }
    __device__ __forceinline__ void prefetch(Index at) const {
        prefetch_l2(p_old + at);
        prefetch_l2(z + at);
        prefetch_l2(u + at);
    }
    __device__ __forceinline__ T enter(Index at, bool own) const {
        T old = p_old[at], value = fma(beta, old, T(z[at]));
        if (own) {
            u[at] = fma(alpha, old, u[at]);
            p[at] = value;
        }
        return value;
    }
    __device__ __forceinline__ None fetch(Index) const { return {}; }
    __device__ __forceinline__ void cell(const Row<T>& row, None) {
        T value = image(row);
        q[row.at] = R(value);
        sum[0] += double(row.here) * double(value);
    }
};

template <class Pass>
__device__ __forceinline__ void advance(const Stencil& op, int length, Pass pass, Reduction to) {
    stream(op, length, pass);
    grid_sum(pass.sum, to);
}

KERNEL(advance_direction, BOUNDS)(Stencil op, int length, Ratio alpha, Ratio beta, In z, In p_old, Out u, Out p, Out q, Reduction to) {
    await_previous();
    advance(op, length, Advance<T>{alpha.value(), beta.value(), z, p_old, u, p, q, {0}}, to);
}

KERNEL(advance_direction_single, BOUNDS)(Stencil op, int length, Ratio alpha, Ratio beta, const float* __restrict__ z, In p_old,
                                         Out u, Out p, float* __restrict__ q, Reduction to) {
    await_previous();
    advance(op, length, Advance<float>{alpha.value(), beta.value(), z, p_old, u, p, q, {0}}, to);
}

// v = D^-1 (r - L w), where w is read at neighbours; the sum is <v, D v>.
struct Lower : Paired {
    Out v;
    double sum[1];
    __device__ __forceinline__ void cell(const Row<T>& row, One r) {
        T total = r.value, diagonal = row.diagonal();
#pragma unroll
        for (int n = 0; n < (FLAT ? 4 : 6); n++)
            if (!row.higher[n]) total = fma(row.t[n], row.v[n], total);
        T value = total * inverse(diagonal);
        v[row.at] = value;
        sum[0] += double(diagonal) * double(value) * double(value);
    }
};

KERNEL(relax_lower, BOUNDS)(Stencil op, int length, In r, In w, Out v) {
    await_previous();
    Lower pass{{{w}, r}, v, {0}};
    stream(op, length, pass);
}

KERNEL(relax_lower_sum, BOUNDS)(Stencil op, int length, In r, In w, Out v, Reduction to) {
    await_previous();
    Lower pass{{{w}, r}, v, {0}};
    stream(op, length, pass);
    grid_sum(pass.sum, to);
}

// z = v - D^-1 L^T w. v and w may be the same vector.
KERNEL(relax_upper, BOUNDS)(Stencil op, int length, In v, In w, Out z) {
    await_previous();
    struct Pass : Paired {
        Out z;
        __device__ __forceinline__ void cell(const Row<T>& row, One v) const {
            T total = T(0);
#pragma unroll
            for (int n = 0; n < (FLAT ? 4 : 6); n++)
                if (row.higher[n]) total = fma(row.t[n], row.v[n], total);
            z[row.at] = fma(total, inverse(row.diagonal()), v.value);
        }
    } pass{{{w}, v}, z};
    stream(op, length, pass);
}

// D^-1 and r.
struct Scaled {
    T inverse, r;
};
__device__ __forceinline__ Scaled up(Scaled v) { return {up(v.inverse), up(v.r)}; }
__device__ __forceinline__ Scaled down(Scaled v) { return {down(v.inverse), down(v.r)}; }

// The incomplete Poisson preconditioner, see `Triangular::incomplete_poisson` in isobar-core.
template <bool SCALED> struct IncompletePoisson {
    using V = Scaled;
    using E = None;
    In inverse_diagonal;
    In r;
    Out z;
    __device__ __forceinline__ Scaled neighbour(Index at) const { return {inverse_diagonal[at], r[at]}; }
    __device__ __forceinline__ void keep(Index, Scaled) const {}
    __device__ __forceinline__ void prefetch(Index at) const {
        prefetch_l2(inverse_diagonal + at);
        prefetch_l2(r + at);
    }
    __device__ __forceinline__ Scaled enter(Index at, bool) const { return neighbour(at); }
    __device__ __forceinline__ None fetch(Index) const { return {}; }
    __device__ __forceinline__ void cell(const Row<Scaled>& row, None) const {
        T squares = T(0), sum = T(0), here = row.here.inverse;
#pragma unroll
        for (int n = 0; n < (FLAT ? 4 : 6); n++) {
            T t = row.t[n], there = row.v[n].inverse;
            T weight = SCALED ? t * here * there : t * (row.higher[n] ? here : there);
            sum = fma(weight, row.v[n].r, sum);
            if (!row.higher[n]) squares = fma(weight, SCALED ? t : weight, squares);
        }
        z[row.at] = fma(row.here.r, (SCALED ? here : T(1)) * (T(1) + squares), sum);
    }
};

KERNEL(incomplete_poisson, BOUNDS)(Stencil op, int length, In inverse_diagonal, In r, Out z) {
    await_previous();
    IncompletePoisson<false> pass{inverse_diagonal, r, z};
    stream(op, length, pass);
}

KERNEL(incomplete_poisson_scaled, BOUNDS)(Stencil op, int length, In inverse_diagonal, In r, Out z) {
    await_previous();
    IncompletePoisson<true> pass{inverse_diagonal, r, z};
    stream(op, length, pass);
}

// Calls f(column, k, position) for the cells of a pass that belong to this thread only.
template <class F> __device__ __forceinline__ void for_each_own_cell(const Stencil& op, int length, F f) {
    const int m = blockIdx.x * 32 + threadIdx.x;
#if FLAT
    const int k = 0, segment = blockIdx.z * blockDim.y + threadIdx.y;
#else
    const int k = blockIdx.y * blockDim.y + threadIdx.y, segment = blockIdx.z;
#endif
    const int j0 = segment * length, j1 = k < LAYERS(op) ? min(j0 + length, op.ny) : 0;
#pragma unroll 2
    for (int row = 2 * j0; row < 2 * j1; row++) {
        const Column column = neighbours(op, m, row >> 1, row & 1);
        if (column.i < op.nx) f(column, k, column.start + (Index)op.pitch * k);
    }
}

// q -= A Z a;  sigma = <p, q>. Coefficients are read only where aggregates meet; q changes only there and
// where s is not 0.
KERNEL(subtract_aggregated, BOUNDS)(Stencil op, int length, const unsigned int* __restrict__ ids, const double* __restrict__ a,
                                    In p, Out q, Reduction to) {
    await_previous();
    double sum[1] = {0};
    auto value = [&](unsigned int id) { return id == 0xffffffffu ? T(0) : T(a[id]); };
    for_each_own_cell(op, length, [&](const Column& column, int k, Index at) {
        const unsigned int id = ids[at];
        const T here = value(id), before = q[at];
        T total = load_shift(op, at) * here;
        if (on_side(op, column.i, column.j, k))
            total = fma(sides(op, load(op, at), column.i, column.j, k), here, total);
#pragma unroll
        for (int n = 0; n < 4; n++) {
            if (!column.has[n]) continue;
            const Index there = at + column.to[n];
            const unsigned int other = ids[there];
            if (other == id) continue;
            total = fma(face_to(op, n, load(op, at), load(op, there)), here - value(other), total);
        }
#if !FLAT
#pragma unroll
        for (int upper = 0; upper < 2; upper++) {
            const bool inside = upper ? k + 1 < op.nz : k > 0;
            if (!inside && !(periodic(Z) && op.nz > 1)) continue;
            const int step = inside ? 2 * upper - 1 : (1 - 2 * upper) * (op.nz - 1);
            const Index there = at + (Index)op.pitch * step;
            const unsigned int other = ids[there];
            if (other == id) continue;
            const Fields h = load(op, at), h_there = load(op, there);
            const T t = upper ? face<Z>(op, h, h_there) : face<Z>(op, h_there, h);
            total = fma(t, here - value(other), total);
        }
#endif
        const T after = before - total;
        if (total != T(0)) q[at] = after;
        sum[0] += double(p[at]) * double(after);
    });
    grid_sum(sum, to);
}

// Whether a cell takes part: it has a coefficient, a shift or an open face.
__device__ __forceinline__ bool is_active(const Stencil& op, const Column& column, int k, Index at, const Fields& h) {
    if (has_coefficient(h) || load_shift(op, at) != T(0)) return true;
    T sum = outside<false>(op, column, k, at, h, nullptr).out;
#if !FLAT
    if (k > 0) sum += face<Z>(op, load(op, at - op.pitch), h);
    if (k + 1 < op.nz) sum += face<Z>(op, h, load(op, at + op.pitch));
#endif
    return sum > T(0);
}

// x = 0 in cells that take no part.
KERNEL(clear_inactive, BOUNDS)(Stencil op, int length, Out x) {
    await_previous();
    for_each_own_cell(op, length, [&](const Column& column, int k, Index at) {
        if (!is_active(op, column, k, at, load(op, at))) x[at] = T(0);
    });
}

// Which upper faces of a cell are inside the grid and open: bits 0 to 2; which are closed: bits 3 to 5.
__device__ __forceinline__ unsigned int upper_faces(const Stencil& op, const Column& column, int k, Index at, const Fields& h) {
    unsigned int found = 0;
    auto note = [&](int d, T face) { found |= 1u << (face > T(0) ? d : d + 3); };
    if (column.has[EAST]) note(X, face<X>(op, h, load(op, at + column.to[EAST])));
    if (column.has[NORTH]) note(Y, face<Y>(op, h, load(op, at + column.to[NORTH])));
#if !FLAT
    if (k + 1 < op.nz || (periodic(Z) && op.nz > 1)) {
        const int step = k + 1 < op.nz ? 1 : 1 - op.nz;
        note(Z, face<Z>(op, h, load(op, at + (Index)op.pitch * step)));
    }
#endif
    return found;
}

// Whether s > 0 in a cell.
__device__ __forceinline__ bool is_tied(const Stencil& op, const Column& column, int k, Index at, const Fields& h) {
    return load_shift(op, at) + sides(op, h, column.i, column.j, k) > T(0);
}

// The marks of cells in C order, see `Diffusion::components_by_marks`.
KERNEL(mark_cells, BOUNDS)(Stencil op, int length, unsigned char* __restrict__ marks) {
    await_previous();
    for_each_own_cell(op, length, [&](const Column& column, int k, Index at) {
        const Fields h = load(op, at);
        const unsigned int open = upper_faces(op, column, k, at, h) & 7;
        marks[column.i + (long long)op.nx * (column.j + (long long)op.ny * k)] =
            is_active(op, column, k, at, h) | open << 1 | is_tied(op, column, k, at, h) << 4;
    });
}

// The number of closed faces inside the grid, and of cells with s > 0: a matrix with none of the former
// and some of the latter is regular.
KERNEL(census, BOUNDS)(Stencil op, int length, Reduction to) {
    await_previous();
    double count[2] = {0, 0};
    for_each_own_cell(op, length, [&](const Column& column, int k, Index at) {
        const Fields h = load(op, at);
        count[0] += __popc(upper_faces(op, column, k, at, h) >> 3);
        count[1] += is_tied(op, column, k, at, h);
    });
    grid_sum(count, to);
}
