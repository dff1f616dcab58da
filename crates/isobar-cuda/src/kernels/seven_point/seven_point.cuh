// A matrix that couples a cell to its six neighbours, with any coefficients:
//
// (A u)_n = s_n u_n + sum over faces of t (u_n - u_m),    t, s >= 0, with equal t from both sides.
//
// The code in this folder works for any such stencil. Defined by the host:
//   STENCIL   the stencil's header, such as "diffusion.cuh".
//   PERIODIC  bits of the periodic axes.
//   FLAT      whether there is one layer only.
//   WIDE      whether vectors have 2^31 elements or more.
//
// The stencil's header is included below, and must define
//   struct Stencil          the first argument of all kernels, with nx, ny, nz and pitch, and the rows of the whole grid,
//                           from start <= 0 to end >= ny; in a divided periodic direction they include one more row at either end,
//                           the one at the other end. Coefficients, which may change between two launches of a recording, are behind
//                           pointers.
//   struct Fields           T f[N]: a cell's numbers for its faces. Fields{} closes all of them.
//   Fields load(op, at)     the numbers at a position. Zero in padding, so that a cell beyond the end of a row is closed.
//   void prefetch(op, at)   prefetches what load reads to L2.
//   T face<AXIS>(op, lower, upper)     t between a cell and its upper neighbour in a direction, from the numbers of both;
//   T face<AXIS>(ratio, lower, upper)  t with the common factor T ratio_once<AXIS>(op), for loops that read it once.
//   T along_z(fields), Fields of_along_z(number)  the number that face<Z> reads of a cell, and fields of it.
//   T load_shift(op, at)               s, without
//   T sides(op, fields, i, j, k)       the contribution of the grid's sides to s in a cell, and
//   bool on_side(op, i, j, k)          whether there is one.
//   bool has_coefficient(fields)       whether a cell is active without an open face.
//
// Cells come in pairs: cells 2m and 2m + 1 of a row are the m-th of its two colours. Nothing here reads outside
// a vector.
#pragma once
#include "layout.cuh"

enum { X = 0, Y = 1, Z = 2 };
enum { WEST = 0, EAST = 1, SOUTH = 2, NORTH = 3, BELOW = 4, ABOVE = 5 };

// Positions in vectors; 64 bits only if necessary, because registers are scarce.
#if WIDE
typedef long long Index;
#else
typedef int Index;
#endif

#if FLAT
#define LAYERS(op) 1
#else
#define LAYERS(op) ((op).nz)
#endif

__device__ constexpr bool periodic(int axis) { return (PERIODIC >> axis) & 1; }

#include STENCIL

// Whether row j is the first of a periodic direction, or the last, so that the next row in that direction is at the other end.
__device__ __forceinline__ bool begins_ring(const Stencil& op, int j) { return periodic(Y) && j == op.start + (op.start < 0); }
__device__ __forceinline__ bool ends_ring(const Stencil& op, int j) { return periodic(Y) && j + 1 == op.end - (op.end > op.ny); }

__device__ __forceinline__ T inverse(T x) { return x > T(0) ? reciprocal(x) : T(0); }

// Elements of one half plane (j, colour).
__device__ __forceinline__ Index half_plane(const Stencil& op) { return (Index)op.pitch * LAYERS(op); }

__device__ __forceinline__ Index place(const Stencil& op, int i, int j, int k) {
    return (i >> 1) + (Index)op.pitch * k + half_plane(op) * (((i + j) & 1) + 2 * (Index)j);
}
