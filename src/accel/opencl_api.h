// SPDX-License-Identifier: MIT
// What is used of OpenCL 1.2, declared here so that no headers of it are needed: "The OpenCL Specification", version
// 1.2, and its cl_platform types. Functions are looked up in the system's library when a device is asked for.
#ifndef HEARTH_ACCEL_OPENCL_API_H
#define HEARTH_ACCEL_OPENCL_API_H

#include <stddef.h>
#include <stdint.h>

typedef struct hearth_cl_platform *hearth_cl_platform;
typedef struct hearth_cl_device *hearth_cl_device;
typedef struct hearth_cl_context *hearth_cl_context;
typedef struct hearth_cl_queue *hearth_cl_queue;
typedef struct hearth_cl_mem *hearth_cl_mem;
typedef struct hearth_cl_program *hearth_cl_program;
typedef struct hearth_cl_kernel *hearth_cl_kernel;
typedef struct hearth_cl_event *hearth_cl_event;

#define HEARTH_CL_OUT_OF_DEVICE_MEMORY (-4) // CL_MEM_OBJECT_ALLOCATION_FAILURE
#define HEARTH_CL_OUT_OF_RESOURCES     (-5)
#define HEARTH_CL_OUT_OF_HOST_MEMORY   (-6)
#define HEARTH_CL_INVALID_BUFFER_SIZE  (-61)

#define HEARTH_CL_DEVICE_TYPE_CPU (UINT64_C(1) << 1)
#define HEARTH_CL_DEVICE_TYPE_ALL UINT64_C(0xffffffff)

#define HEARTH_CL_DEVICE_TYPE             0x1000
#define HEARTH_CL_DEVICE_COMPUTE_UNITS    0x1002
#define HEARTH_CL_DEVICE_MAX_GROUP        0x1004
#define HEARTH_CL_DEVICE_LARGEST          0x1010
#define HEARTH_CL_DEVICE_SINGLE_FP_CONFIG 0x101b
#define HEARTH_CL_DEVICE_GLOBAL_MEM_SIZE  0x101f
#define HEARTH_CL_DEVICE_AVAILABLE        0x1027
#define HEARTH_CL_DEVICE_COMPILER         0x1028
#define HEARTH_CL_DEVICE_NAME             0x102b
#define HEARTH_CL_DEVICE_SHARES_MEMORY    0x1035 // CL_DEVICE_HOST_UNIFIED_MEMORY
#define HEARTH_CL_DRIVER_VERSION          0x102d
#define HEARTH_CL_DEVICE_PCI              0x410f // CL_DEVICE_PCI_BUS_INFO_KHR: domain, bus, device, function

#define HEARTH_CL_FP_DENORM    (UINT64_C(1) << 0)
#define HEARTH_CL_FP_FMA       (UINT64_C(1) << 5)
#define HEARTH_CL_FP_CORRECTLY (UINT64_C(1) << 7) // rounded division and square root

#define HEARTH_CL_MEM_READ_WRITE    UINT64_C(1)
#define HEARTH_CL_PROGRAM_BUILD_LOG 0x1183

// Name, result, parameters.
#define HEARTH_CL_FUNCTIONS(X)                                                                               \
    X(GetPlatformIDs, int32_t, (uint32_t, hearth_cl_platform *, uint32_t *))                                 \
    X(GetDeviceIDs, int32_t, (hearth_cl_platform, uint64_t, uint32_t, hearth_cl_device *, uint32_t *))       \
    X(GetDeviceInfo, int32_t, (hearth_cl_device, uint32_t, size_t, void *, size_t *))                        \
    X(CreateContext, hearth_cl_context,                                                                      \
      (const intptr_t *, uint32_t, const hearth_cl_device *,                                                 \
       void (*)(const char *, const void *, size_t, void *), void *, int32_t *))                             \
    X(ReleaseContext, int32_t, (hearth_cl_context))                                                          \
    X(CreateCommandQueue, hearth_cl_queue, (hearth_cl_context, hearth_cl_device, uint64_t, int32_t *))       \
    X(ReleaseCommandQueue, int32_t, (hearth_cl_queue))                                                       \
    X(CreateBuffer, hearth_cl_mem, (hearth_cl_context, uint64_t, size_t, void *, int32_t *))                 \
    X(ReleaseMemObject, int32_t, (hearth_cl_mem))                                                            \
    X(CreateProgramWithSource, hearth_cl_program,                                                            \
      (hearth_cl_context, uint32_t, const char **, const size_t *, int32_t *))                               \
    X(BuildProgram, int32_t,                                                                                 \
      (hearth_cl_program, uint32_t, const hearth_cl_device *, const char *,                                  \
       void (*)(hearth_cl_program, void *), void *))                                                         \
    X(GetProgramBuildInfo, int32_t,                                                                          \
      (hearth_cl_program, hearth_cl_device, uint32_t, size_t, void *, size_t *))                             \
    X(ReleaseProgram, int32_t, (hearth_cl_program))                                                          \
    X(CreateKernel, hearth_cl_kernel, (hearth_cl_program, const char *, int32_t *))                          \
    X(ReleaseKernel, int32_t, (hearth_cl_kernel))                                                            \
    X(SetKernelArg, int32_t, (hearth_cl_kernel, uint32_t, size_t, const void *))                             \
    X(EnqueueNDRangeKernel, int32_t,                                                                         \
      (hearth_cl_queue, hearth_cl_kernel, uint32_t, const size_t *, const size_t *, const size_t *,          \
       uint32_t, const hearth_cl_event *, hearth_cl_event *))                                                \
    X(EnqueueWriteBuffer, int32_t,                                                                           \
      (hearth_cl_queue, hearth_cl_mem, uint32_t, size_t, size_t, const void *, uint32_t,                     \
       const hearth_cl_event *, hearth_cl_event *))                                                          \
    X(EnqueueReadBuffer, int32_t,                                                                            \
      (hearth_cl_queue, hearth_cl_mem, uint32_t, size_t, size_t, void *, uint32_t, const hearth_cl_event *,  \
       hearth_cl_event *))                                                                                   \
    X(EnqueueCopyBuffer, int32_t,                                                                            \
      (hearth_cl_queue, hearth_cl_mem, hearth_cl_mem, size_t, size_t, size_t, uint32_t,                      \
       const hearth_cl_event *, hearth_cl_event *))                                                          \
    X(WaitForEvents, int32_t, (uint32_t, const hearth_cl_event *))                                           \
    X(ReleaseEvent, int32_t, (hearth_cl_event))                                                              \
    X(Flush, int32_t, (hearth_cl_queue))                                                                     \
    X(Finish, int32_t, (hearth_cl_queue))

struct hearth_cl {
#define HEARTH_CL_FIELD(name, result, parameters) result(*name) parameters;
    HEARTH_CL_FUNCTIONS(HEARTH_CL_FIELD)
#undef HEARTH_CL_FIELD
};

#endif
