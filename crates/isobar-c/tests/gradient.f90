! Derivatives on a long and thin grid in closed form, and arrays of wrong length.
program gradient
  use isobar
  use, intrinsic :: iso_fortran_env, only: real64
  use, intrinsic :: iso_c_binding, only: c_int32_t
  implicit none

  ! Its square has no default integer.
  integer, parameter :: nx = 70000
  real(real64), dimension(nx, 1, 1) :: kappa, c, b, u, weights, by_kappa
  real(real64) :: north(nx, 1), pairs(2, nx)
  type(isobar_side) :: sides(2, 3)
  type(isobar_problem) :: problem
  type(isobar_solver) :: solver
  integer(c_int32_t) :: code
  integer :: failures = 0

  ! In every cell of volume 1 (c + 2κ) u = 2κ v, as v is half a cell away: ∂u/∂v = 2/3.
  kappa = 1
  c = 1
  weights = 1
  sides(2, 2) = isobar_dirichlet(1.0_real64)
  call problem%diffusion(kappa, [1.0_real64, 1.0_real64, 1.0_real64], sides, reaction=c)
  call problem%rhs(b)
  call solver%create(problem, "tolerance = 1e-12", "cpu", 1)
  call solver%solve(b, u)
  call solver%gradient(problem, u, weights, kappa=by_kappa, north=north)
  call expect(all(abs(north - 2.0_real64 / 3) < 1e-9), "a side's derivatives")
  ! Sections of a larger array.
  pairs = 0
  call solver%gradient(problem, u, weights, dx=pairs(2, :))
  call expect(all(pairs(1, :) == 0) .and. all(abs(pairs(2, :)) < 1e-9), "derivatives by widths, which u does not depend on")
  ! Wrong lengths are codes, and nothing is written.
  north = 7
  call solver%gradient(problem, u, weights, dx=pairs(2, 2:), north=north, code=code)
  call expect(code == isobar_invalid .and. all(north == 7), "a wrong number of widths")
  call expect(index(isobar_message(), "dx has the shape (69999), but (70000) is needed") == 1, "the message of widths")
  call solver%gradient(problem, u, weights, west=north, code=code)
  call expect(code == isobar_invalid, "a side's array of the wrong shape")
  call expect(index(isobar_message(), "west has the shape (70000, 1), but (1, 1) is needed") == 1, "the message of a side")
  call solver%create(problem, threads=-3, code=code)
  call expect(code == isobar_invalid .and. index(isobar_message(), "threads is -3") == 1, "a negative number of threads")
  print '(i0, a)', failures, " failures"

contains

  include "expect.inc"
end program gradient
