/* A mistake on one rank returns the same code and message on all ranks, and the next call works. */
#include "../expect.h"
#include <mpi.h>

#include <math.h>
#include <stdlib.h>

enum { NX = 32, NY = 24, NZ = 8, MOST = NX * NY * NZ };

static int size;

/* A communicator as a Fortran handle; MPI 5 has a new name for the conversion. */
static int32_t as_integer(MPI_Comm communicator)
{
#if MPI_VERSION >= 5
    return MPI_Comm_toint(communicator);
#else
    return MPI_Comm_c2f(communicator);
#endif
}

static int32_t stop_at_once(void *data, size_t iteration, double residual)
{
    (void)data, (void)residual;
    return iteration >= 1;
}

/* One rank of two or more differs from the others. */
static int is_odd(void)
{
    return rank == size - 1;
}

/* Problems and arrays that are not divided as the solver is. */
static void of_forms(isobar_problem *problem, isobar_solver *solver, const isobar_diffusion *box, isobar_array *own_b, isobar_array *own_u)
{
    static double u[MOST];
    isobar_array whole = isobar_host_array(u, NZ, NY, NX, ISOBAR_F64);
    isobar_gradient wanted = {.size = sizeof wanted, .b = &whole};
    isobar_problem *undivided, *other;
    isobar_solver *alone;
    expect(isobar_problem_diffusion(box, &undivided), ISOBAR_OK, "");
    expect(isobar_solver_gradient(solver, undivided, &whole, &whole, &wanted), ISOBAR_UNSUPPORTED, "among ranks");
    expect(isobar_solver_update(solver, undivided), ISOBAR_INVALID, "the solver is divided among ranks, and the problem is not");
    expect(isobar_solver_create(undivided, NULL, "cpu", 1, &alone), ISOBAR_OK, "");
    expect(isobar_solver_update(alone, problem), ISOBAR_INVALID, "the problem is divided among ranks, and the solver is not");
    isobar_solver_free(alone);
    isobar_problem_free(undivided);
    /* The shape of the whole grid, which rows with halos may have. */
    expect(isobar_solver_solve(solver, &whole, own_u, 0, NULL, NULL), ISOBAR_INVALID, "b: found shape");
    expect(isobar_solver_solve(solver, own_b, is_odd() ? &whole : own_u, 0, NULL, NULL), ISOBAR_INVALID, "u: found shape");
    expect(isobar_solver_solve_many(solver, own_b, &whole, 1, 0, NULL, NULL, NULL), ISOBAR_INVALID, "u[0]: found shape");
    expect(isobar_solver_apply(solver, &whole, own_u), ISOBAR_INVALID, "u: found shape");
    isobar_time_steps steps = {.size = sizeof steps, .dt = 0.1, .end_time = 0.3};
    isobar_heat *heat;
    expect(isobar_heat_create(problem, NULL, own_b, &steps, NULL, "cpu", 1, &heat), ISOBAR_OK, "");
    expect(isobar_heat_state(heat, &whole), ISOBAR_INVALID, "u: found shape");
    expect(isobar_heat_set_state(heat, &whole), ISOBAR_INVALID, "u: found shape");
    isobar_heat_free(heat);
    /* A side that differs on one rank. */
    isobar_ranks *ranks;
    expect(isobar_ranks_create(as_integer(MPI_COMM_WORLD), &ranks), ISOBAR_OK, "");
    isobar_diffusion sides = *box;
    sides.sides[1][0] = (isobar_side){ISOBAR_NEUMANN, is_odd() ? 5.0 : 1.0};
    expect(isobar_problem_diffusion(&sides, &other), ISOBAR_OK, "");
    expect(isobar_problem_divide(other, ranks), ISOBAR_INVALID, "of a side: not the same as on rank 0");
    isobar_problem_free(other);

    /* Calls that differ on one rank. */
    size_t first, count;
    expect(isobar_ranks_rows(ranks, NY, &first, &count), ISOBAR_OK, "");
    isobar_array own = isobar_host_array(u, NZ, count, NX, ISOBAR_F64), single = isobar_host_array(u, NZ, count, NX, ISOBAR_F32);
    isobar_array narrow = isobar_host_array(u, NZ, count, NX - 1, ISOBAR_F64);
    isobar_diffusion rows = {.size = sizeof rows, .kappa = is_odd() ? &narrow : &own};
    for (int n = 0; n < MOST; ++n)
        u[n] = 1.0;
    expect(isobar_problem_diffusion_rows(&rows, NY, ranks, &other), ISOBAR_INVALID, "the call: it is problem_diffusion_rows");
    rows.kappa = &own, rows.reaction = is_odd() ? &own : NULL;
    expect(isobar_problem_diffusion_rows(&rows, NY, ranks, &other), ISOBAR_INVALID, "with reaction");
    rows.reaction = NULL;
    expect(isobar_problem_diffusion_rows(&rows, NY, ranks, is_odd() ? NULL : &other), ISOBAR_INVALID, "the output for the new handle");
    isobar_ranks *more;
    expect(isobar_ranks_create(as_integer(MPI_COMM_WORLD), is_odd() ? NULL : &more), ISOBAR_INVALID, "the output for the new handle");
    expect(isobar_problem_divide(is_odd() ? NULL : problem, ranks), ISOBAR_INVALID, is_odd() ? "problem is a null" : "");
    expect(isobar_solver_create(problem, NULL, "cpu", 1, is_odd() ? NULL : &alone), ISOBAR_INVALID, "the output for the new handle");
    expect(isobar_problem_rhs(problem, is_odd() ? own_b : NULL, own_u), ISOBAR_INVALID, "it is problem_rhs with f, and problem_rhs without f on rank 0");
    double total;
    expect(isobar_problem_flux(problem, own_u, is_odd(), 0, &total), ISOBAR_INVALID, "problem_flux of axis 1");
    expect(isobar_heat_create(problem, is_odd() ? own_b : NULL, own_b, &steps, NULL, "cpu", 1, &heat), ISOBAR_INVALID, "with source");
    expect(isobar_solver_solve(solver, own_b, own_u, is_odd(), NULL, NULL), ISOBAR_INVALID, "it is solve with");
    expect(isobar_solver_solve(solver, own_b, is_odd() ? &single : own_u, 0, NULL, NULL), ISOBAR_INVALID, "u in f32");
    isobar_array many[2] = {*own_b, *own_b}, to[2] = {*own_u, own};
    expect(isobar_solver_solve_many(solver, many, to, is_odd() ? 1 : 2, 0, NULL, NULL, NULL), ISOBAR_INVALID, "solve_many of 1 systems");
    int32_t code = is_odd() ? isobar_solver_apply(solver, own_b, own_u) : isobar_solver_solve(solver, own_b, own_u, 0, NULL, NULL);
    expect(code, ISOBAR_INVALID, "it is apply with");
    isobar_ranks_free(ranks);
}

int main(int argc, char **argv)
{
    isobar_ranks *ranks = NULL;
    expect(isobar_ranks_create(0, &ranks), ISOBAR_DEVICE, "MPI_Init");
    /* Solves may use other threads, unlike those of the examples. */
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
    int32_t all = as_integer(MPI_COMM_WORLD);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    expect(isobar_ranks_create(987654321, &ranks), ISOBAR_INVALID, "987654321");
    expect(isobar_ranks_create(-7, &ranks), ISOBAR_INVALID, "-7");
    expect(isobar_ranks_create(as_integer(MPI_COMM_NULL), &ranks), ISOBAR_INVALID, "communicator");
    expect(isobar_ranks_create(all, NULL), ISOBAR_INVALID, "null pointer");
    if (ranks)
        ++failures;
    /* The program's error handler is unchanged. */
    MPI_Errhandler handler;
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler);
    if (handler != MPI_ERRORS_ARE_FATAL)
        ++failures;
    MPI_Errhandler_free(&handler);

    size_t first = 99, count = 0;
    expect(isobar_ranks_create(all, &ranks), ISOBAR_OK, "");
    expect(isobar_ranks_rows(NULL, NY, &first, &count), ISOBAR_INVALID, "ranks is a null");
    expect(isobar_ranks_rows(ranks, NY, NULL, &count), ISOBAR_INVALID, "first is a null");
    expect(isobar_ranks_rows(ranks, NY, &first, NULL), ISOBAR_INVALID, "count is a null");
    expect(isobar_ranks_rows(ranks, size - 1, &first, &count), ISOBAR_INVALID, "rows");
    expect(isobar_ranks_rows(ranks, NY, &first, &count), ISOBAR_OK, "");

    static double kappa[MOST], b[MOST], u[MOST], v[MOST], exact[MOST];
    for (int n = 0; n < MOST; ++n) {
        kappa[n] = 1.0 + n % 3;
        b[n] = sin(n);
    }
    isobar_array whole_kappa = isobar_host_array(kappa, NZ, NY, NX, ISOBAR_F64);
    isobar_diffusion box = {.size = sizeof box, .kappa = &whole_kappa}, other;
    box.sides[0][0] = (isobar_side){ISOBAR_DIRICHLET, 1.0};
    const char *options = "norm = \"rhs\"\ntolerance = 1e-10";

    /* One rank's solution, for comparison. */
    isobar_problem *problem, *wrong;
    isobar_solver *solver;
    isobar_array whole_b = isobar_host_array(b, NZ, NY, NX, ISOBAR_F64), whole_u = isobar_host_array(exact, NZ, NY, NX, ISOBAR_F64);
    expect(isobar_problem_diffusion(&box, &problem), ISOBAR_OK, "");
    expect(isobar_solver_create(problem, options, "cpu", 1, &solver), ISOBAR_OK, "");
    expect(isobar_solver_solve(solver, &whole_b, &whole_u, 0, NULL, NULL), ISOBAR_OK, "");
    isobar_solver_free(solver);

    expect(isobar_problem_divide(NULL, ranks), ISOBAR_INVALID, "problem is a null");
    expect(isobar_problem_divide(problem, NULL), ISOBAR_INVALID, "ranks is a null");
    expect(isobar_problem_divide(problem, ranks), ISOBAR_OK, "");
    expect(isobar_problem_divide(problem, ranks), ISOBAR_INVALID, "divided already");
    size_t shape[3];
    expect(isobar_problem_shape(problem, shape), ISOBAR_OK, "");
    if (shape[0] != NZ || shape[1] != count || shape[2] != NX)
        ++failures;

    /* Options, the grid or a coefficient that differ on one rank. */
    expect(isobar_solver_create(problem, is_odd() ? "tolerance = 1e-3" : options, "cpu", 1, &solver), ISOBAR_INVALID, "not the same as on rank 0");
    expect(isobar_solver_create(problem, is_odd() ? "tolerence = 1" : options, "cpu", 1, &solver), ISOBAR_INVALID, "did you mean");
    expect(isobar_solver_create(problem, options, is_odd() ? "cuda:1000" : "cpu", 1, &solver), ISOBAR_DEVICE, "cuda");
    expect(isobar_solver_create(problem, options, "cuda:0,1", 1, &solver), ISOBAR_UNSUPPORTED, "a rank can use one GPU only");
    isobar_array low = isobar_host_array(kappa, NZ - 1, NY, NX, ISOBAR_F64);
    other = box;
    other.kappa = is_odd() ? &low : &whole_kappa;
    expect(isobar_problem_diffusion(&other, &wrong), ISOBAR_OK, "");
    expect(isobar_problem_divide(wrong, ranks), ISOBAR_OK, "");
    expect(isobar_solver_create(wrong, options, "cpu", 1, &solver), ISOBAR_INVALID, "the shape of the grid");
    isobar_problem_free(wrong);
    if (is_odd())
        kappa[17] *= 2;
    expect(isobar_problem_diffusion(&box, &wrong), ISOBAR_OK, "");
    kappa[17] = 1.0 + 17 % 3;
    expect(isobar_problem_divide(wrong, ranks), ISOBAR_OK, "");
    expect(isobar_solver_create(wrong, options, "cpu", 1, &solver), ISOBAR_INVALID, "of the whole grid");
    isobar_array narrow = isobar_host_array(kappa, 1, size - 1, NX, ISOBAR_F64);
    isobar_problem *thin;
    other.kappa = &narrow;
    expect(isobar_problem_diffusion(&other, &thin), ISOBAR_OK, "");
    expect(isobar_problem_divide(thin, ranks), ISOBAR_INVALID, "use at most");
    isobar_problem_free(thin);
    other = box;
    isobar_array own_kappa = isobar_host_array(kappa, NZ, is_odd() ? count + 1 : count, NX, ISOBAR_F64);
    other.kappa = &own_kappa;
    expect(isobar_problem_diffusion_rows(&other, NY, ranks, &thin), ISOBAR_INVALID, "kappa: found shape");

    expect(isobar_solver_create(problem, options, "cpu", 1, &solver), ISOBAR_OK, "");
    /* In any order: the solver keeps what it needs. */
    isobar_ranks_free(ranks);
    isobar_array own_b = isobar_host_array(b + first * NX, NZ, count, NX, ISOBAR_F64), own_u = own_b, no_b = own_b;
    own_b.strides[0] = NX * NY * sizeof *b;
    own_b.strides[1] = NX * sizeof *b;
    own_b.strides[2] = sizeof *b;
    own_u = own_b, own_u.data = u + first * NX;
    no_b.data = NULL;
    char who[64];
    snprintf(who, sizeof who, size > 1 ? "rank %d of %d" : "b", size - 1, size);
    for (int turn = 0; turn < 3; ++turn) {
        expect(isobar_solver_solve(solver, is_odd() ? NULL : &own_b, &own_u, 0, NULL, NULL), ISOBAR_INVALID, who);
        expect(isobar_solver_solve(solver, is_odd() ? &no_b : &own_b, &own_u, 0, NULL, NULL), ISOBAR_INVALID, "null pointer");
        no_b = own_b, no_b.shape[1] += 1;
        expect(isobar_solver_solve(solver, is_odd() ? &no_b : &own_b, &own_u, 0, NULL, NULL), ISOBAR_INVALID, "shape");
        no_b.data = NULL;
        expect(isobar_solver_apply(solver, &own_u, is_odd() ? &no_b : &own_u), ISOBAR_INVALID, "null pointer");
        double *cell = b + NX * (first + 1 + 2 * NY) + 5, before = *cell;
        *cell = is_odd() ? NAN : before;
        expect(isobar_solver_solve(solver, &own_b, &own_u, 0, NULL, NULL), ISOBAR_INVALID, "(i, j, k) = (5, ");
        *cell = before;
        expect(isobar_solver_update(solver, wrong), ISOBAR_INVALID, "of the whole grid");
        /* One rank observes, and ends the solve. */
        expect(isobar_solver_solve(solver, &own_b, &own_u, 0, is_odd() ? stop_at_once : NULL, NULL), ISOBAR_INTERRUPTED, "progress");

        memset(u, 0, sizeof u);
        expect(isobar_solver_solve(solver, &own_b, &own_u, 0, NULL, NULL), ISOBAR_OK, "");
        double error = 0, largest = 0;
        for (int n = 0; n < MOST; ++n) {
            size_t j = n / NX % NY;
            error = fmax(error, fabs(u[n] - (j >= first && j < first + count ? exact[n] : 0.0)));
            largest = fmax(largest, fabs(exact[n]));
        }
        if (!(error <= 1e-8 * largest)) {
            fprintf(stderr, "rank %d: off by %g of %g\n", rank, error, largest);
            ++failures;
        }
        own_u.data = v + first * NX;
        isobar_array solution = own_u;
        solution.data = u + first * NX;
        expect(isobar_solver_apply(solver, &solution, &own_u), ISOBAR_OK, "");
        for (int n = 0; n < MOST; ++n) {
            size_t j = n / NX % NY;
            if (j >= first && j < first + count && fabs(v[n] - b[n]) > 1e-6)
                ++failures;
        }
        own_u.data = u + first * NX;
    }
    isobar_problem_free(wrong);
    if (size > 1)
        of_forms(problem, solver, &box, &own_b, &own_u);

    /* Time steps, from rows. */
    isobar_time_steps steps = {.size = sizeof steps, .dt = 0.1, .end_time = 0.3};
    isobar_heat *heat;
    isobar_step step;
    for (int n = 0; n < 5 && size > 1; ++n) {
        isobar_time_steps others = steps;
        double *changed[] = {&others.dt, &others.end_time, &others.step_tolerance};
        if (n < 3 && is_odd())
            *changed[n] = 0.2;
        others.scheme = n == 3 && is_odd() ? ISOBAR_BACKWARD_EULER : ISOBAR_CRANK_NICOLSON;
        others.extrapolates = n == 4 && is_odd();
        expect(isobar_heat_create(problem, NULL, &own_b, &others, NULL, "cpu", 1, &heat), ISOBAR_INVALID, "an option of the time steps");
    }
    expect(isobar_heat_create(problem, NULL, is_odd() ? &no_b : &own_b, &steps, NULL, "cpu", 1, &heat), ISOBAR_INVALID, "null pointer");
    expect(isobar_heat_create(problem, &own_b, &own_b, &steps, "tolerance = 1e-10", "cpu", 1, &heat), ISOBAR_OK, "");
    double energy, before = 0;
    expect(isobar_heat_step(heat, is_odd() ? stop_at_once : NULL, NULL, &step), ISOBAR_INTERRUPTED, "progress");
    for (int n = 0; n < 3; ++n) {
        expect(isobar_heat_step(heat, NULL, NULL, &step), ISOBAR_OK, "");
        expect(isobar_heat_energy(heat, is_odd() ? NULL : &energy), ISOBAR_INVALID, "energy is a null");
        expect(isobar_heat_energy(heat, &energy), ISOBAR_OK, "");
        double least, most;
        MPI_Allreduce(&energy, &least, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
        MPI_Allreduce(&energy, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        if (least != most || energy == before)
            ++failures;
        before = energy;
        no_b = own_b, no_b.data = NULL;
        expect(isobar_heat_state(heat, is_odd() ? &no_b : &own_u), ISOBAR_INVALID, "null pointer");
        expect(isobar_heat_state(heat, &own_u), ISOBAR_OK, "");
        expect(isobar_heat_set_state(heat, &own_u), ISOBAR_OK, "");
        expect(isobar_heat_update(heat, problem, &own_b), ISOBAR_OK, "");
    }
    expect(isobar_heat_step(heat, NULL, NULL, &step), ISOBAR_INVALID, "has been reached");
    isobar_heat_free(heat);

    int sum = 0;
    MPI_Reduce(&failures, &sum, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    isobar_problem_free(problem);
    MPI_Finalize();
    /* A late call does no harm. */
    isobar_solver_free(solver);
    isobar_ranks_free(NULL);
    if (rank == 0)
        printf("%d failures\n", sum);
    return sum != 0;
}
