/* A caller's mistakes return a code and a message. */
#include "expect.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

enum { NX = 10, NY = 6, NZ = 4, CELLS = NX * NY * NZ };

static int32_t stop(void *data, size_t iteration, double residual)
{
    (void)data, (void)iteration, (void)residual;
    return 1;
}

struct again {
    isobar_solver *solver;
    isobar_array *array;
    int32_t code;
};

static int32_t use_again(void *data, size_t iteration, double residual)
{
    struct again *again = data;
    (void)iteration, (void)residual;
    again->code = isobar_solver_apply(again->solver, again->array, again->array);
    return 0;
}

static void *on_another_thread(void *data)
{
    struct again *again = data;
    /* Nothing has failed here. */
    if (*isobar_last_error())
        ++failures;
    again->code = isobar_solver_solve(again->solver, again->array, again->array, 0, NULL, NULL);
    return NULL;
}

/* Several right-hand sides, each twice the previous one. */
static void of_many(isobar_solver *solver)
{
    enum { COUNT = 3 };
    static double b[COUNT][CELLS], u[COUNT][CELLS];
    isobar_array from[COUNT], to[COUNT];
    int32_t codes[COUNT] = {-1, -1, -1};
    for (int m = 0; m < COUNT; ++m) {
        for (int n = 0; n < CELLS; ++n)
            b[m][n] = 1 << m;
        from[m] = isobar_host_array(b[m], NZ, NY, NX, ISOBAR_F64);
        to[m] = isobar_host_array(u[m], NZ, NY, NX, ISOBAR_F64);
    }
    expect(isobar_solver_solve_many(NULL, from, to, COUNT, 0, NULL, NULL, NULL), ISOBAR_INVALID, "solver is a null");
    expect(isobar_solver_solve_many(solver, NULL, to, COUNT, 0, NULL, NULL, NULL), ISOBAR_INVALID, "b is a null");
    expect(isobar_solver_solve_many(solver, from, NULL, COUNT, 0, NULL, NULL, NULL), ISOBAR_INVALID, "u is a null");
    expect(isobar_solver_solve_many(solver, from, to, 0, 0, codes, NULL, NULL), ISOBAR_INVALID, "give one or more");
    from[2].dtype = 17;
    expect(isobar_solver_solve_many(solver, from, to, COUNT, 0, codes, NULL, NULL), ISOBAR_INVALID, "b[2]: unknown dtype 17");
    from[2].dtype = ISOBAR_F64;
    to[0].data = b[1];
    expect(isobar_solver_solve_many(solver, from, to, COUNT, 0, codes, NULL, NULL), ISOBAR_INVALID, "u of system 0 shares memory with b of system 1");
    to[0].data = u[1] - NX;
    expect(isobar_solver_solve_many(solver, from, to, COUNT, 0, codes, NULL, NULL), ISOBAR_INVALID, "u of system 0 shares memory with u of system 1");
    to[0].data = u[0];
    b[1][5] = NAN;
    expect(isobar_solver_solve_many(solver, from, to, COUNT, 0, codes, NULL, NULL), ISOBAR_INVALID, "system 1: ");
    if (codes[0] != -1)
        ++failures;
    b[1][5] = 2.0;
    expect(isobar_solver_solve_many(solver, from, to, COUNT, 0, codes, stop, NULL), ISOBAR_INTERRUPTED, "system 0: ");
    if (codes[0] != ISOBAR_INTERRUPTED || codes[2] != ISOBAR_INTERRUPTED)
        ++failures;
    expect(isobar_solver_solve_many(solver, from, to, COUNT, 0, codes, NULL, NULL), ISOBAR_OK, "");
    for (int m = 0; m < COUNT; ++m)
        if (codes[m] != ISOBAR_OK || u[0][7] == 0.0 || fabs(u[m][7] - (1 << m) * u[0][7]) > 1e-6 * fabs(u[m][7]))
            ++failures;
}

static void of_heat(isobar_problem *problem, isobar_array *state)
{
    isobar_time_steps steps = {.size = sizeof steps, .dt = 0.1, .end_time = 0.25}, wrong;
    isobar_heat *heat;
    isobar_step step;
    const char *text;
    expect(isobar_heat_create(NULL, NULL, state, &steps, NULL, "cpu", 1, &heat), ISOBAR_INVALID, "problem is a null");
    expect(isobar_heat_create(problem, NULL, NULL, &steps, NULL, "cpu", 1, &heat), ISOBAR_INVALID, "u is a null");
    expect(isobar_heat_create(problem, NULL, state, NULL, NULL, "cpu", 1, &heat), ISOBAR_INVALID, "isobar_time_steps");
    expect(isobar_heat_create(problem, NULL, state, &steps, NULL, "cpu", 1, NULL), ISOBAR_INVALID, "null pointer");
    wrong = steps, wrong.size = 8;
    expect(isobar_heat_create(problem, NULL, state, &wrong, NULL, "cpu", 1, &heat), ISOBAR_INVALID, "isobar_time_steps.size is 8");
    wrong = steps, wrong.dt = NAN;
    expect(isobar_heat_create(problem, NULL, state, &wrong, NULL, "cpu", 1, &heat), ISOBAR_INVALID, "dt");
    wrong = steps, wrong.end_time = -1.0;
    expect(isobar_heat_create(problem, NULL, state, &wrong, NULL, "cpu", 1, &heat), ISOBAR_INVALID, "end_time");
    wrong = steps, wrong.scheme = 5;
    expect(isobar_heat_create(problem, NULL, state, &wrong, NULL, "cpu", 1, &heat), ISOBAR_INVALID, "scheme 5");
    wrong = steps, wrong.step_tolerance = -1.0;
    expect(isobar_heat_create(problem, NULL, state, &wrong, NULL, "cpu", 1, &heat), ISOBAR_INVALID, "-1");
    static double source[CELLS];
    source[NX + 2] = NAN;
    isobar_array wild = isobar_host_array(source, NZ, NY, NX, ISOBAR_F64);
    expect(isobar_heat_create(problem, &wild, state, &steps, NULL, "cpu", 1, &heat), ISOBAR_INVALID, "source is NaN at (i, j, k) = (2, 1, 0)");
    isobar_array flat = *state;
    flat.shape[0] = 1;
    expect(isobar_heat_create(problem, NULL, &flat, &steps, NULL, "cpu", 1, &heat), ISOBAR_INVALID, "shape");
    expect(isobar_heat_create(problem, &flat, state, &steps, NULL, "cpu", 1, &heat), ISOBAR_INVALID, "source");
    expect(isobar_heat_from_case("[problem]\nkind = \"poisson\"\n[grid]\nnx = 4\n", NULL, "cpu", 1, &heat), ISOBAR_INVALID, "poisson");
    if (heat)
        ++failures;

    expect(isobar_heat_create(problem, NULL, state, &steps, "method = \"cg\"", "cpu", 1, &heat), ISOBAR_OK, "");
    expect(isobar_heat_report(heat, &text), ISOBAR_INVALID, "no step");
    expect(isobar_heat_energy(heat, NULL), ISOBAR_INVALID, "energy is a null");
    expect(isobar_heat_state(heat, &flat), ISOBAR_INVALID, "shape");
    expect(isobar_heat_step(heat, stop, NULL, &step), ISOBAR_INTERRUPTED, "progress function");
    for (size_t number = 1; number <= 3; ++number) {
        expect(isobar_heat_step(heat, NULL, NULL, &step), ISOBAR_OK, "");
        if (step.number != number || step.is_last != (number == 3))
            ++failures;
        expect(isobar_heat_set_state(heat, state), ISOBAR_OK, "");
    }
    if (fabs(step.dt - 0.05) > 1e-12 || fabs(step.time - 0.25) > 1e-12)
        ++failures;
    expect(isobar_heat_step(heat, NULL, NULL, NULL), ISOBAR_INVALID, "has been reached");
    expect(isobar_heat_report(heat, &text), ISOBAR_OK, "");
    if (!strstr(text, "\"converged\""))
        ++failures;
    isobar_heat_free(heat);
    isobar_heat_free(NULL);
}

int main(void)
{
    static double kappa[CELLS], b[CELLS], u[CELLS];
    isobar_problem *problem = (isobar_problem *)b, *other;
    isobar_solver *solver;
    const char *text;
    for (int n = 0; n < CELLS; ++n)
        kappa[n] = b[n] = 1.0;
    isobar_array coefficient = isobar_host_array(kappa, NZ, NY, NX, ISOBAR_F64);
    isobar_array rhs = isobar_host_array(b, NZ, NY, NX, ISOBAR_F64);
    isobar_array solution = isobar_host_array(u, NZ, NY, NX, ISOBAR_F64);
    isobar_array wrong;
    isobar_diffusion box = {.size = sizeof box, .kappa = &coefficient};

    expect(isobar_problem_from_case(NULL, NULL, &problem), ISOBAR_INVALID, "text is a null pointer");
    if (problem)
        ++failures; /* no handle after a failure */
    expect(isobar_problem_from_case("[problem]\nkind = \"poisson\"\n", NULL, NULL), ISOBAR_INVALID, "null");
    expect(isobar_problem_from_case("[problem]\nkind = \"poison\"\n", NULL, &problem), ISOBAR_INVALID, "did you mean \"poisson\"");
    expect(isobar_problem_from_case("\xff", NULL, &problem), ISOBAR_INVALID, "UTF-8");
    expect(isobar_problem_from_case("[problem]\nkind=\"heat\"\n[heat]\ndt=1e-3\nend_time=0.1\n", NULL, &problem), ISOBAR_INVALID, "time steps");
    expect(isobar_problem_diffusion(NULL, &problem), ISOBAR_INVALID, "null");
    box.size = 8;
    expect(isobar_problem_diffusion(&box, &problem), ISOBAR_INVALID, "sizeof(isobar_diffusion)");
    box.size = sizeof box;
    box.kappa = NULL;
    expect(isobar_problem_diffusion(&box, &problem), ISOBAR_INVALID, "kappa is a null pointer");
    box.kappa = &coefficient;
    box.sides[1][0].kind = 9;
    expect(isobar_problem_diffusion(&box, &problem), ISOBAR_INVALID, "side of y has the unknown kind 9");
    box.sides[1][0].kind = ISOBAR_PERIODIC;
    expect(isobar_problem_diffusion(&box, &problem), ISOBAR_INVALID, "eriodic");
    box.sides[1][0].kind = ISOBAR_ROBIN;
    box.coefficients[1][0] = -2.0;
    expect(isobar_problem_diffusion(&box, &problem), ISOBAR_INVALID, "south: the coefficient is -2");
    box.coefficients[1][0] = 0.0;
    box.sides[1][0].kind = ISOBAR_NEUMANN;
    kappa[7] = -1.0;
    expect(isobar_problem_diffusion(&box, &problem), ISOBAR_INVALID, "(7, 0, 0)");
    kappa[7] = NAN;
    expect(isobar_problem_diffusion(&box, &problem), ISOBAR_INVALID, "NaN");
    kappa[7] = 1.0;
    static double other_kappa[CELLS];
    other_kappa[1] = -2.0;
    isobar_array vertical = isobar_host_array(other_kappa, NZ, NY, NX, ISOBAR_F64);
    box.kappa_z = &vertical;
    expect(isobar_problem_diffusion(&box, &problem), ISOBAR_INVALID, "kappa_z: -2 in cell (i, j, k) = (1, 0, 0), counted from 0");
    box.kappa_z = NULL, box.kappa_y = &vertical;
    expect(isobar_problem_diffusion(&box, &problem), ISOBAR_INVALID, "kappa_y: -2 in cell");
    box.kappa_y = NULL;
    isobar_array mask = isobar_host_array("111", 1, 1, 3, ISOBAR_U8);
    box.active = &mask;
    expect(isobar_problem_diffusion(&box, &problem), ISOBAR_INVALID, "active");
    /* Coefficients on a GPU are all there, and without a mask; no machine has that many GPUs. */
    isobar_array elsewhere = coefficient;
    elsewhere.device = 1000;
    box.kappa = &elsewhere;
    expect(isobar_problem_diffusion(&box, &problem), ISOBAR_UNSUPPORTED, "mask");
    box.active = NULL, box.kappa_z = &coefficient;
    expect(isobar_problem_diffusion(&box, &problem), ISOBAR_UNSUPPORTED, "all must be");
    box.kappa_z = NULL;
    expect(isobar_problem_diffusion(&box, &problem), ISOBAR_DEVICE, "");
    box.kappa = &coefficient;
    isobar_faces immense = {.size = sizeof immense, .shape = {1 << 20, 1, 1 << 20}};
    expect(isobar_problem_faces(&immense, &problem), ISOBAR_OUT_OF_MEMORY, "tx: there is no memory for");
    isobar_tensor_product empty = {.size = sizeof empty};
    expect(isobar_problem_tensor_product(&empty, &problem), ISOBAR_INVALID, "nx, ny and nz are 0, 0 and 0");
    empty.nx = empty.ny = empty.nz = 3;
    expect(isobar_problem_tensor_product(&empty, &problem), ISOBAR_INVALID, "null");

    box.sides[0][0] = (isobar_side){ISOBAR_DIRICHLET, 0.0};
    expect(isobar_problem_diffusion(&box, &problem), ISOBAR_OK, "");
    expect(isobar_solver_create(NULL, NULL, NULL, 0, &solver), ISOBAR_INVALID, "problem is a null pointer");
    expect(isobar_solver_create(problem, "tolerence = 1", "cpu", 1, &solver), ISOBAR_INVALID, "did you mean \"tolerance\"");
    expect(isobar_solver_create(problem, "tolerance = 2.0", "cpu", 1, &solver), ISOBAR_INVALID, "tolerance");
    expect(isobar_solver_create(problem, "{\"method\": 1}", "cpu", 1, &solver), ISOBAR_INVALID, "method");
    expect(isobar_solver_create(problem, "{", "cpu", 1, &solver), ISOBAR_INVALID, "JSON");
    expect(isobar_solver_create(problem, NULL, "cpu", (size_t)-3, &solver), ISOBAR_INVALID, "threads is -3");
    expect(isobar_solver_create(problem, NULL, "gpu", 1, &solver), ISOBAR_INVALID, "gpu");
    expect(isobar_solver_create(problem, NULL, "cuda:1000", 1, &solver), ISOBAR_DEVICE, "cuda");

    expect(isobar_solver_create(problem, "norm = \"rhs\"\ntolerance = 1e-10\npreconditioner.kind = \"jacobi\"", "cpu", 1, &solver), ISOBAR_OK, "");
    expect(isobar_solver_report(solver, &text), ISOBAR_INVALID, "no solve");
    expect(isobar_solver_solve(NULL, &rhs, &solution, 0, NULL, NULL), ISOBAR_INVALID, "solver is a null");
    expect(isobar_solver_solve(solver, NULL, &solution, 0, NULL, NULL), ISOBAR_INVALID, "b is a null");
    expect(isobar_solver_solve(solver, &rhs, NULL, 0, NULL, NULL), ISOBAR_INVALID, "u is a null");
    wrong = rhs, wrong.data = NULL;
    expect(isobar_solver_solve(solver, &wrong, &solution, 0, NULL, NULL), ISOBAR_INVALID, "b: array: a null pointer");
    wrong = rhs, wrong.shape[0] = 1;
    expect(isobar_solver_solve(solver, &wrong, &solution, 0, NULL, NULL), ISOBAR_INVALID, "shape");
    wrong = rhs, wrong.dtype = 17;
    expect(isobar_solver_solve(solver, &wrong, &solution, 0, NULL, NULL), ISOBAR_INVALID, "dtype 17");
    wrong = rhs, wrong.device = -7;
    expect(isobar_solver_solve(solver, &wrong, &solution, 0, NULL, NULL), ISOBAR_INVALID, "device -7");
    wrong = rhs, wrong.device = 0;
    expect(isobar_solver_solve(solver, &wrong, &solution, 0, NULL, NULL), ISOBAR_UNSUPPORTED, "copy it to host memory");
    wrong = rhs, wrong.strides[2] = 4;
    expect(isobar_solver_solve(solver, &wrong, &solution, 0, NULL, NULL), ISOBAR_INVALID, "stride of 4 bytes");
    wrong = solution, wrong.strides[2] = 8;
    expect(isobar_solver_solve(solver, &rhs, &wrong, 0, NULL, NULL), ISOBAR_INVALID, "share memory");
    b[5] = NAN;
    expect(isobar_solver_solve(solver, &rhs, &solution, 0, NULL, NULL), ISOBAR_INVALID, "(5, 0, 0)");
    b[5] = 1.0;
    expect(isobar_solver_solve(solver, &rhs, &solution, 0, stop, NULL), ISOBAR_INTERRUPTED, "progress function");
    struct again again = {solver, &solution, ISOBAR_OK};
    expect(isobar_solver_solve(solver, &rhs, &solution, 0, use_again, &again), ISOBAR_OK, "");
    if (again.code != ISOBAR_BUSY)
        ++failures;

    /* Every memory order gives the same result: here u reversed in all directions, in place. */
    memcpy(u, b, sizeof u);
    wrong = isobar_host_array(u + CELLS - 1, NZ, NY, NX, ISOBAR_F64);
    wrong.strides[0] = -8 * NX * NY, wrong.strides[1] = -8 * NX, wrong.strides[2] = -8;
    expect(isobar_solver_solve(solver, &wrong, &wrong, 0, NULL, NULL), ISOBAR_OK, "");
    double reversed = u[CELLS - 1];
    expect(isobar_solver_solve(solver, &rhs, &solution, 0, NULL, NULL), ISOBAR_OK, "");
    if (fabs(reversed - u[0]) > 1e-9 * fabs(u[0]))
        ++failures;

    of_many(solver);
    expect(isobar_solver_solve(solver, &rhs, &solution, 0, NULL, NULL), ISOBAR_OK, "");

    /* The inflow b leaves through the only open side. */
    double total = 0.0;
    expect(isobar_problem_flux(problem, &solution, 0, 0, &total), ISOBAR_OK, "");
    if (fabs(total - CELLS) > 1e-6 * CELLS)
        ++failures;
    expect(isobar_problem_flux(problem, &solution, 1, 1, &total), ISOBAR_OK, "");
    if (total != 0.0)
        ++failures;
    expect(isobar_problem_flux(NULL, &solution, 0, 0, &total), ISOBAR_INVALID, "problem is a null");
    expect(isobar_problem_flux(problem, NULL, 0, 0, &total), ISOBAR_INVALID, "u is a null");
    expect(isobar_problem_flux(problem, &solution, 3, 0, &total), ISOBAR_INVALID, "axis is 3");
    expect(isobar_problem_flux(problem, &solution, -1, 0, &total), ISOBAR_INVALID, "axis is -1");
    expect(isobar_problem_flux(problem, &solution, 0, 2, &total), ISOBAR_INVALID, "is_upper is 2");
    expect(isobar_problem_flux(problem, &solution, 0, 0, NULL), ISOBAR_INVALID, "total is a null");
    wrong = solution, wrong.shape[0] = 1;
    expect(isobar_problem_flux(problem, &wrong, 0, 0, &total), ISOBAR_INVALID, "shape");

    /* Derivatives of the sum of u, which is proportional to b/κ. */
    static double ones[CELLS], by_b[CELLS], by_kappa[CELLS];
    for (int n = 0; n < CELLS; ++n)
        ones[n] = 1.0;
    isobar_array weights = isobar_host_array(ones, NZ, NY, NX, ISOBAR_F64);
    isobar_array adjoint = isobar_host_array(by_b, NZ, NY, NX, ISOBAR_F64), slopes = isobar_host_array(by_kappa, NZ, NY, NX, ISOBAR_F64);
    isobar_gradient wanted = {.size = sizeof wanted, .b = &adjoint, .kappa = &slopes};
    expect(isobar_solver_gradient(solver, problem, &solution, &weights, &wanted), ISOBAR_OK, "");
    double by_rhs = 0.0, by_coefficient = 0.0, sum = 0.0;
    for (int n = 0; n < CELLS; ++n)
        by_rhs += by_b[n] * b[n], by_coefficient += by_kappa[n] * kappa[n], sum += u[n];
    if (fabs(by_rhs - sum) > 1e-6 * sum || fabs(by_coefficient + sum) > 1e-6 * sum)
        ++failures;
    expect(isobar_solver_gradient(NULL, problem, &solution, &weights, &wanted), ISOBAR_INVALID, "solver is a null");
    expect(isobar_solver_gradient(solver, NULL, &solution, &weights, &wanted), ISOBAR_INVALID, "problem is a null");
    expect(isobar_solver_gradient(solver, problem, NULL, &weights, &wanted), ISOBAR_INVALID, "u is a null");
    expect(isobar_solver_gradient(solver, problem, &solution, NULL, &wanted), ISOBAR_INVALID, "ubar is a null");
    expect(isobar_solver_gradient(solver, problem, &solution, &weights, NULL), ISOBAR_INVALID, "isobar_gradient is a null");
    wanted.size = 8;
    expect(isobar_solver_gradient(solver, problem, &solution, &weights, &wanted), ISOBAR_INVALID, "isobar_gradient.size is 8");
    wanted.size = sizeof wanted, wanted.kappa_z = &slopes;
    expect(isobar_solver_gradient(solver, problem, &solution, &weights, &wanted), ISOBAR_INVALID, "kappa_z: the problem");
    wanted.kappa_z = NULL, wrong = adjoint, wrong.shape[0] = 1, wanted.b = &wrong;
    expect(isobar_solver_gradient(solver, problem, &solution, &weights, &wanted), ISOBAR_INVALID, "shape");
    wanted.b = &adjoint, ones[1] = NAN;
    expect(isobar_solver_gradient(solver, problem, &solution, &weights, &wanted), ISOBAR_INVALID, "ubar is NaN at (i, j, k) = (1, 0, 0), counted from 0");
    ones[1] = 1.0;
    /* After an interrupted solve there are none, and nothing is written. */
    by_b[0] = -7.0;
    expect(isobar_solver_solve(solver, &rhs, &solution, 0, stop, NULL), ISOBAR_INTERRUPTED, "progress function");
    expect(isobar_solver_gradient(solver, problem, &solution, &weights, &wanted), ISOBAR_INTERRUPTED, "no gradient: the solve was");
    if (by_b[0] != -7.0)
        ++failures;
    expect(isobar_solver_solve(solver, &rhs, &solution, 0, NULL, NULL), ISOBAR_OK, "");

    /* An update with another grid is refused, and the solver is unchanged. */
    coefficient = isobar_host_array(kappa, 2, NY, NX, ISOBAR_F64);
    expect(isobar_problem_diffusion(&box, &other), ISOBAR_OK, "");
    expect(isobar_solver_update(solver, other), ISOBAR_INVALID, "");
    isobar_problem_free(other);
    expect(isobar_solver_gradient(solver, problem, &solution, &weights, &wanted), ISOBAR_OK, "");
    expect(isobar_solver_update(solver, problem), ISOBAR_OK, "");
    expect(isobar_solver_gradient(solver, problem, &solution, &weights, &wanted), ISOBAR_INVALID, "since the solver was made or updated");
    expect(isobar_solver_solve(solver, &rhs, &solution, 1, NULL, NULL), ISOBAR_OK, "");

    pthread_t thread;
    again.code = -1;
    if (pthread_create(&thread, NULL, on_another_thread, &again) || pthread_join(thread, NULL) || again.code != ISOBAR_OK)
        ++failures;

    isobar_solver *weak;
    expect(isobar_solver_create(problem, "method = \"cg\"\nmax_iterations = 1\ntolerance = 1e-12\n[preconditioner]\nkind = \"none\"", "cpu", 1, &weak), ISOBAR_OK, "");
    expect(isobar_solver_solve(weak, &rhs, &solution, 0, NULL, NULL), ISOBAR_NOT_CONVERGED, "not converged");
    expect(isobar_solver_report(weak, &text), ISOBAR_OK, "");
    if (!strstr(text, "\"max_iterations\"") || !strstr(text, "\"case\": \"arrays\""))
        ++failures;
    isobar_solver_free(weak);
    of_heat(problem, &rhs);
    isobar_solver_free(NULL);
    isobar_problem_free(NULL);
    isobar_solver_free(solver);
    isobar_problem_free(problem);
    printf("%d failures\n", failures);
    return failures != 0;
}
