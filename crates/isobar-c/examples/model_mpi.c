/* A model that runs under MPI, with a communicator of its own and its domain in slabs of rows in y: −∇·(κ∇u) = f in a unit box, u = 0 on
 * the west and east sides, solved by all ranks together.
 *
 *   mpicc -I crates/isobar-c/include crates/isobar-c/examples/model_mpi.c -L target/release -lisobar_c -Wl,-rpath,$PWD/target/release -lm -o model_mpi
 *   mpiexec -n 4 ./model_mpi
 */
#include <isobar.h>
#include <mpi.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { NX = 48, NY = 40, NZ = 12 };

static const double pi = 3.14159265358979323846;

/* A communicator as Fortran has it; MPI 5 has a new name for that. */
static int32_t as_integer(MPI_Comm communicator)
{
#if MPI_VERSION >= 5
    return MPI_Comm_toint(communicator);
#else
    return MPI_Comm_c2f(communicator);
#endif
}

static void check(int32_t code)
{
    if (code != ISOBAR_OK) {
        /* The same code and message on all ranks. */
        fprintf(stderr, "isobar: %s\n", isobar_last_error());
        MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    }
}

int main(int argc, char **argv)
{
    MPI_Comm model;
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    /* Any communicator will do: here ranks are counted backwards. */
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &model);
    MPI_Comm_rank(model, &rank);
    MPI_Comm_size(model, &size);

    isobar_ranks *ranks;
    size_t first, count;
    check(isobar_ranks_create(as_integer(model), &ranks));
    check(isobar_ranks_rows(ranks, NY, &first, &count));

    /* This rank's rows: κ = 1, f = λ sin πx cos πy, for which u = sin πx cos πy, as cells see it. */
    size_t cells = NX * count * NZ;
    double *kappa = malloc(cells * sizeof *kappa), *f = malloc(cells * sizeof *f), *u = malloc(cells * sizeof *u);
    double *exact = malloc(cells * sizeof *exact);
    if (!kappa || !f || !u || !exact)
        MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    double lambda = pow(2 * NX * sin(pi / (2 * NX)), 2) + pow(2 * NY * sin(pi / (2 * NY)), 2);
    for (size_t n = 0; n < cells; ++n) {
        size_t i = n % NX, j = first + n / NX % count;
        kappa[n] = 1.0;
        exact[n] = sin(pi * (i + 0.5) / NX) * cos(pi * (j + 0.5) / NY);
        f[n] = lambda * exact[n];
    }
    isobar_array coefficient = isobar_host_array(kappa, NZ, count, NX, ISOBAR_F64);
    isobar_array rhs = isobar_host_array(f, NZ, count, NX, ISOBAR_F64), solution = isobar_host_array(u, NZ, count, NX, ISOBAR_F64);
    isobar_diffusion box = {.size = sizeof box, .kappa = &coefficient};
    box.sides[0][0] = box.sides[0][1] = (isobar_side){ISOBAR_DIRICHLET, 0.0};

    isobar_problem *problem;
    isobar_solver *solver;
    check(isobar_problem_diffusion_rows(&box, NY, ranks, &problem));
    check(isobar_problem_rhs(problem, &rhs, &rhs));
    check(isobar_solver_create(problem, "tolerance = 1e-11", "cpu", 1, &solver));
    isobar_problem_free(problem);
    isobar_ranks_free(ranks);

    /* The model's own messages go on meanwhile: isobar's never meet them. */
    double own = rank, other = -1;
    MPI_Request request;
    MPI_Irecv(&other, 1, MPI_DOUBLE, MPI_ANY_SOURCE, MPI_ANY_TAG, model, &request);
    check(isobar_solver_solve(solver, &rhs, &solution, 0, NULL, NULL));
    MPI_Send(&own, 1, MPI_DOUBLE, (rank + 1) % size, 0, model);
    MPI_Wait(&request, MPI_STATUS_IGNORE);

    double error = 0, largest;
    for (size_t n = 0; n < cells; ++n)
        error = fmax(error, fabs(u[n] - exact[n]));
    MPI_Reduce(&error, &largest, 1, MPI_DOUBLE, MPI_MAX, 0, model);
    if (rank == 0)
        printf("%d ranks, largest error %s\n", size, largest < 1e-9 ? "below 1e-9" : "too large");
    isobar_solver_free(solver);
    free(kappa), free(f), free(u), free(exact);
    MPI_Comm_free(&model);
    MPI_Finalize();
    return other == (rank + size - 1) % size && error < 1e-9 ? EXIT_SUCCESS : EXIT_FAILURE;
}
