// The diffusion operator as a stencil of seven_point.cuh.
//
// Specialised by
//   STORED_FACES  1: the fields are T of the faces to the upper neighbours in x, y, z. 0: they are coefficients h of cells,
//                 and T = h_a h_b / (h_a + h_b) is computed here.
//   FIELD_X, FIELD_Y, FIELD_Z  the field of each direction. A field contains the h of the first direction that
//                 uses it; other directions multiply it by their ratio.
//   FIXED         bit 2 axis + upper: a Dirichlet side, which adds h to s (cells only).
//   SHIFT         whether there is a field of s.
#pragma once

struct Stencil {
    const T* field[3];
    const T* shift;
    const T* ratio; // of h to that of the first direction with the same field, by direction
    int nx, ny, nz, pitch;
    int start, end; // rows of the whole grid, see seven_point.cuh: 0 and ny if it is not divided
};

constexpr int FIELDS = 3;

struct Fields {
    T f[FIELDS];
};

constexpr int FIELD_OF[3] = {FIELD_X, FIELD_Y, FIELD_Z};

// Whether any direction uses a field, if only for a fixed side.
__device__ constexpr bool takes_field(int n) { return n == FIELD_X || n == FIELD_Y || n == FIELD_Z; }

// Whether any direction uses a field for faces.
__device__ constexpr bool reads_field(int n) { return n == FIELD_X || n == FIELD_Y || (!FLAT && n == FIELD_Z); }

// Whether a direction multiplies by its ratio.
__device__ constexpr bool has_ratio(int axis) {
    return !STORED_FACES && ((axis > X && FIELD_OF[axis] == FIELD_X) || (axis > Y && FIELD_OF[axis] == FIELD_Y));
}

__device__ constexpr bool fixed(int axis, int upper) { return !STORED_FACES && ((FIXED >> (2 * axis + upper)) & 1); }

// Unused fields cost nothing.
__device__ __forceinline__ Fields load(const Stencil& op, Index at) {
    Fields h;
#pragma unroll
    for (int n = 0; n < 3; n++) h.f[n] = op.field[n][at];
    return h;
}

__device__ __forceinline__ void prefetch(const Stencil& op, Index at) {
#pragma unroll
    for (int n = 0; n < 3; n++)
        if (reads_field(n)) prefetch_l2(op.field[n] + at);
}

// Too small to change a sum of coefficients, but prevents 0/0: T is 0 if either h is.
constexpr T TINY = T(sizeof(T) == 8 ? 1e-300 : 1e-36);

// The ratio of a direction to the first direction that uses the same field.
template <int AXIS> __device__ __forceinline__ T ratio(const Stencil& op) {
    return has_ratio(AXIS) ? __ldg(op.ratio + AXIS) : T(1);
}
template <int AXIS> __device__ __forceinline__ T ratio_once(const Stencil& op) {
    return has_ratio(AXIS) ? read_once(op.ratio + AXIS) : T(1);
}
template <int AXIS> __device__ __forceinline__ T in_direction(T ratio, T value) { return has_ratio(AXIS) ? ratio * value : value; }

template <int AXIS> __device__ __forceinline__ T face(T ratio, const Fields& lower, const Fields& upper) {
    if (STORED_FACES) return lower.f[AXIS];
    T a = lower.f[FIELD_OF[AXIS]], b = upper.f[FIELD_OF[AXIS]];
    return in_direction<AXIS>(ratio, a * (b * reciprocal(a + b + TINY)));
}
template <int AXIS> __device__ __forceinline__ T face(const Stencil& op, const Fields& lower, const Fields& upper) {
    return face<AXIS>(ratio<AXIS>(op), lower, upper);
}

// Whether cell n of `count` in a direction lies on its lower or upper side, and that side is fixed.
template <int AXIS, int UPPER> __device__ __forceinline__ bool on_fixed(int n, int count) {
    return fixed(AXIS, UPPER) && (UPPER ? n + 1 == count : n == 0);
}

// The number that face<Z> reads, and what it reads that from.
__device__ __forceinline__ T along_z(const Fields& h) { return h.f[STORED_FACES ? Z : FIELD_Z]; }
__device__ __forceinline__ Fields of_along_z(T number) {
    Fields h{};
    h.f[STORED_FACES ? Z : FIELD_Z] = number;
    return h;
}

template <int AXIS>
__device__ __forceinline__ void add_sides(T& sum, const Stencil& op, const Fields& h, int n, int count) {
    if (on_fixed<AXIS, 0>(n, count)) sum += in_direction<AXIS>(ratio<AXIS>(op), h.f[FIELD_OF[AXIS]]);
    if (on_fixed<AXIS, 1>(n, count)) sum += in_direction<AXIS>(ratio<AXIS>(op), h.f[FIELD_OF[AXIS]]);
}

__device__ __forceinline__ T sides(const Stencil& op, const Fields& h, int i, int j, int k) {
    T sum = T(0);
    add_sides<X>(sum, op, h, i, op.nx);
    add_sides<Y>(sum, op, h, j - op.start, op.end - op.start);
    add_sides<Z>(sum, op, h, k, LAYERS(op));
    return sum;
}

// Whether a cell is active for its coefficient alone, though all its neighbours may be closed.
__device__ __forceinline__ bool has_coefficient(const Fields& h) {
    bool has = false;
#pragma unroll
    for (int n = 0; n < FIELDS; n++) has |= !STORED_FACES && takes_field(n) && h.f[n] > T(0);
    return has;
}

__device__ __forceinline__ bool on_side(const Stencil& op, int i, int j, int k) {
    return on_fixed<X, 0>(i, op.nx) || on_fixed<X, 1>(i, op.nx) || on_fixed<Y, 0>(j - op.start, op.end - op.start) ||
           on_fixed<Y, 1>(j - op.start, op.end - op.start) || on_fixed<Z, 0>(k, LAYERS(op)) || on_fixed<Z, 1>(k, LAYERS(op));
}

__device__ __forceinline__ T load_shift(const Stencil& op, Index at) { return SHIFT ? op.shift[at] : T(0); }
