// The diffusion operator: (A u)_n = s_n u_n + sum over faces of T_nm (u_n - u_m).
//
// Specialised by
//   STORED_FACES  1: the fields are T of the faces to the upper neighbours in x, y, z. 0: they are coefficients of
//                 cells, and T = h_a h_b / (h_a + h_b), computed here, with h = factor * field.
//   FIELD_X, FIELD_Y, FIELD_Z  which field a direction takes its h from.
//   FIXED         bit 2 axis + upper: a Dirichlet side, which adds h to s (cells only).
//   PERIODIC      bit axis.
//   SHIFT         whether there is a field of s.
//   WIDE          whether vectors have 2^31 elements or more.
//   FLAT          whether there is one level only.
//
// Cells come in pairs: cells 2m and 2m + 1 of a row are the m-th of its two colours. Nothing here reads outside
// a vector. Coefficients are zero in padding, so the cell beyond the end of an odd row has no open face.
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

constexpr int FIELD_OF[3] = {FIELD_X, FIELD_Y, FIELD_Z};

struct Diffusion {
    const T* field[3];
    const T* shift;
    double factor[3];
    int nx, ny, nz, hp;
};

#if FLAT
#define LEVELS(op) 1
#else
#define LEVELS(op) ((op).nz)
#endif

__device__ constexpr bool periodic(int axis) { return (PERIODIC >> axis) & 1; }
__device__ constexpr bool fixed(int axis, int upper) { return (FIXED >> (2 * axis + upper)) & 1; }

// The fields in one cell; those that are not used cost nothing.
struct Half {
    T f[3];
};

__device__ __forceinline__ Half load(const Diffusion& op, Index at) {
    Half h;
#pragma unroll
    for (int n = 0; n < 3; n++) h.f[n] = op.field[n][at];
    return h;
}

// Too small to change a sum of coefficients, and enough to keep 0/0 out: T is 0 where either h is.
constexpr T TINY = sizeof(T) == 8 ? T(1e-300) : T(1e-36);

// T between a cell and its upper neighbour in a direction.
template <int AXIS> __device__ __forceinline__ T face(const Diffusion& op, const Half& lower, const Half& upper) {
#if STORED_FACES
    return lower.f[AXIS];
#else
    T a = lower.f[FIELD_OF[AXIS]], b = upper.f[FIELD_OF[AXIS]];
    return T(op.factor[AXIS]) * (a * (b * reciprocal(a + b + TINY)));
#endif
}

__device__ __forceinline__ T inverse(T x) { return x > T(0) ? reciprocal(x) : T(0); }

// What fixed sides add to s.
__device__ __forceinline__ T fixed_sides(const Diffusion& op, const Half& h, int i, int j, int k) {
    T sum = T(0);
#if !STORED_FACES && FIXED
    if (fixed(X, 0) && i == 0) sum += T(op.factor[X]) * h.f[FIELD_X];
    if (fixed(X, 1) && i + 1 == op.nx) sum += T(op.factor[X]) * h.f[FIELD_X];
    if (fixed(Y, 0) && j == 0) sum += T(op.factor[Y]) * h.f[FIELD_Y];
    if (fixed(Y, 1) && j + 1 == op.ny) sum += T(op.factor[Y]) * h.f[FIELD_Y];
    if (fixed(Z, 0) && k == 0) sum += T(op.factor[Z]) * h.f[FIELD_Z];
    if (fixed(Z, 1) && k + 1 == LEVELS(op)) sum += T(op.factor[Z]) * h.f[FIELD_Z];
#endif
    return sum;
}

__device__ __forceinline__ T load_shift(const Diffusion& op, Index at) {
#if SHIFT
    return op.shift[at];
#else
    return T(0);
#endif
}

// Elements of one (j, colour).
__device__ __forceinline__ Index half_plane(const Diffusion& op) { return (Index)op.hp * LEVELS(op); }

__device__ __forceinline__ Index place(const Diffusion& op, int i, int j, int k) {
    return (i >> 1) + (Index)op.hp * k + half_plane(op) * (((i + j) & 1) + 2 * (Index)j);
}
