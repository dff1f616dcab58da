/* −∇²u = 1 in the unit square, u = 0 on its sides, by hypre's conjugate gradients with PFMG.
 *
 *   mpicc -I/usr/include/hypre poisson_hypre.c -lHYPRE -lm -o poisson_hypre
 */
#include <HYPRE_struct_ls.h>

#include <stdio.h>

enum { N = 100 };

static double rows[N * N][3], f[N * N], u[N * N];

int main(int argc, char **argv)
{
    HYPRE_Int lower[2] = {0, 0}, upper[2] = {N - 1, N - 1}, offsets[3][2] = {{0, 0}, {-1, 0}, {0, -1}}, entries[3] = {0, 1, 2};
    HYPRE_StructGrid grid;
    HYPRE_StructStencil stencil;
    HYPRE_StructMatrix A;
    HYPRE_StructVector b, x;
    HYPRE_StructSolver cg, pfmg;
    MPI_Init(&argc, &argv);
    HYPRE_Init();
    HYPRE_StructGridCreate(MPI_COMM_WORLD, 2, &grid);
    HYPRE_StructGridSetExtents(grid, lower, upper);
    HYPRE_StructGridAssemble(grid);
    HYPRE_StructStencilCreate(2, 3, &stencil);
    for (int e = 0; e < 3; ++e)
        HYPRE_StructStencilSetElement(stencil, e, offsets[e]);
    HYPRE_StructMatrixCreate(MPI_COMM_WORLD, grid, stencil, &A);
    HYPRE_StructMatrixSetSymmetric(A, 1);
    HYPRE_StructMatrixInitialize(A);
    for (int n = 0; n < N * N; ++n) {
        int i = n % N, j = n / N;
        rows[n][0] = 4.0 + (i == 0) + (i == N - 1) + (j == 0) + (j == N - 1);
        rows[n][1] = i > 0 ? -1.0 : 0.0;
        rows[n][2] = j > 0 ? -1.0 : 0.0;
        f[n] = 1.0 / (N * N);
    }
    HYPRE_StructMatrixSetBoxValues(A, lower, upper, 3, entries, &rows[0][0]);
    HYPRE_StructMatrixAssemble(A);
    HYPRE_StructVectorCreate(MPI_COMM_WORLD, grid, &b);
    HYPRE_StructVectorCreate(MPI_COMM_WORLD, grid, &x);
    HYPRE_StructVectorInitialize(b);
    HYPRE_StructVectorInitialize(x);
    HYPRE_StructVectorSetBoxValues(b, lower, upper, f);
    HYPRE_StructVectorSetConstantValues(x, 0.0);
    HYPRE_StructVectorAssemble(b);
    HYPRE_StructVectorAssemble(x);

    HYPRE_StructPFMGCreate(MPI_COMM_WORLD, &pfmg);
    HYPRE_StructPFMGSetMaxIter(pfmg, 1);
    HYPRE_StructPFMGSetTol(pfmg, 0.0);
    HYPRE_StructPFMGSetZeroGuess(pfmg);
    HYPRE_StructPCGCreate(MPI_COMM_WORLD, &cg);
    HYPRE_StructPCGSetTol(cg, 1e-8);
    HYPRE_StructPCGSetTwoNorm(cg, 1); /* the residual's norm, not the preconditioned one */
    HYPRE_StructPCGSetPrecond(cg, HYPRE_StructPFMGSolve, HYPRE_StructPFMGSetup, pfmg);
    HYPRE_StructPCGSetup(cg, A, b, x);
    HYPRE_StructPCGSolve(cg, A, b, x);

    HYPRE_StructVectorGetBoxValues(x, lower, upper, u);
    double largest = 0.0;
    for (int n = 0; n < N * N; ++n)
        if (u[n] > largest)
            largest = u[n];
    printf("largest u: %.6f\n", largest);
    HYPRE_Finalize();
    return MPI_Finalize();
}
