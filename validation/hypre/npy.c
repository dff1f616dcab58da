#include "npy.h"

#include "problem.h"

#include <stdlib.h>
#include <string.h>

static const unsigned char MAGIC[] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

FILE *npy_open(const char *path, int nx, int ny, int nz, long *start)
{
    unsigned char head[12];
    char header[1024], shape[96];
    FILE *file = fopen(path, "rb");
    if (!file) {
        complain("cannot open %s", path);
        return NULL;
    }
    size_t length = 0;
    /* Version 1 has two bytes of length, the later ones four. */
    if (fread(head, 1, 10, file) == 10 && memcmp(head, MAGIC, sizeof MAGIC) == 0) {
        length = head[8] | (size_t)head[9] << 8;
        *start = 10;
        if (head[6] > 1 && fread(head + 10, 1, 2, file) == 2) {
            length |= (size_t)head[10] << 16 | (size_t)head[11] << 24;
            *start = 12;
        }
    }
    if (length == 0 || length >= sizeof header || fread(header, 1, length, file) != length) {
        complain("%s is no .npy file", path);
        fclose(file);
        return NULL;
    }
    header[length] = '\0';
    *start += (long)length;
    snprintf(shape, sizeof shape, "(%d, %d, %d)", nz, ny, nx);
    if (!strstr(header, "'<f8'") || !strstr(header, "False") || !strstr(header, shape)) {
        complain("%s holds no double-precision values of shape %s in C order: %s", path, shape, header);
        fclose(file);
        return NULL;
    }
    return file;
}

int npy_read(FILE *file, long start, size_t index, size_t count, double *values)
{
    return fseek(file, start + (long)(index * sizeof *values), SEEK_SET) == 0 &&
           fread(values, sizeof *values, count, file) == count;
}

FILE *npy_create(const char *path, int nx, int ny, int nz)
{
    char header[119];
    FILE *file = fopen(path, "wb");
    if (!file) {
        complain("cannot write %s", path);
        return NULL;
    }
    int length = snprintf(header, sizeof header, "{'descr': '<f8', 'fortran_order': False, 'shape': (%d, %d, %d), }", nz, ny, nx);
    memset(header + length, ' ', sizeof header - (size_t)length);
    header[117] = '\n'; /* with the 10 bytes before it, the header is 128 bytes long */
    fwrite(MAGIC, 1, sizeof MAGIC, file);
    fwrite("\1\0\166\0", 1, 4, file);
    fwrite(header, 1, 118, file);
    return file;
}
