#include "operator.h"

#include "npy.h"

#include <stdio.h>
#include <stdlib.h>

size_t operator_cells(const Operator *op)
{
    return (size_t)op->mine.ni * (size_t)op->mine.nj * (size_t)op->problem.nz;
}

static void split(int n, int parts, int part, int *start, int *length)
{
    int base = n / parts, rest = n % parts;
    *length = base + (part < rest);
    *start = part * base + (part < rest ? part : rest);
}

/* Cells are split horizontally only: a column never leaves its rank, which is what suits vertical
 * semicoarsening best. y is cut first, so that the faces exchanged are contiguous runs of x. */
static int decompose(Operator *op, MPI_Comm world)
{
    int dims[2] = {0, 0}, coords[2];
    int periods[2] = {op->problem.side[SOUTH] == SIDE_PERIODIC, op->problem.side[WEST] == SIDE_PERIODIC};
    MPI_Comm_size(world, &op->ranks);
    MPI_Dims_create(op->ranks, 2, dims); /* descending: dims[0], the y direction, gets the larger */
    if (dims[0] > op->problem.ny || dims[1] > op->problem.nx) {
        complain("%d x %d columns are too few for %d x %d ranks", op->problem.nx, op->problem.ny, dims[1],
                 dims[0]);
        return 0;
    }
    MPI_Cart_create(world, 2, dims, periods, 0, &op->comm);
    MPI_Comm_rank(op->comm, &op->rank);
    MPI_Cart_shift(op->comm, 1, 1, &op->neighbour[WEST], &op->neighbour[EAST]);
    MPI_Cart_shift(op->comm, 0, 1, &op->neighbour[SOUTH], &op->neighbour[NORTH]);
    op->patches = allocate((size_t)op->ranks, sizeof *op->patches);
    for (int r = 0; r < op->ranks; r++) {
        Patch *p = &op->patches[r];
        MPI_Cart_coords(op->comm, r, 2, coords);
        split(op->problem.nx, dims[1], coords[1], &p->i0, &p->ni);
        split(op->problem.ny, dims[0], coords[0], &p->j0, &p->nj);
    }
    op->mine = op->patches[op->rank];
    return 1;
}

Operator *operator_create(const Problem *problem, MPI_Comm world)
{
    Operator *op = allocate(1, sizeof *op);
    *op = (Operator){.problem = *problem, .kind = problem->is_diffusion ? &diffusion_kind : &tensor_product_kind};
    if (!decompose(op, world)) {
        free(op);
        return NULL;
    }
    op->coefficients = op->kind->create(op);
    if (op->coefficients) return op;
    free(op->patches);
    MPI_Comm_free(&op->comm);
    free(op);
    return NULL;
}

void operator_destroy(Operator *op)
{
    op->kind->destroy(op->coefficients);
    free(op->patches);
    MPI_Comm_free(&op->comm);
    free(op);
}

void operator_row(const Operator *op, int i, int j, int k, double entry[ENTRIES]) { op->kind->row(op, i, j, k, entry); }

typedef struct {
    double *send, *receive;
    int count;
} Halo;

/* Sends the layer next to side `s` to the neighbour there; the opposite neighbour's arrives in return. */
static void exchange(const Operator *op, const double *u, int s, Halo *halo)
{
    static const int opposite[ENTRIES] = {CENTRE, EAST, WEST, NORTH, SOUTH, ABOVE, BELOW};
    int ni = op->mine.ni, nj = op->mine.nj, nz = op->problem.nz, across = s <= EAST;
    int length = across ? nj : ni, fixed = s == EAST ? ni - 1 : s == NORTH ? nj - 1 : 0;
    Halo *into = &halo[opposite[s]];
    for (int k = 0; k < nz; k++)
        for (int l = 0; l < length; l++) {
            size_t i = (size_t)(across ? fixed : l), j = (size_t)(across ? l : fixed);
            halo[s].send[(size_t)l + (size_t)length * (size_t)k] =
                u[i + (size_t)ni * (j + (size_t)nj * (size_t)k)];
        }
    MPI_Sendrecv(halo[s].send, halo[s].count, MPI_DOUBLE, op->neighbour[s], s, into->receive, into->count,
                 MPI_DOUBLE, op->neighbour[opposite[s]], s, op->comm, MPI_STATUS_IGNORE);
}

void operator_apply(const Operator *op, const double *u, double *v)
{
    int ni = op->mine.ni, nj = op->mine.nj, nz = op->problem.nz;
    Halo halo[ENTRIES];
    for (int s = WEST; s <= NORTH; s++) {
        halo[s].count = (s <= EAST ? nj : ni) * nz;
        halo[s].send = allocate((size_t)halo[s].count, sizeof(double));
        halo[s].receive = allocate((size_t)halo[s].count, sizeof(double));
        for (int l = 0; l < halo[s].count; l++) halo[s].receive[l] = 0; /* outside the domain */
    }
    for (int s = WEST; s <= NORTH; s++) exchange(op, u, s, halo);
    size_t row = (size_t)ni, plane = row * (size_t)nj;
    for (int k = 0; k < nz; k++)
        for (int j = 0; j < nj; j++)
            for (int i = 0; i < ni; i++) {
                size_t m = (size_t)i + row * (size_t)j + plane * (size_t)k;
                size_t mj = (size_t)j + (size_t)nj * (size_t)k, mi = (size_t)i + row * (size_t)k;
                double e[ENTRIES];
                operator_row(op, i, j, k, e);
                double sum = e[CENTRE] * u[m];
                sum += e[WEST] * (i > 0 ? u[m - 1] : halo[WEST].receive[mj]);
                sum += e[EAST] * (i < ni - 1 ? u[m + 1] : halo[EAST].receive[mj]);
                sum += e[SOUTH] * (j > 0 ? u[m - row] : halo[SOUTH].receive[mi]);
                sum += e[NORTH] * (j < nj - 1 ? u[m + row] : halo[NORTH].receive[mi]);
                /* Where z is not periodic, the entries that leave the domain are 0. */
                sum += e[BELOW] * (k > 0 ? u[m - plane] : u[m + (size_t)(nz - 1) * plane]);
                sum += e[ABOVE] * (k < nz - 1 ? u[m + plane] : u[m - (size_t)(nz - 1) * plane]);
                v[m] = sum;
            }
    for (int s = WEST; s <= NORTH; s++) {
        free(halo[s].send);
        free(halo[s].receive);
    }
}

double field_dot(const Operator *op, const double *u, const double *v)
{
    size_t cells = operator_cells(op);
    double sum = 0, total;
    for (size_t m = 0; m < cells; m++) sum += u[m] * v[m];
    MPI_Allreduce(&sum, &total, 1, MPI_DOUBLE, MPI_SUM, op->comm);
    return total;
}

void field_constant(const Operator *op, double *u)
{
    size_t cells = operator_cells(op);
    for (size_t m = 0; m < cells; m++) u[m] = 1;
}

/* The random field that isobar makes too: a hash of the cell's number in isobar's order. */
void field_random(const Operator *op, unsigned long long seed, double *u)
{
    const Patch *mine = &op->mine;
    for (int k = 0; k < op->problem.nz; k++)
        for (int j = 0; j < mine->nj; j++)
            for (int i = 0; i < mine->ni; i++) {
                size_t n = op->kind->number(&op->problem, (size_t)(mine->i0 + i), (size_t)(mine->j0 + j), (size_t)k);
                *u++ = random_number(seed, n);
            }
}

int field_read(const Operator *op, const char *path, double *u)
{
    const Problem *p = &op->problem;
    const Patch *mine = &op->mine;
    long start;
    int mistakes = 0, all;
    FILE *file = npy_open(path, p->nx, p->ny, p->nz, &start);
    for (int k = 0; file && k < p->nz; k++)
        for (int j = 0; j < mine->nj; j++, u += mine->ni) {
            size_t index = (size_t)mine->i0 + (size_t)p->nx * ((size_t)(mine->j0 + j) + (size_t)p->ny * (size_t)k);
            mistakes += !npy_read(file, start, index, (size_t)mine->ni, u);
        }
    if (file) fclose(file);
    if (mistakes > 0) fprintf(stderr, "compare: %s ends too early\n", path);
    mistakes += !file;
    MPI_Allreduce(&mistakes, &all, 1, MPI_INT, MPI_SUM, op->comm);
    return all == 0;
}

void field_mask(const Operator *op, double *u)
{
    for (int k = 0; k < op->problem.nz; k++)
        for (int j = 0; j < op->mine.nj; j++)
            for (int i = 0; i < op->mine.ni; i++, u++)
                if (!op->kind->is_active(op, i, j, k)) *u = 0;
}

void field_remove_mean(const Operator *op, double *u)
{
    size_t cells = operator_cells(op);
    double *ones = allocate(cells, sizeof *ones);
    field_constant(op, ones);
    field_mask(op, ones);
    double mean = field_dot(op, ones, u) / field_dot(op, ones, ones);
    for (size_t m = 0; m < cells; m++) u[m] -= mean * ones[m];
    free(ones);
}
