// SPDX-License-Identifier: MIT
// The jobs that wait.
#include "base/os.h"
#include "serve/scheduler_state.h"

void hearth_queue_next(struct hearth_scheduler *s, struct hearth_task *task)
{
    struct hearth_job *job = &task->jobs[task->n_submitted++];
    hearth_task_hold(task); // each job lets go of it at its end
    job->order = ++s->order;
    job->submitted_ns = hearth_now_ns();
    job->next = NULL;
    *s->end = job;
    s->end = &job->next;
    s->n_waiting++;
}

struct hearth_job *hearth_queue_take(struct hearth_scheduler *s, struct hearth_job **at)
{
    struct hearth_job *job = *at;
    struct hearth_task *task = job->task;
    *at = job->next;
    if (!*at)
        s->end = at;
    s->n_waiting--;
    // One that had to make room before has been followed already.
    if (task->one_by_one && job->index + 1 == task->n_submitted && task->n_submitted < task->n_jobs)
        hearth_queue_next(s, task);
    return job;
}
