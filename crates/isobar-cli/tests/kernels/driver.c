/* A driver and a compiler of CUDA that do nothing, so that a machine without a GPU shows which kernels the host's code requests. Device
 * memory is host memory. Kernels are not run, except those whose results decide what the host does next: the residual is halved each
 * time that scalars are published; measures of coefficients are those of the environment. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int Result;
typedef uint64_t Pointer;
#define DOES_NOTHING(name) Result name(void) { return 0; }
#define SETS_HANDLE(name) Result name(void** handle) { *handle = (void*)8; return 0; }

/* Reads numbers that are separated by commas. */
static void read(const char* variable, double* values, int count) {
    const char* text = getenv(variable);
    for (int n = 0; n < count && text; n++) {
        values[n] = atof(text);
        text = strchr(text, ',');
        if (text) text++;
    }
}

/* One GPU: by default an H100. */
Result cuDriverGetVersion(int* version) { *version = 13000; return 0; }
Result cuDeviceGetCount(int* count) { *count = 1; return 0; }
Result cuDeviceGet(int* device, int ordinal) { *device = ordinal; return 0; }
Result cuDeviceGetName(char* name, int bytes, int device) { (void)device; snprintf(name, (size_t)bytes, "no GPU"); return 0; }
Result cuDeviceGetUuid(void* uuid, int device) { (void)device; memset(uuid, 1, 16); return 0; }
Result cuDeviceTotalMem_v2(size_t* bytes, int device) { (void)device; *bytes = (size_t)80 << 30; return 0; }
Result cuMemGetInfo_v2(size_t* free, size_t* total) { *free = *total = (size_t)80 << 30; return 0; }
Result cuDeviceGetAttribute(int* value, int attribute, int device) {
    (void)device;
    double gpu[3] = {9, 0, 232448};
    read("GPU", gpu, 3);
    switch (attribute) {
    case 16: *value = 132; break;         /* multiprocessors */
    case 75: *value = (int)gpu[0]; break; /* compute capability */
    case 76: *value = (int)gpu[1]; break;
    case 97: *value = (int)gpu[2]; break; /* shared memory of a block */
    default: *value = 1;
    }
    return 0;
}

DOES_NOTHING(cuInit)
DOES_NOTHING(cuCtxSetCurrent)
DOES_NOTHING(cuCtxEnablePeerAccess)
DOES_NOTHING(cuDevicePrimaryCtxRelease_v2)
DOES_NOTHING(cuStreamDestroy_v2)
DOES_NOTHING(cuStreamSynchronize)
DOES_NOTHING(cuStreamQuery)
DOES_NOTHING(cuStreamWaitEvent)
DOES_NOTHING(cuEventDestroy_v2)
DOES_NOTHING(cuEventRecord)
DOES_NOTHING(cuEventSynchronize)
DOES_NOTHING(cuGraphExecDestroy)
DOES_NOTHING(cuModuleUnload)
DOES_NOTHING(cuFuncSetAttribute)
SETS_HANDLE(cuDevicePrimaryCtxRetain)
SETS_HANDLE(cuStreamCreate)
SETS_HANDLE(cuEventCreate)
SETS_HANDLE(cuModuleLoadData)

static const size_t ALIGNMENT = 512;

Result cuMemAlloc_v2(Pointer* pointer, size_t bytes) {
    char* memory = calloc(1, bytes + 2 * ALIGNMENT);
    if (!memory) return 2;
    char* aligned = memory + ALIGNMENT + (ALIGNMENT - (Pointer)memory % ALIGNMENT);
    memcpy(aligned - sizeof memory, &memory, sizeof memory);
    *pointer = (Pointer)aligned;
    return 0;
}
Result cuMemFree_v2(Pointer pointer) {
    char* memory;
    memcpy(&memory, (char*)pointer - sizeof memory, sizeof memory);
    free(memory);
    return 0;
}
Result cuMemHostAlloc(void** memory, size_t bytes) { *memory = calloc(1, bytes); return *memory ? 0 : 2; }
Result cuMemFreeHost(void* memory) { free(memory); return 0; }
Result cuMemcpyHtoDAsync_v2(Pointer to, const void* from, size_t bytes) { memcpy((void*)to, from, bytes); return 0; }
Result cuMemcpyDtoHAsync_v2(void* to, Pointer from, size_t bytes) { memcpy(to, (void*)from, bytes); return 0; }
Result cuMemcpyDtoDAsync_v2(Pointer to, Pointer from, size_t bytes) { memmove((void*)to, (void*)from, bytes); return 0; }
Result cuMemsetD8Async(Pointer to, unsigned char value, size_t bytes) { memset((void*)to, value, bytes); return 0; }

Result cuModuleGetFunction(void** function, void* module, const char* name) { (void)module; *function = strdup(name); return 0; }
Result cuFuncGetAttribute(int* value) { *value = 32; return 0; }
Result cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks) { *blocks = 2; return 0; }

/* The arguments of `publish` (vector.cu). */
struct Publish {
    int scalars;
    const double* bank;
    uint64_t* published;
    double* host_bank;
    uint64_t* host_published;
};

/* A graph has at most the publications of an iteration. */
struct Graph {
    int count;
    struct Publish publications[4];
};
static struct Graph* recording;

static void publish(const struct Publish* p) {
    static double residual = 1;
    residual = residual > 1e-30 ? residual / 2 : 1;
    for (int n = 0; n < p->scalars; n++) p->host_bank[n] = p->bank[n] != 0 ? p->bank[n] : residual;
    *p->host_published = ++*p->published;
}

Result cuStreamBeginCapture_v2(void* stream) { (void)stream; recording = calloc(1, sizeof *recording); return 0; }
Result cuStreamEndCapture(void* stream, void** graph) { (void)stream; *graph = recording; recording = NULL; return 0; }
Result cuGraphInstantiateWithFlags(void** instance, void* graph) {
    *instance = malloc(sizeof(struct Graph));
    memcpy(*instance, graph, sizeof(struct Graph));
    return 0;
}
Result cuGraphDestroy(void* graph) { free(graph); return 0; }
Result cuGraphLaunch(struct Graph* graph) {
    for (int n = 0; n < graph->count; n++) publish(&graph->publications[n]);
    return 0;
}

static Result launch(const char* name, void** arguments) {
    if (!strcmp(name, "publish")) {
        struct Publish p = {*(int*)arguments[0], *(const double**)arguments[1], *(uint64_t**)arguments[2], *(double**)arguments[3],
                            *(uint64_t**)arguments[4]};
        if (recording) recording->publications[recording->count++] = p;
        else publish(&p);
    } else if (!strcmp(name, "measure_fields")) {
        /* Largest value, largest inverse, largest ratio of neighbours. */
        double measured[3] = {1, 1, 1}, *result = *(double**)arguments[1];
        read("FIELDS", measured, 3);
        for (int n = 0; n < 3; n++) {
            result[n] = measured[0];
            result[3 + n] = measured[1];
        }
        result[6] = measured[2];
        result[7] = 0;
    } else if (!strcmp(name, "look_at_finest") || !strcmp(name, "mean_couplings")) {
        /* Sums of couplings along x, y and z; whether there is contrast; largest coupling, largest inverse. */
        double measured[6] = {1, 1, 1, 0, 1, 1}, *result = *(double**)arguments[4];
        read("COUPLINGS", measured, 6);
        for (int d = 0; d < 3; d++) {
            result[2 * d] = measured[d];
            result[2 * d + 1] = 1;
        }
        if (!strcmp(name, "look_at_finest")) memcpy(result + 6, measured + 3, 3 * sizeof *result);
    }
    return 0;
}
Result cuLaunchKernelEx(void* configuration, void* function, void** arguments) { (void)configuration; return launch(function, arguments); }
Result cuGetErrorName(Result error, const char** text) { (void)error; *text = "ERROR"; return 0; }
Result cuGetErrorString(Result error, const char** text) { (void)error; *text = "of the driver that does nothing"; return 0; }

/* The compiler. */
DOES_NOTHING(nvrtcCompileProgram)
DOES_NOTHING(nvrtcDestroyProgram)
SETS_HANDLE(nvrtcCreateProgram)
Result nvrtcVersion(int* major, int* minor) { *major = 13; *minor = 0; return 0; }
Result nvrtcGetCUBINSize(void* program, size_t* bytes) { (void)program; *bytes = 1; return 0; }
Result nvrtcGetCUBIN(void* program, char* code) { (void)program; *code = 0; return 0; }
Result nvrtcGetProgramLogSize(void* program, size_t* bytes) { (void)program; *bytes = 1; return 0; }
Result nvrtcGetProgramLog(void* program, char* log) { (void)program; *log = 0; return 0; }
const char* nvrtcGetErrorString(Result error) { (void)error; return "an error of the compiler that does nothing"; }
