// Direct solves of separable boxes: products with the eigenvectors of one axis, and tridiagonal systems along another, on
// arrays in C order, (nz, ny, nx). See isobar-core/src/direct.
//
// A line is all cells of an axis with `n` cells that lie `inner` numbers apart; line l begins at n inner (l / inner) + l % inner.
#include "intrinsics.cuh"
#include "reduce.cuh"

// ---- Products. A block multiplies LINES lines by twice MODES columns of a matrix, DEPTH numbers of a line at a time.
constexpr int LINES = 64, MODES = 64, DEPTH = 16, THREADS = 256;
// Rows in shared memory, so that the eight by four lanes of an operand meet no bank twice.
constexpr int PITCH = MODES + 4, PITCH_ALONG = DEPTH + 4;
constexpr int DATA = LINES * PITCH_ALONG > DEPTH * PITCH ? LINES * PITCH_ALONG : DEPTH * PITCH;
constexpr int STAGE = 2 * DATA + 2 * DEPTH * PITCH;

// c += a b, 16 x 8 x 8, as tensor cores have it: lane 4 g + t holds rows g and g + 8, columns t and t + 4 of a; rows t and t + 4, column g
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

// Which products: of even and odd parts of lines, to these parts, or neither.
enum Fold { TO_MODES, FROM_MODES, NONE };

// to_m = Σ_i matrix_im from_i along each line, the matrix in two parts of `depth` rows and `pitch` columns, both filled up with zeros: with
// NONE, columns 0 ... width - 1 and width ... n - 1; with TO_MODES, those of even vectors, which multiply from_i + from_(n-1-i), and of odd ones,
// which multiply differences; with FROM_MODES, rows of even and of odd vectors, whose sum and difference are to_i and to_(n-1-i).
template <bool ALONG_X, Fold FOLD>
__device__ __forceinline__ void product(int n, int depth, int width, int pitch, int inner, int lines, int descending,
                                        const double* __restrict__ matrix, const double* __restrict__ from,
                                        double* __restrict__ to) {
    extern __shared__ double shared[];
    int tiles = (width + MODES - 1) / MODES;
    // What the kernel before this one wrote last is still in the cache.
    int block = descending ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
    int first_mode = block % tiles * MODES, first_line = block / tiles * LINES;
    int thread = threadIdx.x, lane = thread & 31, g = lane >> 2, t = lane & 3;
    int warp_line = (thread >> 5 & 3) * 16, warp_mode = (thread >> 7) * 32;
    int rows = (depth + DEPTH - 1) / DEPTH * DEPTH;
    long long step = ALONG_X ? 1 : inner;
    auto start_of = [&](int line) {
        return ALONG_X ? (long long)line * n : (long long)(line / inner) * n * inner + line % inner;
    };
    // What this thread brings of lines: with ALONG_X one place of four lines, else four places of one.
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
        // What the other stage held has been used by all.
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
    // Two numbers at once where they lie at an even place.
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
                // The cell in the middle of an odd number is its own mirror image.
                if (other < n && other != mode) target[other * step] = two[c];
            }
        }
    }
}

#define PRODUCT(name, along_x, fold)                                                                                      \
    extern "C" __global__ void __launch_bounds__(THREADS, 2)                                                               \
        name(int n, int depth, int width, int pitch, int inner, int lines, int descending, const double* __restrict__ matrix, \
             const double* __restrict__ from, double* __restrict__ to) {                                                   \
        product<along_x, fold>(n, depth, width, pitch, inner, lines, descending, matrix, from, to);                        \
    }

PRODUCT(multiply_x, true, NONE)
PRODUCT(multiply, false, NONE)
PRODUCT(to_modes_x, true, TO_MODES)
PRODUCT(to_modes, false, TO_MODES)
PRODUCT(from_modes_x, true, FROM_MODES)
PRODUCT(from_modes, false, FROM_MODES)

// ---- Tridiagonal systems T + mu D_a + nu D_b, a thread each, in place. Elimination carries row sums along (isobar-core/src/direct/lines.rs);
// on the way back pivots are computed again from those that were kept before every CHUNK cells.
constexpr int CHUNK = 8;

struct Elimination {
    const double *shift, *coupling, *weight_a, *weight_b;
    int n;
    double mu, nu, least, excess = 0, to_last = 0;

    // From the table of a matrix and a pair of eigenvalues.
    __device__ __forceinline__ Elimination(const double* table, int n, double mu, double nu)
        : shift(table), coupling(table + n), weight_a(table + 2 * n), weight_b(table + 3 * n), n(n), mu(mu), nu(nu), least(__ldg(table + 4 * n)) {}

    // A pivot of an indefinite matrix that is too near to 0 is moved away from it.
    __device__ __forceinline__ double moved(double pivot) const { return fabs(pivot) < least ? copysign(least, pivot) : pivot; }

    __device__ __forceinline__ double row_sum(int k) const {
        return fma(nu, __ldg(weight_b + k), fma(mu, __ldg(weight_a + k), __ldg(shift + k)));
    }

    // Eliminates cell k: 1/p, and what its next and the last cell are multiplied by; `before` is the row sum that it had.
    template <bool PERIODIC> __device__ __forceinline__ void step(int k, double& inverse, double& next, double& last, double& before) {
        excess += row_sum(k);
        double coupled = __ldg(coupling + k);
        if (PERIODIC && k == n - 2) {
            to_last += coupled;
            coupled = 0;
        }
        double pivot = moved(excess + coupled + (PERIODIC ? to_last : 0));
        // The constant of a singular system: its last cell gets 0.
        inverse = pivot == 0 ? 0 : reciprocal(pivot);
        next = coupled * inverse;
        last = PERIODIC ? to_last * inverse : 0;
        before = excess;
        excess *= next;
        if (PERIODIC) to_last *= next;
    }
};

// What a singular system takes out of right-hand sides and solutions: `mean` times the transform of the constant from the first, and the mean
// from the second: along the line of the constant, where only that line has one, else by `totals`, what each line adds to the sum of all cells.
struct Floating {
    const double *mean, *constant_a, *constant_b;
    double* totals;

    __device__ __forceinline__ double of_line(int a, int b) const { return constant_a[a] * constant_b[b]; }
};

template <bool PERIODIC>
__device__ __forceinline__ void eliminate(int n, int inner, int lines, int extent, const double* table, const double* values_a,
                                          const double* values_b, double* kept, double* x, Floating floating) {
    int line = blockIdx.x * blockDim.x + threadIdx.x;
    if (line >= lines) return;
    int a = line % extent, b = line / extent;
    Elimination now(table, n, values_a[a], values_b[b]);
    await_previous();
    double removed = floating.mean ? *floating.mean * floating.of_line(a, b) : 0;
    x += (long long)(line / inner) * n * inner + line % inner;
    // Of a periodic line the last cell waits until the end.
    int rows = PERIODIC ? n - 1 : n, chunks = (n + CHUNK - 1) / CHUNK, last_chunk = (rows + CHUNK - 1) / CHUNK - 1;
    now.to_last = PERIODIC ? __ldg(now.coupling + n - 1) : 0;
    double last_excess = PERIODIC ? now.row_sum(n - 1) : 0, last_value = 0, carried = 0;
    // Values are on their way while those before them are worked on.
    double value[CHUNK], ahead[CHUNK];
    auto bring = [&](int chunk) {
#pragma unroll
        for (int q = 0; q < CHUNK; q++) {
            int k = chunk * CHUNK + q;
            ahead[q] = k >= 0 && k < rows ? x[(long long)k * inner] : 0;
        }
    };
    auto take = [&]() {
#pragma unroll
        for (int q = 0; q < CHUNK; q++) value[q] = ahead[q];
    };
    bring(0);
    for (int chunk = 0; chunk <= last_chunk; chunk++) {
        take();
        bring(chunk + 1);
        kept[(long long)chunk * lines + line] = now.excess;
        if (PERIODIC) kept[(long long)(chunks + chunk) * lines + line] = now.to_last;
#pragma unroll
        for (int q = 0; q < CHUNK; q++) {
            int k = chunk * CHUNK + q;
            if (k < rows) {
                double inverse, next, last, before;
                now.step<PERIODIC>(k, inverse, next, last, before);
                double sum = value[q] - removed + carried;
                carried = next * sum;
                if (PERIODIC) {
                    last_value = fma(last, sum, last_value);
                    last_excess = fma(last, before, last_excess);
                }
                x[(long long)k * inner] = inverse * sum;
            }
        }
    }
    double after = 0, at_last = 0, total = 0;
    if (PERIODIC) {
        double sum = x[(long long)(n - 1) * inner] - removed + last_value;
        at_last = last_excess == 0 ? 0 : sum * reciprocal(now.moved(last_excess));
        x[(long long)(n - 1) * inner] = total = at_last;
    }
    bring(last_chunk);
    double excess = kept[(long long)last_chunk * lines + line];
    double to_last = PERIODIC ? kept[(long long)(chunks + last_chunk) * lines + line] : 0;
    for (int chunk = last_chunk; chunk >= 0; chunk--) {
        take();
        now.excess = excess;
        now.to_last = to_last;
        bring(chunk - 1);
        if (chunk > 0) {
            excess = kept[(long long)(chunk - 1) * lines + line];
            if (PERIODIC) to_last = kept[(long long)(chunks + chunk - 1) * lines + line];
        }
        double factor[CHUNK], around[PERIODIC ? CHUNK : 1];
#pragma unroll
        for (int q = 0; q < CHUNK; q++) {
            int k = chunk * CHUNK + q;
            factor[q] = 0;
            if (PERIODIC) around[q] = 0;
            if (k < rows) {
                double inverse, last, before;
                now.step<PERIODIC>(k, inverse, factor[q], last, before);
                if (PERIODIC) around[q] = last;
            }
        }
#pragma unroll
        for (int q = CHUNK - 1; q >= 0; q--) {
            int k = chunk * CHUNK + q;
            if (k < rows) {
                after = fma(factor[q], after, value[q]);
                if (PERIODIC) after = fma(around[q], at_last, after);
                total += after;
                x[(long long)k * inner] = after;
            }
        }
    }
    if (floating.totals)
        floating.totals[line] = floating.of_line(a, b) * total;
    else if (floating.mean && now.mu == 0 && now.nu == 0)
        for (int k = 0; k < n; k++) x[(long long)k * inner] -= total / n;
}

#define SOLVE_LINES(name, periodic)                                                                                          \
    extern "C" __global__ void __launch_bounds__(128, 4)                                                                      \
        name(int n, int inner, int lines, int extent, const double* __restrict__ table, const double* __restrict__ values_a,  \
             const double* __restrict__ values_b, double* __restrict__ kept, double* __restrict__ x, Floating floating) {      \
        eliminate<periodic>(n, inner, lines, extent, table, values_a, values_b, kept, x, floating);                           \
    }

SOLVE_LINES(solve_lines, false)
SOLVE_LINES(solve_periodic_lines, true)

// Of grids that fit in the cache, where the chain of pivots takes longer than reading them: 1/p of every cell, once for all solves.
extern "C" __global__ void __launch_bounds__(128)
    store_pivots(int n, int inner, int lines, int extent, const double* __restrict__ table, const double* __restrict__ values_a,
                 const double* __restrict__ values_b, double* __restrict__ inverses) {
    int line = blockIdx.x * blockDim.x + threadIdx.x;
    if (line >= lines) return;
    Elimination now(table, n, values_a[line % extent], values_b[line / extent]);
    inverses += (long long)(line / inner) * n * inner + line % inner;
    for (int k = 0; k < n; k++) {
        double inverse, next, last, before;
        now.step<false>(k, inverse, next, last, before);
        inverses[(long long)k * inner] = inverse;
    }
}

// solve_lines with these pivots.
extern "C" __global__ void __launch_bounds__(128)
    substitute_lines(int n, int inner, int lines, int extent, const double* __restrict__ table, const double* __restrict__ values_a,
                     const double* __restrict__ values_b, const double* __restrict__ inverses, double* __restrict__ x, Floating floating) {
    int line = blockIdx.x * blockDim.x + threadIdx.x;
    if (line >= lines) return;
    int a = line % extent, b = line / extent, chunks = (n + CHUNK - 1) / CHUNK;
    const double* couplings = table + n;
    long long start = (long long)(line / inner) * n * inner + line % inner;
    x += start;
    inverses += start;
    await_previous();
    double removed = floating.mean ? *floating.mean * floating.of_line(a, b) : 0;
    double value[CHUNK], pivot[CHUNK], ahead[CHUNK], pivot_ahead[CHUNK];
    auto bring = [&](int chunk) {
#pragma unroll
        for (int q = 0; q < CHUNK; q++) {
            int k = chunk * CHUNK + q;
            bool inside = k >= 0 && k < n;
            ahead[q] = inside ? x[(long long)k * inner] : 0;
            pivot_ahead[q] = inside ? __ldg(inverses + (long long)k * inner) : 0;
        }
    };
    auto take = [&]() {
#pragma unroll
        for (int q = 0; q < CHUNK; q++) {
            value[q] = ahead[q];
            pivot[q] = pivot_ahead[q];
        }
    };
    double carried = 0, after = 0, total = 0;
    bring(0);
    for (int chunk = 0; chunk < chunks; chunk++) {
        take();
        bring(chunk + 1);
#pragma unroll
        for (int q = 0; q < CHUNK; q++) {
            int k = chunk * CHUNK + q;
            if (k < n) {
                double scaled = pivot[q] * (value[q] - removed + carried);
                carried = __ldg(couplings + k) * scaled;
                x[(long long)k * inner] = scaled;
            }
        }
    }
    bring(chunks - 1);
    for (int chunk = chunks - 1; chunk >= 0; chunk--) {
        take();
        bring(chunk - 1);
#pragma unroll
        for (int q = CHUNK - 1; q >= 0; q--) {
            int k = chunk * CHUNK + q;
            if (k < n) {
                after = fma(__ldg(couplings + k) * pivot[q], after, value[q]);
                total += after;
                x[(long long)k * inner] = after;
            }
        }
    }
    if (floating.totals)
        floating.totals[line] = floating.of_line(a, b) * total;
    else if (floating.mean && values_a[a] == 0 && values_b[b] == 0)
        for (int k = 0; k < n; k++) x[(long long)k * inner] -= total / n;
}

// ---- Residuals and sums, of arrays in C order.

// One axis: couplings to the next cell (of the last, around a periodic axis) and ties, and what both are multiplied by along the other axes.
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

// W numbers one after another, both of two at once.
template <int W> __device__ __forceinline__ Cells<W> cells_at(const double* from) {
    if constexpr (W == 2) {
        double2 both = __ldg(reinterpret_cast<const double2*>(from));
        return {both.x, both.y};
    } else {
        return {__ldg(from)};
    }
}

// result = ||b - mean - A u||^2 and ||b - mean||^2, with no mean where there is none to take; so many layers a tile, W cells a thread.
template <int W>
__device__ __forceinline__ void judge_cells(int nx, int ny, int nz, int layers, const Tables& tables, const double* mean,
                                            const double* __restrict__ b, const double* __restrict__ u, double* partial,
                                            unsigned int* counter, double* result) {
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
        // Neighbours; at the ends of an axis those around it, whose couplings are 0 where it is not periodic.
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
    grid_sum<2>(sums, scratch, partial, counter, result);
}

// `judge_pairs` where nx is even.
#define JUDGE(name, width)                                                                                                   \
    extern "C" __global__ void __launch_bounds__(ROW* ROWS, 2)                                                               \
        name(int nx, int ny, int nz, int layers, Tables tables, const double* __restrict__ mean, const double* __restrict__ b, \
             const double* __restrict__ u, double* partial, unsigned int* counter, double* result) {                         \
        judge_cells<width>(nx, ny, nz, layers, tables, mean, b, u, partial, counter, result);                                \
    }

JUDGE(judge, 1)
JUDGE(judge_pairs, 2)

// ---- Means, from lines of modes: the vector of the constant is the first of both axes, and only it has a mean where cells weigh the same.

// result = scale times the sum of the first line.
extern "C" __global__ void __launch_bounds__(256)
    sum_first_line(int n, long long stride, double scale, const double* __restrict__ x, double* result) {
    __shared__ double scratch[256 / 32];
    await_previous();
    double sum[1] = {0};
    for (int k = threadIdx.x; k < n; k += 256) sum[0] += x[k * stride];
    block_sum<1>(sum, scratch);
    if (threadIdx.x == 0) *result = scale * sum[0];
}

// Takes out of the first line what makes the sum of all lines' totals that of numbers with the mean 0: scale times that sum.
extern "C" __global__ void __launch_bounds__(1024)
    center_first_line(int n, long long stride, int lines, double scale, const double* __restrict__ totals, double* __restrict__ x) {
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
