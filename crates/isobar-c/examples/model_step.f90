! A model that steps by itself, here u_t = ∇·(κ∇u) by Crank and Nicolson's scheme, with a solve in each step. (Where that is all there is,
! isobar_heat steps: heat.f90.) The state lies inside an array with a halo of one cell, as models keep them, and is never copied:
!
!   (K + c V) u' = 2 c V u − (K + c V) u + …  with c = 2/dt  becomes  A u' = 2 c V u − A u,  A = K + c V
!
!   gfortran crates/isobar-c/fortran/isobar.f90 crates/isobar-c/examples/model_step.f90 -L target/release -lisobar_c -Wl,-rpath,$PWD/target/release -o model_step
program model_step
  use isobar
  use, intrinsic :: iso_fortran_env, only: real64
  implicit none

  integer, parameter :: nx = 32, ny = 24, nz = 16, steps = 20
  real(real64), parameter :: pi = acos(-1.0_real64), dt = 1e-3_real64, c = 2 / dt
  real(real64), parameter :: spacing(3) = [1.0_real64 / nx, 1.0_real64 / ny, 1.0_real64 / nz]
  real(real64), parameter :: volume = product(spacing)
  real(real64) :: kappa(nx, ny, nz), reaction(nx, ny, nz), b(nx, ny, nz)
  real(real64), target :: state(0:nx + 1, 0:ny + 1, 0:nz + 1)
  real(real64), pointer :: u(:, :, :)
  real(real64) :: first, rate, expected
  type(isobar_side) :: sides(2, 3)
  type(isobar_problem) :: problem
  type(isobar_solver) :: solver
  integer(kind(isobar_ok)) :: code
  integer :: i, j, k, step

  kappa = 1
  reaction = c
  sides(:, 1) = isobar_dirichlet(0.0_real64)        ! x; y and z are left closed
  call problem%diffusion(kappa, spacing, sides, reaction=reaction)
  call solver%create(problem, "tolerance = 1e-10" // new_line("a") // "norm = 'rhs'", device="cpu")
  if (any(problem%extents() /= [nx, ny, nz])) error stop "extents"
  call problem%free()

  state = -999
  u => state(1:nx, 1:ny, 1:nz)
  do k = 1, nz
     do j = 1, ny
        do i = 1, nx
           u(i, j, k) = sin(pi * (i - 0.5_real64) / nx)
        end do
     end do
  end do
  first = u(nx / 2, 3, 5)
  do step = 1, steps
     call solver%apply(u, b)
     b = 2 * c * volume * u - b
     call solver%solve(b, u, from_u=.true.)
  end do

  ! The discrete sine is a mode of K with the eigenvalue λ, which a step multiplies by (1 − λ dt/2) / (1 + λ dt/2).
  rate = (2 * nx * sin(pi / (2 * nx)))**2
  expected = first * ((1 - rate * dt / 2) / (1 + rate * dt / 2))**steps
  print '(a, i0, a, f8.6, a, f8.6)', "after ", steps, " steps ", u(nx / 2, 3, 5), ", expected ", expected
  if (abs(u(nx / 2, 3, 5) - expected) > 1e-8) error stop "wrong"
  state(1:nx, 1:ny, 1:nz) = -999
  if (any(state /= -999)) error stop "the halo was written"

  ! What is wrong comes back as a code and a message.
  call solver%create(problem, code=code)
  if (code /= isobar_invalid) error stop "a problem that was freed"
  print '(2a)', "as it should: ", isobar_message()
end program model_step
