#include "solvers.h"

#include <HYPRE_utilities.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int spec_parse(const char *text, Spec *spec)
{
    char copy[sizeof spec->text], after;
    memset(spec, 0, sizeof *spec);
    if (strlen(text) >= sizeof spec->text) {
        complain("solver '%s' is longer than %zu characters", text, sizeof spec->text - 1);
        return 0;
    }
    strcpy(spec->text, text);
    strcpy(copy, text);
    char *rest = strchr(copy, ':');
    if (rest) *rest++ = '\0';
    if (copy[0] == '\0' || strlen(copy) >= sizeof spec->method) {
        complain("'%s' names no solver", text);
        return 0;
    }
    strcpy(spec->method, copy);
    for (char *pair = rest ? strtok(rest, ",") : NULL; pair; pair = strtok(NULL, ",")) {
        if (spec->options == (int)(sizeof spec->option / sizeof spec->option[0]) ||
            sscanf(pair, "%15[^=]=%lf%c", spec->option[spec->options].key, &spec->option[spec->options].value, &after) != 2) {
            complain("bad option '%s' in solver '%s': write key=number", pair, text);
            return 0;
        }
        spec->options++;
    }
    return 1;
}

double spec_value(Spec *spec, const char *key, double otherwise)
{
    double value = otherwise;
    for (int o = 0; o < spec->options; o++)
        if (strcmp(spec->option[o].key, key) == 0) {
            spec->option[o].used = 1;
            value = spec->option[o].value;
        }
    return value;
}

int spec_integer(Spec *spec, const char *key, int otherwise) { return (int)spec_value(spec, key, otherwise); }

const char *spec_unused(const Spec *spec)
{
    for (int o = 0; o < spec->options; o++)
        if (!spec->option[o].used) return spec->option[o].key;
    return NULL;
}

void hypre_check(int error, const char *call)
{
    char description[256];
    if (error == 0) return;
    /* A solve that meets infinities says "generic error": its residual will show it. */
    int forgiven = strstr(call, "Solve(") ? HYPRE_ERROR_CONV | HYPRE_ERROR_GENERIC : HYPRE_ERROR_CONV;
    if (error & ~forgiven) {
        HYPRE_DescribeError(error, description);
        fprintf(stderr, "compare: %s failed with error %d:\n%s\n", call, error, description);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    HYPRE_ClearAllErrors();
}
