! Arrays in the memory of a GPU, described in Fortran: a solver on the processor refuses them before reading anything.
program cuda_array
  use isobar
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: real64
  implicit none

  integer, parameter :: nx = 6, ny = 5, nz = 4
  real(real64) :: kappa(nx, ny, nz)
  type(isobar_side) :: sides(2, 3)
  type(isobar_problem) :: problem
  type(isobar_solver) :: solver
  type(isobar_array) :: b, u, flat
  integer :: failures
  integer(c_int32_t) :: code
  type(c_ptr) :: nowhere, stream

  failures = 0
  kappa = 1
  sides(:, 1) = isobar_dirichlet(0.0_real64)
  call problem%diffusion(kappa, sides=sides)
  call solver%create(problem, device="cpu", threads=1)
  nowhere = transfer(4096_c_intptr_t, nowhere)
  stream = transfer(1_c_intptr_t, stream)
  b = isobar_cuda_array(nowhere, [nx, ny, nz], 0)
  u = isobar_cuda_array(nowhere, [nx, ny, nz], 0, strides=[1, nx + 2, (nx + 2) * ny], kind=c_float, stream=stream)
  call solver%solve(b, u, code=code)
  call expect(isobar_unsupported, "cuda:0")
  call solver%apply(b, u, code)
  call expect(isobar_unsupported, "cuda:0")
  flat = isobar_cuda_array(nowhere, [nx, ny, 1], 0)
  call solver%solve(flat, u, code=code)
  call expect(isobar_invalid, "shape")
  flat = isobar_cuda_array(c_null_ptr, [nx, ny, nz], 0)
  call solver%solve(flat, u, code=code)
  call expect(isobar_invalid, "in Fortran of an array that is allocated")
  call problem%rhs(b, code=code)
  call expect(isobar_invalid, "memory of a GPU")
  call problem%diffusion(b, kappa_z=flat, sides=sides, code=code)
  call expect(isobar_invalid, "null pointer")
  ! No machine has that many GPUs.
  b = isobar_cuda_array(nowhere, [nx, ny, nz], 1000)
  call problem%diffusion(b, reaction=b, sides=sides, code=code)
  call expect(isobar_device, "")
  flat = isobar_cuda_array(nowhere, [nx, ny, nz], -1, kind=c_long_double)
  call solver%solve(flat, u, code=code)
  call expect(isobar_invalid, "in Fortran the kind c_double or c_float")
  flat = isobar_cuda_array(nowhere, [-2, ny, nz], -1)
  call solver%solve(flat, u, code=code)
  call expect(isobar_invalid, "b: found shape 0×5×4")
  print '(i0, a)', failures, " failures"

contains

  subroutine expect(wanted, words)
    integer(c_int32_t), intent(in) :: wanted
    character(*), intent(in) :: words
    if (code == wanted .and. index(isobar_message(), words) > 0) return
    failures = failures + 1
    print '(2(a, i0), 2a)', "code ", code, ", wanted ", wanted, ": ", isobar_message()
  end subroutine expect

end program cuda_array
