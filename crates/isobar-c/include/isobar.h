/* isobar: fast solvers for the linear systems of structured-grid PDEs.
 *
 * Made by cbindgen from the sources of isobar-c; `UPDATE_HEADER=1 cargo test -p isobar-c --test header` makes it anew. */

#ifndef ISOBAR_H
#define ISOBAR_H

#include <stddef.h>
#include <stdint.h>

// Elements are `double`.
#define ISOBAR_F64 0

// Elements are `float`.
#define ISOBAR_F32 1

// Elements are bytes, 0 or not: masks only.
#define ISOBAR_U8 2

// In host memory.
#define ISOBAR_HOST -1

// Of second order, for which the energy of no step grows.
#define ISOBAR_CRANK_NICOLSON 0

// Of first order, which smooths rough states at once.
#define ISOBAR_BACKWARD_EULER 1

// No flow, or a given flux κ ∂u/∂n into the domain, per area.
#define ISOBAR_NEUMANN 0

// A given value of u.
#define ISOBAR_DIRICHLET 1

// The opposite side.
#define ISOBAR_PERIODIC 2

// A flux h (u − v) out of the domain, per area, v being the value and h in `coefficients` of isobar_diffusion.
#define ISOBAR_ROBIN 3

// All went well; of a solve, that it converged.
#define ISOBAR_OK 0

// An argument, a key or a value that makes no sense.
#define ISOBAR_INVALID 1

// A solve stopped before it converged; u holds the best it found, and the report says more.
#define ISOBAR_NOT_CONVERGED 2

// The progress function ended the solve.
#define ISOBAR_INTERRUPTED 3

// The device, its driver or its compiler failed, or is not there.
#define ISOBAR_DEVICE 4

// Memory that could not be had.
#define ISOBAR_OUT_OF_MEMORY 5

// Something valid that this combination does not offer.
#define ISOBAR_UNSUPPORTED 6

// The handle is being used from another thread, or by the progress function of its own solve.
#define ISOBAR_BUSY 7

// A defect of isobar; the handle it struck is to be freed.
#define ISOBAR_INTERNAL 8

// A state u on its way through u_t = ∇·(κ∇u) − c u + f, with all the memory that steps take, on one device.
typedef struct isobar_heat isobar_heat;

// A linear system A u = b, as data. It can be freed as soon as a solver was made from it.
typedef struct isobar_problem isobar_problem;

// The ranks of a communicator, seen by one of them.
typedef struct isobar_ranks isobar_ranks;

// A solver with all its memory, on one device. It keeps nothing of the problem that it was made from.
typedef struct isobar_solver isobar_solver;

// An array of a value a cell, C order: `double u[nz][ny][nx]` has shape {nz, ny, nx}. A Fortran array u(nx, ny, nz) is the same
// memory.
typedef struct {
  // Of element (0, 0, 0).
  void *data;
  // {nz, ny, nx}
  size_t shape[3];
  // In bytes, in the order of `shape`; all 0 stands for an array without gaps.
  ptrdiff_t strides[3];
  // ISOBAR_F64 or ISOBAR_F32.
  int32_t dtype;
  // ISOBAR_HOST, or the number of the CUDA device whose memory holds it.
  int32_t device;
  // Of an array on a device: the cudaStream_t after whose work it is to be used, and whose later work may use the result.
  // Null: the caller's work on it is finished.
  void *stream;
} isobar_array;

// Where the derivatives of a number J(u) are written; null where one is not wanted. All but `size` 0 asks for none. Arrays are those of
// the grid, in host memory; derivatives by κ, by sides and by widths are those of a problem from isobar_problem_diffusion.
typedef struct {
  // sizeof(isobar_gradient), which tells versions of it apart.
  size_t size;
  // 0: b is that of isobar_problem_rhs, which changes with κ, sides and widths. Not 0: b stays as it is.
  int32_t fixed_b;
  // ∂J/∂b = A⁻¹ ∂J/∂u
  const isobar_array *b;
  // ∂J/∂κ, by that of x and y too where the problem has no other; 0 where κ = 0, as what is closed stays closed.
  const isobar_array *kappa;
  // Of a problem with κ of y, which has one of z too, if only that of x.
  const isobar_array *kappa_y;
  // Of a problem with κ of z.
  const isobar_array *kappa_z;
  // ∂J/∂c
  const isobar_array *reaction;
  // ∂J/∂f
  const isobar_array *f;
  // By the values of the faces of each side, or their fluxes, in the order of isobar_diffusion.side_values.
  double *side_values[3][2];
  // By h of the faces of each side that is ISOBAR_ROBIN; 0 on others.
  double *side_coefficients[3][2];
  // By the widths of cells in x, y and z: nx, ny and nz numbers.
  double *widths[3];
  // Not written, but read: the source density f, where b has one and derivatives by widths are wanted.
  const isobar_array *density;
} isobar_gradient;

// How to step. All 0 but `size`, `dt` and `end_time` is Crank and Nicolson's scheme by steps of one length.
typedef struct {
  // sizeof(isobar_time_steps), which tells versions of it apart.
  size_t size;
  // Length of a step; of the first one where steps choose theirs.
  double dt;
  // The time at the end; it begins at 0, and the last step is shortened where need be.
  double end_time;
  // Not 0: steps choose their length so that the estimated error of each, relative to the state, stays below it.
  double step_tolerance;
  // ISOBAR_CRANK_NICOLSON or ISOBAR_BACKWARD_EULER.
  int32_t scheme;
  // Not 0: the solve of a step begins with a straight line through the states before instead of the last one.
  int32_t extrapolates;
} isobar_time_steps;

// Sees every iteration; anything but 0 ends the solve. It is called on the thread that solves, or one of the solver's, and must not use
// that solver.
typedef int32_t (*isobar_progress)(void *data,
                                   size_t iteration,
                                   double relative_residual);

// A step that was taken.
typedef struct {
  // From 1.
  size_t number;
  // That it led to.
  double time;
  // Its length.
  double dt;
  // The estimate of its error relative to the state where steps choose their length, else 0.
  double error;
  // The true one of its solve.
  double relative_residual;
  // Of its solves.
  size_t iterations;
  // 1 where the end is reached, else 0.
  int32_t is_last;
} isobar_step;

// What holds on a side of the box. All 0 is a closed one.
typedef struct {
  // ISOBAR_NEUMANN, ISOBAR_DIRICHLET, ISOBAR_PERIODIC or ISOBAR_ROBIN.
  int32_t kind;
  // The flux into the domain, or the value of u; of ISOBAR_ROBIN that outside.
  double value;
} isobar_side;

// −∇·(κ∇u) + c u = f on a box of nx × ny × nz cells, by finite volumes. All 0 but `size` and `kappa` is a unit box with closed
// sides. Arrays are read by isobar_problem_diffusion and may change afterwards.
typedef struct {
  // sizeof(isobar_diffusion), which tells versions of it apart.
  size_t size;
  // κ in every cell, 0 in those that take no part; of x alone where the next two are given.
  const isobar_array *kappa;
  // κ in y, or null for that of x.
  const isobar_array *kappa_y;
  // κ in z, or null for that of x.
  const isobar_array *kappa_z;
  // c in every cell, or null for 0.
  const isobar_array *reaction;
  // Not 0 in the cells that take part, or null for all; ISOBAR_U8 too.
  const isobar_array *active;
  // Widths of cells in x, y and z; 0 stands for 1/nx, 1/ny, 1/nz.
  double spacing[3];
  // Widths one by one where they differ, nx, ny and nz numbers, or null.
  const double *widths[3];
  // West and east, south and north, bottom and top.
  isobar_side sides[3][2];
  // h of the sides that are ISOBAR_ROBIN, not negative.
  double coefficients[3][2];
  // Values of a side one by one where they differ, x fastest: ny × nz numbers for west and east, nx × nz for south and north, nx × ny for
  // bottom and top, those of the whole side on every rank; or null.
  const double *side_values[3][2];
  // h likewise, or null.
  const double *side_coefficients[3][2];
} isobar_diffusion;

// A matrix whose entries are products of vertical vectors and horizontal fields:
//
// (A u)_{T,k} = |T| [(a_k − b_k − c_k) u_k + b_k u_{k+1} + c_k u_{k−1}] + d_k Σ α_{TT'} (u_{T',k} − u_{T,k})
typedef struct {
  // sizeof(isobar_tensor_product), which tells versions of it apart.
  size_t size;
  // Columns in x.
  size_t nx;
  // Columns in y.
  size_t ny;
  // Layers.
  size_t nz;
  // nz numbers: mass.
  const double *a;
  // nz numbers: coupling to the layer above, not positive; the last is 0.
  const double *b;
  // nz numbers: coupling to the layer below, not positive; the first is 0.
  const double *c;
  // nz numbers: factors of the horizontal couplings, not positive.
  const double *d;
  // |T|, ny × nx numbers, x fastest: areas of cells.
  const double *area;
  // α of the faces between cells in x, ny × (nx + 1) numbers; at the outermost, 0 makes a side Neumann, and others Dirichlet.
  const double *x_faces;
  // α of the faces between cells in y, (ny + 1) × nx numbers.
  const double *y_faces;
} isobar_tensor_product;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version of the library, such as "0.2.0".
const char *isobar_version(void);

// A host array without gaps, of shape {nz, ny, nx}.
isobar_array isobar_host_array(void *data,
                               size_t nz,
                               size_t ny,
                               size_t nx,
                               int32_t dtype);

// Computes derivatives of a number J(u) by what a problem was made of, from its solution u and `ubar` = ∂J/∂u, by one more solve with the same
// solver: A is symmetric. `problem` is the one that the solver was made from, or updated with last, and `u` what its last solve found.
//
// Returns ISOBAR_NOT_CONVERGED, and writes nothing, where that solve or the one for the derivatives did not converge. Errors of derivatives are in
// proportion to the solver's tolerance. Arrays are in host memory. Grids that are divided among ranks are not supported.
//
// Asks of the caller:
// Handles are handles; arrays are what they say; what `wanted` points to can be written.
int32_t isobar_solver_gradient(isobar_solver *solver,
                               const isobar_problem *problem,
                               const isobar_array *u,
                               const isobar_array *ubar,
                               const isobar_gradient *wanted);

// Begins a run through time. κ, c, sides and the grid are those of a problem from isobar_problem_diffusion; `source` is f in every cell, or
// null for 0; `u` is the first state. `options`, `device` and `threads` are as of isobar_solver_create; the tolerance is relative to the first
// residual of a step. Nothing that is passed here is kept. Of a problem that is divided among ranks, `source` and `u` are this rank's rows.
//
// Asks of the caller:
// `problem` is a handle, the arrays and texts are what they say, `out` can be written.
int32_t isobar_heat_create(const isobar_problem *problem,
                           const isobar_array *source,
                           const isobar_array *u,
                           const isobar_time_steps *steps,
                           const char *options,
                           const char *device,
                           size_t threads,
                           isobar_heat **out);

// Begins the run through time that the text of a case file (TOML) of kind "heat" describes, with its first state. Relative paths in it are
// relative to `folder`; null is the working directory. Output and checkpoints are the caller's.
//
// Asks of the caller:
// Texts end with a zero; `out` can be written.
int32_t isobar_heat_from_case(const char *text,
                              const char *folder,
                              const char *device,
                              size_t threads,
                              isobar_heat **out);

// Takes the next step, and says what it was in `step`, which may be null, as may be `progress`, which sees the iterations of its solve. After
// ISOBAR_NOT_CONVERGED and ISOBAR_INTERRUPTED the state is the one before the step. A step after the last is ISOBAR_INVALID.
//
// Asks of the caller:
// `heat` is a handle; `step` is null or can be written.
int32_t isobar_heat_step(isobar_heat *heat,
                         isobar_progress progress,
                         void *data,
                         isobar_step *step);

// Writes the present state to an array, in host memory or in that of the device.
//
// Asks of the caller:
// `heat` is a handle; the array is what it says, and nobody else uses it meanwhile.
int32_t isobar_heat_state(isobar_heat *heat,
                          const isobar_array *u);

// Replaces the present state, as a model does that changes it between steps; number and time of steps go on.
//
// Asks of the caller:
// As isobar_heat_state.
int32_t isobar_heat_set_state(isobar_heat *heat,
                              const isobar_array *u);

// Other coefficients, boundary values and sources from the next step on, on the same grid with the same active cells; the state stays.
//
// Asks of the caller:
// `heat` and `problem` are handles; `source` is null or an array.
int32_t isobar_heat_update(isobar_heat *heat,
                           const isobar_problem *problem,
                           const isobar_array *source);

// ½ ∫ κ|∇u|² of the present state, with what c and f add: ½ uᵀK u − sᵀu.
//
// Asks of the caller:
// `heat` is a handle; `energy` can be written.
int32_t isobar_heat_energy(isobar_heat *heat,
                           double *energy);

// The report of the last step's solve, as isobar_solver_report. The text is valid until the handle is used again.
//
// Asks of the caller:
// `heat` is a handle; `text` can be written.
int32_t isobar_heat_report(isobar_heat *heat,
                           const char **text);

// Frees a run; null is allowed.
//
// Asks of the caller:
// `heat` is a handle that is not used again, or null.
void isobar_heat_free(isobar_heat *heat);

// Makes a problem from the text of a case file (TOML), of any kind but "heat". Relative paths in it are relative to `folder`; null
// is the working directory.
//
// Asks of the caller:
// Texts end with a zero; `out` can be written.
int32_t isobar_problem_from_case(const char *text,
                                 const char *folder,
                                 isobar_problem **out);

// Makes a problem of diffusion from arrays.
//
// Asks of the caller:
// `description` and what it points to can be read; `out` can be written.
int32_t isobar_problem_diffusion(const isobar_diffusion *description,
                                 isobar_problem **out);

// Makes a problem from the profiles of a tensor-product matrix.
//
// Asks of the caller:
// `description` and what it points to can be read; `out` can be written.
int32_t isobar_problem_tensor_product(const isobar_tensor_product *description,
                                      isobar_problem **out);

// The shape of its arrays, {nz, ny, nx}; of one that is divided among ranks, those of this rank.
//
// Asks of the caller:
// `problem` is a handle, and three numbers can be written to `shape`.
int32_t isobar_problem_shape(const isobar_problem *problem,
                             size_t *shape);

// b = the right-hand side for the source density f: f times the volume of every cell, and what comes from boundary values, sources and
// wells. `f` null stands for the right-hand side of the case, or for f = 0.
//
// Asks of the caller:
// `problem` is a handle; the arrays are what they say.
int32_t isobar_problem_rhs(const isobar_problem *problem,
                           const isobar_array *f,
                           const isobar_array *b);

// *total = what flows out of the domain through a side for a solution u of diffusion in cells: through the lower side (`is_upper` 0) or the
// upper one (1) of x, y or z (`axis` 0, 1, 2). What flows in is negative.
//
// Asks of the caller:
// `problem` is a handle; the array is what it says; `total` can be written.
int32_t isobar_problem_flux(const isobar_problem *problem,
                            const isobar_array *u,
                            int32_t axis,
                            int32_t is_upper,
                            double *total);

// Frees a problem; null is allowed.
//
// Asks of the caller:
// `problem` is a handle that is not used again, or null.
void isobar_problem_free(isobar_problem *problem);

// Takes part in what the ranks of a communicator do together, in a program that runs under MPI: it calls MPI_Init before, and MPI_Finalize
// after. `communicator` is an MPI_Fint: in Fortran the communicator, in C MPI_Comm_c2f(communicator), or MPI_Comm_toint(communicator) from MPI 5
// on. Messages go over a duplicate of it, which is freed when this handle is and all that was made on it.
//
// All ranks make the calls that are about such ranks, this one being the first, in the same order; where one of them fails, it fails on all,
// with the code and the message of the first rank that has one. MPI that was started for fewer threads than MPI_THREAD_SERIALIZED
// is used from the thread that has started it, which is to make these calls. MPICH, Open MPI and the MPI 5 ABI will do.
//
// Asks of the caller:
// `ranks` can be written.
int32_t isobar_ranks_create(int32_t communicator,
                            isobar_ranks **ranks);

// Which rows in y of a grid with `ny` of them are this rank's: `count` rows from row `first` on, counted from 0. They are as many on all ranks or
// nearly so, and begin where coarser grids can be divided too.
//
// Asks of the caller:
// `ranks` is a handle, `first` and `count` can be written.
int32_t isobar_ranks_rows(const isobar_ranks *ranks,
                          size_t ny,
                          size_t *first,
                          size_t *count);

// Divides a problem, which every rank has made of the whole grid, among ranks. From now on its arrays, and those of all that is made from it, are
// those of this rank's own rows, {nz, count, nx}; a solver and a run through time are made and used by all ranks together, each on its share of the
// cores or on its GPU. The progress functions of all ranks are heard.
//
// Asks of the caller:
// Both are handles.
int32_t isobar_problem_divide(isobar_problem *problem,
                              const isobar_ranks *ranks);

// As isobar_problem_diffusion with isobar_problem_divide, from arrays of this rank's own rows of a grid with `ny` rows, {nz, count, nx};
// widths and sides are those of the whole grid. All ranks together. Every rank keeps the coefficients of the whole grid.
//
// Asks of the caller:
// `description` and what it points to can be read, `ranks` is a handle, `out` can be written.
int32_t isobar_problem_diffusion_rows(const isobar_diffusion *description,
                                      size_t ny,
                                      const isobar_ranks *ranks,
                                      isobar_problem **out);

// Frees ranks; null is allowed. What was made on them can still be used.
//
// Asks of the caller:
// `ranks` is a handle that is not used again, or null.
void isobar_ranks_free(isobar_ranks *ranks);

// Makes a solver. `options` are the keys of section "solver" of a case file, as TOML or as a JSON object, such as "tolerance = 1e-8"; null
// stands for those of the problem's case, or for none. `device` is "auto", "cpu", "cuda" or "cuda:N"; null is "auto".
// `threads` is how many the CPU uses; 0 is one a core. Of a problem that is divided among ranks, "auto" is "cpu", "cuda" gives each rank a GPU, and 0
// threads are this rank's share of the cores of its machine.
//
// Asks of the caller:
// `problem` is a handle, texts end with a zero, `out` can be written.
int32_t isobar_solver_create(const isobar_problem *problem,
                             const char *options,
                             const char *device,
                             size_t threads,
                             isobar_solver **out);

// Solves A u = b. Begins with u = 0, or, where `from_u` is not 0, with what `u` holds. `b` and `u` may be the same array, and
// may be in host memory or in that of the solver's device. `progress` may be null. Returns ISOBAR_OK where the true residual meets the
// tolerance; after ISOBAR_NOT_CONVERGED and ISOBAR_INTERRUPTED u holds what was reached.
//
// Asks of the caller:
// `solver` is a handle; the arrays are what they say, and nobody else uses them meanwhile.
int32_t isobar_solver_solve(isobar_solver *solver,
                            const isobar_array *b,
                            const isobar_array *u,
                            int32_t from_u,
                            isobar_progress progress,
                            void *data);

// Solves A u = b for `count` right-hand sides, one after the other: b[n] and u[n] are as of isobar_solver_solve, and no u[n] shares memory with
// the b of another. Each is judged by itself: where `codes` is not null, codes[n] is ISOBAR_OK, ISOBAR_NOT_CONVERGED or ISOBAR_INTERRUPTED. After
// an interruption those that follow are not begun, and have that code too. Returns ISOBAR_OK where all have, and otherwise the code of the first that has not;
// isobar_last_error says which that is. isobar_solver_report is of the last that was solved. After any other error `codes` is as it was.
//
// Asks of the caller:
// As isobar_solver_solve; `b`, `u` and `codes` have `count` entries.
int32_t isobar_solver_solve_many(isobar_solver *solver,
                                 const isobar_array *b,
                                 const isobar_array *u,
                                 size_t count,
                                 int32_t from_u,
                                 int32_t *codes,
                                 isobar_progress progress,
                                 void *data);

// v = A u
//
// Asks of the caller:
// As isobar_solver_solve.
int32_t isobar_solver_apply(isobar_solver *solver,
                            const isobar_array *u,
                            const isobar_array *v);

// Gives the solver the coefficients of another problem, which differs in nothing else: in place, for the next time step.
//
// Asks of the caller:
// Both are handles.
int32_t isobar_solver_update(isobar_solver *solver,
                             const isobar_problem *problem);

// The report of the last solve as JSON, with the keys of the command's --report; its `checks` and the bandwidth of a copy are null. The text is valid
// until the solver is used again.
//
// Asks of the caller:
// `solver` is a handle; `text` can be written.
int32_t isobar_solver_report(isobar_solver *solver,
                             const char **text);

// Frees a solver; null is allowed.
//
// Asks of the caller:
// `solver` is a handle that is not used again, or null.
void isobar_solver_free(isobar_solver *solver);

// The message of the last call on this thread that failed; empty where none has. Valid until the next call on this thread
// that fails.
const char *isobar_last_error(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ISOBAR_H */
