! Problems of conductances: a chain in closed form, derivatives that scale, and misuse.
program faces
  use isobar
  use, intrinsic :: iso_fortran_env, only: real64
  use, intrinsic :: iso_c_binding, only: c_int32_t, c_loc, c_null_ptr
  implicit none

  integer, parameter :: nx = 4, ny = 3, nz = 2
  real(real64) :: tx(nx - 1, ny, nz), ty(nx, ny - 1, nz), tz(nx, ny, nz - 1), s(nx, ny, nz), b(nx, ny, nz), u(nx, ny, nz)
  real(real64) :: by_tx(nx - 1, ny, nz), by_ty(nx, ny - 1, nz), by_tz(nx, ny, nz - 1), by_s(nx, ny, nz)
  real(real64) :: by_b(nx, ny, nz), ones(nx, ny, nz)
  real(real64) :: ring(nx, 1, 1), pulse(nx, 1, 1), around(nx, 1, 1)
  real(real64) :: chain(1, 1, 1), ends(2, 1, 1), inflow(2, 1, 1), found(2, 1, 1), column(1, 1, 2), total
  type(isobar_problem) :: problem, unmade
  type(isobar_solver) :: solver
  real(real64), target :: many(nx, ny, nz, 2), found_many(nx, ny, nz, 2)
  integer(c_int32_t) :: code, codes(2)
  integer :: n
  integer :: failures = 0

  chain = 2
  ends = 1
  inflow(:, 1, 1) = [1, 0]
  call problem%faces([2, 1, 1], tx=chain, shift=ends)
  call solver%create(problem, "tolerance = 1e-13", "cpu")
  call solver%solve(inflow, found)
  call expect(all(abs(found(:, 1, 1) - [0.6_real64, 0.4_real64]) < 1e-12), "the chain")

  ! One cell in x and in y has no faces between cells there.
  call problem%faces([1, 1, 2], tx=tx(1:0, 1:1, :), ty=ty(1:1, 1:0, :), tz=chain, shift=reshape(ends, [1, 1, 2]))
  call solver%create(problem, "tolerance = 1e-13", "cpu")
  call solver%solve(reshape(inflow, [1, 1, 2]), column)
  call expect(all(abs(column(1, 1, :) - found(:, 1, 1)) < 1e-12), "the chain in z")
  call solver%gradient(problem, column, column, tx=by_tx(1:0, 1:1, :), code=code)
  call expect(code == isobar_ok, "derivatives with respect to no conductances")

  call random_number(tx)
  call random_number(ty)
  call random_number(tz)
  call random_number(s)
  call random_number(b)
  ones = 1
  call problem%faces([nx, ny, nz], tx=tx, ty=ty, tz=tz, shift=s)
  call expect(all(problem%extents() == [nx, ny, nz]), "extents")
  call solver%create(problem, "tolerance = 1e-13", "cpu")
  call solver%solve(b, u)
  call solver%gradient(problem, u, ones, b=by_b, tx=by_tx, ty=by_ty, tz=by_tz, shift=by_s)
  ! u is proportional to b, and inversely to all coefficients.
  total = sum(tx * by_tx) + sum(ty * by_ty) + sum(tz * by_tz) + sum(s * by_s)
  call expect(abs(sum(b * by_b) - sum(u)) < 1e-9 * sum(u), "derivatives with respect to b")
  call expect(abs(total + sum(u)) < 1e-9 * sum(u), "derivatives with respect to conductances")

  ! Several right-hand sides in host memory.
  many(:, :, :, 1) = b
  many(:, :, :, 2) = 2 * b
  call solver%solve_many([(isobar_cuda_array(c_loc(many(1, 1, 1, n)), [nx, ny, nz], -1), n = 1, 2)], &
       [(isobar_cuda_array(c_loc(found_many(1, 1, 1, n)), [nx, ny, nz], -1), n = 1, 2)], codes)
  call expect(all(codes == isobar_ok) .and. all(abs(found_many(:, :, :, 2) - 2 * u) < 1e-9 * sum(u)), "several systems")

  ! A ring of conductances 1 to nx around x: what flows through them adds up to 0, as values come around.
  ring(:, 1, 1) = [(real(n, real64), n = 1, nx)]
  call problem%faces([nx, 1, 1], tx=ring, periodic=[.true., .false., .false.])
  call solver%create(problem, "tolerance = 1e-13", "cpu")
  pulse(:, 1, 1) = [1, 0, 0, -1]
  call solver%solve(pulse, around)
  call expect(abs(ring(nx, 1, 1) * (around(1, 1, 1) - around(nx, 1, 1)) - 1 / (1 + (1 + 0.5_real64 + 1 / 3.0_real64) ** (-1) / 4)) &
       < 1e-11, "the flow through the last face of a ring")
  call problem%faces([nx, 1, 1], tx=isobar_cuda_array(c_loc(many(1, 1, 1, 1)), [nx - 1, 1, 1], 1000), code=code)
  call expect(code == isobar_device, "conductances on a GPU that is not there")
  call problem%faces([1, ny, nz], tx=isobar_cuda_array(c_null_ptr, [0, ny, nz], 1000), &
       ty=isobar_cuda_array(c_loc(many(1, 1, 1, 1)), [1, ny - 1, nz], 1000), code=code)
  call expect(code == isobar_device, "one column in x on a GPU that is not there")

  call problem%faces([nx, ny, nz], tx=ty, code=code)
  call expect(code == isobar_invalid, "a wrong shape")
  call problem%faces([nx, -1, nz], code=code)
  call expect(code == isobar_invalid, "negative extents")
  call problem%faces([nx, ny, nz], code=code)
  call expect(code == isobar_invalid, "no conductances")
  problem = unmade
  call problem%rhs(b, code=code)
  call expect(code /= isobar_ok, "a problem that was freed by an assignment")
  print '(i0, a)', failures, " failures"

contains

  include "expect.inc"
end program faces
