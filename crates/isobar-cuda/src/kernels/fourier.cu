// Fast transforms of the lines of one axis: cosines, sines or Fourier waves, as eigenvectors of uniform axes (isobar-core/src/direct/basis.rs). Arrays
// in C order, lines as in direct.cu. Two real lines are one complex line, so that lines of any length cost half.
#include "intrinsics.cuh"

constexpr int THREADS = 256;

typedef double2 Complex;

__device__ __forceinline__ Complex operator+(Complex a, Complex b) { return make_double2(a.x + b.x, a.y + b.y); }
__device__ __forceinline__ Complex operator-(Complex a, Complex b) { return make_double2(a.x - b.x, a.y - b.y); }
__device__ __forceinline__ Complex operator*(double s, Complex a) { return make_double2(s * a.x, s * a.y); }
__device__ __forceinline__ Complex times(Complex a, Complex b) {
    return make_double2(fma(a.x, b.x, -a.y * b.y), fma(a.x, b.y, a.y * b.x));
}
// -i a, or i a on the way back.
__device__ __forceinline__ Complex turned(Complex a, bool back) { return back ? make_double2(-a.y, a.x) : make_double2(a.y, -a.x); }

// The transform of R numbers in registers, with exp(-2 pi i / R), or its conjugate on the way back.
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

// One stage (Stockham's, sorted as it goes): blocks of `done` numbers become blocks of R times as many.
template <int R>
__device__ __forceinline__ void stage(int n, int width, int done, bool back, const Complex* __restrict__ roots, const Complex* from, Complex* to) {
    int count = n / R, step = count / done;
    for (int work = threadIdx.x; work < count * width; work += THREADS) {
        int line = work % width, j = work / width, inside = j % done;
        Complex v[R];
#pragma unroll
        for (int r = 0; r < R; r++) {
            v[r] = from[(j + r * count) * width + line];
            if (r > 0 && done > 1) {
                Complex root = __ldg(roots + inside * r * step);
                if (back) root.y = -root.y;
                v[r] = times(v[r], root);
            }
        }
        small(v, back);
        Complex* target = to + ((j - inside) * R + inside) * width + line;
#pragma unroll
        for (int r = 0; r < R; r++) target[r * done * width] = v[r];
    }
}

enum Kind { COSINE, SINE, FOURIER };

// Where cell i is before the transform (Makhoul, 1980): even cells first, odd ones after them in the opposite order.
__device__ __forceinline__ int place(int kind, int n, int i) { return kind == FOURIER ? i : i & 1 ? n - 1 - (i >> 1) : i >> 1; }

// to = S^T from along each line, or S from on the way back, with S the normalised vectors of `kind` times `scale`. `width` pairs of lines a
// block; `radices` has the factors of n, a byte each; `roots` exp(-2 pi i k / n), then exp(-i pi k / 2 n).
template <bool ALONG_X>
__device__ __forceinline__ void transform_lines(int n, int inner, int lines, int width, int kind, int back, int descending, double scale,
                                          unsigned long long radices, const Complex* __restrict__ roots,
                                          const double* __restrict__ from, double* __restrict__ to) {
    extern __shared__ Complex storage[];
    Complex *now = storage, *next = storage + n * width;
    const Complex* ends = roots + n;
    int block = descending ? gridDim.x - 1 - blockIdx.x : blockIdx.x, first = block * 2 * width;
    auto start_of = [&](int line) {
        return ALONG_X ? (long long)line * n : (long long)(line / inner) * n * inner + line % inner;
    };
    long long step = ALONG_X ? 1 : inner;
    // Pairs that lie side by side at even places are read and written at once.
    bool in_pairs = !ALONG_X && inner % 2 == 0;
    auto read = [&](int pair, int at) {
        int line = first + 2 * pair;
        if (line >= lines) return make_double2(0, 0);
        const double* source = from + start_of(line) + at * step;
        if (in_pairs) return *reinterpret_cast<const double2*>(source);
        return make_double2(*source, line + 1 < lines ? from[start_of(line + 1) + at * step] : 0);
    };
    auto write = [&](int pair, int at, Complex value) {
        int line = first + 2 * pair;
        if (line >= lines) return;
        double* target = to + start_of(line) + at * step;
        if (in_pairs) {
            *reinterpret_cast<double2*>(target) = value;
            return;
        }
        *target = value.x;
        if (line + 1 < lines) to[start_of(line + 1) + at * step] = value.y;
    };
    // Along x neighbours in a line are neighbours in memory, else pairs are.
    auto pair_of = [&](int work) { return ALONG_X ? work / n : work % width; };
    auto place_of = [&](int work) { return ALONG_X ? work % n : work / width; };
    double whole = scale * rsqrt(double(n)), usual = scale * sqrt(2.0 / n);
    await_previous();
    for (int work = threadIdx.x; work < n * width; work += THREADS) {
        int pair = pair_of(work), i = place_of(work);
        if (!back) {
            Complex value = read(pair, i);
            if (kind == SINE && (i & 1)) value = make_double2(-value.x, -value.y);
            now[place(kind, n, i) * width + pair] = value;
        } else if (kind == FOURIER) {
            // Z_k = V_k of both lines, V_k = (a_k - i b_k) / 2 from the amplitudes of cosine and sine, and Z_(n-k) the conjugates'.
            if (2 * i > n) continue;
            bool is_single = i == 0 || 2 * i == n;
            double factor = is_single ? whole : 0.5 * usual;
            Complex a = factor * read(pair, i == 0 ? 0 : 2 * i - 1), b = is_single ? make_double2(0, 0) : factor * read(pair, 2 * i);
            now[i * width + pair] = make_double2(a.x + b.y, a.y - b.x);
            if (!is_single) now[(n - i) * width + pair] = make_double2(a.x - b.y, a.y + b.x);
        } else {
            next[i * width + pair] = (i == (kind == SINE ? n - 1 : 0) ? whole : 0.5 * usual) * read(pair, i);
        }
    }
    __syncthreads();
    if (back && kind != FOURIER) {
        for (int work = threadIdx.x; work < n * width; work += THREADS) {
            int pair = work % width, k = work / width;
            // V_k = exp(i pi k / 2 n) (C_k - i C_(n-k)), C_n = 0; both lines at once.
            auto amplitude = [&](int k) { return k == n ? make_double2(0, 0) : next[(kind == SINE ? n - 1 - k : k) * width + pair]; };
            Complex c = amplitude(k), d = amplitude(n - k), root = __ldg(ends + k);
            Complex one = times(make_double2(c.x, -d.x), make_double2(root.x, -root.y));
            Complex two = times(make_double2(c.y, -d.y), make_double2(root.x, -root.y));
            now[k * width + pair] = make_double2(one.x - two.y, one.y + two.x);
        }
        __syncthreads();
    }
    for (int done = 1; done < n; radices >>= 8) {
        int radix = int(radices & 255);
        switch (radix) {
        case 8: stage<8>(n, width, done, back, roots, now, next); break;
        case 5: stage<5>(n, width, done, back, roots, now, next); break;
        case 4: stage<4>(n, width, done, back, roots, now, next); break;
        case 3: stage<3>(n, width, done, back, roots, now, next); break;
        default: stage<2>(n, width, done, back, roots, now, next);
        }
        __syncthreads();
        Complex* other = now;
        now = next;
        next = other;
        done *= radix;
    }
    for (int work = threadIdx.x; work < n * width; work += THREADS) {
        int pair = pair_of(work), i = place_of(work);
        if (back) {
            Complex value = now[place(kind, n, i) * width + pair];
            if (kind == SINE && (i & 1)) value = make_double2(-value.x, -value.y);
            write(pair, i, value);
            continue;
        }
        // The wave that mode i is of.
        int k = kind == FOURIER ? (i + 1) >> 1 : kind == SINE ? n - 1 - i : i;
        Complex z = now[k * width + pair], w = now[(k == 0 ? 0 : n - k) * width + pair];
        // Of the first line, and of the second.
        Complex one = make_double2(0.5 * (z.x + w.x), 0.5 * (z.y - w.y)), two = make_double2(0.5 * (z.y + w.y), 0.5 * (w.x - z.x));
        if (kind == FOURIER) {
            double factor = k == 0 || 2 * k == n ? whole : usual;
            bool is_sine = i > 0 && i % 2 == 0;
            write(pair, i, factor * (is_sine ? make_double2(-one.y, -two.y) : make_double2(one.x, two.x)));
        } else {
            Complex root = __ldg(ends + k);
            double factor = k == 0 ? whole : usual;
            write(pair, i, factor * make_double2(fma(root.x, one.x, -root.y * one.y), fma(root.x, two.x, -root.y * two.y)));
        }
    }
}

#define TRANSFORM(name, along_x)                                                                                           \
    extern "C" __global__ void __launch_bounds__(THREADS)                                                                  \
        name(int n, int inner, int lines, int width, int kind, int back, int descending, double scale,                     \
             unsigned long long radices, const Complex* __restrict__ roots, const double* __restrict__ from,               \
             double* __restrict__ to) {                                                                                    \
        transform_lines<along_x>(n, inner, lines, width, kind, back, descending, scale, radices, roots, from, to);               \
    }

TRANSFORM(transform_x, true)
TRANSFORM(transform, false)
