// SPDX-License-Identifier: MIT
// Claims of memory on Linux: a claim is a socket without a file, whose name says how much and who. It is gone
// when its process is, and /proc/net/unix lists all of them.
#include "base/claims.h"

#include <inttypes.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define NAME "hearth-memory"
// How often somebody tries to get the lock, and how long he waits in between.
#define TRIES   500
#define WAIT_NS 2000000

// ---- names

// A socket of this name, or -1: the name is taken, or there are no such sockets.
static int open_name(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const size_t n = strlen(name);
    if (n + 1 > sizeof address.sun_path)
        return -1;
    memcpy(address.sun_path + 1, name, n); // a leading zero: no file
    const int s = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (s < 0)
        return -1;
    if (!bind(s, (const struct sockaddr *)&address,
              (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n)))
        return s;
    close(s);
    return -1;
}

int hearth_claims_lock(void)
{
    char name[64];
    snprintf(name, sizeof name, NAME "-lock/%ju", (uintmax_t)getuid());
    int lock = open_name(name);
    for (int i = 0; i < TRIES && lock < 0; i++) {
        (void)nanosleep(&(struct timespec){.tv_nsec = WAIT_NS}, NULL);
        lock = open_name(name);
    }
    return lock;
}

void hearth_claims_unlock(int lock)
{
    if (lock >= 0)
        close(lock);
}

int hearth_claim(uint64_t bytes)
{
    static _Atomic unsigned count; // a process may claim several times
    char name[100];
    snprintf(name, sizeof name, NAME "/%jd/%" PRIu64 "/%u", (intmax_t)getpid(), bytes, count++);
    return open_name(name);
}

void hearth_claim_drop(int claim)
{
    if (claim >= 0)
        close(claim);
}

// ---- what others claim

#define MOST 256 // processes with claims: more are not looked at

struct claimer {
    intmax_t pid;
    uint64_t bytes;
};

static FILE *open_of(const char *root, intmax_t pid, const char *name)
{
    char path[PATH_MAX];
    const int n = pid ? snprintf(path, sizeof path, "%s/proc/%jd/%s", root, pid, name)
                      : snprintf(path, sizeof path, "%s/proc/self/%s", root, name);
    return n > 0 && (size_t)n < sizeof path ? fopen(path, "re") : NULL;
}

// Private memory of the process, if it is there and is this user's or root's.
static bool look_at(const char *root, intmax_t pid, uint64_t *held)
{
    FILE *f = open_of(root, pid, "status");
    char line[256];
    uint64_t kib;
    uintmax_t uid = UINTMAX_MAX;
    *held = 0;
    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "RssAnon: %" SCNu64, &kib) == 1 || sscanf(line, "VmSwap: %" SCNu64, &kib) == 1)
            *held += kib * 1024;
        (void)sscanf(line, "Uid: %ju", &uid);
    }
    if (f)
        fclose(f);
    return uid == 0 || uid == (uintmax_t)getuid();
}

// Whether a process is in the control groups of this one.
static bool is_near(const char *root, intmax_t pid)
{
    FILE *a = open_of(root, 0, "cgroup"), *b = open_of(root, pid, "cgroup");
    char x[4096], y[4096];
    bool same = a && b;
    if (same) {
        const size_t n = fread(x, 1, sizeof x, a);
        same = fread(y, 1, sizeof y, b) == n && !memcmp(x, y, n);
    }
    if (a)
        fclose(a);
    if (b)
        fclose(b);
    return same;
}

// Adds a line of /proc/net/unix, if it is a claim.
static void add(struct claimer *claimers, int *n, const char *line)
{
    const char *at = strstr(line, " @" NAME "/");
    struct claimer c;
    int i = 0;
    if (!at || sscanf(at, " @" NAME "/%jd/%" SCNu64 "/", &c.pid, &c.bytes) != 2 || c.pid <= 0 ||
        c.bytes > UINT64_MAX / MOST / 4)
        return;
    while (i < *n && claimers[i].pid != c.pid)
        i++;
    if (i == MOST)
        return;
    if (i == *n)
        claimers[(*n)++] = (struct claimer){.pid = c.pid};
    claimers[i].bytes += claimers[i].bytes > UINT64_MAX / MOST / 4 ? 0 : c.bytes;
}

uint64_t hearth_claims_pending(const char *root, bool own, uint64_t *in_group)
{
    struct claimer claimers[MOST];
    char path[PATH_MAX], line[512];
    uint64_t pending = 0, held;
    int n = 0;
    *in_group = 0;
    const int length = snprintf(path, sizeof path, "%s/proc/net/unix", root);
    FILE *f = length > 0 && (size_t)length < sizeof path ? fopen(path, "re") : NULL;
    while (f && fgets(line, sizeof line, f))
        add(claimers, &n, line);
    if (f)
        fclose(f);
    for (int i = 0; i < n; i++) {
        const struct claimer *c = &claimers[i];
        if ((!own && c->pid == (intmax_t)getpid()) || !look_at(root, c->pid, &held) || c->bytes <= held)
            continue;
        pending += c->bytes - held;
        if (is_near(root, c->pid))
            *in_group += c->bytes - held;
    }
    return pending;
}
