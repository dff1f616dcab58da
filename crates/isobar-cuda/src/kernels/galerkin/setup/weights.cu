// Weights of interpolation in one direction: isobar_core::stencil::galerkin::weights says what they are.
//
// Odd cells of a plane across the direction are relaxed by lines in z (for weights in z: in x), of which every other one, by
// their j (for weights in y: by their i), is left alone in a half sweep. What belongs to an odd cell is stored in `Scratch`.
//
// Kernels with a cell or a line a thread: block 256 or 64, as many blocks as it takes.
#include "galerkin/setup/setup.cuh"

// Weights that add up to so nearly 1 are made to; ten times as much in single precision, whose rounding elimination adds up.
constexpr double NEARLY = sizeof(Number) == 4 ? 10 * NEARLY_ONE : NEARLY_ONE;

// Of odd cells, in their order.
struct Scratch {
    // Couplings to the planes below and above, added up, not less than 0; -1 in an inactive cell.
    Number* down;
    Number* up;
    // Of the lines' matrices: first what else a cell is tied to, then 1 over the pivots; the coupling to the next cell.
    Number* pivot;
    Number* next;
    // Right-hand sides.
    Number* right[2];
};

// Lines: how many there are side by side and beyond each other, their length, and how far apart their cells are.
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

// An odd cell by its number in a line and the line's numbers.
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

// Whether a step within the plane across AXIS is one along the line.
template <int AXIS> __device__ __forceinline__ bool in_line(int dx, int dy, int dz) {
    return dy == 0 && (AXIS == Z ? dx != 0 && dz == 0 : dx == 0 && dz != 0);
}

// Whether a step ends inside the grid; across periodic sides weights go their own ways.
__device__ __forceinline__ bool stays(const Weights& w, const Cell& odd, int dx, int dy, int dz) {
    return (unsigned int)(odd.i + dx) < (unsigned int)w.nx && (unsigned int)(odd.j + dy) < (unsigned int)w.ny &&
           (unsigned int)(odd.k + dz) < (unsigned int)w.nz;
}

// The first guess, and the lines' matrices. A cell a thread.
template <int AXIS> __device__ __forceinline__ void start(const Matrix& a, const Weights& w, const Scratch& s) {
    const unsigned int n = blockIdx.x * 256 + threadIdx.x;
    if (n >= (unsigned int)w.nx * w.ny * w.nz) return;
    const Cell odd = cell_at(w.nx, w.ny, n), at = fine_cell<AXIS>(odd);
    const double sum = sums(a)[place(a, at)];
    double down = 0, up = 0, across = 0, next = 0, diagonal = sum;
    for_each_coupling(a, at, [&](int dx, int dy, int dz, double c, const Cell&) {
        diagonal += c;
        const int d = along<AXIS>(dx, dy, dz);
        if (d < 0) {
            down += c;
        } else if (d > 0) {
            up += c;
        } else if (stays(w, odd, dx, dy, dz)) {
            if (!in_line<AXIS>(dx, dy, dz)) across += max(c, 0.0);
            else if (dx + dz > 0) next = max(c, 0.0);
        }
    });
    down = max(down, 0.0);
    up = max(up, 0.0);
    const double cap = up + down + max(sum, 0.0);
    const int number = along<AXIS>(odd.i, odd.j, odd.k);
    const bool is_end = 2 * number + 2 == along<AXIS>(a.nx, a.ny, a.nz) && !(a.periodic >> AXIS & 1);
    w.below[n] = cap > 0 ? down / cap : is_end ? 1 : 0.5;
    w.above[n] = cap > 0 ? up / cap : is_end ? 0 : 0.5;
    s.down[n] = diagonal > 0 ? down : -1;
    s.up[n] = up;
    s.pivot[n] = cap + across;
    s.next[n] = next;
}

// Numbers of a line that are on their way at once.
constexpr int AHEAD = 8;

// 1 over the pivots of all lines, none of which is a difference. A line a thread.
template <int AXIS> __device__ __forceinline__ void factorise(const Weights& w, const Scratch& s) {
    const Lines l = lines<AXIS>(w, 0, true);
    const unsigned int line = blockIdx.x * 64 + threadIdx.x, second = line / l.first;
    if (second >= l.second) return;
    const unsigned int first = place(w, line_cell<AXIS>(w, 0, true, line - second * l.first, second, 0));
    double excess = 0, before = 0;
    for (int start = 0; start < l.length; start += AHEAD) {
        double out[AHEAD], next[AHEAD];
#pragma unroll
        for (int n = 0; n < AHEAD; n++) {
            const unsigned int at = first + l.stride * min(start + n, l.length - 1);
            out[n] = s.pivot[at];
            next[n] = s.next[at];
        }
#pragma unroll
        for (int n = 0; n < AHEAD; n++) {
            if (start + n >= l.length) break;
            const double e = before * excess + out[n], sum = next[n] + e;
            const double pivot = sum > 0 ? 1 / sum : 0;
            s.pivot[first + l.stride * (start + n)] = pivot;
            excess = e * pivot;
            before = next[n];
        }
    }
}

// What the lines of a half sweep are given by the others. A cell a thread.
template <int AXIS>
__device__ __forceinline__ void gather(const Matrix& a, const Weights& w, const Scratch& s, int parity) {
    const Lines l = lines<AXIS>(w, parity, false);
    unsigned int n = blockIdx.x * 256 + threadIdx.x;
    if (n >= (unsigned int)l.first * l.second * l.length) return;
    const unsigned int first = n % l.first;
    n /= l.first;
    const Cell odd = line_cell<AXIS>(w, parity, false, first, n % l.second, n / l.second);
    const unsigned int own = place(w, odd);
    double below = max(double(s.down[own]), 0.0), above = s.up[own];
    for_each_coupling(a, fine_cell<AXIS>(odd), [&](int dx, int dy, int dz, double c, const Cell&) {
        if (along<AXIS>(dx, dy, dz) != 0 || in_line<AXIS>(dx, dy, dz) || !stays(w, odd, dx, dy, dz)) return;
        const unsigned int to = place(w, {odd.i + dx, odd.j + dy, odd.k + dz});
        const double q = max(c, 0.0);
        below += q * w.below[to];
        above += q * w.above[to];
    });
    s.right[0][own] = below;
    s.right[1][own] = above;
}

__device__ __forceinline__ double within_one(double w) { return min(max(w, 0.0), 1.0); }

// Solves with the lines of a half sweep. A line a thread.
template <int AXIS> __device__ __forceinline__ void solve(const Weights& w, const Scratch& s, int parity) {
    const Lines l = lines<AXIS>(w, parity, false);
    const unsigned int line = blockIdx.x * 64 + threadIdx.x, second = line / l.first;
    if (second >= l.second) return;
    const unsigned int first = place(w, line_cell<AXIS>(w, parity, false, line - second * l.first, second, 0));
    double before = 0, below = 0, above = 0;
    for (int start = 0; start < l.length; start += AHEAD) {
        double right[2][AHEAD], pivot[AHEAD], next[AHEAD];
#pragma unroll
        for (int n = 0; n < AHEAD; n++) {
            const unsigned int at = first + l.stride * min(start + n, l.length - 1);
            right[0][n] = s.right[0][at];
            right[1][n] = s.right[1][at];
            pivot[n] = s.pivot[at];
            next[n] = s.next[at];
        }
#pragma unroll
        for (int n = 0; n < AHEAD; n++) {
            if (start + n >= l.length) break;
            const unsigned int at = first + l.stride * (start + n);
            s.right[0][at] = below = (right[0][n] + before * below) * pivot[n];
            s.right[1][at] = above = (right[1][n] + before * above) * pivot[n];
            before = next[n];
        }
    }
    below = above = 0;
    for (int end = l.length; end > 0; end -= AHEAD) {
        double value[2][AHEAD], factor[AHEAD];
#pragma unroll
        for (int n = 0; n < AHEAD; n++) {
            const unsigned int at = first + l.stride * max(end - 1 - n, 0);
            value[0][n] = s.right[0][at];
            value[1][n] = s.right[1][at];
            factor[n] = s.next[at] * s.pivot[at];
        }
#pragma unroll
        for (int n = 0; n < AHEAD; n++) {
            if (end - 1 - n < 0) break;
            const unsigned int at = first + l.stride * (end - 1 - n);
            below = value[0][n] + factor[n] * below;
            above = value[1][n] + factor[n] * above;
            w.below[at] = within_one(below);
            w.above[at] = within_one(above);
        }
    }
}

// Makes weights exactly 1 together where they nearly are, and 0 in inactive cells. A cell a thread.
template <int AXIS> __device__ __forceinline__ void finish(const Matrix& a, const Weights& w, const Scratch& s) {
    const unsigned int n = blockIdx.x * 256 + threadIdx.x;
    if (n >= (unsigned int)w.nx * w.ny * w.nz) return;
    const Cell odd = cell_at(w.nx, w.ny, n);
    double below = w.below[n], above = w.above[n];
    if (2 * along<AXIS>(odd.i, odd.j, odd.k) + 2 == along<AXIS>(a.nx, a.ny, a.nz) && !(a.periodic >> AXIS & 1)) above = 0;
    const double total = below + above;
    if (total > 1 - NEARLY) {
        above /= total;
        below = 1 - above;
    }
    const bool is_active = s.down[n] >= 0;
    w.below[n] = is_active ? below : 0;
    w.above[n] = is_active ? above : 0;
}

#define KERNELS(AXIS, NAME)                                                                                                  \
    extern "C" __global__ void __launch_bounds__(256) start_##NAME(Matrix a, Weights w, Scratch s) { start<AXIS>(a, w, s); } \
    extern "C" __global__ void __launch_bounds__(64) factorise_##NAME(Weights w, Scratch s) { factorise<AXIS>(w, s); }       \
    extern "C" __global__ void __launch_bounds__(256) gather_##NAME(Matrix a, Weights w, Scratch s, int parity) {            \
        gather<AXIS>(a, w, s, parity);                                                                                       \
    }                                                                                                                        \
    extern "C" __global__ void __launch_bounds__(64) solve_##NAME(Weights w, Scratch s, int parity) {                        \
        solve<AXIS>(w, s, parity);                                                                                           \
    }                                                                                                                        \
    extern "C" __global__ void __launch_bounds__(256) finish_##NAME(Matrix a, Weights w, Scratch s) { finish<AXIS>(a, w, s); }

KERNELS(X, x)
KERNELS(Y, y)
KERNELS(Z, z)
