/* The tensor-product Helmholtz operator of FORMULAS.md, sections A and B, spread over MPI ranks.
 *
 *   -w^2 (lap_S u + lambda^2 r^-2 d_r(r^2 d_r u)) + u,   Neumann below and above, Dirichlet at the sides
 *
 * A row is computed from four vertical vectors and five horizontal numbers a column, by formulas that
 * share no code with isobar or hypre: what hypre is handed and what judges its answer come from here. */
#ifndef COMPARE_OPERATOR_H
#define COMPARE_OPERATOR_H

#include <mpi.h>
#include <stddef.h>

typedef enum { GEOMETRY_PANEL, GEOMETRY_BOX } Geometry;
typedef enum { GRADING_QUADRATIC, GRADING_UNIFORM } Grading;

typedef struct {
    int nx, ny, nz;
    Geometry geometry;
    Grading grading;
    double courant; /* nu: omega = nu h / 2 */
    double lambda;
    double depth; /* m */
} Problem;

/* The order of a row's entries. */
enum { CENTRE, WEST, EAST, SOUTH, NORTH, BELOW, ABOVE, ENTRIES };

/* The columns that one rank owns: i0 <= i < i0 + ni, j0 <= j < j0 + nj, all levels. */
typedef struct {
    int i0, j0, ni, nj;
} Patch;

typedef struct {
    Problem problem;
    MPI_Comm comm; /* Cartesian, no reordering of ranks */
    int ranks, rank;
    int neighbour[ENTRIES]; /* rank beyond WEST..NORTH, or MPI_PROC_NULL */
    Patch mine;
    Patch *patches;            /* of every rank */
    double *area, *face[ENTRIES]; /* |T| and alpha of WEST..NORTH, at i + ni j */
    double *a, *b, *c, *d;     /* the vertical vectors, nz each */
} Operator;

/* Fields are stored as i + ni (j + nj k), the order of hypre's box values. */
size_t operator_cells(const Operator *op);

/* NULL with a message on standard error if the ranks cannot share the grid. */
Operator *operator_create(const Problem *problem, MPI_Comm world);
void operator_destroy(Operator *op);

/* The matrix entries of local cell (i, j, k); couplings that leave the domain are 0. */
void operator_row(const Operator *op, int i, int j, int k, double entry[ENTRIES]);

/* v = A u, halo exchange included. */
void operator_apply(const Operator *op, const double *u, double *v);

double field_dot(const Operator *op, const double *u, const double *v);
void field_constant(const Operator *op, double *u);
void field_random(const Operator *op, unsigned long long seed, double *u);

/* malloc or MPI_Abort with the number of bytes. */
void *allocate(size_t count, size_t size);

/* printf to standard error from the first rank only: for mistakes that all ranks see alike. */
void complain(const char *format, ...);

#endif
