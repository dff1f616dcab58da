/* A caller's floating-point environment: trapped exceptions and a rounding mode neither end nor change a solve, and are there after it. */
#define _GNU_SOURCE
#include <isobar.h>

#include <fenv.h>
#include <stdio.h>
#include <string.h>

enum { NX = 20, NY = 18, NZ = 9, CELLS = NX * NY * NZ };

static int failures;

static void expect(int is_met, const char *what)
{
    if (!is_met) {
        printf("%s: %s\n", what, isobar_last_error());
        ++failures;
    }
}

/* Solves with closed cells and kappa that varies by 1e12. */
static void solve(const char *options, int32_t threads, double *u)
{
    static double kappa[CELLS], b[CELLS];
    for (int n = 0; n < CELLS; ++n) {
        kappa[n] = n % 7 == 0 ? 0.0 : n % 5 == 0 ? 1e-6 : n % 3 == 0 ? 1e6 : 1.0;
        b[n] = kappa[n] == 0.0 ? 0.0 : n % 11 - 5.0;
        u[n] = 0.0;
    }
    isobar_array field = isobar_host_array(kappa, NZ, NY, NX, ISOBAR_F64), rhs = isobar_host_array(b, NZ, NY, NX, ISOBAR_F64);
    isobar_array solution = isobar_host_array(u, NZ, NY, NX, ISOBAR_F64);
    isobar_diffusion box = {.size = sizeof box, .kappa = &field};
    for (int d = 0; d < 3; ++d)
        box.sides[d][0] = box.sides[d][1] = (isobar_side){ISOBAR_DIRICHLET, 0.0};
    isobar_problem *problem = NULL;
    isobar_solver *solver = NULL;
    expect(isobar_problem_diffusion(&box, &problem) == ISOBAR_OK, "problem");
    expect(isobar_solver_create(problem, options, "cpu", threads, &solver) == ISOBAR_OK, "solver");
    expect(isobar_solver_solve(solver, &rhs, &solution, 0, NULL, NULL) == ISOBAR_OK, "solve");
    expect(isobar_solver_update(solver, problem) == ISOBAR_OK, "update");
    isobar_solver_free(solver);
    isobar_problem_free(problem);
}

int main(void)
{
    static const char *const options[] = {"tolerance = 1e-10", "tolerance = 1e-10\nmethod = \"cg\"\npreconditioner = \"mic\"",
        "tolerance = 1e-10\nmethod = \"cg\"\npreconditioner = \"multigrid\""};
    static double expected[CELLS], found[CELLS];
    const int trapped = FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW | FE_UNDERFLOW;
    for (size_t n = 0; n < sizeof options / sizeof *options; ++n)
        for (int32_t threads = 1; threads < 3; ++threads) {
            fedisableexcept(FE_ALL_EXCEPT);
            fesetround(FE_TONEAREST);
            solve(options[n], threads, expected);
            fesetround(FE_UPWARD);
            feclearexcept(FE_ALL_EXCEPT);
            feenableexcept(trapped);
            solve(options[n], threads, found);
            expect(!memcmp(expected, found, sizeof found), "other bits");
            expect(fegetexcept() == trapped && fegetround() == FE_UPWARD, "the environment has changed");
            expect(!fetestexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW), "exceptions are left behind");
        }
    /* An error leaves it too. */
    isobar_problem *problem = NULL;
    expect(isobar_problem_diffusion(NULL, &problem) == ISOBAR_INVALID, "no description");
    expect(fegetexcept() == trapped && fegetround() == FE_UPWARD, "an error has changed the environment");
    fedisableexcept(FE_ALL_EXCEPT);
    fesetround(FE_TONEAREST);
    printf("%d failures\n", failures);
    return 0;
}
