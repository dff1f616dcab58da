/* Derivatives with respect to kappa of the directions that share it, and of those that have their own, against differences. */
#include "expect.h"

#include <math.h>

enum { NX = 5, NY = 4, NZ = 3, CELLS = NX * NY * NZ, AT = 27 };

static double kappa[3][CELLS], slopes[3][CELLS], weights[CELLS];

/* Solves with separate kappa in y and z or not, and returns the weighted sum of u; computes its derivatives if wanted. */
static double sum_of_solution(int y_is_separate, int z_is_separate, int with_slopes)
{
    static double f[CELLS], b[CELLS], u[CELLS];
    isobar_array fields[3], outputs[3];
    for (int d = 0; d < 3; ++d) {
        fields[d] = isobar_host_array(kappa[d], NZ, NY, NX, ISOBAR_F64);
        outputs[d] = isobar_host_array(slopes[d], NZ, NY, NX, ISOBAR_F64);
    }
    for (int n = 0; n < CELLS; ++n)
        f[n] = 1.0;
    isobar_array source = isobar_host_array(f, NZ, NY, NX, ISOBAR_F64), rhs = isobar_host_array(b, NZ, NY, NX, ISOBAR_F64);
    isobar_array solution = isobar_host_array(u, NZ, NY, NX, ISOBAR_F64), by_u = isobar_host_array(weights, NZ, NY, NX, ISOBAR_F64);
    isobar_diffusion box = {.size = sizeof box, .kappa = &fields[0], .kappa_y = y_is_separate ? &fields[1] : NULL, .kappa_z = z_is_separate ? &fields[2] : NULL};
    for (int d = 0; d < 3; ++d)
        box.sides[d][0] = box.sides[d][1] = (isobar_side){ISOBAR_DIRICHLET, 0.0};
    isobar_problem *problem = NULL;
    isobar_solver *solver = NULL;
    expect(isobar_problem_diffusion(&box, &problem), ISOBAR_OK, "");
    expect(isobar_problem_rhs(problem, &source, &rhs), ISOBAR_OK, "");
    expect(isobar_solver_create(problem, "tolerance = 1e-13\nnorm = \"rhs\"", "cpu", 1, &solver), ISOBAR_OK, "");
    expect(isobar_solver_solve(solver, &rhs, &solution, 0, NULL, NULL), ISOBAR_OK, "");
    if (with_slopes) {
        isobar_gradient wanted = {.size = sizeof wanted, .kappa = &outputs[0], .kappa_y = box.kappa_y ? &outputs[1] : NULL, .kappa_z = box.kappa_z ? &outputs[2] : NULL};
        expect(isobar_solver_gradient(solver, problem, &solution, &by_u, &wanted), ISOBAR_OK, "");
        if (!y_is_separate)
            wanted.kappa_y = &outputs[1], expect(isobar_solver_gradient(solver, problem, &solution, &by_u, &wanted), ISOBAR_INVALID, "no separate kappa_y");
        wanted.kappa_y = NULL;
        if (!z_is_separate)
            wanted.kappa_z = &outputs[2], expect(isobar_solver_gradient(solver, problem, &solution, &by_u, &wanted), ISOBAR_INVALID, "no separate kappa_z");
    }
    isobar_solver_free(solver);
    isobar_problem_free(problem);
    double sum = 0.0;
    for (int n = 0; n < CELLS; ++n)
        sum += weights[n] * u[n];
    return sum;
}

int main(void)
{
    for (int n = 0; n < CELLS; ++n) {
        weights[n] = 1.0 + n % 7;
        for (int d = 0; d < 3; ++d)
            kappa[d][n] = 1.0 + (n * (d + 3) % 11) / 11.0;
    }
    for (int way = 0; way < 4; ++way) {
        int is_separate[3] = {1, way & 1, way >> 1};
        sum_of_solution(is_separate[1], is_separate[2], 1);
        for (int d = 0; d < 3; ++d) {
            if (!is_separate[d])
                continue;
            double before = kappa[d][AT], step = 1e-4;
            kappa[d][AT] = before + step;
            double above = sum_of_solution(is_separate[1], is_separate[2], 0);
            kappa[d][AT] = before - step;
            double difference = (above - sum_of_solution(is_separate[1], is_separate[2], 0)) / (2 * step);
            kappa[d][AT] = before;
            if (!(fabs(slopes[d][AT] - difference) <= 1e-6 * fabs(difference))) {
                printf("by kappa of direction %d in way %d: %.12g, not %.12g\n", d, way, slopes[d][AT], difference);
                ++failures;
            }
        }
    }
    printf("%d failures\n", failures);
    return failures != 0;
}
