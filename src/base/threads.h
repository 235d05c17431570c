// SPDX-License-Identifier: MIT
// A pool of worker threads that run one task list at a time.
//
// A task list is a function and a number of tasks. Workers take task numbers from a shared
// counter, so any thread may run any task. The result must not depend on it: every task writes
// its own output, and no two tasks add into one float.
#ifndef HEARTH_BASE_THREADS_H
#define HEARTH_BASE_THREADS_H

#include "base/error.h"

struct hearth_pool;

#define HEARTH_POOL_MOST 256 // threads of a pool

// `worker` is 0 for the calling thread, else 1..n-1. It indexes per-worker scratch memory.
typedef void (*hearth_task_fn)(void *arg, int task, int worker);

// n_threads includes the calling thread, so 1 starts no threads. At most HEARTH_POOL_MOST. HEARTH_E_INVALID,
// HEARTH_E_MEMORY, HEARTH_E_IO. The pool is the caller's to close.
int hearth_pool_open(struct hearth_pool **out, int n_threads, struct hearth_error *err);
void hearth_pool_close(struct hearth_pool **pool);
int hearth_pool_size(const struct hearth_pool *pool);
// As many as are asked for; where none are, one for each core of a machine, or of this one, at most HEARTH_POOL_MOST.
int hearth_pool_threads_of(int asked, int cores);
int hearth_pool_threads(int asked);

// Runs fn(arg, 0..n_tasks-1, worker) and returns when all tasks are done. Only the thread that owns the pool
// may call it; not re-entrant. Idle workers spin briefly and then sleep.
void hearth_pool_run(struct hearth_pool *pool, hearth_task_fn fn, void *arg, int n_tasks);

// One turn of a wait loop. It first lets some cycles pass, after more turns it sleeps for a short
// time. *turns starts at 0 for each wait.
void hearth_pool_relax(unsigned *turns);

// Held by one thread at a time. NULL when there is no memory.
struct hearth_lock;
struct hearth_lock *hearth_lock_open(void);
void hearth_lock_close(struct hearth_lock **lock);
void hearth_lock_take(struct hearth_lock *lock); // waits
// Waits for so long at most; returns whether the lock is taken.
bool hearth_lock_take_within(struct hearth_lock *lock, uint64_t ns);
void hearth_lock_drop(struct hearth_lock *lock);

// Held by one thread of the process at a time: around what sessions have in common without knowing of each other.
void hearth_process_lock_take(void); // waits
void hearth_process_lock_drop(void);

#endif
