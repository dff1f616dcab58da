! u_t = ∇·(κ∇u) in a box, the state inside an array with a halo of one cell. Half way κ changes.
!
!   gfortran crates/isobar-c/fortran/isobar.f90 crates/isobar-c/examples/heat.f90 -L target/release -lisobar_c -Wl,-rpath,$PWD/target/release -o heat
program heat
  use isobar
  use, intrinsic :: iso_fortran_env, only: real64
  implicit none

  integer, parameter :: nx = 32, ny = 24, nz = 16, steps = 20
  real(real64), parameter :: pi = acos(-1.0_real64), dt = 1e-3_real64
  real(real64) :: kappa(nx, ny, nz), z, expected
  real(real64) :: state(0:nx + 1, 0:ny + 1, 0:nz + 1)
  type(isobar_side) :: sides(2, 3)
  type(isobar_problem) :: problem
  type(isobar_heat) :: run
  type(isobar_step) :: step
  integer(kind(isobar_ok)) :: code
  integer :: i

  sides(:, 1) = isobar_dirichlet(0.0_real64)        ! x; y and z are left closed
  kappa = 1
  call problem%diffusion(kappa, sides=sides)
  state = -999
  do i = 1, nx
     state(i, 1:ny, 1:nz) = sin(pi * (i - 0.5_real64) / nx)
  end do
  expected = state(nx / 2, 3, 5)
  call run%create(problem, state(1:nx, 1:ny, 1:nz), dt, steps * dt, options="tolerance = 1e-10", device="cpu")
  do while (.not. step%is_last)
     call run%step(step)
     if (step%number == steps / 2) then
        kappa = 0.25_real64
        call problem%diffusion(kappa, sides=sides)
        call run%update(problem)
     end if
  end do
  call run%state(state(1:nx, 1:ny, 1:nz))

  ! The discrete sine is a mode, which a step multiplies by (1 − κ λ dt/2) / (1 + κ λ dt/2).
  z = (2 * nx * sin(pi / (2 * nx)))**2 * dt / 2
  expected = expected * ((1 - z) / (1 + z) * (1 - z / 4) / (1 + z / 4))**(steps / 2)
  print '(a, i0, a, f8.6, a, f8.6)', "after ", step%number, " steps ", state(nx / 2, 3, 5), ", expected ", expected
  if (abs(state(nx / 2, 3, 5) - expected) > 1e-8) error stop "wrong"
  state(1:nx, 1:ny, 1:nz) = -999
  if (any(state /= -999)) error stop "the halo was written"

  ! Beyond the end there is none.
  call run%step(code=code)
  if (code /= isobar_invalid) error stop "a step after the last"
  print '(2a)', "as it should: ", isobar_message()
end program heat
