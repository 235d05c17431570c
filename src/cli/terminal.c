// SPDX-License-Identifier: MIT
// The progress line, and who writes to the terminal when.
#include "cli/terminal.h"

#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>

#include "base/os.h"
#include "base/os_threads.h"
#include "cli/console.h"

#define REDRAW_NS  100000000    // ten times a second
#define APPEAR_NS  300000000ull // what takes less shows no line
#define BAR_WIDEST 30
#define BAR_LEAST  8
#define TAIL_LEAST 30 // columns set aside behind the bar, so that its end does not move
#define LINE_MAX   400
#define STACK_SIZE ((size_t)256 << 10)
#define CLEAR      "\r\033[K"

struct progress {
    enum hearth_progress_unit unit;
    double total, done;
    uint64_t start; // when it began
    char what[160];
    bool open;
    char line[LINE_MAX]; // as it was drawn last
};

// Messages may come from any of the library's threads.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool switched_on = true;
static struct progress now;
static atomic_bool shown;   // there is a progress line on the terminal
static bool text_line_open; // standard output's last byte was no newline
static bool values_open;    // there are values on standard error's last line
static bool undrained;      // the pipe that is standard output may still hold text

int hearth_terminal_columns(FILE *stream)
{
    return hearth_console_columns(stream == stderr ? 2 : 1);
}

int hearth_terminal_width(FILE *stream)
{
    const int columns = hearth_terminal_columns(stream);
    return columns ? columns : 80;
}

// ---- where the streams go

static bool is_pipe(int stream)
{
    struct hearth_path at;
    return hearth_stream_look(stream, &at) && at.kind == HEARTH_PATH_PIPE;
}

// A pipe may end on the terminal, as in `hearth ... | cat`.
bool hearth_terminal_shows_text(void)
{
    static atomic_int answer; // asked for each token; 0: not known yet
    int known = atomic_load(&answer);
    if (!known) {
        known = hearth_console_is_terminal(2) && (hearth_console_is_terminal(1) || is_pipe(1)) ? 1 : -1;
        atomic_store(&answer, known);
    }
    return known > 0;
}

// Gives the reader of a pipe time to show what it was sent, so that what standard error says comes after it.
// Who does not read is not waited for.
static void drain(void)
{
    const uint64_t moment = 5000000;
    if (!undrained)
        return;
    undrained = false;
    if (!hearth_console_is_terminal(2) || !is_pipe(1))
        return;
    for (int i = 0; i < 40 && hearth_console_unread(); i++)
        hearth_sleep_ns(moment);
    hearth_sleep_ns(moment);
}

// ---- the line

static void put(const char *bytes, size_t n)
{
    hearth_console_put(2, bytes, n);
}

void hearth_terminal_clear_at_once(void)
{
    if (atomic_exchange(&shown, false))
        put(CLEAR, sizeof CLEAR - 1);
}

static void clear(void)
{
    hearth_terminal_clear_at_once();
    now.line[0] = '\0';
}

static int digits(double x)
{
    int n = 1;
    for (; x >= 9.5; x /= 10)
        n++;
    return n;
}

// "256 of 589 tokens"
static void describe(const struct progress *p, char *out, size_t size)
{
    if (p->unit == HEARTH_PROGRESS_TOKENS && p->total > 0)
        snprintf(out, size, "hearth: %s %*.0f of %.0f tokens", p->what, digits(p->total),
                 p->done < p->total ? floor(p->done) : p->total, p->total);
    else if (p->unit == HEARTH_PROGRESS_TOKENS)
        snprintf(out, size, "hearth: %s %.0f tokens", p->what, p->done);
    else
        snprintf(out, size, "hearth: %s", p->what);
}

static void describe_rate(const struct progress *p, double seconds, char *out, size_t size)
{
    const double rate = p->done / seconds;
    out[0] = '\0';
    if (!(rate > 0))
        return;
    if (p->unit == HEARTH_PROGRESS_TOKENS)
        snprintf(out, size, rate < 10 ? ", %.1f tok/s" : ", %.0f tok/s", rate);
    else if (p->unit == HEARTH_PROGRESS_BYTES)
        snprintf(out, size, rate < 1e9 ? ", %.0f MB/s" : ", %.1f GB/s", rate < 1e9 ? rate / 1e6 : rate / 1e9);
}

static void describe_left(const struct progress *p, double seconds, char *out, size_t size)
{
    out[0] = '\0';
    if (!(p->done > 0) || !(p->total > 0) || p->done >= p->total)
        return;
    const double left = seconds / p->done * (p->total - p->done);
    if (left < 99.5)
        snprintf(out, size, ", %.0f s left", left < 1 ? 1 : left);
    else if (left < 99.5 * 60)
        snprintf(out, size, ", %.0f min left", left / 60);
    else if (left < 1e6)
        snprintf(out, size, ", %.0f h left", left / 3600);
}

// As much as fits into the columns; the last ones stay free: some terminals wrap there, and Ctrl-C shows as
// ^C.
static void compose(const struct progress *p, uint64_t time, int columns, char line[LINE_MAX])
{
    static const char hashes[] = "##############################";
    char head[240], share[16] = "", rate[32], left[32];
    const double seconds = (double)(time - p->start) / 1e9, part = p->total > 0 ? p->done / p->total : 0;
    const double bounded = part < 1 ? part : 1;
    int room = columns - 3;
    room = room < 1 ? 1 : room < LINE_MAX - 1 ? room : LINE_MAX - 1;
    describe(p, head, sizeof head);
    describe_rate(p, seconds, rate, sizeof rate);
    describe_left(p, seconds, left, sizeof left);
    if (p->total > 0)
        snprintf(share, sizeof share, " %3d %%", (int)(bounded * 100));
    int used = (int)strlen(head);
    const int tail = (int)(strlen(share) + strlen(rate) + strlen(left));
    int bar = room - used - (tail > TAIL_LEAST ? tail : TAIL_LEAST) - 3;
    bar = bar > BAR_WIDEST ? BAR_WIDEST : bar;
    if (bar < BAR_LEAST) // then its end has to move
        bar = room - used - tail - 3 < BAR_LEAST ? 0 : BAR_LEAST;
    if (p->total > 0 && bar) {
        const int filled = (int)(bounded * bar);
        snprintf(line, LINE_MAX, "%s [%.*s%*s]%s%s%s", head, filled, hashes, bar - filled, "", share, rate,
                 left);
        return;
    }
    // Narrow: no bar, and if it must be no "hearth: " either.
    snprintf(line, (size_t)room + 1, "%s",
             head + (used + (int)strlen(share) > room ? strlen("hearth: ") : 0));
    used = (int)strlen(line);
    const char *const pieces[] = {share, left, rate};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        if (used + (int)strlen(pieces[i]) <= room)
            used += snprintf(line + used, LINE_MAX - (size_t)used, "%s", pieces[i]);
}

static void draw(void)
{
    char line[LINE_MAX], out[LINE_MAX + 16];
    const int columns = hearth_terminal_columns(stderr);
    if (!columns)
        return;
    compose(&now, hearth_now_ns(), columns, line);
    if (!strcmp(line, now.line) && atomic_load(&shown))
        return;
    drain();
    snprintf(now.line, sizeof now.line, "%s", line);
    const int n = snprintf(out, sizeof out, "\r%s\033[K", line);
    // Before it is drawn: a signal in between clears a line that is not there, which does no harm.
    atomic_store(&shown, true);
    put(out, (size_t)n);
}

// Draws now and then, also when nobody says how far things are.
static void *draw_forever(void *arg)
{
    (void)arg;
    for (;;) {
        hearth_sleep_ns(REDRAW_NS);
        pthread_mutex_lock(&lock);
        if (now.open && hearth_now_ns() - now.start >= APPEAR_NS &&
            !(text_line_open && hearth_terminal_shows_text()))
            draw();
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

// Once, and where there is somebody to see it. Signals are for other threads. Without the thread nothing is
// drawn.
static void start_drawing(void)
{
    static bool started;
    pthread_t thread;
    if (started || !now.open || !hearth_console_is_terminal(2))
        return;
    started = true;
    if (!hearth_thread_start(&thread, STACK_SIZE, draw_forever, NULL))
        pthread_detach(thread);
}

void hearth_progress_switch(bool on)
{
    switched_on = on;
}

void hearth_progress_begin(enum hearth_progress_unit unit, double total, const char *fmt, ...)
{
    va_list args;
    pthread_mutex_lock(&lock);
    clear();
    now = (struct progress){.unit = unit, .total = total, .start = hearth_now_ns(), .open = switched_on};
    start_drawing();
    va_start(args, fmt);
    vsnprintf(now.what, sizeof now.what, fmt, args);
    va_end(args);
    pthread_mutex_unlock(&lock);
}

void hearth_progress_set(double done)
{
    pthread_mutex_lock(&lock);
    now.done = done;
    pthread_mutex_unlock(&lock);
}

void hearth_progress_share(double share)
{
    pthread_mutex_lock(&lock);
    now.done = share * now.total;
    pthread_mutex_unlock(&lock);
}

void hearth_progress_total(double total)
{
    pthread_mutex_lock(&lock);
    now.total = total;
    pthread_mutex_unlock(&lock);
}

void hearth_progress_name(const char *fmt, ...)
{
    va_list args;
    pthread_mutex_lock(&lock);
    va_start(args, fmt);
    vsnprintf(now.what, sizeof now.what, fmt, args);
    va_end(args);
    pthread_mutex_unlock(&lock);
}

void hearth_progress_end(void)
{
    pthread_mutex_lock(&lock);
    clear();
    now.open = false;
    pthread_mutex_unlock(&lock);
}

// ---- what is written beside it

void hearth_terminal_message(void)
{
    pthread_mutex_lock(&lock);
    clear();
    fflush(stdout); // an error of it stays set, and is reported at the end
    drain();
    if (text_line_open && (hearth_console_same_place() || hearth_terminal_shows_text())) {
        put("\n", 1);
        text_line_open = false;
    }
    if (values_open)
        put("\n", 1);
    values_open = false;
    undrained = true; // who calls may write to either stream
    pthread_mutex_unlock(&lock);
}

void hearth_terminal_value(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    values_open = true;
}

bool hearth_terminal_text(const char *text, size_t n)
{
    pthread_mutex_lock(&lock);
    if (hearth_terminal_shows_text())
        clear();
    if (n) {
        text_line_open = text[n - 1] != '\n';
        undrained = true;
    }
    pthread_mutex_unlock(&lock);
    return fwrite(text, 1, n, stdout) == n;
}

void hearth_terminal_end_text(void)
{
    if (text_line_open)
        hearth_terminal_text("\n", 1);
}

// ---- ends that nobody expects

static atomic_bool editing, dimmed;

void hearth_terminal_editing(bool on)
{
    atomic_store(&editing, on);
}

void hearth_terminal_dimmed(bool on)
{
    atomic_store(&dimmed, on);
}

void hearth_terminal_give_back_at_once(void)
{
    static const char normal[] = "\033[22m";
    if (atomic_exchange(&dimmed, false) && hearth_console_is_terminal(1))
        hearth_console_put(1, normal, sizeof normal - 1);
    if (!atomic_exchange(&editing, false))
        return;
    put("\n", 1); // the shell's line is not to follow what was typed
    hearth_console_give_back();
}
