/* The operator that hypre is compared on, spread over MPI ranks: of a tensor product (tensor_product.c) or of
 * diffusion (diffusion.c).
 *
 * Rows come from formulas that share no code with isobar or hypre: what hypre is handed and what judges every answer come
 * from here. */
#ifndef COMPARE_OPERATOR_H
#define COMPARE_OPERATOR_H

#include "problem.h"

#include <mpi.h>
#include <stddef.h>

/* The columns that one rank owns: i0 <= i < i0 + ni, j0 <= j < j0 + nj, all levels. */
typedef struct {
    int i0, j0, ni, nj;
} Patch;

typedef struct Operator Operator;

/* What makes one kind of problem: its coefficients on this rank, and the rows that follow from them. */
typedef struct {
    /* The coefficients, or NULL with a message on standard error. */
    void *(*create)(const Operator *op);
    /* The entries of local cell (i, j, k); couplings that leave the domain are 0. */
    void (*row)(const Operator *op, int i, int j, int k, double entry[ENTRIES]);
    /* Whether a cell takes part: another one's row is that of the identity. */
    int (*is_active)(const Operator *op, int i, int j, int k);
    void (*destroy)(void *coefficients);
    /* The cell's number in isobar's random fields. */
    size_t (*number)(const Problem *problem, size_t i, size_t j, size_t k);
} Kind;

extern const Kind tensor_product_kind, diffusion_kind;

struct Operator {
    Problem problem;
    MPI_Comm comm; /* Cartesian, no reordering of ranks */
    int ranks, rank;
    int neighbour[ENTRIES]; /* rank beyond WEST..NORTH, or MPI_PROC_NULL */
    Patch mine;
    Patch *patches; /* of every rank */
    const Kind *kind;
    void *coefficients;
};

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

/* From a file of shape (nz, ny, nx); 0 with a message on standard error if it cannot be read. */
int field_read(const Operator *op, const char *path, double *u);

/* 0 in the cells that take no part. */
void field_mask(const Operator *op, double *u);

/* Takes the mean over the cells that take part out of them. */
void field_remove_mean(const Operator *op, double *u);

#endif
