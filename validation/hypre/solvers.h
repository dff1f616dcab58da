/* What compare.c asks of hypre: one interface, behind it the Struct solvers and the IJ/ParCSR solvers. */
#ifndef COMPARE_SOLVERS_H
#define COMPARE_SOLVERS_H

#include "operator.h"

/* A solver as written on the command line: "pcg-pfmg:relax=2,rap=1". */
typedef struct {
    char text[160];
    char method[24];
    int options;
    struct {
        char key[16];
        double value;
        int used;
    } option[16];
} Spec;

/* 0 with a message on standard error if the text is malformed. */
int spec_parse(const char *text, Spec *spec);

/* The value given for key, or the default; a key never asked for is reported by spec_unused. */
double spec_value(Spec *spec, const char *key, double otherwise);
int spec_integer(Spec *spec, const char *key, int otherwise);
const char *spec_unused(const Spec *spec);

/* hypre's matrix, vectors and solver for one operator. Fields are in the operator's order. */
typedef struct {
    void *(*assemble)(const Operator *op, Spec *spec, const double *rhs);
    /* v = A u by hypre's own matrix: what the driver's operator is checked against. */
    void (*multiply)(void *system, const double *u, double *v);
    /* Builds the solver; the first guess is zero from here on. */
    void (*setup)(void *system, Spec *spec, double tolerance, int max_iterations);
    void (*solve)(void *system, int *iterations, double *reported_residual);
    void (*solution)(void *system, double *u);
    void (*release_solver)(void *system);
    void (*destroy)(void *system);
} Interface;

extern const Interface struct_interface, ij_interface;

/* Aborts with the failing call; hypre's "did not converge" flag is let through and cleared, and so is any complaint of a
 * solve about its numbers, since the driver judges convergence itself. */
void hypre_check(int error, const char *call);
#define HYPRE(call) hypre_check((call), #call)

#endif
