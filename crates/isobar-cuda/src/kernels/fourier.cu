// Fast transforms of the lines of one axis: cosines, sines or Fourier waves, the eigenvectors of uniform axes (isobar-core/src/direct/basis.rs). Arrays
// are in C order, lines as in direct.cu. Two real lines form one complex line, which halves the work for any length.
//
// Compiled for each number N of cells, for lines along x (ALONG_X) or across it, to waves or BACK. A block has PAIRS pairs of lines; a thread holds the
// numbers of one butterfly, or of a few, in registers, and exchanges them through shared memory.
#include "intrinsics.cuh"

// The numbers of a thread: more where blocks would be too large for the registers of a butterfly.
constexpr int EACH = N * PAIRS > 4096 ? 16 : 8;
constexpr int THREADS = ((N * PAIRS + EACH - 1) / EACH + 31) / 32 * 32;

typedef double2 Complex;

__device__ __forceinline__ Complex operator+(Complex a, Complex b) { return make_double2(a.x + b.x, a.y + b.y); }
__device__ __forceinline__ Complex operator-(Complex a, Complex b) { return make_double2(a.x - b.x, a.y - b.y); }
__device__ __forceinline__ Complex operator*(double s, Complex a) { return make_double2(s * a.x, s * a.y); }
__device__ __forceinline__ Complex times(Complex a, Complex b) {
    return make_double2(fma(a.x, b.x, -a.y * b.y), fma(a.x, b.y, a.y * b.x));
}
// -i a, or i a for the inverse.
__device__ __forceinline__ Complex turned(Complex a, bool back) { return back ? make_double2(-a.y, a.x) : make_double2(a.y, -a.x); }

// The transform of R numbers in registers, with exp(-2 pi i / R), or its conjugate for the inverse.
__device__ __forceinline__ void small(Complex (&v)[2], bool) {
    Complex a = v[0];
    v[0] = a + v[1];
    v[1] = a - v[1];
}

__device__ __forceinline__ void small(Complex (&v)[3], bool back) {
    const double half_root = 0.86602540378443864676;
    Complex sum = v[1] + v[2], side = turned(half_root * (v[1] - v[2]), back), middle = v[0] - 0.5 * sum;
    v[0] = v[0] + sum;
    v[1] = middle + side;
    v[2] = middle - side;
}

__device__ __forceinline__ void small(Complex (&v)[4], bool back) {
    Complex a = v[0] + v[2], b = v[0] - v[2], c = v[1] + v[3], d = turned(v[1] - v[3], back);
    v[0] = a + c;
    v[1] = b + d;
    v[2] = a - c;
    v[3] = b - d;
}

__device__ __forceinline__ void small(Complex (&v)[5], bool back) {
    const double c1 = 0.30901699437494742410, c2 = -0.80901699437494742410, s1 = 0.95105651629515357212, s2 = 0.58778525229247312917;
    Complex a = v[1] + v[4], b = v[2] + v[3], c = v[1] - v[4], d = v[2] - v[3];
    Complex one = v[0] + c1 * a + c2 * b, two = v[0] + c2 * a + c1 * b;
    Complex first = turned(s1 * c + s2 * d, back), second = turned(s2 * c - s1 * d, back);
    v[0] = v[0] + a + b;
    v[1] = one + first;
    v[2] = two + second;
    v[3] = two - second;
    v[4] = one - first;
}

__device__ __forceinline__ void small(Complex (&v)[8], bool back) {
    const double root = 0.70710678118654752440;
    Complex even[4] = {v[0], v[2], v[4], v[6]}, odd[4] = {v[1], v[3], v[5], v[7]};
    small(even, back);
    small(odd, back);
    odd[1] = root * (odd[1] + turned(odd[1], back));
    odd[2] = turned(odd[2], back);
    odd[3] = root * (turned(odd[3], back) - odd[3]);
#pragma unroll
    for (int k = 0; k < 4; k++) {
        v[k] = even[k] + odd[k];
        v[k + 4] = even[k] - odd[k];
    }
}

// The factor of the next stage.
__host__ __device__ constexpr int radix_of(int rest) { return rest % 8 == 0 ? 8 : rest % 5 == 0 ? 5 : rest % 4 == 0 ? 4 : rest % 3 == 0 ? 3 : 2; }

// The place of a number in shared memory: with a gap after eight, so that no bank is accessed twice. Along x neighbours in a line are neighbours, else
// pairs.
constexpr int STRIDE = N + N / 8;
__device__ __forceinline__ int at(int pair, int k) {
    int place = k + k / 8;
    return ALONG_X ? pair * STRIDE + place : place * PAIRS + pair;
}

// The work of a thread in a step that has `COUNT` items a pair.
template <int COUNT> struct Share {
    static constexpr int TURNS = (COUNT * PAIRS + THREADS - 1) / THREADS;
    int pair, item;
    bool is_there;

    __device__ __forceinline__ Share(int turn) {
        int work = threadIdx.x + turn * THREADS;
        pair = ALONG_X ? work / COUNT : work % PAIRS;
        item = ALONG_X ? work % COUNT : work / PAIRS;
        is_there = COUNT * PAIRS % THREADS == 0 || work < COUNT * PAIRS;
    }
};

// Runs one stage (Stockham's, sorted as it goes): blocks of DONE numbers become blocks of R times as many. `bring(pair, k)` returns the number at place
// k of the line, `leave(pair, k, value)` stores it; `SHARED` states that both are in shared memory.
template <int DONE, bool SHARED, class Bring, class Leave>
__device__ __forceinline__ void stage(bool back, const Complex* __restrict__ roots, Bring bring, Leave leave) {
    constexpr int R = radix_of(N / DONE), COUNT = N / R;
    using Mine = Share<COUNT>;
    Complex value[Mine::TURNS][R];
#pragma unroll
    for (int turn = 0; turn < Mine::TURNS; turn++) {
        Mine mine(turn);
        if (!mine.is_there) continue;
        Complex(&v)[R] = value[turn];
#pragma unroll
        for (int r = 0; r < R; r++) v[r] = bring(mine.pair, mine.item + r * COUNT);
        if (DONE > 1) {
            Complex power[R];
            power[1] = __ldg(roots + mine.item % DONE * (COUNT / DONE));
            if (back) power[1].y = -power[1].y;
#pragma unroll
            for (int r = 2; r < R; r++) power[r] = times(power[r / 2], power[r - r / 2]);
#pragma unroll
            for (int r = 1; r < R; r++) v[r] = times(v[r], power[r]);
        }
        small(v, back);
    }
    if (SHARED) __syncthreads();
#pragma unroll
    for (int turn = 0; turn < Mine::TURNS; turn++) {
        Mine mine(turn);
        if (!mine.is_there) continue;
        int inside = mine.item % DONE, start = (mine.item - inside) * R + inside;
#pragma unroll
        for (int r = 0; r < R; r++) leave(mine.pair, start + r * DONE, value[turn][r]);
    }
}

// Runs all stages in shared memory, from the one that finds blocks of DONE numbers up to blocks of END.
template <int DONE, int END>
__device__ __forceinline__ void stages(bool back, const Complex* __restrict__ roots, Complex* shared) {
    if constexpr (DONE < END) {
        auto bring = [&](int pair, int k) { return shared[at(pair, k)]; };
        auto leave = [&](int pair, int k, Complex value) { shared[at(pair, k)] = value; };
        stage<DONE, true>(back, roots, bring, leave);
        __syncthreads();
        stages<DONE * radix_of(N / DONE), END>(back, roots, shared);
    }
}

// The numbers that the last stage finds in a block.
__host__ __device__ constexpr int before_last(int done) { return done * radix_of(N / done) == N ? done : before_last(done * radix_of(N / done)); }
constexpr int FIRST = radix_of(N), LAST = before_last(1);

enum Kind { COSINE, SINE, FOURIER };

// The place of cell i before the transform (Makhoul, 1980): even cells first, then odd ones in reverse order; and the inverse.
__device__ __forceinline__ int place(int kind, int i) { return kind == FOURIER ? i : i & 1 ? N - 1 - (i >> 1) : i >> 1; }
__device__ __forceinline__ int cell(int kind, int k) { return kind == FOURIER ? k : 2 * k < N ? 2 * k : 2 * (N - k) - 1; }

// The pairs of lines of a block.
struct Block {
    int first, lines, inner;
    const double* from;
    double* to;
    // Adjacent aligned pairs are read and written at once.
    bool in_pairs;

    __device__ __forceinline__ long long start_of(int line) const {
        return ALONG_X ? (long long)line * N : (long long)(line / inner) * N * inner + line % inner;
    }
    __device__ __forceinline__ long long step() const { return ALONG_X ? 1 : inner; }

    __device__ __forceinline__ Complex read(int pair, int k) const {
        int line = first + 2 * pair;
        if (line >= lines) return make_double2(0, 0);
        const double* source = from + start_of(line) + k * step();
        if (in_pairs) return __ldg(reinterpret_cast<const double2*>(source));
        return make_double2(__ldg(source), line + 1 < lines ? __ldg(from + start_of(line + 1) + k * step()) : 0);
    }

    __device__ __forceinline__ void write(int pair, int k, Complex value) const {
        int line = first + 2 * pair;
        if (line >= lines) return;
        double* target = to + start_of(line) + k * step();
        if (in_pairs) {
            *reinterpret_cast<double2*>(target) = value;
            return;
        }
        *target = value.x;
        if (line + 1 < lines) to[start_of(line + 1) + k * step()] = value.y;
    }
};

// to = S^T from along each line, with S the normalised vectors of `kind` times `scale`. `roots` has exp(-2 pi i k / N), then exp(-i pi k / 2 N).
__device__ __forceinline__ void to_waves(const Block& block, int kind, double scale, const Complex* __restrict__ roots) {
    extern __shared__ Complex shared[];
    double whole = scale * rsqrt(double(N)), usual = scale * sqrt(2.0 / N);
    auto bring = [&](int pair, int k) {
        Complex value = block.read(pair, cell(kind, k));
        return kind == SINE && 2 * k >= N ? make_double2(-value.x, -value.y) : value;
    };
    auto leave = [&](int pair, int k, Complex value) { shared[at(pair, k)] = value; };
    await_previous();
    stage<1, false>(false, roots, bring, leave);
    __syncthreads();
    stages<FIRST, N>(false, roots, shared);
    using Mine = Share<N / 2 + 1>;
#pragma unroll
    for (int turn = 0; turn < Mine::TURNS; turn++) {
        Mine mine(turn);
        if (!mine.is_there) continue;
        int pair = mine.pair, k = mine.item;
        bool is_single = k == 0 || 2 * k == N;
        Complex z = shared[at(pair, k)], w = shared[at(pair, k == 0 ? 0 : N - k)];
        // V_k of the first line, and of the second; V_(N-k) are the conjugates.
        Complex one = make_double2(0.5 * (z.x + w.x), 0.5 * (z.y - w.y)), two = make_double2(0.5 * (z.y + w.y), 0.5 * (w.x - z.x));
        if (kind == FOURIER) {
            double factor = is_single ? whole : usual;
            block.write(pair, k == 0 ? 0 : 2 * k - 1, factor * make_double2(one.x, two.x));
            if (!is_single) block.write(pair, 2 * k, factor * make_double2(-one.y, -two.y));
            continue;
        }
        Complex root = __ldg(roots + N + k);
        double factor = k == 0 ? whole : usual, c = factor * root.x, s = -factor * root.y;
        block.write(pair, kind == SINE ? N - 1 - k : k, make_double2(fma(c, one.x, s * one.y), fma(c, two.x, s * two.y)));
        if (!is_single)
            block.write(pair, kind == SINE ? k - 1 : N - k, make_double2(fma(s, one.x, -c * one.y), fma(s, two.x, -c * two.y)));
    }
}

// to = S from along each line.
__device__ __forceinline__ void from_waves(const Block& block, int kind, double scale, const Complex* __restrict__ roots) {
    extern __shared__ Complex shared[];
    double whole = scale * rsqrt(double(N)), usual = 0.5 * scale * sqrt(2.0 / N);
    using Mine = Share<N / 2 + 1>;
    await_previous();
#pragma unroll
    for (int turn = 0; turn < Mine::TURNS; turn++) {
        Mine mine(turn);
        if (!mine.is_there) continue;
        int pair = mine.pair, k = mine.item;
        // V_k of both lines, V_(N-k) the conjugates.
        Complex one, two;
        if (kind == FOURIER) {
            bool is_single = k == 0 || 2 * k == N;
            double factor = is_single ? whole : usual;
            Complex a = block.read(pair, k == 0 ? 0 : 2 * k - 1), b = is_single ? make_double2(0, 0) : block.read(pair, 2 * k);
            one = factor * make_double2(a.x, -b.x);
            two = factor * make_double2(a.y, -b.y);
        } else {
            // exp(i pi k / 2 N) (C_k - i C_(N-k)), C_N = 0
            Complex c = (k == 0 ? whole : usual) * block.read(pair, kind == SINE ? N - 1 - k : k);
            Complex d = k == 0 ? make_double2(0, 0) : usual * block.read(pair, kind == SINE ? k - 1 : N - k);
            Complex root = __ldg(roots + N + k);
            root.y = -root.y;
            one = times(make_double2(c.x, -d.x), root);
            two = times(make_double2(c.y, -d.y), root);
        }
        shared[at(pair, k)] = make_double2(one.x - two.y, one.y + two.x);
        if (k > 0) shared[at(pair, N - k)] = make_double2(one.x + two.y, two.x - one.y);
    }
    __syncthreads();
    stages<1, LAST>(true, roots, shared);
    auto bring = [&](int pair, int k) { return shared[at(pair, k)]; };
    auto finish = [&](int pair, int k, Complex value) {
        block.write(pair, cell(kind, k), kind == SINE && 2 * k >= N ? make_double2(-value.x, -value.y) : value);
    };
    if (!ALONG_X) {
        stage<LAST, false>(true, roots, bring, finish);
        return;
    }
    // Through shared memory, so that adjacent numbers are written together.
    auto leave = [&](int pair, int k, Complex value) { shared[at(pair, k)] = value; };
    stage<LAST, true>(true, roots, bring, leave);
    __syncthreads();
    using Cells = Share<N>;
#pragma unroll
    for (int turn = 0; turn < Cells::TURNS; turn++) {
        Cells mine(turn);
        if (!mine.is_there) continue;
        Complex value = shared[at(mine.pair, place(kind, mine.item))];
        block.write(mine.pair, mine.item, kind == SINE && (mine.item & 1) ? make_double2(-value.x, -value.y) : value);
    }
}

KERNEL(transform, __launch_bounds__(THREADS))(int inner, int lines, int kind, int descending, double scale,
                                              const Complex* __restrict__ roots, const double* __restrict__ from,
                                              double* __restrict__ to) {
    int block = descending ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
    Block mine = {block * 2 * PAIRS, lines, inner, from, to, !ALONG_X && inner % 2 == 0};
#if BACK
    from_waves(mine, kind, scale, roots);
#else
    to_waves(mine, kind, scale, roots);
#endif
}
