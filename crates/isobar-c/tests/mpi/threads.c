/* Threads with a communicator and a solver each, where the program has allowed MPI calls of one thread at a time. */
#include <isobar.h>
#include <mpi.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 3, SOLVES = 60, NX = 8, NZ = 3, MOST = NX * (16 + THREADS) * NZ };

struct work {
    isobar_ranks *ranks;
    size_t ny;
    int failures;
};

static void *solve(void *data)
{
    struct work *work = data;
    size_t first, count;
    double *kappa = calloc(MOST, sizeof *kappa), *b = calloc(MOST, sizeof *b), *u = calloc(MOST, sizeof *u), *before = calloc(MOST, sizeof *u);
    isobar_problem *problem = NULL;
    isobar_solver *solver = NULL;
    int32_t code = isobar_ranks_rows(work->ranks, work->ny, &first, &count);
    for (size_t n = 0; n < MOST; ++n)
        kappa[n] = 1.0 + (n + work->ny) % 5, b[n] = 1.0 + n % 4;
    isobar_array coefficient = isobar_host_array(kappa, NZ, count, NX, ISOBAR_F64);
    isobar_array rhs = isobar_host_array(b, NZ, count, NX, ISOBAR_F64), solution = isobar_host_array(u, NZ, count, NX, ISOBAR_F64);
    isobar_diffusion box = {.size = sizeof box, .kappa = &coefficient};
    box.sides[0][0].kind = ISOBAR_DIRICHLET;
    if (!code)
        code = isobar_problem_diffusion_rows(&box, work->ny, work->ranks, &problem);
    if (!code)
        code = isobar_solver_create(problem, "tolerance = 1e-9", "cpu", 1, &solver);
    for (int n = 0; n < SOLVES && !code; ++n) {
        code = isobar_solver_solve(solver, &rhs, &solution, 0, NULL, NULL);
        if (n > 0 && memcmp(before, u, MOST * sizeof *u))
            ++work->failures;
        memcpy(before, u, MOST * sizeof *u);
        /* A failure of all ranks of one communicator among the solves of the others. */
        isobar_array none = rhs;
        none.data = NULL;
        if (n % 20 == 0 && !code && isobar_solver_apply(solver, &none, &solution) != ISOBAR_INVALID)
            ++work->failures;
    }
    if (code) {
        fprintf(stderr, "%zu rows: code %d: %s\n", work->ny, code, isobar_last_error());
        ++work->failures;
    }
    isobar_solver_free(solver);
    isobar_problem_free(problem);
    free(kappa), free(b), free(u), free(before);
    return NULL;
}

int main(int argc, char **argv)
{
    int provided, rank, failures = 0, sum = 0;
    struct work work[THREADS];
    pthread_t threads[THREADS];
    /* Ends ranks that wait for each other. */
    alarm(100);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int n = 0; n < THREADS; ++n) {
        work[n] = (struct work){NULL, 16 + (size_t)n, 0};
#if MPI_VERSION >= 5
        failures += isobar_ranks_create(MPI_Comm_toint(MPI_COMM_WORLD), &work[n].ranks) != ISOBAR_OK;
#else
        failures += isobar_ranks_create(MPI_Comm_c2f(MPI_COMM_WORLD), &work[n].ranks) != ISOBAR_OK;
#endif
    }
    for (int n = 0; n < THREADS; ++n)
        failures += pthread_create(&threads[n], NULL, solve, &work[n]) != 0;
    for (int n = 0; n < THREADS; ++n) {
        failures += pthread_join(threads[n], NULL) != 0;
        failures += work[n].failures;
        isobar_ranks_free(work[n].ranks);
    }
    MPI_Reduce(&failures, &sum, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Finalize();
    if (rank == 0)
        printf("%d failures\n", sum);
    return sum != 0;
}
