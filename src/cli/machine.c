// SPDX-License-Identifier: MIT
// Probes in the user's cache folder: see machine.h.
#include "cli/machine.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/cpu.h"
#include "base/os.h"
#include "cli/common.h"
#include "plan/forecast.h"

#define PATH_BYTES 4096

// A file for each machine and storage: folders are shared between machines.
static bool cache_path(char *out, size_t size, const char *folder, const struct hearth_probe *p)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); // FNV-1a
    char key[2 * HEARTH_PROBE_NAME + 16];
    snprintf(key, sizeof key, "%s, %d, %s", p->name, p->cores, p->device);
    for (const char *c = key; *c; c++)
        hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    const int n = snprintf(out, size, "%s/probe-%016" PRIx64 ".txt", folder, hash);
    return n > 0 && (size_t)n < size;
}

// What was kept; false: nothing that is of this machine, or it lacks what is measured today.
static bool recall(struct hearth_probe *out, const char *path, const struct hearth_probe *now)
{
    struct hearth_probe kept;
    if (hearth_probe_load(&kept, path, NULL) || kept.cores != now->cores ||
        strcmp(kept.name, now->name) != 0 || strcmp(kept.device, now->device) != 0 ||
        kept.any.memory_gb_s <= 0)
        return false;
    *out = kept;
    return true;
}

static void keep(const struct hearth_probe *p, const char *folder, const char *path)
{
    struct hearth_error err = {0};
    if (hearth_folder_make(folder, &err) || hearth_probe_save(p, path, &err))
        hearth_cli_info("what was measured is not kept: %s", err.message);
}

static bool can_keep(const char *folder)
{
    struct hearth_error err = {0};
    return !hearth_folder_make(folder, &err) && hearth_folder_writable(folder);
}

// One of the known ones, or that of a file. A name that is a file's, too, is the file's.
static int load_machine(struct hearth_probe *out, const char *name, struct hearth_error *err)
{
    struct hearth_path at;
    for (const struct hearth_known_machine *m = hearth_known_machines;
         m->name && !hearth_path_look(name, &at); m++)
        if (!strcmp(m->name, name))
            return hearth_probe_parse(out, m->text, strlen(m->text), err);
    if (hearth_path_name(name) != name || strchr(name, '.') || hearth_path_look(name, &at))
        return hearth_probe_load(out, name, err);
    return hearth_fail(
        err, HEARTH_E_INVALID,
        "there is no machine %s: hearth plan --machine list shows those that there are, and a file "
        "may describe another one",
        name);
}

int hearth_cli_list_machines(void)
{
    for (const struct hearth_known_machine *m = hearth_known_machines; m->name; m++) {
        struct hearth_probe p;
        struct hearth_error err = {0};
        char ram[32];
        if (hearth_probe_parse(&p, m->text, strlen(m->text), &err))
            return hearth_cli_fail(&err);
        hearth_cli_format_bytes(ram, sizeof ram, p.ram);
        printf("%-16s %s: %d cores, %s of memory, %s\n", m->name, p.name, p.cores, ram, p.device);
    }
    return hearth_cli_stdout_close(HEARTH_EXIT_OK);
}

// Others are seldom busy all the time. The first time, so many attempts are made, with a pause between them;
// later, what is kept is another one.
#define ROUNDS   3
#define PAUSE_NS 400000000

static uint64_t spent_ns;

uint64_t hearth_cli_machine_ns(void)
{
    return spent_ns;
}

// Measures, and keeps what is worth it: figures of a busy machine only until there are better ones, of which
// they are a part.
static int measure_rounds(struct hearth_probe *out, const struct hearth_probe *before, const char *path,
                          unsigned flags, int rounds)
{
    struct hearth_error err = {0};
    struct hearth_probe best =
        before->cores && !hearth_probe_settled(before) ? *before : (struct hearth_probe){0};
    hearth_cli_info("measuring this machine%s", before->cores ? " again" : "");
    for (int i = 0; i < rounds; i++) {
        if (i)
            hearth_sleep_ns(PAUSE_NS);
        if (hearth_probe_measure(out, path, flags, &err))
            return hearth_cli_fail(&err);
        const bool settled = hearth_probe_settled(out);
        if (best.cores)
            hearth_probe_improve(out, &best);
        if (settled)
            break;
        best = *out;
    }
    out->measured = (uint64_t)time(NULL);
    if (!hearth_probe_settled(out))
        hearth_cli_info(
            "others were using the processors while this machine was measured (%.0f %% were left): "
            "forecasts may be wrong, and runs are slower meanwhile; it is measured again the next time",
            100 * out->cpu_share);
    return HEARTH_EXIT_OK;
}

static int measure(struct hearth_probe *out, const struct hearth_probe *before, const char *path,
                   unsigned flags, int rounds)
{
    const uint64_t start = hearth_now_ns();
    const int status = measure_rounds(out, before, path, flags, rounds);
    spent_ns += hearth_now_ns() - start;
    return status;
}

int hearth_cli_machine(struct hearth_probe *out, const struct hearth_options *o, const char *path,
                       enum hearth_measuring when)
{
    struct hearth_error err = {0};
    char folder[PATH_BYTES], file[PATH_BYTES];
    unsigned flags;
    if (o->machine && load_machine(out, o->machine, &err)) // who only looks for a probe says nothing
        return when == HEARTH_MEASURE_NEVER ? HEARTH_EXIT_FAILURE : hearth_cli_fail(&err);
    if (o->machine)
        return HEARTH_EXIT_OK;
    if (!hearth_cpu_limit(hearth_options_cpu(o), &flags))
        return hearth_cli_error("this CPU does not have the instructions of --cpu");
    if (hearth_probe_identify(out, path, flags, &err))
        return when == HEARTH_MEASURE_NOW ? hearth_cli_fail(&err) : HEARTH_EXIT_FAILURE;
    const bool cached =
        hearth_user_cache_folder(folder, sizeof folder) && cache_path(file, sizeof file, folder, out);
    struct hearth_probe before = {0};
    const bool holds = cached && recall(&before, file, out) && hearth_probe_settled(&before);
    if (holds && !o->measure) {
        *out = before;
        return HEARTH_EXIT_OK;
    }
    if (when == HEARTH_MEASURE_NEVER || (when == HEARTH_MEASURE_TO_KEEP && !(cached && can_keep(folder))))
        return HEARTH_EXIT_FAILURE;
    const int status =
        measure(out, &before, path, flags, when == HEARTH_MEASURE_NOW && !before.cores ? ROUNDS : 1);
    if (!status && cached && (!holds || hearth_probe_settled(out)))
        keep(out, folder, file);
    return status;
}

// The file that keeps this machine, and what identifies it.
static bool find_file(char file[PATH_BYTES], struct hearth_probe *now, const struct hearth_options *o,
                      const char *path)
{
    char folder[PATH_BYTES];
    unsigned flags;
    return hearth_cpu_limit(hearth_options_cpu(o), &flags) &&
           !hearth_probe_identify(now, path, flags, NULL) &&
           hearth_user_cache_folder(folder, sizeof folder) && cache_path(file, PATH_BYTES, folder, now);
}

const char *hearth_cli_machine_missing(const struct hearth_options *o, const char *path)
{
    char file[PATH_BYTES];
    struct hearth_probe now, kept;
    if (o->machine)
        return NULL;
    if (!find_file(file, &now, o, path) || !recall(&kept, file, &now))
        return "was not measured yet";
    return hearth_probe_settled(&kept) ? NULL : "was busy when it was measured";
}

bool hearth_cli_machine_forget(const struct hearth_options *o, const char *path)
{
    char file[PATH_BYTES];
    struct hearth_probe now;
    return !o->machine && find_file(file, &now, o, path) && hearth_path_remove(file);
}

void hearth_cli_machine_when(const struct hearth_probe *p, char *out, size_t size)
{
    struct tm tm;
    *out = '\0';
    if (p->measured && hearth_calendar((int64_t)p->measured, true, &tm))
        strftime(out, size, "%Y-%m-%d %H:%M", &tm);
}

uint64_t hearth_cli_read_gap(const struct hearth_options *o, const char *path)
{
    struct hearth_probe probe;
    return o->throttle || hearth_cli_machine(&probe, o, path, HEARTH_MEASURE_NEVER)
               ? 0
               : hearth_forecast_gap(&probe);
}
