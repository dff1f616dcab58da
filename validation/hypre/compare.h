/* One run of the comparison: what was asked for, and what came out. */
#ifndef COMPARE_COMPARE_H
#define COMPARE_COMPARE_H

#include "operator.h"
#include "solvers.h"

enum { MAX_REPEATS = 100 };

typedef struct {
    Problem problem;
    const char *rhs, *json;
    unsigned long long seed;
    double tolerance, budget; /* s after which no repeat of a solver begins */
    int max_iterations, repeats;
    int patience; /* s to wait for a quiet machine before each repeat */
    char **solvers;
    int solver_count;
    /* isobar's part: a case to be written; its solution, the reports of its runs, and that of `isobar bench` */
    const char *write_case, *isobar_solution, *isobar_reports[MAX_REPEATS], *isobar_bench;
    int isobar_report_count;
} Options;

typedef struct {
    int repeats, iterations;
    double assembly; /* s */
    double setup[MAX_REPEATS], solve[MAX_REPEATS], cpu_share[MAX_REPEATS];
    double reported_residual, true_residual, matrix_error;
    double difference;  /* |u - u of isobar| / |u of isobar|; negative where there is none */
    double peak_memory; /* GiB, all ranks */
    double load;
} Result;

/* table.c: the table and the JSON lines, from the first rank. */
void print_header(const Options *o, int ranks);
void print_row(const Options *o, const char *solver, const Result *result);
void write_json(const Options *o, int ranks, const char *solver, const Result *result);

/* isobar.c */

/* Writes the problem as a case of isobar, and beside it the coefficients that isobar has no recipe for. 0 with a message on
 * standard error. */
int isobar_write_case(const Options *o);

/* Reads isobar's solution and reports and judges them. 0 with a message on standard error. */
int isobar_read(const Operator *op, const Options *o, const double *rhs, double *solution, Result *result);

/* Replaces the setup of isobar's runs, which begins with the case file, by that of the solver alone, which begins with the
 * problem's arrays as hypre's begins with its matrix. 0 with a message on standard error. */
int isobar_read_bench(const char *path, Result *result);

/* |b - A u| / |b| */
double relative_residual(const Operator *op, const double *u, const double *rhs);

#endif
