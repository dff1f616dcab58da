// The diagonal of a cell's row, and the contributions of its neighbours.
#pragma once
#include "seven_point/column.cuh"
#include "seven_point/halving.cuh"

constexpr int SIDES = FLAT ? 4 : 6;

// D and the sum of t u over the neighbours.
struct Gathered {
    T diagonal, sum;
};

template <bool EVEN, bool NEIGHBOURS>
__device__ __forceinline__ Gathered gather(const Stencil& op, const Known& known, const Column& column, int k, Index at, In u) {
    const Fields here = EVEN ? known.fields : load(op, at);
    Gathered cell = {load_shift(op, at) + sides(op, here, column.i, column.j, k), T(0)};
#pragma unroll
    for (int n = 0; n < SIDES; n++) {
        Index there = n < 4 ? column.to[n] : 0;
        bool has = n < 4 ? column.has[n] : false;
        if (n == BELOW) {
            has = k > 0 || (periodic(Z) && op.nz > 1);
            there = k > 0 ? -(Index)op.pitch : periodic(Z) ? (Index)op.pitch * (op.nz - 1) : 0;
        }
        if (n == ABOVE) {
            has = k + 1 < op.nz || (periodic(Z) && op.nz > 1);
            there = k + 1 < op.nz ? (Index)op.pitch : periodic(Z) ? -(Index)op.pitch * (op.nz - 1) : 0;
        }
        T t;
        if (EVEN) {
            t = known.t[n / 2];
        } else {
            const Fields h = load(op, at + there);
            t = n == WEST    ? face<X>(op, h, here)
                : n == EAST  ? face<X>(op, here, h)
                : n == SOUTH ? face<Y>(op, h, here)
                : n == NORTH ? face<Y>(op, here, h)
                : n == BELOW ? face<Z>(op, h, here)
                             : face<Z>(op, here, h);
        }
        t = has ? t : T(0);
        cell.diagonal += t;
        if (NEIGHBOURS) {
            const T value = u[at + there];
            // The value of a missing neighbour is undefined.
            cell.sum = fma(t, has ? value : T(0), cell.sum);
        }
    }
    return cell;
}
