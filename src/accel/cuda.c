// SPDX-License-Identifier: MIT
// NVIDIA's GPUs, by their driver: it compiles the kernels' PTX, which the build makes of kernels/ where it finds a
// compiler for that (cmake/accel_kernels.cmake); without it there are no devices here.
#include "accel/cuda_api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "accel/accel.h"
#include "accel/kernels_source.h"
#include "base/memory.h"
#include "base/os.h"

// The kernels' integer dot products are instructions from this compute capability on.
#define LEAST_MAJOR 6
#define LEAST_MINOR 1
// From this one on they have units for products of integers.
#define MATRIX_MAJOR 8
// Groups of a grid in its second and third dimension.
#define MAX_GROUPS  65535
#define MAX_DEVICES 64

struct device {
    struct hearth_cuda cu;
    int id;
    bool retained;
    hearth_cuda_context context;
    hearth_cuda_stream stream, copies; // copies: what is written beside the stream
    hearth_cuda_module module, matrix;
    hearth_cuda_function kernels[HEARTH_ACCEL_KERNELS_END];
    char name[128];
};

// ---- the library

static bool load(struct hearth_cuda *cu)
{
    const struct {
        void *to;
        const char *name;
        bool optional;
    } functions[] = {
#define FUNCTION(name, symbol, parameters) {&cu->name, symbol, false},
#define OPTIONAL(name, symbol, parameters) {&cu->name, symbol, true},
        HEARTH_CUDA_FUNCTIONS(FUNCTION) HEARTH_CUDA_GRAPH_FUNCTIONS(OPTIONAL)
#undef OPTIONAL
#undef FUNCTION
    };
    void *library = NULL;
    if (sizeof(void *) == 8 && *hearth_accel_kernels_ptx && !(library = hearth_os_library("libcuda.so.1")))
        library = hearth_os_library("nvcuda.dll");
    for (size_t i = 0; library && i < sizeof functions / sizeof *functions; i++) {
        void *symbol = hearth_os_symbol(library, functions[i].name);
        if (!symbol && !functions[i].optional)
            return false;
        memcpy(functions[i].to, &symbol, sizeof symbol);
    }
    return library && !cu->Init(0);
}

// ---- devices

// Those that the kernels run on. Returns how many.
static int find_devices(const struct hearth_cuda *cu, int *ids)
{
    int count = 0, n = 0;
    if (cu->DeviceGetCount(&count))
        return 0;
    for (int i = 0; i < count && n < MAX_DEVICES; i++) {
        int id, major = 0, minor = 0;
        if (cu->DeviceGet(&id, i) || cu->DeviceGetAttribute(&major, HEARTH_CUDA_MAJOR, id) ||
            cu->DeviceGetAttribute(&minor, HEARTH_CUDA_MINOR, id))
            continue;
        if (major > LEAST_MAJOR || (major == LEAST_MAJOR && minor >= LEAST_MINOR))
            ids[n++] = id;
    }
    return n;
}

static void name_of(const struct hearth_cuda *cu, int id, char *out, size_t size)
{
    memset(out, 0, size);
    if (cu->DeviceGetName(out, (int)size - 1, id))
        snprintf(out, size, "GPU %d", id);
    hearth_make_printable(out);
}

static bool has_matrix_units(const struct hearth_cuda *cu, int id)
{
    int major = 0;
    return *hearth_accel_kernels_ptx_80 && !cu->DeviceGetAttribute(&major, HEARTH_CUDA_MAJOR, id) &&
           major >= MATRIX_MAJOR;
}

static uint64_t place_of(const struct hearth_cuda *cu, int id)
{
    int domain, bus, device;
    if (cu->DeviceGetAttribute(&domain, HEARTH_CUDA_PCI_DOMAIN, id) ||
        cu->DeviceGetAttribute(&bus, HEARTH_CUDA_PCI_BUS, id) ||
        cu->DeviceGetAttribute(&device, HEARTH_CUDA_PCI_DEVICE, id))
        return 0;
    return hearth_accel_place((uint32_t)domain, (uint32_t)bus, (uint32_t)device, 0);
}

static struct hearth_accel_info describe(const struct hearth_cuda *cu, int id, int index)
{
    struct hearth_accel_info info = {.backend = hearth_accel_cuda.name, .exact = true, .index = index};
    size_t memory = 0;
    int units = 0, version = 0, integrated = 0;
    cu->DeviceTotalMem(&memory, id);
    cu->DeviceGetAttribute(&units, HEARTH_CUDA_UNITS, id);
    cu->DeviceGetAttribute(&integrated, HEARTH_CUDA_INTEGRATED, id);
    cu->DriverGetVersion(&version);
    info.shares_memory = integrated != 0;
    info.memory = info.largest = memory;
    info.units = (uint32_t)units;
    info.has_matrix_units = has_matrix_units(cu, id);
    info.place = place_of(cu, id);
    snprintf(info.driver, sizeof info.driver, "%d.%d", version / 1000, version % 1000 / 10);
    name_of(cu, id, info.name, sizeof info.name);
    return info;
}

static int list(struct hearth_accel_info *out, int cap)
{
    struct hearth_cuda cu;
    int ids[MAX_DEVICES];
    if (!load(&cu))
        return 0;
    const int n = find_devices(&cu, ids);
    for (int i = 0; i < n && i < cap; i++)
        out[i] = describe(&cu, ids[i], i);
    return n;
}

// ---- opening

static int fail(const struct device *d, const char *what, int code, struct hearth_error *err)
{
    const bool memory = code == HEARTH_CUDA_OUT_OF_MEMORY;
    return hearth_fail(err, memory ? HEARTH_E_MEMORY : HEARTH_E_UNSUPPORTED, "%s cannot %s (CUDA error %d)%s",
                       d->name, what, code, memory ? ": its memory is full" : "");
}

static int load_module(struct device *d, hearth_cuda_module *out, const char *text, struct hearth_error *err)
{
    char log[2048] = {0};
    int options[] = {HEARTH_CUDA_JIT_ERROR_LOG, HEARTH_CUDA_JIT_ERROR_LOG_BYTES};
    void *values[] = {log, (void *)(uintptr_t)(sizeof log - 1)};
    const int code = d->cu.ModuleLoadDataEx(out, text, 2, options, values);
    if (code)
        return hearth_fail(err, HEARTH_E_UNSUPPORTED, "%s cannot build the kernels (CUDA error %d): %.*s",
                           d->name, code, (int)strcspn(log, "\n"), log);
    return HEARTH_OK;
}

static int build(struct device *d, bool broken, struct hearth_error *err)
{
    static const char *const names[] = {
#define NAME(name) #name,
        HEARTH_ACCEL_KERNELS(NAME)
#undef NAME
    };
    int code = load_module(d, &d->module, broken ? "this is no kernel" : hearth_accel_kernels_ptx, err);
    if (code)
        return code;
    // Without them it does without (run()).
    struct hearth_error no_matrix;
    const bool matrix = has_matrix_units(&d->cu, d->id) &&
                        !load_module(d, &d->matrix, hearth_accel_kernels_ptx_80, &no_matrix);
    for (int i = 0; i < HEARTH_ACCEL_KERNELS_END && !code; i++) {
        const bool is_matrix = !strncmp(names[i], "matrix_", 7);
        if (!is_matrix || matrix)
            code = d->cu.ModuleGetFunction(&d->kernels[i], is_matrix ? d->matrix : d->module, names[i]);
        if (code)
            return fail(d, names[i], code, err);
    }
    return HEARTH_OK;
}

static int open_device(void **state, int index, bool broken, struct hearth_error *err)
{
    int ids[MAX_DEVICES];
    struct device *d = hearth_calloc(1, sizeof *d);
    *state = d;
    if (!d)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for a device");
    if (!load(&d->cu) || find_devices(&d->cu, ids) <= index)
        return hearth_fail(err, HEARTH_E_UNSUPPORTED, "the device is gone");
    d->id = ids[index];
    name_of(&d->cu, d->id, d->name, sizeof d->name);
    int code = d->cu.PrimaryRetain(&d->context, d->id);
    d->retained = !code;
    if (!code)
        code = d->cu.CtxSetCurrent(d->context);
    if (!code)
        code = d->cu.StreamCreate(&d->stream, HEARTH_CUDA_STREAM_OWN);
    if (!code)
        code = d->cu.StreamCreate(&d->copies, HEARTH_CUDA_STREAM_OWN);
    return code ? fail(d, "be used", code, err) : build(d, broken, err);
}

static void close_device(void *state)
{
    struct device *d = state;
    if (d->retained)
        d->cu.CtxSetCurrent(d->context);
    hearth_cuda_stream const streams[] = {d->stream, d->copies};
    for (int i = 0; i < 2; i++)
        if (streams[i]) {
            d->cu.StreamSynchronize(streams[i]);
            d->cu.StreamDestroy(streams[i]);
        }
    if (d->module)
        d->cu.ModuleUnload(d->module);
    if (d->matrix)
        d->cu.ModuleUnload(d->matrix);
    if (d->retained)
        d->cu.PrimaryRelease(d->id);
    free(d);
}

// ---- memory, copies, kernels: any thread may call, so each first says whose context it means

static uint64_t free_memory(void *state)
{
    struct device *d = state;
    size_t bytes = 0, all = 0;
    return d->cu.CtxSetCurrent(d->context) || d->cu.MemGetInfo(&bytes, &all) ? 0 : bytes;
}

static int alloc(void *state, size_t bytes, void **handle, struct hearth_error *err)
{
    struct device *d = state;
    hearth_cuda_pointer p = 0;
    int code = d->cu.CtxSetCurrent(d->context);
    if (!code)
        code = d->cu.MemAlloc(&p, bytes);
    *handle = (void *)(uintptr_t)p;
    if (code)
        return hearth_fail(err, HEARTH_E_MEMORY, "%s has no %zu MiB of memory left (CUDA error %d)", d->name,
                           bytes >> 20, code);
    return HEARTH_OK;
}

static void release(void *state, void *handle)
{
    struct device *d = state;
    d->cu.CtxSetCurrent(d->context);
    d->cu.MemFree((hearth_cuda_pointer)(uintptr_t)handle);
}

// Memory of the host that is not paged, so that copies run beside kernels.
static void *alloc_host(void *state, size_t bytes)
{
    struct device *d = state;
    void *p = NULL;
    return d->cu.CtxSetCurrent(d->context) || d->cu.MemAllocHost(&p, bytes) ? NULL : p;
}

static void release_host(void *state, void *p)
{
    struct device *d = state;
    d->cu.CtxSetCurrent(d->context);
    d->cu.MemFreeHost(p);
}

static hearth_cuda_pointer address(void *handle, size_t at)
{
    return (hearth_cuda_pointer)(uintptr_t)handle + at;
}

static int write_bytes(void *state, void *to, size_t at, const void *from, size_t n, struct hearth_error *err)
{
    struct device *d = state;
    int code = d->cu.CtxSetCurrent(d->context);
    if (!code)
        code = d->cu.CopyUp(address(to, at), from, n, d->stream);
    if (!code) // of memory that is paged, the driver has made a copy by now; other memory may change as we return
        code = d->cu.StreamSynchronize(d->stream);
    return code ? fail(d, "be written to", code, err) : HEARTH_OK;
}

static int write_beside(void *state, void *to, size_t at, const void *from, size_t n, void **event,
                        struct hearth_error *err)
{
    struct device *d = state;
    hearth_cuda_event done = NULL;
    int code = d->cu.CtxSetCurrent(d->context);
    if (!code)
        code = d->cu.EventCreate(&done, HEARTH_CUDA_EVENT_NO_TIMING);
    if (!code)
        code = d->cu.CopyUp(address(to, at), from, n, d->copies);
    if (!code)
        code = d->cu.EventRecord(done, d->copies);
    if (code) {
        if (done)
            d->cu.EventDestroy(done);
        return fail(d, "be written to", code, err);
    }
    *event = done;
    return HEARTH_OK;
}

static int read_bytes(void *state, void *from, size_t at, void *to, size_t n, void **event,
                      struct hearth_error *err)
{
    struct device *d = state;
    hearth_cuda_event done = NULL;
    int code = d->cu.CtxSetCurrent(d->context);
    if (!code && event)
        code = d->cu.EventCreate(&done, HEARTH_CUDA_EVENT_NO_TIMING);
    if (!code)
        code = d->cu.CopyDown(to, address(from, at), n, d->stream);
    if (!code)
        code = event ? d->cu.EventRecord(done, d->stream) : d->cu.StreamSynchronize(d->stream);
    if (code) {
        if (done)
            d->cu.EventDestroy(done);
        return fail(d, "be read", code, err);
    }
    if (event)
        *event = done;
    return HEARTH_OK;
}

static int wait_for(void *state, void *event, struct hearth_error *err)
{
    struct device *d = state;
    d->cu.CtxSetCurrent(d->context);
    const int code = d->cu.EventSynchronize(event);
    d->cu.EventDestroy(event);
    return code ? fail(d, "finish its work", code, err) : HEARTH_OK;
}

static int copy_bytes(void *state, void *to, size_t to_at, void *from, size_t from_at, size_t n,
                      struct hearth_error *err)
{
    struct device *d = state;
    int code = d->cu.CtxSetCurrent(d->context);
    if (!code)
        code = d->cu.CopyWithin(address(to, to_at), address(from, from_at), n, d->stream);
    return code ? fail(d, "copy", code, err) : HEARTH_OK;
}

static int run(void *state, enum hearth_accel_kernel kernel, const struct hearth_accel_arg *args, int n_args,
               const size_t groups[3], struct hearth_error *err)
{
    struct device *d = state;
    hearth_cuda_pointer pointers[HEARTH_ACCEL_MOST_ARGS];
    void *values[HEARTH_ACCEL_MOST_ARGS];
    if (n_args > HEARTH_ACCEL_MOST_ARGS || groups[0] > INT32_MAX || groups[1] > MAX_GROUPS ||
        groups[2] > MAX_GROUPS)
        return hearth_fail(err, HEARTH_E_UNSUPPORTED, "%s has no grid of %zu x %zu x %zu groups", d->name,
                           groups[0], groups[1], groups[2]);
    for (int i = 0; i < n_args; i++) {
        pointers[i] = args[i].memory ? address(args[i].memory->handle, 0) : 0;
        // Numbers are only read.
        values[i] = args[i].memory ? (void *)&pointers[i] : (void *)(uintptr_t)&args[i].number;
    }
    if (!d->kernels[kernel])
        return hearth_fail(err, HEARTH_E_UNSUPPORTED, "%s has no kernels for its matrix units", d->name);
    int code = d->cu.CtxSetCurrent(d->context);
    if (!code)
        code = d->cu.LaunchKernel(d->kernels[kernel], (unsigned)groups[0], (unsigned)groups[1],
                                  (unsigned)groups[2], (unsigned)hearth_accel_group_of(kernel), 1, 1, 0,
                                  d->stream, values, NULL);
    return code ? fail(d, "run a kernel", code, err) : HEARTH_OK;
}

// ---- lists: graphs, of what is captured while it would be begun

static bool has_graphs(const struct hearth_cuda *cu)
{
    bool has = true;
#define HAS(name, symbol, parameters) has = has && cu->name;
    HEARTH_CUDA_GRAPH_FUNCTIONS(HAS)
#undef HAS
    return has;
}

static int begin_record(void *state)
{
    struct device *d = state;
    if (!has_graphs(&d->cu))
        return HEARTH_E_UNSUPPORTED;
    const int code = d->cu.CtxSetCurrent(d->context);
    return code ? code : d->cu.StreamBeginCapture(d->stream, HEARTH_CUDA_CAPTURE_THREAD);
}

static int end_record(void *state, void **record)
{
    struct device *d = state;
    hearth_cuda_graph graph = NULL;
    hearth_cuda_graph_exec exec = NULL;
    int code = d->cu.StreamEndCapture(d->stream, &graph);
    if (!code)
        code = d->cu.GraphInstantiate(&exec, graph, 0);
    if (graph)
        d->cu.GraphDestroy(graph);
    *record = exec;
    return code;
}

static int replay(void *state, void *record, struct hearth_error *err)
{
    struct device *d = state;
    int code = d->cu.CtxSetCurrent(d->context);
    if (!code)
        code = d->cu.GraphLaunch(record, d->stream);
    return code ? fail(d, "run a list of kernels", code, err) : HEARTH_OK;
}

static void forget(void *state, void *record)
{
    struct device *d = state;
    d->cu.CtxSetCurrent(d->context);
    d->cu.StreamSynchronize(d->stream); // it may be on its way
    d->cu.GraphExecDestroy(record);
}

static int flush(void *state, struct hearth_error *err)
{
    (void)state;
    (void)err;
    return HEARTH_OK; // it begins by itself
}

const struct hearth_accel_backend hearth_accel_cuda = {
    .name = "CUDA",
    .list = list,
    .open = open_device,
    .close = close_device,
    .free_memory = free_memory,
    .alloc = alloc,
    .release = release,
    .alloc_host = alloc_host,
    .release_host = release_host,
    .write = write_bytes,
    .write_beside = write_beside,
    .copy = copy_bytes,
    .read = read_bytes,
    .wait = wait_for,
    .run = run,
    .flush = flush,
    .begin_record = begin_record,
    .end_record = end_record,
    .replay = replay,
    .forget = forget,
};
