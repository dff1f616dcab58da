// Weights of interpolation in one direction, see isobar_core::stencil::galerkin::weights.
//
// Odd cells of a plane across the direction are relaxed by lines in z (for weights in z: in x), every other line
// per half sweep, by j (for weights in y: by i). Temporary data of odd cells is stored in `Scratch`.
//
// Kernels with one thread per cell, column or line: block 256 or 64, as many blocks as needed.
#include "galerkin/setup/setup.cuh"

// Weights that sum to nearly 1 are made to sum to 1; ten times looser in single precision, because elimination accumulates rounding.
constexpr double NEARLY = sizeof(Number) == 4 ? 10 * NEARLY_ONE : NEARLY_ONE;

// Temporary data of odd cells, in their order.
struct Scratch {
    // Sums of couplings to the planes below and above, not less than 0; -1 in an inactive cell; negated, zeros too,
    // if the cells below and above are both closed.
    Number* down;
    Number* up;
    // The lines' matrices: first the sum of a cell's other couplings, then 1 over the pivots; the coupling to the next cell.
    Number* pivot;
    Number* next;
    // Right-hand sides.
    Number* right[2];
};

// Lines: their numbers in two directions, their length, and the distance of their cells.
struct Lines {
    int first, second, length;
    unsigned int stride;
};

template <int AXIS> constexpr int LINE = AXIS == Z ? X : Z;

// The lines of one half sweep, or all.
template <int AXIS> __device__ __forceinline__ Lines lines(const Weights& w, int parity, bool all) {
    const int planes = all ? w.ny : (w.ny + 1 - parity) >> 1, columns = all ? w.nx : (w.nx + 1 - parity) >> 1;
    if (AXIS == X) return {planes, w.nx, w.nz, (unsigned int)w.ny * w.nx};
    if (AXIS == Y) return {w.ny, columns, w.nz, (unsigned int)w.ny * w.nx};
    return {planes, w.nz, w.nx, (unsigned int)w.ny};
}

// An odd cell, from its number in a line and the line's numbers.
template <int AXIS>
__device__ __forceinline__ Cell line_cell(const Weights& w, int parity, bool all, int first, int second, int n) {
    const int j = all || AXIS == Y ? unfolded(first, w.ny) : 2 * first + parity;
    if (AXIS == X) return {second, j, n};
    if (AXIS == Y) return {all ? second : 2 * second + parity, j, n};
    return {n, j, second};
}

template <int AXIS> __device__ __forceinline__ Cell fine_cell(const Cell& odd) {
    return {AXIS == X ? 2 * odd.i + 1 : odd.i, AXIS == Y ? 2 * odd.j + 1 : odd.j, AXIS == Z ? 2 * odd.k + 1 : odd.k};
}

// Whether a step within the plane across AXIS is along the line.
template <int AXIS> __device__ __forceinline__ bool in_line(int dx, int dy, int dz) {
    return dy == 0 && (AXIS == Z ? dx != 0 && dz == 0 : dx == 0 && dz != 0);
}

// Whether a step in y from row j is one across the period.
__device__ __forceinline__ bool crosses(const Matrix& a, int j, int dy) { return dy != 0 && j + (dy > 0) == a.seam; }

// Whether a step ends inside the grid; weights on the other side of a periodic direction are ignored.
__device__ __forceinline__ bool stays(const Matrix& a, const Weights& w, const Cell& odd, int dx, int dy, int dz) {
    return (unsigned int)(odd.i + dx) < (unsigned int)w.nx && (unsigned int)(odd.j + dy) < (unsigned int)w.ny &&
           (unsigned int)(odd.k + dz) < (unsigned int)w.nz && !crosses(a, odd.j, dy);
}

// Computes the first guess and the lines' matrices. One thread per column of STARTED cells.
constexpr int STARTED = 2;

template <int AXIS> __device__ __forceinline__ void start(const Matrix& a, const Weights& w, const Scratch& s) {
    await_previous();
    const unsigned int thread = blockIdx.x * 256 + threadIdx.x, layer = (unsigned int)w.nx * w.ny;
    if (thread >= layer * ((w.nz + STARTED - 1) / STARTED)) return;
    Cell odd = cell_at(w, thread);
    odd.k *= STARTED;
    const Column<STARTED> column(a, fine_cell<AXIS>(odd), AXIS == Z ? 2 : 1);
    double down[STARTED] = {}, up[STARTED] = {}, across[STARTED] = {}, next[STARTED] = {}, sum[STARTED], diagonal[STARTED];
    bool is_tied[STARTED] = {};
#pragma unroll
    for (int m = 0; m < STARTED; m++) diagonal[m] = sum[m] = sums(a)[column.place_of(m)];
    for_each_coupling(a, column, [&](int m, int dx, int dy, int dz, double c) {
        diagonal[m] += c;
        const int d = along<AXIS>(dx, dy, dz);
        is_tied[m] |= d != 0 && abs(dx) + abs(dy) + abs(dz) == 1 && c != 0;
        if (d < 0) {
            down[m] += c;
        } else if (d > 0) {
            up[m] += c;
        } else if (stays(a, w, {odd.i, odd.j, odd.k + m}, dx, dy, dz)) {
            if (!in_line<AXIS>(dx, dy, dz)) across[m] += max(c, 0.0);
            else if (dx + dz > 0) next[m] = max(c, 0.0);
        }
    });
    const unsigned int first = place(w, odd);
#pragma unroll
    for (int m = 0; m < STARTED; m++) {
        if (odd.k + m >= w.nz) break;
        const unsigned int n = first + layer * m;
        down[m] = max(down[m], 0.0);
        up[m] = max(up[m], 0.0);
        const double shift = sum[m] > SMALL_SHIFT * diagonal[m] ? max(sum[m], 0.0) : 0;
        const double cap = up[m] + down[m] + shift;
        const int number = along<AXIS>(odd.i, odd.j, odd.k + m);
        const bool is_end = 2 * number + 2 == along<AXIS>(a.nx, a.ny, a.nz) && !(a.periodic >> AXIS & 1);
        w.below[n] = cap > 0 ? down[m] / cap : is_end ? 1 : 0.5;
        w.above[n] = cap > 0 ? up[m] / cap : is_end ? 0 : 0.5;
        s.down[n] = diagonal[m] > 0 ? down[m] : -1;
        s.up[n] = is_tied[m] ? up[m] : -up[m];
        s.pivot[n] = cap + across[m];
        s.next[n] = next[m];
    }
}

// Numbers of a line loaded in advance.
constexpr int AHEAD = 8;

// Computes 1 over the pivots of all lines, without subtractions. One thread per line.
template <int AXIS> __device__ __forceinline__ void factorise(const Weights& w, const Scratch& s) {
    await_previous();
    const Lines l = lines<AXIS>(w, 0, true);
    const unsigned int line = blockIdx.x * 64 + threadIdx.x, second = line / l.first;
    if (second >= l.second) return;
    const unsigned int first = place(w, line_cell<AXIS>(w, 0, true, line - second * l.first, second, 0));
    double excess = 0, before = 0;
    Number out[AHEAD], next[AHEAD];
    auto load = [&](int start) {
#pragma unroll
        for (int n = 0; n < AHEAD; n++) {
            const unsigned int at = first + l.stride * min(start + n, l.length - 1);
            out[n] = s.pivot[at];
            next[n] = s.next[at];
        }
    };
    load(0);
    for (int start = 0; start < l.length; start += AHEAD) {
        double own[AHEAD], coupling[AHEAD];
#pragma unroll
        for (int n = 0; n < AHEAD; n++) {
            own[n] = out[n];
            coupling[n] = next[n];
        }
        // Under way during the divisions.
        load(start + AHEAD);
#pragma unroll
        for (int n = 0; n < AHEAD; n++) {
            if (start + n >= l.length) break;
            const double e = before * excess + own[n], sum = coupling[n] + e;
            const double pivot = sum > 0 ? 1 / sum : 0;
            s.pivot[first + l.stride * (start + n)] = pivot;
            excess = e * pivot;
            before = coupling[n];
        }
    }
}

__device__ __forceinline__ double within_one(double w) { return min(max(w, 0.0), 1.0); }

// Cells of a line per thread, and the most threads per block that relaxes: two blocks fit on a multiprocessor, and one loads while
// the other computes.
constexpr int CELLS = 8, THREADS = 256;

// A line and its neighbour lines, which are not relaxed in the same half sweep: positions of their cells in weights and in the matrix.
struct Line {
    unsigned int first, stride, fine, fine_stride;
    unsigned int beside[2], fine_beside[2];
    bool exists[2];
};

template <int AXIS> __device__ __forceinline__ Line line_at(const Matrix& a, const Weights& w, const Lines& l, const Cell& odd) {
    Line line;
    line.first = place(w, odd);
    line.stride = l.stride;
    line.fine = place(a, fine_cell<AXIS>(odd));
    line.fine_stride = AXIS == Z ? a.ny : (unsigned int)a.ny * a.nx;
#pragma unroll
    for (int side = 0; side < 2; side++) {
        const int step = 2 * side - 1;
        const Cell next = {AXIS == Y ? odd.i + step : odd.i, AXIS == Y ? odd.j : odd.j + step, odd.k};
        line.exists[side] = AXIS == Y ? (unsigned int)next.i < (unsigned int)w.nx
                                      : (unsigned int)next.j < (unsigned int)w.ny && !crosses(a, odd.j, step);
        line.beside[side] = line.exists[side] ? place(w, next) : line.first;
        line.fine_beside[side] = line.exists[side] ? place(a, fine_cell<AXIS>(next)) : line.fine;
    }
    return line;
}

// The contributions of neighbour lines to cells of a line, from `begin` on, except across periodic sides. Loads depend
// only on whether there are couplings in a direction at all.
template <int AXIS>
__device__ __forceinline__ void gather(const Matrix& a, const Weights& w, const Scratch& s, const Line& line, int length, int begin,
                                       double (&given)[2][CELLS]) {
    auto number = [&](int n) { return min(begin + n, length - 1); };
    Number own[2][CELLS];
#pragma unroll
    for (int n = 0; n < CELLS; n++) {
        own[0][n] = s.down[line.first + line.stride * number(n)];
        own[1][n] = s.up[line.first + line.stride * number(n)];
    }
#pragma unroll
    for (int n = 0; n < CELLS; n++) {
        given[0][n] = max(double(own[0][n]), 0.0);
        given[1][n] = fabs(double(own[1][n]));
    }
#pragma unroll
    for (int side = 0; side < 2; side++) {
#pragma unroll
        for (int step = -1; step <= 1; step++) {
            const int across = 2 * side - 1;
            const int dx = AXIS == Y ? across : AXIS == Z ? step : 0, dy = AXIS == Y ? 0 : across, dz = AXIS == Z ? 0 : step;
            const int offset = (dx + 1) + 3 * (dz + 1) + 9 * (dy + 1);
            const int stored = offset > UPPER ? offset - UPPER - 1 : UPPER - 1 - offset;
            if (!(a.present >> stored & 1)) continue;
            const Number* __restrict__ field = a.fields + a.cells * __popc(a.present & ((1u << stored) - 1));
            // A missing neighbour is replaced by the cell itself, without effect.
            auto exists = [&](int n) { return line.exists[side] && (unsigned int)(number(n) + step) < (unsigned int)length; };
            auto beside = [&](int n) { return exists(n) ? number(n) + step : number(n); };
            Number c[CELLS], below[CELLS], above[CELLS];
#pragma unroll
            for (int n = 0; n < CELLS; n++) {
                c[n] = field[offset > UPPER ? line.fine + line.fine_stride * number(n)
                                            : line.fine_beside[side] + line.fine_stride * beside(n)];
                below[n] = w.below[line.beside[side] + line.stride * beside(n)];
                above[n] = w.above[line.beside[side] + line.stride * beside(n)];
            }
#pragma unroll
            for (int n = 0; n < CELLS; n++) {
                const double q = exists(n) ? max(double(c[n]), 0.0) : 0;
                given[0][n] += q * below[n];
                given[1][n] += q * above[n];
            }
        }
    }
}

// Relaxes the lines of a half sweep. Threads adjacent in y share a line: each has some of its cells, for which elimination
// and substitution are affine maps of the incoming values, without subtractions. A line longer than all of them together is
// processed in pieces.
template <int AXIS> __device__ __forceinline__ void relax(const Matrix& a, const Weights& w, const Scratch& s, int parity) {
    await_previous();
    __shared__ double maps[3][THREADS];
    const Lines l = lines<AXIS>(w, parity, false);
    const unsigned int number = blockIdx.x * blockDim.x + threadIdx.x, all = (unsigned int)l.first * l.second;
    const unsigned int at = min(number, all - 1), second = at / l.first;
    const Line line = line_at<AXIS>(a, w, l, line_cell<AXIS>(w, parity, false, at - second * l.first, second, 0));
    const int lanes = blockDim.x, chunk = threadIdx.y, chunks = blockDim.y, piece = CELLS * chunks, own = threadIdx.x + lanes * chunk;
    double values[2][CELLS];
    Number pivot[CELLS], next[CELLS], before;
    auto cell = [&](int n) { return line.first + line.stride * min(n, l.length - 1); };
    // Cells beyond the end pass nothing on.
    auto load = [&](int begin) {
        before = s.next[cell(max(begin - 1, 0))];
#pragma unroll
        for (int n = 0; n < CELLS; n++) {
            pivot[n] = s.pivot[cell(begin + n)];
            next[n] = s.next[cell(begin + n)];
        }
        if (begin == 0) before = 0;
#pragma unroll
        for (int n = 0; n < CELLS; n++) pivot[n] = begin + n < l.length ? pivot[n] : Number(0);
    };
    // The value that enters this chunk, given that of the first chunk; `to` becomes the value that leaves the last chunk.
    auto scan = [&](bool is_forward, double factor, double below, double above, double (&in)[2], double (&to)[2]) {
        __syncthreads();
        maps[0][own] = factor;
        maps[1][own] = below;
        maps[2][own] = above;
        __syncthreads();
#pragma unroll 4
        for (int n = 0; n < chunks; n++) {
            const int other = is_forward ? n : chunks - 1 - n, from = threadIdx.x + lanes * other;
            if (other == chunk) {
                in[0] = to[0];
                in[1] = to[1];
            }
            to[0] = maps[1][from] + maps[0][from] * to[0];
            to[1] = maps[2][from] + maps[0][from] * to[1];
        }
    };
    double in[2], passed[2] = {0, 0};
    int start = 0;
    for (;; start += piece) {
        const int begin = start + CELLS * chunk;
        load(begin);
        gather<AXIS>(a, w, s, line, l.length, begin, values);
        double factor = 1, below = 0, above = 0;
#pragma unroll
        for (int n = 0; n < CELLS; n++) {
            const double m = double(n > 0 ? next[n - 1] : before) * pivot[n];
            values[0][n] = below = values[0][n] * pivot[n] + m * below;
            values[1][n] = above = values[1][n] * pivot[n] + m * above;
            factor *= m;
        }
        scan(true, factor, below, above, in, passed);
#pragma unroll
        for (int n = 0; n < CELLS; n++) {
            const double m = double(n > 0 ? next[n - 1] : before) * pivot[n];
            values[0][n] += in[0] *= m;
            values[1][n] += in[1] *= m;
        }
        if (start + piece >= l.length) break;
#pragma unroll
        for (int n = 0; n < CELLS; n++) {
            s.right[0][cell(begin + n)] = values[0][n];
            s.right[1][cell(begin + n)] = values[1][n];
        }
    }
    passed[0] = passed[1] = 0;
    for (;; start -= piece) {
        const int begin = start + CELLS * chunk;
        double factor = 1, below = 0, above = 0;
#pragma unroll
        for (int n = CELLS - 1; n >= 0; n--) {
            const double f = double(next[n]) * pivot[n];
            values[0][n] = below = values[0][n] + f * below;
            values[1][n] = above = values[1][n] + f * above;
            factor *= f;
        }
        scan(false, factor, below, above, in, passed);
#pragma unroll
        for (int n = CELLS - 1; n >= 0; n--) {
            const double f = double(next[n]) * pivot[n];
            in[0] *= f;
            in[1] *= f;
            if (number < all && begin + n < l.length) {
                w.below[cell(begin + n)] = within_one(values[0][n] + in[0]);
                w.above[cell(begin + n)] = within_one(values[1][n] + in[1]);
            }
        }
        if (start == 0) break;
        load(begin - piece);
#pragma unroll
        for (int n = 0; n < CELLS; n++) {
            values[0][n] = s.right[0][cell(begin - piece + n)];
            values[1][n] = s.right[1][cell(begin - piece + n)];
        }
    }
}

// Gives all weight to the larger one if both cells are closed, omits negligible weights, makes sums exactly 1
// if they nearly are, and weights 0 in inactive cells; resets *any to 0 for the product. One thread per cell.
template <int AXIS> __device__ __forceinline__ void finish(const Matrix& a, const Weights& w, const Scratch& s, int* any) {
    await_previous();
    const unsigned int n = blockIdx.x * 256 + threadIdx.x;
    if (n == 0) *any = 0;
    if (n >= (unsigned int)w.nx * w.ny * w.nz) return;
    const Cell odd = cell_at(w, n);
    double below = w.below[n], above = w.above[n];
    if (2 * along<AXIS>(odd.i, odd.j, odd.k) + 2 == along<AXIS>(a.nx, a.ny, a.nz) && !(a.periodic >> AXIS & 1)) above = 0;
    const double total = below + above;
    if (signbit(s.up[n])) {
        below = above > LEANING * below ? 0 : total;
        above = total - below;
    }
    const bool keeps[2] = {below >= NEGLIGIBLE, above >= NEGLIGIBLE};
    below = keeps[0] ? (keeps[1] ? below : total) : 0;
    above = keeps[1] ? (keeps[0] ? above : total) : 0;
    if (total > 1 - NEARLY) {
        above /= total;
        below = 1 - above;
    }
    const bool is_active = s.down[n] >= 0;
    w.below[n] = is_active ? below : 0;
    w.above[n] = is_active ? above : 0;
}

#define KERNELS(AXIS, NAME)                                                                                \
    KERNEL(start_##NAME, __launch_bounds__(256))(Matrix a, Weights w, Scratch s) { start<AXIS>(a, w, s); } \
    KERNEL(factorise_##NAME, __launch_bounds__(64))(Weights w, Scratch s) { factorise<AXIS>(w, s); }       \
    KERNEL(relax_##NAME, __launch_bounds__(THREADS, 2))(Matrix a, Weights w, Scratch s, int parity) {      \
        relax<AXIS>(a, w, s, parity);                                                                      \
    }                                                                                                      \
    KERNEL(finish_##NAME, __launch_bounds__(256))(Matrix a, Weights w, Scratch s, int* any) {              \
        finish<AXIS>(a, w, s, any);                                                                        \
    }

KERNELS(X, x)
KERNELS(Y, y)
KERNELS(Z, z)
