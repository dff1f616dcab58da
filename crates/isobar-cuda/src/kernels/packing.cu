// Packing of messages between GPUs for NCCL.
#include "intrinsics.cuh"

// Packs runs of `run` 16-byte words, `pitch` words apart, contiguously, or unpacks them; adjacent runs are exchanged if
// a subdomain's colours are. Processes words `first` to `first + count`.
KERNEL(pack)(uint4* strided, uint4* packed, long long run, long long pitch, int exchanged, long long first, long long count,
             int unpacked) {
    await_previous();
    long long stride = (long long)gridDim.x * blockDim.x;
    for (long long n = blockIdx.x * (long long)blockDim.x + threadIdx.x; n < count; n += stride) {
        long long which = (first + n) / run;
        uint4* place = strided + (which ^ exchanged) * pitch + (first + n - which * run);
        if (unpacked)
            *place = packed[n];
        else
            packed[n] = *place;
    }
}

// Replaces this rank's numbers `which` by their sums over all ranks, added in the order of ranks. `others` holds the numbers of all ranks, `length`
// each. One thread per number; grid 1.
struct Which {
    int at[8];
};

KERNEL(sum_received)(double* own, const double* others, int rank, int ranks, int length, Which which, int count) {
    await_previous();
    if (threadIdx.x >= count) return;
    int at = which.at[threadIdx.x];
    double sum = 0;
    for (int n = 0; n < ranks; n++) sum += n == rank ? own[at] : others[n * length + at];
    own[at] = sum;
}

// Adds all of `length` numbers in the same way.
KERNEL(sum_all_received)(double* own, const double* others, int rank, int ranks, int length) {
    await_previous();
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= length) return;
    double sum = 0;
    for (int from = 0; from < ranks; from++) sum += from == rank ? own[n] : others[(long long)from * length + n];
    own[n] = sum;
}
