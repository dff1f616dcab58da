/* isobar: fast solvers for the linear systems of structured-grid PDEs.
 *
 * For C99 or newer, and C++.
 *
 * Made by cbindgen from the sources of isobar-c; `UPDATE_HEADER=1 cargo test -p isobar-c --test header` makes it anew. */

#ifndef ISOBAR_H
#define ISOBAR_H

#include <stddef.h>
#include <stdint.h>

// The major version of this header; isobar_version returns that of the library which is linked.
#define ISOBAR_VERSION_MAJOR 0

// The minor version of this header.
#define ISOBAR_VERSION_MINOR 2

// The patch version of this header.
#define ISOBAR_VERSION_PATCH 0

// Elements are `double`.
#define ISOBAR_F64 0

// Elements are `float`.
#define ISOBAR_F32 1

// Elements are bytes, 0 or not 0; for masks only.
#define ISOBAR_U8 2

// The array is in host memory.
#define ISOBAR_HOST -1

// The Crank–Nicolson scheme: second order; the energy does not grow in any step.
#define ISOBAR_CRANK_NICOLSON 0

// The backward Euler scheme: first order; smooths rough states immediately.
#define ISOBAR_BACKWARD_EULER 1

// Neumann condition: no flow, or a given flux κ ∂u/∂n into the domain, per area.
#define ISOBAR_NEUMANN 0

// Dirichlet condition: a given value of u.
#define ISOBAR_DIRICHLET 1

// Periodic condition; the opposite side must be periodic too.
#define ISOBAR_PERIODIC 2

// Robin condition: a flux h (u − v) out of the domain, per area. v is the side's value, h is in `coefficients` of isobar_diffusion.
#define ISOBAR_ROBIN 3

// Success; for a solve, converged.
#define ISOBAR_OK 0

// An invalid argument, key or value.
#define ISOBAR_INVALID 1

// A solve stopped before it converged; u holds the best iterate, and the report says more.
#define ISOBAR_NOT_CONVERGED 2

// The progress function stopped the solve.
#define ISOBAR_INTERRUPTED 3

// The device, its driver or its compiler failed or is missing.
#define ISOBAR_DEVICE 4

// Not enough memory.
#define ISOBAR_OUT_OF_MEMORY 5

// A valid combination that is not supported.
#define ISOBAR_UNSUPPORTED 6

// The handle is in use by another thread, or by its own progress function.
#define ISOBAR_BUSY 7

// An internal error of isobar; free the handle that was used.
#define ISOBAR_INTERNAL 8

// A run of the heat equation u_t = ∇·(κ∇u) − c u + f: its state u and all memory that the steps need, on one device.
typedef struct isobar_heat isobar_heat;

// A linear system A u = b as data. It may be freed once a solver has been made from it.
typedef struct isobar_problem isobar_problem;

// The ranks of an MPI communicator.
typedef struct isobar_ranks isobar_ranks;

// A solver with all its memory, on one device. It does not refer to the problem that it was made from.
typedef struct isobar_solver isobar_solver;

// An array with one value per cell in C order: `double u[nz][ny][nx]` has shape {nz, ny, nx}. A Fortran array u(nx, ny, nz) has the same
// memory layout.
typedef struct {
  // Address of element (0, 0, 0); may be null if the array has no elements.
  void *data;
  // {nz, ny, nx}
  size_t shape[3];
  // Strides in bytes, in the order of `shape`; all 0 means contiguous.
  ptrdiff_t strides[3];
  // ISOBAR_F64 or ISOBAR_F32; for a mask also ISOBAR_U8.
  int32_t dtype;
  // ISOBAR_HOST, or the number of the CUDA device whose memory holds the array.
  int32_t device;
  // For an array on a device, the cudaStream_t of the caller's work: isobar waits for the work submitted to it before the call, and
  // later work in it may use the result. Null if the caller's work on the array is finished.
  void *stream;
} isobar_array;

// A matrix of conductances between neighbours, such as those of finite volumes on unequal cells, of cut cells and of networks:
//
// (A u)_n = s_n u_n + Σ T_nm (u_n − u_m)
//
// Arrays are in host memory or in that of a GPU, and isobar_problem_faces copies them: where all are on one GPU, there, and then the solver is on that GPU, and the
// arrays of isobar_problem_rhs are there; else to host memory. Derivatives are computed on the host, from a copy that is made once.
typedef struct {
  // sizeof(isobar_faces), which identifies the version of this struct.
  size_t size;
  // {nz, ny, nx}: numbers of cells.
  size_t shape[3];
  // T between neighbours in x, shape {nz, ny, nx − 1}, or {nz, ny, nx} if x is periodic, not negative; null means 0.
  const isobar_array *tx;
  // T between neighbours in y, shape {nz, ny − 1, nx}, or {nz, ny, nx}; null means 0.
  const isobar_array *ty;
  // T between neighbours in z, shape {nz − 1, ny, nx}, or {nz, ny, nx}; null means 0.
  const isobar_array *tz;
  // s of every cell, such as the conductance to a side with a given value, of which b then contains s times that value; null means 0.
  const isobar_array *shift;
  // 1 in active cells, 0 in others, whose faces are closed. May also be ISOBAR_U8. Null means all cells with a conductance or a shift; what b has in
  // others is left out. With a mask, b must be 0 in active cells that have neither.
  const isobar_array *active;
  // Whether x, y and z are periodic (not 0): the last T along such a direction is between the last cell and the first.
  int32_t periodic[3];
} isobar_faces;

// Outputs for the derivatives of a number J(u). A null pointer means that a derivative is not wanted; with all members 0 except `size`,
// none is computed. Arrays have the grid's shape, and are in host memory or in that of a GPU. Derivatives with respect to κ, c, f, sides and widths need a
// problem from isobar_problem_diffusion.
typedef struct {
  // sizeof(isobar_gradient), which identifies the version of this struct.
  size_t size;
  // 0: b is from isobar_problem_rhs and changes with κ, sides and widths. Not 0: b is fixed.
  int32_t fixed_b;
  // ∂J/∂b = A⁻¹ ∂J/∂u
  const isobar_array *b;
  // ∂J/∂κ; includes κ of y and z unless the problem has separate ones. 0 where κ = 0, because closed cells stay closed.
  const isobar_array *kappa;
  // ∂J/∂κ_y, for problems with a separate κ in y.
  const isobar_array *kappa_y;
  // ∂J/∂κ_z, for problems with a separate κ in z.
  const isobar_array *kappa_z;
  // ∂J/∂c
  const isobar_array *reaction;
  // ∂J/∂f
  const isobar_array *f;
  // Derivatives with respect to the values or fluxes of each side's faces, in the order of isobar_diffusion.side_values.
  double *side_values[3][2];
  // Derivatives with respect to h of each ISOBAR_ROBIN side's faces; 0 on other sides.
  double *side_coefficients[3][2];
  // Derivatives with respect to the widths of cells in x, y and z: nx, ny and nz numbers.
  double *widths[3];
  // Derivatives with respect to the conductances of isobar_faces, in x, y and z, of the shapes of tx, ty and tz; for a problem from
  // isobar_problem_faces.
  const isobar_array *faces[3];
  // ∂J/∂s, for a problem from isobar_problem_faces.
  const isobar_array *shift;
  // An input: the source density f, needed for derivatives with respect to widths if b has a source.
  const isobar_array *density;
} isobar_gradient;

// Options of time steps. With all members 0 except `size`, `dt` and `end_time`: Crank–Nicolson with steps of equal length.
typedef struct {
  // sizeof(isobar_time_steps), which identifies the version of this struct.
  size_t size;
  // Length of a step; with a step tolerance, of the first step.
  double dt;
  // End time; a run begins at 0, and the last step is shortened if necessary.
  double end_time;
  // 0: steps of equal length. Otherwise step lengths are chosen so that the estimated error of each step, relative to the state, stays below this.
  double step_tolerance;
  // ISOBAR_CRANK_NICOLSON or ISOBAR_BACKWARD_EULER.
  int32_t scheme;
  // Not 0: the first guess of a step is extrapolated linearly from the previous two states; 0: it is the previous state.
  int32_t extrapolates;
} isobar_time_steps;

// A progress function, called after every iteration; a return value other than 0 stops the solve. It is called on the thread that solves or on
// one of the solver's, with no floating-point exception trapped. It must not use that solver, and must return: a C++ exception or a longjmp that
// leaves it ends the program or is undefined.
typedef int32_t (*isobar_progress)(void *data,
                                   size_t iteration,
                                   double relative_residual);

// A step.
typedef struct {
  // Number of the step, from 1.
  size_t number;
  // Time at the end of the step.
  double time;
  // Length of the step.
  double dt;
  // Estimated error relative to the state with a step tolerance, else 0.
  double error;
  // True relative residual of its solve.
  double relative_residual;
  // Iterations of its solve.
  size_t iterations;
  // 1 if the end time is reached, else 0.
  int32_t is_last;
} isobar_step;

// The boundary condition on a side of the box. All members 0 means closed.
typedef struct {
  // ISOBAR_NEUMANN, ISOBAR_DIRICHLET, ISOBAR_PERIODIC or ISOBAR_ROBIN.
  int32_t kind;
  // The flux into the domain, the value of u, or v for ISOBAR_ROBIN.
  double value;
} isobar_side;

// The equation −∇·(κ∇u) + c u = f on a box of nx × ny × nz cells, by finite volumes. With all members 0 except `size` and `kappa` it is
// a unit box with closed sides. isobar_problem_diffusion copies the arrays. κ and c may all be in the memory of one GPU, and stay there: then `active` is
// null, the solver is on that GPU, and the arrays of isobar_problem_rhs are there. Derivatives, fluxes and time steps copy them to the host once, where those are
// computed.
typedef struct {
  // sizeof(isobar_diffusion), which identifies the version of this struct.
  size_t size;
  // κ in every cell, 0 in inactive cells; in x only if the next two are given.
  const isobar_array *kappa;
  // κ in y, or null if equal to that in x.
  const isobar_array *kappa_y;
  // κ in z, or null if equal to that in x.
  const isobar_array *kappa_z;
  // c in every cell, or null if 0.
  const isobar_array *reaction;
  // Not 0 in active cells; null means that all are active. May also be ISOBAR_U8.
  const isobar_array *active;
  // Widths of cells in x, y and z; 0 means 1/nx, 1/ny, 1/nz.
  double spacing[3];
  // Width of every cell in x, y and z, if they differ: nx, ny and nz numbers; or null.
  const double *widths[3];
  // Boundary conditions: west and east, south and north, bottom and top.
  isobar_side sides[3][2];
  // h of ISOBAR_ROBIN sides, not negative.
  double coefficients[3][2];
  // Value of every face of a side, if they differ, x fastest: ny × nz numbers for west and east, nx × nz for south and north, nx × ny for
  // bottom and top; or null. Every rank passes the values of the whole side.
  const double *side_values[3][2];
  // h of every face of a side, in the same way; or null.
  const double *side_coefficients[3][2];
} isobar_diffusion;

// A matrix with entries that are products of vertical vectors and horizontal fields:
//
// (A u)_{T,k} = |T| [(a_k − b_k − c_k) u_k + b_k u_{k+1} + c_k u_{k−1}] + d_k Σ α_{TT'} (u_{T',k} − u_{T,k})
typedef struct {
  // sizeof(isobar_tensor_product), which identifies the version of this struct.
  size_t size;
  // Columns in x.
  size_t nx;
  // Columns in y.
  size_t ny;
  // Layers.
  size_t nz;
  // a, nz numbers: mass.
  const double *a;
  // b, nz numbers: coupling to the layer above, not positive; the last is 0.
  const double *b;
  // c, nz numbers: coupling to the layer below, not positive; the first is 0.
  const double *c;
  // d, nz numbers: factors of the horizontal couplings, not positive.
  const double *d;
  // |T|, ny × nx numbers, x fastest: areas of cells.
  const double *area;
  // α of the faces between cells in x, ny × (nx + 1) numbers. On the outermost faces, 0 means Neumann and other values mean Dirichlet.
  const double *x_faces;
  // α of the faces between cells in y, (ny + 1) × nx numbers.
  const double *y_faces;
} isobar_tensor_product;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the version of the library, such as "0.2.0".
const char *isobar_version(void);

// Describes a contiguous host array of shape {nz, ny, nx}.
isobar_array isobar_host_array(void *data,
                               size_t nz,
                               size_t ny,
                               size_t nx,
                               int32_t dtype);

// Makes a problem from the conductances of faces. Its cells have no volumes: isobar_problem_rhs returns the inflow of each cell as it is.
//
// Asks of the caller:
// `description` and everything it points to are readable; `out` is writable.
int32_t isobar_problem_faces(const isobar_faces *description,
                             isobar_problem **out);

// Computes the derivatives of a number J(u) with respect to the problem's inputs from the solution u and `ubar` = ∂J/∂u. It takes one more solve
// with the same solver, since A is symmetric. `problem` is the one that the solver was made from or last updated with; `u` is the result of its last
// solve.
//
// Returns ISOBAR_NOT_CONVERGED, and writes nothing, if the last solve or the one for the derivatives did not converge. Errors of the derivatives are
// proportional to the solver's tolerance. Arrays are in host memory or in that of a GPU. If they and κ are on one GPU, derivatives with respect to b, κ, c and f
// are computed there, otherwise on the host. Grids divided among ranks are not supported.
//
// Asks of the caller:
// Handles are valid; arrays are as described; the outputs in `wanted` are writable.
int32_t isobar_solver_gradient(isobar_solver *solver,
                               const isobar_problem *problem,
                               const isobar_array *u,
                               const isobar_array *ubar,
                               const isobar_gradient *wanted);

// Begins a run of the heat equation. κ, c, sides and the grid are from a problem made by isobar_problem_diffusion; `source` is f in every cell, or
// null for 0; `u` is the initial state. `options`, `device` and `threads` are as for isobar_solver_create; the tolerance is relative to the first
// residual of each step, or to ‖b‖ where that is smaller. All arguments are copied. If the problem is divided among ranks, `source` and `u` are this rank's rows.
//
// Asks of the caller:
// `problem` is a valid handle, arrays and texts are as described, `out` is writable.
int32_t isobar_heat_create(const isobar_problem *problem,
                           const isobar_array *source,
                           const isobar_array *u,
                           const isobar_time_steps *steps,
                           const char *options,
                           const char *device,
                           size_t threads,
                           isobar_heat **out);

// Begins the run of a case file's text (TOML) of kind "heat", with its initial state. Relative paths in it are
// relative to `folder`; null means the working directory. Outputs and checkpoints of the case are ignored.
//
// Asks of the caller:
// Texts are null-terminated; `out` is writable.
int32_t isobar_heat_from_case(const char *text,
                              const char *folder,
                              const char *device,
                              size_t threads,
                              isobar_heat **out);

// Takes the next step and describes it in `step`, which may be null. `progress`, which may be null, is called in every iteration of its solve. After
// ISOBAR_NOT_CONVERGED or ISOBAR_INTERRUPTED the state is unchanged. A step after the last is ISOBAR_INVALID.
//
// Asks of the caller:
// `heat` is a valid handle; `step` is null or writable.
int32_t isobar_heat_step(isobar_heat *heat,
                         isobar_progress progress,
                         void *data,
                         isobar_step *step);

// Writes the current state to an array, in host memory or in that of the device.
//
// Asks of the caller:
// `heat` is a valid handle; the array is as described and not used elsewhere during the call.
int32_t isobar_heat_state(isobar_heat *heat,
                          const isobar_array *u);

// Replaces the current state, for models that change it between steps; the step number and the time continue.
//
// Asks of the caller:
// The conditions of isobar_heat_state.
int32_t isobar_heat_set_state(isobar_heat *heat,
                              const isobar_array *u);

// Changes coefficients, widths of cells, boundary values and sources from the next step on. The number of cells, the active cells, the kinds of sides, and
// whether cells have one volume must be the same; the state is kept.
//
// Asks of the caller:
// `heat` and `problem` are valid handles; `source` is null or an array.
int32_t isobar_heat_update(isobar_heat *heat,
                           const isobar_problem *problem,
                           const isobar_array *source);

// Computes the energy ½ ∫ κ|∇u|² of the current state plus the terms of c and f: ½ uᵀK u − sᵀu.
//
// Asks of the caller:
// `heat` is a valid handle; `energy` is writable.
int32_t isobar_heat_energy(isobar_heat *heat,
                           double *energy);

// Returns the report of the last step's solve, as isobar_solver_report does. The text is valid until the next call with this handle.
//
// Asks of the caller:
// `heat` is a valid handle; `text` is writable.
int32_t isobar_heat_report(isobar_heat *heat,
                           const char **text);

// Frees a run; null is allowed.
//
// Asks of the caller:
// `heat` is null, or a valid handle that is not used again.
void isobar_heat_free(isobar_heat *heat);

// Makes a problem from the text of a case file (TOML) of any kind except "heat". Relative paths in it are relative to `folder`; null
// means the working directory.
//
// Asks of the caller:
// Texts are null-terminated; `out` is writable.
int32_t isobar_problem_from_case(const char *text,
                                 const char *folder,
                                 isobar_problem **out);

// Makes a diffusion problem from arrays.
//
// Asks of the caller:
// `description` and everything it points to are readable; `out` is writable.
int32_t isobar_problem_diffusion(const isobar_diffusion *description,
                                 isobar_problem **out);

// Makes a problem from the profiles of a tensor-product matrix.
//
// Asks of the caller:
// `description` and everything it points to are readable; `out` is writable.
int32_t isobar_problem_tensor_product(const isobar_tensor_product *description,
                                      isobar_problem **out);

// Writes the shape of a problem's arrays, {nz, ny, nx}; if it is divided among ranks, that of this rank's rows.
//
// Asks of the caller:
// `problem` is a valid handle; `shape` has space for three numbers.
int32_t isobar_problem_shape(const isobar_problem *problem,
                             size_t *shape);

// Computes the right-hand side b for the source density f: f times the volume of every cell, plus boundary values, sources and
// wells. With `f` null it is the right-hand side of the case, or that of f = 0.
//
// Asks of the caller:
// `problem` is a valid handle; the arrays are as described.
int32_t isobar_problem_rhs(const isobar_problem *problem,
                           const isobar_array *f,
                           const isobar_array *b);

// Computes the flow out of the domain through a side for a solution u of diffusion in cells, and writes it to *total: through the lower side
// (`is_upper` 0) or the upper side (1) of x, y or z (`axis` 0, 1, 2). Inflow is negative. u may be in the memory of a GPU, and is then copied to the host.
//
// Asks of the caller:
// `problem` is a valid handle; the array is as described; `total` is writable.
int32_t isobar_problem_flux(const isobar_problem *problem,
                            const isobar_array *u,
                            int32_t axis,
                            int32_t is_upper,
                            double *total);

// Frees a problem; null is allowed.
//
// Asks of the caller:
// `problem` is null, or a valid handle that is not used again.
void isobar_problem_free(isobar_problem *problem);

// Makes ranks from a communicator of an MPI program, which calls MPI_Init before and MPI_Finalize after. `communicator` is an MPI_Fint: in Fortran
// the communicator itself, in C MPI_Comm_c2f(communicator), or MPI_Comm_toint(communicator) from MPI 5 on. Messages use a duplicate of the
// communicator, which is freed when this handle and everything made from it are freed.
//
// Calls with these ranks, including this first one, are collective: all ranks make them in the same order. If a call fails on one rank, it fails on
// all, with the code and the message of the first rank that failed; so does a call that differs from rank 0's. A null handle on one rank cannot be
// reported: the others wait. MPICH, Open MPI and the MPI 5 ABI are supported.
//
// Threads: if MPI was initialised with less than MPI_THREAD_SERIALIZED, the thread that initialised it must make these calls. With
// MPI_THREAD_SERIALIZED any thread may make them, and threads that use different ranks at the same time take turns inside isobar; but the program must
// not call MPI itself, in any thread, during such a call. With MPI_THREAD_MULTIPLE it may. Calls with the same ranks are made one at a time, and
// threads that make ranks do it in the same order on every rank.
//
// Asks of the caller:
// `ranks` is writable.
int32_t isobar_ranks_create(int32_t communicator,
                            isobar_ranks **ranks);

// Returns the rows in y that this rank has, of a grid with `ny` rows: `count` rows from row `first` on, counted from 0. Ranks have equal or nearly
// equal numbers of rows, and begin where coarser levels can be divided too.
//
// Asks of the caller:
// `ranks` is a valid handle; `first` and `count` are writable.
int32_t isobar_ranks_rows(const isobar_ranks *ranks,
                          size_t ny,
                          size_t *first,
                          size_t *count);

// Divides a problem, which every rank has made of the whole grid, among ranks. From then on, its arrays and those of solvers and runs made from it
// have this rank's rows only, {nz, count, nx}. All ranks make and use such a solver or run together, each on its share of the
// cores or on its GPU. A progress function on any rank can stop the solve.
//
// Asks of the caller:
// Both are valid handles.
int32_t isobar_problem_divide(isobar_problem *problem,
                              const isobar_ranks *ranks);

// Makes a diffusion problem that is divided among ranks, from arrays of this rank's rows of a grid with `ny` rows, {nz, count, nx};
// widths and sides are those of the whole grid. It is collective. Every rank keeps the coefficients of the whole grid.
//
// Asks of the caller:
// `description` and everything it points to are readable, `ranks` is a valid handle, `out` is writable.
int32_t isobar_problem_diffusion_rows(const isobar_diffusion *description,
                                      size_t ny,
                                      const isobar_ranks *ranks,
                                      isobar_problem **out);

// Frees ranks; null is allowed. Problems, solvers and runs made with them remain usable.
//
// Asks of the caller:
// `ranks` is null, or a valid handle that is not used again.
void isobar_ranks_free(isobar_ranks *ranks);

// Makes a solver. `options` are keys of a case file's section `[solver]` as TOML or as a JSON object, such as "tolerance = 1e-8"; null
// means the options of the problem's case, or defaults: a tolerance of 1e-5 relative to the residual of the first guess
// (norm = "initial"). `device` is "auto", "cpu", "cuda", "cuda:N", or several GPUs as "cuda:0,1"; null means "auto". `threads` is the number of
// CPU threads; 0 means one per core. If the problem is divided among ranks, "auto" means "cpu", "cuda" gives each rank a GPU, and 0 threads means this rank's share of the
// machine's cores.
//
// Asks of the caller:
// `problem` is a valid handle, texts are null-terminated, `out` is writable.
int32_t isobar_solver_create(const isobar_problem *problem,
                             const char *options,
                             const char *device,
                             size_t threads,
                             isobar_solver **out);

// Solves A u = b. The first guess is u = 0, or the content of `u` if `from_u` is not 0. `b` and `u` may be the same array, and
// may be in host memory or in that of the solver's device. `progress` may be null. Returns ISOBAR_OK if the true residual meets the
// tolerance; after ISOBAR_NOT_CONVERGED and ISOBAR_INTERRUPTED u holds the best iterate.
//
// Asks of the caller:
// `solver` is a valid handle; the arrays are as described and not used elsewhere during the call.
int32_t isobar_solver_solve(isobar_solver *solver,
                            const isobar_array *b,
                            const isobar_array *u,
                            int32_t from_u,
                            isobar_progress progress,
                            void *data);

// Solves A u = b for `count` right-hand sides, some at the same time; other threads then call `progress`, one at a time.
// `b[n]` and `u[n]` are as in isobar_solver_solve, and `u[n]` must not share memory with the b or u of another system. If `codes` is not null,
// `codes[n]` becomes ISOBAR_OK, ISOBAR_NOT_CONVERGED or ISOBAR_INTERRUPTED; after an interruption the remaining systems are not solved and get that
// code too. Returns ISOBAR_OK if all systems have it, otherwise the first other code; isobar_last_error then names the system.
// isobar_solver_report describes the last system. After any other error `codes` is unchanged.
//
// Asks of the caller:
// The conditions of isobar_solver_solve; `b`, `u` and `codes` have `count` entries.
int32_t isobar_solver_solve_many(isobar_solver *solver,
                                 const isobar_array *b,
                                 const isobar_array *u,
                                 size_t count,
                                 int32_t from_u,
                                 int32_t *codes,
                                 isobar_progress progress,
                                 void *data);

// Computes v = A u.
//
// Asks of the caller:
// The conditions of isobar_solver_solve.
int32_t isobar_solver_apply(isobar_solver *solver,
                            const isobar_array *u,
                            const isobar_array *v);

// Updates the solver in place with the coefficients of another problem, such as that of the next time step. Widths of cells and the values of sides
// may differ too. The number of cells, the kinds of sides, and whether there are c or Robin sides must be the same, and the problem must be divided
// among ranks if the solver is. A report or derivatives need a new solve.
//
// Asks of the caller:
// Both are valid handles.
int32_t isobar_solver_update(isobar_solver *solver,
                             const isobar_problem *problem);

// Returns the report of the last solve as JSON, with the keys of the command's --report; `checks` and the copy bandwidth are null. The text is valid
// until the next call with this solver.
//
// Asks of the caller:
// `solver` is a valid handle; `text` is writable.
int32_t isobar_solver_report(isobar_solver *solver,
                             const char **text);

// Frees a solver; null is allowed.
//
// Asks of the caller:
// `solver` is null, or a valid handle that is not used again.
void isobar_solver_free(isobar_solver *solver);

// Returns the message of the last failed call on this thread; empty if none has failed. It is valid until the next failed call on this thread.
const char *isobar_last_error(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ISOBAR_H */
