// Tridiagonal systems whose cells are divided among ranks (isobar-dist/src/divided.rs): every rank eliminates the cells before its last one; last cells
// are solved for, and added to the right-hand sides of their neighbours. See direct.cu for the systems.
#include "tridiagonal.cuh"

// The places of two numbers for each line, `row` apart, in vectors of layers of 2 `pitch` lines.
struct Ends {
    int pitch, layers;
    long long row;

    __device__ __forceinline__ long long operator()(int line) const {
        int layer = line / (2 * pitch), within = line - layer * 2 * pitch;
        return ((long long)(within / pitch) * layers + layer) * pitch + within % pitch;
    }
};

// The contributions of a piece to the systems of last cells: to row sums, their coupling, right-hand sides.
enum Part { ROW_SUMS, COUPLINGS, SUMS };

// Writes what the n + 1 cells of a line contribute to the previous rank's last cell and to their own. The table of n cells is followed by the smallest
// pivot, the shift and weights of the last cell, and the coupling to the previous rank's.
KERNEL(condense_lines, __launch_bounds__(128))(int n, int inner, int lines, int extent, const double* __restrict__ table,
                                               const double* __restrict__ values_a, const double* __restrict__ values_b,
                                               const double* __restrict__ x, int part, Ends ends, double* __restrict__ to) {
    int line = blockIdx.x * 128 + threadIdx.x;
    if (line >= lines) return;
    double mu = values_a[line % extent], nu = values_b[line / extent], least = __ldg(table + 4 * n);
    const double *last = table + 4 * n + 1, *mine = x + start_of(line, n + 1, inner);
    double reach = __ldg(last + 3), excess = 0, sum = 0, before_excess = 0, before_sum = 0;
    await_previous();
#pragma unroll 4
    for (int k = 0; k < n; k++) {
        double value = part == SUMS ? mine[(long long)k * inner] : 0, coupling = __ldg(table + n + k);
        excess += fma(nu, __ldg(table + 3 * n + k), fma(mu, __ldg(table + 2 * n + k), __ldg(table + k)));
        sum += value;
        double inverse = inverse_of(excess + coupling + reach, least), next = coupling * inverse, beyond = reach * inverse;
        before_excess = fma(beyond, excess, before_excess);
        before_sum = fma(beyond, sum, before_sum);
        excess *= next;
        sum *= next;
        reach *= next;
    }
    double* at = to + ends(line);
    at[0] = part == ROW_SUMS ? before_excess : part == COUPLINGS ? reach : before_sum;
    double own = fma(nu, __ldg(last + 2), fma(mu, __ldg(last + 1), __ldg(last)));
    at[ends.row] = part == ROW_SUMS ? excess + own : part == COUPLINGS ? 0 : sum + mine[(long long)n * inner];
}

// Two numbers of each rank for one line: what it contributes to the previous rank and to its own.
struct Pairs {
    double* first;
    long long row;
    int ranks;

    __device__ __forceinline__ double& previous(int rank) const { return first[2 * (rank % ranks) * row]; }
    __device__ __forceinline__ double& own(int rank) const { return first[(2 * (rank % ranks) + 1) * row]; }
};

// Factorises the cyclic systems of last cells, in place: of row sums, 1 / p; of couplings, t / p and w / p (isobar-core/src/direct/lines.rs).
KERNEL(factorise_ends, __launch_bounds__(128))(int lines, int ranks, double least, double* sums, double* couplings) {
    await_previous();
    int line = blockIdx.x * 128 + threadIdx.x, last = ranks - 1;
    if (line >= lines) return;
    Pairs sum = {sums + line, lines, ranks}, coupling = {couplings + line, lines, ranks};
    double excess = 0, to_last = coupling.previous(0), last_excess = sum.own(last) + sum.previous(0);
    for (int rank = 0; rank < last; rank++) {
        excess += sum.own(rank) + sum.previous(rank + 1);
        double next = coupling.previous(rank + 1);
        if (rank + 1 == last) {
            to_last += next;
            next = 0;
        }
        double inverse = inverse_of(excess + next + to_last, least);
        next *= inverse;
        double beyond = to_last * inverse;
        last_excess = fma(beyond, excess, last_excess);
        excess *= next;
        to_last *= next;
        sum.previous(rank) = inverse;
        coupling.previous(rank) = next;
        coupling.own(rank) = beyond;
    }
    sum.previous(last) = last_excess == 0 ? 0 : inverse_of(last_excess, least);
}

// Solves the cyclic systems of last cells: contributions to right-hand sides become the solutions of the previous rank and of its own.
KERNEL(solve_ends, __launch_bounds__(128))(int lines, int ranks, double* inverses, double* factors, double* sums) {
    await_previous();
    int line = blockIdx.x * 128 + threadIdx.x, last = ranks - 1;
    if (line >= lines) return;
    Pairs inverse = {inverses + line, lines, ranks}, factor = {factors + line, lines, ranks}, x = {sums + line, lines, ranks};
    double carried = 0, to_last = 0;
    for (int rank = 0; rank < last; rank++) {
        double sum = x.own(rank) + x.previous(rank + 1) + carried;
        x.own(rank) = sum;
        carried = factor.previous(rank) * sum;
        to_last = fma(factor.own(rank), sum, to_last);
    }
    double end = (x.own(last) + x.previous(0) + carried + to_last) * inverse.previous(last), above = end;
    x.own(last) = x.previous(0) = end;
    for (int rank = last - 1; rank >= 0; rank--) {
        double beside = fma(factor.previous(rank), above, factor.own(rank) * end);
        above = fma(inverse.previous(rank), x.own(rank), beside);
        x.own(rank) = x.previous(rank + 1) = above;
    }
}

// Adds both ends' solutions to the right-hand sides of their neighbours, by the couplings `before` and `beside`.
KERNEL(expand_ends, __launch_bounds__(128))(int n, int inner, int lines, double before, double beside, const double* __restrict__ solutions,
                                            Ends ends, double* __restrict__ x) {
    await_previous();
    int line = blockIdx.x * 128 + threadIdx.x;
    if (line >= lines) return;
    const double* at = solutions + ends(line);
    double *mine = x + start_of(line, n + 1, inner), own = at[ends.row];
    if (n > 0) {
        mine[0] += before * at[0];
        mine[(long long)(n - 1) * inner] += beside * own;
    }
    mine[(long long)n * inner] = own;
}
