// Copies of rows between matrices with different rows of one grid, of which some are messages between GPUs. Block 256, threads loop.
#include "galerkin/setup/setup.cuh"

// Rows of a matrix, or of other fields of cells, from `first` on, an even number; `cells` from one field to the next, which have `ny` rows.
struct Rows {
    Number* fields;
    long long cells;
    int ny, first;
};

// Copies `rows` rows of fields with so many columns.
KERNEL(copy_rows, __launch_bounds__(256))(Rows from, Rows to, int fields, int rows, int columns, Divisor by_rows) {
    await_previous();
    const unsigned int all = (unsigned int)rows * columns;
    for (unsigned int n = blockIdx.x * 256 + threadIdx.x; n < all; n += 256 * gridDim.x) {
        const unsigned int column = quotient(n, by_rows);
        const int row = unfolded(n - column * rows, rows);
        const Number* source = from.fields + folded(from.first + row, from.ny) + (unsigned int)from.ny * column;
        Number* target = to.fields + folded(to.first + row, to.ny) + (unsigned int)to.ny * column;
        for (int field = 0; field < fields; field++) target[field * to.cells] = source[field * from.cells];
    }
}
