#include "material.h"

#include "npy.h"

#include <complex.h>
#include <math.h>
#include <stdlib.h>

enum { MODES = 64 };

static const double PI = 3.14159265358979323846;

struct Material {
    const Problem *problem;
    /* bubbles, holes */
    double radius, (*centre)[3];
    /* lognormal: exp(2 pi i k x) for every mode and cell, mode by mode, and exp(i phase) */
    double complex *wave[3], phase[MODES];
    /* file */
    FILE *file;
    long start;
};

/* Uniform in (0, 1). */
static double uniform(unsigned long long seed, size_t index) { return 0.5 * (random_number(seed, index) + 1); }

static double distance(const double *a, const double *b)
{
    return sqrt((a[0] - b[0]) * (a[0] - b[0]) + (a[1] - b[1]) * (a[1] - b[1]) + (a[2] - b[2]) * (a[2] - b[2]));
}

/* Balls that keep clear of each other and of the sides, tried one after another at random places: those of isobar's
 * recipe "bubbles" with the same seed. */
static int place_bubbles(Material *m)
{
    const Problem *p = m->problem;
    int placed = 0;
    m->radius = p->radius * fmin(p->size[0], fmin(p->size[1], p->size[2]));
    m->centre = allocate((size_t)p->bubbles, sizeof *m->centre);
    for (size_t n = 0; n < 10000 + 1000 * (size_t)p->bubbles && placed < p->bubbles; n++) {
        double *centre = m->centre[placed];
        int clear = 1;
        for (size_t d = 0; d < 3; d++)
            centre[d] = m->radius + (p->size[d] - 2 * m->radius) * uniform(p->kappa_seed, 3 * n + d);
        for (int other = 0; other < placed && clear; other++)
            clear = distance(m->centre[other], centre) > 2 * m->radius;
        placed += clear;
    }
    if (placed < p->bubbles)
        complain("only %d of %d bubbles of radius %g found room; use fewer or smaller ones", placed, p->bubbles, p->radius);
    return placed == p->bubbles;
}

static double complex unit(double angle) { return cos(angle) + I * sin(angle); }

/* A sum of plane waves of random direction, length and phase. Their wave numbers are Gaussian with a deviation of a
 * wave in 16 cells, so the field is smooth on the scale of a few cells, at every size. */
static void choose_modes(Material *m)
{
    const Problem *p = m->problem;
    const int cells[3] = {p->nx, p->ny, p->nz};
    for (int d = 0; d < 3; d++) {
        m->wave[d] = allocate((size_t)MODES * (size_t)cells[d], sizeof *m->wave[d]);
        for (size_t mode = 0; mode < MODES; mode++) {
            size_t draw = 8 * mode + 2 * (size_t)d;
            double normal = sqrt(-2 * log(uniform(p->kappa_seed, draw))) * cos(2 * PI * uniform(p->kappa_seed, draw + 1));
            double waves = nearbyint(normal * cells[d] / 16);
            for (int i = 0; i < cells[d]; i++)
                m->wave[d][mode * (size_t)cells[d] + (size_t)i] = unit(2 * PI * waves * (i + 0.5) / cells[d]);
        }
    }
    for (size_t mode = 0; mode < MODES; mode++) m->phase[mode] = unit(2 * PI * uniform(p->kappa_seed, 8 * mode + 6));
}

Material *material_create(const Problem *problem)
{
    Material *m = allocate(1, sizeof *m);
    *m = (Material){.problem = problem};
    int made = 1;
    switch (problem->kappa) {
    case KAPPA_ONE: break;
    case KAPPA_BUBBLES:
    case KAPPA_HOLES: made = place_bubbles(m); break;
    case KAPPA_LOGNORMAL: choose_modes(m); break;
    case KAPPA_FILE:
        m->file = npy_open(problem->kappa_path, problem->nx, problem->ny, problem->nz, &m->start);
        made = m->file != NULL;
        break;
    }
    if (made) return m;
    material_destroy(m);
    return NULL;
}

void material_destroy(Material *m)
{
    if (m->file) fclose(m->file);
    for (int d = 0; d < 3; d++) free(m->wave[d]);
    free(m->centre);
    free(m);
}

static void bubbles_line(const Material *m, int j, int k, double inside, double *kappa)
{
    const Problem *p = m->problem;
    for (int b = 0; b < p->bubbles; b++) {
        double at[3] = {0, (j + 0.5) * p->size[1] / p->ny, (k + 0.5) * p->size[2] / p->nz};
        if (fabs(at[1] - m->centre[b][1]) > m->radius || fabs(at[2] - m->centre[b][2]) > m->radius) continue;
        for (int i = 0; i < p->nx; i++) {
            at[0] = (i + 0.5) * p->size[0] / p->nx;
            if (distance(m->centre[b], at) <= m->radius) kappa[i] = inside;
        }
    }
}

/* 10^g: the deviation of g is 1, so that four decades hold 19 cells out of 20. */
static void lognormal_line(const Material *m, int j, int k, double *kappa)
{
    const Problem *p = m->problem;
    for (int i = 0; i < p->nx; i++) kappa[i] = 0;
    for (size_t mode = 0; mode < MODES; mode++) {
        double complex yz = m->wave[1][mode * (size_t)p->ny + (size_t)j] * m->wave[2][mode * (size_t)p->nz + (size_t)k];
        double complex rest = yz * m->phase[mode], *x = m->wave[0] + mode * (size_t)p->nx;
        for (int i = 0; i < p->nx; i++) kappa[i] += creal(rest * x[i]);
    }
    for (int i = 0; i < p->nx; i++) kappa[i] = pow(10, sqrt(2.0 / MODES) * kappa[i]);
}

int material_line(Material *m, int j, int k, double *kappa)
{
    const Problem *p = m->problem;
    for (int i = 0; i < p->nx; i++) kappa[i] = 1;
    switch (p->kappa) {
    case KAPPA_ONE: break;
    case KAPPA_BUBBLES: bubbles_line(m, j, k, p->contrast, kappa); break;
    case KAPPA_HOLES: bubbles_line(m, j, k, 0, kappa); break;
    case KAPPA_LOGNORMAL: lognormal_line(m, j, k, kappa); break;
    case KAPPA_FILE:
        if (npy_read(m->file, m->start, (size_t)p->nx * ((size_t)j + (size_t)p->ny * (size_t)k), (size_t)p->nx, kappa)) return 1;
        complain("%s ends too early", p->kappa_path);
        return 0;
    }
    return 1;
}
