/* A problem with coefficients in the memory of a GPU: all that is computed of it is what is computed of the same problem in host memory. */
#include <isobar.h>

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NX = 12, NY = 10, NZ = 6, CELLS = NX * NY * NZ };

static int failures;

static void ok(int code, const char *what)
{
    if (code != 0) {
        printf("%s: code %d, %s\n", what, code, isobar_last_error());
        ++failures;
    }
}

static void close_to(const double *found, const double *expected, int count, double tolerance, const char *what)
{
    double most = 0.0, error = 0.0;
    for (int n = 0; n < count; ++n) {
        most = fmax(most, fabs(expected[n]));
        error = isfinite(found[n]) ? fmax(error, fabs(found[n] - expected[n])) : INFINITY;
    }
    if (!(most > 0.0 && error <= tolerance * most)) {
        printf("%s: an error of %g, where the largest number is %g\n", what, error, most);
        ++failures;
    }
}

/* Of CUDA's driver, which is loaded by name. */
typedef unsigned long long address;
static int (*copy_in)(address, const void *, size_t), (*copy_out)(void *, address, size_t), (*allocate)(address *, size_t);

static void find(void *driver, const char *name, void *function)
{
    void *found = dlsym(driver, name);
    if (!found) {
        printf("the driver has no %s\n", name);
        exit(EXIT_FAILURE);
    }
    memcpy(function, &found, sizeof found);
}

/* Begins to use the first GPU, if there is one. */
static int begin(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context;
    int device, (*init)(unsigned), (*get)(int *, int), (*retain)(void **, int), (*make_current)(void *);
    if (!driver)
        return 0;
    find(driver, "cuInit", &init);
    find(driver, "cuDeviceGet", &get);
    find(driver, "cuDevicePrimaryCtxRetain", &retain);
    find(driver, "cuCtxSetCurrent", &make_current);
    find(driver, "cuMemAlloc_v2", &allocate);
    find(driver, "cuMemcpyHtoD_v2", &copy_in);
    find(driver, "cuMemcpyDtoH_v2", &copy_out);
    return init(0) == 0 && get(&device, 0) == 0 && retain(&context, device) == 0 && make_current(context) == 0;
}

/* Describes an array of the host, or a copy of it on the GPU. */
static isobar_array shaped(double *values, size_t nz, size_t ny, size_t nx, int is_on_gpu)
{
    isobar_array found = isobar_host_array(values, nz, ny, nx, ISOBAR_F64);
    if (is_on_gpu) {
        address place;
        ok(allocate(&place, nz * ny * nx * sizeof *values), "cuMemAlloc");
        ok(copy_in(place, values, nz * ny * nx * sizeof *values), "cuMemcpyHtoD");
        found.data = (void *)(size_t)place, found.device = 0;
    }
    return found;
}

static isobar_array array(double *values, int is_on_gpu)
{
    return shaped(values, NZ, NY, NX, is_on_gpu);
}

static void fetch(double *values, isobar_array from)
{
    if (from.device == ISOBAR_HOST)
        memmove(values, from.data, CELLS * sizeof *values);
    else
        ok(copy_out(values, (address)(size_t)from.data, CELLS * sizeof *values), "cuMemcpyDtoH");
}

static double kappa[CELLS], kappa_z[CELLS], c[CELLS], f[CELLS], weights[CELLS], zeros[CELLS];

struct found {
    double b[CELLS], u[CELLS], adjoint[CELLS], kappa[CELLS], kappa_z[CELLS], reaction[CELLS], f[CELLS], west[NZ * NY], widths[NX], flux, state[CELLS];
};

static void solve(int is_on_gpu, struct found *all, struct found *by_host_arrays)
{
    isobar_array horizontal = array(kappa, is_on_gpu), vertical = array(kappa_z, is_on_gpu), reaction = array(c, is_on_gpu);
    /* On the host these are the arrays themselves. */
    isobar_array density = array(f, is_on_gpu), by_u = array(weights, is_on_gpu), rhs = array(all->b, is_on_gpu), solution = array(all->u, is_on_gpu);
    isobar_array by[5];
    isobar_diffusion box = {.size = sizeof box, .kappa = &horizontal, .kappa_z = &vertical, .reaction = &reaction};
    isobar_problem *problem = NULL;
    isobar_solver *solver = NULL;
    isobar_heat *heat = NULL;
    box.sides[0][0] = (isobar_side){ISOBAR_DIRICHLET, 2.0};
    box.sides[2][1] = (isobar_side){ISOBAR_ROBIN, 1.0};
    box.coefficients[2][1] = 3.0;
    ok(isobar_problem_diffusion(&box, &problem), "the problem");
    ok(isobar_problem_rhs(problem, &density, &rhs), "the right-hand side");
    ok(isobar_solver_create(problem, "tolerance = 1e-11", is_on_gpu ? "cuda:0" : "cpu", 0, &solver), "the solver");
    ok(isobar_solver_solve(solver, &rhs, &solution, 0, NULL, NULL), "the solve");
    fetch(all->b, rhs);
    fetch(all->u, solution);

    double *values[] = {all->adjoint, all->kappa, all->kappa_z, all->reaction, all->f};
    for (int n = 0; n < 5; ++n)
        by[n] = array(values[n], is_on_gpu);
    isobar_gradient wanted = {.size = sizeof wanted, .b = &by[0], .kappa = &by[1], .kappa_z = &by[2], .reaction = &by[3], .f = &by[4]};
    ok(isobar_solver_gradient(solver, problem, &solution, &by_u, &wanted), "derivatives");
    for (int n = 0; n < 5; ++n)
        fetch(values[n], by[n]);
    /* Of the solution in host memory too, with what is always there. */
    double *on_host[] = {by_host_arrays->adjoint, by_host_arrays->kappa, by_host_arrays->kappa_z, by_host_arrays->reaction, by_host_arrays->f};
    for (int n = 0; n < 5; ++n)
        by[n] = array(on_host[n], 0);
    isobar_array u = array(all->u, 0), by_u_of_host = array(weights, 0);
    wanted.side_values[0][0] = all->west, wanted.widths[0] = all->widths, wanted.density = &density;
    ok(isobar_solver_gradient(solver, problem, &u, &by_u_of_host, &wanted), "derivatives in host memory");
    ok(isobar_problem_flux(problem, &solution, 0, 0, &all->flux), "the flux");

    isobar_time_steps steps = {.size = sizeof steps, .dt = 0.01, .end_time = 0.03};
    isobar_array initial = array(zeros, is_on_gpu), state = array(all->state, is_on_gpu);
    ok(isobar_heat_create(problem, &density, &initial, &steps, "tolerance = 1e-11", is_on_gpu ? "cuda:0" : "cpu", 0, &heat), "time steps");
    for (int n = 0; n < 3; ++n)
        ok(isobar_heat_step(heat, NULL, NULL, NULL), "a time step");
    ok(isobar_heat_state(heat, &state), "the state");
    fetch(all->state, state);
    isobar_heat_free(heat);
    isobar_solver_free(solver);
    isobar_problem_free(problem);
}

/* The same of conductances, periodic in y: b, u, dJ/dtx and dJ/dty, which are computed on the host. */
static void solve_network(int is_on_gpu, double *b, double *u, double *by_tx, double *by_ty)
{
    isobar_array tx = shaped(kappa, NZ, NY, NX - 1, is_on_gpu), ty = shaped(kappa_z, NZ, NY, NX, is_on_gpu), tz = shaped(f, NZ - 1, NY, NX, is_on_gpu);
    isobar_array shift = array(c, is_on_gpu), inflow = array(f, is_on_gpu), rhs = array(b, is_on_gpu), solution = array(u, is_on_gpu);
    isobar_array on_host, by_u = array(weights, 0), by_faces = shaped(by_tx, NZ, NY, NX - 1, 0), by_ring = shaped(by_ty, NZ, NY, NX, 0);
    isobar_faces given = {
        .size = sizeof given, .shape = {NZ, NY, NX}, .tx = &tx, .ty = &ty, .tz = &tz, .shift = &shift, .periodic = {0, 1, 0}};
    isobar_gradient wanted = {.size = sizeof wanted, .faces = {&by_faces, &by_ring}};
    isobar_problem *problem = NULL;
    isobar_solver *solver = NULL;
    ok(isobar_problem_faces(&given, &problem), "the network");
    ok(isobar_problem_rhs(problem, &inflow, &rhs), "its right-hand side");
    ok(isobar_solver_create(problem, "tolerance = 1e-11", is_on_gpu ? "cuda:0" : "cpu", 0, &solver), "its solver");
    ok(isobar_solver_solve(solver, &rhs, &solution, 0, NULL, NULL), "its solve");
    fetch(b, rhs);
    fetch(u, solution);
    on_host = array(u, 0);
    ok(isobar_solver_gradient(solver, problem, &on_host, &by_u, &wanted), "its derivatives");
    isobar_solver_free(solver);
    isobar_problem_free(problem);
}

static struct found host, gpu, host_again, gpu_again;

int main(void)
{
    if (!begin()) {
        puts("no GPU");
        return EXIT_SUCCESS;
    }
    unsigned seed = 1;
    for (int n = 0; n < CELLS; ++n) {
        double *all[] = {&kappa[n], &kappa_z[n], &c[n], &f[n], &weights[n]};
        for (int m = 0; m < 5; ++m) {
            seed = seed * 1664525u + 1013904223u;
            *all[m] = 0.5 + seed / 4294967296.0;
        }
        /* Some cells are inactive. */
        if (n % 11 == 3)
            kappa[n] = kappa_z[n] = 0.0;
    }
    solve(0, &host, &host_again);
    solve(1, &gpu, &gpu_again);
    const struct found *pairs[][2] = {{&gpu, &host}, {&gpu_again, &host_again}, {&host_again, &host}};
    for (int n = 0; n < 3; ++n) {
        const struct found *found = pairs[n][0], *expected = pairs[n][1];
        close_to(found->adjoint, expected->adjoint, CELLS, 1e-8, "dJ/db");
        close_to(found->kappa, expected->kappa, CELLS, 1e-8, "dJ/dkappa");
        close_to(found->kappa_z, expected->kappa_z, CELLS, 1e-8, "dJ/dkappa_z");
        close_to(found->reaction, expected->reaction, CELLS, 1e-8, "dJ/dc");
        close_to(found->f, expected->f, CELLS, 1e-8, "dJ/df");
    }
    close_to(gpu.b, host.b, CELLS, 1e-12, "b");
    close_to(gpu.u, host.u, CELLS, 1e-8, "u");
    close_to(gpu.west, host.west, NZ * NY, 1e-8, "by values in the west");
    close_to(gpu.widths, host.widths, NX, 1e-8, "by widths");
    close_to(&gpu.flux, &host.flux, 1, 1e-8, "the flux");
    close_to(gpu.state, host.state, CELLS, 1e-8, "the state after three steps");
    solve_network(0, host.b, host.u, host.kappa, host.kappa_z);
    solve_network(1, gpu.b, gpu.u, gpu.kappa, gpu.kappa_z);
    close_to(gpu.b, host.b, CELLS, 1e-12, "b of a network");
    close_to(gpu.u, host.u, CELLS, 1e-8, "u of a network");
    close_to(gpu.kappa, host.kappa, NZ * NY * (NX - 1), 1e-8, "dJ/dtx of a network");
    close_to(gpu.kappa_z, host.kappa_z, CELLS, 1e-8, "dJ/dty of a network");
    printf("%d failures\n", failures);
    return EXIT_SUCCESS;
}
