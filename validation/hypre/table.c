/* The table that is printed and the JSON lines that are kept. */
#include "compare.h"

#include <HYPRE_config.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *values, int count)
{
    double sorted[MAX_REPEATS];
    memcpy(sorted, values, (size_t)count * sizeof *values);
    qsort(sorted, (size_t)count, sizeof *sorted, ascending);
    return (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
}

static int index_of_smallest(const double *values, int count)
{
    int least = 0;
    for (int n = 1; n < count; n++) least = values[n] < values[least] ? n : least;
    return least;
}

static double smallest(const double *values, int count) { return values[index_of_smallest(values, count)]; }

/* Setup and solve of one and the same repeat. */
static double fastest_whole(const Result *r)
{
    double whole[MAX_REPEATS] = {0};
    for (int n = 0; n < r->repeats; n++) whole[n] = r->setup[n] + r->solve[n];
    return smallest(whole, r->repeats);
}

void print_header(const Options *o, int ranks)
{
    char problem[256];
    problem_describe(&o->problem, problem, sizeof problem);
    printf("hypre %s, %d rank%s, %s, %s right-hand side, tolerance %.1e, best of %d (median)\n", HYPRE_RELEASE_VERSION, ranks,
           ranks == 1 ? "" : "s", problem, o->rhs, o->tolerance, o->repeats);
    printf("%-32s %17s %17s %8s %5s %10s%s %6s %6s\n", "solver", "setup s", "solve s", "whole s", "iter", "residual",
           o->isobar_solution ? " difference" : "", "GiB", "cpu");
}

void print_row(const Options *o, const char *solver, const Result *r)
{
    char setup[32], solve[32], difference[16] = "", memory[16] = "", share[16] = "";
    double cpu_share = r->cpu_share[index_of_smallest(r->solve, r->repeats)];
    snprintf(setup, sizeof setup, "%.3f (%.3f)", smallest(r->setup, r->repeats), median(r->setup, r->repeats));
    snprintf(solve, sizeof solve, "%.3f (%.3f)", smallest(r->solve, r->repeats), median(r->solve, r->repeats));
    if (r->difference >= 0) snprintf(difference, sizeof difference, "%.1e", r->difference);
    if (r->peak_memory > 0) snprintf(memory, sizeof memory, "%.2f", r->peak_memory);
    if (cpu_share >= 0) snprintf(share, sizeof share, "%.0f%%", 100 * cpu_share);
    printf("%-32s %17s %17s %8.3f %5d %10.3e", solver, setup, solve, fastest_whole(r), r->iterations, r->true_residual);
    if (o->isobar_solution) printf(" %10s", difference);
    printf(" %6s %6s%s\n", memory, share, r->true_residual <= o->tolerance ? "" : "  NOT CONVERGED");
    fflush(stdout);
}

static void json_array(FILE *f, const char *name, const double *values, int count)
{
    fprintf(f, "\"%s\": [", name);
    for (int n = 0; n < count; n++) fprintf(f, "%s%.6g", n ? ", " : "", values[n]);
    fprintf(f, "], ");
}

void write_json(const Options *o, int ranks, const char *solver, const Result *r)
{
    const Problem *p = &o->problem;
    char now[32];
    time_t t = time(NULL);
    strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%SZ", gmtime(&t));
    FILE *f = fopen(o->json, "a");
    if (!f) {
        perror(o->json);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    fprintf(f, "{\"library\": \"hypre %s\", \"time\": \"%s\", \"ranks\": %d, \"solver\": \"%s\", ",
            HYPRE_RELEASE_VERSION, now, ranks, solver);
    fprintf(f, "\"problem\": \"%s\", \"grid\": [%d, %d, %d], ", p->name, p->nx, p->ny, p->nz);
    if (p->is_diffusion) {
        fprintf(f, "\"sides\": \"");
        for (int e = WEST; e <= ABOVE; e++) fputc(side_letter(p->side[e]), f);
        fprintf(f, "\", \"size\": [%g, %g, %g], \"ratio\": %g, \"reaction\": %g, ", p->size[0], p->size[1], p->size[2], p->ratio,
                p->reaction);
        fprintf(f, "\"contrast\": %g, \"coefficient_seed\": %llu, ", p->contrast, p->kappa_seed);
    } else {
        fprintf(f, "\"geometry\": \"%s\", \"grading\": \"%s\", ", p->geometry == GEOMETRY_BOX ? "box" : "panel",
                p->grading == GRADING_UNIFORM ? "uniform" : "quadratic");
    }
    fprintf(f, "\"rhs\": \"%s\", \"seed\": %llu, ", o->rhs, o->seed);
    fprintf(f, "\"tolerance\": %g, \"converged\": %s, \"iterations\": %d, \"relative_residual\": %.6e, ", o->tolerance,
            r->true_residual <= o->tolerance ? "true" : "false", r->iterations, r->true_residual);
    fprintf(f, "\"reported_residual\": %.6e, \"matrix_error\": %.1e, \"assembly_s\": %.6g, ", r->reported_residual,
            r->matrix_error, r->assembly);
    if (r->difference >= 0) fprintf(f, "\"difference\": %.3e, ", r->difference);
    json_array(f, "setup_s", r->setup, r->repeats);
    json_array(f, "solve_s", r->solve, r->repeats);
    json_array(f, "cpu_share", r->cpu_share, r->repeats);
    fprintf(f, "\"setup_min_s\": %.6g, \"solve_min_s\": %.6g, ", smallest(r->setup, r->repeats),
            smallest(r->solve, r->repeats));
    fprintf(f, "\"setup_median_s\": %.6g, \"solve_median_s\": %.6g, \"peak_gib\": %.4g, \"load\": %.2f}\n",
            median(r->setup, r->repeats), median(r->solve, r->repeats), r->peak_memory, r->load);
    if (fclose(f) != 0) {
        perror(o->json);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

