// The operator and its diagonal by themselves, and restriction of a given field: one cell a thread, for methods
// that are not made of fused steps.
// Block (32, 8); grid (ceil(hp / 32), ceil(nz / 8), 2 ny), a (colour, row) in z.
#include "tensor_product.cuh"

struct Cell {
    int m, k, c, j;
    bool inside;
    long long at;
};

__device__ __forceinline__ Cell this_cell(int hp, int nz) {
    Cell cell;
    cell.m = blockIdx.x * 32 + threadIdx.x;
    cell.k = blockIdx.y * 8 + threadIdx.y;
    cell.c = blockIdx.z & 1;
    cell.j = blockIdx.z >> 1;
    cell.inside = cell.m < hp && cell.k < nz;
    cell.at = cell.m + hp * (cell.k + (long long)nz * blockIdx.z);
    return cell;
}

// y = A x
extern "C" __global__ void apply(Operator op, const T* __restrict__ x, T* __restrict__ y) {
    Cell cell = this_cell(op.hp, op.nz);
    if (!cell.inside) return;
    Column column = load_column(op, cell.j, cell.c, cell.m);
    long long colour = (long long)op.hp * op.nz;
    const T* own = x + cell.at;
    const T* other = cell.c ? own - colour : own + colour;
    T sum = column.same * other[0];
    sum = fma(column.shifted, other[column.shift], sum);
    sum = fma(column.south, other[cell.j > 0 ? -2 * colour : 0], sum);
    sum = fma(column.north, other[cell.j + 1 < op.ny ? 2 * colour : 0], sum);
    T below = cell.k > 0 ? own[-op.hp] : T(0), above = cell.k + 1 < op.nz ? own[op.hp] : T(0);
    y[cell.at] = -residual(column, op.row[cell.k], T(0), below, own[0], above, sum);
}

// z = D^-1 r, D the diagonal of A
extern "C" __global__ void divide_by_diagonal(Operator op, const T* __restrict__ r, T* __restrict__ z) {
    Cell cell = this_cell(op.hp, op.nz);
    if (!cell.inside) return;
    int column = cell.m + op.hp * blockIdx.z;
    RowLevel v = op.row[cell.k];
    z[cell.at] = r[cell.at] / (op.area[column] * (v.a + v.b + v.c + op.total[column] * v.d));
}

// coarse = R f, launched over the coarse cells: fine cells (2I + p, 2J + q) are m = I in both colours of rows
// 2J and 2J + 1.
extern "C" __global__ void restrict_field(int hp, const T* __restrict__ f, int nx_coarse, int nz, int hp_coarse,
                                          T* __restrict__ coarse) {
    Cell cell = this_cell(hp_coarse, nz);
    if (!cell.inside) return;
    int i = 2 * cell.m + ((cell.j + cell.c) & 1);
    T sum = T(0);
    if (i < nx_coarse) {
        long long colour = (long long)hp * nz;
        const T* fine = f + i + hp * cell.k + 4 * colour * cell.j;
        sum = (fine[0] + fine[colour]) + (fine[2 * colour] + fine[3 * colour]);
    }
    coarse[cell.at] = sum;
}
