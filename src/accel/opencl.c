// SPDX-License-Identifier: MIT
// Devices of OpenCL 1.2 and later: GPUs of phones, Intel, AMD, NVIDIA; PoCL, which computes on the CPU.
#include "accel/opencl_api.h"

#include <stdlib.h>
#include <string.h>

#include "accel/accel.h"
#include "accel/kernels_source.h"
#include "base/memory.h"
#include "base/os.h"
#include "base/threads.h"

#define MAX_PLATFORMS 16
#define MAX_DEVICES   64

// What all have in common who have a device open at the same time: drivers take long to build the kernels, and memory for
// a context.
struct common {
    struct common *next;
    int users;
    hearth_cl_device id;
    hearth_cl_context context;
    hearth_cl_program program; // built
};

struct device {
    struct hearth_cl cl;
    hearth_cl_device id;
    struct common *common;
    hearth_cl_queue queue, copies; // copies: what is written beside the queue
    hearth_cl_kernel kernels[HEARTH_ACCEL_KERNELS_END];
    char name[128];
};

static struct common *in_use; // with the process lock

// ---- the library

static const char *const libraries[] = {
    "libOpenCL.so.1",
    "libOpenCL.so",
    "/vendor/lib64/libOpenCL.so",
    "/system/vendor/lib64/libOpenCL.so",
    "/vendor/lib64/egl/libGLES_mali.so",
    "/system/vendor/lib64/egl/libGLES_mali.so",
    "/vendor/lib64/libPVROCL.so",
    "OpenCL.dll",
    "/System/Library/Frameworks/OpenCL.framework/OpenCL",
};

static bool look_up(struct hearth_cl *cl, void *library)
{
    const struct {
        void *to;
        const char *name;
    } functions[] = {
#define FUNCTION(name, result, parameters) {&cl->name, "cl" #name},
        HEARTH_CL_FUNCTIONS(FUNCTION)
#undef FUNCTION
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *symbol = hearth_os_symbol(library, functions[i].name);
        if (!symbol)
            return false;
        memcpy(functions[i].to, &symbol, sizeof symbol);
    }
    return true;
}

static bool load(struct hearth_cl *cl)
{
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        void *library = hearth_os_library(libraries[i]);
        if (library && look_up(cl, library))
            return true;
    }
    return false;
}

// ---- devices

// All devices of all platforms. Returns how many.
static int find_devices(const struct hearth_cl *cl, hearth_cl_device *out)
{
    hearth_cl_platform platforms[MAX_PLATFORMS];
    uint32_t n_platforms = 0;
    int n = 0;
    if (cl->GetPlatformIDs(MAX_PLATFORMS, platforms, &n_platforms))
        return 0;
    for (uint32_t i = 0; i < n_platforms && i < MAX_PLATFORMS; i++) {
        uint32_t count = 0;
        const uint32_t room = (uint32_t)(MAX_DEVICES - n);
        if (room && !cl->GetDeviceIDs(platforms[i], HEARTH_CL_DEVICE_TYPE_ALL, room, out + n, &count))
            n += (int)(count < room ? count : room);
    }
    return n;
}

// A number of the device, of 4 or 8 bytes; 0: not known.
static uint64_t number_of(const struct hearth_cl *cl, hearth_cl_device id, uint32_t what, size_t size)
{
    uint64_t wide = 0;
    uint32_t narrow = 0;
    if (size == sizeof narrow)
        return cl->GetDeviceInfo(id, what, size, &narrow, NULL) ? 0 : narrow;
    return cl->GetDeviceInfo(id, what, size, &wide, NULL) ? 0 : wide;
}

static void text_of(const struct hearth_cl *cl, hearth_cl_device id, uint32_t what, char *out, size_t size)
{
    char text[1024] = {0};
    if (cl->GetDeviceInfo(id, what, sizeof text - 1, text, NULL))
        text[0] = '\0';
    size_t n = strlen(text);
    n = n < size ? n : size - 1;
    memcpy(out, text, n);
    out[n] = '\0';
    hearth_make_printable(out);
}

static uint64_t place_of(const struct hearth_cl *cl, hearth_cl_device id)
{
    uint32_t pci[4];
    if (cl->GetDeviceInfo(id, HEARTH_CL_DEVICE_PCI, sizeof pci, pci, NULL))
        return 0;
    return hearth_accel_place(pci[0], pci[1], pci[2], pci[3]);
}

static struct hearth_accel_info describe(const struct hearth_cl *cl, hearth_cl_device id, int index)
{
    const uint64_t type = number_of(cl, id, HEARTH_CL_DEVICE_TYPE, 8);
    const uint64_t needed = HEARTH_CL_FP_DENORM | HEARTH_CL_FP_FMA | HEARTH_CL_FP_CORRECTLY;
    struct hearth_accel_info info = {
        .backend = hearth_accel_opencl.name,
        .memory = number_of(cl, id, HEARTH_CL_DEVICE_GLOBAL_MEM_SIZE, 8),
        .largest = number_of(cl, id, HEARTH_CL_DEVICE_LARGEST, 8),
        .units = (uint32_t)number_of(cl, id, HEARTH_CL_DEVICE_COMPUTE_UNITS, 4),
        .is_cpu = (type & HEARTH_CL_DEVICE_TYPE_CPU) != 0,
        .shares_memory = (type & HEARTH_CL_DEVICE_TYPE_CPU) != 0 ||
                         number_of(cl, id, HEARTH_CL_DEVICE_SHARES_MEMORY, 4) != 0,
        .exact = (number_of(cl, id, HEARTH_CL_DEVICE_SINGLE_FP_CONFIG, 8) & needed) == needed,
        .place = place_of(cl, id),
        .index = index,
    };
    text_of(cl, id, HEARTH_CL_DEVICE_NAME, info.name, sizeof info.name);
    text_of(cl, id, HEARTH_CL_DRIVER_VERSION, info.driver, sizeof info.driver);
    return info;
}

static int list(struct hearth_accel_info *out, int cap)
{
    struct hearth_cl cl;
    hearth_cl_device ids[MAX_DEVICES];
    if (!load(&cl))
        return 0;
    const int n = find_devices(&cl, ids);
    for (int i = 0; i < n && i < cap; i++)
        out[i] = describe(&cl, ids[i], i);
    return n;
}

// ---- opening

static int fail(const struct device *d, const char *what, int32_t code, struct hearth_error *err)
{
    const bool memory = code == HEARTH_CL_OUT_OF_DEVICE_MEMORY || code == HEARTH_CL_OUT_OF_RESOURCES ||
                        code == HEARTH_CL_OUT_OF_HOST_MEMORY || code == HEARTH_CL_INVALID_BUFFER_SIZE;
    return hearth_fail(err, memory ? HEARTH_E_MEMORY : HEARTH_E_UNSUPPORTED,
                       "%s cannot %s (OpenCL error %d)%s", d->name, what, (int)code,
                       memory ? ": its memory may be too small" : "");
}

// What the compiler had to say, a line of it.
static int fail_build(const struct device *d, hearth_cl_program program, int32_t code,
                      struct hearth_error *err)
{
    char log[4096] = {0};
    d->cl.GetProgramBuildInfo(program, d->id, HEARTH_CL_PROGRAM_BUILD_LOG, sizeof log - 1, log, NULL);
    const char *line = strstr(log, "error:");
    line = line ? line : log;
    return hearth_fail(err, HEARTH_E_UNSUPPORTED, "%s cannot build the kernels (OpenCL error %d): %.*s",
                       d->name, (int)code, (int)strcspn(line, "\n"), line);
}

static int build(const struct device *d, struct common *c, bool broken, struct hearth_error *err)
{
    const char *text = broken ? "this is no kernel" : hearth_accel_kernels_cl;
    int32_t code = 0;
    c->context = d->cl.CreateContext(NULL, 1, &d->id, NULL, NULL, &code);
    if (!c->context)
        return fail(d, "make a context", code, err);
    c->program = d->cl.CreateProgramWithSource(c->context, 1, &text, NULL, &code);
    if (!c->program)
        return fail(d, "take a program", code, err);
    const uint64_t config = number_of(&d->cl, d->id, HEARTH_CL_DEVICE_SINGLE_FP_CONFIG, 8);
    const bool is_cpu = number_of(&d->cl, d->id, HEARTH_CL_DEVICE_TYPE, 8) & HEARTH_CL_DEVICE_TYPE_CPU;
    char options[128];
    snprintf(options, sizeof options, "-cl-std=CL1.2%s%s",
             config & HEARTH_CL_FP_CORRECTLY ? " -cl-fp32-correctly-rounded-divide-sqrt" : "",
             is_cpu ? "" : " -DHEARTH_GPU");
    code = d->cl.BuildProgram(c->program, 1, &d->id, options, NULL, NULL);
    return code ? fail_build(d, c->program, code, err) : HEARTH_OK;
}

static void free_common(const struct device *d, struct common *c)
{
    if (c->program)
        d->cl.ReleaseProgram(c->program);
    if (c->context)
        d->cl.ReleaseContext(c->context);
    free(c);
}

// With the process lock.
static int find_common(struct device *d, bool broken, struct hearth_error *err)
{
    struct common *c = in_use;
    while (c && (broken || c->id != d->id))
        c = c->next;
    if (!c) {
        c = hearth_calloc(1, sizeof *c);
        if (!c)
            return hearth_fail(err, HEARTH_E_MEMORY, "no memory for a device");
        c->id = d->id;
        const int rc = build(d, c, broken, err);
        if (rc) {
            free_common(d, c);
            return rc;
        }
        c->next = in_use;
        in_use = c;
    }
    c->users++;
    d->common = c;
    return HEARTH_OK;
}

static void drop_common(struct device *d)
{
    hearth_process_lock_take();
    if (--d->common->users == 0) {
        struct common **at = &in_use;
        while (*at != d->common)
            at = &(*at)->next;
        *at = d->common->next;
        free_common(d, d->common);
    }
    hearth_process_lock_drop();
}

static int make_own(struct device *d, struct hearth_error *err)
{
    static const char *const names[] = {
#define NAME(name) #name,
        HEARTH_ACCEL_KERNELS(NAME)
#undef NAME
    };
    int32_t code = 0;
    d->queue = d->cl.CreateCommandQueue(d->common->context, d->id, 0, &code);
    if (d->queue)
        d->copies = d->cl.CreateCommandQueue(d->common->context, d->id, 0, &code);
    if (!d->copies)
        return fail(d, "make a queue", code, err);
    for (int i = 0; i < HEARTH_ACCEL_KERNELS_END; i++)
        if (!(d->kernels[i] = d->cl.CreateKernel(d->common->program, names[i], &code)))
            return fail(d, names[i], code, err);
    return HEARTH_OK;
}

static int open_device(void **state, int index, bool broken, struct hearth_error *err)
{
    hearth_cl_device ids[MAX_DEVICES];
    struct device *d = hearth_calloc(1, sizeof *d);
    *state = d;
    if (!d)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for a device");
    if (!load(&d->cl) || find_devices(&d->cl, ids) <= index)
        return hearth_fail(err, HEARTH_E_UNSUPPORTED, "the device is gone");
    d->id = ids[index];
    text_of(&d->cl, d->id, HEARTH_CL_DEVICE_NAME, d->name, sizeof d->name);
    if (!number_of(&d->cl, d->id, HEARTH_CL_DEVICE_AVAILABLE, 4) ||
        !number_of(&d->cl, d->id, HEARTH_CL_DEVICE_COMPILER, 4))
        return hearth_fail(err, HEARTH_E_UNSUPPORTED, "%s is not available, or its driver has no compiler",
                           d->name);
    if (number_of(&d->cl, d->id, HEARTH_CL_DEVICE_MAX_GROUP, sizeof(size_t)) < HEARTH_ACCEL_MOST_ITEMS)
        return hearth_fail(err, HEARTH_E_UNSUPPORTED, "%s has no groups of %d items", d->name,
                           HEARTH_ACCEL_MOST_ITEMS);
    hearth_process_lock_take();
    const int rc = find_common(d, broken, err);
    hearth_process_lock_drop();
    return rc ? rc : make_own(d, err);
}

static void close_device(void *state)
{
    struct device *d = state;
    hearth_cl_queue const queues[] = {d->queue, d->copies};
    for (int i = 0; i < 2; i++)
        if (queues[i]) {
            d->cl.Finish(queues[i]);
            d->cl.ReleaseCommandQueue(queues[i]);
        }
    for (int i = 0; i < HEARTH_ACCEL_KERNELS_END; i++)
        if (d->kernels[i])
            d->cl.ReleaseKernel(d->kernels[i]);
    if (d->common)
        drop_common(d);
    free(d);
}

// ---- memory, copies, kernels

static int alloc(void *state, size_t bytes, void **handle, struct hearth_error *err)
{
    struct device *d = state;
    int32_t code = 0;
    hearth_cl_mem m = d->cl.CreateBuffer(d->common->context, HEARTH_CL_MEM_READ_WRITE, bytes, NULL, &code);
    // Drivers may find room for it when it is first used, which must not be in the middle of an evaluation.
    const uint32_t zero = 0;
    if (m && (code = d->cl.EnqueueWriteBuffer(d->queue, m, 1, 0, bytes < sizeof zero ? bytes : sizeof zero,
                                              &zero, 0, NULL, NULL))) {
        d->cl.ReleaseMemObject(m);
        m = NULL;
    }
    *handle = m;
    if (!m)
        return hearth_fail(err, HEARTH_E_MEMORY, "%s has no %zu MiB of memory left (OpenCL error %d)",
                           d->name, bytes >> 20, (int)code);
    return HEARTH_OK;
}

static void release(void *state, void *handle)
{
    struct device *d = state;
    d->cl.ReleaseMemObject(handle);
}

static int write_bytes(void *state, void *to, size_t at, const void *from, size_t n, struct hearth_error *err)
{
    struct device *d = state;
    const int32_t code = d->cl.EnqueueWriteBuffer(d->queue, to, 1, at, n, from, 0, NULL, NULL);
    return code ? fail(d, "be written to", code, err) : HEARTH_OK;
}

static int write_beside(void *state, void *to, size_t at, const void *from, size_t n, void **event,
                        struct hearth_error *err)
{
    struct device *d = state;
    hearth_cl_event done = NULL;
    int32_t code = d->cl.EnqueueWriteBuffer(d->copies, to, 0, at, n, from, 0, NULL, &done);
    *event = done;
    if (!code)
        code = d->cl.Flush(d->copies);
    return code ? fail(d, "be written to", code, err) : HEARTH_OK;
}

static int read_bytes(void *state, void *from, size_t at, void *to, size_t n, void **event,
                      struct hearth_error *err)
{
    struct device *d = state;
    hearth_cl_event done = NULL;
    const int32_t code =
        d->cl.EnqueueReadBuffer(d->queue, from, event ? 0 : 1, at, n, to, 0, NULL, event ? &done : NULL);
    if (code)
        return fail(d, "be read", code, err);
    if (event)
        *event = done;
    return HEARTH_OK;
}

static int wait_for(void *state, void *event, struct hearth_error *err)
{
    struct device *d = state;
    hearth_cl_event done = event;
    const int32_t code = d->cl.WaitForEvents(1, &done);
    d->cl.ReleaseEvent(done);
    return code ? fail(d, "finish its work", code, err) : HEARTH_OK;
}

static int copy_bytes(void *state, void *to, size_t to_at, void *from, size_t from_at, size_t n,
                      struct hearth_error *err)
{
    struct device *d = state;
    const int32_t code = d->cl.EnqueueCopyBuffer(d->queue, from, to, from_at, to_at, n, 0, NULL, NULL);
    return code ? fail(d, "copy", code, err) : HEARTH_OK;
}

static int run(void *state, enum hearth_accel_kernel kernel, const struct hearth_accel_arg *args, int n_args,
               const size_t groups[3], struct hearth_error *err)
{
    struct device *d = state;
    int32_t code = 0;
    for (int i = 0; i < n_args && !code; i++) {
        hearth_cl_mem m = args[i].memory ? args[i].memory->handle : NULL;
        code = d->cl.SetKernelArg(d->kernels[kernel], (uint32_t)i,
                                  args[i].memory ? sizeof m : sizeof args[i].number,
                                  args[i].memory ? (const void *)&m : &args[i].number);
    }
    if (code)
        return fail(d, "take an argument", code, err);
    const size_t local[3] = {hearth_accel_group_of(kernel), 1, 1};
    const size_t global[3] = {groups[0] * local[0], groups[1], groups[2]};
    code = d->cl.EnqueueNDRangeKernel(d->queue, d->kernels[kernel], 3, NULL, global, local, 0, NULL, NULL);
    return code ? fail(d, "run a kernel", code, err) : HEARTH_OK;
}

static int flush(void *state, struct hearth_error *err)
{
    struct device *d = state;
    const int32_t code = d->cl.Flush(d->queue);
    return code ? fail(d, "begin its work", code, err) : HEARTH_OK;
}

const struct hearth_accel_backend hearth_accel_opencl = {
    .name = "OpenCL",
    .list = list,
    .open = open_device,
    .close = close_device,
    .alloc = alloc,
    .release = release,
    .write = write_bytes,
    .write_beside = write_beside,
    .copy = copy_bytes,
    .read = read_bytes,
    .wait = wait_for,
    .run = run,
    .flush = flush,
};
