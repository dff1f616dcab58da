/* u_t = ∇·(κ∇u) in a bar of copper whose ends are kept at 0, by Crank and Nicolson's scheme; half way a sheath of another material is
 * put on, and κ changes.
 *
 *   cc -I crates/isobar-c/include crates/isobar-c/examples/heat.c -L target/release -lisobar_c -Wl,-rpath,$PWD/target/release -lm -o heat
 */
#include <isobar.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { NX = 64, NY = 12, NZ = 12, STEPS = 40 };

static const double pi = 3.14159265358979323846, dt = 5e-4;
static double kappa[NZ][NY][NX], u[NZ][NY][NX];

static void check(int32_t code)
{
    if (code != ISOBAR_OK) {
        fprintf(stderr, "isobar: %s\n", isobar_last_error());
        exit(EXIT_FAILURE);
    }
}

static void fill(double conductivity)
{
    for (int k = 0; k < NZ; ++k)
        for (int j = 0; j < NY; ++j)
            for (int i = 0; i < NX; ++i)
                kappa[k][j][i] = conductivity;
}

int main(void)
{
    isobar_array coefficient = isobar_host_array(kappa, NZ, NY, NX, ISOBAR_F64), state = isobar_host_array(u, NZ, NY, NX, ISOBAR_F64);
    /* A unit box; y and z are left closed. */
    isobar_diffusion bar = {.size = sizeof bar, .kappa = &coefficient};
    bar.sides[0][0] = bar.sides[0][1] = (isobar_side){ISOBAR_DIRICHLET, 0.0};
    for (int k = 0; k < NZ; ++k)
        for (int j = 0; j < NY; ++j)
            for (int i = 0; i < NX; ++i)
                u[k][j][i] = sin(pi * (i + 0.5) / NX);

    isobar_problem *problem;
    isobar_heat *heat;
    isobar_time_steps steps = {.size = sizeof steps, .dt = dt, .end_time = STEPS * dt};
    fill(1.0);
    check(isobar_problem_diffusion(&bar, &problem));
    check(isobar_heat_create(problem, NULL, &state, &steps, "tolerance = 1e-10", "auto", 0, &heat));

    isobar_step step;
    double energy, before = INFINITY;
    do {
        check(isobar_heat_step(heat, NULL, NULL, &step));
        check(isobar_heat_energy(heat, &energy));
        if (energy > before) {
            fprintf(stderr, "step %zu: the energy grows from %g to %g\n", step.number, before, energy);
            return EXIT_FAILURE;
        }
        before = energy;
        if (step.number == STEPS / 2) {
            fill(0.25);
            isobar_problem_free(problem);
            check(isobar_problem_diffusion(&bar, &problem));
            check(isobar_heat_update(heat, problem, NULL));
            before = INFINITY; /* another κ, another energy */
        }
    } while (!step.is_last);
    check(isobar_heat_state(heat, &state));

    /* The discrete sine is a mode: a step multiplies it by (1 − κ λ dt/2) / (1 + κ λ dt/2), λ = (2 NX sin(π/2NX))². */
    double z = pow(2 * NX * sin(pi / (2 * NX)), 2) * dt / 2, expected = sin(pi * 0.5 * (NX + 1) / NX);
    expected *= pow((1 - z) / (1 + z), STEPS / 2) * pow((1 - z / 4) / (1 + z / 4), STEPS / 2);
    printf("after %zu steps, at %.3f: %.6f in the middle, %.6f expected\n", step.number, step.time, u[NZ / 2][NY / 2][NX / 2], expected);
    isobar_heat_free(heat);
    isobar_problem_free(problem);
    return fabs(u[NZ / 2][NY / 2][NX / 2] - expected) < 1e-8 ? EXIT_SUCCESS : EXIT_FAILURE;
}
