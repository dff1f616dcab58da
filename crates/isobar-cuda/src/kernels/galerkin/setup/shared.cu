// Strongly coupled aggregates with cells of several ranks, see setup/shared.rs. Block 256.
#include "galerkin/setup/bodies.cuh"

// Cells of a rank's first and last rows, numbered from `base` on, label their aggregates by the lowest
// such number. One thread per cell of a row, or of a list.
struct Edges {
    // For first cells: the label.
    unsigned int* lowest;
    // The columns from which on the first row, the last one and the one after it have a label, in any order, with the label: NONE where cells are closed, and in
    // the row after where it is joined to none of the rank's cells. `columns` places and a count for each row.
    uint2* runs;
    unsigned int* counts;
    unsigned int columns, base;
};

// Marks the place of a first cell whose aggregate is shared; below it is the number of the aggregate.
constexpr unsigned int SHARED = 1u << 31;

__device__ __forceinline__ unsigned int edge_cell(const Matrix& a, const OwnRows& rows, int which, unsigned int column) {
    const int j = which == 0 ? rows.first : which == 1 ? rows.end - 1 : rows.end;
    return folded(j, a.ny) + (unsigned int)a.ny * column;
}

KERNEL(begin_edges, __launch_bounds__(256))(Matrix a, Search s, OwnRows rows, Edges e) {
    await_previous();
    if (own_number() >= e.columns) return;
    for (int which = 0; which < (rows.end < a.ny ? 3 : 2); which++) e.lowest[s.label[edge_cell(a, rows, which, own_number())]] = NONE;
}

KERNEL(label_edges, __launch_bounds__(256))(Matrix a, Search s, OwnRows rows, Edges e) {
    await_previous();
    if (own_number() >= e.columns) return;
    for (int which = 0; which < 2; which++) {
        unsigned int* lowest = e.lowest + s.label[edge_cell(a, rows, which, own_number())];
        const unsigned int label = e.base + which * e.columns + own_number();
        if (__ldcg(lowest) > label) atomicMin(lowest, label);
    }
}

KERNEL(list_edges, __launch_bounds__(256))(Matrix a, Search s, OwnRows rows, Edges e) {
    await_previous();
    const unsigned int column = own_number();
    if (column >= e.columns) return;
    for (int which = 0; which < (rows.end < a.ny ? 3 : 2); which++) {
        auto label = [&](unsigned int column) {
            const unsigned int cell = edge_cell(a, rows, which, column);
            return s.largest[cell] > 0 ? e.lowest[s.label[cell]] : NONE;
        };
        const unsigned int own = label(column);
        if (column == 0 || label(column - 1) != own) e.runs[which * e.columns + atomicAdd(e.counts + which, 1u)] = make_uint2(column, own);
    }
}

// The first cell of the aggregate with a label of this rank.
__device__ __forceinline__ unsigned int first_of(const Matrix& a, const Search& s, const OwnRows& rows, const Edges& e, unsigned int label) {
    const unsigned int edge = label - e.base;
    return s.label[edge_cell(a, rows, edge >= e.columns, edge >= e.columns ? edge - e.columns : edge)];
}

// Replaces labels by the numbers of own cells of their aggregates, which are then no aggregates of this rank alone.
KERNEL(take_shared, __launch_bounds__(256))(Matrix a, Search s, OwnRows rows, Edges e, unsigned int* labels, unsigned int count) {
    await_previous();
    if (own_number() >= count) return;
    unsigned int* place = s.place + first_of(a, s, rows, e, labels[own_number()]);
    labels[own_number()] = *place;
    *place = 0;
}

// Writes numbers of shared aggregates to the places of their first cells.
KERNEL(mark_shared, __launch_bounds__(256))(Matrix a, Search s, OwnRows rows, Edges e, const uint2* marks, unsigned int count) {
    await_previous();
    if (own_number() >= count) return;
    const uint2 mark = marks[own_number()];
    s.place[first_of(a, s, rows, e, mark.x)] = SHARED | mark.y;
}

// A cell of a shared aggregate, and its contributions.
struct Shared {
    unsigned int number, cell;
    double leaving, absolute, diagonal;
};

// Adds up the contributions of own cells of shared aggregates, in any order, and lists them in `found`. `beside` has the places of the cells of the row before the
// rank's own rows and of the one after: numbers of their aggregates. Threads loop.
KERNEL(sum_shared, __launch_bounds__(256))(Matrix a, Search s, OwnRows rows, unsigned int columns, const unsigned int* beside, int pitch, Shared* found) {
    await_previous();
    for (unsigned int n = own_number(); n < a.cells; n += 256 * gridDim.x) {
        const unsigned int number = s.place[s.label[n]];
        if (!(number & SHARED)) continue;
        const Cell at = cell_at(a, n);
        if (!rows.has(at.j)) continue;
        const double sum = sums(a)[n];
        Shared own = {number & ~SHARED, vector_place(a, rows.first, pitch, at), sum, fabs(sum), sum};
        for_each_coupling(a, at, [&](int, int, int, double c, const Cell& to) {
            own.diagonal += c;
            const unsigned int column = to.i + (unsigned int)a.nx * to.k;
            const unsigned int other = rows.has(to.j) ? s.place[s.label[place(a, to)]] : beside[(to.j < rows.first ? 0 : columns) + column];
            if (c != 0 && other != number) {
                own.leaving += c;
                own.absolute += fabs(c);
            }
        });
        found[atomicAdd(s.counts + 3, Counts(1))] = own;
    }
}
