// Search for strongly coupled aggregates of cells (bodies), as in isobar_core::stencil::galerkin::bodies. Cells are numbered by their positions.
//
// Results that depend on the order of threads are integers with a unique final value, or the order of aggregates,
// which are disjoint. Block 256.
#include "galerkin/setup/setup.cuh"

constexpr unsigned int NONE = 0xffffffffu, ALL_LANES = 0xffffffffu;

// The number of aggregates in the upper half, of their cells in the lower half.
typedef unsigned long long Counts;

// The data of one pass, by cell unless stated otherwise.
struct Search {
    const Number* largest;
    // A cell of the same aggregate with no higher number; at the end its first cell.
    unsigned int* label;
    // For first cells: the number of cells, then the aggregate's number.
    unsigned int* place;
    // By aggregate: the start of its cells in `cells`, and the number of cells stored so far.
    unsigned int* starts;
    unsigned int* filled;
    unsigned int* cells;
    // For first cells of aggregates that are kept: the number of cells; the same of the previous pass.
    unsigned int* kept;
    const unsigned int* kept_before;
    // The numbers of aggregates examined, kept, and kept before.
    Counts* counts;
};

__device__ __forceinline__ unsigned int own_number() { return blockIdx.x * 256 + threadIdx.x; }

// Computes the largest coupling of each cell; makes each cell an aggregate.
KERNEL(begin_search, __launch_bounds__(256))(Matrix a, Number* largest, unsigned int* label) {
    await_previous();
    const unsigned int n = own_number();
    if (n >= a.cells) return;
    double most = 0;
    for_each_coupling(a, cell_at(a.nx, a.ny, n), [&](int, int, int, double c, const Cell&) { most = max(most, c); });
    largest[n] = most;
    label[n] = n;
}

// Finds the first known cell of a cell's aggregate; shortens the path.
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

// Joins the aggregates of two cells. The label of a first cell changes once, to a lower number, so the lowest first cell remains.
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

// Reorders the bits of 16 even and 16 odd planes into the order of planes.
__device__ __forceinline__ unsigned int in_order(unsigned int folded) {
    auto apart = [](unsigned int n) {
        n = (n | n << 8) & 0x00ff00ffu;
        n = (n | n << 4) & 0x0f0f0f0fu;
        n = (n | n << 2) & 0x33333333u;
        return (n | n << 1) & 0x55555555u;
    };
    return apart(folded & 0xffffu) | apart(folded >> 16) << 1;
}

// Gives one label to tiles that lie in one aggregate, cell by cell in each direction: most tiles, if aggregates are
// large. In other tiles, one label to each run of cells along y. Few cells then remain to be joined. A tile per block, a run per warp.
KERNEL(label_tiles, __launch_bounds__(256))(Matrix a, Search s, double theta) {
    await_previous();
    // Cells of a tile in x, y and z, and numbers of the stored directions.
    constexpr int TILE[3] = {8, 32, 4}, STORED[3] = {0, 8, 2};
    const int extents[3] = {a.nx, a.ny, a.nz}, lane = threadIdx.x & 31;
    int first[3];
    unsigned int tile = blockIdx.x;
#pragma unroll
    for (int d = 0; d < 3; d++) {
        const int tiles = (extents[d] + TILE[d] - 1) / TILE[d];
        first[d] = TILE[d] * int(tile % tiles);
        tile /= tiles;
    }
    // Even planes are stored before odd ones.
    const int j = 2 * (lane & 15) + (lane >> 4), at[2] = {first[X] + int(threadIdx.x >> 5), first[Y] + j};
    const bool is_column = at[X] < a.nx && at[Y] < a.ny;
    const int layers = min(TILE[Z], a.nz - first[Z]);
    bool is_whole = true;
    unsigned int tied[TILE[Z]];
#pragma unroll
    for (int k = 0; k < TILE[Z]; k++) {
        bool is_tied[3] = {true, true, true};
        if (is_column && k < layers) {
            const int number[3] = {at[X], at[Y], first[Z] + k};
            const unsigned int own = place(a, {number[X], number[Y], number[Z]});
            const Number largest = s.largest[own];
#pragma unroll
            for (int d = 0; d < 3; d++) {
                if ((d != Y && !is_whole) || number[d] + 1 >= min(first[d] + TILE[d], extents[d])) continue;
                const Number c = a.fields[a.cells * __popc(a.present & ((1u << STORED[d]) - 1)) + own];
                const unsigned int next = place(a, {number[X] + (d == X), number[Y] + (d == Y), number[Z] + (d == Z)});
                is_tied[d] = a.present >> STORED[d] & 1 && c > 0 && c >= theta * largest && c >= theta * s.largest[next];
            }
        }
        // To the next plane: cells beyond the tile or the grid are not joined.
        tied[k] = in_order(__ballot_sync(ALL_LANES, is_tied[Y])) & (0x7fffffffu >> max(first[Y] + TILE[Y] - a.ny, 0));
        is_whole = __syncthreads_and(is_whole && is_tied[X] && is_tied[Y] && is_tied[Z]);
    }
    if (!is_column) return;
    const unsigned int corner = place(a, {first[X], first[Y], first[Z]});
#pragma unroll
    for (int k = 0; k < TILE[Z]; k++) {
        if (k >= layers) break;
        // The start of the run: after the last plane before this one that is not joined to the next. Its lowest number is that
        // of an even plane, if it has one.
        const unsigned int loose = ~tied[k] & ((1u << j) - 1);
        int run = loose ? 32 - __clz(loose) : 0;
        if (run & 1 && tied[k] >> run & 1) run++;
        const unsigned int label = is_whole ? corner : place(a, {at[X], first[Y] + run, first[Z] + k});
        s.label[place(a, {at[X], at[Y], first[Z] + k})] = label;
    }
}

// Joins cells whose coupling is at least theta times the larger of both cells' largest couplings. Afterwards the counters of later kernels
// are zero.
KERNEL(join_cells, __launch_bounds__(256))(Matrix a, Search s, double theta) {
    await_previous();
    const unsigned int n = own_number();
    if (n < 3) s.counts[n] = 0;
    if (n >= a.cells) return;
    s.place[n] = s.kept[n] = 0;
    const double own = s.largest[n];
    const Cell at = cell_at(a.nx, a.ny, n);
    const Number* __restrict__ c = a.fields + n;
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
        // Most neighbours belong to the same aggregate already.
        const bool is_known = __ldcg(s.label + other) == known;
        if (is_known || coupling < theta * largest) continue;
        join(s.label, n, other);
        known = __ldcg(s.label + n);
    }
}

// Sets labels to the first cells, and counts the cells of each; counts above LARGEST are not exact.
KERNEL(count_cells, __launch_bounds__(256))(long long cells, Search s) {
    await_previous();
    const unsigned int n = own_number();
    const bool is_cell = n < cells;
    unsigned int first = NONE;
    if (is_cell) {
        // Only this thread may change its label now, because other threads might not set it to the final cell.
        unsigned int next = __ldcg(s.label + n);
        while (next != first) {
            first = next;
            next = __ldcg(s.label + first);
        }
        s.label[n] = first;
    }
    // Most warps lie in one aggregate.
    const unsigned int lane = threadIdx.x & 31, leader = __shfl_sync(ALL_LANES, first, 0);
    if (__all_sync(ALL_LANES, first == leader)) {
        if (lane == 0 && is_cell && __ldcg(s.place + first) <= LARGEST) atomicAdd(s.place + first, 32);
    } else if (is_cell && __ldcg(s.place + first) <= LARGEST) {
        atomicAdd(s.place + first, 1);
    }
}

// The sum over a warp's lower lanes, and the total.
__device__ __forceinline__ Counts sum_below(Counts own, Counts& total) {
    Counts sum = own;
    for (int distance = 1; distance < 32; distance <<= 1) {
        const Counts other = __shfl_up_sync(ALL_LANES, sum, distance);
        if ((threadIdx.x & 31) >= distance) sum += other;
    }
    total = __shfl_sync(ALL_LANES, sum, 31);
    return sum - own;
}

// Numbers aggregates of 2 to LARGEST cells, and reserves space for their cells.
KERNEL(number_bodies, __launch_bounds__(256))(long long cells, Search s) {
    await_previous();
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

// Adds cells to their aggregates' lists, in any order.
KERNEL(list_cells, __launch_bounds__(256))(long long cells, Search s) {
    await_previous();
    const unsigned int n = own_number();
    if (n >= cells || *s.counts == 0) return;
    const unsigned int body = s.place[s.label[n]];
    if (body != NONE) s.cells[s.starts[body] + atomicAdd(s.filled + body, 1)] = n;
}

// The input of correction kernels.
struct Lists {
    unsigned int* starts;
    unsigned int* cells;
    double* factors;
};

// The position of a cell in a vector with this pitch.
__device__ __forceinline__ unsigned int vector_place(const Matrix& a, int pitch, const Cell& at) {
    return (at.i >> 1) + pitch * (at.k + (unsigned int)a.nz * (((at.i + at.j) & 1) + 2u * at.j));
}

// Aggregates of at most this many cells are processed by a warp, larger ones by a block.
constexpr unsigned int SMALL = 64;
static_assert(8 * SMALL <= LARGEST && LARGEST % 4 == 0, "eight warps share the room of one large body");

template <int THREADS> __device__ __forceinline__ void wait_for_all() {
    if (THREADS == 32) __syncwarp();
    else __syncthreads();
}

// The sum over a warp or a block, in all its threads.
template <int THREADS> __device__ __forceinline__ double sum_of_all(double own, double* scratch) {
    for (int other = 16; other > 0; other >>= 1) own += __shfl_xor_sync(ALL_LANES, own, other);
    if (THREADS == 32) return own;
    __syncthreads();
    if ((threadIdx.x & 31) == 0) scratch[threadIdx.x >> 5] = own;
    __syncthreads();
    double sum = 0;
    for (int warp = 0; warp < THREADS / 32; warp++) sum += scratch[warp];
    return sum;
}

// Keeps an aggregate, with its cells sorted, if a correction pays. For a warp or a block; `listed` has space for SMALL or LARGEST cells,
// a multiple of four.
template <int THREADS>
__device__ __forceinline__ void keep_one(const Matrix& a, const Search& s, const Lists& to, int pitch, unsigned int body,
                                         uint4* listed, unsigned int* ordered, double* scratch) {
    const unsigned int own = threadIdx.x % THREADS, begin = s.starts[body], size = s.starts[body + 1] - begin;
    unsigned int* all = reinterpret_cast<unsigned int*>(listed);
    for (unsigned int n = own; n < (size + 3) / 4 * 4; n += THREADS) all[n] = n < size ? s.cells[begin + n] : NONE;
    wait_for_all<THREADS>();
    for (unsigned int n = own; n < size; n += THREADS) {
        const unsigned int cell = all[n];
        unsigned int rank = 0;
        for (unsigned int m = 0; m < (size + 3) / 4; m++) {
            const uint4 other = listed[m];
            rank += (other.x < cell) + (other.y < cell) + (other.z < cell) + (other.w < cell);
        }
        ordered[rank] = cell;
    }
    wait_for_all<THREADS>();
    const unsigned int first = ordered[0];
    double leaving = 0, absolute = 0, diagonals = 0;
    for (unsigned int n = own; n < size; n += THREADS) {
        const unsigned int cell = ordered[n];
        const double sum = sums(a)[cell];
        double diagonal = sum;
        leaving += sum;
        absolute += fabs(sum);
        for_each_coupling(a, cell_at(a.nx, a.ny, cell), [&](int, int, int, double c, const Cell& other) {
            diagonal += c;
            if (c != 0 && s.label[place(a, other)] != first) {
                leaving += c;
                absolute += fabs(c);
            }
        });
        diagonals += diagonal;
    }
    leaving = sum_of_all<THREADS>(leaving, scratch);
    absolute = sum_of_all<THREADS>(absolute, scratch);
    diagonals = sum_of_all<THREADS>(diagonals, scratch);
    if (leaving > CANCELLED * absolute && leaving > NEGLIGIBLE * diagonals && leaving < LOOSE * diagonals) {
        unsigned int* base = all;
        if (own == 0) {
            const Counts counts = atomicAdd(s.counts + 1, (Counts(1) << 32) + size);
            const unsigned int number = counts >> 32;
            if (number == 0) to.starts[0] = 0;
            to.starts[number + 1] = (unsigned int)counts + size;
            to.factors[number] = DAMPING / leaving;
            s.kept[first] = size;
            if (s.kept_before[first] == size) atomicAdd(s.counts + 2, Counts(1));
            *base = (unsigned int)counts;
        }
        wait_for_all<THREADS>();
        for (unsigned int n = own; n < size; n += THREADS)
            to.cells[*base + n] = vector_place(a, pitch, cell_at(a.nx, a.ny, ordered[n]));
    }
    wait_for_all<THREADS>();
}

// Keeps the aggregates for which a correction pays: small ones by a warp, then large ones by a block.
KERNEL(keep_bodies, __launch_bounds__(256))(Matrix a, Search s, Lists to, int pitch) {
    await_previous();
    __shared__ uint4 listed[LARGEST / 4];
    __shared__ unsigned int ordered[LARGEST], large[256], count;
    __shared__ double scratch[8];
    const unsigned int bodies = *s.counts >> 32, warp = threadIdx.x >> 5;
    for (unsigned int body = own_number() >> 5; body < bodies; body += gridDim.x * 8) {
        if (s.starts[body + 1] - s.starts[body] <= SMALL)
            keep_one<32>(a, s, to, pitch, body, listed + SMALL / 4 * warp, ordered + SMALL * warp, scratch);
    }
    for (unsigned int base = blockIdx.x; base < bodies; base += gridDim.x * 256) {
        // Adjacent aggregates go to different blocks.
        const unsigned int body = base + gridDim.x * threadIdx.x;
        __syncthreads();
        if (threadIdx.x == 0) count = 0;
        __syncthreads();
        if (body < bodies && s.starts[body + 1] - s.starts[body] > SMALL) large[atomicAdd(&count, 1u)] = body;
        __syncthreads();
        for (unsigned int n = 0; n < count; n++) keep_one<256>(a, s, to, pitch, large[n], listed, ordered, scratch);
    }
}
