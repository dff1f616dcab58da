/* Files of NumPy's format .npy with double-precision fields of shape (nz, ny, nx). */
#ifndef COMPARE_NPY_H
#define COMPARE_NPY_H

#include <stdio.h>

/* Opens a file of that shape for npy_read; NULL with a message on standard error if it is none. */
FILE *npy_open(const char *path, int nx, int ny, int nz, long *start);

/* The `count` values from number `index` on; 0 if the file ends before. */
int npy_read(FILE *file, long start, size_t index, size_t count, double *values);

/* A new file with its header written; the nz ny nx values follow. NULL with a message on standard error. */
FILE *npy_create(const char *path, int nx, int ny, int nz);

#endif
