// Direct solves of separable matrices: products with the eigenvectors of one axis, and tridiagonal systems along another, on
// arrays in C order, (nz, ny, nx). See isobar-core/src/direct.
//
// A line consists of all `n` cells along an axis, `inner` numbers apart; line l begins at n inner (l / inner) + l % inner.
#include "reduce.cuh"
#include "tridiagonal.cuh"

// ---- Products. A block multiplies LINES lines by twice MODES columns of a matrix, DEPTH numbers of a line at a time.
constexpr int LINES = 64, MODES = 64, DEPTH = 16, THREADS = 256;
// Row length in shared memory, chosen so that the eight by four lanes of an operand have no bank conflicts.
constexpr int PITCH = MODES + 4, PITCH_ALONG = DEPTH + 4;
constexpr int DATA = LINES * PITCH_ALONG > DEPTH * PITCH ? LINES * PITCH_ALONG : DEPTH * PITCH;
constexpr int STAGE = 2 * DATA + 2 * DEPTH * PITCH;

// c += a b, 16 x 8 x 8, in the layout of tensor cores: lane 4 g + t holds rows g and g + 8, columns t and t + 4 of a; rows t and t + 4, column g
// of b; rows g and g + 8, columns 2 t and 2 t + 1 of c.
__device__ __forceinline__ void multiply_add(double (&c)[4], const double (&a)[4], const double (&b)[2]) {
#if __CUDA_ARCH__ >= 900
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
                 : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
#elif __CUDA_ARCH__ >= 800
#pragma unroll
    for (int half = 0; half < 4; half++) {
        int row = half & 1, depth = half >> 1;
        asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
                     : "+d"(c[2 * row]), "+d"(c[2 * row + 1])
                     : "d"(a[row + 2 * depth]), "d"(b[depth]));
    }
#else
    int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
#pragma unroll
    for (int k = 0; k < 8; k++) {
        int high = k >> 2;
        double upper = __shfl_sync(0xffffffffu, high ? a[2] : a[0], 4 * g + (k & 3));
        double lower = __shfl_sync(0xffffffffu, high ? a[3] : a[1], 4 * g + (k & 3));
        double first = __shfl_sync(0xffffffffu, high ? b[1] : b[0], 8 * t + (k & 3));
        double second = __shfl_sync(0xffffffffu, high ? b[1] : b[0], 8 * t + 4 + (k & 3));
        c[0] = fma(upper, first, c[0]);
        c[1] = fma(upper, second, c[1]);
        c[2] = fma(lower, first, c[2]);
        c[3] = fma(lower, second, c[3]);
    }
#endif
}

// The kind of a product: from lines to even and odd parts, from these parts to lines, or unfolded.
enum Fold { TO_MODES, FROM_MODES, NONE };

// to_m = sum_i matrix_im from_i along each line, with the matrix in two parts of `depth` rows and `pitch` columns, both padded with zeros. NONE:
// columns 0 ... width - 1 and width ... n - 1. TO_MODES: columns of even vectors, which multiply from_i + from_(n-1-i), and of odd vectors,
// which multiply differences. FROM_MODES: rows of even and of odd vectors; the sum and difference of their products are to_i and to_(n-1-i).
template <bool ALONG_X, Fold FOLD>
__device__ __forceinline__ void product(int n, int depth, int width, int pitch, int inner, int lines, int descending,
                                        const double* __restrict__ matrix, const double* __restrict__ from,
                                        double* __restrict__ to) {
    extern __shared__ double shared[];
    int tiles = (width + MODES - 1) / MODES;
    // The data that the previous kernel wrote last is still in the cache.
    int block = descending ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
    int first_mode = block % tiles * MODES, first_line = block / tiles * LINES;
    int thread = threadIdx.x, lane = thread & 31, g = lane >> 2, t = lane & 3;
    int warp_line = (thread >> 5 & 3) * 16, warp_mode = (thread >> 7) * 32;
    int rows = (depth + DEPTH - 1) / DEPTH * DEPTH;
    long long step = ALONG_X ? 1 : inner;
    auto start_of = [&](int line) {
        return ALONG_X ? (long long)line * n : (long long)(line / inner) * n * inner + line % inner;
    };
    // The part of the lines that this thread loads: with ALONG_X one place of four lines, else four places of one line.
    int own_line = ALONG_X ? thread / DEPTH : thread % LINES, own_place = ALONG_X ? thread % DEPTH : thread / LINES;
    long long start = ALONG_X ? 0 : start_of(first_line + own_line);
    auto bring = [&](int stage, int k0) {
        double* data = shared + stage * STAGE;
#pragma unroll
        for (int r = 0; r < 4; r++) {
            int line = ALONG_X ? own_line + r * (THREADS / DEPTH) : own_line;
            int place = ALONG_X ? own_place : own_place + r * (THREADS / LINES);
            int k = k0 + place, slot = ALONG_X ? line * PITCH_ALONG + place : place * PITCH + line;
            bool inside = first_line + line < lines && k < depth;
            long long at = ALONG_X ? start_of(first_line + line) : start;
            copy_async(data + slot, from + (inside ? at + k * step : 0), inside);
            if (FOLD != NONE) {
                int other = FOLD == TO_MODES ? n - 1 - k : depth + k;
                bool exists = inside && other < n;
                copy_async(data + DATA + slot, from + (exists ? at + other * step : 0), exists);
            }
        }
        double* columns = data + 2 * DATA;
#pragma unroll
        for (int r = 0; r < 4; r++) {
            int piece = thread + r * THREADS, part = piece / (DEPTH * MODES / 2), rest = piece % (DEPTH * MODES / 2);
            int row = rest / (MODES / 2), column = rest % (MODES / 2) * 2;
            const double* source = matrix + ((long long)part * rows + k0 + row) * pitch + first_mode + column;
            copy_async_16(columns + (part * DEPTH + row) * PITCH + column, source, true);
        }
        copy_async_commit();
    };
    double sums[2][4][4] = {};
    await_previous();
    bring(0, 0);
    for (int k0 = 0, stage = 0; k0 < rows; k0 += DEPTH, stage ^= 1) {
        copy_async_wait_for<0>();
        // All threads have used the other stage.
        __syncthreads();
        if (k0 + DEPTH < rows) bring(stage ^ 1, k0 + DEPTH);
        const double* data = shared + stage * STAGE;
        const double* columns = data + 2 * DATA;
#pragma unroll
        for (int k = 0; k < DEPTH; k += 8) {
            double a[2][4];
#pragma unroll
            for (int q = 0; q < 4; q++) {
                int line = warp_line + g + 8 * (q & 1), place = k + t + 4 * (q >> 1);
                int slot = ALONG_X ? line * PITCH_ALONG + place : place * PITCH + line;
                double one = data[slot];
                double two = FOLD == NONE ? one : data[DATA + slot];
                a[0][q] = FOLD == TO_MODES ? one + two : one;
                a[1][q] = FOLD == TO_MODES ? one - two : two;
            }
#pragma unroll
            for (int part = 0; part < 2; part++)
#pragma unroll
                for (int m = 0; m < 4; m++) {
                    const double* column = columns + (part * DEPTH + k + t) * PITCH + warp_mode + 8 * m + g;
                    double b[2] = {column[0], column[4 * PITCH]};
                    multiply_add(sums[part][m], a[part], b);
                }
        }
    }
    // Two numbers at once if aligned.
    bool in_pairs = ALONG_X && n % 2 == 0 && width % 2 == 0;
#pragma unroll
    for (int row = 0; row < 2; row++) {
        int line = first_line + warp_line + g + 8 * row;
        if (line >= lines) continue;
        double* target = to + start_of(line);
#pragma unroll
        for (int m = 0; m < 4; m++) {
            int mode = first_mode + warp_mode + 8 * m + 2 * t;
            double one[2], two[2];
#pragma unroll
            for (int c = 0; c < 2; c++) {
                double first = sums[0][m][2 * row + c], second = sums[1][m][2 * row + c];
                one[c] = FOLD == FROM_MODES ? first + second : first;
                two[c] = FOLD == FROM_MODES ? first - second : second;
            }
            if (in_pairs) {
                if (mode >= width) continue;
                *reinterpret_cast<double2*>(target + mode) = make_double2(one[0], one[1]);
                bool is_back = FOLD == FROM_MODES;
                *reinterpret_cast<double2*>(target + (is_back ? n - 2 - mode : width + mode)) =
                    is_back ? make_double2(two[1], two[0]) : make_double2(two[0], two[1]);
                continue;
            }
#pragma unroll
            for (int c = 0; c < 2; c++, mode++) {
                int other = FOLD == FROM_MODES ? n - 1 - mode : width + mode;
                if (mode >= width) continue;
                target[mode * step] = one[c];
                // With an odd number of cells the middle cell is its own mirror image.
                if (other < n && other != mode) target[other * step] = two[c];
            }
        }
    }
}

#define PRODUCT(name, along_x, fold)                                                                                      \
    KERNEL(name, __launch_bounds__(THREADS, 2))                                                                           \
        (int n, int depth, int width, int pitch, int inner, int lines, int descending, const double* __restrict__ matrix, \
             const double* __restrict__ from, double* __restrict__ to) {                                                  \
        product<along_x, fold>(n, depth, width, pitch, inner, lines, descending, matrix, from, to);                       \
    }

PRODUCT(multiply_x, true, NONE)
PRODUCT(multiply, false, NONE)
PRODUCT(to_modes_x, true, TO_MODES)
PRODUCT(to_modes, false, TO_MODES)
PRODUCT(from_modes_x, true, FROM_MODES)
PRODUCT(from_modes, false, FROM_MODES)

// ---- Tridiagonal systems T + mu D_a + nu D_b, in place. Elimination carries row sums (isobar-core/src/direct/lines.rs).
//
// The threads of a line, a power of two, share it in segments. Each thread eliminates all cells of its segment except the last; couplings then connect
// the last cells of adjacent segments. The remaining periodic system of last cells is halved until each is alone (parallel cyclic
// reduction; Hockney and Jesshope, 1981); then both ends of every segment are known. All numbers are sums and products of positive
// numbers. The pivots of segments do not depend on the right-hand side, and are computed first, while the previous kernel is still running.

// Cells of a segment that are eliminated in registers.
constexpr int MOST = 16;

// Data for removing means in a singular system: `mean` times the transform of the constant is subtracted from right-hand sides, and the mean from
// solutions: along the constant's line, if only that line has a mean, else by `totals`, each line's contribution to the sum of all cells.
struct Floating {
    const double *mean, *constant_a, *constant_b;
    double* totals;

    __device__ __forceinline__ double of_line(int a, int b) const { return constant_a[a] * constant_b[b]; }
};

// Solves for the first n of a line's `cells`. `width` lines per block; segments of more than MOST + 1 cells have their numbers in x and `kept`. The table of n cells is followed by the smallest
// pivot and a shift of the last cell, for the constant of a singular system.
template <bool IN_REGISTERS>
__device__ __forceinline__ void solve(int n, int cells, int inner, int lines, int extent, int width, const double* __restrict__ table,
                                      const double* __restrict__ values_a, const double* __restrict__ values_b, double* kept, double* x,
                                      const Floating& floating) {
    extern __shared__ double nodes[];
    enum Of { EXCESS, SUM, COUPLING, INVERSE, BEFORE_EXCESS = COUPLING, BEFORE_SUM = INVERSE, TOTAL = SUM };
    int within = threadIdx.x % width, segment = threadIdx.x / width, segments = blockDim.x / width;
    auto node = [&](Of what, int j) -> double& { return nodes[(what * segments + (j & segments - 1)) * width + within]; };
    int number = blockIdx.x * width + within, line = min(number, lines - 1);
    bool is_there = number < lines;
    int a = line % extent, b = line / extent;
    double mu = values_a[a], nu = values_b[b], least = __ldg(table + 4 * n);
    const double* couplings = table + n;
    auto row_sum = [&](int k) { return fma(nu, __ldg(table + 3 * n + k), fma(mu, __ldg(table + 2 * n + k), __ldg(table + k))); };
    auto first_of = [&](int j) { return (int)((long long)j * n / segments); };
    int first = first_of(segment), last = first_of(segment + 1) - 1, count = is_there ? last - first : 0;
    double* mine = x + start_of(line, cells, inner) + (long long)first * inner;
    double* kept_here = IN_REGISTERS ? nullptr : kept + (mine - x);
    double in_value[IN_REGISTERS ? MOST : 1], in_inverse[IN_REGISTERS ? MOST : 1];
    auto value = [&](int q) -> double& {
        if constexpr (IN_REGISTERS) return in_value[q];
        else return mine[(long long)q * inner];
    };
    auto inverse = [&](int q) -> double& {
        if constexpr (IN_REGISTERS) return in_inverse[q];
        else return kept_here[(long long)q * inner];
    };
    const int bound = IN_REGISTERS ? MOST : count;

    // The step to the last cell of the previous segment; for the first segment, to the last cell of all.
    double to_before = __ldg(couplings + (first > 0 ? first - 1 : n - 1)), coupling = to_before, excess = 0, before_excess = 0;
#pragma unroll(IN_REGISTERS ? MOST : 1)
    for (int q = 0; q < bound; q++) {
        if (q >= count) continue;
        double next = __ldg(couplings + first + q);
        excess += row_sum(first + q);
        double found = inverse_of(excess + next + coupling, least);
        inverse(q) = found;
        next *= found;
        before_excess = fma(coupling * found, excess, before_excess);
        excess *= next;
        coupling *= next;
    }
    excess += row_sum(last);
    if (mu == 0 && nu == 0 && segment == segments - 1) excess += __ldg(table + 4 * n + 1);

    await_previous();
    double removed = floating.mean ? *floating.mean * floating.of_line(a, b) : 0;
    if (IN_REGISTERS) {
#pragma unroll
        for (int q = 0; q < MOST; q++)
            if (q < count) value(q) = mine[(long long)q * inner];
    }
    double own = mine[(long long)(last - first) * inner], reach = to_before, carried = 0, before_sum = 0;
#pragma unroll(IN_REGISTERS ? MOST : 1)
    for (int q = 0; q < bound; q++) {
        if (q >= count) continue;
        double next = __ldg(couplings + first + q), scaled = inverse(q) * (value(q) - removed + carried);
        value(q) = scaled;
        carried = next * scaled;
        before_sum = fma(reach, scaled, before_sum);
        reach *= next * inverse(q);
    }
    node(BEFORE_EXCESS, segment) = before_excess;
    node(BEFORE_SUM, segment) = before_sum;
    __syncthreads();
    excess += node(BEFORE_EXCESS, segment + 1);
    double sum = own - removed + carried + node(BEFORE_SUM, segment + 1);
    for (int apart = 1; apart < segments; apart *= 2) {
        __syncthreads();
        node(EXCESS, segment) = excess;
        node(SUM, segment) = sum;
        node(COUPLING, segment) = coupling;
        __syncthreads();
        double above = node(COUPLING, segment + apart);
        node(INVERSE, segment) = inverse_of(excess + coupling + above, least);
        __syncthreads();
        int lower = segment - apart, upper = segment + apart;
        double from_lower = coupling * node(INVERSE, lower), from_upper = above * node(INVERSE, upper);
        excess = fma(from_lower, node(EXCESS, lower), fma(from_upper, node(EXCESS, upper), excess));
        sum = fma(from_lower, node(SUM, lower), fma(from_upper, node(SUM, upper), sum));
        coupling = from_lower * node(COUPLING, lower);
    }
    own = sum * inverse_of(excess, least);
    __syncthreads();
    node(SUM, segment) = own;
    __syncthreads();
    double from_before = to_before * node(SUM, segment - 1), after = own, total = own;
#pragma unroll(IN_REGISTERS ? MOST : 1)
    for (int q = 0; q < bound; q++) {
        if (q >= count) continue;
        value(q) = fma(inverse(q), from_before, value(q));
        from_before *= __ldg(couplings + first + q) * inverse(q);
    }
#pragma unroll(IN_REGISTERS ? MOST : 1)
    for (int q = bound - 1; q >= 0; q--) {
        if (q >= count) continue;
        value(q) = after = fma(__ldg(couplings + first + q) * inverse(q), after, value(q));
        total += after;
    }
    double lowered = 0;
    if (floating.mean) {
        __syncthreads();
        node(TOTAL, segment) = total;
        __syncthreads();
        total = 0;
        for (int j = 0; j < segments; j++) total += node(TOTAL, j);
        if (!floating.totals)
            lowered = mu == 0 && nu == 0 ? total / n : 0;
        else if (is_there && segment == 0)
            floating.totals[line] = floating.of_line(a, b) * total;
    }
    if (!is_there) return;
#pragma unroll(IN_REGISTERS ? MOST : 1)
    for (int q = 0; q < bound; q++)
        if (q < count) mine[(long long)q * inner] = value(q) - lowered;
    mine[(long long)(last - first) * inner] = own - lowered;
}

#define SOLVE_LINES(name, in_registers)                                                                                        \
    KERNEL(name, __launch_bounds__(512))(int n, int cells, int inner, int lines, int extent, int width,                        \
             const double* __restrict__ table, const double* __restrict__ values_a, const double* __restrict__ values_b,       \
             double* __restrict__ kept, double* __restrict__ x, Floating floating) {                                           \
        solve<in_registers>(n, cells, inner, lines, extent, width, table, values_a, values_b, kept, x, floating);              \
    }

SOLVE_LINES(solve_lines, true)
SOLVE_LINES(solve_long_lines, false)

// ---- Residuals and sums, of arrays in C order.

// Tables of one axis: couplings to the next cell (for the last, across a periodic axis), shifts, and the weights of both along the other axes.
struct AxisTable {
    const double *coupling, *shift, *across[2];
};

struct Tables {
    AxisTable axis[3];
};

constexpr int ROW = 32, ROWS = 8;

// Neighbours along x.
template <int W> struct Cells {
    double value[W];
};

// W consecutive numbers, two at once if W = 2.
template <int W> __device__ __forceinline__ Cells<W> cells_at(const double* from) {
    if constexpr (W == 2) {
        double2 both = __ldg(reinterpret_cast<const double2*>(from));
        return {both.x, both.y};
    } else {
        return {__ldg(from)};
    }
}

// result = ||b - mean - A u||^2 and ||b - mean||^2, with mean = 0 if none is given; W cells per thread.
template <int W>
__device__ __forceinline__ void judge_cells(int nx, int ny, int nz, int layers, const Tables& tables, const double* mean,
                                            const double* __restrict__ b, const double* __restrict__ u, Reduction to) {
    __shared__ double scratch[2 * ROW * ROWS / 32];
    await_previous();
    double sums[2] = {0, 0}, removed = mean ? *mean : 0;
    int tiles_x = (nx + W * ROW - 1) / (W * ROW), tiles_y = (ny + ROWS - 1) / ROWS;
    long long tiles = (long long)tiles_x * tiles_y * ((nz + layers - 1) / layers), layer = (long long)nx * ny;
    const AxisTable &tx = tables.axis[0], &ty = tables.axis[1], &tz = tables.axis[2];
    for (long long tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        int i = W * ((int)(tile % tiles_x) * ROW + threadIdx.x), j = (int)(tile / tiles_x % tiles_y) * ROWS + threadIdx.y;
        int first = (int)(tile / tiles_x / tiles_y) * layers, end = min(first + layers, nz);
        if (i >= nx || j >= ny) continue;
        // Neighbours; at the ends of an axis the cells at the other end, with couplings of 0 if it is not periodic.
        int east = i + W < nx ? W : W - nx, west = i > 0 ? -1 : nx - 1;
        long long north = j + 1 < ny ? nx : nx - layer, south = j > 0 ? -nx : layer - nx;
        double along_x[W + 1], tie_x[W], of_y[W], of_z[W];
        along_x[0] = __ldg(tx.coupling + (i > 0 ? i - 1 : nx - 1));
#pragma unroll
        for (int w = 0; w < W; w++) {
            along_x[w + 1] = __ldg(tx.coupling + i + w);
            tie_x[w] = __ldg(tx.shift + i + w);
            of_y[w] = __ldg(ty.across[0] + i + w);
            of_z[w] = __ldg(tz.across[0] + i + w) * __ldg(tz.across[1] + j);
        }
        double to_north = __ldg(ty.coupling + j), to_south = __ldg(ty.coupling + (j > 0 ? j - 1 : ny - 1));
        double tie_y = __ldg(ty.shift + j), of_x = __ldg(tx.across[0] + j);
        long long at = i + nx * (long long)j + layer * first;
        Cells<W> below = cells_at<W>(u + (first > 0 ? at - layer : at + layer * (nz - 1))), here = cells_at<W>(u + at);
        double to_below = __ldg(tz.coupling + (first > 0 ? first - 1 : nz - 1));
        for (int k = first; k < end; k++, at += layer) {
            Cells<W> above = cells_at<W>(u + (k + 1 < nz ? at + layer : at - layer * (nz - 1))), given = cells_at<W>(b + at);
            Cells<W> behind = cells_at<W>(u + at + south), beyond = cells_at<W>(u + at + north);
            double left = __ldg(u + at + west), right = __ldg(u + at + east);
            double to_above = __ldg(tz.coupling + k), tie_z = __ldg(tz.shift + k);
            double scale_x = of_x * __ldg(tx.across[1] + k), scale_y = __ldg(ty.across[1] + k);
#pragma unroll
            for (int w = 0; w < W; w++) {
                double value = here.value[w];
                double before = w > 0 ? here.value[w - 1] : left, after = w + 1 < W ? here.value[w + 1] : right;
                double x = fma(tie_x[w], value, fma(along_x[w + 1], value - after, along_x[w] * (value - before)));
                double y = fma(tie_y, value, fma(to_north, value - beyond.value[w], to_south * (value - behind.value[w])));
                double z = fma(tie_z, value, fma(to_above, value - above.value[w], to_below * (value - below.value[w])));
                double wanted = given.value[w] - removed;
                double rest = wanted - fma(scale_x, x, fma(scale_y * of_y[w], y, of_z[w] * z));
                sums[0] = fma(rest, rest, sums[0]);
                sums[1] = fma(wanted, wanted, sums[1]);
            }
            below = here;
            here = above;
            to_below = to_above;
        }
    }
    grid_sum<2>(sums, scratch, to);
}

// `judge_pairs` where nx is even.
#define JUDGE(name, width)                                                                                                 \
    KERNEL(name, __launch_bounds__(ROW* ROWS, 2))                                                                          \
        (int nx, int ny, int nz, int layers, Tables tables, const double* __restrict__ mean, const double* __restrict__ b, \
             const double* __restrict__ u, Reduction to) {                                                                 \
        judge_cells<width>(nx, ny, nz, layers, tables, mean, b, u, to);                                                    \
    }

JUDGE(judge, 1)
JUDGE(judge_pairs, 2)

// ---- Means from lines of modes: the vector of the constant is the first in both axes; only it has a mean if cells have equal weights.

// result = scale times the sum of the first line.
KERNEL(sum_first_line, __launch_bounds__(256))(int n, long long stride, double scale, const double* __restrict__ x,
                                               double* result) {
    __shared__ double scratch[256 / 32];
    await_previous();
    double sum[1] = {0};
    for (int k = threadIdx.x; k < n; k += 256) sum[0] += x[k * stride];
    block_sum<1>(sum, scratch);
    if (threadIdx.x == 0) *result = scale * sum[0];
}

// Shifts the first line such that the sum of all lines' totals corresponds to the mean 0: by scale times that sum.
KERNEL(center_first_line, __launch_bounds__(1024))(int n, long long stride, int lines, double scale,
                                                   const double* __restrict__ totals, double* __restrict__ x) {
    __shared__ double scratch[1024 / 32], removed;
    await_previous();
    double sum[1] = {0};
#pragma unroll 8
    for (int line = threadIdx.x; line < lines; line += 1024) sum[0] += totals[line];
    block_sum<1>(sum, scratch);
    if (threadIdx.x == 0) removed = scale * sum[0];
    __syncthreads();
    for (int k = threadIdx.x; k < n; k += 1024) x[k * stride] -= removed;
}
