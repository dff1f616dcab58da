/* A first solve: −∇²u = 1 in the unit square, u = 0 on its sides.
 *
 *   cargo build --release -p isobar-c
 *   cc -I crates/isobar-c/include crates/isobar-c/examples/poisson.c -L target/release -lisobar_c -Wl,-rpath,$PWD/target/release -o poisson
 */
#include <isobar.h>

#include <stdio.h>
#include <stdlib.h>

enum { N = 100 };

static double kappa[N][N], f[N][N], b[N][N], u[N][N];

static void check(int32_t code)
{
    if (code != ISOBAR_OK) {
        fprintf(stderr, "isobar: %s\n", isobar_last_error());
        exit(EXIT_FAILURE);
    }
}

int main(void)
{
    for (int n = 0; n < N * N; ++n)
        kappa[n / N][n % N] = f[n / N][n % N] = 1.0;
    /* Extents in z, y and x. */
    isobar_array coefficient = isobar_host_array(kappa, 1, N, N, ISOBAR_F64), source = isobar_host_array(f, 1, N, N, ISOBAR_F64);
    isobar_array rhs = isobar_host_array(b, 1, N, N, ISOBAR_F64), solution = isobar_host_array(u, 1, N, N, ISOBAR_F64);

    isobar_diffusion square = {.size = sizeof square, .kappa = &coefficient};
    for (int side = 0; side < 4; ++side) /* west, east, south, north */
        square.sides[side / 2][side % 2] = (isobar_side){ISOBAR_DIRICHLET, 0.0};
    isobar_problem *problem;
    isobar_solver *solver;
    check(isobar_problem_diffusion(&square, &problem));
    check(isobar_problem_rhs(problem, &source, &rhs));
    check(isobar_solver_create(problem, "tolerance = 1e-8", "auto", 0, &solver));
    check(isobar_solver_solve(solver, &rhs, &solution, 0, NULL, NULL));

    double largest = 0.0;
    for (int n = 0; n < N * N; ++n)
        if (u[n / N][n % N] > largest)
            largest = u[n / N][n % N];
    printf("largest u: %.6f\n", largest);
    isobar_solver_free(solver);
    isobar_problem_free(problem);
    return EXIT_SUCCESS;
}
