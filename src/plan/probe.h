// SPDX-License-Identifier: MIT
// What a machine can do, as far as the forecast of a model's speed asks: memory, kernels, storage. It is
// measured here once (probe_measure.c) and kept as text, which also describes other machines.
// docs/formats.md, "Probes".
#ifndef HEARTH_PLAN_PROBE_H
#define HEARTH_PLAN_PROBE_H

#include <stdbool.h>

#include "base/error.h"
#include "base/memory.h"
#include "quant/quant.h"

#define HEARTH_PROBE_VERSION 1
#define HEARTH_PROBE_NAME    128  // bytes of a name, with its end
#define HEARTH_PROBE_TEXT    8192 // bytes that the text of a probe takes at most, with its end

// Speeds with a number format. One core's, from its cache:
struct hearth_probe_kernel {
    double gb_s;          // step product of one token: GB (1e9) of weights a second
    double gmac_s;        // step products of eight tokens: 1e9 weights times activations a second
    double prompt_gmac_s; // the same for a prompt
    // All cores' together, one token with weights from memory, GB a second; 0: not said.
    double memory_gb_s; // whole matrices
    double rows_gb_s;   // neurons picked out of them
};

struct hearth_probe {
    char name[HEARTH_PROBE_NAME];                       // of the machine
    char device[HEARTH_PROBE_NAME];                     // of the storage; empty: not said
    int cores;                                          // that compute
    uint64_t ram;                                       // bytes that programs can have; 0: not said
    double memory_gb_s;                                 // at which all cores together read memory in order
    double core_gb_s;                                   // at which one of them does
    struct hearth_probe_kernel kernel[HEARTH_TYPE_END]; // all 0: `any` stands for it
    struct hearth_probe_kernel any;
    double request_us;      // a random read takes the storage so long,
    double byte_ns;         // and so much more for each byte, when many are in flight
    double sequential_gb_s; // of long reads
    double request_cpu_us;  // that a read costs a core
    int depth;              // reads in flight from which more are of no use
    uint32_t align;         // of reads, bytes
    double cpu_share;       // of the processors' time that measuring got, 0 to 1; 0: not said
    uint64_t measured;      // when, seconds since 1970; 0: not said
};

// Kernel speeds of a format: its own, else those of any.
const struct hearth_probe_kernel *hearth_probe_kernel_of(const struct hearth_probe *p, uint32_t type);

// Whether a probe was measured while the machine was not busy with other programs, so that it says what the
// machine can do. One that does not tell was not.
bool hearth_probe_settled(const struct hearth_probe *p);
// Two measurements of one machine: *p becomes the better of each figure, as load only ever makes them worse.
void hearth_probe_improve(struct hearth_probe *p, const struct hearth_probe *other);

// Reads the text of a probe. HEARTH_E_FORMAT: the message names the line. What it does not say is 0, but for
// what a forecast cannot do without, which must be there.
int hearth_probe_parse(struct hearth_probe *out, const char *text, size_t n, struct hearth_error *err);
// Writes the text, of HEARTH_PROBE_TEXT bytes at most with its end; parsing gives the same probe to six
// digits.
void hearth_probe_print(const struct hearth_probe *p, char *text);

// Reads a probe from a file, and writes one so that no half-written file appears. Errors name the path.
int hearth_probe_load(struct hearth_probe *out, const char *path, struct hearth_error *err);
int hearth_probe_save(const struct hearth_probe *p, const char *path, struct hearth_error *err);

// ---- measuring (probe_measure.c, probe_kernels.c)

// Measures this machine with kernels up to the level of cpu_flags, all cores at once, and the storage behind
// the file at `path`; takes two to four seconds, and hearth_probe_memory() meanwhile. Usual figures count, not the
// best ones: what shares a processor with others is slower most of the time. cpu_share tells what other
// programs left: of the time that the threads wanted, and of all processors' time. HEARTH_E_MEMORY,
// HEARTH_E_IO; errors of opening the file.
int hearth_probe_measure(struct hearth_probe *out, const char *path, unsigned cpu_flags,
                         struct hearth_error *err);
// Bytes of memory that this takes.
uint64_t hearth_probe_memory(void);
// The speeds of all formats, p->cores threads at once: sets p->kernel and p->any. memory: more than caches
// hold, and written to. HEARTH_E_MEMORY.
int hearth_probe_measure_kernels(struct hearth_probe *p, unsigned cpu_flags,
                                 const struct hearth_region *memory, struct hearth_error *err);
// The line through the times of a read of 8 and of 64 KiB: sets request_us, which is never 0, and byte_ns.
void hearth_probe_fit_reads(struct hearth_probe *p, double small_ns, double large_ns);
// What hearth_probe_measure() would say of the machine and of the device: name, device and cores of *out are
// set. A kept probe holds for those alone.
int hearth_probe_identify(struct hearth_probe *out, const char *path, unsigned cpu_flags,
                          struct hearth_error *err);

#endif
