/* Coefficient fields: made here by the recipes of isobar, or read from a file. */
#ifndef COMPARE_MATERIAL_H
#define COMPARE_MATERIAL_H

#include "problem.h"

typedef struct Material Material;

/* NULL with a message on standard error if the file cannot be read or the bubbles find no room. */
Material *material_create(const Problem *problem);
void material_destroy(Material *material);

/* kappa of the line of cells (., j, k) of the whole grid. 0 if the file ends too early. */
int material_line(Material *material, int j, int k, double *kappa);

#endif
