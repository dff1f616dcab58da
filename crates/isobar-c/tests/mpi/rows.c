/* Solves and time steps of a rank's rows, with x periodic: as on one rank. */
#include "../expect.h"
#include <mpi.h>

#include <math.h>

enum { NY = 16, NZ = 2, MOST = 9 * NY * NZ };

#define succeed(code) expect(code, ISOBAR_OK, "")

/* Compares rows with those of the whole grid. */
static void compare(int line, const double *rows, const double *whole, size_t nx, size_t first, size_t count)
{
    for (size_t n = 0; n < NZ * count * nx; ++n) {
        double wanted = whole[(n / (nx * count) * NY + first + n / nx % count) * nx + n % nx];
        if (!(fabs(rows[n] - wanted) <= 1e-7 * (1.0 + fabs(wanted)))) {
            fprintf(stderr, "rank %d, line %d: %g instead of %g\n", rank, line, rows[n], wanted);
            ++failures;
            return;
        }
    }
}

/* With nx odd, solvers have the periodic x twice. */
static void around(const isobar_ranks *ranks, size_t nx)
{
    static double kappa[MOST], b[MOST], u[MOST], part_kappa[MOST], part_b[MOST], part_u[MOST], part_v[MOST];
    size_t first, count;
    succeed(isobar_ranks_rows(ranks, NY, &first, &count));
    for (size_t n = 0; n < NZ * NY * nx; ++n)
        kappa[n] = 1.0 + n % 3, b[n] = sin((double)n), u[n] = 0.0;
    for (size_t n = 0; n < NZ * count * nx; ++n) {
        size_t whole = (n / (nx * count) * NY + first + n / nx % count) * nx + n % nx;
        part_kappa[n] = kappa[whole], part_b[n] = b[whole], part_u[n] = 0.0;
    }
    isobar_array coefficient = isobar_host_array(kappa, NZ, NY, nx, ISOBAR_F64);
    isobar_array rhs = isobar_host_array(b, NZ, NY, nx, ISOBAR_F64), solution = isobar_host_array(u, NZ, NY, nx, ISOBAR_F64);
    isobar_array own_coefficient = isobar_host_array(part_kappa, NZ, count, nx, ISOBAR_F64);
    isobar_array own_rhs = isobar_host_array(part_b, NZ, count, nx, ISOBAR_F64);
    isobar_array own_solution = isobar_host_array(part_u, NZ, count, nx, ISOBAR_F64);
    isobar_array own_product = isobar_host_array(part_v, NZ, count, nx, ISOBAR_F64);
    isobar_diffusion box = {.size = sizeof box, .kappa = &coefficient};
    box.sides[0][0].kind = box.sides[0][1].kind = ISOBAR_PERIODIC;
    box.sides[1][0].kind = ISOBAR_DIRICHLET;
    isobar_problem *problem, *part;
    isobar_solver *alone, *solver;
    isobar_heat *heat, *own_heat;
    isobar_time_steps steps = {.size = sizeof steps, .dt = 0.1, .end_time = 0.3};
    const char *options = "tolerance = 1e-11";
    succeed(isobar_problem_diffusion(&box, &problem));
    box.kappa = &own_coefficient;
    succeed(isobar_problem_diffusion_rows(&box, NY, ranks, &part));
    succeed(isobar_solver_create(problem, options, "cpu", 1, &alone));
    succeed(isobar_solver_create(part, options, "cpu", 1, &solver));
    succeed(isobar_solver_solve(alone, &rhs, &solution, 0, NULL, NULL));
    succeed(isobar_solver_solve(solver, &own_rhs, &own_solution, 0, NULL, NULL));
    compare(__LINE__, part_u, u, nx, first, count);
    succeed(isobar_solver_apply(solver, &own_solution, &own_product));
    compare(__LINE__, part_v, b, nx, first, count);
    for (size_t n = 0; n < NZ * count * nx; ++n)
        part_u[n] = 0.0;
    succeed(isobar_solver_solve_many(solver, &own_rhs, &own_solution, 1, 0, NULL, NULL, NULL));
    compare(__LINE__, part_u, u, nx, first, count);
    succeed(isobar_heat_create(problem, NULL, &rhs, &steps, options, "cpu", 1, &heat));
    succeed(isobar_heat_create(part, NULL, &own_rhs, &steps, options, "cpu", 1, &own_heat));
    succeed(isobar_heat_step(heat, NULL, NULL, NULL));
    succeed(isobar_heat_step(own_heat, NULL, NULL, NULL));
    succeed(isobar_heat_state(heat, &solution));
    succeed(isobar_heat_state(own_heat, &own_solution));
    compare(__LINE__, part_u, u, nx, first, count);
    isobar_heat_free(heat);
    isobar_heat_free(own_heat);
    isobar_solver_free(alone);
    isobar_solver_free(solver);
    isobar_problem_free(problem);
    isobar_problem_free(part);
}

int main(int argc, char **argv)
{
    isobar_ranks *ranks;
    int sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
#if MPI_VERSION >= 5
    succeed(isobar_ranks_create(MPI_Comm_toint(MPI_COMM_WORLD), &ranks));
#else
    succeed(isobar_ranks_create(MPI_Comm_c2f(MPI_COMM_WORLD), &ranks));
#endif
    around(ranks, 8);
    around(ranks, 9);
    isobar_ranks_free(ranks);
    MPI_Reduce(&failures, &sum, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Finalize();
    if (rank == 0)
        printf("%d failures\n", sum);
    return sum != 0;
}
