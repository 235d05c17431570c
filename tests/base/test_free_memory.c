// SPDX-License-Identifier: MIT
// What memory is free for this process, read from files as kernels, containers and service managers write
// them.
#include "check.h"

#include <ftw.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/claims.h"
#include "base/free_memory.h"

#define MIB ((uint64_t)1 << 20)

// ---- a machine made of files

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)st;
    (void)kind;
    return where->level ? remove(path) : 0;
}

static int clear_machine(void **state)
{
    (void)state;
    return nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void put(const char *name, const char *text)
{
    char path[700];
    snprintf(path, sizeof path, "%s%s", folder, name);
    for (char *slash = path + strlen(folder) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        (void)mkdir(path, 0755);
        *slash = '/';
    }
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void put_machine(const char *cgroup, const char *mountinfo)
{
    put("/proc/meminfo",
        "MemTotal:       24684084 kB\nMemFree:        13416360 kB\nMemAvailable:   16000000 kB\n"
        "Buffers:          248728 kB\n");
    put("/proc/self/cgroup", cgroup);
    put("/proc/self/mountinfo", mountinfo);
}

static void is_free(uint64_t bytes, const char *what)
{
    const struct hearth_free_memory f = hearth_free_memory(folder, true);
    assert_int_equal(f.bytes, bytes);
    assert_string_equal(f.what, what);
}

// ---- machines

#define V1                                                                                                   \
    "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"                                    \
    "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"                                   \
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:7 - cgroup cgroup rw,memory\n"                    \
    "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
#define V2                                                                                                   \
    "29 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
#define NO_LIMIT "9223372036854771712\n"
#define GROUP    "control group"

static void test_no_groups(void **state)
{
    (void)state;
    assert_true(hearth_free_memory(folder, true).bytes == UINT64_MAX); // a system without any of these files
    put("/proc/meminfo", "MemTotal:       24684084 kB\nMemFree:        13416360 kB\nBuffers:  248728 kB\n");
    is_free((uint64_t)13416360 * 1024, "memory"); // kernels before 3.14 have no better figure
    put_machine("0::/\n", V2);
    is_free((uint64_t)16000000 * 1024, "memory");
    const struct hearth_free_memory here = hearth_free_memory("", true);
    assert_true(here.bytes > MIB && here.bytes < UINT64_MAX);
}

static void test_version_1(void **state)
{
    (void)state;
    put_machine("9:name=systemd:/\n4:memory:/jobs/one\n3:cpuset:/\n1:cpu,cpuacct:/elsewhere\n0::/\n", V1);
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", NO_LIMIT);
    put("/sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", NO_LIMIT);
    put("/sys/fs/cgroup/memory/jobs/one/memory.limit_in_bytes", NO_LIMIT);
    is_free((uint64_t)16000000 * 1024, "memory");

    put("/sys/fs/cgroup/memory/jobs/one/memory.limit_in_bytes", "3000000000\n");
    put("/sys/fs/cgroup/memory/jobs/one/memory.usage_in_bytes", "2500000000\n");
    put("/sys/fs/cgroup/memory/jobs/one/memory.stat",
        "cache 5\nrss 7\ninactive_file 11\nactive_file 13\nhierarchical_memory_limit 3000000000\n"
        "total_cache 1500000000\ntotal_mapped_file 1\ntotal_inactive_file 1000000000\n"
        "total_active_file 200000000\n");
    is_free(1700000000, GROUP); // page cache can go

    // The group above counts those beside this one, too.
    put("/sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", "4000000000\n");
    put("/sys/fs/cgroup/memory/jobs/memory.usage_in_bytes", "3900000000\n");
    put("/sys/fs/cgroup/memory/jobs/memory.stat", "total_inactive_file 1300000000\n");
    is_free(1400000000, GROUP);
    put("/sys/fs/cgroup/memory/jobs/memory.use_hierarchy", "1\n");
    is_free(1400000000, GROUP);
    put("/sys/fs/cgroup/memory/jobs/memory.use_hierarchy", "0\n");
    is_free(1700000000, GROUP);

    // It is full, and more than that: nothing is left.
    put("/sys/fs/cgroup/memory/jobs/one/memory.usage_in_bytes", "5500000000\n");
    is_free(0, GROUP);
}

static void test_version_2(void **state)
{
    (void)state;
    put_machine("0::/user.slice/user-1000.slice/app.scope\n", V2);
    const char *const scope = "/sys/fs/cgroup/user.slice/user-1000.slice/app.scope";
    char name[200];
    snprintf(name, sizeof name, "%s/memory.max", scope);
    put(name, "max\n");
    put("/sys/fs/cgroup/user.slice/memory.max", "max\n");
    is_free((uint64_t)16000000 * 1024, "memory");

    put("/sys/fs/cgroup/user.slice/memory.max", "9000000000\n");
    put("/sys/fs/cgroup/user.slice/memory.high", "8000000000\n"); // beyond it everything becomes slow
    put("/sys/fs/cgroup/user.slice/memory.current", "6000000000\n");
    put("/sys/fs/cgroup/user.slice/memory.stat",
        "anon 1\nfile 2\ninactive_anon 3\nactive_anon 4\ninactive_file 500000000\nactive_file 600000000\n"
        "slab_reclaimable 70000000\nslab_unreclaimable 8\n");
    is_free(3170000000, GROUP);
    put(name, "1000000000\n");
    is_free(1000000000, GROUP); // which says nothing of its usage
}

// A container with version 1 sees its own group where the tree begins, under the name that it has outside.
static void test_containers(void **state)
{
    (void)state;
    put_machine("4:memory:/docker/0123abcd\n",
                "35 31 0:32 /docker/0123abcd /sys/fs/cgroup/memory\\040here ro - cgroup cgroup rw,memory\n");
    put("/sys/fs/cgroup/memory here/memory.limit_in_bytes", "2000000000\n");
    put("/sys/fs/cgroup/memory here/memory.usage_in_bytes", "500000000\n");
    is_free(1500000000, GROUP);
    put("/proc/self/cgroup", "4:memory:/docker/0123abcd/inner\n");
    put("/sys/fs/cgroup/memory here/inner/memory.limit_in_bytes", "700000000\n");
    is_free(700000000, GROUP);
    put("/proc/self/cgroup", "4:memory:/docker/0123abcdef\n"); // not the same, though it begins alike
    is_free(1500000000, GROUP);
    put("/proc/self/cgroup", "4:memory:/../../elsewhere\n"); // outside of a namespace
    is_free(1500000000, GROUP);
    put_machine("0::/\n", V2); // with version 2 and a namespace: the group is the top
    put("/sys/fs/cgroup/memory.max", "536870912\n");
    put("/sys/fs/cgroup/memory.current", "36870912\n");
    is_free(500000000, GROUP);
}

static void test_limits_of_the_process(void **state)
{
    (void)state;
    put_machine("0::/\n", V2);
    put("/proc/self/status",
        "Name:\thearth\nVmPeak:\t 5000000 kB\nVmSize:\t 1000000 kB\nVmData:\t  500000 kB\n");
    put("/proc/self/limits",
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max data size             unlimited            unlimited            bytes     \n"
        "Max address space         unlimited            unlimited            bytes     \n");
    is_free((uint64_t)16000000 * 1024, "memory");
    put("/proc/self/limits",
        "Max data size             unlimited            unlimited            bytes     \n"
        "Max address space         4096000000           unlimited            bytes     \n");
    is_free(3072000000 - 256 * MIB, "ulimit -v");
    put("/proc/self/limits",
        "Max data size             2048000000           unlimited            bytes     \n"
        "Max address space         4096000000           unlimited            bytes     \n");
    is_free(1536000000 - 256 * MIB, "ulimit -d");
}

// ---- claims

// Processes 11 and 12 have claims, of which 12 in another group; 13 is not there, 14 somebody else's, 15 has
// it all.
static void test_claims(void **state)
{
    (void)state;
    char text[200];
    put_machine("0::/a\n", V2);
    put("/sys/fs/cgroup/a/memory.max", "8000000000\n");
    put("/proc/net/unix",
        "Num       RefCount Protocol Flags    Type St Inode Path\n"
        "0000: 00000002 00000000 00010000 0001 01 10 /run/socket\n"
        "0000: 00000002 00000000 00000000 0002 07 11 @hearth-memory-lock/0\n"
        "0000: 00000002 00000000 00000000 0002 07 12 @hearth-memory/11/1000000000/0\n"
        "0000: 00000002 00000000 00000000 0002 07 13 @hearth-memory/11/1000000000/1\n"
        "0000: 00000002 00000000 00000000 0002 07 14 @hearth-memory/12/3000000000/0\n"
        "0000: 00000002 00000000 00000000 0002 07 15 @hearth-memory/13/3000000000/0\n"
        "0000: 00000002 00000000 00000000 0002 07 16 @hearth-memory/14/3000000000/0\n"
        "0000: 00000002 00000000 00000000 0002 07 17 @hearth-memory/15/3000000000/0\n"
        "0000: 00000002 00000000 00000000 0002 07 18 @hearth-memory/-1/3000000000/0\n"
        "0000: 00000002 00000000 00000000 0002 07 19 @hearth-memory/11/9999999999999999999/0\n"
        "0000: 00000002 00000000 00000000 0002 07 20 @hearth-memory/x\n");
    for (int pid = 11; pid <= 15; pid++) {
        char name[64];
        snprintf(text, sizeof text, "Name:\tx\nUid:\t%u\t0\t0\t0\nRssAnon:\t  %d kB\nVmSwap:\t 100000 kB\n",
                 pid == 14 ? 12345u : (unsigned)getuid(), pid == 15 ? 9000000 : 400000);
        snprintf(name, sizeof name, "/proc/%d/status", pid);
        if (pid != 13)
            put(name, text);
        snprintf(name, sizeof name, "/proc/%d/cgroup", pid);
        put(name, pid == 12 ? "0::/b\n" : "0::/a\n");
    }
    uint64_t in_group;
    const uint64_t held = (uint64_t)500000 * 1024;
    assert_int_equal(hearth_claims_pending(folder, false, &in_group), 5000000000 - 2 * held);
    assert_int_equal(in_group, 2000000000 - held);
    is_free(8000000000 - in_group, "control group");
    put("/sys/fs/cgroup/a/memory.max", "max\n");
    is_free((uint64_t)16000000 * 1024 - (5000000000 - 2 * held), "memory");
}

static uint64_t claimed_by_others(void)
{
    uint64_t in_group;
    return hearth_claims_pending("", false, &in_group);
}

// Somebody else may have it for longer than one waits for it.
static int lock_claims(void)
{
    int lock = -1;
    for (int i = 0; i < 60 && lock < 0; i++)
        lock = hearth_claims_lock();
    return lock;
}

// Another process's claim is seen while it lives, and its lock is waited for.
static void test_two_processes(void **state)
{
    (void)state;
    const uint64_t some = 300 * MIB; // tests beside this one see it, too
    int ready[2], end[2];
    char byte = 0;
    assert_int_equal(pipe(ready) | pipe(end), 0);
    const int probe = hearth_claim(some);
    if (probe < 0)
        skip(); // the system has no such sockets
    uint64_t in_group;
    assert_true(hearth_claims_pending("", true, &in_group) > some / 2 && in_group > some / 2);
    hearth_claim_drop(probe);
    if (claimed_by_others() > some / 4)
        skip(); // of programs that run right now, and may begin or end at any time
    const pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        const int lock = lock_claims();
        (void)hearth_claim(2 * some);
        (void)!write(ready[1], &byte, 1);
        (void)usleep(100000);
        hearth_claims_unlock(lock);
        close(end[1]);
        (void)!read(end[0], &byte, 1);
        _exit(0);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    const int lock = lock_claims(); // when the child has let go of it
    assert_true(lock >= 0);
    hearth_claims_unlock(lock);
    assert_true(claimed_by_others() > some);
    close(end[1]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    bool gone = false; // programs that begin meanwhile have their memory soon
    for (int i = 0; i < 600 && !(gone = claimed_by_others() < some); i++)
        (void)usleep(100000);
    assert_true(gone);
}

// ---- damage

static void test_nonsense(void **state)
{
    (void)state;
    static const char *const mounts[] = {"",
                                         "\n",
                                         "- - -\n",
                                         "1 2 3 - cgroup2\n",
                                         " - cgroup2 x y\n",
                                         "29 23 0:26 / /sys/fs/cgroup rw - cgroup2\n",
                                         "a b c d e f g h\n"};
    static const char *const groups[] = {"", ":", "::", "0::", "0::\n", "0::x\n", "4:memory:\n", "0::////\n"};
    for (size_t i = 0; i < sizeof mounts / sizeof *mounts; i++)
        for (size_t k = 0; k < sizeof groups / sizeof *groups; k++) {
            put_machine(groups[k], mounts[i]);
            put("/proc/self/limits", "Max address space\nMax data size     x\n");
            is_free((uint64_t)16000000 * 1024, "memory");
        }
    put_machine("0::/a\n", V2);
    put("/sys/fs/cgroup/a/memory.max", "");
    is_free((uint64_t)16000000 * 1024, "memory");
    put("/sys/fs/cgroup/a/memory.max", "99999999999999999999999999\n");
    is_free((uint64_t)16000000 * 1024, "memory");
}

// ---- what there is in all

static void test_limit(void **state)
{
    (void)state;
    assert_int_equal(hearth_memory_limit(folder), 0); // nobody says
    put_machine("4:memory:/jobs/one\n", V1);
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", NO_LIMIT);
    assert_int_equal(hearth_memory_limit(folder), (uint64_t)24684084 * 1024);
    put("/sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", "4000000000\n");
    put("/sys/fs/cgroup/memory/jobs/memory.usage_in_bytes", "3900000000\n");
    assert_int_equal(hearth_memory_limit(folder), 4000000000); // whatever is in use
    put_machine("0::/app.scope\n", V2);
    put("/sys/fs/cgroup/app.scope/memory.high", "2000000000\n");
    put("/sys/fs/cgroup/app.scope/memory.current", "1500000000\n");
    assert_int_equal(hearth_memory_limit(folder), 2000000000);
    const uint64_t here = hearth_memory_limit("");
    assert_true(here > MIB && here < UINT64_MAX);
}

// ---- what of it is taken

static void test_to_take(void **state)
{
    (void)state;
    const struct hearth_free_memory none = {UINT64_MAX, "memory"};
    assert_true(hearth_free_memory_to_take(&none, false) == UINT64_MAX);
    uint64_t last = 0;
    for (uint64_t bytes = 0; bytes < (uint64_t)64 << 30; bytes += bytes / 7 + 12345) {
        const struct hearth_free_memory f = {bytes, "memory"};
        const uint64_t ease = hearth_free_memory_to_take(&f, false),
                       most = hearth_free_memory_to_take(&f, true);
        assert_true(ease <= most && most <= bytes && ease >= last && most % MIB == 0 && ease % MIB == 0);
        assert_true(bytes - most <= 513 * MIB && bytes - ease <= 2049 * MIB && most + MIB > bytes / 2);
        assert_true(bytes < 512 * MIB || (bytes - most >= 16 * MIB && bytes - ease >= 32 * MIB));
        last = ease;
    }
    assert_int_equal(hearth_free_memory_to_take(&(struct hearth_free_memory){3000000000, ""}, false),
                     2503 * MIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_no_groups, clear_machine),
        cmocka_unit_test_teardown(test_version_1, clear_machine),
        cmocka_unit_test_teardown(test_version_2, clear_machine),
        cmocka_unit_test_teardown(test_containers, clear_machine),
        cmocka_unit_test_teardown(test_limits_of_the_process, clear_machine),
        cmocka_unit_test_teardown(test_claims, clear_machine),
        cmocka_unit_test(test_two_processes),
        cmocka_unit_test_teardown(test_nonsense, clear_machine),
        cmocka_unit_test_teardown(test_limit, clear_machine),
        cmocka_unit_test(test_to_take),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
