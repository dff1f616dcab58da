// The lower part of a V-cycle in one launch: a single thread-block cluster runs every sweep and every
// transfer of the small levels, with the cluster's hardware barrier in between. Their fields are small
// enough to live in the L2 cache; what a launch each would cost is latency, not traffic.
//
// Launch: grid CLUSTER (one cluster, size set by the compile-time attribute), block LX W GROUPS.
// Sizes above 8 need the non-portable-cluster attribute. Cards before Hopper have no clusters: CLUSTER = 1
// is right there, and slow.
#include "line_relax.cuh"

#ifndef GROUPS
#define GROUPS 2
#endif
#ifndef CLUSTER
#define CLUSTER 8
#endif

struct CoarseLevel {
    Operator op;
    T* f;
    T* u;
};

// Levels from fine to coarse. f of the first is given; u of the first is the result.
struct CoarseCycle {
    CoarseLevel level[6];
    int levels;
    int coarsest_sweeps;
};

// One colour of one level, all tiles of it spread over the cluster.
template <Guess GUESS>
__device__ __forceinline__ void sweep_level(const CoarseLevel& level, int colour, const Coarse<T>& coarse,
                                            LineScratch* scratch) {
    int lane = threadIdx.x % LX, chunk = threadIdx.x / LX % W, group = threadIdx.x / (LX * W);
    int strips = (level.op.hp + LX - 1) / LX, tiles = strips * level.op.ny;
    for (int start = 0; start < tiles; start += CLUSTER * GROUPS) {
        int tile = start + blockIdx.x * GROUPS + group;
        int m = tile % strips * LX + lane;
        line_relax<GUESS, false, false>(level.op, colour, tile / strips, m, tile < tiles && m < level.op.hp, chunk,
                                        lane, scratch[group], level.f, level.u, level.u, level.u, T(1), coarse);
        // No barrier is needed before the next tile: its first use of `up` comes after everyone has
        // passed this tile's second barrier, and its use of `down` after its own first.
    }
    cluster_barrier();
}

// The residual of one red cell.
__device__ __forceinline__ T red_residual(const CoarseLevel& level, int j, int m, int k) {
    const Operator& op = level.op;
    Column column = load_column(op, j, 0, m);
    const T* own = level.u + plane(op, j, 0) + m + op.hp * k;
    const T* other = level.u + plane(op, j, 1) + m + op.hp * k;
    long long row = 2LL * op.hp * op.nz;
    T sum = column.same * other[0];
    sum = fma(column.shifted, other[column.shift], sum);
    sum = fma(column.south, other[j > 0 ? -row : 0], sum);
    sum = fma(column.north, other[j + 1 < op.ny ? row : 0], sum);
    return residual(column, op.row[k], level.f[plane(op, j, 0) + m + op.hp * k], k > 0 ? own[-op.hp] : T(0), own[0],
                    k + 1 < op.nz ? own[op.hp] : T(0), sum);
}

// f of the coarser level = sums of red residuals; the black ones are zero after a sweep.
__device__ __forceinline__ void restrict_level(const CoarseLevel& fine, const CoarseLevel& coarse) {
    int hp = coarse.op.hp, nz = coarse.op.nz, cells = 2 * hp * nz * coarse.op.ny;
    for (int n = blockIdx.x * blockDim.x + threadIdx.x; n < cells; n += CLUSTER * blockDim.x) {
        int m = n % hp, k = n / hp % nz, c = n / (hp * nz) & 1, j = n / (2 * hp * nz);
        int i = 2 * m + ((j + c) & 1);
        T value = T(0);
        if (i < coarse.op.nx) value = red_residual(fine, 2 * j, i, k) + red_residual(fine, 2 * j + 1, i, k);
        coarse.f[n] = value;
    }
    cluster_barrier();
}

#if CLUSTER > 1
#define ONE_CLUSTER __cluster_dims__(CLUSTER, 1, 1)
#else
#define ONE_CLUSTER
#endif

extern "C" __global__ void ONE_CLUSTER __launch_bounds__(LX* W* GROUPS, 1)
    coarse_cycle(const __grid_constant__ CoarseCycle cycle) {
    extern __shared__ __align__(16) unsigned char dynamic[]; // GROUPS LineScratch
    LineScratch* scratch = reinterpret_cast<LineScratch*>(dynamic);
    int last = cycle.levels - 1;
    Coarse<T> none = {};
    for (int l = 0; l <= last; l++) {
        sweep_level<FROM_ZERO>(cycle.level[l], 0, none, scratch);
        sweep_level<FROM_FIELD>(cycle.level[l], 1, none, scratch);
        if (l < last) restrict_level(cycle.level[l], cycle.level[l + 1]);
    }
    for (int n = 2; n < 2 * cycle.coarsest_sweeps; n++)
        sweep_level<FROM_FIELD>(cycle.level[last], n & 1, none, scratch);
    for (int l = last - 1; l >= 0; l--) {
        const CoarseLevel& below = cycle.level[l + 1];
        Coarse<T> coarse = {below.u, below.op.nx, below.op.ny, below.op.hp, below.op.nz};
        sweep_level<FROM_PROLONGED>(cycle.level[l], 0, coarse, scratch);
        sweep_level<FROM_FIELD>(cycle.level[l], 1, none, scratch);
    }
}
