// SPDX-License-Identifier: MIT
// A pool of worker threads that run one task list at a time.
//
// A task list is a function and a number of tasks; workers take task numbers from a shared counter, so which
// thread runs a task is not fixed. Code run here must therefore give the same result whoever runs it: every
// task writes its own output and no two tasks add into one float.
#ifndef HEARTH_BASE_THREADS_H
#define HEARTH_BASE_THREADS_H

#include "base/error.h"

struct hearth_pool;

// `worker` is 0 for the calling thread, else 1..n-1: an index for per-worker scratch memory.
typedef void (*hearth_task_fn)(void *arg, int task, int worker);

// n_threads counts the calling thread; 1 makes no threads. At most 256.
int hearth_pool_open(struct hearth_pool **out, int n_threads, struct hearth_error *err);
void hearth_pool_close(struct hearth_pool **pool);
int hearth_pool_size(const struct hearth_pool *pool);

// Runs fn(arg, 0..n_tasks-1) and returns when all are done. Only the thread that owns the pool may call it;
// not re-entrant. Workers spin briefly between lists and sleep when idle for longer.
void hearth_pool_run(struct hearth_pool *pool, hearth_task_fn fn, void *arg, int n_tasks);

// One turn of waiting for another thread: at first it only lets some cycles pass, later it sleeps for a
// little while. *turns begins at 0 for each wait.
void hearth_pool_relax(unsigned *turns);

#endif
