// Vertical modes: s_m(k) at m + stride k in T, zero beyond the last mode. Vectors of modes are grids with one layer per mode, in MODE.
#pragma once
#include "tensor_product/tensor_product.cuh"

typedef MODE_REAL Mode;

// Some of the modes.
struct Modes {
    const T* values;
    int first, all, stride;
};

__device__ __forceinline__ long long modal_plane(const Operator& op, const Modes& modes, int j, int c) {
    return (long long)op.pitch * (modes.first + (long long)modes.all * (c + 2 * j));
}
