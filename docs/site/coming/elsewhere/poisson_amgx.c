/* −∇²u = 1 in the unit square, u = 0 on its sides, by AmgX's conjugate gradients with algebraic multigrid.
 *
 *   nvcc poisson_amgx.c -lamgxsh -o poisson_amgx
 */
#include <amgx_c.h>

#include <stdio.h>

enum { N = 100 };

static int starts[N * N + 1], columns[5 * N * N];
static double entries[5 * N * N], f[N * N], u[N * N];

int main(void)
{
    AMGX_config_handle options;
    AMGX_resources_handle device;
    AMGX_matrix_handle A;
    AMGX_vector_handle b, x;
    AMGX_solver_handle solver;
    AMGX_initialize();
    AMGX_config_create(&options, "config_version=2, solver(cg)=PCG, cg:tolerance=1e-8, cg:convergence=RELATIVE_INI, cg:norm=L2, "
                                 "cg:monitor_residual=1, cg:max_iters=500, cg:preconditioner(mg)=AMG, mg:max_iters=1");
    AMGX_resources_create_simple(&device, options);
    AMGX_matrix_create(&A, device, AMGX_mode_dDDI);
    AMGX_vector_create(&b, device, AMGX_mode_dDDI);
    AMGX_vector_create(&x, device, AMGX_mode_dDDI);
    AMGX_solver_create(&solver, device, AMGX_mode_dDDI, options);

    int count = 0;
    for (int n = 0; n < N * N; ++n) {
        int i = n % N, j = n / N, neighbours[4] = {n - N, n - 1, n + 1, n + N}, is_there[4] = {j > 0, i > 0, i < N - 1, j < N - 1};
        starts[n] = count;
        for (int d = 0; d < 4; ++d) {
            if (d == 2) { /* in the order of columns */
                columns[count] = n;
                entries[count++] = 4.0 + !is_there[0] + !is_there[1] + !is_there[2] + !is_there[3];
            }
            if (is_there[d]) {
                columns[count] = neighbours[d];
                entries[count++] = -1.0;
            }
        }
        f[n] = 1.0 / (N * N);
    }
    starts[N * N] = count;
    AMGX_matrix_upload_all(A, N * N, count, 1, 1, starts, columns, entries, NULL);
    AMGX_vector_upload(b, N * N, 1, f);
    AMGX_vector_set_zero(x, N * N, 1);
    AMGX_solver_setup(solver, A);
    AMGX_solver_solve_with_0_initial_guess(solver, b, x);
    AMGX_vector_download(x, u);

    double largest = 0.0;
    for (int n = 0; n < N * N; ++n)
        if (u[n] > largest)
            largest = u[n];
    printf("largest u: %.6f\n", largest);
    AMGX_solver_destroy(solver);
    AMGX_vector_destroy(x);
    AMGX_vector_destroy(b);
    AMGX_matrix_destroy(A);
    AMGX_resources_destroy(device);
    AMGX_config_destroy(options);
    AMGX_finalize();
    return 0;
}
