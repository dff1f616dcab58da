/* The other side of the comparison: the same problem as a case of isobar, and what isobar's runs say. */
#include "compare.h"
#include "material.h"
#include "npy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double relative_residual(const Operator *op, const double *u, const double *rhs)
{
    size_t cells = operator_cells(op);
    double *r = allocate(cells, sizeof *r);
    operator_apply(op, u, r);
    for (size_t m = 0; m < cells; m++) r[m] = rhs[m] - r[m];
    double residual = sqrt(field_dot(op, r, r) / field_dot(op, rhs, rhs));
    free(r);
    return residual;
}

/* The coefficients in isobar's order, for problems that isobar has no recipe for. */
static int write_coefficients(const Problem *p, const char *path)
{
    Material *material = material_create(p);
    FILE *file = material ? npy_create(path, p->nx, p->ny, p->nz) : NULL;
    double *line = allocate((size_t)p->nx, sizeof *line);
    int good = file != NULL;
    for (int k = 0; good && k < p->nz; k++)
        for (int j = 0; good && j < p->ny; j++)
            good = material_line(material, j, k, line) &&
                   fwrite(line, sizeof *line, (size_t)p->nx, file) == (size_t)p->nx;
    if (file) good &= fclose(file) == 0;
    if (file && !good) complain("cannot write all of %s", path);
    if (material) material_destroy(material);
    free(line);
    return good;
}

static void write_rhs(FILE *f, const Options *o)
{
    int file = strcmp(o->rhs, "random") && strcmp(o->rhs, "constant");
    fprintf(f, "[problem.rhs]\nkind = \"%s\"\nseed = %llu\nweighting = \"none\"\n", file ? "file" : o->rhs, o->seed);
    if (file) fprintf(f, "path = \"%s\"\n", o->rhs);
}

int isobar_write_case(const Options *o)
{
    static const char *const names[ENTRIES] = {[WEST] = "west", "east", "south", "north", "bottom", "top"};
    const Problem *p = &o->problem;
    if (!p->is_diffusion) {
        complain("cases are written for diffusion only; isobar's own cases/panel.toml is the tensor product");
        return 0;
    }
    FILE *f = fopen(o->write_case, "w");
    if (!f) {
        complain("cannot write %s", o->write_case);
        return 0;
    }
    fprintf(f, "[problem]\nkind = \"%s\"\n", p->kappa == KAPPA_ONE ? "poisson" : "diffusion");
    write_rhs(f, o);
    fprintf(f, "[grid]\nnx = %d\nny = %d\nnz = %d\nsize = [%.17g, %.17g, %.17g]\n", p->nx, p->ny, p->nz, p->size[0], p->size[1],
            p->size[2]);
    fprintf(f, "[diffusion]\n");
    int written = 1;
    switch (p->kappa) {
    case KAPPA_ONE: break;
    case KAPPA_BUBBLES:
        fprintf(f, "coefficient = { bubbles = { count = %d, radius = %.17g, contrast = %.17g, seed = %llu } }\n", p->bubbles,
                p->radius, p->contrast, p->kappa_seed);
        break;
    case KAPPA_LOGNORMAL:
    case KAPPA_HOLES:
    case KAPPA_FILE: {
        char path[1024];
        if ((size_t)snprintf(path, sizeof path, "%s.npy", o->write_case) >= sizeof path) {
            complain("the path of the case is too long: %s", o->write_case);
            written = 0;
            break;
        }
        written = write_coefficients(p, path);
        /* isobar looks from the case file's folder. */
        const char *slash = strrchr(path, '/');
        fprintf(f, "coefficient = { file = \"%s\" }\n", slash ? slash + 1 : path);
    }
    }
    if (p->ratio != 1) fprintf(f, "coefficient_z = { ratio = %.17g }\n", p->ratio);
    if (p->reaction > 0) fprintf(f, "reaction = %.17g\n", p->reaction);
    fprintf(f, "boundary = { ");
    for (int e = WEST; e <= ABOVE; e++) fprintf(f, "%s%s = \"%s\"", e > WEST ? ", " : "", names[e], side_name(p->side[e]));
    fprintf(f, " }\n[solver]\ntolerance = %.17g\n", o->tolerance);
    if (problem_is_singular(p)) fprintf(f, "compatibility = \"project\"\n");
    if (fclose(f) != 0) {
        complain("cannot write all of %s", o->write_case);
        return 0;
    }
    return written;
}

/* The first number after "key": at or after `from`. */
static int json_number(const char *from, const char *key, double *value)
{
    char quoted[64], *end;
    snprintf(quoted, sizeof quoted, "\"%s\":", key);
    const char *at = from ? strstr(from, quoted) : NULL;
    if (!at) return 0;
    *value = strtod(at + strlen(quoted), &end);
    return end != at + strlen(quoted);
}

/* All of a file, or NULL. */
static char *read_text(const char *path)
{
    char *text = NULL;
    long length = 0;
    FILE *f = fopen(path, "rb");
    if (f && fseek(f, 0, SEEK_END) == 0 && (length = ftell(f)) > 0 && fseek(f, 0, SEEK_SET) == 0) {
        text = allocate((size_t)length + 1, 1);
        text[fread(text, 1, (size_t)length, f)] = '\0';
    }
    if (f) fclose(f);
    return text;
}

static int read_report(const char *path, Result *result, int n)
{
    double iterations, residual, upload = 0;
    char *text = read_text(path);
    const char *outcome = text ? strstr(text, "\"outcome\"") : NULL, *seconds = text ? strstr(text, "\"seconds\"") : NULL;
    int good = json_number(outcome, "iterations", &iterations) && json_number(outcome, "relative_residual", &residual) &&
               json_number(seconds, "setup", &result->setup[n]) && json_number(seconds, "solve", &result->solve[n]);
    if (good) {
        /* What isobar spends on its own copy of the right-hand side belongs to the solve. */
        json_number(seconds, "upload", &upload);
        result->solve[n] += upload;
        result->iterations = (int)iterations;
        result->reported_residual = residual;
    } else {
        complain("%s is no report of a solve by isobar", path);
    }
    free(text);
    return good;
}

int isobar_read(const Operator *op, const Options *o, const double *rhs, double *solution, Result *result)
{
    *result = (Result){.repeats = o->isobar_report_count, .difference = -1, .load = -1};
    if (!field_read(op, o->isobar_solution, solution)) return 0;
    for (int n = 0; n < o->isobar_report_count; n++) {
        if (!read_report(o->isobar_reports[n], result, n)) return 0;
        result->cpu_share[n] = -1;
    }
    field_mask(op, solution); /* isobar writes NaN into cells that take no part */
    result->true_residual = relative_residual(op, solution, rhs);
    return 1;
}

int isobar_read_bench(const char *path, Result *result)
{
    double setup;
    char *text = read_text(path);
    int good = json_number(text ? strstr(text, "\"timing\"") : NULL, "setup", &setup);
    if (good)
        for (int n = 0; n < result->repeats; n++) result->setup[n] = setup;
    else
        complain("%s is no report of isobar bench", path);
    free(text);
    return good;
}
