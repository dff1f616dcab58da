/* The problems that isobar and hypre are compared on, and what every file here uses. */
#ifndef COMPARE_PROBLEM_H
#define COMPARE_PROBLEM_H

#include <stddef.h>

typedef enum { GEOMETRY_PANEL, GEOMETRY_BOX } Geometry;
typedef enum { GRADING_QUADRATIC, GRADING_UNIFORM } Grading;

/* The order of a row's entries, and of the sides of the domain. */
enum { CENTRE, WEST, EAST, SOUTH, NORTH, BELOW, ABOVE, ENTRIES };

/* What holds on a side: no flow, u = 0, or the opposite side. */
typedef enum { SIDE_NEUMANN, SIDE_DIRICHLET, SIDE_PERIODIC } Side;

/* kappa: 1; balls of another value; 10^g with a Gaussian field g; balls of inactive cells; from a file. */
typedef enum { KAPPA_ONE, KAPPA_BUBBLES, KAPPA_LOGNORMAL, KAPPA_HOLES, KAPPA_FILE } Kappa;

typedef struct {
    const char *name; /* as on the command line */
    int nx, ny, nz;
    int is_diffusion;

    /* tensor product: -w^2 (lap_S u + lambda^2 r^-2 d_r(r^2 d_r u)) + u */
    Geometry geometry;
    Grading grading;
    double courant; /* nu: omega = nu h / 2 */
    double lambda;
    double depth; /* m */

    /* diffusion: -div(kappa grad u) + c u on a box of equal cells */
    Kappa kappa;
    const char *kappa_path;
    unsigned long long kappa_seed;
    int bubbles;
    double radius; /* over the shortest side of the domain */
    double contrast;
    double ratio;          /* kappa in z over kappa */
    double reaction;       /* c */
    double size[3];        /* of the domain */
    Side side[ENTRIES];    /* WEST..ABOVE */
} Problem;

/* The defaults of a problem named on the command line; 0 if there is none. */
int problem_named(const char *name, Problem *problem);

/* One option of a problem; 0 if there is none of that name or its value is wrong. */
int problem_option(const char *key, const char *value, Problem *problem);

/* Says on standard error what is wrong with a problem once all its options are known; 0 if nothing may be solved. */
int problem_check(const Problem *problem);

/* Constants solve A u = 0: no value is given on a side, and no reaction. */
int problem_is_singular(const Problem *problem);

/* One line. */
void problem_describe(const Problem *problem, char *text, size_t size);

/* isobar's name of what holds on a side, and its letter on the command line. */
const char *side_name(Side side);
char side_letter(Side side);

/* malloc or MPI_Abort with the number of bytes. */
void *allocate(size_t count, size_t size);

/* printf to standard error from the first rank only: for mistakes that all ranks see alike. */
void complain(const char *format, ...);

int positive_integer(const char *text, int *value);
int number(const char *text, double *value);

/* isobar's hash of an index, uniform in (-1, 1): SplitMix64. */
double random_number(unsigned long long seed, size_t index);

#endif
