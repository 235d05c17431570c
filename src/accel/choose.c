// SPDX-License-Identifier: MIT
// Which devices there are, which of them a text means, and opening one.
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "accel/insides.h"
#include "accel/operations.h"
#include "base/memory.h"

static const struct hearth_accel_backend *const backends[] = {&hearth_accel_cuda, &hearth_accel_opencl};

#define N_BACKENDS  (sizeof backends / sizeof *backends)
#define MAX_DEVICES 64

int hearth_accel_list(struct hearth_accel_info *out, int cap)
{
    int n = 0;
    for (size_t i = 0; i < N_BACKENDS; i++) {
        const int left = cap > n ? cap - n : 0;
        n += backends[i]->list(left ? out + n : NULL, left);
    }
    return n;
}

static bool contains(const char *text, const char *part)
{
    const size_t n = strlen(part);
    for (; *text; text++) {
        size_t i = 0;
        while (i < n && text[i] && tolower((unsigned char)text[i]) == tolower((unsigned char)part[i]))
            i++;
        if (i == n)
            return true;
    }
    return false;
}

// Whether a GPU is one that nobody needs to name: it gives the CPU's bits, or no GPU does.
static bool is_meant(const struct hearth_accel_info *list, int n, int i)
{
    bool has_exact = false;
    for (int k = 0; k < n; k++)
        has_exact |= list[k].exact && !list[k].is_cpu;
    return !list[i].is_cpu && (list[i].exact || !has_exact);
}

// The place in the list of the device that is meant; -1: there is none.
static int find(const struct hearth_accel_info *list, int n, const char *device)
{
    if (!device) {
        for (int i = 0; i < n; i++)
            if (is_meant(list, n, i))
                return i;
        return -1;
    }
    char *end;
    const long number = strtol(device, &end, 10);
    if (*device && !*end)
        return number >= 0 && number < n ? (int)number : -1;
    for (int i = 0; i < n; i++)
        if (*device && contains(list[i].name, device))
            return i;
    return -1;
}

bool hearth_accel_at(struct hearth_accel_info *out, int number)
{
    struct hearth_accel_info *list = hearth_calloc(MAX_DEVICES, sizeof *list);
    const int n = list ? hearth_accel_list(list, MAX_DEVICES) : 0;
    const bool is_there = number < n && number < MAX_DEVICES;
    if (is_there)
        *out = list[number];
    free(list);
    return is_there;
}

static int fail_to_find(int n, const char *device, struct hearth_error *err)
{
    if (!n)
        return hearth_fail(err, HEARTH_E_INVALID,
                           "there is no device: no driver of OpenCL or CUDA names one");
    if (!device)
        return hearth_fail(
            err, HEARTH_E_INVALID,
            "there is no GPU: a device that computes on the CPU must be named (hearth devices lists them)");
    return hearth_fail(err, HEARTH_E_INVALID, "there is no device \"%s\": hearth devices lists them", device);
}

// ---- several

static bool is_all(const char *text)
{
    return text && !strcmp(text, "all");
}

// Whether an earlier driver has it: what is at the same place (a driver may list parts of one device), or, where that is
// not known of both, is of the same name in an earlier back end. As many of a name there are the first ones of that name
// here, so of equal devices of which the other back end knows but some, the rest are kept.
static bool comes_again(const struct hearth_accel_info *list, int i)
{
    int elsewhere = 0, before = 0;
    for (int k = 0; k < i; k++) {
        const bool other = list[k].backend != list[i].backend;
        if (list[k].place && list[i].place) {
            if (list[k].place == list[i].place && (other || strcmp(list[k].driver, list[i].driver) != 0))
                return true;
        } else if (!strcmp(list[k].name, list[i].name)) {
            *(other ? &elsewhere : &before) += 1;
        }
    }
    return before < elsewhere;
}

int hearth_accel_all(int *numbers, const struct hearth_accel_info *list, int n)
{
    int count = 0;
    for (int i = 0; i < n && count < HEARTH_ACCEL_MOST; i++)
        if (is_meant(list, n, i) && !comes_again(list, i))
            numbers[count++] = i;
    return count;
}

static int choose_named(int *numbers, const char *text, const struct hearth_accel_info *list, int n,
                        struct hearth_error *err)
{
    int count = 0;
    for (const char *at = text;; at++) {
        char word[sizeof list->name];
        const size_t length = strcspn(at, ",");
        if (length >= sizeof word || count == HEARTH_ACCEL_MOST)
            return hearth_fail(err, HEARTH_E_INVALID, "\"%s\": name at most %d devices, separated by commas",
                               text, HEARTH_ACCEL_MOST);
        memcpy(word, at, length);
        word[length] = '\0';
        const int found = find(list, n, word);
        if (found < 0)
            return fail_to_find(n, word, err);
        numbers[count++] = found;
        at += length;
        if (!*at)
            return count;
    }
}

int hearth_accel_choose(int *numbers, const char *text, struct hearth_error *err)
{
    struct hearth_accel_info *list = hearth_calloc(MAX_DEVICES, sizeof *list);
    if (!list)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for a list of devices");
    int n = hearth_accel_list(list, MAX_DEVICES), rc;
    n = n < MAX_DEVICES ? n : MAX_DEVICES;
    if (is_all(text)) {
        rc = hearth_accel_all(numbers, list, n);
        rc = rc ? rc : fail_to_find(n, NULL, err);
    } else if (text && strcmp(text, "auto") != 0) {
        rc = choose_named(numbers, text, list, n, err);
    } else {
        numbers[0] = find(list, n, NULL);
        rc = numbers[0] < 0 ? fail_to_find(n, NULL, err) : 1;
    }
    free(list);
    return rc;
}

// ---- opening

// What makes it faster, if it is right and does.
static void find_extras(struct hearth_accel *a)
{
    if (!hearth_operations_check_lists(a)) {
        hearth_accel_forget_lists(a);
        a->lists.refused = true;
    }
    a->info.has_one = !a->info.is_cpu;
    a->info.has_one = a->info.has_one && hearth_operations_check_one(a);
    if (a->info.has_one)
        hearth_accel_compare_one(a);
}

// Whether it still does what it is told: failures of what was tried were taken, but there are such that last.
static int check_alive(struct hearth_accel *a, struct hearth_error *err)
{
    const float there = 1.0f;
    float got = 0.0f;
    struct hearth_accel_memory m = hearth_accel_alloc(a, sizeof there);
    hearth_accel_write(a, &m, 0, &there, sizeof there);
    hearth_accel_read(a, &m, 0, &got, sizeof got);
    hearth_accel_free(a, &m);
    const int rc = hearth_accel_take(a, err);
    return rc || got == there
               ? rc
               : hearth_fail(err, HEARTH_E_UNSUPPORTED, "%s does not keep what it is told", a->info.name);
}

static int open_found(struct hearth_accel *a, const struct hearth_accel_params *params,
                      struct hearth_error *err)
{
    if (!a->info.exact && !params->inexact)
        return hearth_fail(err, HEARTH_E_UNSUPPORTED,
                           "%s has no exact arithmetic (fma, denormals, rounding), so the text would change: "
                           "--device-inexact uses it all the same",
                           a->info.name);
    int rc = a->backend->open(&a->state, a->info.index, params->broken, err);
    if (!rc && !params->inexact)
        rc = hearth_operations_check(a, err);
    // It may be its matrix units alone that give other bits: it does without them.
    if (rc == HEARTH_E_UNSUPPORTED && a->info.has_matrix_units && !params->broken) {
        a->info.has_matrix_units = false;
        rc = hearth_operations_check(a, err);
    }
    if (!rc) {
        find_extras(a);
        rc = check_alive(a, err);
    }
    a->fail_at = params->fail_at;
    return rc;
}

int hearth_accel_open(struct hearth_accel **out, const struct hearth_accel_params *params,
                      struct hearth_error *err)
{
    *out = NULL;
    struct hearth_accel_info *list = hearth_calloc(MAX_DEVICES, sizeof *list);
    struct hearth_accel *a = hearth_calloc(1, sizeof *a);
    int rc = HEARTH_OK;
    if (!list || !a) {
        rc = hearth_fail(err, HEARTH_E_MEMORY, "no memory for a device");
    } else {
        const int n = hearth_accel_list(list, MAX_DEVICES),
                  at = find(list, n < MAX_DEVICES ? n : MAX_DEVICES, params->device);
        if (at < 0)
            rc = fail_to_find(n, params->device, err);
        else
            a->info = list[at];
    }
    for (size_t i = 0; !rc && i < N_BACKENDS; i++)
        if (backends[i]->name == a->info.backend)
            a->backend = backends[i];
    if (!rc)
        rc = open_found(a, params, err);
    free(list);
    if (rc)
        hearth_accel_close(&a);
    *out = a;
    return rc;
}
