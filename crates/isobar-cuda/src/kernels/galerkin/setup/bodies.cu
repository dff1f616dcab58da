// Strongly coupled bodies of cells: isobar_core::stencil::galerkin::bodies says which. Cells are numbered by their places.
//
// Whatever depends on the order in which threads run is integers that come out the same in the end, or the order of bodies,
// which are disjoint. Block 256.
#include "galerkin/setup/setup.cuh"

constexpr unsigned int NONE = 0xffffffffu, ALL_LANES = 0xffffffffu;

// Counts of bodies in the upper half, of their cells in the lower one.
typedef unsigned long long Counts;

// What one pass is about, by cell unless said.
struct Search {
    const double* largest;
    // A cell of the same body with no higher number, in the end its first one.
    unsigned int* label;
    // Of bodies' first cells: how many cells there are, then the body's number.
    unsigned int* place;
    // By body: where its cells begin in `cells`, and the number that have been put there.
    unsigned int* starts;
    unsigned int* filled;
    unsigned int* cells;
    // Of first cells of bodies that are kept: how many cells there are; the same of the pass before.
    unsigned int* kept;
    const unsigned int* kept_before;
    // How many bodies are looked at, how many are kept, and how many of these have been kept before.
    Counts* counts;
};

__device__ __forceinline__ unsigned int own_number() { return blockIdx.x * 256 + threadIdx.x; }

// The largest coupling of each cell; each cell a body.
extern "C" __global__ void __launch_bounds__(256) begin_search(Matrix a, double* largest, unsigned int* label) {
    const unsigned int n = own_number();
    if (n >= a.cells) return;
    double most = 0;
    for_each_coupling(a, cell_at(a.nx, a.ny, n), [&](int, int, int, double c, const Cell&) { most = max(most, c); });
    largest[n] = most;
    label[n] = n;
}

// The first cell that is known of the body of a cell; shortens the way there.
__device__ __forceinline__ unsigned int find_first(unsigned int* label, unsigned int cell) {
    unsigned int at = __ldcg(label + cell);
    if (at == cell) return cell;
    unsigned int before = cell, next = __ldcg(label + at);
    while (next != at) {
        label[before] = next;
        before = at;
        at = next;
        next = __ldcg(label + at);
    }
    return at;
}

// Joins the bodies of two cells. The label of a first cell is changed once, and to a lower number: the first cell of all is left.
__device__ __forceinline__ void join(unsigned int* label, unsigned int a, unsigned int b) {
    a = find_first(label, a);
    b = find_first(label, b);
    while (a != b) {
        if (a < b) {
            const unsigned int lower = a;
            a = b;
            b = lower;
        }
        const unsigned int old = atomicCAS(label + a, a, b);
        if (old == a) return;
        a = find_first(label, old);
    }
}

// Joins cells whose coupling is at least theta times the larger of both cells' largest.
extern "C" __global__ void __launch_bounds__(256) join_cells(Matrix a, Search s, double theta) {
    const unsigned int n = own_number();
    if (n >= a.cells) return;
    const double own = s.largest[n];
    const Cell at = cell_at(a.nx, a.ny, n);
    const double* __restrict__ c = a.fields + n;
    unsigned int known = __ldcg(s.label + n);
#pragma unroll
    for (int stored = 0; stored < UPPER; stored++) {
        if (!(a.present >> stored & 1)) continue;
        const double coupling = *c;
        c += a.cells;
        if (!(coupling > 0 && coupling >= theta * own)) continue;
        Cell to;
        if (!neighbour(a, at, (stored + 14) % 3 - 1, (stored + 14) / 9 - 1, (stored + 14) / 3 % 3 - 1, to)) continue;
        const unsigned int other = place(a, to);
        const double largest = s.largest[other];
        // Most neighbours are of the same body already, and say so at once.
        const bool is_known = __ldcg(s.label + other) == known;
        if (is_known || coupling < theta * largest) continue;
        join(s.label, n, other);
        known = __ldcg(s.label + n);
    }
}

// Labels that name the first cells, and how many cells have each; of more than LARGEST, that there are more.
extern "C" __global__ void __launch_bounds__(256) count_cells(long long cells, Search s) {
    const unsigned int n = own_number();
    const bool is_cell = n < cells;
    unsigned int first = NONE;
    if (is_cell) {
        // Nothing but this thread may change its label now: what others would make of it need not be the end of the way.
        unsigned int next = __ldcg(s.label + n);
        while (next != first) {
            first = next;
            next = __ldcg(s.label + first);
        }
        s.label[n] = first;
    }
    // Most warps lie within one body.
    const unsigned int lane = threadIdx.x & 31, leader = __shfl_sync(ALL_LANES, first, 0);
    if (__all_sync(ALL_LANES, first == leader)) {
        if (lane == 0 && is_cell && __ldcg(s.place + first) <= LARGEST) atomicAdd(s.place + first, 32);
    } else if (is_cell && __ldcg(s.place + first) <= LARGEST) {
        atomicAdd(s.place + first, 1);
    }
}

// The sum of a warp's lower lanes, and all of it in `total`.
__device__ __forceinline__ Counts sum_below(Counts own, Counts& total) {
    Counts sum = own;
    for (int distance = 1; distance < 32; distance <<= 1) {
        const Counts other = __shfl_up_sync(ALL_LANES, sum, distance);
        if ((threadIdx.x & 31) >= distance) sum += other;
    }
    total = __shfl_sync(ALL_LANES, sum, 31);
    return sum - own;
}

// Gives a number, and room for their cells, to bodies of 2 to LARGEST cells.
extern "C" __global__ void __launch_bounds__(256) number_bodies(long long cells, Search s) {
    const unsigned int n = own_number();
    const unsigned int size = n < cells && s.label[n] == n ? s.place[n] : 0;
    const bool is_one = size >= 2 && size <= LARGEST;
    Counts total, base = 0;
    const Counts own = sum_below(is_one ? (Counts(1) << 32) + size : 0, total);
    if (total == 0) {
        if (n < cells) s.place[n] = NONE;
        return;
    }
    if ((threadIdx.x & 31) == 0) base = atomicAdd(s.counts, total);
    base = __shfl_sync(ALL_LANES, base, 0) + own;
    if (n >= cells) return;
    const unsigned int body = base >> 32, start = base & 0xffffffffu;
    s.place[n] = is_one ? body : NONE;
    if (!is_one) return;
    if (body == 0) s.starts[0] = 0;
    s.starts[body + 1] = start + size;
    s.filled[body] = 0;
}

// Puts cells to their bodies' lists, in any order.
extern "C" __global__ void __launch_bounds__(256) list_cells(long long cells, Search s) {
    const unsigned int n = own_number();
    if (n >= cells) return;
    const unsigned int body = s.place[s.label[n]];
    if (body != NONE) s.cells[s.starts[body] + atomicAdd(s.filled + body, 1)] = n;
}

// What kernels of corrections read.
struct Lists {
    unsigned int* starts;
    unsigned int* cells;
    double* factors;
};

// Where a cell is in a vector of this pitch.
__device__ __forceinline__ unsigned int vector_place(const Matrix& a, int pitch, const Cell& at) {
    return (at.i >> 1) + pitch * (at.k + (unsigned int)a.nz * (((at.i + at.j) & 1) + 2u * at.j));
}

// Keeps the bodies that are worth correcting, their cells in order. A warp a body.
extern "C" __global__ void __launch_bounds__(256) keep_bodies(Matrix a, Search s, Lists to, int pitch) {
    __shared__ unsigned int all_listed[8][LARGEST], all_ordered[8][LARGEST];
    const unsigned int lane = threadIdx.x & 31;
    unsigned int* listed = all_listed[threadIdx.x >> 5];
    unsigned int* ordered = all_ordered[threadIdx.x >> 5];
    const unsigned int bodies = *s.counts >> 32;
    for (unsigned int body = own_number() >> 5; body < bodies; body += gridDim.x * 8) {
        const unsigned int begin = s.starts[body], size = s.starts[body + 1] - begin;
        for (unsigned int n = lane; n < size; n += 32) listed[n] = s.cells[begin + n];
        __syncwarp();
        for (unsigned int n = lane; n < size; n += 32) {
            const unsigned int own = listed[n];
            unsigned int rank = 0;
            for (unsigned int m = 0; m < size; m++) rank += listed[m] < own;
            ordered[rank] = own;
        }
        __syncwarp();
        const unsigned int first = ordered[0];
        double leaving = 0, absolute = 0, diagonals = 0;
        for (unsigned int n = lane; n < size; n += 32) {
            const unsigned int own = ordered[n];
            const double sum = sums(a)[own];
            double diagonal = sum;
            leaving += sum;
            absolute += fabs(sum);
            for_each_coupling(a, cell_at(a.nx, a.ny, own), [&](int, int, int, double c, const Cell& cell) {
                diagonal += c;
                if (c != 0 && s.label[place(a, cell)] != first) {
                    leaving += c;
                    absolute += fabs(c);
                }
            });
            diagonals += diagonal;
        }
        for (int other = 16; other > 0; other >>= 1) {
            leaving += __shfl_xor_sync(ALL_LANES, leaving, other);
            absolute += __shfl_xor_sync(ALL_LANES, absolute, other);
            diagonals += __shfl_xor_sync(ALL_LANES, diagonals, other);
        }
        if (leaving > CANCELLED * absolute && leaving > NEGLIGIBLE * diagonals && leaving < LOOSE * diagonals) {
            Counts base = 0;
            if (lane == 0) {
                base = atomicAdd(s.counts + 1, (Counts(1) << 32) + size);
                const unsigned int number = base >> 32;
                if (number == 0) to.starts[0] = 0;
                to.starts[number + 1] = (unsigned int)base + size;
                to.factors[number] = DAMPING / leaving;
                s.kept[first] = size;
                if (s.kept_before[first] == size) atomicAdd(s.counts + 2, Counts(1));
            }
            base = __shfl_sync(ALL_LANES, base, 0);
            for (unsigned int n = lane; n < size; n += 32)
                to.cells[(unsigned int)base + n] = vector_place(a, pitch, cell_at(a.nx, a.ny, ordered[n]));
        }
        __syncwarp();
    }
}
