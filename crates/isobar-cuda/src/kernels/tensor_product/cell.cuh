// One cell per thread, for unfused steps.
// Block (32, 8); grid (ceil(pitch / 32), ceil(nz / 8), 2 ny), a (colour, row) in z.
#pragma once
#include "tensor_product/tensor_product.cuh"

struct Cell {
    int m, k, c, j;
    bool inside;
    long long at;
};

__device__ __forceinline__ Cell this_cell(int pitch, int nz) {
    Cell cell;
    cell.m = blockIdx.x * 32 + threadIdx.x;
    cell.k = blockIdx.y * 8 + threadIdx.y;
    cell.c = blockIdx.z & 1;
    cell.j = blockIdx.z >> 1;
    cell.inside = cell.m < pitch && cell.k < nz;
    cell.at = cell.m + pitch * (cell.k + (long long)nz * blockIdx.z);
    return cell;
}
