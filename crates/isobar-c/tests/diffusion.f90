! Problems with a mask, widths of cells and a separate κ in y, in closed form, and flows through sides.
program diffusion
  use isobar
  use, intrinsic :: iso_fortran_env, only: real32, real64
  use, intrinsic :: iso_c_binding, only: c_int32_t
  implicit none

  integer, parameter :: nx = 6, ny = 5
  real(real64), parameter :: kappa_y = 3, widths(nx) = [1, 2, 1, 3, 2, 1], heights(2 * ny) = 0.5_real64
  real(real64), dimension(nx, ny, 1) :: kappa, along_y, active, f, b, u, other
  real(real32), dimension(nx, ny, 1) :: kappa_32, along_y_32, active_32
  real(real64) :: total, x
  type(isobar_side) :: sides(2, 3)
  type(isobar_problem) :: problem
  type(isobar_solver) :: solver
  integer(c_int32_t) :: code
  integer :: n, failures = 0

  ! Linear in x between u = 0 and u = 10, on unequal cells; the last row is left out.
  kappa = 2
  along_y = kappa_y
  active = 1
  active(:, ny, :) = 0
  sides(1, 1) = isobar_dirichlet(0.0_real64)
  sides(2, 1) = isobar_dirichlet(10.0_real64)
  call problem%diffusion(kappa, [0.0_real64, 1.0_real64, 1.0_real64], sides, kappa_y=along_y, active=active, dx=widths)
  call solve()
  x = 0
  do n = 1, nx
     call expect(all(abs(u(n, :ny - 1, 1) - (x + widths(n) / 2)) < 1e-9), "u between two values")
     x = x + widths(n)
  end do
  call expect(all(u(:, ny, :) == 0), "u outside of the mask")
  call problem%flux(u, 1, .false., total)
  call expect(abs(total - 2 * (ny - 1)) < 1e-8, "the flow through the lower side")
  call problem%flux(u, 1, .true., total)
  call expect(abs(total + 2 * (ny - 1)) < 1e-8, "the flow through the upper side")
  call problem%flux(u, 4, .true., total, code)
  call expect(code == isobar_invalid .and. isobar_message() == "axis is 4; use 1 for x, 2 for y or 3 for z", "axis 4")
  call problem%diffusion(kappa, ny=ny, code=code)
  call expect(code == isobar_invalid .and. index(isobar_message(), "ny is given without ranks") > 0, "ny without ranks")

  ! The flow of f = 1 in every cell leaves through the lower side of y: κ ∂u/∂y is the height above, in steps of 1/2.
  sides(:, 1) = isobar_neumann(0.0_real64)
  sides(1, 2) = isobar_dirichlet(0.0_real64)
  call problem%diffusion(kappa, [1.0_real64, 1.0_real64, 1.0_real64], sides, kappa_y=along_y, dy=heights(::2))
  f = 1
  call solve(f)
  call expect(all(abs(u(:, 2, 1) - u(:, 1, 1) - 0.5_real64 * (ny - 1) / 2 / kappa_y) < 1e-9), "the step in y")
  other = u
  kappa_32 = 2
  along_y_32 = real(kappa_y, real32)
  active_32 = 1
  call problem%diffusion(kappa_32, [1.0_real64, 1.0_real64, 1.0_real64], sides, kappa_y=along_y_32, active=active_32, &
       dy=heights(::2))
  call solve(f)
  call expect(all(abs(u - other) < 1e-9), "arrays of single precision")

  call problem%diffusion(kappa, sides=sides, dy=heights, code=code)
  call expect(code == isobar_invalid .and. &
       isobar_message() == "dy has the shape (10), but (5) is needed for kappa of the shape (6, 5, 1)", "the length of dy")
  print '(i0, a)', failures, " failures"

contains

  subroutine solve(f)
    real(real64), intent(in), optional :: f(:, :, :)
    call problem%rhs(b, f)
    call solver%create(problem, "tolerance = 1e-13", "cpu", 1)
    call solver%solve(b, u)
  end subroutine solve

  include "expect.inc"
end program diffusion
