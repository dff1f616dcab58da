// Exchange between GPUs by stores to each other's memory, with signals.
//
// A GPU has an inbox with a channel for each other rank. A channel has PIECES slots, each with two halves of PIECE_BYTES, and a
// signal per slot. Block n of a kernel sends through slot n of the channel on the other GPU, and receives through slot n of the channel here. The
// signal is the count of messages through a slot, and its parity selects the half. A block sends
// before it waits, so there are no deadlocks. A half may be overwritten once the
// other side has sent its next message, since it has read the half before. So no acknowledgements are needed.
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
constexpr int SIGNAL = 32 / 4;          // distance of signals, in numbers
constexpr int SUMS = 8;                 // largest number of sums at once

// Another rank: the channel there, the channel here, and the message counts of the slots.
// A channel consists of PIECES + 1 signals, two halves of SUMS numbers, and two halves of PIECES pieces.
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

// The timeout for other ranks: `fault` is in host memory, 0 or 1 + the rank that did not answer, and ends all waiting.
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

// Sends `sent` words and receives `received` words through the slot blockIdx.x after `first_place`; each block transfers its
// share. from(n): address of word n to send; to(n): address of word n received.
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

// The half planes at an edge of a subdomain, its own and those of the halo, in the order of the whole grid's colours.
struct Edge {
    const uint4* own[2];
    uint4* halo[2];
    int rank;  // of the neighbour; negative if there is none
    int place; // first slot of this edge: two subdomains in a periodic direction are neighbours at both edges
};

// Fills halo rows with the neighbours' rows: `colours` half planes of `words` words.
// Grid (places, 2), an edge in y.
KERNEL(exchange_rows)(const Peer* peers, Edge before, Edge after, long long words, int colours, Patience patience) {
    await_previous_alone();
    const Edge& edge = blockIdx.y ? after : before;
    if (edge.rank < 0) return;
    auto from = [&](long long n) { return n < words ? edge.own[0] + n : edge.own[1] + (n - words); };
    auto to = [&](long long n) { return n < words ? edge.halo[0] + n : edge.halo[1] + (n - words); };
    exchange(peers[edge.rank], edge.rank, edge.place, colours * words, colours * words, patience, from, to);
}

// The first row of each rank, and the end.
struct Starts {
    int at[MOST_RANKS + 4];
};

// Gathers a vector of the whole grid from all ranks' rows. A subdomain's colours are in its own order: exchanged
// if it begins with an odd row. Grid (places, ranks), a rank in y.
KERNEL(gather_rows)(const Peer* peers, int rank, const uint4* part, uint4* whole, long long words, Starts starts,
                    Patience patience) {
    await_previous_alone();
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

// Redistributes a grid from all `layers_in_all` layers of this rank's rows to all rows of its layers, or back. A row of a half plane has `words`
// words. In the division by layers colours are stored as in the whole grid, in the division by rows in each subdomain's order. Grid (places,
// ranks), a rank in y.
KERNEL(divide_again)(const Peer* peers, int rank, uint4* rows, uint4* layers, int words, int layers_in_all, int to_layers,
                     Starts row, Starts layer, Patience patience) {
    await_previous_alone();
    int other = blockIdx.y;
    unsigned int own_run = words * (layer.at[rank + 1] - layer.at[rank]);
    unsigned int other_run = words * (layer.at[other + 1] - layer.at[other]);
    // `in_rows`: the other rank's layers, in this rank's rows; below, this rank's layers, in the other's rows; in the order of transfer.
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

// Copies half planes of a vector to another, from one row on each, with colours exchanged or not. A half plane has `words` words.
KERNEL(copy_rows)(const uint4* from, uint4* to, long long words, long long half_planes, int exchanged) {
    await_previous();
    long long stride = (long long)gridDim.x * blockDim.x;
    for (long long n = blockIdx.x * (long long)blockDim.x + threadIdx.x; n < half_planes * words; n += stride)
        to[((n / words) ^ exchanged) * words + n % words] = from[n];
}

struct Numbers {
    double* at[SUMS];
};

// Replaces numbers by their sums over all ranks, added in the order of ranks. One block with at least as many threads as ranks and
// numbers; grid 1.
KERNEL(sum_ranks)(const Peer* peers, int rank, int ranks, Numbers numbers, int count, Patience patience) {
    await_previous_alone();
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

// Replaces numbers by their sums over all ranks, added in the order of ranks. A block sends a share at a time to all others through its slot.
KERNEL(sum_numbers)(const Peer* peers, int rank, int ranks, double* numbers, long long count, Patience patience) {
    await_previous_alone();
    __shared__ int counts[MOST_RANKS];
    int place = blockIdx.x, other = threadIdx.x;
    bool is_other = other < ranks && other != rank;
    if (is_other) counts[other] = peers[other].counts[place];
    long long share = min((count + gridDim.x - 1) / gridDim.x, (long long)PIECE_BYTES / 8);
    for (long long first = place * share; first < count; first += gridDim.x * share) {
        if (is_other) counts[other]++;
        __syncthreads();
        int length = int(min(count - first, share));
        double* own = numbers + first;
        for (int to = 0; to < ranks; to++) {
            if (to == rank) continue;
            double* there = reinterpret_cast<double*>(piece_of(peers[to].there, place, counts[to]));
            for (int n = threadIdx.x; n < length; n += blockDim.x) there[n] = own[n];
        }
        __threadfence_system();
        __syncthreads();
        if (is_other) {
            release_system(signal_of(peers[other].there, place), counts[other]);
            wait_for(signal_of(peers[other].here, place), counts[other], other, patience);
        }
        __syncthreads();
        for (int n = threadIdx.x; n < length; n += blockDim.x) {
            double sum = 0;
            for (int from = 0; from < ranks; from++)
                sum += from == rank ? own[n] : __ldcg(reinterpret_cast<const double*>(piece_of(peers[from].here, place, counts[from])) + n);
            own[n] = sum;
        }
        __syncthreads();
    }
    if (is_other) peers[other].counts[place] = counts[other];
}
