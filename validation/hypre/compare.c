/* hypre on isobar's operator: builds it, solves it with the solvers named, and judges every answer by a
 * true residual of its own. Usage: see usage() below, or the script `run`. */
#define _DEFAULT_SOURCE /* getloadavg */
#include "compare.h"

#include <HYPRE_utilities.h>
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* MPI ranks spin while they wait, so a rank whose processor time falls below this share of the elapsed
 * time has lost its core to another process. */
static const double QUIET = 0.97;

static int is_root(const Operator *op) { return op->rank == 0; }

static int usage(const char *problem)
{
    complain("%s\n"
            "usage: compare NX NY NZ SOLVER... [--problem tensor-product|poisson|bubbles|lognormal|holes|file]\n"
            "       [--rhs random|constant] [--seed N] [--tolerance T] [--max-iterations N] [--repeat N] [--budget SECONDS]\n"
            "       [--patience SECONDS] [--json FILE]\n"
            "tensor-product: [--geometry panel|box] [--grading quadratic|uniform] [--courant NU] [--lambda L] [--depth METRES]\n"
            "the others, diffusion: [--sides WESNBT, each of d (u = 0), n (no flow) and p (periodic)] [--size X,Y,Z] [--ratio R]\n"
            "       [--reaction C] [--rhs FILE.npy] [--write-case FILE.toml] [--isobar-solution FILE.npy --isobar-report FILE.json...\n"
            "       [--isobar-bench FILE.json]]\n"
            "  bubbles, holes: [--bubbles N] [--radius R] [--contrast K] [--coefficient-seed N]; lognormal: [--coefficient-seed N]\n"
            "  file: --coefficient FILE.npy\n"
            "SOLVER: pcg-pfmg | pfmg | pcg-smg | smg | pcg-amg | amg, then options as in pcg-pfmg:relax=2,rap=1\n"
            "  pfmg: relax rap skip pre post dx dy dz symmetric\n"
            "  smg:  memory pre post symmetric\n"
            "  amg:  coarsen interp pmax trunc theta rowsum agg agginterp paths relax up cf sweeps\n"
            "        transpose order print      (numbers as in hypre's manual; order: 0 x, 1 vertical, 2 layered)",
            problem);
    return 0;
}

/* One "--key value"; 0 if either is wrong. */
static int parse_option(const char *key, const char *value, Options *o)
{
    const struct {
        const char *key, **path;
    } files[] = {{"--json", &o->json},
                 {"--write-case", &o->write_case},
                 {"--isobar-solution", &o->isobar_solution},
                 {"--isobar-bench", &o->isobar_bench}};
    if (!strcmp(key, "--rhs")) {
        o->rhs = value;
        return *value && (o->problem.is_diffusion || !strcmp(value, "random") || !strcmp(value, "constant"));
    }
    if (!strcmp(key, "--seed")) {
        char *end;
        o->seed = strtoull(value, &end, 10);
        return *value && !*end;
    }
    for (size_t n = 0; n < sizeof files / sizeof *files; n++)
        if (!strcmp(key, files[n].key)) {
            *files[n].path = value;
            return *value != '\0';
        }
    if (!strcmp(key, "--isobar-report")) {
        if (o->isobar_report_count == MAX_REPEATS) return 0;
        o->isobar_reports[o->isobar_report_count++] = value;
        return *value != '\0';
    }
    if (!strcmp(key, "--tolerance")) return number(value, &o->tolerance);
    if (!strcmp(key, "--budget")) return number(value, &o->budget);
    if (!strcmp(key, "--patience")) return positive_integer(value, &o->patience) || !strcmp(value, "0");
    if (!strcmp(key, "--max-iterations")) return positive_integer(value, &o->max_iterations);
    if (!strcmp(key, "--repeat")) return positive_integer(value, &o->repeats) && o->repeats <= MAX_REPEATS;
    return problem_option(key, value, &o->problem);
}

/* The problem's name comes before its options have a meaning, wherever it stands. */
static int parse_problem(int argc, char **argv, Problem *problem)
{
    const char *name = "tensor-product";
    for (int n = 1; n + 1 < argc; n++)
        if (!strcmp(argv[n], "--problem")) name = argv[n + 1];
    return problem_named(name, problem);
}

static int parse(int argc, char **argv, Options *o)
{
    int *size[3] = {&o->problem.nx, &o->problem.ny, &o->problem.nz}, sizes = 0;
    o->solvers = allocate((size_t)argc, sizeof *o->solvers);
    if (!parse_problem(argc, argv, &o->problem)) return usage("no problem of that name");
    /* The tolerance of the atmosphere model, and the one that diffusion is compared at. */
    o->tolerance = o->problem.is_diffusion ? 1e-8 : 1e-5;
    for (int n = 1; n < argc; n++) {
        char message[256];
        if (strncmp(argv[n], "--", 2) == 0) {
            const char *value = n + 1 < argc ? argv[n + 1] : "";
            snprintf(message, sizeof message, "bad option: %.80s %.80s", argv[n], value);
            if (strcmp(argv[n], "--problem") && !parse_option(argv[n], value, o)) return usage(message);
            n++;
        } else if (sizes < 3) {
            snprintf(message, sizeof message, "'%.80s' is no grid size", argv[n]);
            if (!positive_integer(argv[n], size[sizes++])) return usage(message);
        } else {
            o->solvers[o->solver_count++] = argv[n];
        }
    }
    if (sizes < 3) return usage("grid size missing");
    if (o->solver_count == 0 && !o->write_case && !o->isobar_solution) return usage("solver missing");
    if (!o->isobar_solution != !o->isobar_report_count)
        return usage("--isobar-solution and --isobar-report belong together");
    return problem_check(&o->problem);
}

static const Interface *interface_of(const Spec *spec)
{
    const char *base = strncmp(spec->method, "pcg-", 4) ? spec->method : spec->method + 4;
    if (!strcmp(base, "pfmg") || !strcmp(base, "smg")) return &struct_interface;
    if (!strcmp(base, "amg")) return &ij_interface;
    return NULL;
}

/* |A u| and u.A u of the random field of seed 0 by isobar: on the 128^3 panel, and by the matrix that `isobar export` writes
 * of a small box with every kind of side, bubbles, another coefficient in z and a reaction. */
static int operator_is_right(MPI_Comm world, int is_diffusion)
{
    const double norm_expected = is_diffusion ? 7.342057383050e2 : 8.1898289492e1;
    const double dot_expected = is_diffusion ? 4.257678499303e3 : 2.1053615460e4, allowed = 1e-8;
    Problem problem;
    problem_named(is_diffusion ? "bubbles" : "tensor-product", &problem);
    problem.nx = is_diffusion ? 24 : 128;
    problem.ny = is_diffusion ? 16 : 128;
    problem.nz = is_diffusion ? 20 : 128;
    if (is_diffusion) {
        problem_option("--sides", "ndppdn", &problem);
        problem_option("--size", "1.5,1,0.8", &problem);
        problem_option("--bubbles", "8", &problem);
        problem_option("--ratio", "0.1", &problem);
        problem_option("--reaction", "3", &problem);
    }
    Operator *op = operator_create(&problem, world);
    if (!op) return 0;
    double *u = allocate(operator_cells(op), sizeof *u), *v = allocate(operator_cells(op), sizeof *v);
    field_random(op, 0, u);
    operator_apply(op, u, v);
    double norm = sqrt(field_dot(op, v, v)), dot = field_dot(op, u, v);
    double error = fmax(fabs(norm / norm_expected - 1), fabs(dot / dot_expected - 1));
    int right = error <= allowed;
    if (!right)
        complain("the operator is wrong: |Au| = %.10e (expected %.10e), u.Au = %.10e (expected %.10e)", norm, norm_expected, dot,
                 dot_expected);
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

/* Judges hypre's answer: its true residual and, where isobar's is known, the difference from it. */
static void judge(const Operator *op, const Interface *hypre, void *system, const double *rhs, const double *isobar,
                  Result *result)
{
    size_t cells = operator_cells(op);
    double *u = allocate(cells, sizeof *u);
    hypre->solution(system, u);
    double residual = relative_residual(op, u, rhs);
    /* The worst of the repeats; a NaN is the worst of all and stays. */
    if (isnan(residual) || residual > result->true_residual) result->true_residual = residual;
    if (isobar) {
        if (problem_is_singular(&op->problem)) field_remove_mean(op, u);
        for (size_t m = 0; m < cells; m++) u[m] -= isobar[m];
        result->difference = sqrt(field_dot(op, u, u) / field_dot(op, isobar, isobar));
    }
    free(u);
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
                      const double *isobar, Result *result, int n)
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
    judge(op, hypre, system, rhs, isobar, result);
    hypre->release_solver(system);
    return 1;
}

static int measure(const Operator *op, Spec *spec, const Options *o, const double *rhs, const double *isobar,
                   Result *result)
{
    const Interface *hypre = interface_of(spec);
    double start = synchronised_time(op);
    void *system = hypre->assemble(op, spec, rhs);
    *result = (Result){.repeats = o->repeats, .difference = -1, .assembly = slowest(op, MPI_Wtime() - start)};
    result->matrix_error = matrix_error(op, hypre, system);
    /* Two rows of sums differ by rounding only; 1e-12 is far above that and far below any mistake. */
    if (!(result->matrix_error < 1e-12)) {
        complain("hypre's matrix differs from the operator by %.1e", result->matrix_error);
        return 0;
    }
    if (getloadavg(&result->load, 1) != 1) result->load = -1;
    reset_peak_memory();
    start = synchronised_time(op);
    for (int n = 0, spare = o->repeats; n < o->repeats;) {
        if (!solve_once(op, spec, o, system, rhs, isobar, result, n)) return 0;
        /* A disturbed repeat is thrown away where the user wants to wait, but not for ever. */
        if (result->cpu_share[n] >= QUIET || o->patience == 0 || spare == 0)
            n++;
        else
            spare--;
        if (n > 0 && o->budget > 0 && slowest(op, MPI_Wtime() - start) > o->budget) result->repeats = n;
        if (n == result->repeats) break;
    }
    hypre->destroy(system);
    return 1;
}

static int right_hand_side(const Operator *op, const Options *o, double *rhs)
{
    if (!strcmp(o->rhs, "constant"))
        field_constant(op, rhs);
    else if (!strcmp(o->rhs, "random"))
        field_random(op, o->seed, rhs);
    else if (!field_read(op, o->rhs, rhs))
        return 0;
    field_mask(op, rhs);
    /* Where constants solve A u = 0, only a right-hand side of mean 0 has a solution. */
    if (problem_is_singular(&op->problem)) field_remove_mean(op, rhs);
    return 1;
}

/* Whether the tolerance was met. */
static int report(const Operator *op, const Options *o, const char *solver, const Result *result)
{
    if (is_root(op)) print_row(o, solver, result);
    if (is_root(op) && o->json) write_json(o, op->ranks, solver, result);
    return result->true_residual <= o->tolerance;
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
    if (!operator_is_right(MPI_COMM_WORLD, o->problem.is_diffusion)) return 1;
    if (o->write_case) return isobar_write_case(o) ? 0 : 1;
    Operator *op = operator_create(&o->problem, MPI_COMM_WORLD);
    if (!op) return 1;
    double *rhs = allocate(operator_cells(op), sizeof *rhs), *isobar = NULL;
    if (!right_hand_side(op, o, rhs)) return 1;
    if (is_root(op)) print_header(o, op->ranks);
    Result result;
    if (o->isobar_solution) {
        isobar = allocate(operator_cells(op), sizeof *isobar);
        if (!isobar_read(op, o, rhs, isobar, &result)) return 1;
        if (!report(op, o, "isobar", &result)) status = 2;
        if (o->isobar_bench && !isobar_read_bench(o->isobar_bench, &result)) return 1;
        if (o->isobar_bench) report(op, o, "isobar, from arrays", &result);
        if (problem_is_singular(&op->problem)) field_remove_mean(op, isobar);
    }
    for (int n = 0; n < o->solver_count; n++) {
        if (!measure(op, &specs[n], o, rhs, isobar, &result)) return 1;
        if (!report(op, o, specs[n].text, &result)) status = 2;
    }
    free(isobar);
    free(rhs);
    free(specs);
    operator_destroy(op);
    return status;
}

int main(int argc, char **argv)
{
    Options options = {.rhs = "random", .max_iterations = 500, .repeats = 1};
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
