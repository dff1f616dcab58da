// Operations that CUDA C++ has no portable form of: fast reciprocals, asynchronous copies, signals between thread blocks.
// All other code in this folder is plain C++, so that a CPU emulation can run it.
#pragma once

// Begins a kernel: KERNEL(name)(arguments) { ... }, or KERNEL(name, __launch_bounds__(256))(arguments) { ... }.
// A source is compiled one kernel at a time: the one for which ONLY_name is defined, as "~,". The others are then templates, which
// are parsed but, without an instance, not compiled. With ALL_KERNELS all are compiled.
#ifdef ALL_KERNELS
#define KERNEL(name, ...) extern "C" __global__ void __VA_ARGS__ name
#else
#define KERNEL(name, ...) KERNEL_IF(ONLY_##name) void __VA_ARGS__ name
#define KERNEL_IF(...) KERNEL_SECOND(__VA_ARGS__ extern "C" __global__, template <int> __global__, )
#define KERNEL_SECOND(first, second, ...) second
#endif

// Reciprocal to within about an ulp, without the slow path of IEEE division: the pivots that it is
// used for are positive and scaled to be near one.
__device__ __forceinline__ double reciprocal(double x) {
    double r;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(x));
    double e = fma(-x, r, 1.0);
    return fma(r, fma(e, e, e), r); // the 2^-20 of the hardware's first guess, cubed
}

__device__ __forceinline__ float reciprocal(float x) {
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}

// Copies 16 bytes from global to shared memory, asynchronously if the GPU supports it; zeros if !valid.
__device__ __forceinline__ void copy_async_16(void* to, const void* from, bool valid) {
#if __CUDA_ARCH__ >= 800
    unsigned int address = static_cast<unsigned int>(__cvta_generic_to_shared(to));
    int bytes = valid ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(bytes) : "memory");
#else
    *static_cast<float4*>(to) = valid ? *static_cast<const float4*>(from) : make_float4(0, 0, 0, 0);
#endif
}

// Copies one number; a thread's copies until `copy_async_commit` form a group.
template <class T> __device__ __forceinline__ void copy_async(T* to, const T* from, bool valid) {
#if __CUDA_ARCH__ >= 800
    unsigned int address = static_cast<unsigned int>(__cvta_generic_to_shared(to));
    int bytes = valid ? sizeof(T) : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(address), "l"(from), "n"(sizeof(T)), "r"(bytes) : "memory");
#else
    *to = valid ? *from : T(0);
#endif
}

__device__ __forceinline__ void copy_async_commit() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until at most GROUPS of a thread's groups are pending.
template <int GROUPS> __device__ __forceinline__ void copy_async_wait_for() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(GROUPS) : "memory");
#endif
}

__device__ __forceinline__ void copy_async_wait() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// Loads a number into a register: the compiler may otherwise repeat a load at every use if registers are scarce.
template <class A> __device__ __forceinline__ A read_once(const A* from) { return *static_cast<const volatile A*>(from); }

// Hint to load the line of an address into L2.
__device__ __forceinline__ void prefetch_l2(const void* from) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
}

// Every kernel calls one of these two before it reads what earlier kernels write, or writes: from sm_90 on it starts while the
// previous one still runs.

// Waits for the end of earlier kernels. The next kernel starts when this one has ended: for kernels that wait for other GPUs,
// during which other blocks should not occupy multiprocessors.
__device__ __forceinline__ void await_previous_alone() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Waits for the end of earlier kernels, and lets the next kernel start.
__device__ __forceinline__ void await_previous() {
#if __CUDA_ARCH__ >= 900
    await_previous_alone();
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Numbers written and read by different thread blocks, each self-contained.
__device__ __forceinline__ unsigned long long peek(const unsigned long long* from) {
    unsigned long long value;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
    return value;
}

__device__ __forceinline__ unsigned int peek(const unsigned int* from) {
    unsigned int value;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
    return value;
}

__device__ __forceinline__ void put(unsigned long long* to, unsigned long long value) {
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
}

__device__ __forceinline__ void put(unsigned int* to, unsigned int value) {
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}

// Numbers in shared memory written and read by different warps, with acquire and release semantics.
__device__ __forceinline__ unsigned int shared_address(const void* of) {
    return static_cast<unsigned int>(__cvta_generic_to_shared(of));
}
__device__ __forceinline__ int look(const int* from) {
    int value;
    asm volatile("ld.acquire.cta.shared.s32 %0, [%1];" : "=r"(value) : "r"(shared_address(from)) : "memory");
    return value;
}
__device__ __forceinline__ void tell(int* to, int value) {
    asm volatile("st.release.cta.shared.s32 [%0], %1;" ::"r"(shared_address(to)), "r"(value) : "memory");
}

// Reads four of them, each possibly at a different time.
__device__ __forceinline__ int4 look(const int4* from) {
    int4 value;
    asm volatile("ld.acquire.cta.shared.v4.s32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
                 : "r"(shared_address(from))
                 : "memory");
    return value;
}

// Reads a number that another GPU may write, with acquire semantics.
__device__ __forceinline__ int acquire_system(const int* from) {
    int value;
    asm volatile("ld.acquire.sys.global.s32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
    return value;
}

__device__ __forceinline__ void release_system(int* to, int value) {
    asm volatile("st.release.sys.global.s32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}

// The GPU's global time.
__device__ __forceinline__ long long nanoseconds() {
    long long value;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(value));
    return value;
}
