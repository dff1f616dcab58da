/* -div(kappa grad u) + c u by cell-centred finite volumes on equal cells: between two cells the harmonic mean of kappa,
 * from a cell to a side where u is given half the distance. */
#include "material.h"
#include "operator.h"

#include <math.h>
#include <stdlib.h>

typedef struct {
    double *kappa;    /* of this rank's cells and one more all round: 0 beyond a side that is not periodic */
    double factor[3]; /* area of a face over the distance of centres, times the ratio in z */
    double reaction;  /* c times the volume of a cell */
} Diffusion;

static size_t place(const Operator *op, int i, int j, int k)
{
    return (size_t)(i + 1) + ((size_t)op->mine.ni + 2) * ((size_t)(j + 1) + ((size_t)op->mine.nj + 2) * (size_t)(k + 1));
}

/* The cell of the whole grid that stands at position n of n_cells, or -1 beyond a side. */
static int wrapped(int n, int cells, Side side)
{
    if (n >= 0 && n < cells) return n;
    return side == SIDE_PERIODIC ? (n + cells) % cells : -1;
}

static int fill_kappa(const Operator *op, Material *material, double *kappa)
{
    const Problem *p = &op->problem;
    const Patch *mine = &op->mine;
    double *line = allocate((size_t)p->nx, sizeof *line);
    int good = 1;
    for (int k = -1; good && k <= p->nz; k++)
        for (int j = -1; good && j <= mine->nj; j++) {
            int gj = wrapped(mine->j0 + j, p->ny, p->side[SOUTH]), gk = wrapped(k, p->nz, p->side[BELOW]);
            int inside = gj >= 0 && gk >= 0;
            if (inside) good = material_line(material, gj, gk, line);
            for (int i = -1; i <= mine->ni; i++) {
                int gi = wrapped(mine->i0 + i, p->nx, p->side[WEST]);
                kappa[place(op, i, j, k)] = inside && gi >= 0 ? line[gi] : 0;
            }
        }
    free(line);
    return good;
}

static void destroy(void *coefficients)
{
    Diffusion *d = coefficients;
    free(d->kappa);
    free(d);
}

static int kappa_is_usable(const Operator *op, const double *kappa)
{
    int bad = 0, any;
    for (int k = 0; k < op->problem.nz; k++)
        for (int j = 0; j < op->mine.nj; j++)
            for (int i = 0; i < op->mine.ni; i++) {
                double value = kappa[place(op, i, j, k)];
                bad |= !(value >= 0 && isfinite(value));
            }
    MPI_Allreduce(&bad, &any, 1, MPI_INT, MPI_MAX, op->comm);
    if (any) complain("a coefficient is negative or not finite");
    return !any;
}

static void *create(const Operator *op)
{
    const Problem *p = &op->problem;
    Material *material = material_create(p);
    if (!material) return NULL;
    double width[3] = {p->size[0] / p->nx, p->size[1] / p->ny, p->size[2] / p->nz}, volume = width[0] * width[1] * width[2];
    Diffusion *d = allocate(1, sizeof *d);
    *d = (Diffusion){.kappa = allocate(((size_t)op->mine.ni + 2) * ((size_t)op->mine.nj + 2) * ((size_t)p->nz + 2), sizeof(double)),
                     .reaction = p->reaction * volume};
    for (int a = 0; a < 3; a++) d->factor[a] = volume / (width[a] * width[a]) * (a == 2 ? p->ratio : 1);
    int filled = fill_kappa(op, material, d->kappa) && kappa_is_usable(op, d->kappa);
    material_destroy(material);
    if (filled) return d;
    destroy(d);
    return NULL;
}

static double harmonic_mean(double a, double b) { return a > 0 && b > 0 ? 2 * a * b / (a + b) : 0; }

/* The couplings of a cell; returns the diagonal entry, 0 where nothing holds the cell or it has no coefficient. */
static double couplings(const Operator *op, int i, int j, int k, double entry[ENTRIES])
{
    const Problem *p = &op->problem;
    const Diffusion *d = op->coefficients;
    const double *here = d->kappa + place(op, i, j, k);
    const ptrdiff_t step[3] = {1, op->mine.ni + 2, (ptrdiff_t)(op->mine.ni + 2) * (op->mine.nj + 2)};
    const int at[3] = {op->mine.i0 + i, op->mine.j0 + j, k}, cells[3] = {p->nx, p->ny, p->nz};
    double sum = *here > 0 ? d->reaction : 0;
    for (int a = 0; a < 3; a++) {
        int lower = WEST + 2 * a, upper = lower + 1;
        entry[lower] = -d->factor[a] * harmonic_mean(*here, here[-step[a]]);
        entry[upper] = -d->factor[a] * harmonic_mean(*here, here[step[a]]);
        sum -= entry[lower] + entry[upper];
        if (at[a] == 0 && p->side[lower] == SIDE_DIRICHLET) sum += 2 * d->factor[a] * *here;
        if (at[a] == cells[a] - 1 && p->side[upper] == SIDE_DIRICHLET) sum += 2 * d->factor[a] * *here;
    }
    return sum;
}

/* A cell that takes no part has the row of the identity, since hypre's grids cannot leave single cells out: nothing couples
 * to it, and u is 0 there. */
static void row(const Operator *op, int i, int j, int k, double entry[ENTRIES])
{
    double diagonal = couplings(op, i, j, k, entry);
    entry[CENTRE] = diagonal > 0 ? diagonal : 1;
}

static int is_active(const Operator *op, int i, int j, int k)
{
    double entry[ENTRIES];
    return couplings(op, i, j, k, entry) > 0;
}

static size_t cell_number(const Problem *p, size_t i, size_t j, size_t k)
{
    return i + (size_t)p->nx * (j + (size_t)p->ny * k);
}

const Kind diffusion_kind = {create, row, is_active, destroy, cell_number};
