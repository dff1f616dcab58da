/* hypre's structured-grid solvers: PFMG and SMG, alone or as the preconditioner of conjugate gradients. */
#include "solvers.h"

#include <HYPRE_struct_ls.h>
#include <HYPRE_struct_mv.h>
#include <HYPRE_utilities.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const Operator *op;
    HYPRE_StructGrid grid;
    HYPRE_StructStencil stencil;
    HYPRE_StructMatrix matrix;
    HYPRE_StructVector rhs, guess;
    HYPRE_StructSolver krylov, multigrid; /* krylov is NULL for multigrid alone */
    int smg;
    HYPRE_Int lower[3], upper[3]; /* this rank's box */
} System;

static HYPRE_StructVector vector_create(const System *s)
{
    HYPRE_StructVector vector;
    HYPRE(HYPRE_StructVectorCreate(s->op->comm, s->grid, &vector));
    HYPRE(HYPRE_StructVectorInitialize(vector));
    HYPRE(HYPRE_StructVectorSetConstantValues(vector, 0));
    HYPRE(HYPRE_StructVectorAssemble(vector));
    return vector;
}

static void vector_set(System *s, HYPRE_StructVector vector, const double *values)
{
    /* hypre only reads them; its prototype predates const. */
    HYPRE(HYPRE_StructVectorSetBoxValues(vector, s->lower, s->upper, (HYPRE_Complex *)values));
    HYPRE(HYPRE_StructVectorAssemble(vector));
}

/* Values go in a horizontal plane at a time, so that no second copy of the matrix is ever held. */
static void fill(System *s, const int *order, HYPRE_Int entries)
{
    const Operator *op = s->op;
    HYPRE_Int which[ENTRIES] = {0, 1, 2, 3, 4, 5, 6};
    HYPRE_Int lower[3] = {s->lower[0], s->lower[1], 0}, upper[3] = {s->upper[0], s->upper[1], 0};
    size_t columns = (size_t)op->mine.ni * (size_t)op->mine.nj;
    double *values = allocate(columns * (size_t)entries, sizeof *values);
    for (int k = 0; k < op->problem.nz; k++) {
        double *next = values, row[ENTRIES];
        for (int j = 0; j < op->mine.nj; j++)
            for (int i = 0; i < op->mine.ni; i++) {
                operator_row(op, i, j, k, row);
                for (int e = 0; e < entries; e++) *next++ = row[order[e]];
            }
        lower[2] = upper[2] = k;
        HYPRE(HYPRE_StructMatrixSetBoxValues(s->matrix, lower, upper, entries, which, values));
    }
    free(values);
}

static void *assemble(const Operator *op, Spec *spec, const double *rhs)
{
    static const int offset[ENTRIES][3] = {{0, 0, 0}, {-1, 0, 0}, {1, 0, 0}, {0, -1, 0},
                                           {0, 1, 0}, {0, 0, -1}, {0, 0, 1}};
    static const int whole[ENTRIES] = {CENTRE, WEST, EAST, SOUTH, NORTH, BELOW, ABOVE};
    static const int half[] = {CENTRE, WEST, SOUTH, BELOW};
    int symmetric = spec_integer(spec, "symmetric", 1);
    const int *order = symmetric ? half : whole;
    HYPRE_Int entries = symmetric ? 4 : ENTRIES;
    System *s = allocate(1, sizeof *s);
    *s = (System){.op = op,
                  .lower = {op->mine.i0, op->mine.j0, 0},
                  .upper = {op->mine.i0 + op->mine.ni - 1, op->mine.j0 + op->mine.nj - 1, op->problem.nz - 1}};
    HYPRE(HYPRE_StructGridCreate(op->comm, 3, &s->grid));
    HYPRE(HYPRE_StructGridSetExtents(s->grid, s->lower, s->upper));
    const Problem *p = &op->problem;
    HYPRE_Int periodic[3] = {p->side[WEST] == SIDE_PERIODIC ? p->nx : 0, p->side[SOUTH] == SIDE_PERIODIC ? p->ny : 0,
                             p->side[BELOW] == SIDE_PERIODIC ? p->nz : 0};
    HYPRE(HYPRE_StructGridSetPeriodic(s->grid, periodic));
    HYPRE(HYPRE_StructGridAssemble(s->grid));
    HYPRE(HYPRE_StructStencilCreate(3, entries, &s->stencil));
    for (int e = 0; e < entries; e++) {
        const int *o = offset[order[e]];
        HYPRE_Int shift[3] = {o[0], o[1], o[2]};
        HYPRE(HYPRE_StructStencilSetElement(s->stencil, e, shift));
    }
    HYPRE(HYPRE_StructMatrixCreate(op->comm, s->grid, s->stencil, &s->matrix));
    HYPRE(HYPRE_StructMatrixSetSymmetric(s->matrix, symmetric));
    HYPRE(HYPRE_StructMatrixInitialize(s->matrix));
    fill(s, order, entries);
    HYPRE(HYPRE_StructMatrixAssemble(s->matrix));
    s->rhs = vector_create(s);
    s->guess = vector_create(s);
    vector_set(s, s->rhs, rhs);
    return s;
}

static void multiply(void *system, const double *u, double *v)
{
    System *s = system;
    HYPRE_StructVector in = vector_create(s), out = vector_create(s);
    vector_set(s, in, u);
    HYPRE(HYPRE_StructMatrixMatvec(1, s->matrix, in, 0, out));
    HYPRE(HYPRE_StructVectorGetBoxValues(out, s->lower, s->upper, v));
    HYPRE(HYPRE_StructVectorDestroy(in));
    HYPRE(HYPRE_StructVectorDestroy(out));
}

static HYPRE_StructSolver pfmg(System *s, Spec *spec, double tolerance, int iterations)
{
    HYPRE_StructSolver m;
    double spacing[3] = {spec_value(spec, "dx", 0), spec_value(spec, "dy", 0), spec_value(spec, "dz", 0)};
    HYPRE(HYPRE_StructPFMGCreate(s->op->comm, &m));
    HYPRE(HYPRE_StructPFMGSetTol(m, tolerance));
    HYPRE(HYPRE_StructPFMGSetMaxIter(m, iterations));
    HYPRE(HYPRE_StructPFMGSetRelaxType(m, spec_integer(spec, "relax", 1)));
    HYPRE(HYPRE_StructPFMGSetRAPType(m, spec_integer(spec, "rap", 0)));
    HYPRE(HYPRE_StructPFMGSetSkipRelax(m, spec_integer(spec, "skip", 1)));
    HYPRE(HYPRE_StructPFMGSetNumPreRelax(m, spec_integer(spec, "pre", 1)));
    HYPRE(HYPRE_StructPFMGSetNumPostRelax(m, spec_integer(spec, "post", 1)));
    HYPRE(HYPRE_StructPFMGSetLogging(m, 1));
    /* Only the ratios matter: they say which direction is coarsened next. */
    if (spacing[0] > 0 && spacing[1] > 0 && spacing[2] > 0) HYPRE(HYPRE_StructPFMGSetDxyz(m, spacing));
    HYPRE(HYPRE_StructPFMGSetZeroGuess(m));
    return m;
}

static HYPRE_StructSolver smg(System *s, Spec *spec, double tolerance, int iterations)
{
    HYPRE_StructSolver m;
    HYPRE(HYPRE_StructSMGCreate(s->op->comm, &m));
    HYPRE(HYPRE_StructSMGSetTol(m, tolerance));
    HYPRE(HYPRE_StructSMGSetMaxIter(m, iterations));
    HYPRE(HYPRE_StructSMGSetMemoryUse(m, spec_integer(spec, "memory", 0)));
    HYPRE(HYPRE_StructSMGSetNumPreRelax(m, spec_integer(spec, "pre", 1)));
    HYPRE(HYPRE_StructSMGSetNumPostRelax(m, spec_integer(spec, "post", 1)));
    HYPRE(HYPRE_StructSMGSetLogging(m, 1));
    HYPRE(HYPRE_StructSMGSetZeroGuess(m));
    return m;
}

static void setup(void *system, Spec *spec, double tolerance, int max_iterations)
{
    System *s = system;
    int krylov = strncmp(spec->method, "pcg-", 4) == 0;
    s->smg = strcmp(spec->method + (krylov ? 4 : 0), "smg") == 0;
    s->multigrid = (s->smg ? smg : pfmg)(s, spec, krylov ? 0 : tolerance, krylov ? 1 : max_iterations);
    HYPRE(HYPRE_StructVectorSetConstantValues(s->guess, 0));
    if (!krylov) {
        HYPRE((s->smg ? HYPRE_StructSMGSetup : HYPRE_StructPFMGSetup)(s->multigrid, s->matrix, s->rhs, s->guess));
        return;
    }
    HYPRE(HYPRE_StructPCGCreate(s->op->comm, &s->krylov));
    HYPRE(HYPRE_StructPCGSetTol(s->krylov, tolerance));
    HYPRE(HYPRE_StructPCGSetMaxIter(s->krylov, max_iterations));
    /* Without this hypre stops on the preconditioned norm. */
    HYPRE(HYPRE_StructPCGSetTwoNorm(s->krylov, 1));
    if (s->smg)
        HYPRE(HYPRE_StructPCGSetPrecond(s->krylov, HYPRE_StructSMGSolve, HYPRE_StructSMGSetup, s->multigrid));
    else
        HYPRE(HYPRE_StructPCGSetPrecond(s->krylov, HYPRE_StructPFMGSolve, HYPRE_StructPFMGSetup, s->multigrid));
    HYPRE(HYPRE_StructPCGSetup(s->krylov, s->matrix, s->rhs, s->guess));
}

static void solve(void *system, int *iterations, double *reported_residual)
{
    System *s = system;
    HYPRE_Int count;
    if (s->krylov) {
        HYPRE(HYPRE_StructPCGSolve(s->krylov, s->matrix, s->rhs, s->guess));
        HYPRE(HYPRE_StructPCGGetNumIterations(s->krylov, &count));
        HYPRE(HYPRE_StructPCGGetFinalRelativeResidualNorm(s->krylov, reported_residual));
    } else if (s->smg) {
        HYPRE(HYPRE_StructSMGSolve(s->multigrid, s->matrix, s->rhs, s->guess));
        HYPRE(HYPRE_StructSMGGetNumIterations(s->multigrid, &count));
        HYPRE(HYPRE_StructSMGGetFinalRelativeResidualNorm(s->multigrid, reported_residual));
    } else {
        HYPRE(HYPRE_StructPFMGSolve(s->multigrid, s->matrix, s->rhs, s->guess));
        HYPRE(HYPRE_StructPFMGGetNumIterations(s->multigrid, &count));
        HYPRE(HYPRE_StructPFMGGetFinalRelativeResidualNorm(s->multigrid, reported_residual));
    }
    *iterations = (int)count;
}

static void solution(void *system, double *u)
{
    System *s = system;
    HYPRE(HYPRE_StructVectorGetBoxValues(s->guess, s->lower, s->upper, u));
}

static void release_solver(void *system)
{
    System *s = system;
    if (s->krylov) HYPRE(HYPRE_StructPCGDestroy(s->krylov));
    HYPRE((s->smg ? HYPRE_StructSMGDestroy : HYPRE_StructPFMGDestroy)(s->multigrid));
    s->krylov = s->multigrid = NULL;
}

static void destroy(void *system)
{
    System *s = system;
    HYPRE(HYPRE_StructVectorDestroy(s->guess));
    HYPRE(HYPRE_StructVectorDestroy(s->rhs));
    HYPRE(HYPRE_StructMatrixDestroy(s->matrix));
    HYPRE(HYPRE_StructStencilDestroy(s->stencil));
    HYPRE(HYPRE_StructGridDestroy(s->grid));
    free(s);
}

const Interface struct_interface = {assemble, multiply, setup, solve, solution, release_solver, destroy};
