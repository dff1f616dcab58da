// Products with a 27-point matrix, one thread per cell. Block: 256 threads (m, k); grid: as many as needed, z: (j, colour).
#include "galerkin/twenty_seven.cuh"
#include "reduce.cuh"

// SMALL: 1 on levels that do not fill the GPU. There threads have the registers to load their rows of A before they wait for the kernel before.
#ifdef SMALL
#define BOUNDS __launch_bounds__(256, 1)
#else
#define SMALL 0
#define BOUNDS __launch_bounds__(256)
#endif

// A thread's row of A.
struct OwnRow {
    const Matrix& a;
    int k;
    bool exists;
    long long at;
    T sum;
    Around around;
    Loaded strengths;

    __device__ __forceinline__ OwnRow(const Matrix& a) : a(a) {
        if (!SMALL) await_previous();
        int i, j;
        exists = own_cell(a, i, j, k);
        if (exists) {
            at = place(a, i, j, k);
            sum = __ldg(a.sums + at);
            around = columns_around(a, i, j);
            if (SMALL) strengths = load_strengths<EVERYWHERE>(a, around, k);
        }
        if (SMALL) await_previous();
    }
    // A u
    __device__ __forceinline__ T times(In u) const {
        const T here = u[at];
        T total = sum * here;
        auto add = [&](const Coupling& to) {
            const T there = u[to.to];
            total += to.c * (to.exists ? here - there : T(0));
        };
        if (SMALL) for_each_coupling<EVERYWHERE>(a, around, k, strengths, add);
        else for_each_coupling<EVERYWHERE>(a, around, k, add);
        return total;
    }
};

// y = A x
KERNEL(apply, BOUNDS)(Matrix a, In x, Out y) {
    const OwnRow row(a);
    if (row.exists) y[row.at] = row.times(x);
}

// r = f - A u
KERNEL(residual_field, BOUNDS)(Matrix a, In f, In u, Out r) {
    const OwnRow row(a);
    if (row.exists) r[row.at] = f[row.at] - row.times(u);
}

// sum c u over the selected couplings.
template <unsigned int WHICH>
__device__ __forceinline__ T gathered(const Matrix& a, In u, int i, int j, int k) {
    T sum = T(0);
    for_each_coupling<WHICH>(a, columns_around(a, i, j), k, [&](const Coupling& to) {
        const T there = u[to.to];
        sum += to.c * (to.exists ? there : T(0));
    });
    return sum;
}

// r = f - A u after a sweep from zero in which no column used its own values: the contributions of columns relaxed later. `turn` is 0
// if colours were relaxed in order, 3 if in reverse order.
KERNEL(residual_later, BOUNDS)(Matrix a, int turn, In u, Out r) {
    await_previous();
    int i, j, k;
    if (!own_cell(a, i, j, k)) return;
    const int rank = ((i & 1) + 2 * (j & 1)) ^ turn;
    r[place(a, i, j, k)] = rank == 0   ? gathered<ACROSS>(a, u, i, j, k)
                           : rank == 1 ? gathered<IN_OTHER_PLANES>(a, u, i, j, k)
                           : rank == 2 ? gathered<BESIDE>(a, u, i, j, k)
                                       : T(0);
}

// r = f - A u and result = |r|^2
KERNEL(residual, BOUNDS)(Matrix a, In f, In u, Out r, Reduction to) {
    const OwnRow row(a);
    double square[1] = {0};
    if (row.exists) {
        const T value = f[row.at] - row.times(u);
        r[row.at] = value;
        square[0] = double(value) * double(value);
    }
    grid_sum(square, to);
}

// result = |f - A u|^2
KERNEL(residual_norm, BOUNDS)(Matrix a, In f, In u, Reduction to) {
    const OwnRow row(a);
    double square[1] = {0};
    if (row.exists) {
        const double value = double(f[row.at] - row.times(u));
        square[0] = value * value;
    }
    grid_sum(square, to);
}
