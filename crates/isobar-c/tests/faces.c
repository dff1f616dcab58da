/* Problems of conductances: a chain in closed form, a network's derivatives against differences, and misuse. */
#include "expect.h"

#include <math.h>

enum { NX = 5, NY = 4, NZ = 3, CELLS = NX * NY * NZ };

static void close_to(double found, double expected, double tolerance, const char *what)
{
    if (!(fabs(found - expected) <= tolerance)) {
        printf("%s: %.12g, not %.12g\n", what, found, expected);
        ++failures;
    }
}

/* Conductances in x, y and z, and shifts. */
static double tx[NZ * NY * (NX - 1)], ty[NZ * (NY - 1) * NX], tz[(NZ - 1) * NY * NX], s[CELLS], b[CELLS], u[CELLS], weights[CELLS];

static isobar_faces network(isobar_array arrays[4])
{
    arrays[0] = isobar_host_array(tx, NZ, NY, NX - 1, ISOBAR_F64);
    arrays[1] = isobar_host_array(ty, NZ, NY - 1, NX, ISOBAR_F64);
    arrays[2] = isobar_host_array(tz, NZ - 1, NY, NX, ISOBAR_F64);
    arrays[3] = isobar_host_array(s, NZ, NY, NX, ISOBAR_F64);
    return (isobar_faces){
        .size = sizeof(isobar_faces), .shape = {NZ, NY, NX}, .tx = &arrays[0], .ty = &arrays[1], .tz = &arrays[2], .shift = &arrays[3]};
}

/* Solves, and returns the weighted sum of u; computes derivatives if wanted. */
static double sum_of_solution(const isobar_gradient *wanted)
{
    isobar_array arrays[4], rhs = isobar_host_array(b, NZ, NY, NX, ISOBAR_F64), solution = isobar_host_array(u, NZ, NY, NX, ISOBAR_F64);
    isobar_array by_u = isobar_host_array(weights, NZ, NY, NX, ISOBAR_F64);
    isobar_faces given = network(arrays);
    isobar_problem *problem = NULL;
    isobar_solver *solver = NULL;
    expect(isobar_problem_faces(&given, &problem), ISOBAR_OK, "");
    expect(isobar_solver_create(problem, "tolerance = 1e-13", "cpu", 1, &solver), ISOBAR_OK, "");
    expect(isobar_solver_solve(solver, &rhs, &solution, 0, NULL, NULL), ISOBAR_OK, "");
    if (wanted)
        expect(isobar_solver_gradient(solver, problem, &solution, &by_u, wanted), ISOBAR_OK, "");
    isobar_solver_free(solver);
    isobar_problem_free(problem);
    double sum = 0.0;
    for (int n = 0; n < CELLS; ++n)
        sum += weights[n] * u[n];
    return sum;
}

static void chain(void)
{
    /* u = 1 behind a conductance of 1, one of 2 between the cells, and u = 0 behind another of 1: the current is 1 / (1 + 1/2 + 1). */
    double between = 2.0, ends[2] = {1.0, 1.0}, inflow[2] = {1.0, 0.0}, found[2] = {0.0, 0.0};
    isobar_array t = isobar_host_array(&between, 1, 1, 1, ISOBAR_F64), shift = isobar_host_array(ends, 1, 1, 2, ISOBAR_F64);
    isobar_array rhs = isobar_host_array(inflow, 1, 1, 2, ISOBAR_F64), solution = isobar_host_array(found, 1, 1, 2, ISOBAR_F64);
    isobar_faces given = {.size = sizeof given, .shape = {1, 1, 2}, .tx = &t, .shift = &shift};
    isobar_problem *problem = NULL;
    isobar_solver *solver = NULL;
    expect(isobar_problem_faces(&given, &problem), ISOBAR_OK, "");
    expect(isobar_solver_create(problem, "tolerance = 1e-13", "cpu", 1, &solver), ISOBAR_OK, "");
    expect(isobar_solver_solve(solver, &rhs, &solution, 0, NULL, NULL), ISOBAR_OK, "");
    close_to(found[0], 0.6, 1e-12, "the first cell");
    close_to(found[1], 0.4, 1e-12, "the second cell");
    isobar_solver_free(solver);
    isobar_problem_free(problem);
}

static void ring(void)
{
    /* Between the first cell and the last, 3 in parallel with 1 and 2 in series: a current of 1 needs a difference of 1 / (3 + 2/3). */
    double around[3] = {1.0, 2.0, 3.0}, inflow[3] = {1.0, 0.0, -1.0}, found[3] = {0.0, 0.0, 0.0}, through;
    isobar_array t = isobar_host_array(around, 1, 1, 3, ISOBAR_F64);
    isobar_array rhs = isobar_host_array(inflow, 1, 1, 3, ISOBAR_F64), solution = isobar_host_array(found, 1, 1, 3, ISOBAR_F64);
    isobar_faces given = {.size = sizeof given, .shape = {1, 1, 3}, .tx = &t, .periodic = {1, 0, 0}};
    isobar_problem *problem = NULL;
    isobar_solver *solver = NULL;
    expect(isobar_problem_faces(&given, &problem), ISOBAR_OK, "");
    expect(isobar_solver_create(problem, "tolerance = 1e-13", "cpu", 1, &solver), ISOBAR_OK, "");
    expect(isobar_solver_solve(solver, &rhs, &solution, 0, NULL, NULL), ISOBAR_OK, "");
    close_to(found[0] - found[2], 1.0 / (3.0 + 2.0 / 3.0), 1e-12, "around the ring");
    expect(isobar_problem_flux(problem, &solution, 0, 0, &through), ISOBAR_INVALID, "no sides");
    isobar_solver_free(solver);
    isobar_problem_free(problem);
    t.shape[2] = 2;
    expect(isobar_problem_faces(&given, &problem), ISOBAR_INVALID, "tx");
}

static void derivatives(void)
{
    static double by_tx[sizeof tx / 8], by_ty[sizeof ty / 8], by_tz[sizeof tz / 8], by_s[CELLS];
    isobar_array x = isobar_host_array(by_tx, NZ, NY, NX - 1, ISOBAR_F64), y = isobar_host_array(by_ty, NZ, NY - 1, NX, ISOBAR_F64);
    isobar_array z = isobar_host_array(by_tz, NZ - 1, NY, NX, ISOBAR_F64), shift = isobar_host_array(by_s, NZ, NY, NX, ISOBAR_F64);
    isobar_gradient wanted = {.size = sizeof wanted, .faces = {&x, &y, &z}, .shift = &shift};
    sum_of_solution(&wanted);
    struct { double *values, *slopes; int at; const char *what; } checks[] = {
        {tx, by_tx, 7, "by tx"}, {tx, by_tx, 0, "by the first of tx"}, {ty, by_ty, 11, "by ty"}, {tz, by_tz, 39, "by the last of tz"}, {s, by_s, 33, "by s"}};
    for (size_t n = 0; n < sizeof checks / sizeof *checks; ++n) {
        double *value = &checks[n].values[checks[n].at], before = *value, step = 1e-4;
        *value = before + step;
        double above = sum_of_solution(NULL);
        *value = before - step;
        double below = sum_of_solution(NULL);
        *value = before;
        close_to(checks[n].slopes[checks[n].at], (above - below) / (2 * step), 1e-7, checks[n].what);
    }
}

static void misuse(void)
{
    isobar_array arrays[4];
    isobar_faces given = network(arrays);
    isobar_problem *problem = NULL;
    expect(isobar_problem_faces(NULL, &problem), ISOBAR_INVALID, "isobar_faces is a null");
    expect(isobar_problem_faces(&given, NULL), ISOBAR_INVALID, "null pointer");
    given.size = 8;
    expect(isobar_problem_faces(&given, &problem), ISOBAR_INVALID, "isobar_faces.size is 8");
    given.size = sizeof given, given.shape[2] = NX + 1;
    expect(isobar_problem_faces(&given, &problem), ISOBAR_INVALID, "tx");
    given.shape[2] = 0;
    expect(isobar_problem_faces(&given, &problem), ISOBAR_INVALID, "one cell or more");
    given.shape[2] = NX, given.shape[1] = (size_t)-1;
    expect(isobar_problem_faces(&given, &problem), ISOBAR_INVALID, "memory");
    given.shape[1] = NY, tx[3] = -1.0;
    expect(isobar_problem_faces(&given, &problem), ISOBAR_INVALID, "tx: -1 between the cells");
    tx[3] = NAN;
    expect(isobar_problem_faces(&given, &problem), ISOBAR_INVALID, "NaN");
    tx[3] = 1.0;
    arrays[0].device = 1000;
    expect(isobar_problem_faces(&given, &problem), ISOBAR_DEVICE, "");
    arrays[0].device = ISOBAR_HOST;
    given.tx = given.ty = given.tz = given.shift = NULL;
    expect(isobar_problem_faces(&given, &problem), ISOBAR_INVALID, "none of the 60 cells");
}

int main(void)
{
    double *values[] = {tx, ty, tz, s, b, weights};
    size_t counts[] = {sizeof tx / 8, sizeof ty / 8, sizeof tz / 8, CELLS, CELLS, CELLS};
    unsigned seed = 1;
    for (int n = 0; n < 6; ++n)
        for (size_t m = 0; m < counts[n]; ++m) {
            seed = seed * 1664525u + 1013904223u;
            values[n][m] = 0.5 + seed / 4294967296.0;
        }
    chain();
    ring();
    derivatives();
    misuse();
    printf("%d failures\n", failures);
    return failures != 0;
}
