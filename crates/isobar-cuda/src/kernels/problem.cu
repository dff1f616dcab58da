// Diffusion problems in the order of a caller's arrays, as `core/problem` specifies them on the host: the coefficients of matrices, right-hand sides, and
// derivatives with respect to κ, c, f and sides.
// Block (32, 8); a block has cells of one layer after another.
#include "intrinsics.cuh"

enum Kind { NEUMANN, DIRICHLET, ROBIN, PERIODIC };

// A caller's array with its strides in elements; none where `start` is null.
struct Array {
    void* start;
    long long x, y, z, is_single;

    __device__ __forceinline__ long long place(const int at[3]) const { return at[0] * x + at[1] * y + at[2] * z; }

    __device__ __forceinline__ double get(const int at[3]) const {
        return is_single ? double(static_cast<const float*>(start)[place(at)]) : static_cast<const double*>(start)[place(at)];
    }

    __device__ __forceinline__ void put(const int at[3], double value) const {
        if (is_single) {
            static_cast<float*>(start)[place(at)] = float(value);
        } else {
            static_cast<double*>(start)[place(at)] = value;
        }
    }

    // Adds a number to one that others may add to as well.
    __device__ __forceinline__ void add(const int at[3], double value) const {
        if (is_single) {
            atomicAdd(static_cast<float*>(start) + place(at), float(value));
        } else {
            atomicAdd(static_cast<double*>(start) + place(at), value);
        }
    }
};

// The arrays of a kernel, which are among its arguments.
template <int N> struct Arrays {
    Array all[N];
};

// A side of the box. Numbers of faces, where there are any, replace the value and the coefficient.
struct Side {
    const double *values, *coefficients;
    double value, coefficient;
    long long kind;
};

// A source of a given rate (radius 0) or a well of a given value, in the layers from `first` to `last`.
struct Point {
    long long i, j, first, last;
    double number, radius;
};

// A problem without κ, c and f.
struct Form {
    Side sides[3][2];
    const double* widths[3];
    const Point* points;
    long long extents[3], count;
};

// A face on a side: the conductance from the cell's centre to the face, that of a film outside, and the side's value.
struct Face {
    double half, film, value;
};

// A cell with its κ in x, y and z.
struct Cell {
    int at[3];
    double width[3], kappa[3];

    __device__ __forceinline__ Cell(const Form& form, const Array* arrays, int i, int j, int k) : at{i, j, k} {
#pragma unroll
        for (int d = 0; d < 3; d++) {
            width[d] = form.widths[d][at[d]];
            kappa[d] = arrays[d].get(at);
        }
    }

    __device__ __forceinline__ double volume() const { return width[0] * width[1] * width[2]; }
    __device__ __forceinline__ double area(int d) const { return volume() / width[d]; }
    __device__ __forceinline__ bool is_active() const { return kappa[0] > 0 || kappa[1] > 0 || kappa[2] > 0; }
    // ∂h/∂κ, where h = 2κA/Δ is the conductance from the centre to a face.
    __device__ __forceinline__ double by_kappa(int d) const { return 2 * volume() / (width[d] * width[d]); }

    __device__ __forceinline__ Face face(const Form& form, int d, const Side& side) const {
        long long n = d == 0 ? at[1] + form.extents[1] * at[2] : at[0] + form.extents[0] * (d == 1 ? at[2] : at[1]);
        double coefficient = side.coefficients ? side.coefficients[n] : side.coefficient;
        return {kappa[d] * by_kappa(d), coefficient * area(d), side.values ? side.values[n] : side.value};
    }
};

// A cell of a well: the well index 2π √(κ_x κ_y) Δz / ln(r_e / r) with Peaceman's radius r_e, and its derivatives by κ_x and κ_y.
struct Opening {
    double index, by_x, by_y;

    __device__ __forceinline__ Opening(const Cell& cell, double radius) {
        double x = cell.kappa[0], y = cell.kappa[1], ratio = sqrt(y / x);
        double across = ratio * cell.width[0] * cell.width[0], along = cell.width[1] * cell.width[1] / ratio;
        double reach = log(0.28 * sqrt(across + along) / (sqrt(ratio) + 1 / sqrt(ratio)) / radius);
        index = x > 0 && y > 0 ? 6.283185307179586 * sqrt(x * y) * cell.width[2] / reach : 0.0;
        // d ln r_e / d ln √(κ_y/κ_x)
        double by_ratio = 0.5 * (across - along) / (across + along) - 0.5 * (ratio - 1) / (ratio + 1), tilt = 0.5 * by_ratio / reach;
        by_x = index > 0 ? index / x * (0.5 + tilt) : 0.0;
        by_y = index > 0 ? index / y * (0.5 - tilt) : 0.0;
    }
};

// Calls f(cell) for the cells of a point that are open in x.
template <class F> __device__ __forceinline__ void for_each_layer(const Form& form, const Array* arrays, const Point& point, F f) {
    for (int k = int(point.first); k <= int(point.last); k++) {
        Cell cell(form, arrays, int(point.i), int(point.j), k);
        if (cell.kappa[0] > 0) f(cell);
    }
}

// Two conductances in series, without overflow.
__device__ __forceinline__ double in_series(double a, double b) {
    double less = a < b ? a : b, more = a < b ? b : a;
    return more > 0 ? less / (1 + less / more) : 0.0;
}

// Calls f(i, j, k) for the cells of this thread.
template <class F> __device__ __forceinline__ void for_each_cell(const int extents[3], F f) {
    int i = blockIdx.x * 32 + threadIdx.x, j = blockIdx.y * 8 + threadIdx.y;
    if (i >= extents[0] || j >= extents[1]) return;
    for (int k = blockIdx.z; k < extents[2]; k += gridDim.z) f(i, j, k);
}

// to = from Δx^p Δy^q Δz^r for powers of −1, 0 or 1. `arrays` are `from` and `to`.
KERNEL(scale, __launch_bounds__(256))(const Form* of, const __grid_constant__ Arrays<2> given, int p, int q, int r) {
    await_previous();
    const Array* arrays = given.all;
    int extents[3] = {int(of->extents[0]), int(of->extents[1]), int(of->extents[2])}, powers[3] = {p, q, r};
    for_each_cell(extents, [&](int i, int j, int k) {
        int at[3] = {i, j, k};
        double value = arrays[0].get(at);
#pragma unroll
        for (int d = 0; d < 3; d++) {
            if (powers[d] == 0) continue;
            double width = of->widths[d][at[d]];
            value = powers[d] > 0 ? value * width : value / width;
        }
        arrays[1].put(at, value);
    });
}

// to = κ of the phase of each cell, of which there are at most 256.
KERNEL(look_up, __launch_bounds__(256))(long long count, const unsigned char* __restrict__ phases, const double* __restrict__ kappa, void* to,
                                        int is_single) {
    await_previous();
    for (long long n = blockIdx.x * 256LL + threadIdx.x; n < count; n += gridDim.x * 256LL) {
        double value = kappa[phases[n]];
        if (is_single) {
            static_cast<float*>(to)[n] = float(value);
        } else {
            static_cast<double*>(to)[n] = value;
        }
    }
}

// What is found in an array: the number of the first value that is negative or not finite, and of the others the smallest, the smallest positive one and the
// largest, as bits, which have the order of the numbers.
struct Found {
    unsigned long long first = ~0ull, least = ~0ull, positive = ~0ull, most = 0;

    __device__ __forceinline__ void see(double value, unsigned long long number) {
        if (!(value >= 0.0 && value <= 1.7976931348623157e308)) {
            first = number < first ? number : first;
            return;
        }
        // Without the sign of −0.
        unsigned long long bits = __double_as_longlong(value + 0.0);
        least = bits < least ? bits : least;
        positive = bits && bits < positive ? bits : positive;
        most = bits > most ? bits : most;
    }

    // Lowers report[0] to report[2] to the first three of this warp, and raises report[3] to the last.
    __device__ __forceinline__ void tell(unsigned long long* report) {
#pragma unroll
        for (int other = 16; other > 0; other /= 2) {
            unsigned long long theirs = __shfl_xor_sync(~0u, least, other);
            least = theirs < least ? theirs : least;
            theirs = __shfl_xor_sync(~0u, positive, other);
            positive = theirs < positive ? theirs : positive;
            theirs = __shfl_xor_sync(~0u, most, other);
            most = theirs > most ? theirs : most;
            theirs = __shfl_xor_sync(~0u, first, other);
            first = theirs < first ? theirs : first;
        }
        // Few are beyond those before.
        if (threadIdx.x == 0 && first < report[0]) atomicMin(report, first);
        if (threadIdx.x == 0 && least < report[1]) atomicMin(report + 1, least);
        if (threadIdx.x == 0 && positive < report[2]) atomicMin(report + 2, positive);
        if (threadIdx.x == 0 && most > report[3]) atomicMax(report + 3, most);
    }
};

// Finds the spread of an array of the grid's shape; see Found.
KERNEL(spread, __launch_bounds__(256))(const Form* of, const __grid_constant__ Arrays<1> given, unsigned long long* report) {
    await_previous();
    const Array* arrays = given.all;
    int extents[3] = {int(of->extents[0]), int(of->extents[1]), int(of->extents[2])};
    Found found;
    for_each_cell(extents, [&](int i, int j, int k) {
        int at[3] = {i, j, k};
        found.see(arrays->get(at), i + (unsigned long long)extents[0] * (j + (unsigned long long)extents[1] * k));
    });
    found.tell(report);
}

// Numbers of cells, or of faces between them.
struct Extents {
    int of[3];
};

// Copies an array of faces along `axis`, or of cells (3), of which there are as many as `given` says, on `cells` cells along the axis: 0 where a mask, if there is
// one, lacks the cells. `arrays` are what is copied, the mask, and where to. Finds the spread of what is copied, as Found tells, and adds the copy to report[4].
KERNEL(copy_faces, __launch_bounds__(256))(const __grid_constant__ Arrays<3> given, Extents of, int axis, int cells, unsigned long long* report) {
    await_previous();
    const Array* arrays = given.all;
    Found found;
    double sum = 0;
    for_each_cell(of.of, [&](int i, int j, int k) {
        int at[3] = {i, j, k}, next[3] = {i, j, k};
        if (axis < 3) next[axis] = at[axis] + 1 < cells ? at[axis] + 1 : 0;
        double value = arrays[0].get(at);
        found.see(value, i + (unsigned long long)of.of[0] * (j + (unsigned long long)of.of[1] * k));
        if (arrays[1].start && (arrays[1].get(at) == 0 || arrays[1].get(next) == 0)) value = 0;
        sum += value;
        arrays[2].put(at, value);
    });
    found.tell(report);
#pragma unroll
    for (int other = 16; other > 0; other /= 2) sum += __shfl_xor_sync(~0u, sum, other);
    if (threadIdx.x == 0 && sum != 0) atomicAdd(reinterpret_cast<double*>(report) + 4, sum);
}

// Returns whether a cell has an open face or a shift. `arrays` are the faces between neighbours in x, y and z and the shift, each if there is one; `rings` has a bit
// for each periodic direction.
__device__ __forceinline__ bool is_coupled(const Array* arrays, const Extents& cells, int rings, const int at[3]) {
    bool found = arrays[3].start && arrays[3].get(at) != 0;
#pragma unroll
    for (int d = 0; d < 3; d++) {
        if (!arrays[d].start) continue;
        const bool is_ring = rings >> d & 1;
        int before[3] = {at[0], at[1], at[2]};
        before[d] = at[d] > 0 ? at[d] - 1 : cells.of[d] - 1;
        if (is_ring || at[d] + 1 < cells.of[d]) found = found || arrays[d].get(at) > 0;
        if (is_ring || at[d] > 0) found = found || arrays[d].get(before) > 0;
    }
    return found;
}

// Sets *found to 1 if a cell of the mask arrays[4] is not coupled; see is_coupled.
KERNEL(find_isolated, __launch_bounds__(256))(const __grid_constant__ Arrays<5> given, Extents cells, int rings, unsigned long long* found) {
    await_previous();
    const Array* arrays = given.all;
    for_each_cell(cells.of, [&](int i, int j, int k) {
        int at[3] = {i, j, k};
        if (arrays[4].get(at) != 0 && !is_coupled(arrays, cells, rings, at)) *found = 1;
    });
}

// arrays[5] = arrays[4], or 0 if there is none, and in cells that are not coupled; see is_coupled.
KERNEL(rhs_of_faces, __launch_bounds__(256))(const __grid_constant__ Arrays<6> given, Extents cells, int rings) {
    await_previous();
    const Array* arrays = given.all;
    for_each_cell(cells.of, [&](int i, int j, int k) {
        int at[3] = {i, j, k};
        arrays[5].put(at, arrays[4].start && is_coupled(arrays, cells, rings, at) ? arrays[4].get(at) : 0.0);
    });
}

// Lowers report[0] to the number of the first cell with a value that is not finite, report[1] to that of the first with a negative one, and
// report[2] to that of one whose value is no sum of numbers along x, y and z.
KERNEL(examine, __launch_bounds__(256))(const Form* of, const __grid_constant__ Arrays<1> given, unsigned long long* report) {
    await_previous();
    const Array* arrays = given.all;
    int extents[3] = {int(of->extents[0]), int(of->extents[1]), int(of->extents[2])};
    // Sides have larger values than the cells between them, and with these sums would lose digits.
    const int middle[3] = {extents[0] / 2, extents[1] / 2, extents[2] / 2};
    const double base = arrays->get(middle);
    unsigned long long found[3] = {~0ull, ~0ull, ~0ull};
    for_each_cell(extents, [&](int i, int j, int k) {
        const int at[3] = {i, j, k};
        const double value = arrays->get(at);
        double sum = base, size = fabs(value) + fabs(base);
#pragma unroll
        for (int d = 0; d < 3; d++) {
            int beside[3] = {middle[0], middle[1], middle[2]};
            beside[d] = at[d];
            const double own = arrays->get(beside);
            sum += own - base;
            size += fabs(own);
        }
        const bool holds[3] = {fabs(value) <= 1.7976931348623157e308, value >= 0.0, fabs(value - sum) <= 1e-13 * size};
        const unsigned long long cell = i + (unsigned long long)extents[0] * (j + (unsigned long long)extents[1] * k);
#pragma unroll
        for (int n = 0; n < 3; n++) found[n] = !holds[n] && cell < found[n] ? cell : found[n];
    });
#pragma unroll
    for (int n = 0; n < 3; n++) {
        // Few of many cells are lower than the lowest so far, so that the test saves most atomic operations.
        if (found[n] < report[n]) atomicMin(report + n, found[n]);
    }
}

// Calls f(kind, t, face) for the sides of a cell, t the conductance to the side's value.
template <class F> __device__ __forceinline__ void for_each_side(const Form& form, const Cell& cell, F f) {
#pragma unroll
    for (int d = 0; d < 3; d++) {
#pragma unroll
        for (int upper = 0; upper < 2; upper++) {
            const Side& side = form.sides[d][upper];
            if (side.kind == PERIODIC || cell.at[d] != (upper ? form.extents[d] - 1 : 0)) continue;
            Face face = cell.face(form, d, side);
            double tie = side.kind == ROBIN ? in_series(face.half, face.film) : side.kind == DIRICHLET ? face.half : cell.area(d);
            f(side.kind, tie, face.value);
        }
    }
}

// to = V times a density, if there is one, plus term(kind, t, value) of each side; 0 in inactive cells. `arrays` are κ in x, y and z, the density, and `to`.
template <class Term> __device__ __forceinline__ void of_cells(const Form& form, const Array* arrays, Term term) {
    int extents[3] = {int(form.extents[0]), int(form.extents[1]), int(form.extents[2])};
    for_each_cell(extents, [&](int i, int j, int k) {
        Cell cell(form, arrays, i, j, k);
        double sum = 0;
        if (cell.is_active()) {
            if (arrays[3].start) sum = arrays[3].get(cell.at) * cell.volume();
            for_each_side(form, cell, [&](long long kind, double tie, double value) { sum += term(kind, tie, value); });
        }
        arrays[4].put(cell.at, sum);
    });
}

// b = V f + Σ t v for sides with a value v + Σ A q for those with a flux q; see of_cells.
KERNEL(rhs, __launch_bounds__(256))(const Form* of, const __grid_constant__ Arrays<5> given) {
    await_previous();
    const Array* arrays = given.all;
    of_cells(*of, arrays, [](long long, double tie, double value) { return tie * value; });
}

// s = V c + Σ t for Robin sides; see of_cells.
KERNEL(shift, __launch_bounds__(256))(const Form* of, const __grid_constant__ Arrays<5> given) {
    await_previous();
    const Array* arrays = given.all;
    of_cells(*of, arrays, [](long long kind, double tie, double) { return kind == ROBIN ? tie : 0.0; });
}

// Adds sources and wells to a right-hand side, or the indices of wells to a shift: of a source, its rate times the share of a cell in Σ κ_x Δz. One thread
// per point. `arrays` are κ in x, y and z, and the target.
KERNEL(points, __launch_bounds__(256))(const Form* of, const __grid_constant__ Arrays<4> given, int is_shift) {
    await_previous();
    const Array* arrays = given.all;
    int n = blockIdx.x * 32 + threadIdx.x;
    if (threadIdx.y > 0 || n >= of->count) return;
    const Point& point = of->points[n];
    if (point.radius > 0) {
        for_each_layer(*of, arrays, point, [&](const Cell& cell) {
            arrays[3].add(cell.at, Opening(cell, point.radius).index * (is_shift ? 1.0 : point.number));
        });
    } else if (!is_shift) {
        double total = 0;
        for_each_layer(*of, arrays, point, [&](const Cell& cell) { total += cell.kappa[0] * cell.width[2]; });
        for_each_layer(*of, arrays, point, [&](const Cell& cell) {
            arrays[3].add(cell.at, point.number * cell.kappa[0] * cell.width[2] / total);
        });
    }
}

// Adds the derivatives through sources and wells, after and with the arrays of `gradient`.
KERNEL(points_gradient, __launch_bounds__(256))(const Form* of, const __grid_constant__ Arrays<10> given, int fields, int moves_rhs) {
    await_previous();
    const Array* arrays = given.all;
    int n = blockIdx.x * 32 + threadIdx.x;
    if (threadIdx.y > 0 || n >= of->count) return;
    const Point& point = of->points[n];
    const Array &u = arrays[3], &adjoint = arrays[4], &by_x = arrays[5], &by_y = arrays[fields == 3 ? 6 : 5];
    if (point.radius > 0) {
        for_each_layer(*of, arrays, point, [&](const Cell& cell) {
            Opening opening(cell, point.radius);
            double by_tie = adjoint.get(cell.at) * ((moves_rhs ? point.number : 0.0) - u.get(cell.at));
            by_x.add(cell.at, by_tie * opening.by_x);
            by_y.add(cell.at, by_tie * opening.by_y);
        });
    } else if (moves_rhs) {
        double total = 0, mean = 0;
        for_each_layer(*of, arrays, point, [&](const Cell& cell) {
            double weight = cell.kappa[0] * cell.width[2];
            total += weight;
            mean += weight * adjoint.get(cell.at);
        });
        mean /= total;
        for_each_layer(*of, arrays, point, [&](const Cell& cell) {
            by_x.add(cell.at, point.number * (adjoint.get(cell.at) - mean) * cell.width[2] / total);
        });
    }
}

// Derivatives of J(u) from u and λ = A⁻¹ ∂J/∂u, by one κ for all directions, by those of x and y and of z, or by three, where they are wanted:
//
//   by the conductance T of the face of cells n and m: (λ_n − λ_m)(u_m − u_n),  by the coupling of cell n to v: λ_n (v − u_n),
//   by c: −V λ u,  by f: V λ
//
// If b stays fixed (not `moves_rhs`), v is 0. `arrays` are κ in x, y and z, u, λ, the derivatives by κ (three), by c and by f.
KERNEL(gradient, __launch_bounds__(256))(const Form* of, const __grid_constant__ Arrays<10> given, int fields, int moves_rhs) {
    await_previous();
    const Array* arrays = given.all;
    const Form& form = *of;
    const Array &u = arrays[3], &adjoint = arrays[4], *by_kappa = arrays + 5, &by_reaction = arrays[8], &by_source = arrays[9];
    int extents[3] = {int(form.extents[0]), int(form.extents[1]), int(form.extents[2])};
    for_each_cell(extents, [&](int i, int j, int k) {
        Cell cell(form, arrays, i, j, k);
        double own = u.get(cell.at), lambda = adjoint.get(cell.at);
        double by_density = cell.is_active() ? cell.volume() * lambda : 0.0;
        if (by_reaction.start) by_reaction.put(cell.at, -by_density * own);
        if (by_source.start) by_source.put(cell.at, by_density);
        if (!by_kappa[0].start) return;
        double by[3];
#pragma unroll
        for (int d = 0; d < 3; d++) {
            double sum = 0;
#pragma unroll
            for (int upper = 0; upper < 2; upper++) {
                const Side& side = form.sides[d][upper];
                if (cell.at[d] == (upper ? extents[d] - 1 : 0) && side.kind != PERIODIC) {
                    if (side.kind == NEUMANN || !cell.is_active()) continue;
                    Face face = cell.face(form, d, side);
                    // A film is in series with half a cell, and does not change.
                    double share = side.kind == DIRICHLET ? 1.0 : face.half + face.film > 0 ? face.film / (face.half + face.film) : 0.0;
                    sum += lambda * ((moves_rhs ? face.value : 0.0) - own) * share * share;
                    continue;
                }
                int beside[3] = {cell.at[0], cell.at[1], cell.at[2]};
                beside[d] = upper ? (beside[d] + 1 == extents[d] ? 0 : beside[d] + 1) : (beside[d] == 0 ? extents[d] : beside[d]) - 1;
                double across = arrays[d].get(beside);
                if (beside[d] == cell.at[d] || !(cell.kappa[d] > 0 && across > 0)) continue;
                // T = h h'/(h + h'), so that ∂T/∂h = (h'/(h + h'))².
                double theirs = across * cell.width[d];
                double share = theirs / (cell.kappa[d] * form.widths[d][beside[d]] + theirs);
                sum += (lambda - adjoint.get(beside)) * (u.get(beside) - own) * share * share;
            }
            by[d] = sum * cell.by_kappa(d);
        }
        by[0] += fields < 3 ? by[1] : 0.0;
        by[0] += fields < 2 ? by[2] : 0.0;
        by[1] = fields == 2 ? by[2] : by[1];
#pragma unroll
        for (int n = 0; n < 3; n++) {
            if (n < fields) by_kappa[n].put(cell.at, by[n]);
        }
    });
}

// Derivatives by the value, or flux, and by the coefficient of each face of a side, from u and λ:
//
//   by the value v of a conductance t: t λ,  by t: λ (v − u),  by a flux: A λ
//
// If b stays fixed, they are 0 by values, and −λ u by t. `arrays` are κ in x, y and z, u, λ, and two of one cell across the side.
KERNEL(side_gradient, __launch_bounds__(256))(const Form* of, const __grid_constant__ Arrays<7> given, int axis, int upper, int moves_rhs) {
    await_previous();
    const Array* arrays = given.all;
    const Form& form = *of;
    const Array &u = arrays[3], &adjoint = arrays[4], &by_value = arrays[5], &by_coefficient = arrays[6];
    int extents[3] = {int(form.extents[0]), int(form.extents[1]), int(form.extents[2])}, first[3] = {0, 0, 0};
#pragma unroll
    for (int d = 0; d < 3; d++) {
        if (d == axis) {
            first[d] = upper ? extents[d] - 1 : 0;
            extents[d] = 1;
        }
    }
    for_each_cell(extents, [&](int i, int j, int k) {
        Cell cell(form, arrays, i + first[0], j + first[1], k + first[2]);
        int at[3] = {i, j, k};
        double value = 0, coefficient = 0;
#pragma unroll
        for (int d = 0; d < 3; d++) {
            const Side& side = form.sides[d][upper];
            if (d != axis || !cell.is_active()) continue;
            Face face = cell.face(form, d, side);
            double lambda = adjoint.get(cell.at), driven = moves_rhs ? lambda : 0.0;
            double share = face.half > 0 ? face.half / (face.half + face.film) : 0.0;
            if (side.kind == NEUMANN) value = driven * cell.area(d);
            if (side.kind == DIRICHLET) value = driven * face.half;
            if (side.kind == ROBIN) {
                value = driven * share * face.film;
                coefficient = lambda * ((moves_rhs ? face.value : 0.0) - u.get(cell.at)) * share * share * cell.area(d);
            }
        }
        by_value.put(at, value);
        by_coefficient.put(at, coefficient);
    });
}
