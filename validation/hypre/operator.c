#include "operator.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static const double EARTH_RADIUS = 6371220.0; /* m */
static const double PI = 3.14159265358979323846;

void *allocate(size_t count, size_t size)
{
    void *p = count > SIZE_MAX / size ? NULL : malloc(count ? count * size : 1);
    if (!p) {
        fprintf(stderr, "compare: cannot allocate %zu x %zu bytes\n", count, size);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return p;
}

void complain(const char *format, ...)
{
    int rank;
    va_list arguments;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank != 0) return;
    va_start(arguments, format);
    fputs("compare: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
}

size_t operator_cells(const Operator *op)
{
    return (size_t)op->mine.ni * (size_t)op->mine.nj * (size_t)op->problem.nz;
}

static void split(int n, int parts, int part, int *start, int *length)
{
    int base = n / parts, rest = n % parts;
    *length = base + (part < rest);
    *start = part * base + (part < rest ? part : rest);
}

/* Cells are split horizontally only: a column never leaves its rank, which is what suits vertical
 * semicoarsening best. y is cut first, so that the faces exchanged are contiguous runs of x. */
static int decompose(Operator *op, MPI_Comm world)
{
    int dims[2] = {0, 0}, periods[2] = {0, 0}, coords[2];
    MPI_Comm_size(world, &op->ranks);
    MPI_Dims_create(op->ranks, 2, dims); /* descending: dims[0], the y direction, gets the larger */
    if (dims[0] > op->problem.ny || dims[1] > op->problem.nx) {
        complain("%d x %d columns are too few for %d x %d ranks", op->problem.nx, op->problem.ny, dims[1],
                 dims[0]);
        return 0;
    }
    MPI_Cart_create(world, 2, dims, periods, 0, &op->comm);
    MPI_Comm_rank(op->comm, &op->rank);
    MPI_Cart_shift(op->comm, 1, 1, &op->neighbour[WEST], &op->neighbour[EAST]);
    MPI_Cart_shift(op->comm, 0, 1, &op->neighbour[SOUTH], &op->neighbour[NORTH]);
    op->patches = allocate((size_t)op->ranks, sizeof *op->patches);
    for (int r = 0; r < op->ranks; r++) {
        Patch *p = &op->patches[r];
        MPI_Cart_coords(op->comm, r, 2, coords);
        split(op->problem.nx, dims[1], coords[1], &p->i0, &p->ni);
        split(op->problem.ny, dims[0], coords[0], &p->j0, &p->nj);
    }
    op->mine = op->patches[op->rank];
    return 1;
}

static void vertical_vectors(Operator *op)
{
    const Problem *p = &op->problem;
    int nz = p->nz, panel = p->geometry == GEOMETRY_PANEL;
    double height = p->depth / EARTH_RADIUS;
    double spacing = (panel ? 0.5 * PI : 1.0) / p->nx;
    double omega2 = pow(0.5 * p->courant * spacing, 2), coupling = 2 * omega2 * p->lambda * p->lambda;
    double *r = allocate((size_t)nz + 1, sizeof *r);
    for (int k = 0; k <= nz; k++) {
        double s = (double)k / nz;
        r[k] = 1 + height * (p->grading == GRADING_QUADRATIC ? s * s : s);
    }
    for (int k = 0; k < nz; k++) {
        double dr = r[k + 1] - r[k], above = panel ? r[k + 1] * r[k + 1] : 1, below = panel ? r[k] * r[k] : 1;
        op->a[k] = panel ? dr * (above + r[k + 1] * r[k] + below) / 3 : dr;
        op->b[k] = k + 1 < nz ? -coupling * above / (r[k + 2] - r[k]) : 0;
        op->c[k] = k > 0 ? -coupling * below / (r[k + 1] - r[k - 1]) : 0;
        op->d[k] = -omega2 * dr;
    }
    free(r);
}

/* The solid angle between the axes and the point (x, y) of the gnomonic plane. */
static double solid_angle(double x, double y) { return atan(x * y / sqrt(1 + x * x + y * y)); }

/* One column's area and face coefficients; i and j count over the whole grid. */
static void column(const Problem *p, int i, int j, double *area, double alpha[ENTRIES])
{
    if (p->geometry == GEOMETRY_BOX) {
        *area = 1.0 / ((double)p->nx * p->ny);
        alpha[WEST] = alpha[EAST] = (double)p->nx / p->ny;
        alpha[SOUTH] = alpha[NORTH] = (double)p->ny / p->nx;
    } else {
        double hx = 2.0 / p->nx, hy = 2.0 / p->ny;
        double x0 = -1 + i * hx, x1 = -1 + (i + 1) * hx, xc = -1 + (i + 0.5) * hx;
        double y0 = -1 + j * hy, y1 = -1 + (j + 1) * hy, yc = -1 + (j + 0.5) * hy;
        *area = solid_angle(x1, y1) - solid_angle(x0, y1) - solid_angle(x1, y0) + solid_angle(x0, y0);
        /* A boundary face is evaluated half way from the centre to the face. */
        double w = i == 0 ? xc - hx / 4 : x0, e = i == p->nx - 1 ? xc + hx / 4 : x1;
        double s = j == 0 ? yc - hy / 4 : y0, n = j == p->ny - 1 ? yc + hy / 4 : y1;
        alpha[WEST] = hy / hx * sqrt((1 + w * w) / (1 + yc * yc));
        alpha[EAST] = hy / hx * sqrt((1 + e * e) / (1 + yc * yc));
        alpha[SOUTH] = hx / hy * sqrt((1 + s * s) / (1 + xc * xc));
        alpha[NORTH] = hx / hy * sqrt((1 + n * n) / (1 + xc * xc));
    }
    /* Half the distance to a Dirichlet value: twice the coefficient. */
    alpha[WEST] *= i == 0 ? 2 : 1;
    alpha[EAST] *= i == p->nx - 1 ? 2 : 1;
    alpha[SOUTH] *= j == 0 ? 2 : 1;
    alpha[NORTH] *= j == p->ny - 1 ? 2 : 1;
}

Operator *operator_create(const Problem *problem, MPI_Comm world)
{
    Operator *op = allocate(1, sizeof *op);
    *op = (Operator){.problem = *problem};
    if (!decompose(op, world)) {
        free(op);
        return NULL;
    }
    size_t columns = (size_t)op->mine.ni * (size_t)op->mine.nj, levels = (size_t)problem->nz;
    op->area = allocate(columns, sizeof(double));
    for (int s = WEST; s <= NORTH; s++) op->face[s] = allocate(columns, sizeof(double));
    op->a = allocate(levels, sizeof(double));
    op->b = allocate(levels, sizeof(double));
    op->c = allocate(levels, sizeof(double));
    op->d = allocate(levels, sizeof(double));
    vertical_vectors(op);
    for (int j = 0; j < op->mine.nj; j++)
        for (int i = 0; i < op->mine.ni; i++) {
            size_t m = (size_t)i + (size_t)op->mine.ni * (size_t)j;
            double alpha[ENTRIES];
            column(problem, op->mine.i0 + i, op->mine.j0 + j, &op->area[m], alpha);
            for (int s = WEST; s <= NORTH; s++) op->face[s][m] = alpha[s];
        }
    return op;
}

void operator_destroy(Operator *op)
{
    for (int s = WEST; s <= NORTH; s++) free(op->face[s]);
    free(op->area);
    free(op->a);
    free(op->b);
    free(op->c);
    free(op->d);
    free(op->patches);
    MPI_Comm_free(&op->comm);
    free(op);
}

void operator_row(const Operator *op, int i, int j, int k, double entry[ENTRIES])
{
    const Problem *p = &op->problem;
    int gi = op->mine.i0 + i, gj = op->mine.j0 + j;
    size_t m = (size_t)i + (size_t)op->mine.ni * (size_t)j;
    double area = op->area[m], d = op->d[k], sum = 0;
    for (int s = WEST; s <= NORTH; s++) {
        sum += op->face[s][m];
        entry[s] = d * op->face[s][m];
    }
    if (gi == 0) entry[WEST] = 0;
    if (gi == p->nx - 1) entry[EAST] = 0;
    if (gj == 0) entry[SOUTH] = 0;
    if (gj == p->ny - 1) entry[NORTH] = 0;
    entry[BELOW] = area * op->c[k];
    entry[ABOVE] = area * op->b[k];
    entry[CENTRE] = area * (op->a[k] - op->b[k] - op->c[k]) - sum * d;
}

typedef struct {
    double *send, *receive;
    int count;
} Halo;

/* Sends the layer next to side `s` to the neighbour there; the opposite neighbour's arrives in return. */
static void exchange(const Operator *op, const double *u, int s, Halo *halo)
{
    static const int opposite[ENTRIES] = {CENTRE, EAST, WEST, NORTH, SOUTH, ABOVE, BELOW};
    int ni = op->mine.ni, nj = op->mine.nj, nz = op->problem.nz, across = s <= EAST;
    int length = across ? nj : ni, fixed = s == EAST ? ni - 1 : s == NORTH ? nj - 1 : 0;
    Halo *into = &halo[opposite[s]];
    for (int k = 0; k < nz; k++)
        for (int l = 0; l < length; l++) {
            size_t i = (size_t)(across ? fixed : l), j = (size_t)(across ? l : fixed);
            halo[s].send[(size_t)l + (size_t)length * (size_t)k] =
                u[i + (size_t)ni * (j + (size_t)nj * (size_t)k)];
        }
    MPI_Sendrecv(halo[s].send, halo[s].count, MPI_DOUBLE, op->neighbour[s], s, into->receive, into->count,
                 MPI_DOUBLE, op->neighbour[opposite[s]], s, op->comm, MPI_STATUS_IGNORE);
}

void operator_apply(const Operator *op, const double *u, double *v)
{
    int ni = op->mine.ni, nj = op->mine.nj, nz = op->problem.nz;
    Halo halo[ENTRIES];
    for (int s = WEST; s <= NORTH; s++) {
        halo[s].count = (s <= EAST ? nj : ni) * nz;
        halo[s].send = allocate((size_t)halo[s].count, sizeof(double));
        halo[s].receive = allocate((size_t)halo[s].count, sizeof(double));
        for (int l = 0; l < halo[s].count; l++) halo[s].receive[l] = 0; /* outside the domain */
    }
    for (int s = WEST; s <= NORTH; s++) exchange(op, u, s, halo);
    size_t row = (size_t)ni, plane = row * (size_t)nj;
    for (int k = 0; k < nz; k++)
        for (int j = 0; j < nj; j++)
            for (int i = 0; i < ni; i++) {
                size_t m = (size_t)i + row * (size_t)j + plane * (size_t)k;
                size_t mj = (size_t)j + (size_t)nj * (size_t)k, mi = (size_t)i + row * (size_t)k;
                double e[ENTRIES];
                operator_row(op, i, j, k, e);
                double sum = e[CENTRE] * u[m];
                sum += e[WEST] * (i > 0 ? u[m - 1] : halo[WEST].receive[mj]);
                sum += e[EAST] * (i < ni - 1 ? u[m + 1] : halo[EAST].receive[mj]);
                sum += e[SOUTH] * (j > 0 ? u[m - row] : halo[SOUTH].receive[mi]);
                sum += e[NORTH] * (j < nj - 1 ? u[m + row] : halo[NORTH].receive[mi]);
                if (k > 0) sum += e[BELOW] * u[m - plane];
                if (k < nz - 1) sum += e[ABOVE] * u[m + plane];
                v[m] = sum;
            }
    for (int s = WEST; s <= NORTH; s++) {
        free(halo[s].send);
        free(halo[s].receive);
    }
}

double field_dot(const Operator *op, const double *u, const double *v)
{
    size_t cells = operator_cells(op);
    double sum = 0, total;
    for (size_t m = 0; m < cells; m++) sum += u[m] * v[m];
    MPI_Allreduce(&sum, &total, 1, MPI_DOUBLE, MPI_SUM, op->comm);
    return total;
}

void field_constant(const Operator *op, double *u)
{
    size_t cells = operator_cells(op);
    for (size_t m = 0; m < cells; m++) u[m] = 1;
}

/* The shared random field: splitmix64 of the cell's number in isobar's order, i + nx (k + nz j). */
void field_random(const Operator *op, unsigned long long seed, double *u)
{
    const Problem *p = &op->problem;
    int ni = op->mine.ni, nj = op->mine.nj;
    for (int k = 0; k < p->nz; k++)
        for (int j = 0; j < nj; j++)
            for (int i = 0; i < ni; i++) {
                uint64_t gi = (uint64_t)(op->mine.i0 + i), gj = (uint64_t)(op->mine.j0 + j);
                uint64_t m = gi + (uint64_t)p->nx * ((uint64_t)k + (uint64_t)p->nz * gj);
                uint64_t z = (m + ((uint64_t)seed << 32) + 1) * UINT64_C(0x9E3779B97F4A7C15);
                z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
                z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
                z ^= z >> 31;
                u[(size_t)i + (size_t)ni * ((size_t)j + (size_t)nj * (size_t)k)] =
                    (double)(z >> 11) * 0x1p-53 * 2 - 1;
            }
}
