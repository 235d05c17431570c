// SPDX-License-Identifier: MIT
// Devices that compute beside the CPU, GPUs above all: memory, copies, kernels. One interface; a back end is a file
// here and a line in choose.c (docs/accel.md says what one needs).
//
// A device has one queue: what it is told is done in that order, but for hearth_accel_begin_write(). Calls return before
// that, where nothing else is said.
// The first failure is kept; from then on all calls do nothing, until hearth_accel_take() tells the error. So a caller
// asks once, when it needs the results. One thread at a time uses an open device.
#ifndef HEARTH_ACCEL_ACCEL_H
#define HEARTH_ACCEL_ACCEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct hearth_accel; // an open device

// A device that there is.
struct hearth_accel_info {
    const char *backend; // "OpenCL", "CUDA"
    char name[128], driver[128];
    uint64_t memory;    // bytes
    uint64_t largest;   // bytes of one piece of it
    uint32_t units;     // compute units
    bool is_cpu;        // it computes on the CPU
    bool shares_memory; // its memory is the system's
    // Whether it has what the same bits need: an exact fma, denormals, correctly rounded division and square root.
    bool exact;
    // It has units for products of matrices of integers, and prompts' kernels for them (kernels/matrix.cl).
    bool has_matrix_units;
    // Products with one token are faster by kernels of their own (kernels/one.cl), as was found when it was opened.
    bool has_one;
    // Where it is on the PCI bus: 1 + domain << 16 | bus << 8 | device << 3 | function; 0: not known.
    uint64_t place;
    int index; // the back end's own number
};

// What a back end says of it in `place`.
static inline uint64_t hearth_accel_place(uint32_t domain, uint32_t bus, uint32_t device, uint32_t function)
{
    return 1 + ((uint64_t)domain << 16 | (uint64_t)bus << 8 | (uint64_t)device << 3 | function);
}

// A piece of a device's memory.
struct hearth_accel_memory {
    void *handle; // NULL: none
    size_t size;
};

// Items of a kernel's group (GROUP in kernels/numbers.cl), but for those of which hearth_accel_group_of() says otherwise,
// and the most that any has.
#define HEARTH_ACCEL_GROUP      64
#define HEARTH_ACCEL_MOST_ITEMS 256

#define HEARTH_ACCEL_FORM(X, name)                                                                           \
    X(step_##name) X(prompt_##name) X(clusters_##name) X(columns_##name) X(matrix_##name) X(one_##name)
// clang-format off
#define HEARTH_ACCEL_KERNELS(X)                                                                              \
    HEARTH_ACCEL_FORM(X, 4_32h) HEARTH_ACCEL_FORM(X, 8_32h) HEARTH_ACCEL_FORM(X, 4_32)                       \
    HEARTH_ACCEL_FORM(X, 8_32) HEARTH_ACCEL_FORM(X, 4_16) HEARTH_ACCEL_FORM(X, 8_16)                         \
    X(norm) X(add) X(add_scaled) X(scale) X(limit) X(split) X(gate) X(rope) X(quantize) X(step_plain) X(prompt_plain) X(down_plain)             \
    X(sum_clusters) X(activate) X(xielu) X(activate_quantize) X(mask_scores) X(mask_gates) X(store) X(attend) X(attend_blocks) X(attend_rows) X(attend_rows_any) X(combine)       \
    X(choose_experts) X(count_experts) X(list_experts) X(gather_rows) X(scale_which) X(sum_experts) \
    X(place_latent) X(gather_heads) X(spread_heads) X(sum_rows_of_heads)
// clang-format on

// Kernels of kernels/, by name.
enum hearth_accel_kernel {
#define HEARTH_ACCEL_NUMBER(name) HEARTH_ACCEL_##name,
    HEARTH_ACCEL_KERNELS(HEARTH_ACCEL_NUMBER)
#undef HEARTH_ACCEL_NUMBER
        HEARTH_ACCEL_KERNELS_END
};

// Items of a group of this kernel.
size_t hearth_accel_group_of(enum hearth_accel_kernel kernel);

// An argument of a kernel: memory, or a number of four bytes.
struct hearth_accel_arg {
    const struct hearth_accel_memory *memory; // NULL: a number
    union {
        int32_t i;
        float f;
    } number;
};
#define HEARTH_ACCEL_MOST_ARGS 32 // of a kernel
#define HEARTH_ARG_M(m)        ((struct hearth_accel_arg){.memory = (m)})
#define HEARTH_ARG_I(n)        ((struct hearth_accel_arg){.number.i = (int32_t)(n)})
#define HEARTH_ARG_F(x)        ((struct hearth_accel_arg){.number.f = (x)})

// What a back end is made of. All fail with HEARTH_E_UNSUPPORTED where the device or its driver fails, and alloc() with
// HEARTH_E_MEMORY where its memory ends.
struct hearth_accel_backend {
    const char *name;
    // Devices; returns how many there are (0: the library is missing), of which the first `cap` are described.
    int (*list)(struct hearth_accel_info *out, int cap);
    // Device number `index` with its kernels built; `broken` (for tests) has them fail to build.
    int (*open)(void **state, int index, bool broken, struct hearth_error *err);
    void (*close)(void *state); // waits for what it has begun
    // Bytes of its memory that nobody has, 0: not known; NULL: it never is.
    uint64_t (*free_memory)(void *state);
    int (*alloc)(void *state, size_t bytes, void **handle, struct hearth_error *err);
    void (*release)(void *state, void *handle);
    // Memory of the host that reads may go to beside kernels; both NULL: any memory will do.
    void *(*alloc_host)(void *state, size_t bytes);
    void (*release_host)(void *state, void *p);
    int (*write)(void *state, void *to, size_t at, const void *from, size_t n,
                 struct hearth_error *err); // waits
    // Begins to write beside all that the queue does; wait() says when the bytes are there. NULL: write() will do.
    int (*write_beside)(void *state, void *to, size_t at, const void *from, size_t n, void **event,
                        struct hearth_error *err);
    int (*copy)(void *state, void *to, size_t to_at, void *from, size_t from_at, size_t n,
                struct hearth_error *err);
    // Ends when the bytes are there (*event NULL), or at once, and wait() does.
    int (*read)(void *state, void *from, size_t at, void *to, size_t n, void **event,
                struct hearth_error *err);
    int (*wait)(void *state, void *event, struct hearth_error *err);
    // groups: how many there are in each dimension.
    int (*run)(void *state, enum hearth_accel_kernel kernel, const struct hearth_accel_arg *args, int n_args,
               const size_t groups[3], struct hearth_error *err);
    int (*flush)(void *state, struct hearth_error *err); // has it begin now
    // Lists of kernels and copies that are begun at once: what is run and copied between begin_record() and end_record()
    // is not done, but becomes a record; replay() does all of it, as often as it is called. Both fail with any number,
    // and there is no record then, as if nothing had been run. NULL: there are none.
    int (*begin_record)(void *state);
    int (*end_record)(void *state, void **record);
    int (*replay)(void *state, void *record, struct hearth_error *err);
    void (*forget)(void *state, void *record);
};

extern const struct hearth_accel_backend hearth_accel_cuda;   // cuda.c
extern const struct hearth_accel_backend hearth_accel_opencl; // opencl.c

// ---- devices

// Devices of all back ends, at most `cap` described; returns how many there are.
int hearth_accel_list(struct hearth_accel_info *out, int cap);

// Devices that one text can mean.
#define HEARTH_ACCEL_MOST 16
// Which devices a text means: numbers in the list or parts of names, separated by commas (the same may come twice);
// "auto", or NULL: the first that is no CPU; "all": all that are none (both leave out GPUs whose bits are others where
// there is one with the CPU's), each once: a driver may list what an earlier one has, at the same place of the PCI bus, or
// by the same name where that is not known. Their numbers in the list, [HEARTH_ACCEL_MOST]. Returns how many;
// HEARTH_E_INVALID, HEARTH_E_MEMORY.
int hearth_accel_choose(int *numbers, const char *text, struct hearth_error *err);
// The device of this number in the list. False: there is none.
bool hearth_accel_at(struct hearth_accel_info *out, int number);

struct hearth_accel_params {
    // Its number in the list or a part of its name; NULL: the first that is no CPU.
    const char *device;
    bool inexact; // also one that gives other bits than the CPU
    bool broken;  // for tests: its kernels do not build
    long fail_at; // for tests: hearth_accel_fail_at(), once it is open
};

// HEARTH_E_INVALID: there is no such device; HEARTH_E_UNSUPPORTED: it fails, or gives other bits. Checks some results
// of every kind against the CPU's (operations_check.c). The device is the caller's to close; what was taken from its
// memory is freed before.
int hearth_accel_open(struct hearth_accel **out, const struct hearth_accel_params *params,
                      struct hearth_error *err);
void hearth_accel_close(struct hearth_accel **a);
const struct hearth_accel_info *hearth_accel_describe(const struct hearth_accel *a);
// Bytes of its memory that nobody has now; all of it where its driver does not say.
uint64_t hearth_accel_free_memory(const struct hearth_accel *a);
// Bytes of 4-bit weights that it goes through in a second, as in a step of one row, which is what a large matrix of its
// own takes now; takes some milliseconds, and 18 MiB of its memory until then. 0: it has failed (and keeps why).
double hearth_accel_speed(struct hearth_accel *a);

// What it was told since it was opened.
struct hearth_accel_stats {
    uint64_t runs, bytes_up, bytes_down; // kernels, bytes to the device and from it
    uint64_t replays;                    // lists that were begun at once
    uint64_t waits;                      // for what came from it
    uint64_t bytes;                      // of its memory, now
};
struct hearth_accel_stats hearth_accel_stats(const struct hearth_accel *a);

// The error that was kept, HEARTH_OK if there is none; afterwards the device works again, if it can.
int hearth_accel_take(struct hearth_accel *a, struct hearth_error *err);
bool hearth_accel_has_failed(const struct hearth_accel *a);
// For tests: the n-th call from now on fails, 1 being the next; 0: none does.
void hearth_accel_fail_at(struct hearth_accel *a, long n);

// ---- memory, copies, kernels

// Empty memory where it fails. Allocating 0 bytes gives memory of its own that may be given to a kernel.
struct hearth_accel_memory hearth_accel_alloc(struct hearth_accel *a, size_t bytes);
void hearth_accel_free(struct hearth_accel *a,
                       struct hearth_accel_memory *m); // does nothing with empty memory
// Zeroed memory of the host, for what is read often; NULL where there is none left. Freed before the device is closed.
void *hearth_accel_alloc_host(struct hearth_accel *a, size_t bytes);
void hearth_accel_free_host(struct hearth_accel *a, void *p); // may be NULL
// Returns when `from` may change.
void hearth_accel_write(struct hearth_accel *a, const struct hearth_accel_memory *to, size_t at,
                        const void *from, size_t n);
// Begins to write beside what the queue does, which must not use these bytes by then. They are there, and `from` (best
// of hearth_accel_alloc_host()) may change, after hearth_accel_wait(), which is called once for each, in any case.
void *hearth_accel_begin_write(struct hearth_accel *a, const struct hearth_accel_memory *to, size_t at,
                               const void *from, size_t n);
// Returns when the bytes are there.
void hearth_accel_read(struct hearth_accel *a, const struct hearth_accel_memory *from, size_t at, void *to,
                       size_t n);
// Begins that; the bytes are there after hearth_accel_wait(), which is called once for each, in any case. An event that
// is NULL needs no waiting.
void *hearth_accel_begin_read(struct hearth_accel *a, const struct hearth_accel_memory *from, size_t at,
                              void *to, size_t n);
void hearth_accel_wait(struct hearth_accel *a, void *event);
void hearth_accel_copy(struct hearth_accel *a, const struct hearth_accel_memory *to, size_t to_at,
                       const struct hearth_accel_memory *from, size_t from_at, size_t n);
void hearth_accel_run(struct hearth_accel *a, enum hearth_accel_kernel kernel,
                      const struct hearth_accel_arg *args, int n_args, size_t x, size_t y, size_t z);
void hearth_accel_flush(struct hearth_accel *a);
// Kernels and copies between these two are a list: what they do is the same, but where a list comes again and again, as
// equal arguments to equal kernels, a device may begin it at once, which takes less time than one by one. Nothing else is
// called between them.
void hearth_accel_begin_list(struct hearth_accel *a);
void hearth_accel_end_list(struct hearth_accel *a);

// hearth_accel_run() with the arguments of kernels/.
#define HEARTH_ACCEL_RUN(a, kernel, x, y, z, ...)                                                            \
    hearth_accel_run(                                                                                        \
        a, kernel, (const struct hearth_accel_arg[]){__VA_ARGS__},                                           \
        (int)(sizeof((const struct hearth_accel_arg[]){__VA_ARGS__}) / sizeof(struct hearth_accel_arg)), x,  \
        y, z)

#endif
