! A model that runs under MPI, its domain in slabs of rows in y: u_t = ∇·(κ∇u) in a unit box, u = 0 on the west and east sides. A step of the
! model is a solve, which all ranks do together; the state lies inside an array with a halo, as models keep them, and is never copied:
!
!   (K + c V) u' = c V u,  c = 1/dt
!
!   mpifort crates/isobar-c/fortran/isobar.f90 crates/isobar-c/examples/model_mpi.f90 -L target/release -lisobar_c -Wl,-rpath,$PWD/target/release -o model_mpi
!   mpiexec -n 4 ./model_mpi
program model_mpi
  use isobar
  use mpi
  use, intrinsic :: iso_fortran_env, only: real64
  implicit none

  integer, parameter :: nx = 32, ny = 36, nz = 8, steps = 5
  real(real64), parameter :: pi = acos(-1.0_real64), dt = 2e-3_real64
  real(real64), parameter :: volume = 1.0_real64 / (nx * ny * nz)
  real(real64), allocatable :: kappa(:, :, :), reaction(:, :, :), state(:, :, :), b(:, :, :)
  real(real64) :: rate, factor, first_error, last_error
  type(isobar_side) :: sides(2, 3)
  type(isobar_ranks) :: ranks
  type(isobar_problem) :: problem
  type(isobar_solver) :: solver
  integer(kind(isobar_ok)) :: code
  integer :: i, j, first, last, rank, step, ierr

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call ranks%create(MPI_COMM_WORLD)
  call ranks%rows(ny, first, last)

  ! This rank's rows, and of the state a halo of one cell around them.
  allocate (kappa(nx, first:last, nz), reaction(nx, first:last, nz), b(nx, first:last, nz))
  allocate (state(0:nx + 1, first - 1:last + 1, 0:nz + 1))
  kappa = 1
  reaction = 1 / dt
  sides(:, 1) = isobar_dirichlet(0.0_real64)        ! x; y and z are left closed
  call problem%diffusion(kappa, sides=sides, reaction=reaction, ranks=ranks, ny=ny)
  call solver%create(problem, "tolerance = 1e-11", device="cpu", threads=1)

  state = -999
  do j = first, last
     do i = 1, nx
        state(i, j, 1:nz) = shape_of(i, j)
     end do
  end do
  do step = 1, steps
     b = volume / dt * state(1:nx, first:last, 1:nz)
     call solver%solve(b, state(1:nx, first:last, 1:nz), from_u=.true.)
  end do

  ! sin πx cos πy is a mode, as cells see it, which a step divides by 1 + λ dt.
  rate = (2 * nx * sin(pi / (2 * nx)))**2 + (2 * ny * sin(pi / (2 * ny)))**2
  factor = (1 + rate * dt)**(-steps)
  first_error = maxval(abs(state(1:nx, first, 1) - factor * [(shape_of(i, first), i = 1, nx)]))
  last_error = maxval(abs(state(1:nx, last, nz) - factor * [(shape_of(i, last), i = 1, nx)]))
  if (max(first_error, last_error) > 1e-9) error stop "wrong"
  if (any(state(:, first - 1, :) > -999) .or. any(state(:, last + 1, :) > -999)) error stop "the halo was written"

  ! What is wrong on one rank is known to all.
  if (rank == 0) b(3, first, 2) = ieee_nan()
  call solver%solve(b, b, code=code)
  if (code /= isobar_invalid) error stop "a solve with a NaN"
  if (rank == 0) print '(a, i0, 2a)', "after ", steps, " steps as it should be, and then: ", isobar_message()
  call solver%free()
  call problem%free()
  call ranks%free()
  call MPI_Finalize(ierr)

contains

  pure function shape_of(i, j) result(u)
    integer, intent(in) :: i, j
    real(real64) :: u
    u = sin(pi * (i - 0.5_real64) / nx) * cos(pi * (j - 0.5_real64) / ny)
  end function shape_of

  function ieee_nan() result(nan)
    use, intrinsic :: ieee_arithmetic, only: ieee_value, ieee_quiet_nan
    real(real64) :: nan
    nan = ieee_value(nan, ieee_quiet_nan)
  end function ieee_nan

end program model_mpi
