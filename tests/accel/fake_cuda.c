// SPDX-License-Identifier: MIT
// A library libcuda.so.1 whose GPU is the first OpenCL device: so the back end for NVIDIA's GPUs runs where there is
// none. It compiles their text in place of the PTX that it is given, and computes in memory of the host.
#include <stdlib.h>
#include <string.h>

#include "accel/accel.h"
#include "accel/cuda_api.h"
#include "accel/kernels_source.h"
#include "accel/opencl_api.h"

#include <dlfcn.h>

#define EXPORT           __attribute__((visibility("default"), used))
#define MAX_PIECES       4096
#define USE_HOST_PTR     UINT64_C(9) // CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR
#define KERNEL_NAME      0x1190      // CL_KERNEL_FUNCTION_NAME
#define NUM_ARGS         0x1191      // CL_KERNEL_NUM_ARGS
#define ARG_QUALIFIER    0x1196      // CL_KERNEL_ARG_ADDRESS_QUALIFIER
#define QUALIFIER_GLOBAL 0x119b
#define CAPTURING        900

static struct hearth_cl cl;
static int32_t (*kernel_info)(hearth_cl_kernel, uint32_t, size_t, void *, size_t *);
static int32_t (*arg_info)(hearth_cl_kernel, uint32_t, uint32_t, size_t, void *, size_t *);
static hearth_cl_device device;
static hearth_cl_context context;
static hearth_cl_queue queue;
// As opencl.c builds it, so that PoCL finds what it has compiled for that; and one that only tells of arguments.
static hearth_cl_program program, described;

struct function {
    hearth_cl_kernel kernel, described;
};

static struct piece {
    void *base;
    hearth_cl_mem memory;
} pieces[MAX_PIECES];

// What is captured, and what comes of it. Launching, and copying within the device, is all that may be captured.
struct node {
    const struct function *function; // NULL: a copy
    unsigned groups[3], items;
    uint64_t values[HEARTH_ACCEL_MOST_ARGS]; // of a copy: where to, from where, how many bytes
};
static struct graph {
    struct node *nodes;
    size_t n;
} * captured; // NULL: nothing is

static int launch(const struct node *node);

static void find(void *library, const char *name, void *to)
{
    void *symbol = dlsym(library, name);
    memcpy(to, &symbol, sizeof symbol);
}

EXPORT int cuInit(unsigned flags)
{
    (void)flags;
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW);
    hearth_cl_platform platform;
    int32_t code;
    if (!library)
        return 1;
    if (queue)
        return 0;
#define FIND(name, result, parameters) find(library, "cl" #name, &cl.name);
    HEARTH_CL_FUNCTIONS(FIND)
    find(library, "clGetKernelInfo", &kernel_info);
    find(library, "clGetKernelArgInfo", &arg_info);
    if (cl.GetPlatformIDs(1, &platform, NULL) ||
        cl.GetDeviceIDs(platform, HEARTH_CL_DEVICE_TYPE_ALL, 1, &device, NULL))
        return 1;
    context = cl.CreateContext(NULL, 1, &device, NULL, NULL, &code);
    queue = context ? cl.CreateCommandQueue(context, device, 0, &code) : NULL;
    return !queue;
}

EXPORT int cuDriverGetVersion(int *version)
{
    *version = 12040;
    return 0;
}

EXPORT int cuDeviceGetCount(int *n)
{
    *n = 1;
    return 0;
}

EXPORT int cuDeviceGet(int *id, int i)
{
    *id = i + 7;
    return 0;
}

EXPORT int cuDeviceGetName(char *name, int n, int id)
{
    (void)id;
    strncpy(name, "a GPU that is none", (size_t)n);
    return 0;
}

EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int id)
{
    (void)id;
    *bytes = (size_t)1 << 30;
    return 0;
}

EXPORT int cuDeviceGetAttribute(int *value, int attribute, int id)
{
    *value = attribute == HEARTH_CUDA_MAJOR ? 9 : 1;
    return id != 7;
}

EXPORT int cuDevicePrimaryCtxRetain(hearth_cuda_context *out, int id)
{
    *out = (hearth_cuda_context)(void *)context;
    return id != 7;
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int id)
{
    return id != 7;
}

EXPORT int cuCtxSetCurrent(hearth_cuda_context c)
{
    return (void *)c != (void *)context;
}

EXPORT int cuModuleLoadDataEx(hearth_cuda_module *out, const void *image, unsigned n, int *options,
                              void **values)
{
    const char *text = hearth_accel_kernels_cl;
    int32_t code;
    (void)values;
    if (!(strstr(image, ".visible .entry norm") || strstr(image, ".visible .entry matrix_4_32h")) || n != 2 ||
        options[0] != HEARTH_CUDA_JIT_ERROR_LOG)
        return 218;
    if (!program) {
        program = cl.CreateProgramWithSource(context, 1, &text, NULL, &code);
        described = cl.CreateProgramWithSource(context, 1, &text, NULL, &code);
        if (cl.BuildProgram(program, 1, &device, "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt", NULL,
                            NULL) ||
            cl.BuildProgram(described, 1, &device, "-cl-std=CL1.2 -cl-kernel-arg-info", NULL, NULL))
            return 218;
    }
    *out = (hearth_cuda_module)(void *)program;
    return 0;
}

EXPORT int cuModuleUnload(hearth_cuda_module m)
{
    return (void *)m != (void *)program;
}

EXPORT int cuModuleGetFunction(hearth_cuda_function *out, hearth_cuda_module m, const char *name)
{
    int32_t code;
    struct function *f = malloc(sizeof *f);
    (void)m;
    if (!f)
        return HEARTH_CUDA_OUT_OF_MEMORY;
    *f = (struct function){cl.CreateKernel(program, name, &code), cl.CreateKernel(described, name, &code)};
    *out = (hearth_cuda_function)(void *)f;
    return !f->kernel || !f->described;
}

EXPORT int cuMemGetInfo_v2(size_t *bytes, size_t *all)
{
    *bytes = (size_t)600 << 20;
    *all = (size_t)1 << 30;
    return 0;
}

EXPORT int cuMemAlloc_v2(hearth_cuda_pointer *out, size_t bytes)
{
    int32_t code;
    for (int i = 0; i < MAX_PIECES; i++)
        if (!pieces[i].base) {
            void *p = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
            if (!p)
                return HEARTH_CUDA_OUT_OF_MEMORY;
            pieces[i] = (struct piece){p, cl.CreateBuffer(context, USE_HOST_PTR, bytes, p, &code)};
            *out = (hearth_cuda_pointer)(uintptr_t)p;
            return 0;
        }
    return HEARTH_CUDA_OUT_OF_MEMORY;
}

EXPORT int cuMemFree_v2(hearth_cuda_pointer at)
{
    cl.Finish(queue);
    for (int i = 0; i < MAX_PIECES; i++)
        if (pieces[i].base && pieces[i].base == (void *)(uintptr_t)at) {
            cl.ReleaseMemObject(pieces[i].memory);
            free(pieces[i].base);
            pieces[i].base = NULL;
            return 0;
        }
    return 1;
}

EXPORT int cuMemAllocHost_v2(void **out, size_t bytes)
{
    *out = malloc(bytes ? bytes : 1);
    return !*out;
}

EXPORT int cuMemFreeHost(void *p)
{
    free(p);
    return 0;
}

EXPORT int cuMemcpyHtoDAsync_v2(hearth_cuda_pointer to, const void *from, size_t n, hearth_cuda_stream s)
{
    (void)s;
    if (captured || cl.Finish(queue))
        return CAPTURING;
    memcpy((void *)(uintptr_t)to, from, n);
    return 0;
}

EXPORT int cuMemcpyDtoHAsync_v2(void *to, hearth_cuda_pointer from, size_t n, hearth_cuda_stream s)
{
    (void)s;
    if (captured || cl.Finish(queue))
        return CAPTURING;
    memcpy(to, (const void *)(uintptr_t)from, n);
    return 0;
}

EXPORT int cuMemcpyDtoDAsync_v2(hearth_cuda_pointer to, hearth_cuda_pointer from, size_t n,
                                hearth_cuda_stream s)
{
    const struct node node = {.values = {to, from, n}};
    (void)s;
    return launch(&node);
}

EXPORT int cuStreamCreate(hearth_cuda_stream *out, unsigned flags)
{
    *out = (hearth_cuda_stream)(void *)queue;
    return flags != HEARTH_CUDA_STREAM_OWN;
}

EXPORT int cuStreamDestroy_v2(hearth_cuda_stream s)
{
    return (void *)s != (void *)queue;
}

EXPORT int cuStreamSynchronize(hearth_cuda_stream s)
{
    return captured || (void *)s != (void *)queue || cl.Finish(queue);
}

EXPORT int cuEventCreate(hearth_cuda_event *out, unsigned flags)
{
    *out = malloc(1);
    return flags != HEARTH_CUDA_EVENT_NO_TIMING || !*out;
}

EXPORT int cuEventRecord(hearth_cuda_event e, hearth_cuda_stream s)
{
    return !e || (void *)s != (void *)queue;
}

EXPORT int cuEventSynchronize(hearth_cuda_event e)
{
    return !e || cl.Finish(queue);
}

EXPORT int cuEventDestroy_v2(hearth_cuda_event e)
{
    free((void *)e);
    return 0;
}

static hearth_cl_mem memory_at(uint64_t at)
{
    for (int i = 0; i < MAX_PIECES; i++)
        if (at && pieces[i].base == (void *)(uintptr_t)at)
            return pieces[i].memory;
    return NULL;
}

static int do_copy(const struct node *node)
{
    cl.Finish(queue);
    memmove((void *)(uintptr_t)node->values[0], (const void *)(uintptr_t)node->values[1], node->values[2]);
    return 0;
}

static int is_pointer(const struct function *f, uint32_t i)
{
    uint32_t qualifier = 0;
    const int code = arg_info(f->described, i, ARG_QUALIFIER, sizeof qualifier, &qualifier, NULL);
    return code ? -1 : qualifier == QUALIFIER_GLOBAL;
}

static int do_kernel(const struct node *node)
{
    hearth_cl_kernel kernel = node->function->kernel;
    const size_t items = node->items;
    uint32_t n = 0;
    // As if its matrix units gave other numbers, or none.
    char name[64] = {0};
    if (getenv("FAKE_CUDA_NO_MATRIX") && !kernel_info(kernel, KERNEL_NAME, sizeof name - 1, name, NULL) &&
        !strncmp(name, "matrix_", 7))
        return 0;
    if (kernel_info(kernel, NUM_ARGS, sizeof n, &n, NULL))
        return 1;
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t *value = &node->values[i];
        const int pointer = is_pointer(node->function, i);
        hearth_cl_mem m = pointer ? memory_at(*value) : NULL;
        if (pointer && *value && !m)
            return 1;
        if (cl.SetKernelArg(kernel, i, pointer ? sizeof m : 4, pointer ? (const void *)&m : value))
            return 1;
    }
    const size_t all[3] = {node->groups[0] * items, node->groups[1], node->groups[2]};
    return cl.EnqueueNDRangeKernel(queue, kernel, 3, NULL, all, (const size_t[3]){items, 1, 1}, 0, NULL,
                                   NULL);
}

// Now, or when the graph is that is captured.
static int launch(const struct node *node)
{
    if (!captured)
        return node->function ? do_kernel(node) : do_copy(node);
    struct node *nodes = realloc(captured->nodes, (captured->n + 1) * sizeof *nodes);
    if (!nodes)
        return HEARTH_CUDA_OUT_OF_MEMORY;
    captured->nodes = nodes;
    nodes[captured->n++] = *node;
    return 0;
}

EXPORT int cuLaunchKernel(hearth_cuda_function f, unsigned x, unsigned y, unsigned z, unsigned items,
                          unsigned items_y, unsigned items_z, unsigned shared, hearth_cuda_stream s,
                          void **values, void **extra)
{
    struct node node = {
        .function = (const struct function *)(const void *)f, .groups = {x, y, z}, .items = items};
    uint32_t n = 0;
    if (items % 64 || items > HEARTH_ACCEL_MOST_ITEMS || items_y != 1 || items_z != 1 || shared || extra ||
        (void *)s != (void *)queue || x > INT32_MAX || y > 65535 || z > 65535 ||
        kernel_info(node.function->kernel, NUM_ARGS, sizeof n, &n, NULL) || n > HEARTH_ACCEL_MOST_ARGS)
        return 1;
    for (uint32_t i = 0; i < n; i++) {
        const int pointer = is_pointer(node.function, i);
        if (pointer < 0)
            return 1;
        memcpy(&node.values[i], values[i], pointer ? sizeof node.values[i] : 4);
    }
    return launch(&node);
}

// ---- graphs

EXPORT int cuStreamBeginCapture_v2(hearth_cuda_stream s, unsigned mode)
{
    const char *fault = getenv("FAKE_CUDA_GRAPHS");
    if (captured || (void *)s != (void *)queue || mode != HEARTH_CUDA_CAPTURE_THREAD ||
        (fault && !strcmp(fault, "none")))
        return CAPTURING;
    captured = calloc(1, sizeof *captured);
    return captured ? 0 : HEARTH_CUDA_OUT_OF_MEMORY;
}

EXPORT int cuStreamEndCapture(hearth_cuda_stream s, hearth_cuda_graph *out)
{
    *out = (hearth_cuda_graph)(void *)captured;
    captured = NULL;
    return !*out || (void *)s != (void *)queue;
}

static void free_graph(struct graph *g)
{
    free(g->nodes);
    free(g);
}

EXPORT int cuGraphDestroy(hearth_cuda_graph g)
{
    free_graph((struct graph *)(void *)g);
    return 0;
}

// A copy of it.
EXPORT int cuGraphInstantiateWithFlags(hearth_cuda_graph_exec *out, hearth_cuda_graph from,
                                       unsigned long long flags)
{
    const struct graph *g = (const struct graph *)(const void *)from;
    const char *fault = getenv("FAKE_CUDA_GRAPHS");
    struct graph *copy = calloc(1, sizeof *copy);
    if (!copy || !(copy->nodes = calloc(g->n, sizeof *copy->nodes)) || flags ||
        (fault && !strcmp(fault, "not made")))
        return HEARTH_CUDA_OUT_OF_MEMORY;
    memcpy(copy->nodes, g->nodes, g->n * sizeof *copy->nodes);
    copy->n = g->n;
    *out = (hearth_cuda_graph_exec)(void *)copy;
    return 0;
}

EXPORT int cuGraphLaunch(hearth_cuda_graph_exec e, hearth_cuda_stream s)
{
    const struct graph *g = (const struct graph *)(const void *)e;
    const char *fault = getenv("FAKE_CUDA_GRAPHS");
    int code = captured || (void *)s != (void *)queue || (fault && !strcmp(fault, "fail"));
    for (size_t i = 0; i < g->n && !code; i++)
        if (!fault || strcmp(fault, "wrong") || i) // a driver's error
            code = launch(&g->nodes[i]);
    return code;
}

EXPORT int cuGraphExecDestroy(hearth_cuda_graph_exec e)
{
    cl.Finish(queue);
    free_graph((struct graph *)(void *)e);
    return 0;
}
