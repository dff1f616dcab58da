/* Functions for mpi.f90. */
#include <mpi.h>
#include <stddef.h>

int stand_in_init(void);
int stand_in_rank(int communicator);

/* MPI_COMM_WORLD as a Fortran handle. */
int stand_in_init(void)
{
    return MPI_Init(NULL, NULL) ? -1 : (int)MPI_Comm_c2f(MPI_COMM_WORLD);
}

int stand_in_rank(int communicator)
{
    int rank = -1;
    MPI_Comm_rank(MPI_Comm_f2c(communicator), &rank);
    return rank;
}
