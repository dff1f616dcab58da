// The data of the search for strongly coupled aggregates, see bodies.cu.
#pragma once
#include "galerkin/setup/setup.cuh"

constexpr unsigned int NONE = 0xffffffffu, ALL_LANES = 0xffffffffu;

// The number of aggregates in the upper half, of their cells in the lower half.
typedef unsigned long long Counts;

__device__ __forceinline__ unsigned int own_number() { return blockIdx.x * 256 + threadIdx.x; }

// The data of one pass, by cell unless stated otherwise.
struct Search {
    Number* largest;
    // Classes of the couplings in stored directions, two bits each: the number, from 1, of the first threshold that a coupling
    // reaches, or 0 for a coupling that joins nothing.
    unsigned int* classes;
    // A cell of the same aggregate with no higher number; at the end its first cell.
    unsigned int* label;
    // The number of cells, then the aggregate's number, from 1, at first cells. All are 0 between passes.
    unsigned int* place;
    // The start of each aggregate's cells in `cells`, and the number of cells stored so far.
    unsigned int* starts;
    unsigned int* filled;
    unsigned int* cells;
    // The number of cells, plus OF_PASS times the number of the last pass that kept it, at first cells of aggregates that are kept.
    unsigned int* kept;
    // The numbers of aggregates examined, kept, and kept before, and of cells in shared ones.
    Counts* counts;
    // The smallest D relative to the sum of diagonals.
    double least;
    // The numbers of this pass, from 1, and of the last one that kept any aggregates, or 0.
    unsigned int pass, before;
};

// The position of a cell in a vector with this pitch, of rows from `first_row` on, an even number.
__device__ __forceinline__ unsigned int vector_place(const Matrix& a, int first_row, int pitch, const Cell& at) {
    return (at.i >> 1) + pitch * (at.k + (unsigned int)a.nz * (((at.i + at.j) & 1) + 2u * (at.j - first_row)));
}
