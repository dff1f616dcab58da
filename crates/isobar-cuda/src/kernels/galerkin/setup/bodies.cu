// Search for strongly coupled aggregates of cells (bodies), as in isobar_core::stencil::galerkin::bodies. Cells are numbered by their positions.
//
// Results that depend on the order of threads are integers with a unique final value, or the order of aggregates,
// which are disjoint. Block 256.
#include "galerkin/setup/bodies.cuh"

constexpr unsigned int OF_PASS = 1u << 16;
static_assert(LARGEST < OF_PASS, "numbers of cells and passes share a word");

// Cells of a thread at a time.
constexpr int PART = 4;

// Calls f(n) for a thread's cells in kernels whose warps process 128 cells at a time: n and the next PART - 1 cells at distances
// of 32, which may lie beyond the last cell. All threads of a warp make the same calls.
template <class F> __device__ __forceinline__ void for_each_part(unsigned int cells, F f) {
    const unsigned int lane = threadIdx.x & 31;
    for (unsigned int begin = PART * (own_number() - lane); begin < cells; begin += PART * 256 * gridDim.x) f(begin + lane);
}

// Computes the largest coupling of each cell, and clears the counts of cells. One thread per column of PART cells.
KERNEL(begin_search, __launch_bounds__(256))(Matrix a, Search s) {
    await_previous();
    if (own_number() >= (unsigned int)a.nx * a.ny * ((a.nz + PART - 1) / PART)) return;
    Cell first = cell_at(a, own_number());
    first.k *= PART;
    const Column<PART> column(a, first, 1);
    Number most[PART] = {};
    for_each_coupling(a, column, [&](int m, int, int, int, double c) { most[m] = max(most[m], Number(c)); });
#pragma unroll
    for (int m = 0; m < PART; m++) {
        const unsigned int n = column.place_of(m);
        s.largest[n] = most[m];
        s.place[n] = s.kept[n] = 0;
    }
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

// Classifies couplings. Gives one label to tiles that lie in one aggregate by the first threshold, cell by cell in each direction: most
// tiles, if aggregates are large. In other tiles, one label to each run of cells along y. Couplings within these join nothing;
// few others remain. A tile per block, a run per warp.
KERNEL(label_tiles, __launch_bounds__(256))(Matrix a, Search s, OwnRows rows, double first_theta, double second_theta, double third_theta) {
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
    // Loads are unconditional: beyond the grid the last cell is read without effect.
    const Cell column = {min(at[X], a.nx - 1), min(at[Y], a.ny - 1), first[Z]};
    const unsigned int layer = (unsigned int)a.nx * a.ny, own = place(a, column);
    Number largest[TILE[Z]];
    // Couplings within the tile have set bits in `inner`.
    unsigned int classes[TILE[Z]], inner[TILE[Z]];
#pragma unroll
    for (int k = 0; k < TILE[Z]; k++) {
        largest[k] = s.largest[own + layer * min(k, layers - 1)];
        classes[k] = inner[k] = 0;
    }
    const Number* __restrict__ field = a.fields;
#pragma unroll 1
    for (unsigned int left = a.present; left != 0; left &= left - 1) {
        const int stored = __ffs(left) - 1, offset = stored + UPPER + 1, dz = offset / 3 % 3 - 1;
        Cell to;
        const bool is_there = neighbour(a, {column.i, column.j, 0}, offset % 3 - 1, offset / 9 - 1, 0, to);
        const unsigned int next = is_there ? place(a, to) : own - layer * first[Z];
        const bool is_inner = (unsigned int)(to.i - first[X]) < TILE[X] && (unsigned int)(to.j - first[Y]) < TILE[Y];
        Number c[TILE[Z]], other[TILE[Z]];
#pragma unroll
        for (int k = 0; k < TILE[Z]; k++) {
            const int here = first[Z] + min(k, layers - 1);
            int z = here + dz;
            const bool exists = bring_inside(z, a.nz, a.periodic & 4);
            const Number coupling = field[own + layer * (here - first[Z])];
            c[k] = exists && is_there ? coupling : Number(0);
            other[k] = s.largest[next + layer * (exists ? z : here)];
            inner[k] |= is_inner && (unsigned int)(z - first[Z]) < TILE[Z] ? 3u << 2 * stored : 0;
        }
#pragma unroll
        for (int k = 0; k < TILE[Z]; k++) {
            const double coupling = c[k], most = max(largest[k], other[k]);
            const int reached = (coupling >= first_theta * most) + (coupling >= second_theta * most) + (coupling >= third_theta * most);
            // Thresholds decrease.
            if (coupling > 0 && reached > 0 && rows.has(column.j)) classes[k] |= (4u - reached) << 2 * stored;
        }
        field += a.cells;
    }
    bool is_whole = true;
    unsigned int tied[TILE[Z]];
#pragma unroll
    for (int k = 0; k < TILE[Z]; k++) {
        const int number[3] = {at[X], at[Y], first[Z] + k};
        bool is_tied[3];
#pragma unroll
        for (int d = 0; d < 3; d++) {
            // The joins to the next plane: cells beyond the tile or the grid are not joined.
            const bool is_end = !is_column || k >= layers || number[d] + 1 >= min(first[d] + TILE[d], extents[d]);
            is_tied[d] = is_end || (classes[k] >> 2 * STORED[d] & 3) == 1;
        }
        is_whole = is_whole && is_tied[X] && is_tied[Y] && is_tied[Z];
        tied[k] = in_order(__ballot_sync(ALL_LANES, is_tied[Y])) & (0x7fffffffu >> max(first[Y] + TILE[Y] - a.ny, 0));
    }
    is_whole = __syncthreads_and(is_whole);
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
        const unsigned int in_run = tied[k] >> j & 1 ? 3u << 2 * STORED[Y] : 0;
        s.label[own + layer * k] = is_whole ? corner : place(a, {at[X], first[Y] + run, first[Z] + k});
        s.classes[own + layer * k] = classes[k] & ~(is_whole ? inner[k] : in_run);
    }
}

// Joins cells whose coupling is of this pass's class. Afterwards the counters of later kernels are zero.
KERNEL(join_cells, __launch_bounds__(256))(Matrix a, Search s) {
    await_previous();
    constexpr unsigned int LOWER_BITS = 0x1555555u;
    const unsigned int cells = a.cells, step = 256 * gridDim.x, lane = threadIdx.x & 31;
    if (own_number() < 4) s.counts[own_number()] = 0;
    auto load = [&](unsigned int n) { return n < cells ? s.classes[n] : 0; };
    unsigned int later = load(own_number());
    for (unsigned int n = own_number(); n - lane < cells; n += step) {
        const unsigned int different = later ^ s.pass * LOWER_BITS;
        later = load(n + step);
        // The lower bit of each direction of this class.
        unsigned int left = ~(different | different >> 1) & LOWER_BITS, known = NONE;
        if (!__any_sync(ALL_LANES, left != 0)) continue;
        Cell at;
        if (left != 0) {
            at = cell_at(a, n);
            known = __ldcg(s.label + n);
        }
        do {
            unsigned int other = NONE;
            if (left != 0) {
                const int offset = ((__ffs(left) - 1) >> 1) + UPPER + 1;
                left &= left - 1;
                Cell to;
                neighbour(a, at, offset % 3 - 1, offset / 9 - 1, offset / 3 % 3 - 1, to);
                other = __ldcg(s.label + place(a, to));
            }
            // Most often the cell of the lane below joins the same aggregates, or both cells belong to one already.
            const bool is_same = __shfl_up_sync(ALL_LANES, known, 1) == known, has_same = __shfl_up_sync(ALL_LANES, other, 1) == other;
            const bool is_repeated = lane > 0 && is_same && has_same;
            if (other != NONE && other != known && !is_repeated) join(s.label, known, other);
        } while (__any_sync(ALL_LANES, left != 0));
    }
}

// Sets labels to the first cells, and counts the own cells of each; counts above LARGEST are not exact.
KERNEL(count_cells, __launch_bounds__(256))(Matrix a, Search s, OwnRows rows) {
    await_previous();
    const unsigned int lane = threadIdx.x & 31, cells = a.cells;
    const bool has_all = rows.first == 0 && rows.end == a.ny;
    auto is_own = [&](unsigned int n) { return n < cells && (has_all || rows.has(unfolded(n - a.ny * quotient(n, a.by_ny), a.ny))); };
    // An aggregate known to have more than LARGEST cells.
    unsigned int large = NONE;
    auto add = [&](unsigned int first, unsigned int count) {
        if (first == large) return;
        if (__ldcg(s.place + first) <= LARGEST) atomicAdd(s.place + first, count);
        else large = first;
    };
    for_each_part(cells, [&](unsigned int begin) {
        unsigned int label[PART], first[PART];
#pragma unroll
        for (int m = 0; m < PART; m++) first[m] = label[m] = begin + 32 * m < cells ? s.label[begin + 32 * m] : NONE;
        for (bool moves = true; moves;) {
            moves = false;
#pragma unroll
            for (int m = 0; m < PART; m++) {
                const unsigned int next = first[m] != NONE ? s.label[first[m]] : NONE;
                moves |= next != first[m];
                first[m] = next;
            }
        }
#pragma unroll
        for (int m = 0; m < PART; m++) {
            const unsigned int n = begin + 32 * m;
            // Only this thread may change its label now, because other threads might not set it to the final cell.
            if (first[m] != label[m]) s.label[n] = first[m];
            // Most warps lie in one aggregate.
            const bool counts = is_own(n);
            const unsigned int own = __ballot_sync(ALL_LANES, counts);
            if (own == 0) continue;
            const unsigned int leader = __shfl_sync(ALL_LANES, first[m], __ffs(own) - 1);
            if (__all_sync(ALL_LANES, first[m] == leader || !counts)) {
                if (lane == 0) add(leader, __popc(own));
            } else if (counts) {
                add(first[m], 1);
            }
        }
    });
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
    for_each_part(cells, [&](unsigned int begin) {
        unsigned int size[PART];
#pragma unroll
        for (int m = 0; m < PART; m++) size[m] = begin + 32 * m < cells ? s.label[begin + 32 * m] : NONE;
        Counts own = 0;
#pragma unroll
        for (int m = 0; m < PART; m++) {
            const unsigned int n = begin + 32 * m;
            const bool is_first = size[m] == n && n < cells;
            size[m] = is_first ? s.place[n] : 0;
            const bool is_one = size[m] >= 2 && size[m] <= LARGEST;
            if (is_first && !is_one) s.place[n] = 0;
            if (!is_one) size[m] = 0;
            if (is_one) own += (Counts(1) << 32) + size[m];
        }
        if (!__any_sync(ALL_LANES, own != 0)) return;
        Counts total, base = 0;
        const Counts below = sum_below(own, total);
        if ((threadIdx.x & 31) == 0) base = atomicAdd(s.counts, total);
        base = __shfl_sync(ALL_LANES, base, 0) + below;
        unsigned int body = base >> 32, start = base & 0xffffffffu;
#pragma unroll
        for (int m = 0; m < PART; m++) {
            if (size[m] == 0) continue;
            if (body == 0) s.starts[0] = 0;
            s.filled[body] = 0;
            s.starts[++body] = start += size[m];
            s.place[begin + 32 * m] = body;
        }
    });
}

// Adds cells to their aggregates' lists, in any order.
KERNEL(list_cells, __launch_bounds__(256))(long long cells, Search s) {
    await_previous();
    if (*s.counts == 0) return;
    for_each_part(cells, [&](unsigned int begin) {
        unsigned int body[PART];
#pragma unroll
        for (int m = 0; m < PART; m++) body[m] = begin + 32 * m < cells ? s.label[begin + 32 * m] : NONE;
#pragma unroll
        for (int m = 0; m < PART; m++) body[m] = body[m] != NONE ? s.place[body[m]] : 0;
#pragma unroll
        for (int m = 0; m < PART; m++) {
            if (body[m] != 0) s.cells[s.starts[body[m] - 1] + atomicAdd(s.filled + body[m] - 1, 1)] = begin + 32 * m;
        }
    });
}

// The input of correction kernels.
struct Lists {
    unsigned int* starts;
    unsigned int* cells;
    double* factors;
};

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
__device__ __forceinline__ void keep_one(const Matrix& a, const Search& s, const Lists& to, int first_row, int pitch, unsigned int body,
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
    if (own == 0) s.place[first] = 0;
    const Cell start = cell_at(a, first);
    double leaving = 0, absolute = 0, diagonals = 0, beside = a.periodic & 4 ? 1 : 0;
    for (unsigned int n = own; n < size; n += THREADS) {
        const unsigned int cell = ordered[n];
        const Cell at = cell_at(a, cell);
        const double sum = sums(a)[cell];
        double diagonal = sum;
        beside += at.i != start.i || at.j != start.j;
        leaving += sum;
        absolute += fabs(sum);
        for_each_coupling(a, at, [&](int, int, int, double c, const Cell& other) {
            const unsigned int label = s.label[place(a, other)];
            diagonal += c;
            if (c != 0 && label != first) {
                leaving += c;
                absolute += fabs(c);
            }
        });
        diagonals += diagonal;
    }
    leaving = sum_of_all<THREADS>(leaving, scratch);
    absolute = sum_of_all<THREADS>(absolute, scratch);
    diagonals = sum_of_all<THREADS>(diagonals, scratch);
    // Lines solve exactly what lies in one column.
    beside = sum_of_all<THREADS>(beside, scratch);
    if (beside > 0 && leaving > CANCELLED * absolute && leaving > s.least * diagonals && leaving < LOOSE * diagonals) {
        unsigned int* base = all;
        if (own == 0) {
            const Counts counts = atomicAdd(s.counts + 1, (Counts(1) << 32) + size);
            const unsigned int number = counts >> 32;
            if (number == 0) to.starts[0] = 0;
            to.starts[number + 1] = (unsigned int)counts + size;
            to.factors[number] = DAMPING / leaving;
            if (s.kept[first] == s.before * OF_PASS + size) atomicAdd(s.counts + 2, Counts(1));
            s.kept[first] = s.pass * OF_PASS + size;
            *base = (unsigned int)counts;
        }
        wait_for_all<THREADS>();
        for (unsigned int n = own; n < size; n += THREADS)
            to.cells[*base + n] = vector_place(a, first_row, pitch, cell_at(a, ordered[n]));
    }
    wait_for_all<THREADS>();
}

// Keeps the aggregates for which a correction pays: small ones by a warp, then large ones by a block.
KERNEL(keep_bodies, __launch_bounds__(256, 4))(Matrix a, Search s, Lists to, int first_row, int pitch) {
    await_previous();
    __shared__ uint4 listed[LARGEST / 4];
    __shared__ unsigned int ordered[LARGEST], large[256], count;
    __shared__ double scratch[8];
    const unsigned int bodies = *s.counts >> 32, warp = threadIdx.x >> 5;
    for (unsigned int body = own_number() >> 5; body < bodies; body += gridDim.x * 8) {
        if (s.starts[body + 1] - s.starts[body] <= SMALL)
            keep_one<32>(a, s, to, first_row, pitch, body, listed + SMALL / 4 * warp, ordered + SMALL * warp, scratch);
    }
    for (unsigned int base = blockIdx.x; base < bodies; base += gridDim.x * 256) {
        // Adjacent aggregates go to different blocks.
        const unsigned int body = base + gridDim.x * threadIdx.x;
        __syncthreads();
        if (threadIdx.x == 0) count = 0;
        __syncthreads();
        if (body < bodies && s.starts[body + 1] - s.starts[body] > SMALL) large[atomicAdd(&count, 1u)] = body;
        __syncthreads();
        for (unsigned int n = 0; n < count; n++) keep_one<256>(a, s, to, first_row, pitch, large[n], listed, ordered, scratch);
    }
}
