#include "problem.h"

#include <limits.h>
#include <math.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *allocate(size_t count, size_t size)
{
    void *p = count > SIZE_MAX / size ? NULL : malloc(count ? count * size : 1);
    if (!p) {
        fprintf(stderr, "compare: cannot allocate %zu x %zu bytes\n", count, size);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return p;
}

void complain(const char *format, ...)
{
    int rank;
    va_list arguments;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank != 0) return;
    va_start(arguments, format);
    fputs("compare: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
}

int positive_integer(const char *text, int *value)
{
    char *end;
    long n = strtol(text, &end, 10);
    *value = (int)n;
    return *text && !*end && n > 0 && n <= INT_MAX;
}

int number(const char *text, double *value)
{
    char *end;
    *value = strtod(text, &end);
    return *text && !*end && isfinite(*value);
}

double random_number(unsigned long long seed, size_t index)
{
    uint64_t z = ((uint64_t)index + ((uint64_t)seed << 32) + 1) * UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    z ^= z >> 31;
    return (double)(z >> 11) * 0x1p-53 * 2 - 1;
}

static const struct {
    const char *name;
    int is_diffusion;
    Kappa kappa;
} NAMED[] = {
    {"tensor-product", 0, KAPPA_ONE}, {"poisson", 1, KAPPA_ONE},     {"bubbles", 1, KAPPA_BUBBLES},
    {"lognormal", 1, KAPPA_LOGNORMAL}, {"holes", 1, KAPPA_HOLES},    {"file", 1, KAPPA_FILE},
};

int problem_named(const char *name, Problem *problem)
{
    for (size_t n = 0; n < sizeof NAMED / sizeof *NAMED; n++) {
        if (strcmp(name, NAMED[n].name) != 0) continue;
        *problem = (Problem){.name = NAMED[n].name,
                             .is_diffusion = NAMED[n].is_diffusion,
                             .courant = 8.4,
                             .lambda = 1,
                             .depth = 50e3,
                             .kappa = NAMED[n].kappa,
                             .kappa_seed = 3,
                             .bubbles = 20,
                             .radius = 0.1,
                             .contrast = 1e3,
                             .ratio = 1,
                             /* Holes may cut pockets off, which a reaction ties down. */
                             .reaction = NAMED[n].kappa == KAPPA_HOLES ? 1 : 0,
                             .size = {1, 1, 1}};
        /* Poisson's equation with u given on all sides, the others with two sides open. */
        for (int e = WEST; e <= ABOVE; e++)
            problem->side[e] = problem->kappa == KAPPA_ONE || e <= EAST ? SIDE_DIRICHLET : SIDE_NEUMANN;
        return 1;
    }
    return 0;
}

const char *side_name(Side side)
{
    return side == SIDE_NEUMANN ? "neumann" : side == SIDE_DIRICHLET ? "dirichlet" : "periodic";
}

char side_letter(Side side) { return side_name(side)[0]; }

static int parse_sides(const char *value, Side *side)
{
    if (strlen(value) != 6) return 0;
    for (int e = WEST; e <= ABOVE; e++) {
        const char *letter = strchr("ndp", value[e - WEST]);
        if (!letter) return 0;
        side[e] = *letter == 'n' ? SIDE_NEUMANN : *letter == 'd' ? SIDE_DIRICHLET : SIDE_PERIODIC;
    }
    return 1;
}

int problem_option(const char *key, const char *value, Problem *p)
{
    if (!p->is_diffusion) {
        if (!strcmp(key, "--geometry")) {
            p->geometry = !strcmp(value, "box") ? GEOMETRY_BOX : GEOMETRY_PANEL;
            return !strcmp(value, "box") || !strcmp(value, "panel");
        }
        if (!strcmp(key, "--grading")) {
            p->grading = !strcmp(value, "uniform") ? GRADING_UNIFORM : GRADING_QUADRATIC;
            return !strcmp(value, "uniform") || !strcmp(value, "quadratic");
        }
        if (!strcmp(key, "--courant")) return number(value, &p->courant);
        if (!strcmp(key, "--lambda")) return number(value, &p->lambda);
        if (!strcmp(key, "--depth")) return number(value, &p->depth);
        return 0;
    }
    if (!strcmp(key, "--sides")) return parse_sides(value, p->side);
    if (!strcmp(key, "--size")) {
        char rest;
        return sscanf(value, "%lf,%lf,%lf%c", &p->size[0], &p->size[1], &p->size[2], &rest) == 3;
    }
    if (!strcmp(key, "--coefficient")) {
        p->kappa_path = value;
        return *value && p->kappa == KAPPA_FILE;
    }
    if (!strcmp(key, "--coefficient-seed")) {
        char *end;
        p->kappa_seed = strtoull(value, &end, 10);
        return *value && !*end;
    }
    if (!strcmp(key, "--contrast")) return number(value, &p->contrast) && p->contrast > 0;
    if (!strcmp(key, "--bubbles")) return positive_integer(value, &p->bubbles);
    if (!strcmp(key, "--radius")) return number(value, &p->radius) && p->radius > 0 && p->radius < 0.5;
    if (!strcmp(key, "--ratio")) return number(value, &p->ratio) && p->ratio > 0;
    if (!strcmp(key, "--reaction")) return number(value, &p->reaction) && p->reaction >= 0;
    return 0;
}

int problem_check(const Problem *p)
{
    if ((double)p->nx * p->ny * p->nz > INT_MAX) {
        complain("more than 2^31 - 1 unknowns: beyond this driver's counts");
        return 0;
    }
    if (!p->is_diffusion) return 1;
    if (p->kappa == KAPPA_FILE && !p->kappa_path) {
        complain("--problem file needs --coefficient FILE.npy");
        return 0;
    }
    for (int d = 0; d < 3; d++) {
        const int cells[3] = {p->nx, p->ny, p->nz}, lower = WEST + 2 * d;
        if (!(p->size[d] > 0) || !isfinite(p->size[d])) {
            complain("a domain of size %g along %c; use a positive number", p->size[d], "xyz"[d]);
            return 0;
        }
        if ((p->side[lower] == SIDE_PERIODIC) != (p->side[lower + 1] == SIDE_PERIODIC)) {
            complain("one side of %c is periodic and the other is not; make both so", "xyz"[d]);
            return 0;
        }
        /* With fewer cells the neighbours on both sides are one, and a row would hold two entries for it. */
        if (p->side[lower] == SIDE_PERIODIC && cells[d] < 3) {
            complain("%c is periodic with %d cells; use 3 or more", "xyz"[d], cells[d]);
            return 0;
        }
    }
    return 1;
}

int problem_is_singular(const Problem *p)
{
    if (!p->is_diffusion || p->reaction > 0) return 0;
    for (int e = WEST; e <= ABOVE; e++)
        if (p->side[e] == SIDE_DIRICHLET) return 0;
    return 1;
}

void problem_describe(const Problem *p, char *text, size_t size)
{
    if (!p->is_diffusion) {
        snprintf(text, size, "%s %dx%dx%d, %s grading", p->geometry == GEOMETRY_BOX ? "box" : "panel", p->nx, p->ny, p->nz,
                 p->grading == GRADING_UNIFORM ? "uniform" : "quadratic");
        return;
    }
    char kappa[96] = "", sides[8] = "";
    for (int e = WEST; e <= ABOVE; e++) sides[e - WEST] = side_letter(p->side[e]);
    if (p->kappa == KAPPA_BUBBLES) snprintf(kappa, sizeof kappa, " (%d, %g : 1)", p->bubbles, p->contrast);
    if (p->kappa == KAPPA_HOLES) snprintf(kappa, sizeof kappa, " (%d)", p->bubbles);
    if (p->kappa == KAPPA_FILE) snprintf(kappa, sizeof kappa, " %.80s", p->kappa_path);
    snprintf(text, size, "%s%s %dx%dx%d, sides %s%s", p->name, kappa, p->nx, p->ny, p->nz, sides,
             problem_is_singular(p) ? " (singular)" : "");
}
