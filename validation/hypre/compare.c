/* hypre on isobar's operator: builds it, solves it with the solvers named, and judges every answer by a
 * true residual of its own. Usage: see usage() below, or the script `run`. */
#define _DEFAULT_SOURCE /* getloadavg */
#include "operator.h"
#include "solvers.h"

#include <HYPRE_config.h>
#include <HYPRE_utilities.h>
#include <limits.h>
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_REPEATS = 100 };

/* MPI ranks spin while they wait, so a rank whose processor time falls below this share of the elapsed
 * time has lost its core to another process. */
static const double QUIET = 0.97;

typedef struct {
    Problem problem;
    const char *rhs, *json;
    unsigned long long seed;
    double tolerance;
    int max_iterations, repeats;
    int patience; /* s to wait for a quiet machine before each repeat */
    char **solvers;
    int solver_count;
} Options;

typedef struct {
    int repeats, iterations;
    double assembly; /* s */
    double setup[MAX_REPEATS], solve[MAX_REPEATS], cpu_share[MAX_REPEATS];
    double reported_residual, true_residual, matrix_error;
    double peak_memory; /* GiB, all ranks */
    double load;
} Result;

static int is_root(const Operator *op) { return op->rank == 0; }

static int usage(const char *problem)
{
    complain("%s\n"
            "usage: compare NX NY NZ SOLVER... [--geometry panel|box] [--grading quadratic|uniform]\n"
            "       [--rhs random|constant] [--seed N] [--courant NU] [--lambda L] [--depth METRES]\n"
            "       [--tolerance T] [--max-iterations N] [--repeat N] [--patience SECONDS] [--json FILE]\n"
            "SOLVER: pcg-pfmg | pfmg | pcg-smg | smg | pcg-amg | amg, then options as in pcg-pfmg:relax=2,rap=1\n"
            "  pfmg: relax rap skip pre post dx dy dz symmetric\n"
            "  smg:  memory pre post symmetric\n"
            "  amg:  coarsen interp pmax trunc theta rowsum agg agginterp paths relax up cf sweeps\n"
            "        transpose order print      (numbers as in hypre's manual; order: 0 x, 1 vertical, 2 layered)",
            problem);
    return 0;
}

static int positive_integer(const char *text, int *value)
{
    char *end;
    long n = strtol(text, &end, 10);
    *value = (int)n;
    return *text && !*end && n > 0 && n <= INT_MAX;
}

static int number(const char *text, double *value)
{
    char *end;
    *value = strtod(text, &end);
    return *text && !*end && isfinite(*value);
}

/* One "--key value"; 0 if either is wrong. */
static int parse_option(const char *key, const char *value, Options *o)
{
    Problem *p = &o->problem;
    if (!strcmp(key, "--geometry")) {
        p->geometry = !strcmp(value, "box") ? GEOMETRY_BOX : GEOMETRY_PANEL;
        return !strcmp(value, "box") || !strcmp(value, "panel");
    }
    if (!strcmp(key, "--grading")) {
        p->grading = !strcmp(value, "uniform") ? GRADING_UNIFORM : GRADING_QUADRATIC;
        return !strcmp(value, "uniform") || !strcmp(value, "quadratic");
    }
    if (!strcmp(key, "--rhs")) {
        o->rhs = value;
        return !strcmp(value, "random") || !strcmp(value, "constant");
    }
    if (!strcmp(key, "--seed")) {
        char *end;
        o->seed = strtoull(value, &end, 10);
        return *value && !*end;
    }
    if (!strcmp(key, "--json")) {
        o->json = value;
        return *value != '\0';
    }
    if (!strcmp(key, "--courant")) return number(value, &p->courant);
    if (!strcmp(key, "--lambda")) return number(value, &p->lambda);
    if (!strcmp(key, "--depth")) return number(value, &p->depth);
    if (!strcmp(key, "--tolerance")) return number(value, &o->tolerance);
    if (!strcmp(key, "--patience")) return positive_integer(value, &o->patience);
    if (!strcmp(key, "--max-iterations")) return positive_integer(value, &o->max_iterations);
    if (!strcmp(key, "--repeat")) return positive_integer(value, &o->repeats) && o->repeats <= MAX_REPEATS;
    return 0;
}

static int parse(int argc, char **argv, Options *o)
{
    int *size[3] = {&o->problem.nx, &o->problem.ny, &o->problem.nz}, sizes = 0;
    o->solvers = allocate((size_t)argc, sizeof *o->solvers);
    for (int n = 1; n < argc; n++) {
        char message[256];
        if (strncmp(argv[n], "--", 2) == 0) {
            const char *value = n + 1 < argc ? argv[n + 1] : "";
            snprintf(message, sizeof message, "bad option: %.80s %.80s", argv[n], value);
            if (!parse_option(argv[n], value, o)) return usage(message);
            n++;
        } else if (sizes < 3) {
            snprintf(message, sizeof message, "'%.80s' is no grid size", argv[n]);
            if (!positive_integer(argv[n], size[sizes++])) return usage(message);
        } else {
            o->solvers[o->solver_count++] = argv[n];
        }
    }
    if (sizes < 3 || o->solver_count == 0) return usage("grid size or solver missing");
    if ((double)o->problem.nx * o->problem.ny * o->problem.nz > INT_MAX)
        return usage("more than 2^31 - 1 unknowns: beyond this driver's counts");
    return 1;
}

static const Interface *interface_of(const Spec *spec)
{
    const char *base = strncmp(spec->method, "pcg-", 4) ? spec->method : spec->method + 4;
    if (!strcmp(base, "pfmg") || !strcmp(base, "smg")) return &struct_interface;
    if (!strcmp(base, "amg")) return &ij_interface;
    return NULL;
}

/* The oracle of FORMULAS.md: the seed-0 random field on the 128^3 panel. */
static int operator_is_right(MPI_Comm world)
{
    const double norm_expected = 8.1898289492e1, dot_expected = 2.1053615460e4, allowed = 1e-8;
    Problem problem = {.nx = 128, .ny = 128, .nz = 128, .courant = 8.4, .lambda = 1, .depth = 50e3};
    Operator *op = operator_create(&problem, world);
    if (!op) return 0;
    double *u = allocate(operator_cells(op), sizeof *u), *v = allocate(operator_cells(op), sizeof *v);
    field_random(op, 0, u);
    operator_apply(op, u, v);
    double norm = sqrt(field_dot(op, v, v)), dot = field_dot(op, u, v);
    double error = fmax(fabs(norm / norm_expected - 1), fabs(dot / dot_expected - 1));
    int right = error <= allowed;
    if (is_root(op))
        printf("self-check, 128^3 panel: |Au| = %.10e (expected %.10e), u.Au = %.10e (expected %.10e): %s\n", norm,
               norm_expected, dot, dot_expected, right ? "ok" : "WRONG");
    free(u);
    free(v);
    operator_destroy(op);
    return right;
}

/* Starts the kernel's record of this process's peak memory afresh. Where that is not allowed the peak
 * of the whole run so far is reported, which is too large rather than too small. */
static void reset_peak_memory(void)
{
    malloc_trim(0);
    FILE *f = fopen("/proc/self/clear_refs", "w");
    if (!f) return;
    fputs("5", f);
    fclose(f);
}

/* GiB over all ranks; 0 if the kernel does not say. */
static double peak_memory(const Operator *op)
{
    char line[256];
    double kib = 0, total;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "VmHWM: %lf", &kib) == 1) break;
    if (f) fclose(f);
    MPI_Allreduce(&kib, &total, 1, MPI_DOUBLE, MPI_SUM, op->comm);
    return total / (1024.0 * 1024.0);
}

static double slowest(const Operator *op, double seconds)
{
    double all;
    MPI_Allreduce(&seconds, &all, 1, MPI_DOUBLE, MPI_MAX, op->comm);
    return all;
}

static double synchronised_time(const Operator *op)
{
    MPI_Barrier(op->comm);
    return MPI_Wtime();
}

static double processor_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Waits until every rank gets its core to itself for a moment, or patience (s) runs out. */
static void wait_until_quiet(const Operator *op, int patience)
{
    const struct timespec pause = {.tv_sec = 2};
    const double moment = 0.3; /* s */
    for (double start = synchronised_time(op), alone = 0; patience > 0;) {
        double begin = synchronised_time(op), processor = processor_time(), late;
        while (MPI_Wtime() - begin < moment) {}
        double share = (processor_time() - processor) / (MPI_Wtime() - begin);
        MPI_Allreduce(&share, &alone, 1, MPI_DOUBLE, MPI_MIN, op->comm);
        late = slowest(op, MPI_Wtime() - start);
        if (alone >= QUIET || late > patience) return;
        nanosleep(&pause, NULL);
    }
}

/* |A_hypre u - A u| / |A u|: is hypre's matrix the operator that will judge it? */
static double matrix_error(const Operator *op, const Interface *hypre, void *system)
{
    size_t cells = operator_cells(op);
    double *u = allocate(cells, sizeof *u), *v = allocate(cells, sizeof *v), *w = allocate(cells, sizeof *w);
    field_random(op, 1, u);
    operator_apply(op, u, v);
    hypre->multiply(system, u, w);
    for (size_t m = 0; m < cells; m++) w[m] -= v[m];
    double error = sqrt(field_dot(op, w, w) / field_dot(op, v, v));
    free(u);
    free(v);
    free(w);
    return error;
}

static double true_residual(const Operator *op, const Interface *hypre, void *system, const double *rhs)
{
    size_t cells = operator_cells(op);
    double *u = allocate(cells, sizeof *u), *r = allocate(cells, sizeof *r);
    hypre->solution(system, u);
    operator_apply(op, u, r);
    for (size_t m = 0; m < cells; m++) r[m] = rhs[m] - r[m];
    double residual = sqrt(field_dot(op, r, r) / field_dot(op, rhs, rhs));
    free(u);
    free(r);
    return residual;
}

/* Both clocks of a rank, running (since some moment) or stopped (time passed). */
typedef struct {
    double wall, processor; /* s */
} Watch;

static Watch watch_start(const Operator *op)
{
    double wall = synchronised_time(op);
    return (Watch){wall, processor_time()};
}

static Watch watch_stop(Watch w) { return (Watch){MPI_Wtime() - w.wall, processor_time() - w.processor}; }

/* Repeat n: setup and solve, timed apart, and the answer judged. */
static int solve_once(const Operator *op, Spec *spec, const Options *o, void *system, const double *rhs,
                      Result *result, int n)
{
    const Interface *hypre = interface_of(spec);
    wait_until_quiet(op, o->patience);
    Watch setup = watch_start(op);
    hypre->setup(system, spec, o->tolerance, o->max_iterations);
    setup = watch_stop(setup);
    if (spec_unused(spec)) {
        complain("solver '%s' has no option '%s'", spec->text, spec_unused(spec));
        return 0;
    }
    Watch solve = watch_start(op);
    hypre->solve(system, &result->iterations, &result->reported_residual);
    solve = watch_stop(solve);
    result->setup[n] = slowest(op, setup.wall);
    result->solve[n] = slowest(op, solve.wall);
    double share = (setup.processor + solve.processor) / (setup.wall + solve.wall);
    MPI_Allreduce(&share, &result->cpu_share[n], 1, MPI_DOUBLE, MPI_MIN, op->comm);
    if (result->peak_memory == 0) result->peak_memory = peak_memory(op);
    double residual = true_residual(op, hypre, system, rhs);
    /* The worst of the repeats; a NaN is the worst of all and stays. */
    if (isnan(residual) || residual > result->true_residual) result->true_residual = residual;
    hypre->release_solver(system);
    return 1;
}

static int measure(const Operator *op, Spec *spec, const Options *o, const double *rhs, Result *result)
{
    const Interface *hypre = interface_of(spec);
    double start = synchronised_time(op);
    void *system = hypre->assemble(op, spec, rhs);
    *result = (Result){.repeats = o->repeats, .assembly = slowest(op, MPI_Wtime() - start)};
    result->matrix_error = matrix_error(op, hypre, system);
    /* Two rows of sums differ by rounding only; 1e-12 is far above that and far below any mistake. */
    if (!(result->matrix_error < 1e-12)) {
        complain("hypre's matrix differs from the operator by %.1e", result->matrix_error);
        return 0;
    }
    if (getloadavg(&result->load, 1) != 1) result->load = -1;
    reset_peak_memory();
    for (int n = 0, spare = o->repeats; n < o->repeats;) {
        if (!solve_once(op, spec, o, system, rhs, result, n)) return 0;
        /* A disturbed repeat is thrown away where the user wants to wait, but not for ever. */
        if (result->cpu_share[n] >= QUIET || o->patience == 0 || spare == 0)
            n++;
        else
            spare--;
    }
    hypre->destroy(system);
    return 1;
}

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

static void print_header(const Options *o, int ranks)
{
    const Problem *p = &o->problem;
    printf("hypre %s, %d ranks, %s %dx%dx%d, %s grading, %s right-hand side, tolerance %.1e, best of %d (median)\n",
           HYPRE_RELEASE_VERSION, ranks, p->geometry == GEOMETRY_BOX ? "box" : "panel", p->nx, p->ny, p->nz,
           p->grading == GRADING_UNIFORM ? "uniform" : "quadratic", o->rhs, o->tolerance, o->repeats);
    printf("%-52s %18s %18s %5s %13s %9s %6s\n", "solver", "setup s", "solve s", "iter", "true residual",
           "peak GiB", "cpu");
}

static void print_row(const Options *o, const Spec *spec, const Result *r)
{
    char setup[32], solve[32];
    snprintf(setup, sizeof setup, "%.3f (%.3f)", smallest(r->setup, r->repeats), median(r->setup, r->repeats));
    snprintf(solve, sizeof solve, "%.3f (%.3f)", smallest(r->solve, r->repeats), median(r->solve, r->repeats));
    printf("%-52s %18s %18s %5d %13.3e %9.2f %5.0f%%%s\n", spec->text, setup, solve, r->iterations, r->true_residual,
           r->peak_memory, 100 * r->cpu_share[index_of_smallest(r->solve, r->repeats)],
           r->true_residual <= o->tolerance ? "" : "  NOT CONVERGED");
    fflush(stdout);
}

static void json_array(FILE *f, const char *name, const double *values, int count)
{
    fprintf(f, "\"%s\": [", name);
    for (int n = 0; n < count; n++) fprintf(f, "%s%.6g", n ? ", " : "", values[n]);
    fprintf(f, "], ");
}

static void write_json(const Options *o, int ranks, const Spec *spec, const Result *r)
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
            HYPRE_RELEASE_VERSION, now, ranks, spec->text);
    fprintf(f, "\"grid\": [%d, %d, %d], \"geometry\": \"%s\", \"grading\": \"%s\", \"rhs\": \"%s\", \"seed\": %llu, ",
            p->nx, p->ny, p->nz, p->geometry == GEOMETRY_BOX ? "box" : "panel",
            p->grading == GRADING_UNIFORM ? "uniform" : "quadratic", o->rhs, o->seed);
    fprintf(f, "\"tolerance\": %g, \"converged\": %s, \"iterations\": %d, \"relative_residual\": %.6e, ", o->tolerance,
            r->true_residual <= o->tolerance ? "true" : "false", r->iterations, r->true_residual);
    fprintf(f, "\"reported_residual\": %.6e, \"matrix_error\": %.1e, \"assembly_s\": %.6g, ", r->reported_residual,
            r->matrix_error, r->assembly);
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

/* Exit status: 0 all converged, 2 at least one did not, 1 anything else (the process then ends: nothing
 * is released). */
static int compare(const Options *o)
{
    Spec *specs = allocate((size_t)o->solver_count, sizeof *specs);
    int status = 0;
    for (int n = 0; n < o->solver_count; n++) {
        if (!spec_parse(o->solvers[n], &specs[n])) return 1;
        if (!interface_of(&specs[n])) {
            complain("no solver '%s'", specs[n].method);
            return 1;
        }
    }
    if (!operator_is_right(MPI_COMM_WORLD)) return 1;
    Operator *op = operator_create(&o->problem, MPI_COMM_WORLD);
    if (!op) return 1;
    double *rhs = allocate(operator_cells(op), sizeof *rhs);
    if (!strcmp(o->rhs, "constant"))
        field_constant(op, rhs);
    else
        field_random(op, o->seed, rhs);
    if (is_root(op)) print_header(o, op->ranks);
    for (int n = 0; n < o->solver_count; n++) {
        Result result;
        if (!measure(op, &specs[n], o, rhs, &result)) return 1;
        if (is_root(op)) print_row(o, &specs[n], &result);
        if (is_root(op) && o->json) write_json(o, op->ranks, &specs[n], &result);
        if (!(result.true_residual <= o->tolerance)) status = 2;
    }
    free(rhs);
    free(specs);
    operator_destroy(op);
    return status;
}

int main(int argc, char **argv)
{
    Options options = {.problem = {.courant = 8.4, .lambda = 1, .depth = 50e3},
                       .rhs = "random",
                       .tolerance = 1e-5,
                       .max_iterations = 500,
                       .repeats = 1};
    if (MPI_Init(&argc, &argv) != MPI_SUCCESS) return 1;
    if (sizeof(HYPRE_Real) != sizeof(double)) {
        fprintf(stderr, "compare: this hypre was not built for double precision\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    int status = parse(argc, argv, &options) ? 0 : 1;
    if (status == 0) {
        HYPRE(HYPRE_Init());
        status = compare(&options);
        HYPRE(HYPRE_Finalize());
    }
    free(options.solvers);
    MPI_Finalize(); /* status is the same on all ranks: a rank that fails alone aborts where it fails */
    return status;
}
