// SPDX-License-Identifier: MIT
// Threads that prepare requests: JSON, templates, tokens and grammars may take seconds, in which the threads
// of HTTP have other connections to serve.
#ifndef HEARTH_SERVE_CREW_H
#define HEARTH_SERVE_CREW_H

#include <stdbool.h>

struct hearth_crew;

struct hearth_errand {
    void (*fn)(void *arg);
    void *arg;
    bool large; // takes long: such errands never have more than half of the threads
    struct hearth_errand *next;
};

// At most so many threads, which start when they are needed. NULL: no memory.
struct hearth_crew *hearth_crew_open(int most);
// Runs errand->fn(arg) in one of the threads, or, when there is none, at once in the caller's. The errand must
// stay until then. Threads: any.
void hearth_crew_run(struct hearth_crew *crew, struct hearth_errand *errand);
// Waits for all errands. Further ones run in their caller's thread.
void hearth_crew_end(struct hearth_crew *crew);
void hearth_crew_close(struct hearth_crew **crew); // after its end, when nobody calls it any more

#endif
