!> isobar for Fortran: fast solvers for the linear systems of structured-grid PDEs.
!>
!> Arrays are u(nx, ny, nz) of real64, whole or sections of larger arrays (such as a model's arrays with halos). u(nx, ny) and u(nx) are
!> taken by solve, rhs, apply and a run's create, state and set_state; real32 by solve and diffusion, and as u(nx, ny, nz) by rhs and apply.
!> They are read and written in place. Procedures that can fail have an optional argument `code`, a return code such as isobar_ok; without
!> it, and in functions, a failure ends the program with isobar's message, which isobar_message also returns. Lengths, times and coefficients
!> are in the caller's units, as long as these are consistent.
!>
!> Problems, solvers, runs and ranks, and arrays of them, free themselves when they go out of scope. They are not copied: x = y ends the
!> program. allocate(x, source=y), and a copy of a type that has an allocatable array of them, are not noticed and free twice; use
!> move_alloc.
module isobar
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit
  implicit none
  private

  public :: isobar_problem, isobar_solver, isobar_heat, isobar_ranks, isobar_side, isobar_step, isobar_array
  public :: isobar_message, isobar_version, isobar_cuda_array
  public :: isobar_neumann, isobar_dirichlet, isobar_periodic, isobar_robin

  integer(c_int32_t), parameter, public :: &
       !> Success; for a solve, converged.
       isobar_ok = 0, &
       !> An invalid argument, key or value.
       isobar_invalid = 1, &
       !> A solve stopped before it converged; u holds the best iterate, and the report says more.
       isobar_not_converged = 2, &
       !> A progress function stopped the solve.
       isobar_interrupted = 3, &
       !> The device, its driver or its compiler failed or is missing.
       isobar_device = 4, &
       !> Not enough memory.
       isobar_out_of_memory = 5, &
       !> A valid combination that is not supported.
       isobar_unsupported = 6, &
       !> The handle is in use by another thread.
       isobar_busy = 7, &
       !> An internal error of isobar; free what was used.
       isobar_internal = 8

  integer(c_int32_t), parameter, public :: &
       !> The Crank–Nicolson scheme: second order; the energy does not grow in any step.
       isobar_crank_nicolson = 0, &
       !> The backward Euler scheme: first order; smooths rough states immediately.
       isobar_backward_euler = 1

  integer(c_int32_t), parameter :: f64 = 0, f32 = 1, on_host = -1

  !> The boundary condition on a side of the box, made by isobar_neumann(flux), isobar_dirichlet(value), isobar_robin(coefficient, value) or
  !> isobar_periodic(); closed by default.
  type :: isobar_side
     !> 0 Neumann, 1 Dirichlet, 2 periodic, 3 Robin.
     integer(c_int32_t) :: kind = 0
     !> The flux into the domain per area, the value of u, or v of the flux h (u − v) of a Robin side; and h.
     real(c_double) :: value = 0, coefficient = 0
  end type isobar_side

  type, bind(c) :: c_side
     integer(c_int32_t) :: kind = 0
     real(c_double) :: value = 0
  end type c_side

  !> A linear system A u = b as data. It may be freed when a solver has been made from it; a problem that is made anew replaces the previous one.
  type :: isobar_problem
     private
     type(c_ptr) :: handle = c_null_ptr
   contains
     !> Makes a problem from the text of a case file (TOML) of any kind except "heat". Relative paths in it are relative to `folder`, by
     !> default the working directory.
     procedure :: from_case => problem_from_case
     procedure, private :: diffusion_r64, diffusion_r32, diffusion_array
     !> Makes the equation −∇·(κ∇u) + c u = f on a box of nx × ny × nz cells, by finite volumes, from κ(nx, ny, nz), which may be in the memory of a
     !> GPU, and stays there. Derivatives and time steps are computed on the host, from a copy that is made once.
     generic :: diffusion => diffusion_r64, diffusion_r32, diffusion_array
     procedure, private :: faces_r64, faces_array
     !> Makes (A u)_n = s_n u_n + Σ T_nm (u_n − u_m) from the conductances T of the faces between neighbours, which may be in the memory of a GPU.
     generic :: faces => faces_r64, faces_array
     !> Returns [nx, ny, nz], the extents of the problem's arrays; if it is divided among ranks, those of this rank's rows.
     procedure :: extents => problem_extents
     !> Divides a problem, which every rank has made of the whole grid, among ranks. From then on its arrays, and those of solvers and runs made
     !> from it, have this rank's rows only. It is collective.
     procedure :: divide => problem_divide
     procedure, private :: rhs_r64_3, rhs_r64_2, rhs_r64_1, rhs_r32_3, rhs_array
     !> Computes the right-hand side b for the source density f: f times the volume of every cell, plus boundary values, sources and wells.
     !> Without f it is the right-hand side of the case, or that of f = 0.
     generic :: rhs => rhs_r64_3, rhs_r64_2, rhs_r64_1, rhs_r32_3, rhs_array
     !> Computes the flow out of the domain through a side for a solution u of diffusion: through the lower side or, with is_upper, the upper
     !> side of x, y or z (axis 1, 2 or 3). Inflow is negative. With ranks, u has this rank's rows, and the flow is that of the whole side.
     procedure :: flux => problem_flux
     !> Frees the problem. A variable that goes out of scope is freed by itself.
     procedure :: free => problem_free
     procedure, private :: problem_assign
     !> Stops the program unless the other variable is unmade: both would free the same. Pass it as an argument instead.
     generic, public :: assignment(=) => problem_assign
     final :: problem_finalize
  end type isobar_problem

  !> The ranks of an MPI communicator, in a program that calls MPI_Init before and MPI_Finalize after. Ranks, and everything
  !> made with them, must be freed before MPI_Finalize, or never.
  type :: isobar_ranks
     private
     type(c_ptr) :: handle = c_null_ptr
   contains
     !> Makes ranks from a communicator, an integer (with mpi_f08 its MPI_VAL). Calls with ranks, including this one, are collective: if
     !> a call fails on one rank, it fails on all, with the code and the message of the first rank that failed.
     procedure :: create => ranks_create
     !> Returns the first and the last of this rank's rows in y, of a grid with ny rows, counted from 1. Ranks have equal or nearly equal
     !> numbers of rows.
     procedure :: rows => ranks_rows
     !> Frees the ranks. Problems, solvers and runs made with them remain usable.
     procedure :: free => ranks_free
     procedure, private :: ranks_assign
     !> Stops the program unless the other variable is unmade: both would free the same. Pass it as an argument instead.
     generic, public :: assignment(=) => ranks_assign
     final :: ranks_finalize
  end type isobar_ranks

  !> A solver with all its memory, on one device. It does not refer to the problem that it was made from.
  type :: isobar_solver
     private
     type(c_ptr) :: handle = c_null_ptr
   contains
     !> Makes a solver for a problem, and allocates all its memory.
     procedure :: create => solver_create
     procedure, private :: solve_r64_3, solve_r64_2, solve_r64_1, solve_r32_3, solve_r32_2, solve_r32_1
     !> Solves A u = b; b and u may be the same array. The first guess is 0, or with from_u = .true. the content of u. The code is isobar_ok
     !> if the true residual meets the tolerance; after isobar_not_converged u holds the best iterate.
     generic :: solve => solve_r64_3, solve_r64_2, solve_r64_1, solve_r32_3, solve_r32_2, solve_r32_1
     !> Arrays in the memory of the solver's GPU are given by isobar_cuda_array.
     generic :: solve => solve_arrays
     !> Solves A u = b for several right-hand sides, some at the same time, given as arrays of isobar_cuda_array, which describes arrays in
     !> host memory too, with the ordinal -1; codes(n) is the code of each solve.
     !> The code of the call is isobar_ok if all systems have it, otherwise the first other one, and the message names the system.
     procedure :: solve_many => solver_solve_many
     procedure, private :: solve_arrays, apply_arrays
     procedure, private :: apply_r64_3, apply_r64_2, apply_r64_1, apply_r32_3
     !> Computes v = A u.
     generic :: apply => apply_r64_3, apply_r64_2, apply_r64_1, apply_r32_3, apply_arrays
     !> Updates the solver in place with the coefficients of another problem, such as that of the next time step.
     !> Widths of cells and the values of sides may differ too. The number of cells, the kinds of sides, and whether there are c or Robin sides
     !> must be the same.
     procedure :: update => solver_update
     !> Computes derivatives of a number J(u) with respect to b, κ, c and f from u and ∂J/∂u, by one more solve; arrays are (nx, ny, nz), of real64.
     procedure :: gradient => solver_gradient
     !> Returns the report of the last solve as JSON, with the keys of the command's --report.
     procedure :: report => solver_report
     !> Frees the solver. A variable that goes out of scope is freed by itself.
     procedure :: free => solver_free
     procedure, private :: solver_assign
     !> Stops the program unless the other variable is unmade: both would free the same. Pass it as an argument instead.
     generic, public :: assignment(=) => solver_assign
     final :: solver_finalize
  end type isobar_solver

  !> A time step, as it was taken.
  type :: isobar_step
     !> Number of the step, from 1.
     integer :: number = 0
     !> Time at its end, and its length.
     real(c_double) :: time = 0, dt = 0
     !> Estimated error relative to the state if step lengths are automatic, else 0.
     real(c_double) :: error = 0
     !> True relative residual of its solve.
     real(c_double) :: relative_residual = 0
     !> Iterations of its solve.
     integer :: iterations = 0
     !> Whether the end time is reached.
     logical :: is_last = .false.
  end type isobar_step

  !> A run of the heat equation u_t = ∇·(κ∇u) − c u + f with its state u. Arrays are real64.
  type :: isobar_heat
     private
     type(c_ptr) :: handle = c_null_ptr
   contains
     procedure, private :: heat_create_3, heat_create_2, heat_create_1
     !> Begins a run from a problem of isobar_problem%diffusion, the initial state u and the time steps, from time 0 to end_time. All arguments
     !> are copied.
     generic :: create => heat_create_3, heat_create_2, heat_create_1
     !> Begins a run from the text of a case file (TOML) of kind "heat", with its initial state. Relative paths in it are relative to
     !> `folder`, by default the working directory. Outputs and checkpoints of the case are ignored.
     procedure :: from_case => heat_from_case
     !> Takes the next step and describes it in `step`. After isobar_not_converged the state is unchanged. A step after the last is isobar_invalid.
     procedure :: step => heat_step
     procedure, private :: heat_state_3, heat_state_2, heat_state_1
     !> Writes the current state to u, of the grid's shape.
     generic :: state => heat_state_3, heat_state_2, heat_state_1
     procedure, private :: heat_set_3, heat_set_2, heat_set_1
     !> Replaces the current state by u, for models that change it between steps; the step number and the time continue.
     generic :: set_state => heat_set_3, heat_set_2, heat_set_1
     procedure, private :: heat_update_3, heat_update_0
     !> Changes coefficients, widths of cells and values of sides to those of another problem, and the source to f(nx, ny, nz), or 0 without
     !> one, from the next step on. The number of cells, the active cells, the kinds of sides, and whether cells have one volume must be the
     !> same; the state is kept.
     generic :: update => heat_update_3, heat_update_0
     !> Computes the energy ½ ∫ κ|∇u|² of the current state plus the terms of c and f: ½ uᵀK u − sᵀu.
     procedure :: energy => heat_energy
     !> Returns the report of the last step's solve as JSON.
     procedure :: report => heat_report
     !> Frees the run. A variable that goes out of scope is freed by itself.
     procedure :: free => heat_free
     procedure, private :: heat_assign
     !> Stops the program unless the other variable is unmade: both would free the same. Pass it as an argument instead.
     generic, public :: assignment(=) => heat_assign
     final :: heat_finalize
  end type isobar_heat

  !> isobar_time_steps
  type, bind(c) :: c_time_steps
     integer(c_size_t) :: size = 0
     real(c_double) :: dt = 0, end_time = 0, step_tolerance = 0
     integer(c_int32_t) :: scheme = isobar_crank_nicolson, extrapolates = 0
  end type c_time_steps

  !> isobar_step
  type, bind(c) :: c_step
     integer(c_size_t) :: number = 0
     real(c_double) :: time = 0, dt = 0, error = 0, relative_residual = 0
     integer(c_size_t) :: iterations = 0
     integer(c_int32_t) :: is_last = 0
  end type c_step

  !> The address of an array in the memory of a GPU, made by isobar_cuda_array.
  type, bind(c) :: isobar_array
     private
     type(c_ptr) :: data = c_null_ptr
     integer(c_size_t) :: shape(3) = 1
     integer(c_intptr_t) :: strides(3) = 0
     integer(c_int32_t) :: dtype = f64
     integer(c_int32_t) :: device = on_host
     type(c_ptr) :: stream = c_null_ptr
  end type isobar_array

  !> isobar_gradient
  type, bind(c) :: c_gradient
     integer(c_size_t) :: size = 0
     integer(c_int32_t) :: fixed_b = 0
     type(c_ptr) :: b = c_null_ptr, kappa = c_null_ptr, kappa_y = c_null_ptr, kappa_z = c_null_ptr
     type(c_ptr) :: reaction = c_null_ptr, f = c_null_ptr
     type(c_ptr) :: side_values(2, 3) = c_null_ptr, side_coefficients(2, 3) = c_null_ptr, widths(3) = c_null_ptr
     type(c_ptr) :: faces(3) = c_null_ptr, shift = c_null_ptr
     type(c_ptr) :: density = c_null_ptr
  end type c_gradient

  !> Numbers that C writes next to each other, where the caller's array may be a section.
  type :: numbers
     real(c_double), allocatable :: values(:, :)
  end type numbers

  !> isobar_diffusion
  type, bind(c) :: c_diffusion
     integer(c_size_t) :: size = 0
     type(c_ptr) :: kappa = c_null_ptr, kappa_y = c_null_ptr, kappa_z = c_null_ptr, reaction = c_null_ptr, active = c_null_ptr
     real(c_double) :: spacing(3) = 0
     type(c_ptr) :: widths(3) = c_null_ptr
     type(c_side) :: sides(2, 3)
     real(c_double) :: coefficients(2, 3) = 0
     type(c_ptr) :: side_values(2, 3) = c_null_ptr, side_coefficients(2, 3) = c_null_ptr
  end type c_diffusion

  !> isobar_faces
  type, bind(c) :: c_faces
     integer(c_size_t) :: size = 0
     integer(c_size_t) :: shape(3) = 1
     type(c_ptr) :: tx = c_null_ptr, ty = c_null_ptr, tz = c_null_ptr, shift = c_null_ptr, active = c_null_ptr
     integer(c_int32_t) :: periodic(3) = 0
  end type c_faces

  interface
     function c_last_error() bind(c, name="isobar_last_error") result(text)
       import :: c_ptr
       type(c_ptr) :: text
     end function c_last_error

     function c_refuse(message) bind(c, name="isobar_refuse") result(code)
       import :: c_char, c_int32_t
       character(kind=c_char), intent(in) :: message(*)
       integer(c_int32_t) :: code
     end function c_refuse

     function c_version() bind(c, name="isobar_version") result(text)
       import :: c_ptr
       type(c_ptr) :: text
     end function c_version

     function c_from_case(text, folder, problem) bind(c, name="isobar_problem_from_case") result(code)
       import :: c_char, c_ptr, c_int32_t
       character(kind=c_char), intent(in) :: text(*), folder(*)
       type(c_ptr), intent(out) :: problem
       integer(c_int32_t) :: code
     end function c_from_case

     function c_problem_faces(description, problem) bind(c, name="isobar_problem_faces") result(code)
       import :: c_faces, c_ptr, c_int32_t
       type(c_faces), intent(in) :: description
       type(c_ptr), intent(out) :: problem
       integer(c_int32_t) :: code
     end function c_problem_faces

     function c_problem_diffusion(description, problem) bind(c, name="isobar_problem_diffusion") result(code)
       import :: c_diffusion, c_ptr, c_int32_t
       type(c_diffusion), intent(in) :: description
       type(c_ptr), intent(out) :: problem
       integer(c_int32_t) :: code
     end function c_problem_diffusion

     function c_problem_shape(problem, shape) bind(c, name="isobar_problem_shape") result(code)
       import :: c_ptr, c_size_t, c_int32_t
       type(c_ptr), value :: problem
       integer(c_size_t), intent(out) :: shape(3)
       integer(c_int32_t) :: code
     end function c_problem_shape

     function c_problem_rhs(problem, f, b) bind(c, name="isobar_problem_rhs") result(code)
       import :: c_ptr, isobar_array, c_int32_t
       type(c_ptr), value :: problem, f
       type(isobar_array), intent(in) :: b
       integer(c_int32_t) :: code
     end function c_problem_rhs

     function c_problem_divide(problem, ranks) bind(c, name="isobar_problem_divide") result(code)
       import :: c_ptr, c_int32_t
       type(c_ptr), value :: problem, ranks
       integer(c_int32_t) :: code
     end function c_problem_divide

     function c_problem_rows(description, ny, ranks, problem) bind(c, name="isobar_problem_diffusion_rows") result(code)
       import :: c_diffusion, c_ptr, c_size_t, c_int32_t
       type(c_diffusion), intent(in) :: description
       integer(c_size_t), value :: ny
       type(c_ptr), value :: ranks
       type(c_ptr), intent(out) :: problem
       integer(c_int32_t) :: code
     end function c_problem_rows

     function c_ranks_create(communicator, ranks) bind(c, name="isobar_ranks_create") result(code)
       import :: c_ptr, c_int32_t
       integer(c_int32_t), value :: communicator
       type(c_ptr), intent(out) :: ranks
       integer(c_int32_t) :: code
     end function c_ranks_create

     function c_ranks_rows(ranks, ny, first, count) bind(c, name="isobar_ranks_rows") result(code)
       import :: c_ptr, c_size_t, c_int32_t
       type(c_ptr), value :: ranks
       integer(c_size_t), value :: ny
       integer(c_size_t), intent(out) :: first, count
       integer(c_int32_t) :: code
     end function c_ranks_rows

     subroutine c_ranks_free(ranks) bind(c, name="isobar_ranks_free")
       import :: c_ptr
       type(c_ptr), value :: ranks
     end subroutine c_ranks_free

     subroutine c_problem_free(problem) bind(c, name="isobar_problem_free")
       import :: c_ptr
       type(c_ptr), value :: problem
     end subroutine c_problem_free

     function c_problem_flux(problem, u, axis, is_upper, total) bind(c, name="isobar_problem_flux") result(code)
       import :: c_ptr, isobar_array, c_int32_t, c_double
       type(c_ptr), value :: problem
       type(isobar_array), intent(in) :: u
       integer(c_int32_t), value :: axis, is_upper
       real(c_double), intent(inout) :: total
       integer(c_int32_t) :: code
     end function c_problem_flux

     function c_solver_create(problem, options, device, threads, solver) bind(c, name="isobar_solver_create") result(code)
       import :: c_ptr, c_char, c_size_t, c_int32_t
       type(c_ptr), value :: problem, options, device
       integer(c_size_t), value :: threads
       type(c_ptr), intent(out) :: solver
       integer(c_int32_t) :: code
     end function c_solver_create

     function c_solver_solve(solver, b, u, from_u, progress, data) bind(c, name="isobar_solver_solve") result(code)
       import :: c_ptr, c_funptr, isobar_array, c_int32_t
       type(c_ptr), value :: solver, data
       type(isobar_array), intent(in) :: b, u
       integer(c_int32_t), value :: from_u
       type(c_funptr), value :: progress
       integer(c_int32_t) :: code
     end function c_solver_solve

     function c_solver_solve_many(solver, b, u, count, from_u, codes, progress, data) &
          bind(c, name="isobar_solver_solve_many") result(code)
       import :: c_ptr, c_funptr, c_size_t, isobar_array, c_int32_t
       type(c_ptr), value :: solver, data
       type(isobar_array), intent(in) :: b(*), u(*)
       integer(c_size_t), value :: count
       integer(c_int32_t), value :: from_u
       integer(c_int32_t), intent(inout) :: codes(*)
       type(c_funptr), value :: progress
       integer(c_int32_t) :: code
     end function c_solver_solve_many

     function c_solver_apply(solver, u, v) bind(c, name="isobar_solver_apply") result(code)
       import :: c_ptr, isobar_array, c_int32_t
       type(c_ptr), value :: solver
       type(isobar_array), intent(in) :: u, v
       integer(c_int32_t) :: code
     end function c_solver_apply

     function c_solver_update(solver, problem) bind(c, name="isobar_solver_update") result(code)
       import :: c_ptr, c_int32_t
       type(c_ptr), value :: solver, problem
       integer(c_int32_t) :: code
     end function c_solver_update

     function c_solver_gradient(solver, problem, u, ubar, wanted) bind(c, name="isobar_solver_gradient") result(code)
       import :: c_ptr, isobar_array, c_gradient, c_int32_t
       type(c_ptr), value :: solver, problem
       type(isobar_array), intent(in) :: u, ubar
       type(c_gradient), intent(in) :: wanted
       integer(c_int32_t) :: code
     end function c_solver_gradient

     function c_solver_report(solver, text) bind(c, name="isobar_solver_report") result(code)
       import :: c_ptr, c_int32_t
       type(c_ptr), value :: solver
       type(c_ptr), intent(out) :: text
       integer(c_int32_t) :: code
     end function c_solver_report

     subroutine c_solver_free(solver) bind(c, name="isobar_solver_free")
       import :: c_ptr
       type(c_ptr), value :: solver
     end subroutine c_solver_free

     function c_heat_create(problem, source, u, steps, options, device, threads, heat) bind(c, name="isobar_heat_create") &
          result(code)
       import :: c_ptr, isobar_array, c_time_steps, c_size_t, c_int32_t
       type(c_ptr), value :: problem, source, options, device
       type(isobar_array), intent(in) :: u
       type(c_time_steps), intent(in) :: steps
       integer(c_size_t), value :: threads
       type(c_ptr), intent(out) :: heat
       integer(c_int32_t) :: code
     end function c_heat_create

     function c_heat_from_case(text, folder, device, threads, heat) bind(c, name="isobar_heat_from_case") result(code)
       import :: c_char, c_ptr, c_size_t, c_int32_t
       character(kind=c_char), intent(in) :: text(*), folder(*)
       type(c_ptr), value :: device
       integer(c_size_t), value :: threads
       type(c_ptr), intent(out) :: heat
       integer(c_int32_t) :: code
     end function c_heat_from_case

     function c_heat_step(heat, progress, data, step) bind(c, name="isobar_heat_step") result(code)
       import :: c_ptr, c_funptr, c_step, c_int32_t
       type(c_ptr), value :: heat, data
       type(c_funptr), value :: progress
       type(c_step), intent(inout) :: step
       integer(c_int32_t) :: code
     end function c_heat_step

     function c_heat_state(heat, u) bind(c, name="isobar_heat_state") result(code)
       import :: c_ptr, isobar_array, c_int32_t
       type(c_ptr), value :: heat
       type(isobar_array), intent(in) :: u
       integer(c_int32_t) :: code
     end function c_heat_state

     function c_heat_set_state(heat, u) bind(c, name="isobar_heat_set_state") result(code)
       import :: c_ptr, isobar_array, c_int32_t
       type(c_ptr), value :: heat
       type(isobar_array), intent(in) :: u
       integer(c_int32_t) :: code
     end function c_heat_set_state

     function c_heat_update(heat, problem, source) bind(c, name="isobar_heat_update") result(code)
       import :: c_ptr, c_int32_t
       type(c_ptr), value :: heat, problem, source
       integer(c_int32_t) :: code
     end function c_heat_update

     function c_heat_energy(heat, energy) bind(c, name="isobar_heat_energy") result(code)
       import :: c_ptr, c_double, c_int32_t
       type(c_ptr), value :: heat
       real(c_double), intent(out) :: energy
       integer(c_int32_t) :: code
     end function c_heat_energy

     function c_heat_report(heat, text) bind(c, name="isobar_heat_report") result(code)
       import :: c_ptr, c_int32_t
       type(c_ptr), value :: heat
       type(c_ptr), intent(out) :: text
       integer(c_int32_t) :: code
     end function c_heat_report

     subroutine c_heat_free(heat) bind(c, name="isobar_heat_free")
       import :: c_ptr
       type(c_ptr), value :: heat
     end subroutine c_heat_free
  end interface

contains

  !> Returns a Neumann condition: the flux κ ∂u/∂n into the domain is given, per area; 0 closes the side.
  pure function isobar_neumann(flux) result(side)
    real(c_double), intent(in) :: flux
    type(isobar_side) :: side
    side = isobar_side(0, flux)
  end function isobar_neumann

  !> Returns a Dirichlet condition: the value of u is given.
  pure function isobar_dirichlet(value) result(side)
    real(c_double), intent(in) :: value
    type(isobar_side) :: side
    side = isobar_side(1, value)
  end function isobar_dirichlet

  !> Returns a periodic condition; the opposite side must be periodic too.
  pure function isobar_periodic() result(side)
    type(isobar_side) :: side
    side = isobar_side(2, 0.0_c_double)
  end function isobar_periodic

  !> Returns a Robin condition: a flux h (u − v) out of the domain, per area, with h = coefficient and v = value.
  pure function isobar_robin(coefficient, value) result(side)
    real(c_double), intent(in) :: coefficient, value
    type(isobar_side) :: side
    side = isobar_side(3, value, coefficient)
  end function isobar_robin

  !> Returns the message of the last failure on this thread; empty if there was none.
  function isobar_message() result(message)
    character(:), allocatable :: message
    message = text_at(c_last_error())
  end function isobar_message

  !> Returns the version of the library, such as "0.2.0".
  function isobar_version() result(version)
    character(:), allocatable :: version
    version = text_at(c_version())
  end function isobar_version

  !> Describes u(nx, ny, nz) in the memory of a GPU: address is that of u(1, 1, 1), extents is [nx, ny, nz], ordinal the number of the CUDA device.
  !> With the ordinal -1, u is in host memory: so solve_many takes it, address being c_loc(u(1, 1, 1)) of a target.
  !> strides are in elements, by default [1, nx, nx ny], which [0, 0, 0] means too; kind is c_float or, by default, c_double. stream is the
  !> cudaStream_t of the caller's work, which isobar waits for and which may use the result; without it, the caller's work on u is finished.
  function isobar_cuda_array(address, extents, ordinal, strides, kind, stream) result(array)
    type(c_ptr), intent(in) :: address
    integer, intent(in) :: extents(3)
    integer, intent(in) :: ordinal
    integer, intent(in), optional :: strides(3), kind
    type(c_ptr), intent(in), optional :: stream
    type(isobar_array) :: array
    integer(c_intptr_t) :: size
    array%data = address
    array%shape = int(max(0, extents(3:1:-1)), c_size_t)
    array%device = int(ordinal, c_int32_t)
    size = c_sizeof(0.0_c_double)
    if (present(kind)) then
       if (kind == c_float) then
          array%dtype = f32
          size = c_sizeof(0.0_c_float)
       else if (kind /= c_double) then
          ! Calls with the array refuse it.
          array%dtype = -1
       end if
    end if
    if (present(strides)) array%strides = size * int(strides(3:1:-1), c_intptr_t)
    if (present(stream)) array%stream = stream
  end function isobar_cuda_array

  subroutine problem_from_case(self, text, folder, code)
    class(isobar_problem), intent(inout) :: self
    character(*), intent(in) :: text
    character(*), intent(in), optional :: folder
    integer(c_int32_t), intent(out), optional :: code
    character(:), allocatable :: where_from
    where_from = ""
    if (present(folder)) where_from = trim(folder)
    call self%free()
    call settle(c_from_case(text // c_null_char, where_from // c_null_char, self%handle), code)
  end subroutine problem_from_case

  !> The grid has the given extents [nx, ny, nz]. tx(nx − 1, ny, nz), ty(nx, ny − 1, nz) and tz(nx, ny, nz − 1) are 0 if absent, as is the shift
  !> s(nx, ny, nz), such as the conductance to a side with a given value, of which b then contains s times that value. Cells where active is 0 are
  !> closed; by default those without conductances and shift. Along a periodic direction T has one more number, between the last cell and the first.
  !> Cells have no volumes: rhs returns f as it is.
  subroutine faces_r64(self, extents, tx, ty, tz, shift, active, code, periodic)
    class(isobar_problem), intent(inout) :: self
    integer, intent(in) :: extents(3)
    real(c_double), intent(in), target, optional :: tx(:, :, :), ty(:, :, :), tz(:, :, :), shift(:, :, :), active(:, :, :)
    integer(c_int32_t), intent(out), optional :: code
    logical, intent(in), optional :: periodic(3)
    type(isobar_array), target :: places(5)
    type(c_faces) :: description
    description%tx = optional_r64(tx, places(1))
    description%ty = optional_r64(ty, places(2))
    description%tz = optional_r64(tz, places(3))
    description%shift = optional_r64(shift, places(4))
    description%active = optional_r64(active, places(5))
    call make_faces(self, description, extents, periodic, code)
  end subroutine faces_r64

  !> Arrays in the memory of one GPU, from isobar_cuda_array. The solver is on that GPU, and the arrays of rhs are there too. With one column in x, tx
  !> has no elements: isobar_cuda_array(c_null_ptr, [0, ny, nz], device).
  subroutine faces_array(self, extents, tx, ty, tz, shift, active, code, periodic)
    class(isobar_problem), intent(inout) :: self
    integer, intent(in) :: extents(3)
    type(isobar_array), intent(in), target :: tx
    type(isobar_array), intent(in), target, optional :: ty, tz, shift, active
    integer(c_int32_t), intent(out), optional :: code
    logical, intent(in), optional :: periodic(3)
    type(c_faces) :: description
    description%tx = c_loc(tx)
    description%ty = place_in(ty)
    description%tz = place_in(tz)
    description%shift = place_in(shift)
    description%active = place_in(active)
    call make_faces(self, description, extents, periodic, code)
  end subroutine faces_array

  subroutine make_faces(self, description, extents, periodic, code)
    class(isobar_problem), intent(inout) :: self
    type(c_faces), intent(inout) :: description
    integer, intent(in) :: extents(3)
    logical, intent(in), optional :: periodic(3)
    integer(c_int32_t), intent(out), optional :: code
    call self%free()
    description%size = c_sizeof(description)
    description%shape = max(0, extents(3:1:-1))
    if (present(periodic)) description%periodic = merge(1, 0, periodic)
    call settle(c_problem_faces(description, self%handle), code)
  end subroutine make_faces

  !> spacing is [dx, dy, dz], the widths of cells, by default 1/n; dx(nx), dy(ny) and dz(nz) are the widths of every cell, if they differ.
  !> sides(1, d) is the lower side of direction d, closed by default. kappa_y and kappa_z are κ in y and z, if different from that in x;
  !> κ is 0 in inactive cells, as are those where active is 0; reaction is c, by default 0. Arrays are copied. With ranks, arrays have this
  !> rank's rows of a grid with ny rows, and the problem is divided; sides and widths are those of the whole grid.
  subroutine diffusion_r64(self, kappa, spacing, sides, kappa_z, reaction, code, ranks, ny, kappa_y, active, dx, dy, dz)
    class(isobar_problem), intent(inout) :: self
    real(c_double), intent(in), target :: kappa(:, :, :)
    real(c_double), intent(in), optional :: spacing(3)
    type(isobar_side), intent(in), optional :: sides(2, 3)
    real(c_double), intent(in), target, optional :: kappa_z(:, :, :), reaction(:, :, :)
    integer(c_int32_t), intent(out), optional :: code
    class(isobar_ranks), intent(in), optional :: ranks
    integer, intent(in), optional :: ny
    real(c_double), intent(in), target, optional :: kappa_y(:, :, :), active(:, :, :)
    real(c_double), intent(in), optional :: dx(:), dy(:), dz(:)
    type(isobar_array), target :: places(5)
    type(c_diffusion) :: description
    description%kappa = optional_r64(kappa, places(1))
    description%kappa_y = optional_r64(kappa_y, places(2))
    description%kappa_z = optional_r64(kappa_z, places(3))
    description%reaction = optional_r64(reaction, places(4))
    description%active = optional_r64(active, places(5))
    call make(self, description, shape(kappa), spacing, sides, code, ranks, ny, dx, dy, dz)
  end subroutine diffusion_r64

  subroutine diffusion_r32(self, kappa, spacing, sides, kappa_z, reaction, code, ranks, ny, kappa_y, active, dx, dy, dz)
    class(isobar_problem), intent(inout) :: self
    real(c_float), intent(in), target :: kappa(:, :, :)
    real(c_double), intent(in), optional :: spacing(3)
    type(isobar_side), intent(in), optional :: sides(2, 3)
    real(c_float), intent(in), target, optional :: kappa_z(:, :, :), reaction(:, :, :)
    integer(c_int32_t), intent(out), optional :: code
    class(isobar_ranks), intent(in), optional :: ranks
    integer, intent(in), optional :: ny
    real(c_float), intent(in), target, optional :: kappa_y(:, :, :), active(:, :, :)
    real(c_double), intent(in), optional :: dx(:), dy(:), dz(:)
    type(isobar_array), target :: places(5)
    type(c_diffusion) :: description
    description%kappa = optional_r32(kappa, places(1))
    description%kappa_y = optional_r32(kappa_y, places(2))
    description%kappa_z = optional_r32(kappa_z, places(3))
    description%reaction = optional_r32(reaction, places(4))
    description%active = optional_r32(active, places(5))
    call make(self, description, shape(kappa), spacing, sides, code, ranks, ny, dx, dy, dz)
  end subroutine diffusion_r32

  !> Arrays in the memory of one GPU, from isobar_cuda_array. The solver is on that GPU, and the arrays of rhs are there too.
  subroutine diffusion_array(self, kappa, spacing, sides, kappa_z, reaction, code, kappa_y, dx, dy, dz)
    class(isobar_problem), intent(inout) :: self
    type(isobar_array), intent(in), target :: kappa
    real(c_double), intent(in), optional :: spacing(3)
    type(isobar_side), intent(in), optional :: sides(2, 3)
    type(isobar_array), intent(in), target, optional :: kappa_z, reaction
    integer(c_int32_t), intent(out), optional :: code
    type(isobar_array), intent(in), target, optional :: kappa_y
    real(c_double), intent(in), optional :: dx(:), dy(:), dz(:)
    type(c_diffusion) :: description
    description%kappa = c_loc(kappa)
    description%kappa_y = place_in(kappa_y)
    description%kappa_z = place_in(kappa_z)
    description%reaction = place_in(reaction)
    call make(self, description, int(kappa%shape(3:1:-1)), spacing, sides, code, dx=dx, dy=dy, dz=dz)
  end subroutine diffusion_array

  subroutine make(self, description, extents, spacing, sides, code, ranks, ny, dx, dy, dz)
    class(isobar_problem), intent(inout) :: self
    type(c_diffusion), intent(inout) :: description
    integer, intent(in) :: extents(3)
    real(c_double), intent(in), optional :: spacing(3)
    type(isobar_side), intent(in), optional :: sides(2, 3)
    integer(c_int32_t), intent(out), optional :: code
    class(isobar_ranks), intent(in), optional :: ranks
    integer, intent(in), optional :: ny
    real(c_double), intent(in), optional :: dx(:), dy(:), dz(:)
    type(numbers), target :: widths(3)
    integer :: cells(3)
    character(:), allocatable :: wrong
    integer(c_int32_t) :: found
    description%size = c_sizeof(description)
    if (present(spacing)) description%spacing = spacing
    if (present(sides)) then
       description%sides%kind = sides%kind
       description%sides%value = sides%value
       description%coefficients = sides%coefficient
    end if
    call self%free()
    cells = extents
    if (present(ranks) .and. present(ny)) cells(2) = ny
    if (present(ny) .and. .not. present(ranks)) wrong = "ny is given without ranks; give both, for a grid that is divided"
    if (present(ranks) .and. .not. present(ny)) wrong = "ranks are given without ny; give the number of rows of the whole grid"
    call widths_of(dx, "dx", 1)
    call widths_of(dy, "dy", 2)
    call widths_of(dz, "dz", 3)
    ! With ranks the call is collective, and fails on all of them without a size.
    if (allocated(wrong)) description%size = 0
    if (present(ranks)) then
       found = c_problem_rows(description, count_of(ny), ranks%handle, self%handle)
    else
       found = c_problem_diffusion(description, self%handle)
    end if
    if (allocated(wrong)) found = c_refuse(wrong // c_null_char)
    call settle(found, code)
  contains
    subroutine widths_of(values, name, d)
      real(c_double), intent(in), optional :: values(:)
      character(*), intent(in) :: name
      integer, intent(in) :: d
      if (.not. present(values)) return
      if (size(values) == cells(d)) then
         allocate (widths(d)%values(size(values), 1))
         widths(d)%values(:, 1) = values
         description%widths(d) = c_loc(widths(d)%values)
      else
         wrong = name // " has the shape " // text_of(shape(values)) // ", but " // text_of(cells(d:d)) // &
              " is needed for kappa of the shape " // text_of(extents)
      end if
    end subroutine widths_of
  end subroutine make

  subroutine problem_divide(self, ranks, code)
    class(isobar_problem), intent(inout) :: self
    class(isobar_ranks), intent(in) :: ranks
    integer(c_int32_t), intent(out), optional :: code
    call settle(c_problem_divide(self%handle, ranks%handle), code)
  end subroutine problem_divide

  subroutine ranks_create(self, communicator, code)
    class(isobar_ranks), intent(inout) :: self
    integer, intent(in) :: communicator
    integer(c_int32_t), intent(out), optional :: code
    call self%free()
    call settle(c_ranks_create(int(communicator, c_int32_t), self%handle), code)
  end subroutine ranks_create

  subroutine ranks_rows(self, ny, first, last, code)
    class(isobar_ranks), intent(in) :: self
    integer, intent(in) :: ny
    integer, intent(out) :: first, last
    integer(c_int32_t), intent(out), optional :: code
    integer(c_size_t) :: before, count
    before = 0
    count = 0
    call settle(c_ranks_rows(self%handle, count_of(ny), before, count), code)
    first = int(before) + 1
    last = int(before + count)
  end subroutine ranks_rows

  subroutine ranks_free(self)
    class(isobar_ranks), intent(inout) :: self
    call c_ranks_free(self%handle)
    self%handle = c_null_ptr
  end subroutine ranks_free

  impure elemental subroutine ranks_assign(self, other)
    class(isobar_ranks), intent(inout) :: self
    type(isobar_ranks), intent(in) :: other
    if (c_associated(other%handle)) error stop &
      "isobar: a copy of an isobar_ranks would free it twice; pass it as an argument"
    call self%free()
  end subroutine ranks_assign

  impure elemental subroutine ranks_finalize(self)
    type(isobar_ranks), intent(inout) :: self
    call self%free()
  end subroutine ranks_finalize

  function problem_extents(self) result(extents)
    class(isobar_problem), intent(in) :: self
    integer :: extents(3)
    integer(c_size_t) :: shape(3)
    call settle(c_problem_shape(self%handle, shape))
    extents = int(shape(3:1:-1))
  end function problem_extents

  subroutine rhs_r64_3(self, b, f, code)
    class(isobar_problem), intent(in) :: self
    real(c_double), intent(inout), target :: b(:, :, :)
    real(c_double), intent(in), target, optional :: f(:, :, :)
    integer(c_int32_t), intent(out), optional :: code
    type(isobar_array), allocatable :: source
    if (present(f)) source = array_r64(f)
    call rhs_array(self, array_r64(b), source, code)
  end subroutine rhs_r64_3

  subroutine rhs_r64_2(self, b, f, code)
    class(isobar_problem), intent(in) :: self
    real(c_double), intent(inout), target :: b(:, :)
    real(c_double), intent(in), target, optional :: f(:, :)
    integer(c_int32_t), intent(out), optional :: code
    type(isobar_array), allocatable :: source
    if (present(f)) source = plane_r64(f)
    call rhs_array(self, plane_r64(b), source, code)
  end subroutine rhs_r64_2

  subroutine rhs_r64_1(self, b, f, code)
    class(isobar_problem), intent(in) :: self
    real(c_double), intent(inout), target :: b(:)
    real(c_double), intent(in), target, optional :: f(:)
    integer(c_int32_t), intent(out), optional :: code
    type(isobar_array), allocatable :: source
    if (present(f)) source = line_r64(f)
    call rhs_array(self, line_r64(b), source, code)
  end subroutine rhs_r64_1

  subroutine rhs_r32_3(self, b, f, code)
    class(isobar_problem), intent(in) :: self
    real(c_float), intent(inout), target :: b(:, :, :)
    real(c_float), intent(in), target, optional :: f(:, :, :)
    integer(c_int32_t), intent(out), optional :: code
    type(isobar_array), allocatable :: source
    if (present(f)) source = array_r32(f)
    call rhs_array(self, array_r32(b), source, code)
  end subroutine rhs_r32_3

  subroutine rhs_array(self, b, f, code)
    class(isobar_problem), intent(in) :: self
    type(isobar_array), intent(in) :: b
    type(isobar_array), intent(in), target, optional :: f
    integer(c_int32_t), intent(out), optional :: code
    call settle(c_problem_rhs(self%handle, place_in(f), b), code)
  end subroutine rhs_array

  subroutine problem_flux(self, u, axis, is_upper, total, code)
    class(isobar_problem), intent(in) :: self
    real(c_double), intent(in), target :: u(:, :, :)
    integer, intent(in) :: axis
    logical, intent(in) :: is_upper
    real(c_double), intent(inout) :: total
    integer(c_int32_t), intent(out), optional :: code
    integer(c_int32_t) :: found
    character(20) :: given
    found = c_problem_flux(self%handle, array_r64(u), int(axis - 1, c_int32_t), merge(1_c_int32_t, 0_c_int32_t, is_upper), total)
    if (axis < 1 .or. axis > 3) then
       write (given, '(i0)') axis
       found = c_refuse("axis is " // trim(given) // "; use 1 for x, 2 for y or 3 for z" // c_null_char)
    end if
    call settle(found, code)
  end subroutine problem_flux

  subroutine problem_free(self)
    class(isobar_problem), intent(inout) :: self
    call c_problem_free(self%handle)
    self%handle = c_null_ptr
  end subroutine problem_free

  impure elemental subroutine problem_assign(self, other)
    class(isobar_problem), intent(inout) :: self
    type(isobar_problem), intent(in) :: other
    if (c_associated(other%handle)) error stop &
      "isobar: a copy of an isobar_problem would free it twice; pass it as an argument"
    call self%free()
  end subroutine problem_assign

  impure elemental subroutine problem_finalize(self)
    type(isobar_problem), intent(inout) :: self
    call self%free()
  end subroutine problem_finalize

  !> options are keys of a case file's section `[solver]` as TOML or as a JSON object, such as "tolerance = 1e-8"; by default the options of the
  !> problem's case, or a tolerance of 1e-5 relative to the residual of the first guess (norm = "initial"). device is "auto" (the default),
  !> "cpu", "cuda", "cuda:N", or several GPUs as "cuda:0,1"; threads is the number of CPU threads, by default one per core.
  subroutine solver_create(self, problem, options, device, threads, code)
    class(isobar_solver), intent(inout) :: self
    class(isobar_problem), intent(in) :: problem
    character(*), intent(in), optional :: options, device
    integer, intent(in), optional :: threads
    integer(c_int32_t), intent(out), optional :: code
    character(:), allocatable, target :: given_options, given_device
    call self%free()
    call settle(c_solver_create(problem%handle, place_of(options, given_options), place_of(device, given_device), &
         threads_of(threads), self%handle), code)
  end subroutine solver_create

  subroutine solve_arrays(self, b, u, from_u, code)
    class(isobar_solver), intent(inout) :: self
    type(isobar_array), intent(in) :: b, u
    logical, intent(in), optional :: from_u
    integer(c_int32_t), intent(out), optional :: code
    integer(c_int32_t) :: begins
    begins = 0
    if (present(from_u)) begins = merge(1_c_int32_t, 0_c_int32_t, from_u)
    call settle(c_solver_solve(self%handle, b, u, begins, c_null_funptr, c_null_ptr), code)
  end subroutine solve_arrays

  subroutine solver_solve_many(self, b, u, codes, from_u, code)
    class(isobar_solver), intent(inout) :: self
    type(isobar_array), intent(in) :: b(:), u(size(b))
    integer(c_int32_t), intent(out) :: codes(size(b))
    logical, intent(in), optional :: from_u
    integer(c_int32_t), intent(out), optional :: code
    integer(c_int32_t) :: begins
    begins = 0
    if (present(from_u)) begins = merge(1_c_int32_t, 0_c_int32_t, from_u)
    codes = 0
    call settle(c_solver_solve_many(self%handle, b, u, size(b, kind=c_size_t), begins, codes, c_null_funptr, c_null_ptr), code)
  end subroutine solver_solve_many

  subroutine apply_arrays(self, u, v, code)
    class(isobar_solver), intent(inout) :: self
    type(isobar_array), intent(in) :: u, v
    integer(c_int32_t), intent(out), optional :: code
    call settle(c_solver_apply(self%handle, u, v), code)
  end subroutine apply_arrays

  subroutine solve_r64_3(self, b, u, from_u, code)
    class(isobar_solver), intent(inout) :: self
    real(c_double), intent(in), target :: b(:, :, :)
    real(c_double), intent(inout), target :: u(:, :, :)
    logical, intent(in), optional :: from_u
    integer(c_int32_t), intent(out), optional :: code
    call solve_arrays(self, array_r64(b), array_r64(u), from_u, code)
  end subroutine solve_r64_3

  subroutine solve_r64_2(self, b, u, from_u, code)
    class(isobar_solver), intent(inout) :: self
    real(c_double), intent(in), target :: b(:, :)
    real(c_double), intent(inout), target :: u(:, :)
    logical, intent(in), optional :: from_u
    integer(c_int32_t), intent(out), optional :: code
    call solve_arrays(self, plane_r64(b), plane_r64(u), from_u, code)
  end subroutine solve_r64_2

  subroutine solve_r64_1(self, b, u, from_u, code)
    class(isobar_solver), intent(inout) :: self
    real(c_double), intent(in), target :: b(:)
    real(c_double), intent(inout), target :: u(:)
    logical, intent(in), optional :: from_u
    integer(c_int32_t), intent(out), optional :: code
    call solve_arrays(self, line_r64(b), line_r64(u), from_u, code)
  end subroutine solve_r64_1

  subroutine solve_r32_3(self, b, u, from_u, code)
    class(isobar_solver), intent(inout) :: self
    real(c_float), intent(in), target :: b(:, :, :)
    real(c_float), intent(inout), target :: u(:, :, :)
    logical, intent(in), optional :: from_u
    integer(c_int32_t), intent(out), optional :: code
    call solve_arrays(self, array_r32(b), array_r32(u), from_u, code)
  end subroutine solve_r32_3

  subroutine solve_r32_2(self, b, u, from_u, code)
    class(isobar_solver), intent(inout) :: self
    real(c_float), intent(in), target :: b(:, :)
    real(c_float), intent(inout), target :: u(:, :)
    logical, intent(in), optional :: from_u
    integer(c_int32_t), intent(out), optional :: code
    call solve_arrays(self, plane_r32(b), plane_r32(u), from_u, code)
  end subroutine solve_r32_2

  subroutine solve_r32_1(self, b, u, from_u, code)
    class(isobar_solver), intent(inout) :: self
    real(c_float), intent(in), target :: b(:)
    real(c_float), intent(inout), target :: u(:)
    logical, intent(in), optional :: from_u
    integer(c_int32_t), intent(out), optional :: code
    call solve_arrays(self, line_r32(b), line_r32(u), from_u, code)
  end subroutine solve_r32_1

  subroutine apply_r64_3(self, u, v, code)
    class(isobar_solver), intent(inout) :: self
    real(c_double), intent(in), target :: u(:, :, :)
    real(c_double), intent(inout), target :: v(:, :, :)
    integer(c_int32_t), intent(out), optional :: code
    call settle(c_solver_apply(self%handle, array_r64(u), array_r64(v)), code)
  end subroutine apply_r64_3

  subroutine apply_r64_2(self, u, v, code)
    class(isobar_solver), intent(inout) :: self
    real(c_double), intent(in), target :: u(:, :)
    real(c_double), intent(inout), target :: v(:, :)
    integer(c_int32_t), intent(out), optional :: code
    call settle(c_solver_apply(self%handle, plane_r64(u), plane_r64(v)), code)
  end subroutine apply_r64_2

  subroutine apply_r64_1(self, u, v, code)
    class(isobar_solver), intent(inout) :: self
    real(c_double), intent(in), target :: u(:)
    real(c_double), intent(inout), target :: v(:)
    integer(c_int32_t), intent(out), optional :: code
    call settle(c_solver_apply(self%handle, line_r64(u), line_r64(v)), code)
  end subroutine apply_r64_1

  subroutine apply_r32_3(self, u, v, code)
    class(isobar_solver), intent(inout) :: self
    real(c_float), intent(in), target :: u(:, :, :)
    real(c_float), intent(inout), target :: v(:, :, :)
    integer(c_int32_t), intent(out), optional :: code
    call settle(c_solver_apply(self%handle, array_r32(u), array_r32(v)), code)
  end subroutine apply_r32_3

  subroutine solver_update(self, problem, code)
    class(isobar_solver), intent(inout) :: self
    class(isobar_problem), intent(in) :: problem
    integer(c_int32_t), intent(out), optional :: code
    call settle(c_solver_update(self%handle, problem%handle), code)
  end subroutine solver_update

  !> u is the result of the last solve, ubar ∂J/∂u, and problem the one that the solver was made from or last updated with. If this solve or the
  !> last one did not converge, the call fails and nothing is written. With fixed_b, b does not change with κ, sides and widths. dx(nx), dy(ny) and
  !> dz(nz) are derivatives with respect to widths of cells, which need the source density f as density if b has one; west(ny, nz), east, south(nx, nz),
  !> north, bottom(nx, ny) and top those with respect to the values or fluxes of each side's faces; tx, ty, tz and
  !> shift, of the shapes given to problem%faces, those with respect to conductances and s.
  subroutine solver_gradient(self, problem, u, ubar, b, kappa, kappa_y, kappa_z, reaction, f, fixed_b, code, dx, dy, dz, density, &
       west, east, south, north, bottom, top, tx, ty, tz, shift)
    class(isobar_solver), intent(inout) :: self
    class(isobar_problem), intent(in) :: problem
    real(c_double), intent(in), target :: u(:, :, :), ubar(:, :, :)
    real(c_double), intent(inout), target, optional :: b(:, :, :), kappa(:, :, :), kappa_y(:, :, :), kappa_z(:, :, :)
    real(c_double), intent(inout), target, optional :: reaction(:, :, :), f(:, :, :)
    real(c_double), intent(inout), target, optional :: tx(:, :, :), ty(:, :, :), tz(:, :, :), shift(:, :, :)
    real(c_double), intent(inout), optional :: dx(:), dy(:), dz(:)
    real(c_double), intent(inout), optional :: west(:, :), east(:, :), south(:, :), north(:, :), bottom(:, :), top(:, :)
    real(c_double), intent(in), target, optional :: density(:, :, :)
    logical, intent(in), optional :: fixed_b
    integer(c_int32_t), intent(out), optional :: code
    type(isobar_array), target :: places(11)
    type(c_gradient) :: wanted
    type(numbers), target :: widths(3), faces(2, 3)
    integer(c_int32_t) :: found
    wanted%size = c_sizeof(wanted)
    if (present(fixed_b)) wanted%fixed_b = merge(1, 0, fixed_b)
    wanted%b = optional_r64(b, places(1))
    wanted%kappa = optional_r64(kappa, places(2))
    wanted%kappa_y = optional_r64(kappa_y, places(3))
    wanted%kappa_z = optional_r64(kappa_z, places(4))
    wanted%reaction = optional_r64(reaction, places(5))
    wanted%f = optional_r64(f, places(6))
    wanted%density = optional_r64(density, places(7))
    wanted%faces = [optional_r64(tx, places(8)), optional_r64(ty, places(9)), optional_r64(tz, places(10))]
    wanted%shift = optional_r64(shift, places(11))
    found = isobar_ok
    ! Numbers of faces and widths are written to arrays of the right size, and copied if all is well.
    call widths_of(dx, "dx", 1)
    call widths_of(dy, "dy", 2)
    call widths_of(dz, "dz", 3)
    call faces_of(west, "west", 1, 1)
    call faces_of(east, "east", 2, 1)
    call faces_of(south, "south", 1, 2)
    call faces_of(north, "north", 2, 2)
    call faces_of(bottom, "bottom", 1, 3)
    call faces_of(top, "top", 2, 3)
    if (found == isobar_ok) found = c_solver_gradient(self%handle, problem%handle, array_r64(u), array_r64(ubar), wanted)
    call settle(found, code)
    if (found /= isobar_ok) return
    if (present(dx)) dx = widths(1)%values(:, 1)
    if (present(dy)) dy = widths(2)%values(:, 1)
    if (present(dz)) dz = widths(3)%values(:, 1)
    if (present(west)) west = faces(1, 1)%values
    if (present(east)) east = faces(2, 1)%values
    if (present(south)) south = faces(1, 2)%values
    if (present(north)) north = faces(2, 2)%values
    if (present(bottom)) bottom = faces(1, 3)%values
    if (present(top)) top = faces(2, 3)%values
  contains
    subroutine widths_of(values, name, d)
      real(c_double), intent(in), optional :: values(:)
      character(*), intent(in) :: name
      integer, intent(in) :: d
      if (.not. present(values)) return
      call require(shape(values), [size(u, d)], name)
      allocate (widths(d)%values(size(values), 1))
      wanted%widths(d) = c_loc(widths(d)%values)
    end subroutine widths_of

    subroutine faces_of(values, name, side, d)
      real(c_double), intent(in), optional :: values(:, :)
      character(*), intent(in) :: name
      integer, intent(in) :: side, d
      if (.not. present(values)) return
      call require(shape(values), pack(shape(u), [1, 2, 3] /= d), name)
      allocate (faces(side, d)%values(size(values, 1), size(values, 2)))
      wanted%side_values(side, d) = c_loc(faces(side, d)%values)
    end subroutine faces_of

    subroutine require(extents, needed, name)
      integer, intent(in) :: extents(:), needed(:)
      character(*), intent(in) :: name
      if (all(extents == needed)) return
      found = c_refuse(name // " has the shape " // text_of(extents) // ", but " // text_of(needed) // " is needed for u of " // &
           "the shape " // text_of(shape(u)) // c_null_char)
    end subroutine require
  end subroutine solver_gradient

  !> Returns the address of a description, or null if it is absent.
  function place_in(array) result(place)
    type(isobar_array), intent(in), target, optional :: array
    type(c_ptr) :: place
    place = c_null_ptr
    if (present(array)) place = c_loc(array)
  end function place_in

  !> Returns the address of a described array, or null if it is absent.
  function optional_r64(values, array) result(place)
    real(c_double), intent(in), target, optional :: values(:, :, :)
    type(isobar_array), intent(out), target :: array
    type(c_ptr) :: place
    place = c_null_ptr
    if (present(values)) then
       array = array_r64(values)
       place = c_loc(array)
    end if
  end function optional_r64

  function optional_r32(values, array) result(place)
    real(c_float), intent(in), target, optional :: values(:, :, :)
    type(isobar_array), intent(out), target :: array
    type(c_ptr) :: place
    place = c_null_ptr
    if (present(values)) then
       array = array_r32(values)
       place = c_loc(array)
    end if
  end function optional_r32

  function solver_report(self) result(report)
    class(isobar_solver), intent(in) :: self
    character(:), allocatable :: report
    type(c_ptr) :: text
    call settle(c_solver_report(self%handle, text))
    report = text_at(text)
  end function solver_report

  subroutine solver_free(self)
    class(isobar_solver), intent(inout) :: self
    call c_solver_free(self%handle)
    self%handle = c_null_ptr
  end subroutine solver_free

  impure elemental subroutine solver_assign(self, other)
    class(isobar_solver), intent(inout) :: self
    type(isobar_solver), intent(in) :: other
    if (c_associated(other%handle)) error stop &
      "isobar: a copy of an isobar_solver would free it twice; pass it as an argument"
    call self%free()
  end subroutine solver_assign

  impure elemental subroutine solver_finalize(self)
    type(isobar_solver), intent(inout) :: self
    call self%free()
  end subroutine solver_finalize

  !> dt is the length of a step; with step_tolerance, of the first step: lengths are then chosen so that the estimated error of each step
  !> stays below it. scheme is isobar_crank_nicolson or isobar_backward_euler; source is f in every cell. With extrapolates = .true. the first
  !> guess of a step is extrapolated linearly from the previous two states. The tolerance of options is relative to the first residual of each step, or
  !> to ‖b‖ where that is smaller.
  subroutine heat_create_3(self, problem, u, dt, end_time, source, scheme, step_tolerance, extrapolates, options, device, &
       threads, code)
    class(isobar_heat), intent(inout) :: self
    class(isobar_problem), intent(in) :: problem
    real(c_double), intent(in), target :: u(:, :, :)
    real(c_double), intent(in) :: dt, end_time
    real(c_double), intent(in), target, optional :: source(:, :, :)
    integer(c_int32_t), intent(in), optional :: scheme
    real(c_double), intent(in), optional :: step_tolerance
    logical, intent(in), optional :: extrapolates
    character(*), intent(in), optional :: options, device
    integer, intent(in), optional :: threads
    integer(c_int32_t), intent(out), optional :: code
    type(isobar_array), allocatable :: body
    if (present(source)) body = array_r64(source)
    call heat_begin(self, problem, array_r64(u), body, dt, end_time, scheme, step_tolerance, extrapolates, options, device, &
         threads, code)
  end subroutine heat_create_3

  subroutine heat_create_2(self, problem, u, dt, end_time, source, scheme, step_tolerance, extrapolates, options, device, &
       threads, code)
    class(isobar_heat), intent(inout) :: self
    class(isobar_problem), intent(in) :: problem
    real(c_double), intent(in), target :: u(:, :)
    real(c_double), intent(in) :: dt, end_time
    real(c_double), intent(in), target, optional :: source(:, :)
    integer(c_int32_t), intent(in), optional :: scheme
    real(c_double), intent(in), optional :: step_tolerance
    logical, intent(in), optional :: extrapolates
    character(*), intent(in), optional :: options, device
    integer, intent(in), optional :: threads
    integer(c_int32_t), intent(out), optional :: code
    type(isobar_array), allocatable :: body
    if (present(source)) body = plane_r64(source)
    call heat_begin(self, problem, plane_r64(u), body, dt, end_time, scheme, step_tolerance, extrapolates, options, device, &
         threads, code)
  end subroutine heat_create_2

  subroutine heat_create_1(self, problem, u, dt, end_time, source, scheme, step_tolerance, extrapolates, options, device, &
       threads, code)
    class(isobar_heat), intent(inout) :: self
    class(isobar_problem), intent(in) :: problem
    real(c_double), intent(in), target :: u(:)
    real(c_double), intent(in) :: dt, end_time
    real(c_double), intent(in), target, optional :: source(:)
    integer(c_int32_t), intent(in), optional :: scheme
    real(c_double), intent(in), optional :: step_tolerance
    logical, intent(in), optional :: extrapolates
    character(*), intent(in), optional :: options, device
    integer, intent(in), optional :: threads
    integer(c_int32_t), intent(out), optional :: code
    type(isobar_array), allocatable :: body
    if (present(source)) body = line_r64(source)
    call heat_begin(self, problem, line_r64(u), body, dt, end_time, scheme, step_tolerance, extrapolates, options, device, &
         threads, code)
  end subroutine heat_create_1

  !> An array that is not allocated is an absent argument.
  subroutine heat_begin(self, problem, u, source, dt, end_time, scheme, step_tolerance, extrapolates, options, device, &
       threads, code)
    class(isobar_heat), intent(inout) :: self
    class(isobar_problem), intent(in) :: problem
    type(isobar_array), intent(in) :: u
    type(isobar_array), intent(in), target, optional :: source
    real(c_double), intent(in) :: dt, end_time
    integer(c_int32_t), intent(in), optional :: scheme
    real(c_double), intent(in), optional :: step_tolerance
    logical, intent(in), optional :: extrapolates
    character(*), intent(in), optional :: options, device
    integer, intent(in), optional :: threads
    integer(c_int32_t), intent(out), optional :: code
    type(c_time_steps) :: steps
    character(:), allocatable, target :: given_options, given_device
    steps%size = c_sizeof(steps)
    steps%dt = dt
    steps%end_time = end_time
    if (present(scheme)) steps%scheme = scheme
    if (present(step_tolerance)) steps%step_tolerance = step_tolerance
    if (present(extrapolates)) steps%extrapolates = merge(1_c_int32_t, 0_c_int32_t, extrapolates)
    call self%free()
    call settle(c_heat_create(problem%handle, place_in(source), u, steps, place_of(options, given_options), &
         place_of(device, given_device), threads_of(threads), self%handle), code)
  end subroutine heat_begin

  subroutine heat_from_case(self, text, folder, device, threads, code)
    class(isobar_heat), intent(inout) :: self
    character(*), intent(in) :: text
    character(*), intent(in), optional :: folder, device
    integer, intent(in), optional :: threads
    integer(c_int32_t), intent(out), optional :: code
    character(:), allocatable :: where_from
    character(:), allocatable, target :: given_device
    where_from = ""
    if (present(folder)) where_from = trim(folder)
    call self%free()
    call settle(c_heat_from_case(text // c_null_char, where_from // c_null_char, place_of(device, given_device), &
         threads_of(threads), self%handle), code)
  end subroutine heat_from_case

  subroutine heat_step(self, step, code)
    class(isobar_heat), intent(inout) :: self
    type(isobar_step), intent(out), optional :: step
    integer(c_int32_t), intent(out), optional :: code
    type(c_step) :: taken
    integer(c_int32_t) :: found
    found = c_heat_step(self%handle, c_null_funptr, c_null_ptr, taken)
    if (present(step)) step = isobar_step(int(taken%number), taken%time, taken%dt, taken%error, taken%relative_residual, &
         int(taken%iterations), taken%is_last /= 0)
    call settle(found, code)
  end subroutine heat_step

  subroutine heat_state_3(self, u, code)
    class(isobar_heat), intent(inout) :: self
    real(c_double), intent(inout), target :: u(:, :, :)
    integer(c_int32_t), intent(out), optional :: code
    call settle(c_heat_state(self%handle, array_r64(u)), code)
  end subroutine heat_state_3

  subroutine heat_state_2(self, u, code)
    class(isobar_heat), intent(inout) :: self
    real(c_double), intent(inout), target :: u(:, :)
    integer(c_int32_t), intent(out), optional :: code
    call settle(c_heat_state(self%handle, plane_r64(u)), code)
  end subroutine heat_state_2

  subroutine heat_state_1(self, u, code)
    class(isobar_heat), intent(inout) :: self
    real(c_double), intent(inout), target :: u(:)
    integer(c_int32_t), intent(out), optional :: code
    call settle(c_heat_state(self%handle, line_r64(u)), code)
  end subroutine heat_state_1

  subroutine heat_set_3(self, u, code)
    class(isobar_heat), intent(inout) :: self
    real(c_double), intent(in), target :: u(:, :, :)
    integer(c_int32_t), intent(out), optional :: code
    call settle(c_heat_set_state(self%handle, array_r64(u)), code)
  end subroutine heat_set_3

  subroutine heat_set_2(self, u, code)
    class(isobar_heat), intent(inout) :: self
    real(c_double), intent(in), target :: u(:, :)
    integer(c_int32_t), intent(out), optional :: code
    call settle(c_heat_set_state(self%handle, plane_r64(u)), code)
  end subroutine heat_set_2

  subroutine heat_set_1(self, u, code)
    class(isobar_heat), intent(inout) :: self
    real(c_double), intent(in), target :: u(:)
    integer(c_int32_t), intent(out), optional :: code
    call settle(c_heat_set_state(self%handle, line_r64(u)), code)
  end subroutine heat_set_1

  subroutine heat_update_3(self, problem, source, code)
    class(isobar_heat), intent(inout) :: self
    class(isobar_problem), intent(in) :: problem
    real(c_double), intent(in), target :: source(:, :, :)
    integer(c_int32_t), intent(out), optional :: code
    type(isobar_array), target :: body
    body = array_r64(source)
    call settle(c_heat_update(self%handle, problem%handle, c_loc(body)), code)
  end subroutine heat_update_3

  subroutine heat_update_0(self, problem, code)
    class(isobar_heat), intent(inout) :: self
    class(isobar_problem), intent(in) :: problem
    integer(c_int32_t), intent(out), optional :: code
    call settle(c_heat_update(self%handle, problem%handle, c_null_ptr), code)
  end subroutine heat_update_0

  function heat_energy(self) result(energy)
    class(isobar_heat), intent(in) :: self
    real(c_double) :: energy
    call settle(c_heat_energy(self%handle, energy))
  end function heat_energy

  function heat_report(self) result(report)
    class(isobar_heat), intent(in) :: self
    character(:), allocatable :: report
    type(c_ptr) :: text
    call settle(c_heat_report(self%handle, text))
    report = text_at(text)
  end function heat_report

  subroutine heat_free(self)
    class(isobar_heat), intent(inout) :: self
    call c_heat_free(self%handle)
    self%handle = c_null_ptr
  end subroutine heat_free

  impure elemental subroutine heat_assign(self, other)
    class(isobar_heat), intent(inout) :: self
    type(isobar_heat), intent(in) :: other
    if (c_associated(other%handle)) error stop &
      "isobar: a copy of an isobar_heat would free it twice; pass it as an argument"
    call self%free()
  end subroutine heat_assign

  impure elemental subroutine heat_finalize(self)
    type(isobar_heat), intent(inout) :: self
    call self%free()
  end subroutine heat_finalize

  !> Converts a text for C, kept in `copy`; null if absent.
  function place_of(text, copy) result(place)
    character(*), intent(in), optional :: text
    character(:), allocatable, target, intent(out) :: copy
    type(c_ptr) :: place
    place = c_null_ptr
    if (present(text)) then
       copy = trim(text) // c_null_char
       place = c_loc(copy)
    end if
  end function place_of

  !> Returns numbers as text, such as "(8, 6, 4)".
  pure function text_of(numbers) result(text)
    integer, intent(in) :: numbers(:)
    character(:), allocatable :: text
    character(20) :: digits
    integer :: n
    text = "("
    do n = 1, size(numbers)
       write (digits, '(i0)') numbers(n)
       if (n > 1) text = text // ", "
       text = text // trim(digits)
    end do
    text = text // ")"
  end function text_of

  pure function count_of(given) result(count)
    integer, intent(in), optional :: given
    integer(c_size_t) :: count
    count = 0
    if (present(given)) count = int(max(given, 0), c_size_t)
  end function count_of

  !> Passes a negative number on, so that it is refused by name.
  pure function threads_of(given) result(count)
    integer, intent(in), optional :: given
    integer(c_size_t) :: count
    count = 0
    if (present(given)) count = int(given, c_size_t)
  end function threads_of

  !> Returns a code to the caller, or ends the program after a failure if the caller does not take the code.
  subroutine settle(found, code)
    integer(c_int32_t), intent(in) :: found
    integer(c_int32_t), intent(out), optional :: code
    if (present(code)) then
       code = found
    else if (found /= isobar_ok) then
       write (error_unit, '(2a)') "isobar: ", isobar_message()
       error stop 1
    end if
  end subroutine settle

  function text_at(place) result(text)
    type(c_ptr), intent(in) :: place
    character(:), allocatable :: text
    character(kind=c_char), pointer :: characters(:)
    integer :: n, length
    interface
       function c_strlen(text) bind(c, name="strlen") result(length)
         import :: c_ptr, c_size_t
         type(c_ptr), value :: text
         integer(c_size_t) :: length
       end function c_strlen
    end interface
    length = int(c_strlen(place))
    call c_f_pointer(place, characters, [length])
    allocate (character(length) :: text)
    do n = 1, length
       text(n:n) = characters(n)
    end do
  end function text_at

  !> Describes an array by its address and strides, the distances of its second elements from its first, so that sections need no copy.
  function array_r64(u) result(array)
    real(c_double), intent(in), target :: u(:, :, :)
    type(isobar_array) :: array
    integer(c_intptr_t) :: first
    array%shape = int([size(u, 3), size(u, 2), size(u, 1)], c_size_t)
    if (size(u, kind=c_size_t) == 0) return
    array%data = c_loc(u(1, 1, 1))
    first = transfer(array%data, first)
    array%strides = c_sizeof(u(1, 1, 1)) * [size(u, 1, c_intptr_t) * size(u, 2), size(u, 1, c_intptr_t), 1_c_intptr_t]
    if (size(u, 3) > 1) array%strides(1) = transfer(c_loc(u(1, 1, 2)), first) - first
    if (size(u, 2) > 1) array%strides(2) = transfer(c_loc(u(1, 2, 1)), first) - first
    if (size(u, 1) > 1) array%strides(3) = transfer(c_loc(u(2, 1, 1)), first) - first
  end function array_r64

  function plane_r64(u) result(array)
    real(c_double), intent(in), target :: u(:, :)
    type(isobar_array) :: array
    integer(c_intptr_t) :: first
    array%shape = int([1, size(u, 2), size(u, 1)], c_size_t)
    if (size(u, kind=c_size_t) == 0) return
    array%data = c_loc(u(1, 1))
    first = transfer(array%data, first)
    array%strides = c_sizeof(u(1, 1)) * [size(u, kind=c_intptr_t), size(u, 1, c_intptr_t), 1_c_intptr_t]
    if (size(u, 2) > 1) array%strides(2) = transfer(c_loc(u(1, 2)), first) - first
    if (size(u, 1) > 1) array%strides(3) = transfer(c_loc(u(2, 1)), first) - first
  end function plane_r64

  function line_r64(u) result(array)
    real(c_double), intent(in), target :: u(:)
    type(isobar_array) :: array
    integer(c_intptr_t) :: first
    array%shape = int([1, 1, size(u)], c_size_t)
    if (size(u, kind=c_size_t) == 0) return
    array%data = c_loc(u(1))
    first = transfer(array%data, first)
    array%strides = c_sizeof(u(1)) * int([size(u), size(u), 1], c_intptr_t)
    if (size(u) > 1) array%strides(3) = transfer(c_loc(u(2)), first) - first
  end function line_r64

  function array_r32(u) result(array)
    real(c_float), intent(in), target :: u(:, :, :)
    type(isobar_array) :: array
    integer(c_intptr_t) :: first
    array%dtype = f32
    array%shape = int([size(u, 3), size(u, 2), size(u, 1)], c_size_t)
    if (size(u, kind=c_size_t) == 0) return
    array%data = c_loc(u(1, 1, 1))
    first = transfer(array%data, first)
    array%strides = c_sizeof(u(1, 1, 1)) * [size(u, 1, c_intptr_t) * size(u, 2), size(u, 1, c_intptr_t), 1_c_intptr_t]
    if (size(u, 3) > 1) array%strides(1) = transfer(c_loc(u(1, 1, 2)), first) - first
    if (size(u, 2) > 1) array%strides(2) = transfer(c_loc(u(1, 2, 1)), first) - first
    if (size(u, 1) > 1) array%strides(3) = transfer(c_loc(u(2, 1, 1)), first) - first
  end function array_r32

  function plane_r32(u) result(array)
    real(c_float), intent(in), target :: u(:, :)
    type(isobar_array) :: array
    integer(c_intptr_t) :: first
    array%dtype = f32
    array%shape = int([1, size(u, 2), size(u, 1)], c_size_t)
    if (size(u, kind=c_size_t) == 0) return
    array%data = c_loc(u(1, 1))
    first = transfer(array%data, first)
    array%strides = c_sizeof(u(1, 1)) * [size(u, kind=c_intptr_t), size(u, 1, c_intptr_t), 1_c_intptr_t]
    if (size(u, 2) > 1) array%strides(2) = transfer(c_loc(u(1, 2)), first) - first
    if (size(u, 1) > 1) array%strides(3) = transfer(c_loc(u(2, 1)), first) - first
  end function plane_r32

  function line_r32(u) result(array)
    real(c_float), intent(in), target :: u(:)
    type(isobar_array) :: array
    integer(c_intptr_t) :: first
    array%dtype = f32
    array%shape = int([1, 1, size(u)], c_size_t)
    if (size(u, kind=c_size_t) == 0) return
    array%data = c_loc(u(1))
    first = transfer(array%data, first)
    array%strides = c_sizeof(u(1)) * int([size(u), size(u), 1], c_intptr_t)
    if (size(u) > 1) array%strides(3) = transfer(c_loc(u(2)), first) - first
  end function line_r32

end module isobar
