// SPDX-License-Identifier: MIT
// Free memory on Linux: /proc, and the control groups of both versions.
#include "base/free_memory.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/claims.h"
#include "base/os.h"

#define LINE ((size_t)8192)
// Addresses of the stacks of the threads that compute and read: 32 of the usual 8 MiB.
#define STACKS ((uint64_t)256 << 20)

// In place of what others have claimed: neither that nor what is in use counts, only the limit.
#define NOTHING_COUNTS UINT64_MAX

// What the files of a control group are called in version 1 and 2, and which parts of its usage can go.
struct group_files {
    const char *limits[2], *usage;
    const char *reclaimable[6]; // lines of memory.stat; of each pair the second, where the first is missing
};

static const struct group_files versions[] = {
    {{"memory.limit_in_bytes", NULL},
     "memory.usage_in_bytes",
     {"total_inactive_file", "inactive_file", "total_active_file", "active_file", NULL, NULL}},
    {{"memory.max", "memory.high"},
     "memory.current",
     {"inactive_file", NULL, "active_file", NULL, "slab_reclaimable", NULL}}};

static FILE *open_at(const char *root, const char *folder, const char *name)
{
    char path[3 * PATH_MAX];
    const int n = snprintf(path, sizeof path, "%s%s/%s", root, folder, name);
    return n > 0 && (size_t)n < sizeof path ? fopen(path, "re") : NULL;
}

// The number in front of `text`. False: there is none, such as in "max" and "unlimited".
static bool number(const char *text, uint64_t *out)
{
    char *end;
    text += strspn(text, " \t");
    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return end != text && !errno;
}

// The number behind `name` at the start of a line of the file; the file may be a number alone (name "").
static bool look_up(const char *root, const char *folder, const char *file, const char *name, uint64_t *out)
{
    FILE *f = open_at(root, folder, file);
    char line[LINE];
    const size_t n = strlen(name);
    bool found = false;
    while (f && !found && fgets(line, sizeof line, f)) {
        const char *behind = line + n;
        found = !strncmp(line, name, n) && (!n || *behind == ' ' || *behind == '\t' || *behind == ':') &&
                number(behind + (*behind == ':'), out);
    }
    if (f)
        fclose(f);
    return found;
}

static void bound(struct hearth_free_memory *f, uint64_t limit, uint64_t used, const char *what)
{
    const uint64_t left = limit > used ? limit - used : 0;
    if (left < f->bytes)
        *f = (struct hearth_free_memory){left, what};
}

// ---- control groups

// Only limits that are there count; what a group does not say is 0.
static void look_at_group(const char *root, const char *folder, const struct group_files *files,
                          uint64_t claimed, struct hearth_free_memory *f)
{
    uint64_t limit = UINT64_MAX, value, used = 0, can_go = 0;
    for (size_t i = 0; i < sizeof files->limits / sizeof *files->limits; i++)
        if (files->limits[i] && look_up(root, folder, files->limits[i], "", &value) && value < limit)
            limit = value;
    if (limit >= (uint64_t)INT64_MAX / 2) // version 1 has no word for "no limit"
        return;
    if (claimed == NOTHING_COUNTS) {
        bound(f, limit, 0, "control group");
        return;
    }
    (void)look_up(root, folder, files->usage, "", &used);
    for (size_t i = 0; i < sizeof files->reclaimable / sizeof *files->reclaimable; i += 2) {
        const char *const *names = &files->reclaimable[i];
        if ((names[0] && look_up(root, folder, "memory.stat", names[0], &value)) ||
            (names[1] && look_up(root, folder, "memory.stat", names[1], &value)))
            can_go += value;
    }
    bound(f, limit, (used > can_go ? used - can_go : 0) + claimed, "control group");
}

// Whether the groups above limit this one, too: always, but where version 1 is told otherwise.
static bool counts_above(const char *root, const char *folder)
{
    uint64_t hierarchy;
    return !look_up(root, folder, "memory.use_hierarchy", "", &hierarchy) || hierarchy;
}

// The group at `path` below the mount point, and all above it.
static void look_at_groups(const char *root, const char *mount, const char *path,
                           const struct group_files *files, uint64_t claimed, struct hearth_free_memory *f)
{
    char folder[2 * PATH_MAX];
    const int n = snprintf(folder, sizeof folder, "%s%s", mount, path);
    const size_t top = strlen(mount);
    if (n < 0 || (size_t)n >= sizeof folder)
        return;
    for (size_t end = (size_t)n;;) {
        while (end > top && folder[end - 1] == '/')
            end--;
        folder[end] = '\0';
        look_at_group(root, folder, files, claimed, f);
        while (end > top && folder[end - 1] != '/')
            end--;
        if (end == top)
            return;
        folder[end - 1] = '\0';
        if (!counts_above(root, folder))
            return;
        folder[end - 1] = '/';
    }
}

static bool lists(const char *list, const char *word)
{
    const size_t n = strlen(word);
    while (*list) {
        const size_t length = strcspn(list, ",\n");
        if (length == n && !strncmp(list, word, n))
            return true;
        list += length + (list[length] != '\0');
    }
    return false;
}

// The group of this process, of version 1 (which has a tree for memory alone) or 2.
static bool find_group(const char *root, bool second, char *path, size_t size)
{
    FILE *f = open_at(root, "/proc/self", "cgroup");
    char line[LINE];
    bool found = false;
    while (f && !found && fgets(line, sizeof line, f)) {
        char *controllers = strchr(line, ':'), *at = controllers ? strchr(++controllers, ':') : NULL;
        if (!at)
            continue;
        *at++ = '\0';
        found = second ? !*controllers : lists(controllers, "memory");
        at[strcspn(at, "\n")] = '\0';
        if (found && strlen(at) < size)
            strcpy(path, at);
        else
            found = false;
    }
    if (f)
        fclose(f);
    return found;
}

// Blanks and backslashes in paths are written as \040 and so on.
static void unescape(char *text)
{
    char *to = text;
    for (; *text; text++) {
        const bool octal = text[0] == '\\' && text[1] >= '0' && text[1] <= '3' && text[2] >= '0' &&
                           text[2] <= '7' && text[3] >= '0' && text[3] <= '7';
        *to++ = octal ? (char)((text[1] - '0') * 64 + (text[2] - '0') * 8 + (text[3] - '0')) : *text;
        text += octal ? 3 : 0;
    }
    *to = '\0';
}

// Splits a line of mountinfo: "36 35 98:0 ROOT POINT rw,noatime master:1 - TYPE source OPTIONS".
static bool is_mount_of_groups(char *line, bool second, char **mounted, char **point)
{
    char *type = strstr(line, " - "), *fields[5] = {NULL}, *rest = line;
    if (!type)
        return false;
    *type = '\0';
    type += 3;
    for (size_t i = 0; i < 5; i++) {
        fields[i] = rest;
        rest += strcspn(rest, " ");
        if (*rest)
            *rest++ = '\0';
    }
    *mounted = fields[3];
    *point = fields[4];
    unescape(*mounted);
    unescape(*point);
    const size_t n = strcspn(type, " ");
    const char *options = strrchr(type, ' ');
    if (second)
        return n == 7 && !strncmp(type, "cgroup2", n);
    return n == 6 && !strncmp(type, "cgroup", n) && options && lists(options + 1, "memory");
}

// The rest of `path` below `mounted`, which is the part of the tree that the mount point shows; NULL: it
// shows another part. A container may see but its own group, under whatever name.
static const char *below(const char *path, const char *mounted)
{
    const size_t n = strcmp(mounted, "/") ? strlen(mounted) : 0;
    return !strncmp(path, mounted, n) && (path[n] == '/' || !path[n]) ? path + n : NULL;
}

static void look_at_version(const char *root, bool second, uint64_t claimed, struct hearth_free_memory *f)
{
    char path[PATH_MAX], line[LINE], *mounted, *point;
    if (!find_group(root, second, path, sizeof path))
        return;
    FILE *mounts = open_at(root, "/proc/self", "mountinfo");
    while (mounts && fgets(line, sizeof line, mounts))
        if (is_mount_of_groups(line, second, &mounted, &point)) {
            const char *rest = strstr(path, "/..") ? NULL : below(path, mounted);
            look_at_groups(root, point, rest ? rest : "", &versions[second], claimed, f);
        }
    if (mounts)
        fclose(mounts);
}

// ---- all of it

// Limits of the process count addresses, not memory, of which the stacks of threads take many.
static void look_at_limit(const char *root, const char *limit, const char *used, const char *what,
                          struct hearth_free_memory *f)
{
    uint64_t most, kib, left;
    if (look_up(root, "/proc/self", "limits", limit, &most) &&
        look_up(root, "/proc/self", "status", used, &kib)) {
        left = most > kib * 1024 ? most - kib * 1024 : 0;
        bound(f, left, left / 2 < STACKS ? left / 2 : STACKS, what);
    }
}

struct hearth_free_memory hearth_free_memory(const char *root, bool own)
{
    struct hearth_free_memory f = {UINT64_MAX, "memory"};
    uint64_t kib, in_group, claimed = hearth_claims_pending(root, own, &in_group);
    if (look_up(root, "/proc", "meminfo", "MemAvailable", &kib) ||
        look_up(root, "/proc", "meminfo", "MemFree", &kib))
        bound(&f, kib * 1024, claimed, "memory");
    else if (!*root && hearth_memory_total())
        bound(&f, hearth_memory_total(), hearth_memory_private() + claimed, "memory");
    look_at_version(root, false, in_group, &f);
    look_at_version(root, true, in_group, &f);
    look_at_limit(root, "Max address space", "VmSize", "ulimit -v", &f);
    look_at_limit(root, "Max data size", "VmData", "ulimit -d", &f);
    return f;
}

uint64_t hearth_memory_limit(const char *root)
{
    struct hearth_free_memory f = {UINT64_MAX, "memory"};
    uint64_t kib;
    if (look_up(root, "/proc", "meminfo", "MemTotal", &kib))
        f.bytes = kib * 1024;
    else if (!*root && hearth_memory_total())
        f.bytes = hearth_memory_total();
    look_at_version(root, false, NOTHING_COUNTS, &f);
    look_at_version(root, true, NOTHING_COUNTS, &f);
    return f.bytes == UINT64_MAX ? 0 : f.bytes;
}
