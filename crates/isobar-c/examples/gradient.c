/* Derivatives of the mean of u, −∇·(κ∇u) = 1 in the unit square and u = 0 on its sides, by κ of every cell and by the values on the west side.
 *
 *   cargo build --release -p isobar-c
 *   cc -I crates/isobar-c/include crates/isobar-c/examples/gradient.c -L target/release -lisobar_c -Wl,-rpath,$PWD/target/release -o gradient
 */
#include <isobar.h>

#include <stdio.h>
#include <stdlib.h>

enum { N = 32 };

static double kappa[N][N], f[N][N], b[N][N], u[N][N], mean[N][N], by_kappa[N][N], by_west[N];

static void check(int32_t code)
{
    if (code != ISOBAR_OK) {
        fprintf(stderr, "isobar: %s\n", isobar_last_error());
        exit(EXIT_FAILURE);
    }
}

static isobar_array array(double values[N][N])
{
    return isobar_host_array(values, 1, N, N, ISOBAR_F64);
}

int main(void)
{
    for (int n = 0; n < N * N; ++n) {
        kappa[n / N][n % N] = 1.0 + n % 3;
        f[n / N][n % N] = 1.0;
        mean[n / N][n % N] = 1.0 / (N * N); /* the derivative of the mean by u */
    }
    isobar_array coefficient = array(kappa), source = array(f), rhs = array(b), solution = array(u);
    isobar_diffusion square = {.size = sizeof square, .kappa = &coefficient};
    for (int side = 0; side < 4; ++side) /* west, east, south, north */
        square.sides[side / 2][side % 2] = (isobar_side){ISOBAR_DIRICHLET, 0.0};
    isobar_problem *problem;
    isobar_solver *solver;
    check(isobar_problem_diffusion(&square, &problem));
    check(isobar_problem_rhs(problem, &source, &rhs));
    check(isobar_solver_create(problem, "tolerance = 1e-10", "cpu", 0, &solver));
    check(isobar_solver_solve(solver, &rhs, &solution, 0, NULL, NULL));

    isobar_array weights = array(mean), found = array(by_kappa);
    isobar_gradient wanted = {.size = sizeof wanted, .kappa = &found};
    wanted.side_values[0][0] = by_west;
    check(isobar_solver_gradient(solver, problem, &solution, &weights, &wanted));

    /* u is in proportion to 1/κ, so that Σ κ ∂J/∂κ = −J. If all sides were at 1, u would be 1 more: the west's share is some quarter. */
    double value = 0.0, sum = 0.0, west = 0.0;
    for (int n = 0; n < N * N; ++n) {
        value += u[n / N][n % N] / (N * N);
        sum += kappa[n / N][n % N] * by_kappa[n / N][n % N];
    }
    for (int j = 0; j < N; ++j)
        west += by_west[j];
    printf("mean %.6f, sum of kappa times its derivatives %.6f, by the west side %.3f\n", value, sum, west);
    isobar_solver_free(solver);
    isobar_problem_free(problem);
    return EXIT_SUCCESS;
}
