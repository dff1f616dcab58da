/* hypre's algebraic multigrid, BoomerAMG, on the IJ/ParCSR matrix: alone or preconditioning PCG. */
#include "solvers.h"

#include <HYPRE.h>
#include <HYPRE_IJ_mv.h>
#include <HYPRE_krylov.h>
#include <HYPRE_parcsr_ls.h>
#include <HYPRE_parcsr_mv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How unknowns are numbered inside a rank (option "order"): Gauss-Seidel sweeps and caches feel it. */
enum { ORDER_X, ORDER_VERTICAL, ORDER_LAYERED };

typedef struct {
    const Operator *op;
    int order;
    HYPRE_BigInt *first; /* of every rank */
    HYPRE_BigInt *rows;  /* of my cells, in the operator's order */
    HYPRE_IJMatrix ij_matrix;
    HYPRE_IJVector ij_rhs, ij_guess;
    HYPRE_ParCSRMatrix matrix;
    HYPRE_ParVector rhs, guess;
    HYPRE_Solver krylov, amg; /* krylov is NULL for BoomerAMG alone */
} System;

/* The row of cell (i, j, k), local to `rank`. */
static HYPRE_BigInt row_of(const System *s, int rank, int i, int j, int k)
{
    const Patch *p = &s->op->patches[rank];
    HYPRE_BigInt ni = p->ni, nj = p->nj, nz = s->op->problem.nz, local;
    switch (s->order) {
    case ORDER_VERTICAL: local = k + nz * (i + ni * j); break;
    case ORDER_LAYERED: local = i + ni * (k + nz * j); break;
    default: local = i + ni * (j + nj * k); break;
    }
    return s->first[rank] + local;
}

/* The rank that owns the neighbour of local cell (i, j, k) on side e, and the neighbour's place in its
 * own numbering; MPI_PROC_NULL outside the domain. */
static int neighbour(const System *s, int i, int j, int k, int e, HYPRE_BigInt *row)
{
    static const int shift[ENTRIES][3] = {{0, 0, 0}, {-1, 0, 0}, {1, 0, 0}, {0, -1, 0},
                                          {0, 1, 0}, {0, 0, -1}, {0, 0, 1}};
    const Operator *op = s->op;
    int rank = op->rank;
    i += shift[e][0];
    j += shift[e][1];
    k += shift[e][2];
    int nz = op->problem.nz;
    if ((k < 0 || k >= nz) && op->problem.side[e] != SIDE_PERIODIC) return MPI_PROC_NULL;
    k = (k + nz) % nz;
    if (i < 0 || i >= op->mine.ni || j < 0 || j >= op->mine.nj) {
        rank = op->neighbour[e];
        if (rank == MPI_PROC_NULL) return rank;
        /* Beyond a periodic side the whole grid comes again. */
        i = (op->mine.i0 + i + op->problem.nx) % op->problem.nx - op->patches[rank].i0;
        j = (op->mine.j0 + j + op->problem.ny) % op->problem.ny - op->patches[rank].j0;
    }
    *row = row_of(s, rank, i, j, k);
    return rank;
}

static HYPRE_IJVector vector_create(const System *s, const double *values)
{
    HYPRE_IJVector vector;
    HYPRE_BigInt first = s->first[s->op->rank], last = s->first[s->op->rank + 1] - 1;
    HYPRE(HYPRE_IJVectorCreate(s->op->comm, first, last, &vector));
    HYPRE(HYPRE_IJVectorSetObjectType(vector, HYPRE_PARCSR));
    HYPRE(HYPRE_IJVectorInitialize(vector));
    if (values) HYPRE(HYPRE_IJVectorSetValues(vector, (HYPRE_Int)operator_cells(s->op), s->rows, values));
    HYPRE(HYPRE_IJVectorAssemble(vector));
    return vector;
}

static HYPRE_ParVector vector_object(HYPRE_IJVector vector)
{
    void *object;
    HYPRE(HYPRE_IJVectorGetObject(vector, &object));
    return object;
}

/* Rows go in one horizontal line of cells at a time. */
static void fill(System *s)
{
    const Operator *op = s->op;
    int ni = op->mine.ni, nj = op->mine.nj;
    HYPRE_Int *counts = allocate((size_t)ni, sizeof *counts);
    HYPRE_BigInt *rows = allocate((size_t)ni, sizeof *rows);
    HYPRE_BigInt *columns = allocate((size_t)ni * ENTRIES, sizeof *columns);
    HYPRE_Complex *values = allocate((size_t)ni * ENTRIES, sizeof *values);
    for (int k = 0; k < op->problem.nz; k++)
        for (int j = 0; j < nj; j++) {
            size_t filled = 0;
            for (int i = 0; i < ni; i++) {
                double entry[ENTRIES];
                operator_row(op, i, j, k, entry);
                counts[i] = 0;
                rows[i] = row_of(s, op->rank, i, j, k);
                for (int e = 0; e < ENTRIES; e++) {
                    if (neighbour(s, i, j, k, e, &columns[filled]) == MPI_PROC_NULL) continue;
                    values[filled++] = entry[e];
                    counts[i]++;
                }
            }
            HYPRE(HYPRE_IJMatrixSetValues(s->ij_matrix, ni, counts, rows, columns, values));
        }
    free(counts);
    free(rows);
    free(columns);
    free(values);
}

static void number_rows(System *s)
{
    const Operator *op = s->op;
    s->first = allocate((size_t)op->ranks + 1, sizeof *s->first);
    s->first[0] = 0;
    for (int r = 0; r < op->ranks; r++)
        s->first[r + 1] =
            s->first[r] + (HYPRE_BigInt)op->patches[r].ni * op->patches[r].nj * op->problem.nz;
    s->rows = allocate(operator_cells(op), sizeof *s->rows);
    size_t m = 0;
    for (int k = 0; k < op->problem.nz; k++)
        for (int j = 0; j < op->mine.nj; j++)
            for (int i = 0; i < op->mine.ni; i++) s->rows[m++] = row_of(s, op->rank, i, j, k);
}

/* The counts must be exact: hypre then writes straight into the final arrays, and never compresses them. */
static void set_row_sizes(System *s)
{
    const Operator *op = s->op;
    size_t cells = operator_cells(op), m = 0;
    HYPRE_Int *inside = allocate(cells, sizeof *inside), *outside = allocate(cells, sizeof *outside);
    for (int k = 0; k < op->problem.nz; k++)
        for (int j = 0; j < op->mine.nj; j++)
            for (int i = 0; i < op->mine.ni; i++) {
                HYPRE_BigInt unused, local = s->rows[m++] - s->first[op->rank];
                inside[local] = outside[local] = 0;
                for (int e = 0; e < ENTRIES; e++) {
                    int rank = neighbour(s, i, j, k, e, &unused);
                    if (rank == MPI_PROC_NULL) continue;
                    if (rank == op->rank)
                        inside[local]++;
                    else
                        outside[local]++;
                }
            }
    HYPRE(HYPRE_IJMatrixSetDiagOffdSizes(s->ij_matrix, inside, outside));
    free(inside);
    free(outside);
}

static void *assemble(const Operator *op, Spec *spec, const double *rhs)
{
    void *object;
    System *s = allocate(1, sizeof *s);
    *s = (System){.op = op, .order = spec_integer(spec, "order", ORDER_VERTICAL)};
    number_rows(s);
    HYPRE_BigInt first = s->first[op->rank], last = s->first[op->rank + 1] - 1;
    HYPRE(HYPRE_IJMatrixCreate(op->comm, first, last, first, last, &s->ij_matrix));
    HYPRE(HYPRE_IJMatrixSetObjectType(s->ij_matrix, HYPRE_PARCSR));
    set_row_sizes(s);
    HYPRE(HYPRE_IJMatrixInitialize(s->ij_matrix));
    fill(s);
    HYPRE(HYPRE_IJMatrixAssemble(s->ij_matrix));
    HYPRE(HYPRE_IJMatrixGetObject(s->ij_matrix, &object));
    s->matrix = object;
    s->ij_rhs = vector_create(s, rhs);
    s->ij_guess = vector_create(s, NULL);
    s->rhs = vector_object(s->ij_rhs);
    s->guess = vector_object(s->ij_guess);
    return s;
}

static void multiply(void *system, const double *u, double *v)
{
    System *s = system;
    HYPRE_IJVector in = vector_create(s, u), out = vector_create(s, NULL);
    HYPRE(HYPRE_ParCSRMatrixMatvec(1, s->matrix, vector_object(in), 0, vector_object(out)));
    HYPRE(HYPRE_IJVectorGetValues(out, (HYPRE_Int)operator_cells(s->op), s->rows, v));
    HYPRE(HYPRE_IJVectorDestroy(in));
    HYPRE(HYPRE_IJVectorDestroy(out));
}

static HYPRE_Solver boomeramg(Spec *spec, double tolerance, int iterations)
{
    HYPRE_Solver amg;
    int down = spec_integer(spec, "relax", 13), up = spec_integer(spec, "up", down == 13 ? 14 : down);
    HYPRE(HYPRE_BoomerAMGCreate(&amg));
    HYPRE(HYPRE_BoomerAMGSetTol(amg, tolerance));
    HYPRE(HYPRE_BoomerAMGSetMaxIter(amg, iterations));
    HYPRE(HYPRE_BoomerAMGSetCoarsenType(amg, spec_integer(spec, "coarsen", 10)));
    HYPRE(HYPRE_BoomerAMGSetInterpType(amg, spec_integer(spec, "interp", 6)));
    HYPRE(HYPRE_BoomerAMGSetPMaxElmts(amg, spec_integer(spec, "pmax", 4)));
    HYPRE(HYPRE_BoomerAMGSetTruncFactor(amg, spec_value(spec, "trunc", 0)));
    HYPRE(HYPRE_BoomerAMGSetStrongThreshold(amg, spec_value(spec, "theta", 0.5)));
    HYPRE(HYPRE_BoomerAMGSetMaxRowSum(amg, spec_value(spec, "rowsum", 0.9)));
    HYPRE(HYPRE_BoomerAMGSetAggNumLevels(amg, spec_integer(spec, "agg", 0)));
    HYPRE(HYPRE_BoomerAMGSetAggInterpType(amg, spec_integer(spec, "agginterp", 4)));
    HYPRE(HYPRE_BoomerAMGSetNumPaths(amg, spec_integer(spec, "paths", 1)));
    HYPRE(HYPRE_BoomerAMGSetCycleRelaxType(amg, down, 1));
    HYPRE(HYPRE_BoomerAMGSetCycleRelaxType(amg, up, 2));
    HYPRE(HYPRE_BoomerAMGSetRelaxOrder(amg, spec_integer(spec, "cf", 0)));
    HYPRE(HYPRE_BoomerAMGSetNumSweeps(amg, spec_integer(spec, "sweeps", 1)));
    HYPRE(HYPRE_BoomerAMGSetKeepTranspose(amg, spec_integer(spec, "transpose", 0)));
    HYPRE(HYPRE_BoomerAMGSetPrintLevel(amg, spec_integer(spec, "print", 0)));
    return amg;
}

static void setup(void *system, Spec *spec, double tolerance, int max_iterations)
{
    System *s = system;
    int krylov = strncmp(spec->method, "pcg-", 4) == 0;
    s->amg = boomeramg(spec, krylov ? 0 : tolerance, krylov ? 1 : max_iterations);
    HYPRE(HYPRE_ParVectorSetConstantValues(s->guess, 0));
    if (!krylov) {
        HYPRE(HYPRE_BoomerAMGSetup(s->amg, s->matrix, s->rhs, s->guess));
        return;
    }
    HYPRE(HYPRE_ParCSRPCGCreate(s->op->comm, &s->krylov));
    HYPRE(HYPRE_ParCSRPCGSetTol(s->krylov, tolerance));
    HYPRE(HYPRE_ParCSRPCGSetMaxIter(s->krylov, max_iterations));
    /* Without this hypre stops on the preconditioned norm. */
    HYPRE(HYPRE_ParCSRPCGSetTwoNorm(s->krylov, 1));
    HYPRE(HYPRE_ParCSRPCGSetPrecond(s->krylov, HYPRE_BoomerAMGSolve, HYPRE_BoomerAMGSetup, s->amg));
    HYPRE(HYPRE_ParCSRPCGSetup(s->krylov, s->matrix, s->rhs, s->guess));
}

static void solve(void *system, int *iterations, double *reported_residual)
{
    System *s = system;
    HYPRE_Int count;
    if (s->krylov) {
        HYPRE(HYPRE_ParCSRPCGSolve(s->krylov, s->matrix, s->rhs, s->guess));
        HYPRE(HYPRE_ParCSRPCGGetNumIterations(s->krylov, &count));
        HYPRE(HYPRE_ParCSRPCGGetFinalRelativeResidualNorm(s->krylov, reported_residual));
    } else {
        HYPRE(HYPRE_BoomerAMGSolve(s->amg, s->matrix, s->rhs, s->guess));
        HYPRE(HYPRE_BoomerAMGGetNumIterations(s->amg, &count));
        HYPRE(HYPRE_BoomerAMGGetFinalRelativeResidualNorm(s->amg, reported_residual));
    }
    *iterations = (int)count;
}

static void solution(void *system, double *u)
{
    System *s = system;
    HYPRE(HYPRE_IJVectorGetValues(s->ij_guess, (HYPRE_Int)operator_cells(s->op), s->rows, u));
}

static void release_solver(void *system)
{
    System *s = system;
    if (s->krylov) HYPRE(HYPRE_ParCSRPCGDestroy(s->krylov));
    HYPRE(HYPRE_BoomerAMGDestroy(s->amg));
    s->krylov = s->amg = NULL;
}

static void destroy(void *system)
{
    System *s = system;
    HYPRE(HYPRE_IJVectorDestroy(s->ij_guess));
    HYPRE(HYPRE_IJVectorDestroy(s->ij_rhs));
    HYPRE(HYPRE_IJMatrixDestroy(s->ij_matrix));
    free(s->first);
    free(s->rows);
    free(s);
}

const Interface ij_interface = {assemble, multiply, setup, solve, solution, release_solver, destroy};
