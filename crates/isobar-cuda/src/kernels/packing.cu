// What messages between GPUs are made from, where a library sends them.

// Runs of `run` words of 16 bytes, `pitch` words apart, one after another, or back; those of two neighbouring runs are exchanged where
// a part's colours are. Words `first` to `first + count` of all of them.
extern "C" __global__ void pack(uint4* strided, uint4* packed, long long run, long long pitch, int exchanged, long long first,
                                long long count, int unpacked) {
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

// Numbers `which` of this rank's = their sums over all ranks, added in the order of ranks, whose numbers are in `others` one after
// another, `length` of each. A thread a number; grid 1.
struct Which {
    int at[8];
};

extern "C" __global__ void sum_received(double* own, const double* others, int rank, int ranks, int length, Which which,
                                        int count) {
    if (threadIdx.x >= count) return;
    int at = which.at[threadIdx.x];
    double sum = 0;
    for (int n = 0; n < ranks; n++) sum += n == rank ? own[at] : others[n * length + at];
    own[at] = sum;
}
