! A first solve: −∇²u = 1 in the unit square, u = 0 on its sides.
!
!   gfortran crates/isobar-c/fortran/isobar.f90 crates/isobar-c/examples/poisson.f90 -L target/release -lisobar_c -Wl,-rpath,$PWD/target/release -o poisson
program poisson
  use isobar
  use, intrinsic :: iso_fortran_env, only: real64
  implicit none

  integer, parameter :: n = 100
  real(real64), parameter :: spacing(3) = [1.0_real64 / n, 1.0_real64 / n, 1.0_real64]
  real(real64) :: kappa(n, n, 1), f(n, n, 1), b(n, n, 1), u(n, n, 1)
  type(isobar_side) :: sides(2, 3)
  type(isobar_problem) :: problem
  type(isobar_solver) :: solver

  kappa = 1
  f = 1
  sides(:, 1:2) = isobar_dirichlet(0.0_real64)      ! x and y; z is left closed
  call problem%diffusion(kappa, spacing, sides)
  call problem%rhs(b, f)
  call solver%create(problem, "tolerance = 1e-8")
  call solver%solve(b, u)
  print '(a, f8.6)', "largest u: ", maxval(u)
end program poisson
