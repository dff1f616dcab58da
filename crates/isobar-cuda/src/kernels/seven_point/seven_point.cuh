// A matrix that couples a cell to its six neighbours, whatever its coefficients come from:
//
// (A u)_n = s_n u_n + sum over faces of t (u_n - u_m),    t, s >= 0, t the same seen from both sides.
//
// Everything in this folder is written once, for any such stencil. What is defined from outside:
//   STENCIL   the stencil's own header, such as "diffusion.cuh".
//   PERIODIC  bit axis.
//   FLAT      whether there is one layer only.
//   WIDE      whether vectors have 2^31 elements or more.
//
// The stencil's header is included below, and must define
//   struct Stencil          the first argument of all kernels. It has nx, ny, nz and pitch, and the rows of the larger grid,
//                           from start <= 0 to end >= ny, that these are a part of: of a ring with a row more at either end, the
//                           one around it. Coefficients, which may change between two launches of one recording, are behind
//                           pointers.
//   struct Fields           T f[N]: what a cell says of its faces. Fields{} closes all of them.
//   Fields load(op, at)     of the cell at a position. Zero in padding, so that a cell beyond the end of a row is closed.
//   void prefetch(op, at)   brings to L2 what load reads.
//   T face<AXIS>(op, lower, upper)     t between a cell and its upper neighbour in a direction, by the fields of both;
//   T face<AXIS>(ratio, lower, upper)  with what all of these have in common, T ratio_once<AXIS>(op), for loops that read it once.
//   T load_shift(op, at)               s, but for
//   T sides(op, fields, i, j, k)       what sides of the grid add to it in a cell, and
//   bool on_side(op, i, j, k)          whether they do.
//
// Cells come in pairs: cells 2m and 2m + 1 of a row are the m-th of its two colours. Nothing here reads outside
// a vector.
#pragma once
#include "layout.cuh"

enum { X = 0, Y = 1, Z = 2 };
enum { WEST = 0, EAST = 1, SOUTH = 2, NORTH = 3, BELOW = 4, ABOVE = 5 };

// Positions in vectors; 64 bits only where they must be, since these kernels are short of registers.
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

// Whether row j is the first of a ring, or the last, so that the next one that way is around it.
__device__ __forceinline__ bool begins_ring(const Stencil& op, int j) { return periodic(Y) && j == op.start + (op.start < 0); }
__device__ __forceinline__ bool ends_ring(const Stencil& op, int j) { return periodic(Y) && j + 1 == op.end - (op.end > op.ny); }

__device__ __forceinline__ T inverse(T x) { return x > T(0) ? reciprocal(x) : T(0); }

// Elements of one (j, colour).
__device__ __forceinline__ Index half_plane(const Stencil& op) { return (Index)op.pitch * LAYERS(op); }

__device__ __forceinline__ Index place(const Stencil& op, int i, int j, int k) {
    return (i >> 1) + (Index)op.pitch * k + half_plane(op) * (((i + j) & 1) + 2 * (Index)j);
}
