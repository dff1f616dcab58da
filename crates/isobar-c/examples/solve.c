/* Two solves from C: a case from its text, and rock with a coefficient in every cell from arrays.
 *
 *   cargo build --release -p isobar-c
 *   cc -I crates/isobar-c/include crates/isobar-c/examples/solve.c -L target/release -lisobar_c -Wl,-rpath,$PWD/target/release -lm -o solve
 */
#include <isobar.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { NX = 40, NY = 24, NZ = 12 };

static double kappa[NZ][NY][NX], b[NZ][NY][NX], u[NZ][NY][NX], v[NZ][NY][NX];

/* Ends the program where a call failed. */
static void check(int32_t code)
{
    if (code != ISOBAR_OK) {
        fprintf(stderr, "isobar: %s\n", isobar_last_error());
        exit(EXIT_FAILURE);
    }
}

/* Shows every iteration; anything but 0 would end the solve. */
static int32_t show(void *data, size_t iteration, double relative_residual)
{
    ++*(size_t *)data;
    printf("%3zu  %.1e\n", iteration, relative_residual);
    return 0;
}

static void from_the_text_of_a_case(void)
{
    const char *text = "[problem]\n"
                       "kind = \"helmholtz\"\n"
                       "[grid]\n"
                       "nx = 32\nny = 32\nnz = 16\n";
    isobar_problem *problem;
    isobar_solver *solver;
    size_t shape[3];
    check(isobar_problem_from_case(text, NULL, &problem));
    check(isobar_problem_shape(problem, shape));
    check(isobar_solver_create(problem, "tolerance = 1e-8", "auto", 0, &solver));

    double *pressure = malloc(shape[0] * shape[1] * shape[2] * sizeof *pressure);
    if (!pressure)
        exit(EXIT_FAILURE);
    isobar_array u = isobar_host_array(pressure, shape[0], shape[1], shape[2], ISOBAR_F64);
    check(isobar_problem_rhs(problem, NULL, &u)); /* the case's own right-hand side, solved for in place */
    check(isobar_solver_solve(solver, &u, &u, 0, NULL, NULL));
    printf("pressure on %zu x %zu x %zu cells, %.6e in the first\n", shape[2], shape[1], shape[0], pressure[0]);
    free(pressure);
    isobar_solver_free(solver);
    isobar_problem_free(problem);
}

static void from_arrays(void)
{
    for (int k = 0; k < NZ; ++k)
        for (int j = 0; j < NY; ++j)
            for (int i = 0; i < NX; ++i)
                kappa[k][j][i] = (i / 5 + j / 5 + k / 3) % 2 ? 1.0 : 1000.0;
    isobar_array coefficient = isobar_host_array(kappa, NZ, NY, NX, ISOBAR_F64);
    isobar_array rhs = isobar_host_array(b, NZ, NY, NX, ISOBAR_F64);
    isobar_array solution = isobar_host_array(u, NZ, NY, NX, ISOBAR_F64);
    isobar_array product = isobar_host_array(v, NZ, NY, NX, ISOBAR_F64);

    isobar_diffusion rock = {.size = sizeof rock, .kappa = &coefficient, .spacing = {10.0, 10.0, 2.0}};
    rock.sides[0][0] = (isobar_side){ISOBAR_DIRICHLET, 1.0}; /* west; the others are closed */
    rock.sides[0][1] = (isobar_side){ISOBAR_DIRICHLET, 0.0};
    isobar_problem *problem;
    isobar_solver *solver;
    check(isobar_problem_diffusion(&rock, &problem));
    check(isobar_problem_rhs(problem, NULL, &rhs));
    check(isobar_solver_create(problem, "{\"tolerance\": 1e-10, \"norm\": \"rhs\"}", "cpu", 1, &solver));
    size_t seen = 0;
    check(isobar_solver_solve(solver, &rhs, &solution, 0, show, &seen));

    /* A u is b. */
    check(isobar_solver_apply(solver, &solution, &product));
    double difference = 0.0, norm = 0.0;
    for (size_t n = 0; n < NZ * NY * NX; ++n) {
        difference += pow((&b[0][0][0])[n] - (&v[0][0][0])[n], 2);
        norm += pow((&b[0][0][0])[n], 2);
    }
    if (sqrt(difference) > 1e-9 * sqrt(norm) || seen == 0)
        exit(EXIT_FAILURE);

    /* Twice the coefficients, in place: the same pressure where nothing but the sides drives it. */
    double before = u[NZ / 2][NY / 2][NX / 2];
    for (size_t n = 0; n < NZ * NY * NX; ++n)
        (&kappa[0][0][0])[n] *= 2.0;
    isobar_problem_free(problem);
    check(isobar_problem_diffusion(&rock, &problem));
    check(isobar_problem_rhs(problem, NULL, &rhs));
    check(isobar_solver_update(solver, problem));
    check(isobar_solver_solve(solver, &rhs, &solution, 1, NULL, NULL));
    if (fabs(u[NZ / 2][NY / 2][NX / 2] - before) > 1e-7)
        exit(EXIT_FAILURE);

    const char *report;
    check(isobar_solver_report(solver, &report));
    printf("%s", report);
    isobar_solver_free(solver);
    isobar_problem_free(problem);
}

int main(void)
{
    printf("isobar %s\n", isobar_version());
    from_the_text_of_a_case();
    from_arrays();
    return EXIT_SUCCESS;
}
