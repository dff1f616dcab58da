/* The tensor-product Helmholtz operator of the pressure equation, sections A and B of isobar's formulas:
 *
 *   -w^2 (lap_S u + lambda^2 r^-2 d_r(r^2 d_r u)) + u,   Neumann below and above, Dirichlet at the sides
 *
 * A row is computed from four vertical vectors and five horizontal numbers a column. */
#include "operator.h"

#include <math.h>
#include <stdlib.h>

static const double EARTH_RADIUS = 6371220.0; /* m */
static const double PI = 3.14159265358979323846;

typedef struct {
    double *area, *face[ENTRIES]; /* |T| and alpha of WEST..NORTH, at i + ni j; all in one allocation */
    double *a, *b, *c, *d;        /* the vertical vectors, nz each */
} TensorProduct;

static void vertical_vectors(const Problem *p, TensorProduct *t)
{
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
        t->a[k] = panel ? dr * (above + r[k + 1] * r[k] + below) / 3 : dr;
        t->b[k] = k + 1 < nz ? -coupling * above / (r[k + 2] - r[k]) : 0;
        t->c[k] = k > 0 ? -coupling * below / (r[k + 1] - r[k - 1]) : 0;
        t->d[k] = -omega2 * dr;
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

static void *create(const Operator *op)
{
    const Problem *p = &op->problem;
    TensorProduct *t = allocate(1, sizeof *t);
    size_t columns = (size_t)op->mine.ni * (size_t)op->mine.nj, levels = (size_t)p->nz;
    t->area = allocate(5 * columns + 4 * levels, sizeof(double));
    for (int s = WEST; s <= NORTH; s++) t->face[s] = t->area + (size_t)s * columns;
    t->a = t->area + 5 * columns;
    t->b = t->a + levels;
    t->c = t->b + levels;
    t->d = t->c + levels;
    vertical_vectors(p, t);
    for (int j = 0; j < op->mine.nj; j++)
        for (int i = 0; i < op->mine.ni; i++) {
            size_t m = (size_t)i + (size_t)op->mine.ni * (size_t)j;
            double alpha[ENTRIES];
            column(p, op->mine.i0 + i, op->mine.j0 + j, &t->area[m], alpha);
            for (int s = WEST; s <= NORTH; s++) t->face[s][m] = alpha[s];
        }
    return t;
}

static void destroy(void *coefficients)
{
    TensorProduct *t = coefficients;
    free(t->area);
    free(t);
}

static void row(const Operator *op, int i, int j, int k, double entry[ENTRIES])
{
    const Problem *p = &op->problem;
    const TensorProduct *t = op->coefficients;
    int gi = op->mine.i0 + i, gj = op->mine.j0 + j;
    size_t m = (size_t)i + (size_t)op->mine.ni * (size_t)j;
    double area = t->area[m], d = t->d[k], sum = 0;
    for (int s = WEST; s <= NORTH; s++) {
        sum += t->face[s][m];
        entry[s] = d * t->face[s][m];
    }
    if (gi == 0) entry[WEST] = 0;
    if (gi == p->nx - 1) entry[EAST] = 0;
    if (gj == 0) entry[SOUTH] = 0;
    if (gj == p->ny - 1) entry[NORTH] = 0;
    entry[BELOW] = area * t->c[k];
    entry[ABOVE] = area * t->b[k];
    entry[CENTRE] = area * (t->a[k] - t->b[k] - t->c[k]) - sum * d;
}

static int is_active(const Operator *op, int i, int j, int k)
{
    return i < op->mine.ni && j < op->mine.nj && k < op->problem.nz;
}

/* isobar's order of columns: i + nx (k + nz j). */
static size_t cell_number(const Problem *p, size_t i, size_t j, size_t k)
{
    return i + (size_t)p->nx * (k + (size_t)p->nz * j);
}

const Kind tensor_product_kind = {create, row, is_active, destroy, cell_number};
