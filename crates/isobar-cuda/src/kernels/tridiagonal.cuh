// Lines of arrays in C order, (nz, ny, nx), and pivots of tridiagonal systems along them.
//
// A line consists of all `cells` along an axis, `inner` numbers apart.
#pragma once
#include "intrinsics.cuh"

// Returns the place of the first cell of a line.
__device__ __forceinline__ long long start_of(int line, int cells, int inner) {
    return (long long)(line / inner) * cells * inner + line % inner;
}

// The reciprocal of a pivot; a pivot of an indefinite matrix that is too close to 0 is perturbed.
__device__ __forceinline__ double inverse_of(double pivot, double least) {
    return reciprocal(fabs(pivot) < least ? copysign(least, pivot) : pivot);
}
