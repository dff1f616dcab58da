// Solves with arrays on the GPU, after and before other work in the caller's stream: of a case, and of diffusion with its coefficients there.
//
//   cargo build --release -p isobar-c
//   nvcc -I crates/isobar-c/include crates/isobar-c/examples/solve.cu -L target/release -lisobar_c -Xlinker -rpath,$PWD/target/release -o solve_cu
#include <isobar.h>

#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

constexpr std::size_t NX = 128, NY = 128, NZ = 64, CELLS = NX * NY * NZ;

static void check(std::int32_t code)
{
    if (code != ISOBAR_OK) {
        std::fprintf(stderr, "isobar: %s\n", isobar_last_error());
        std::exit(EXIT_FAILURE);
    }
}

static void check(cudaError_t error)
{
    if (error != cudaSuccess) {
        std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(error));
        std::exit(EXIT_FAILURE);
    }
}

// b = 1 in the western half, −1 in the eastern one.
__global__ void fill(double *b)
{
    std::size_t n = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x;
    if (n < CELLS)
        b[n] = n % NX < NX / 2 ? 1.0 : -1.0;
}

static isobar_array on_card(double *data, cudaStream_t stream)
{
    isobar_array array = isobar_host_array(data, NZ, NY, NX, ISOBAR_F64);
    array.device = 0;
    array.stream = stream;
    return array;
}

// κ = 1 in the western half, another one in the eastern half.
__global__ void fill_halves(double *kappa, double east)
{
    std::size_t n = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x;
    if (n < CELLS)
        kappa[n] = n % NX < NX / 2 ? 1.0 : east;
}

// −∇·(κ∇u) = 0 with u = 1 in the west and u = 0 in the east, for one κ after the other; nothing is copied to the host but a number.
static void diffusion(double *kappa, double *b, double *u, cudaStream_t stream)
{
    isobar_array coefficient = on_card(kappa, stream), rhs = on_card(b, stream), solution = on_card(u, stream);
    isobar_diffusion box = {};
    box.size = sizeof box;
    box.kappa = &coefficient;
    box.sides[0][0] = {ISOBAR_DIRICHLET, 1.0};
    box.sides[0][1] = {ISOBAR_DIRICHLET, 0.0};
    isobar_solver *solver = nullptr;
    for (double east : {4.0, 9.0}) {
        fill_halves<<<(CELLS + 255) / 256, 256, 0, stream>>>(kappa, east);
        isobar_problem *problem;
        check(isobar_problem_diffusion(&box, &problem));
        if (solver)
            check(isobar_solver_update(solver, problem));
        else
            check(isobar_solver_create(problem, "tolerance = 1e-10", "cuda:0", 0, &solver));
        check(isobar_problem_rhs(problem, nullptr, &rhs));
        check(isobar_solver_solve(solver, &rhs, &solution, 0, nullptr, nullptr));
        isobar_problem_free(problem);
        double first;
        check(cudaMemcpyAsync(&first, u, sizeof first, cudaMemcpyDeviceToHost, stream));
        check(cudaStreamSynchronize(stream));
        // Two halves in series.
        double flow = 1.0 / (0.5 + 0.5 / east);
        std::printf("%.6e, exactly %.6e\n", first, 1.0 - flow / (2 * NX));
    }
    isobar_solver_free(solver);
}

int main()
{
    const char *text = "[problem]\nkind = \"helmholtz\"\n[grid]\nnx = 128\nny = 128\nnz = 64\n";
    isobar_problem *problem;
    isobar_solver *solver;
    check(isobar_problem_from_case(text, nullptr, &problem));
    check(isobar_solver_create(problem, "tolerance = 1e-8", "cuda:0", 0, &solver));

    cudaStream_t stream;
    double *b, *u, host[4];
    check(cudaStreamCreate(&stream));
    check(cudaMalloc(&b, CELLS * sizeof *b));
    check(cudaMalloc(&u, CELLS * sizeof *u));
    fill<<<(CELLS + 255) / 256, 256, 0, stream>>>(b);

    isobar_array rhs = on_card(b, stream), solution = on_card(u, stream);
    check(isobar_solver_solve(solver, &rhs, &solution, 0, nullptr, nullptr));
    check(cudaMemcpyAsync(host, u, sizeof host, cudaMemcpyDeviceToHost, stream));
    check(cudaStreamSynchronize(stream));
    std::printf("%.6e %.6e %.6e %.6e\n", host[0], host[1], host[2], host[3]);

    isobar_solver_free(solver);
    isobar_problem_free(problem);
    double *kappa;
    check(cudaMalloc(&kappa, CELLS * sizeof *kappa));
    diffusion(kappa, b, u, stream);
    check(cudaFree(kappa));
    check(cudaFree(b));
    check(cudaFree(u));
    check(cudaStreamDestroy(stream));
    return EXIT_SUCCESS;
}
