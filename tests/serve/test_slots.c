// SPDX-License-Identifier: MIT
// Where jobs go (serve/slots.c, serve/queue.c), played without a session: at each moment at which another thread may look,
// every job that goes on waits or is at work. CMakeLists.txt has the two files' locks call these here.
#include "check.h"

#include "serve/job.h"
#include "serve/scheduler_state.h"

#define SLOTS 3
#define JOBS  5
#define LONG  1000

static struct hearth_scheduler s;
static struct hearth_slot slots[SLOTS];
static struct hearth_task task;
static struct hearth_job jobs[JOBS];
static hearth_token tokens[LONG];
static int n_alive /* jobs that go on */, n_looks, n_ended;
static int64_t room;     // of the KV cache
static bool no_sequence; // there is none left

// ---- the locks

int watched_lock(pthread_mutex_t *mutex)
{
    assert_ptr_equal(mutex, &s.mutex);
    return 0;
}

// What a thread sees that comes now.
int watched_unlock(pthread_mutex_t *mutex)
{
    int waiting = 0;
    assert_ptr_equal(mutex, &s.mutex);
    for (const struct hearth_job *job = s.first; job; job = job->next)
        waiting++;
    assert_int_equal(waiting, s.n_waiting);
    assert_true(s.n_waiting + s.info.n_busy >= n_alive);
    n_looks++;
    return 0;
}

// ---- the session, and what else slots.c uses

int hearth_seq_new(struct hearth_session *session, struct hearth_error *err)
{
    (void)session;
    assert_true(s.n_waiting + s.info.n_busy >= n_alive); // this takes time: others do look now
    n_alive -= no_sequence;
    return no_sequence ? hearth_fail(err, HEARTH_E_BUDGET, "no sequence") : 1;
}

void hearth_seq_free(struct hearth_session *session, int seq)
{
    (void)session;
    (void)seq;
}

int hearth_seq_fork(struct hearth_session *session, int seq, int n, struct hearth_error *err)
{
    (void)seq;
    (void)n;
    return hearth_seq_new(session, err);
}

int hearth_seq_length(const struct hearth_session *session, int seq)
{
    (void)session;
    (void)seq;
    return 0;
}

int64_t hearth_session_kv_tokens(const struct hearth_session *session)
{
    (void)session;
    return room;
}

int hearth_common_prefix(const hearth_token *a, int na, const hearth_token *b, int nb)
{
    (void)a;
    (void)na;
    (void)b;
    (void)nb;
    return 0;
}

int hearth_prefixes_find(const struct hearth_prefixes *p, const hearth_token *list, int n, int *entry)
{
    (void)p;
    (void)list;
    (void)n;
    *entry = -1;
    return 0;
}

int hearth_prefixes_take(struct hearth_prefixes *p, int entry, int n, struct hearth_error *err)
{
    (void)p;
    (void)entry;
    (void)n;
    return hearth_seq_new(NULL, err);
}

void hearth_prefixes_keep(struct hearth_prefixes *p, int seq, const hearth_token *list, int n, int n_offered)
{
    (void)p;
    (void)seq;
    (void)list;
    (void)n;
    (void)n_offered;
    n_alive--; // it ends next
}

bool hearth_prefixes_drop(struct hearth_prefixes *p)
{
    (void)p;
    return false;
}

void hearth_prefix_files_interrupt(struct hearth_prefix_files *files)
{
    (void)files;
}

bool hearth_disk_goes_on(struct hearth_scheduler *scheduler, const struct hearth_job *job, int done)
{
    (void)scheduler;
    (void)job;
    (void)done;
    return false;
}

void hearth_disk_begin(struct hearth_scheduler *scheduler, struct hearth_slot *slot)
{
    (void)scheduler;
    (void)slot;
}

void hearth_saved_note(struct hearth_scheduler *scheduler, int slot, const hearth_token *list, int n)
{
    (void)scheduler;
    (void)slot;
    (void)list;
    (void)n;
}

void hearth_job_end(struct hearth_job *job, enum hearth_end end, const char *message)
{
    (void)job;
    (void)end;
    (void)message;
    n_ended++;
}

void hearth_task_hold(struct hearth_task *t)
{
    (void)t;
}

void hearth_task_drop(struct hearth_task *t)
{
    (void)t;
}

// ---- plays

static void begin(int64_t kv_tokens)
{
    s = (struct hearth_scheduler){.n_slots = SLOTS, .slots = slots, .max_waiting = JOBS, .room = LONG};
    s.end = &s.first;
    memset(slots, 0, sizeof slots);
    task = (struct hearth_task){.jobs = jobs, .n_jobs = JOBS};
    n_alive = n_looks = n_ended = 0;
    no_sequence = false;
    room = kv_tokens;
    for (int i = 0; i < JOBS; i++) {
        jobs[i] = (struct hearth_job){
            .task = &task, .index = i, .tokens = tokens, .n_tokens = 100, .n_prompt = 100, .slot = -1};
        hearth_queue_next(&s, &task);
        n_alive++;
    }
}

static struct hearth_slot *slot_of(int job)
{
    for (int i = 0; i < SLOTS; i++)
        if (slots[i].job == &jobs[job])
            return &slots[i];
    return NULL;
}

static void test_begins(void **state)
{
    (void)state;
    begin(1 << 20);
    hearth_slots_fill(&s);
    assert_int_equal(s.info.n_busy, SLOTS);
    assert_int_equal(s.n_waiting, JOBS - SLOTS);
    assert_true(n_looks > 0);
}

// The text that came last makes room, is first in the queue, and goes on although the server ends.
static void test_makes_room(void **state)
{
    (void)state;
    begin(1 << 20);
    hearth_slots_fill(&s);
    hearth_slots_make_room(&s);
    assert_int_equal(s.info.preempted, 1);
    assert_ptr_equal(s.first, &jobs[2]);
    s.ending = true;
    n_alive = SLOTS; // the others have not begun, so they end
    hearth_slots_end_unwanted(&s);
    assert_int_equal(n_ended, JOBS - SLOTS);
    for (int i = 0; i < 2; i++)
        hearth_slot_end(&s, slot_of(i), HEARTH_END_LENGTH, NULL);
    hearth_slots_fill(&s); // all that is left is on its way from the queue to a slot
    assert_non_null(slot_of(2));
    assert_int_equal(s.info.n_busy, 1);
    hearth_slot_end(&s, slot_of(2), HEARTH_END_LENGTH, NULL);
    assert_int_equal(n_ended, JOBS);
    assert_int_equal(n_alive, 0);
}

static void test_no_sequence(void **state)
{
    (void)state;
    begin(1 << 20);
    no_sequence = true;
    hearth_slots_fill(&s);
    assert_int_equal(n_ended, JOBS);
    assert_int_equal(s.info.n_busy, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_begins),
        cmocka_unit_test(test_makes_room),
        cmocka_unit_test(test_no_sequence),
    };
    return cmocka_run_group_tests_name("slots", tests, NULL, NULL);
}
