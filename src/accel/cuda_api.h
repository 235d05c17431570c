// SPDX-License-Identifier: MIT
// What is used of NVIDIA's driver API ("CUDA Driver API", NVIDIA), declared here so that no headers of it are needed.
// Functions are looked up in the system's library when a device is asked for.
#ifndef HEARTH_ACCEL_CUDA_API_H
#define HEARTH_ACCEL_CUDA_API_H

#include <stddef.h>
#include <stdint.h>

typedef struct hearth_cuda_context *hearth_cuda_context;
typedef struct hearth_cuda_module *hearth_cuda_module;
typedef struct hearth_cuda_function *hearth_cuda_function;
typedef struct hearth_cuda_stream *hearth_cuda_stream;
typedef struct hearth_cuda_event *hearth_cuda_event;
typedef struct hearth_cuda_graph *hearth_cuda_graph;
typedef struct hearth_cuda_graph_exec *hearth_cuda_graph_exec;
typedef uint64_t hearth_cuda_pointer; // of the device; 32 bits in programs of 32 bits, which are refused

#define HEARTH_CUDA_OUT_OF_MEMORY 2

#define HEARTH_CUDA_UNITS      16 // attributes of a device
#define HEARTH_CUDA_INTEGRATED 18 // it has no memory of its own
#define HEARTH_CUDA_PCI_BUS    33
#define HEARTH_CUDA_PCI_DEVICE 34
#define HEARTH_CUDA_PCI_DOMAIN 50
#define HEARTH_CUDA_MAJOR      75
#define HEARTH_CUDA_MINOR      76

#define HEARTH_CUDA_JIT_ERROR_LOG       5 // options of a module
#define HEARTH_CUDA_JIT_ERROR_LOG_BYTES 6

#define HEARTH_CUDA_STREAM_OWN      1u // does not wait for the legacy stream
#define HEARTH_CUDA_EVENT_NO_TIMING 2u
#define HEARTH_CUDA_CAPTURE_THREAD  1u // capturing is nothing to what other threads do

// Name here, name in the library, parameters; all return an int, 0 where they succeed.
#define HEARTH_CUDA_FUNCTIONS(X)                                                                             \
    X(Init, "cuInit", (unsigned))                                                                            \
    X(DriverGetVersion, "cuDriverGetVersion", (int *))                                                       \
    X(DeviceGetCount, "cuDeviceGetCount", (int *))                                                           \
    X(DeviceGet, "cuDeviceGet", (int *, int))                                                                \
    X(DeviceGetName, "cuDeviceGetName", (char *, int, int))                                                  \
    X(DeviceTotalMem, "cuDeviceTotalMem_v2", (size_t *, int))                                                \
    X(DeviceGetAttribute, "cuDeviceGetAttribute", (int *, int, int))                                         \
    X(PrimaryRetain, "cuDevicePrimaryCtxRetain", (hearth_cuda_context *, int))                               \
    X(PrimaryRelease, "cuDevicePrimaryCtxRelease_v2", (int))                                                 \
    X(CtxSetCurrent, "cuCtxSetCurrent", (hearth_cuda_context))                                               \
    X(ModuleLoadDataEx, "cuModuleLoadDataEx",                                                                \
      (hearth_cuda_module *, const void *, unsigned, int *, void **))                                        \
    X(ModuleUnload, "cuModuleUnload", (hearth_cuda_module))                                                  \
    X(ModuleGetFunction, "cuModuleGetFunction", (hearth_cuda_function *, hearth_cuda_module, const char *))  \
    X(MemGetInfo, "cuMemGetInfo_v2", (size_t *, size_t *))                                                   \
    X(MemAlloc, "cuMemAlloc_v2", (hearth_cuda_pointer *, size_t))                                            \
    X(MemFree, "cuMemFree_v2", (hearth_cuda_pointer))                                                        \
    X(MemAllocHost, "cuMemAllocHost_v2", (void **, size_t))                                                  \
    X(MemFreeHost, "cuMemFreeHost", (void *))                                                                \
    X(CopyUp, "cuMemcpyHtoDAsync_v2", (hearth_cuda_pointer, const void *, size_t, hearth_cuda_stream))       \
    X(CopyDown, "cuMemcpyDtoHAsync_v2", (void *, hearth_cuda_pointer, size_t, hearth_cuda_stream))           \
    X(CopyWithin, "cuMemcpyDtoDAsync_v2",                                                                    \
      (hearth_cuda_pointer, hearth_cuda_pointer, size_t, hearth_cuda_stream))                                \
    X(StreamCreate, "cuStreamCreate", (hearth_cuda_stream *, unsigned))                                      \
    X(StreamDestroy, "cuStreamDestroy_v2", (hearth_cuda_stream))                                             \
    X(StreamSynchronize, "cuStreamSynchronize", (hearth_cuda_stream))                                        \
    X(EventCreate, "cuEventCreate", (hearth_cuda_event *, unsigned))                                         \
    X(EventRecord, "cuEventRecord", (hearth_cuda_event, hearth_cuda_stream))                                 \
    X(EventSynchronize, "cuEventSynchronize", (hearth_cuda_event))                                           \
    X(EventDestroy, "cuEventDestroy_v2", (hearth_cuda_event))                                                \
    X(LaunchKernel, "cuLaunchKernel",                                                                        \
      (hearth_cuda_function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,           \
       hearth_cuda_stream, void **, void **))

// The same of what drivers have since CUDA 11.4.
#define HEARTH_CUDA_GRAPH_FUNCTIONS(X)                                                                       \
    X(StreamBeginCapture, "cuStreamBeginCapture_v2", (hearth_cuda_stream, unsigned))                         \
    X(StreamEndCapture, "cuStreamEndCapture", (hearth_cuda_stream, hearth_cuda_graph *))                     \
    X(GraphInstantiate, "cuGraphInstantiateWithFlags",                                                       \
      (hearth_cuda_graph_exec *, hearth_cuda_graph, unsigned long long))                                     \
    X(GraphDestroy, "cuGraphDestroy", (hearth_cuda_graph))                                                   \
    X(GraphLaunch, "cuGraphLaunch", (hearth_cuda_graph_exec, hearth_cuda_stream))                            \
    X(GraphExecDestroy, "cuGraphExecDestroy", (hearth_cuda_graph_exec))

struct hearth_cuda {
#define HEARTH_CUDA_FIELD(name, symbol, parameters) int(*name) parameters;
    HEARTH_CUDA_FUNCTIONS(HEARTH_CUDA_FIELD)
    HEARTH_CUDA_GRAPH_FUNCTIONS(HEARTH_CUDA_FIELD)
#undef HEARTH_CUDA_FIELD
};

#endif
