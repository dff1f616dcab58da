! Derivatives of the mean of u, −∇·(κ∇u) = 1 in the unit square and u = 0 on its sides, by κ of every cell.
!
!   gfortran crates/isobar-c/fortran/isobar.f90 crates/isobar-c/examples/gradient.f90 -L target/release -lisobar_c -o gradient
program gradient
  use isobar
  use, intrinsic :: iso_fortran_env, only: real64
  implicit none

  integer, parameter :: n = 32
  real(real64), parameter :: spacing(3) = [1.0_real64 / n, 1.0_real64 / n, 1.0_real64]
  real(real64), dimension(n, n, 1) :: kappa, f, b, u, weights, by_kappa, by_f
  real(real64) :: west(n, 1), east(n, 1), south(n, 1), north(n, 1), dx(n), dy(n)
  type(isobar_side) :: sides(2, 3)
  type(isobar_problem) :: problem
  type(isobar_solver) :: solver
  integer :: m

  kappa = reshape([(1.0_real64 + mod(m, 3), m = 0, n * n - 1)], [n, n, 1])
  f = 1
  weights = 1.0_real64 / n**2                       ! the derivative of the mean by u
  sides(:, 1:2) = isobar_dirichlet(0.0_real64)      ! x and y; z is left closed
  call problem%diffusion(kappa, spacing, sides)
  call problem%rhs(b, f)
  call solver%create(problem, "tolerance = 1e-10", "cpu")
  call solver%solve(b, u)
  call solver%gradient(problem, u, weights, kappa=by_kappa, f=by_f, west=west, east=east, south=south, north=north, &
       dx=dx, dy=dy, density=f)
  ! u is proportional to f/κ, so that Σ f ∂J/∂f = J and Σ κ ∂J/∂κ = −J; it rises by 1 if all values on the sides do, and grows as lengths squared.
  print '(5(a, f10.6))', "mean", sum(u) / n**2, ", sum of f times its derivatives", sum(f * by_f), &
       ", of kappa times its", sum(kappa * by_kappa), &
       ", of the sides", sum(west) + sum(east) + sum(south) + sum(north), ", of widths times their", (sum(dx) + sum(dy)) / n
end program gradient
