// The checkerboard layout of a field.
//
// colour c = (i + j) & 1; in row j, the m-th cell of colour c has i = 2m + ((j + c) & 1).
// index = m + hp (k + nz (c + 2 j)), hp = ceil(nx/2) rounded up to 8: one (j, c) is a contiguous
// nz x hp slab. Padding cells hold zero and stay zero because their coefficients are zero.
// A field has 64 elements of zeros before and after it: neighbours m-1 and m+1 are read without a
// test and multiplied by a zero coupling.
#pragma once
#include "intrinsics.cuh"

#ifndef REAL
#define REAL double
#endif
typedef REAL T; // what fields are stored and computed in

// A coarse field to be interpolated from.
template <class C> struct Coarse {
    const C* u;
    int nx, ny, hp, nz;
};

__device__ __forceinline__ int coarse_index(int hp, int nz, int i, int j) {
    return (i >> 1) + hp * nz * (((i + j) & 1) + 2 * j);
}

// numerator / denominator of two device scalars; zero when the denominator is (a first iteration, or
// a breakdown that the host will see in the scalars themselves).
__device__ __forceinline__ T quotient(const double* numerator, const double* denominator) {
    double d = *denominator;
    return d == 0.0 ? T(0) : T(*numerator / d);
}
