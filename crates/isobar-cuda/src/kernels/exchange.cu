// What GPUs send each other by themselves: stores into each other's memory, and signals.
//
// A GPU has an inbox: a channel from each other rank. A channel has PIECES places, each of two halves of PIECE_BYTES, and a
// signal a place. Block n of a kernel sends by place n of the channel there, and receives by place n of the channel here; the
// count of what has gone through a place is what is signalled, and its parity says which half is used. A block sends
// before it waits, so that no GPU waits for ever for one that waits for it. A half is free to be written again when the
// other side has sent the message after: it had read it by then. So nothing has to be acknowledged.
#include "intrinsics.cuh"

#ifndef PIECES
#define PIECES 128
#endif
#ifndef PIECE_BYTES
#define PIECE_BYTES 65536
#endif
#ifndef MOST_RANKS
#define MOST_RANKS 16
#endif
constexpr int WORDS = PIECE_BYTES / 16; // of 16 bytes
constexpr int SIGNAL = 32 / 4;          // signals are as far apart, in numbers
constexpr int SUMS = 8;                 // numbers that are summed up at once, at most

// Another rank: where it is written to, where it writes, and how much has gone through each place.
// An inbox's channel: PIECES + 1 signals, then two halves of SUMS numbers, then two halves of PIECES pieces.
struct Peer {
    char* there;
    char* here;
    int* counts; // PIECES, and one for sums
};

constexpr int SUMS_AT = 4 * SIGNAL * (PIECES + 1), PIECES_AT = SUMS_AT + 2 * 8 * SUMS;

__device__ __forceinline__ int* signal_of(char* channel, int place) { return reinterpret_cast<int*>(channel) + SIGNAL * place; }

__device__ __forceinline__ uint4* piece_of(char* channel, int place, int count) {
    return reinterpret_cast<uint4*>(channel + PIECES_AT) + (long long)WORDS * (2 * place + (count & 1));
}

// A rank that does not answer: `fault` is the host's, 0 or 1 + that rank, and ends all waiting.
struct Patience {
    int* fault;
    long long nanoseconds;
};

__device__ __forceinline__ void wait_for(const int* signal, int count, int rank, const Patience& patience) {
    if (acquire_system(signal) - count >= 0) return;
    long long begin = nanoseconds();
    for (int looks = 1; acquire_system(signal) - count < 0; looks++) {
        if (looks % 256) continue;
        if (*reinterpret_cast<volatile int*>(patience.fault)) return;
        if (nanoseconds() - begin > patience.nanoseconds) {
            *reinterpret_cast<volatile int*>(patience.fault) = 1 + rank;
            return;
        }
    }
}

// Sends `sent` words and receives `received`, through the place blockIdx.x further than `first_place`, as much as this block's
// share of both. from(n): where word n of what is sent is; to(n): where word n of what is received goes.
template <class From, class To>
__device__ __forceinline__ void exchange(const Peer& peer, int rank, int first_place, long long sent, long long received,
                                         const Patience& patience, From from, To to) {
    int place = first_place + blockIdx.x, count = peer.counts[place];
    long long longer = max(sent, received), share = min((longer + gridDim.x - 1) / gridDim.x, (long long)WORDS);
    for (long long first = blockIdx.x * share; first < longer; first += gridDim.x * share) {
        count++;
        int out = int(min(max(sent - first, 0LL), share)), in = int(min(max(received - first, 0LL), share));
        uint4* there = piece_of(peer.there, place, count);
        for (int n = threadIdx.x; n < out; n += blockDim.x) there[n] = *from(first + n);
        __threadfence_system();
        __syncthreads();
        if (threadIdx.x == 0) {
            release_system(signal_of(peer.there, place), count);
            wait_for(signal_of(peer.here, place), count, rank, patience);
        }
        __syncthreads();
        const uint4* here = piece_of(peer.here, place, count);
        for (int n = threadIdx.x; n < in; n += blockDim.x) *to(first + n) = __ldcg(here + n);
    }
    __syncthreads();
    if (threadIdx.x == 0) peer.counts[place] = count;
}

// The half planes at an edge of a part, own ones and those of the halo, in the order of the larger grid's colours.
struct Edge {
    const uint4* own[2];
    uint4* halo[2];
    int rank;  // of the neighbour; negative where there is none
    int place; // the first of this edge: two parts on a ring have each other at both
};

// Halo rows = what the neighbours have there. `words` a half plane, `colours` of them.
// Grid (places, 2), an edge in y.
extern "C" __global__ void exchange_rows(const Peer* peers, Edge before, Edge after, long long words, int colours,
                                         Patience patience) {
    const Edge& edge = blockIdx.y ? after : before;
    if (edge.rank < 0) return;
    auto from = [&](long long n) { return n < words ? edge.own[0] + n : edge.own[1] + (n - words); };
    auto to = [&](long long n) { return n < words ? edge.halo[0] + n : edge.halo[1] + (n - words); };
    exchange(peers[edge.rank], edge.rank, edge.place, colours * words, colours * words, patience, from, to);
}

// Where the rows of each rank begin, and their end.
struct Starts {
    int at[MOST_RANKS + 4];
};

// A vector of the whole grid = the rows of all ranks. A part's colours are as it meets them: those of the whole, exchanged
// where it begins with an odd row. Grid (places, ranks), a rank in y.
extern "C" __global__ void gather_rows(const Peer* peers, int rank, const uint4* part, uint4* whole, long long words,
                                       Starts starts, Patience patience) {
    int other = blockIdx.y, first = starts.at[other];
    auto to = [&](long long n) {
        long long half = n / words;
        return whole + ((2 * first + (half ^ (first & 1))) * words + n % words);
    };
    long long sent = 2 * words * (starts.at[rank + 1] - starts.at[rank]);
    long long received = 2 * words * (starts.at[other + 1] - first);
    if (other == rank) {
        for (long long n = blockIdx.x * blockDim.x + threadIdx.x; n < sent; n += gridDim.x * blockDim.x) *to(n) = part[n];
        return;
    }
    exchange(peers[other], other, 0, sent, received, patience, [&](long long n) { return part + n; }, to);
}

// What this rank has of a grid, from all `layers_in_all` layers of its rows to all rows of its layers, or back. `words` a row of a
// half plane. Whoever has the layers stores colours as the larger grid does, whoever has the rows as it meets them. Grid (places,
// ranks), a rank in y.
extern "C" __global__ void divide_again(const Peer* peers, int rank, uint4* rows, uint4* layers, int words, int layers_in_all,
                                        int to_layers, Starts row, Starts layer, Patience patience) {
    int other = blockIdx.y;
    unsigned int own_run = words * (layer.at[rank + 1] - layer.at[rank]);
    unsigned int other_run = words * (layer.at[other + 1] - layer.at[other]);
    // Of this rank's rows the other's layers, and of the other's rows this rank's layers, in the order in which they travel.
    auto in_rows = [&](long long n) {
        unsigned int half = (unsigned int)n / other_run;
        return rows + ((long long)half * layers_in_all + layer.at[other]) * words + ((unsigned int)n - half * other_run);
    };
    auto in_layers = [&](long long n) {
        unsigned int half = (unsigned int)n / own_run;
        long long line = 2 * row.at[other] + (half ^ (row.at[other] & 1));
        return layers + line * own_run + ((unsigned int)n - half * own_run);
    };
    long long through_rows = 2LL * (row.at[rank + 1] - row.at[rank]) * other_run;
    long long through_layers = 2LL * (row.at[other + 1] - row.at[other]) * own_run;
    if (other == rank) {
        for (long long n = blockIdx.x * blockDim.x + threadIdx.x; n < through_rows; n += gridDim.x * blockDim.x) {
            if (to_layers)
                *in_layers(n) = *in_rows(n);
            else
                *in_rows(n) = *in_layers(n);
        }
    } else if (to_layers) {
        exchange(peers[other], other, 0, through_rows, through_layers, patience, in_rows, in_layers);
    } else {
        exchange(peers[other], other, 0, through_layers, through_rows, patience, in_layers, in_rows);
    }
}

// Half planes of a vector to those of another, from one row on each; their colours exchanged, or not. `words` a half plane.
extern "C" __global__ void copy_rows(const uint4* from, uint4* to, long long words, long long half_planes, int exchanged) {
    long long stride = (long long)gridDim.x * blockDim.x;
    for (long long n = blockIdx.x * (long long)blockDim.x + threadIdx.x; n < half_planes * words; n += stride)
        to[((n / words) ^ exchanged) * words + n % words] = from[n];
}

struct Numbers {
    double* at[SUMS];
};

// Numbers = their sums over all ranks, added in the order of ranks. A block of at least as many threads as there are ranks, and
// numbers; grid 1.
extern "C" __global__ void sum_ranks(const Peer* peers, int rank, int ranks, Numbers numbers, int count,
                                     Patience patience) {
    __shared__ double all[MOST_RANKS][SUMS];
    int other = threadIdx.x;
    if (other < ranks) {
        if (other == rank) {
            for (int n = 0; n < count; n++) all[rank][n] = *numbers.at[n];
        } else {
            const Peer& peer = peers[other];
            int turn = ++peer.counts[PIECES], half = SUMS * (turn & 1);
            volatile double* there = reinterpret_cast<volatile double*>(peer.there + SUMS_AT) + half;
            for (int n = 0; n < count; n++) there[n] = *numbers.at[n];
            __threadfence_system();
            release_system(signal_of(peer.there, PIECES), turn);
            wait_for(signal_of(peer.here, PIECES), turn, other, patience);
            const double* here = reinterpret_cast<const double*>(peer.here + SUMS_AT) + half;
            for (int n = 0; n < count; n++) all[other][n] = __ldcg(here + n);
        }
    }
    __syncthreads();
    if (threadIdx.x < count) {
        double sum = 0;
        for (int n = 0; n < ranks; n++) sum += all[n][threadIdx.x];
        *numbers.at[threadIdx.x] = sum;
    }
}
