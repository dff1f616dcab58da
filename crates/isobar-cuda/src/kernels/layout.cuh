// The checkerboard layout of a field.
//
// colour c = (i + j) & 1; in row j, the m-th cell of colour c has i = 2m + ((j + c) & 1).
// index = m + pitch (k + nz (c + 2 j)), pitch = ceil(nx/2) rounded up to 8: one (j, c) is a contiguous
// nz x pitch slab. Padding cells hold zero and stay zero because their coefficients are zero.
// A field has 64 zeros before and after it, so that positions next to the first and the last row may be read.
// On a subdomain, rows count from its own first row; it has a halo row on each side where the whole grid
// continues, from row `start` <= 0 to before row `end` >= ny, counted in the same way.
#pragma once
#include "intrinsics.cuh"

#ifndef REAL
#define REAL double
#endif
typedef REAL T; // the type of fields and arithmetic
typedef const T* __restrict__ In; // a field that is only read
typedef T* __restrict__ Out; // a field that nothing else refers to

// A coarse field for interpolation.
template <class C> struct Coarse {
    const C* u;
    int nx, ny, pitch, nz;
    int start, end; // rows of the whole grid
};

__device__ __forceinline__ int coarse_index(int pitch, int nz, int i, int j) {
    return (i >> 1) + pitch * nz * (((i + j) & 1) + 2 * j);
}

// A coefficient made of device scalars: a quotient, or a product of two. A zero denominator gives zero: the
// iteration is then exact or has broken down, which the host detects from the scalars.
struct Ratio {
    const double* over[2];
    const double* under[2];
    double sign;

    __device__ __forceinline__ T value() const {
        double product = sign;
        for (int n = 0; n < 2; n++) product *= *under[n] == 0.0 ? 0.0 : *over[n] / *under[n];
        return T(product);
    }
};
