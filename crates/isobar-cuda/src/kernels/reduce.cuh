// Deterministic sums: every block stores a partial sum, and the last block to finish adds the partial
// sums in a fixed order. There are no floating-point atomics, so results are reproducible bit for bit.
#pragma once

// Sums N values per thread over the block. Valid in thread 0. `scratch` holds threads x N doubles / 32.
template <int N> __device__ __forceinline__ void block_sum(double (&value)[N], double* scratch) {
    int thread = threadIdx.x + blockDim.x * threadIdx.y;
    int threads = blockDim.x * blockDim.y;
    for (int n = 0; n < N; n++) {
        for (int lane = 16; lane > 0; lane >>= 1) value[n] += __shfl_down_sync(0xffffffffu, value[n], lane);
        if ((thread & 31) == 0) scratch[(thread >> 5) * N + n] = value[n];
    }
    __syncthreads();
    if (thread == 0) {
        for (int n = 0; n < N; n++) value[n] = 0;
        for (int warp = 0; warp < (threads + 31) / 32; warp++)
            for (int n = 0; n < N; n++) value[n] += scratch[warp * N + n];
    }
    __syncthreads();
}

// Updates *to to the maximum of itself and all threads' values; none is negative. All lanes of a warp take part.
__device__ __forceinline__ void keep_most(double* to, double value) {
#pragma unroll
    for (int lane = 16; lane > 0; lane >>= 1) value = fmax(value, __shfl_xor_sync(0xffffffffu, value, lane));
    // Nonnegative numbers are ordered like their bits.
    if (threadIdx.x % 32 == 0) atomicMax(reinterpret_cast<unsigned long long*>(to), (unsigned long long)__double_as_longlong(value));
}

// The number of a block.
__device__ __forceinline__ unsigned int block_number() {
    return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
}

// Where a kernel's sums go: `partial` holds blocks x N doubles, `counter` is zero before and after the launch. Last among a kernel's arguments.
struct Reduction {
    double* partial;
    unsigned int* counter;
    double* result;
};

// Sums N values per thread over the grid into to.result[0] ... to.result[N - 1]. All threads of the block take part. `block` is the block's number in
// the order of summation, distinct for each block.
template <int N>
__device__ __forceinline__ void grid_sum(double (&value)[N], double* scratch, const Reduction& to, unsigned int block = block_number()) {
    __shared__ bool last;
    int thread = threadIdx.x + blockDim.x * threadIdx.y;
    int threads = blockDim.x * blockDim.y;
    unsigned int blocks = gridDim.x * gridDim.y * gridDim.z;
    block_sum<N>(value, scratch);
    if (thread == 0) {
        for (int n = 0; n < N; n++) to.partial[(long long)block * N + n] = value[n];
        __threadfence();
        last = atomicInc(to.counter, blocks - 1) == blocks - 1;
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    for (int n = 0; n < N; n++) value[n] = 0;
    for (unsigned int b = thread; b < blocks; b += threads)
        for (int n = 0; n < N; n++) value[n] += __ldcg(to.partial + (long long)b * N + n);
    block_sum<N>(value, scratch);
    if (thread == 0)
        for (int n = 0; n < N; n++) to.result[n] = value[n];
}

// The same for blocks of any size.
template <int N> __device__ __forceinline__ void grid_sum(double (&value)[N], const Reduction& to) {
    __shared__ __align__(16) double scratch[32 * N];
    grid_sum(value, scratch, to);
}
