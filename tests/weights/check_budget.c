// SPDX-License-Identifier: MIT
// Holds `hearth run` and `hearth bench` to their budgets from outside, with random options:
//   check_budget HEARTH ROUNDS SEED MODEL...
// In each round a model gets the smallest budget that Hearth names for the options, or a larger one, and its
// private memory (anonymous, in /proc/PID/smaps_rollup) is looked at every millisecond. Pages of the program's and
// libraries' files are outside the budget. One byte less than the smallest budget must be refused. A line a round;
// status 1 where a budget does not hold.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_ARGS = 48, TEXT = 400 };

// The program's arguments; what is printed of numbers lies in `text`.
struct command {
    char *args[MAX_ARGS];
    char text[MAX_ARGS][TEXT];
    int n;
};

struct outcome {
    int status;    // of the program
    uint64_t peak; // bytes of private memory
    int samples;
    char message[1000]; // the end of what it wrote to stderr
};

static void give_up(const char *what)
{
    fprintf(stderr, "check_budget: %s: %s\n", what, strerror(errno));
    exit(2);
}

// ---- chance

static uint64_t state;

static uint64_t draw(uint64_t n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (state >> 11) % n;
}

static int one_of(const int *values, int n)
{
    return values[draw((uint64_t)n)];
}

#define ONE_OF(...) one_of((const int[]){__VA_ARGS__}, (int)(sizeof(int[]){__VA_ARGS__} / sizeof(int)))

// ---- commands

static void add(struct command *c, const char *text)
{
    if (c->n + 1 >= MAX_ARGS)
        exit(2);
    snprintf(c->text[c->n], TEXT, "%s", text);
    c->args[c->n] = c->text[c->n];
    c->args[++c->n] = NULL;
}

static void add_number(struct command *c, const char *option, uint64_t number)
{
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)number);
    add(c, option);
    add(c, text);
}

// Options that `run` and `bench` share.
static void add_options(struct command *c)
{
    static const char *const types[] = {"f16", "f32", "q8_0"}, *const io[] = {"auto", "uring", "pread"};
    static const char *const sparsity[] = {"auto", "off", "exact"}, *const overlap[] = {"all", "compute",
                                                                                        "none"};
    add_number(c, "-t", (uint64_t)ONE_OF(1, 2, 3, 8));
    add_number(c, "-ub", (uint64_t)ONE_OF(1, 8, 64, 512));
    add(c, "-ctk");
    add(c, types[draw(3)]);
    add(c, "--io");
    add(c, io[draw(3)]);
    add(c, "--sparsity");
    add(c, sparsity[draw(3)]);
    add(c, "--overlap");
    add(c, overlap[draw(3)]);
}

static struct command random_command(char *hearth, const char *model)
{
    struct command c = {0};
    const bool bench = draw(4) == 0;
    add(&c, hearth);
    add(&c, bench ? "bench" : "run");
    add(&c, model);
    add_options(&c);
    if (bench) {
        add_number(&c, "-p", (uint64_t)ONE_OF(1, 33, 300));
        add_number(&c, "-n", (uint64_t)ONE_OF(1, 5));
        add_number(&c, "-npl", (uint64_t)ONE_OF(1, 3, 8));
        add_number(&c, "-r", 1);
        add_number(&c, "--roof", 0);
        return c;
    }
    char prompt[300] = "The";
    for (uint64_t words = draw(60); words; words--)
        strcat(prompt, " dog");
    add(&c, "-p");
    add(&c, prompt);
    add_number(&c, "-c", (uint64_t)ONE_OF(160, 256, 1000, 2048));
    add_number(&c, "-n", 1 + draw(12));
    add_number(&c, "-np", (uint64_t)ONE_OF(1, 1, 2, 5));
    add_number(&c, "-s", 1 + draw(1000));
    add(&c, "--ignore-eos");
    add(&c, "-q");
    return c;
}

static void print(const struct command *c)
{
    for (int i = 1; i < c->n; i++) {
        const char *name = strrchr(c->args[i], '/');
        printf("%s ", name ? name + 1 : strchr(c->args[i], ' ') ? "TEXT" : c->args[i]);
    }
}

// ---- a process

// Bytes of private memory; 0: it has ended.
// The file is opened anew each time, as exec() gives the process another memory.
static uint64_t private_bytes(const char *path)
{
    static char text[4096];
    const int rollup = open(path, O_RDONLY);
    const ssize_t n = rollup < 0 ? 0 : read(rollup, text, sizeof text - 1);
    uint64_t bytes = 0;
    if (rollup >= 0)
        close(rollup);
    text[n > 0 ? n : 0] = '\0';
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        unsigned long long kib;
        if (sscanf(line, "Anonymous: %llu", &kib) == 1)
            bytes = kib << 10;
    }
    return bytes;
}

// Becomes the program; its text goes nowhere, its messages to the file.
static void become(const struct command *c, int messages)
{
    const int nowhere = open("/dev/null", O_RDWR);
    dup2(nowhere, 0);
    dup2(nowhere, 1);
    dup2(messages, 2);
    execv(c->args[0], c->args);
    _exit(127);
}

static struct outcome watch(const struct command *c)
{
    struct outcome o = {0};
    char path[64], name[] = "/tmp/check-budget-XXXXXX";
    const int messages = mkstemp(name);
    if (messages < 0)
        give_up(name);
    unlink(name);
    fflush(NULL);
    const pid_t pid = fork();
    if (pid < 0)
        give_up("fork");
    if (pid == 0)
        become(c, messages);
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)pid);
    int status;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        const uint64_t now = private_bytes(path);
        o.peak = now > o.peak ? now : o.peak;
        o.samples += now > 0;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    o.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    const off_t size = lseek(messages, 0, SEEK_END), most = (off_t)sizeof o.message - 1;
    if (pread(messages, o.message, (size_t)most, size > most ? size - most : 0) < 0)
        give_up("messages");
    close(messages);
    return o;
}

static struct outcome watch_with(const struct command *c, const char *ram)
{
    struct command with = *c;
    for (int i = 0; i < with.n; i++)
        with.args[i] = with.text[i];
    add(&with, "--ram");
    add(&with, ram);
    return watch(&with);
}

static struct outcome watch_within(const struct command *c, uint64_t ram)
{
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)ram);
    return watch_with(c, text);
}

// ---- a round

// The smallest budget that a refusal names; 0: it names none.
static uint64_t named(const struct outcome *o)
{
    const char *at = strstr(o->message, "at least ");
    return at ? strtoull(at + 9, NULL, 10) : 0;
}

static bool fail(const struct outcome *o, const char *what)
{
    printf("\n  FAILED: %s (status %d): %s\n", what, o->status, o->message);
    return false;
}

// Bytes of the budget that were left at the peak go to *left.
static bool check(const struct command *c, uint64_t file, int64_t *left)
{
    struct outcome o = watch_with(c, "64K");
    const uint64_t least = named(&o);
    if (!least)
        return fail(&o, "no smallest budget is named");
    o = watch_within(c, least - 1);
    if (o.status != 1 || named(&o) != least)
        return fail(&o, "one byte less than the smallest budget is not refused, or another is named");
    const uint64_t ram = least + (draw(2) ? 0 : draw(file + file / 2));
    o = watch_within(c, ram);
    *left = (int64_t)ram - (int64_t)o.peak;
    printf("least %.2f, ram %.2f, peak %.2f MiB, left %.2f, %d samples\n", (double)least / (1 << 20),
           (double)ram / (1 << 20), (double)o.peak / (1 << 20), (double)*left / (1 << 20), o.samples);
    if (o.status)
        return fail(&o, "it did not run");
    return *left >= 0 || fail(&o, "more memory than the budget");
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fprintf(stderr, "usage: check_budget HEARTH ROUNDS SEED MODEL...\n");
        return 2;
    }
    const int rounds = atoi(argv[2]);
    int failed = 0, seen = 0;
    int64_t least_left = INT64_MAX;
    state = 0x9E3779B97F4A7C15u * (strtoull(argv[3], NULL, 10) + 1);
    for (int i = 0; i < rounds; i++) {
        const char *model = argv[4 + draw((uint64_t)(argc - 4))];
        struct stat file;
        if (stat(model, &file))
            give_up(model);
        struct command c = random_command(argv[1], model);
        int64_t left = INT64_MAX;
        print(&c);
        failed += !check(&c, (uint64_t)file.st_size, &left);
        seen += left < INT64_MAX;
        least_left = left < least_left ? left : least_left;
        fflush(stdout);
    }
    printf("%d of %d rounds failed; least left %.2f MiB\n", failed, rounds, (double)least_left / (1 << 20));
    return failed || !seen;
}
