// Multigrid for independent layers, each a two-dimensional problem: one launch for the steps of a level before
// the next coarser one, one for the steps after it, and one for all levels that fit into a block.
//
// A block of the first two has a tile of MX by TY cells of either colour, one thread per cell of either, and processes a range of layers
// with their coefficients in registers. Around its tile it recomputes values of its neighbours: a sweep of two
// colours and the residual after it depend on three rows and four cells on either side. Results are written to another vector, since
// neighbours still read this one.
// Launch: grid (ceil(pitch / MX), ceil(ny / TY), runs), block Around::THREADS.
#include "tensor_product/prolong.cuh"

constexpr int MX = 32, TY = 16;

// Layers that a thread computes together: shared memory positions are then the same for all of them. If their number
// is odd, the last is computed twice.
constexpr int TOGETHER = sizeof(T) == 4 ? 2 : 1;
struct alignas(TOGETHER * sizeof(T)) Some {
    T of[TOGETHER];
};

template <class F> __device__ __forceinline__ Some each(F f) {
    Some some;
#pragma unroll
    for (int l = 0; l < TOGETHER; l++) some.of[l] = f(l);
    return some;
}

enum Guess { FROM_ZERO, FROM_FIELD };

// Cells of one colour of one layer: a tile, with HX more on its left and right and HY more rows before and after it.
template <int HX, int HY> struct Around {
    static constexpr int WIDTH = MX + 2 * HX, HEIGHT = TY + 2 * HY, THREADS = (WIDTH * HEIGHT + 31) / 32 * 32;
    Some at[HEIGHT][WIDTH];

    // Couplings times the four neighbours of a cell of the other colour at the same place. Beyond the left and right ends
    // the value at the end is used; cells that would need more are not used.
    __device__ __forceinline__ Some couplings(const Column& column, int x, int y) const {
        int beside = min(max(x + column.shift, 0), WIDTH - 1);
        const Some same = at[y][x], shifted = at[y][beside], south = at[y - 1][x], north = at[y + 1][x];
        return each([&](int l) {
            T sum = column.same * same.of[l];
            sum = fma(column.shifted, shifted.of[l], sum);
            sum = fma(column.south, south.of[l], sum);
            return fma(column.north, north.of[l], sum);
        });
    }
};

// A thread's position, and its range of layers.
template <int HX, int HY> struct Place {
    typedef Around<HX, HY> Cells;
    int x, y, m, j, k0, k1;
    bool inside, own; // of the grid, the tile's

    __device__ __forceinline__ Place(const Operator& op, int layers) {
        x = threadIdx.x % Cells::WIDTH;
        y = threadIdx.x / Cells::WIDTH;
        m = (int)blockIdx.x * MX - HX + x;
        j = (int)blockIdx.y * TY - HY + y;
        k0 = blockIdx.z * layers;
        k1 = min(k0 + layers, op.nz);
        inside = y < Cells::HEIGHT && (unsigned int)m < (unsigned int)op.pitch && (unsigned int)j < (unsigned int)op.ny;
        own = inside && within(HX, HY);
    }

    // Whether the cell is at least this far from the surroundings of the tile.
    __device__ __forceinline__ bool within(int dx, int dy) const {
        return x >= dx && x < Cells::WIDTH - dx && y >= dy && y < Cells::HEIGHT - dy;
    }
};

// Offsets of some layers from k on, relative to layer 0, in a range that ends before k1.
struct Offsets {
    int at[TOGETHER];

    __device__ __forceinline__ Offsets(int pitch, int k, int k1) {
#pragma unroll
        for (int l = 0; l < TOGETHER; l++) at[l] = pitch * min(k + l, k1 - 1);
    }

    __device__ __forceinline__ Some load(const T* from) const {
        return each([&](int l) { return from[at[l]]; });
    }

    __device__ __forceinline__ void store(const Some& some, T* to) const {
#pragma unroll
        for (int l = 0; l < TOGETHER; l++) to[at[l]] = some.of[l];
    }
};

// Largest number of layers in a range.
constexpr int MOST_LAYERS = 64;

// The layer-dependent coefficients of a range: scaled a and d of a line, the scale, and d.
struct Layer {
    T a, d, scale, row_d;
};

__device__ __forceinline__ Layer load_layer(const Operator& op, int k) {
    LineLayer v = op.line[k];
    return Layer{v.a, v.d, v.scale, op.row[k].d};
}

// The equation of one cell, solved for that cell: value = factor * couplings + constant.
struct Equation {
    T factor, constant;

    __device__ __forceinline__ Equation(const Layer& v, const Column& column, T per_area, T f) {
        T inverse = reciprocal(fma(column.total, v.d, v.a));
        factor = v.d * inverse;
        constant = f * (per_area * v.scale) * inverse;
    }

    __device__ __forceinline__ T solve(T sum) const { return fma(factor, sum, constant); }
};

// The equations of one cell in some layers.
struct Equations {
    Some factor, constant;

    __device__ __forceinline__ Some solve(const Some& sum) const {
        return each([&](int l) { return fma(factor.of[l], sum.of[l], constant.of[l]); });
    }
};

// A thread's cell: its coefficients, and its right-hand side, loaded some layers in advance.
struct Cell {
    Column column;
    T per_area;
    Some f;
    long long at; // index at layer 0
    bool needed;

    __device__ __forceinline__ Cell(const Operator& op, int j, int colour, int m, bool needed) : needed(needed) {
        int row = needed ? j : 0, place = needed ? m : 0;
        column = load_column(op, row, colour, place);
        per_area = reciprocal(column.area);
        at = plane(op, row, colour) + place;
    }

    // Loads the first right-hand sides.
    __device__ __forceinline__ void begin(const T* rhs, const Offsets& now) { f = now.load(rhs + at); }

    // Computes the equations in the layers from the n-th of `count` on; loads the next right-hand sides.
    __device__ __forceinline__ Equations equations(const Layer* layers, const T* rhs, const Offsets& next, int n, int count) {
        Equations all;
#pragma unroll
        for (int l = 0; l < TOGETHER; l++) {
            const Equation one(layers[min(n + l, count - 1)], column, per_area, f.of[l]);
            all.factor.of[l] = one.factor;
            all.constant.of[l] = one.constant;
        }
        if (n + TOGETHER < count) f = next.load(rhs + at);
        return all;
    }
};

// One sweep from u, with colour `first` before the other, to `out`, and coarse = R (f - A out): the residual of the colour swept first
// follows from the changes of its neighbours, and that of the other colour is zero.
template <Guess GUESS>
__device__ __forceinline__ void sweep_restrict(const Operator& op, int first, int layers, const T* f, const T* u, T* out,
                                               T* coarse, int coarse_pitch) {
    constexpr int HX = 2, HY = 3;
    __shared__ Around<HX, HY> one, other, residual;
    __shared__ Layer run[MOST_LAYERS];
    const Place<HX, HY> here(op, layers);
    const int count = here.k1 - here.k0;
    if (threadIdx.x < count) run[threadIdx.x] = load_layer(op, here.k0 + threadIdx.x);
    const int x = here.x, y = here.y, second = 1 - first;
    const bool stores = y < Around<HX, HY>::HEIGHT;
    const Offsets begin(op.pitch, here.k0, here.k1);
    Cell a(op, here.j, first, here.m, here.inside && here.within(0, 1));
    Cell b(op, here.j, second, here.m, here.inside && here.within(1, 2));
    await_previous();
    a.begin(f, begin);
    b.begin(f, begin);
    const bool reads = GUESS == FROM_FIELD && here.inside;
    const T* from = u + (reads ? plane(op, here.j, second) + here.m : 0);
    Some old = {};
    if (reads) old = begin.load(from);

    // One coarse cell per thread.
    const int cx = HX + threadIdx.x % MX, cy = HY + threadIdx.x / MX * 2;
    const int cm = (int)blockIdx.x * MX + cx - HX, cj = ((int)blockIdx.y * TY + cy - HY) / 2;
    const bool restricts = threadIdx.x < MX * TY / 2 && 2 * cm < op.nx && 2 * cj < op.ny;
    const bool two = !ODD || 2 * cj + 1 < op.ny;
    T* to = coarse + (restricts ? coarse_index(coarse_pitch, op.nz, cm, cj) : 0);
    __syncthreads();

    for (int n = 0; n < count; n += TOGETHER) {
        const Offsets now(op.pitch, here.k0 + n, here.k1), next(op.pitch, here.k0 + n + TOGETHER, here.k1);
        const Some before = old;
        const Equations solve_a = a.equations(run, f, next, n, count), solve_b = b.equations(run, f, next, n, count);
        if (GUESS == FROM_FIELD) {
            if (stores) other.at[y][x] = before;
            if (reads && n + TOGETHER < count) old = next.load(from);
            __syncthreads();
        }
        Some value = {};
        if (a.needed) {
            value = solve_a.solve(GUESS == FROM_FIELD ? other.couplings(a.column, x, y) : Some{});
            if (here.own) now.store(value, out + a.at);
        }
        if (stores) one.at[y][x] = value;
        __syncthreads();
        Some change = {};
        if (b.needed) {
            value = solve_b.solve(one.couplings(b.column, x, y));
            if (here.own) now.store(value, out + b.at);
            change = each([&](int l) { return value.of[l] - before.of[l]; });
        }
        if (stores) other.at[y][x] = change;
        __syncthreads();
        if (here.own) {
            const Some sum = other.couplings(a.column, x, y);
            residual.at[y][x] = each([&](int l) { return a.column.area * sum.of[l]; });
        }
        __syncthreads();
        if (restricts) {
            const Some south = residual.at[cy][cx], north = residual.at[cy + two][cx];
            const Some sum = each([&](int l) {
                return run[min(n + l, count - 1)].row_d * (two ? south.of[l] + north.of[l] : south.of[l]);
            });
            Offsets(coarse_pitch, here.k0 + n, here.k1).store(sum, to);
        }
    }
}

KERNEL(sweep_restrict_zero, __launch_bounds__(Around<2, 3>::THREADS))(Operator op, int first, int layers, In f, Out out,
                                                                      Out coarse, int coarse_pitch) {
    sweep_restrict<FROM_ZERO>(op, first, layers, f, f, out, coarse, coarse_pitch);
}

KERNEL(sweep_restrict_given, __launch_bounds__(Around<2, 3>::THREADS))(Operator op, int first, int layers, In f, In u, Out out,
                                                                       Out coarse, int coarse_pitch) {
    sweep_restrict<FROM_FIELD>(op, first, layers, f, u, out, coarse, coarse_pitch);
}

// One sweep from u + P e, with colour `first` before the other, to `out`; if tau is not 1, tau times the result plus 1 - tau times
// the old contents.
KERNEL(prolong_sweep, __launch_bounds__(Around<1, 2>::THREADS))(Operator op, int first, int layers, T tau, In f, In u, T* out,
                                                                Coarse<T> coarse) {
    constexpr int HX = 1, HY = 2;
    __shared__ Around<HX, HY> one, other;
    __shared__ Layer run[MOST_LAYERS];
    const Place<HX, HY> here(op, layers);
    const int count = here.k1 - here.k0;
    if (threadIdx.x < count) run[threadIdx.x] = load_layer(op, here.k0 + threadIdx.x);
    const int x = here.x, y = here.y, second = 1 - first;
    const bool stores = y < Around<HX, HY>::HEIGHT;
    const Offsets begin(op.pitch, here.k0, here.k1);
    Cell a(op, here.j, first, here.m, here.inside && here.within(0, 1));
    Cell b(op, here.j, second, here.m, here.own);
    await_previous();
    a.begin(f, begin);
    b.begin(f, begin);
    const int i = 2 * here.m + looks_east(here.j, second);
    const bool reads = here.inside && i < op.nx;
    const T* from = u + (reads ? plane(op, here.j, second) + here.m : 0);
    const Bilinear cell = bilinear(coarse, op.nx, op.end, reads ? i : 0, reads ? here.j : 0);
    const bool extrapolates = here.own && tau != T(1);
    Some old = begin.load(from);
    auto interpolated = [&](int k) {
        const Offsets from(coarse.pitch, k, here.k1);
        return each([&](int l) {
            T sum = cell.weight[0] * coarse.u[from.at[l] + cell.at[0]];
#pragma unroll
            for (int n = 1; n < 4; n++) sum = fma(cell.weight[n], coarse.u[from.at[l] + cell.at[n]], sum);
            return sum;
        });
    };
    Some correction = interpolated(here.k0);
    // tau y + (1 - tau) before
    auto extrapolated = [&](const Some& y, const Some& before) {
        return each([&](int l) { return fma(tau - T(1), y.of[l] - before.of[l], y.of[l]); });
    };
    __syncthreads();

    for (int n = 0; n < count; n += TOGETHER) {
        const Offsets now(op.pitch, here.k0 + n, here.k1), next(op.pitch, here.k0 + n + TOGETHER, here.k1);
        const Equations solve_a = a.equations(run, f, next, n, count), solve_b = b.equations(run, f, next, n, count);
        if (stores) other.at[y][x] = each([&](int l) { return reads ? old.of[l] + correction.of[l] : T(0); });
        Some before_a = {}, before_b = {};
        if (extrapolates) {
            before_a = now.load(out + a.at);
            before_b = now.load(out + b.at);
        }
        if (n + TOGETHER < count) {
            old = next.load(from);
            correction = interpolated(here.k0 + n + TOGETHER);
        }
        __syncthreads();
        Some value = {};
        if (a.needed) {
            value = solve_a.solve(other.couplings(a.column, x, y));
            if (here.own) now.store(extrapolates ? extrapolated(value, before_a) : value, out + a.at);
        }
        if (stores) one.at[y][x] = value;
        __syncthreads();
        if (b.needed) {
            const Some result = solve_b.solve(one.couplings(b.column, x, y));
            now.store(extrapolates ? extrapolated(result, before_b) : result, out + b.at);
        }
    }
}

// The levels of `cycle`: cells in shared memory at i + nx j; thread n has the n-th cell of either colour, m + half j.
constexpr int MOST_LEVELS = 12, MOST_THREADS = 512;

struct Level {
    int nx, ny, half, own; // cells of a colour: half ny
    T* u;
    T* f;
    T* columns; // same, shifted, south, north, total, area, for red and for black; not for the first level
    Layer layer;

    // The position of thread n's cell of a colour, if there is one.
    __device__ __forceinline__ bool cell(int n, int colour, int& i, int& j) const {
        j = int((float(n) + 0.5f) / float(half)); // exact for small numbers
        i = 2 * (n - half * j) + looks_east(j, colour);
        return n < own && i < nx;
    }

    __device__ __forceinline__ T couplings(const Column& column, int i, int j) const {
        const T* at = u + i + nx * j;
        T west = i > 0 ? at[-1] : T(0), east = i + 1 < nx ? at[1] : T(0);
        T south = j > 0 ? at[-nx] : T(0), north = j + 1 < ny ? at[nx] : T(0);
        bool odd = i & 1; // looks east
        T sum = fma(column.same, odd ? west : east, column.shifted * (odd ? east : west));
        return fma(column.south, south, fma(column.north, north, sum));
    }
};

// The data of a cycle.
struct Levels {
    Level* level;
    const Column (&top)[2]; // the thread's own coefficients on the first level

    __device__ __forceinline__ Column column(int l, int colour, int n) const {
        if (l == 0) return top[colour];
        const Level& level = this->level[l];
        const T* at = level.columns + 6 * level.own * colour + n;
        return Column{at[0], at[level.own], at[2 * level.own], at[3 * level.own], at[4 * level.own], at[5 * level.own], 0};
    }

    __device__ __forceinline__ void relax(int l, int colour, bool from_zero) const {
        const Level& level = this->level[l];
        int i, j, n = threadIdx.x;
        if (level.cell(n, colour, i, j)) {
            const Column column = this->column(l, colour, n);
            T sum = from_zero ? T(0) : level.couplings(column, i, j), f = level.f[i + level.nx * j];
            level.u[i + level.nx * j] = Equation(level.layer, column, reciprocal(column.area), f).solve(sum);
        }
        __syncthreads();
    }

    __device__ __forceinline__ void sweep(int l, int first, bool from_zero) const {
        relax(l, first, from_zero);
        relax(l, 1 - first, false);
    }

    // Computes the right-hand side of the next level after a sweep from zero. The residual of the colour swept first temporarily
    // overwrites its right-hand side.
    __device__ __forceinline__ void restrict_from(int l, int first) const {
        const Level &fine = level[l], &coarse = level[l + 1];
        int i, j, n = threadIdx.x;
        bool is_cell = fine.cell(n, first, i, j);
        T rhs = T(0);
        if (is_cell) {
            const Column column = this->column(l, first, n);
            rhs = fine.f[i + fine.nx * j];
            fine.f[i + fine.nx * j] = fine.layer.row_d * column.area * fine.couplings(column, i, j);
        }
        __syncthreads();
        for (int c = 0; c < 2; c++) {
            int ci, cj;
            if (!coarse.cell(n, c, ci, cj)) continue;
            T sum = T(0);
            for (int q = 0; q < 2 && 2 * cj + q < fine.ny; q++) {
                int at = 2 * ci + looks_east(2 * cj + q, first);
                if (at < fine.nx) sum += fine.f[at + fine.nx * (2 * cj + q)];
            }
            coarse.f[ci + coarse.nx * cj] = sum;
        }
        __syncthreads();
        if (is_cell) fine.f[i + fine.nx * j] = rhs;
    }

    // u += P e in the cells of one colour; the other colour is overwritten next.
    __device__ __forceinline__ void prolong_to(int l, int colour) const {
        const Level &fine = level[l], &coarse = level[l + 1];
        int i, j;
        if (fine.cell(threadIdx.x, colour, i, j)) {
            Linear x = linear(i, fine.nx, 0, coarse.nx), y = linear(j, fine.ny, 0, coarse.ny);
            const T *near = coarse.u + coarse.nx * y.own, *far = coarse.u + coarse.nx * y.beyond;
            T sum = y.near * fma(x.near, near[x.own], x.far * near[x.beyond]);
            fine.u[i + fine.nx * j] += fma(y.far, fma(x.near, far[x.own], x.far * far[x.beyond]), sum);
        }
        __syncthreads();
    }
};

// One cycle from zero on `count` levels, with a sweep before and after the coarser ones and `coarse_sweeps` on the last, each beginning
// with colour `first`: u is the result for f.
// Launch: one block per layer, with at least half a row's columns, rounded up, times the rows of the first level. Dynamic shared memory:
// two numbers per cell of all levels, and twelve per thread's cell of all levels but the first.
KERNEL(cycle, __launch_bounds__(MOST_THREADS))(const Operator* __restrict__ operators, int count, int coarse_sweeps, int first,
                                               In f, Out u) {
    extern __shared__ __align__(16) unsigned char dynamic[];
    __shared__ Level level[MOST_LEVELS];
    const int k = blockIdx.x, n = threadIdx.x;
    if (n < count) {
        T* room = reinterpret_cast<T*>(dynamic);
        for (int l = 0; l < n; l++) {
            int nx = operators[l].nx, ny = operators[l].ny;
            room += 2 * nx * ny + (l > 0 ? 12 * ((nx + 1) / 2) * ny : 0);
        }
        const Operator& op = operators[n];
        Level own;
        own.nx = op.nx, own.ny = op.ny, own.half = (op.nx + 1) / 2, own.own = own.half * op.ny;
        own.u = room, own.f = room + op.nx * op.ny, own.columns = room + 2 * op.nx * op.ny;
        own.layer = load_layer(op, k);
        level[n] = own;
    }
    const Operator& op = operators[0];
    Column top[2];
    int i[2] = {}, j[2] = {};
    bool is_cell[2];
    auto at = [&](int c) { return plane(op, j[c], c) + (long long)op.pitch * k + (i[c] >> 1); };
    __syncthreads();
#pragma unroll
    for (int c = 0; c < 2; c++) {
        is_cell[c] = level[0].cell(n, c, i[c], j[c]);
        top[c] = load_column(op, is_cell[c] ? j[c] : 0, c, is_cell[c] ? i[c] >> 1 : 0);
    }
    for (int l = 1; l < count; l++) {
        int ci, cj, own = level[l].own;
        for (int c = 0; c < 2; c++) {
            if (!level[l].cell(n, c, ci, cj)) continue;
            const Column column = load_column(operators[l], cj, c, ci >> 1);
            T* to = level[l].columns + 6 * own * c + n;
            to[0] = column.same, to[own] = column.shifted, to[2 * own] = column.south, to[3 * own] = column.north;
            to[4 * own] = column.total, to[5 * own] = column.area;
        }
    }
    await_previous();
#pragma unroll
    for (int c = 0; c < 2; c++)
        if (is_cell[c]) level[0].f[i[c] + op.nx * j[c]] = f[at(c)];
    __syncthreads();
    const Levels levels{level, top};
    for (int l = 0; l + 1 < count; l++) {
        levels.sweep(l, first, true);
        levels.restrict_from(l, first);
    }
    for (int s = 0; s < coarse_sweeps; s++) levels.sweep(count - 1, first, s == 0);
    for (int l = count - 2; l >= 0; l--) {
        levels.prolong_to(l, 1 - first);
        levels.sweep(l, first, false);
    }
#pragma unroll
    for (int c = 0; c < 2; c++)
        if (is_cell[c]) u[at(c)] = level[0].u[i[c] + op.nx * j[c]];
}
