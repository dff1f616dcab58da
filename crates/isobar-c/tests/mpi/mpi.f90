! MPI bindings for Fortran programs where the library has only C, like those from PyPI.
module mpi
  use, intrinsic :: iso_c_binding, only: c_int
  implicit none
  private
  public :: MPI_Init, MPI_Comm_rank, MPI_Finalize

  integer, protected, public :: MPI_COMM_WORLD = -1

  interface
     integer(c_int) function c_init() bind(c, name="stand_in_init")
       import :: c_int
     end function c_init
     integer(c_int) function c_rank(communicator) bind(c, name="stand_in_rank")
       import :: c_int
       integer(c_int), value :: communicator
     end function c_rank
     integer(c_int) function c_finalize() bind(c, name="MPI_Finalize")
       import :: c_int
     end function c_finalize
  end interface

contains

  subroutine MPI_Init(ierr)
    integer, intent(out) :: ierr
    MPI_COMM_WORLD = c_init()
    ierr = 0
  end subroutine MPI_Init

  subroutine MPI_Comm_rank(communicator, rank, ierr)
    integer, intent(in) :: communicator
    integer, intent(out) :: rank, ierr
    rank = c_rank(communicator)
    ierr = 0
  end subroutine MPI_Comm_rank

  subroutine MPI_Finalize(ierr)
    integer, intent(out) :: ierr
    ierr = c_finalize()
  end subroutine MPI_Finalize

end module mpi
