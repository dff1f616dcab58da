! Arrays of handles, and types that have them, are freed when they go out of scope.
program handles
  use isobar
  use, intrinsic :: iso_fortran_env, only: real64, int64
  implicit none

  integer, parameter :: n = 40
  real(real64) :: kappa(n, n, n)
  type(isobar_side) :: sides(2, 3)
  type(isobar_problem) :: problem
  integer(int64) :: before, after
  integer :: times

  kappa = 1
  sides(:, 1) = isobar_dirichlet(0.0_real64)
  call problem%diffusion(kappa, sides=sides)
  call make_solvers()
  before = memory()
  do times = 1, 50
     call make_solvers()
  end do
  after = memory()
  ! 150 solvers have more than 300 MB.
  if (after > before + 100000) print '(a, 2i12)', "wrong: memory in kB before and after", before, after
  print '(i0, a)', merge(1, 0, after > before + 100000), " failures"

contains

  subroutine make_solvers()
    type :: model
       type(isobar_solver), allocatable :: solvers(:)
    end type model
    type(isobar_solver) :: fixed(2), unmade(2)
    type(isobar_solver), allocatable :: allocated(:)
    type(model) :: of_type
    allocate (allocated(1), of_type%solvers(1))
    call fixed(2)%create(problem, device="cpu", threads=1)
    call allocated(1)%create(problem, device="cpu", threads=1)
    call of_type%solvers(1)%create(problem, device="cpu", threads=1)
    ! Elements that are not made are assigned without harm.
    fixed = unmade
  end subroutine make_solvers

  ! Returns the memory of the process in kB where Linux tells it, else 0.
  function memory()
    integer(int64) :: memory
    character(200) :: line
    integer :: unit, status
    memory = 0
    open (newunit=unit, file="/proc/self/status", status="old", action="read", iostat=status)
    do while (status == 0)
       read (unit, '(a)', iostat=status) line
       if (line(:6) == "VmRSS:") then
          read (line(7:index(line, "kB") - 1), *) memory
          exit
       end if
    end do
    close (unit)
  end function memory
end program handles
