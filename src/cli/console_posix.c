// SPDX-License-Identifier: MIT
// Linux and macOS: the terminal and signals.
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <termios.h>
#include <unistd.h>

#include "base/os.h"
#include "cli/console.h"
#include "cli/terminal.h"

// ---- the standard streams

void hearth_console_begin(void)
{
    signal(SIGXFSZ, SIG_IGN);
}

bool hearth_console_is_terminal(int stream)
{
    return isatty(stream);
}

int hearth_console_columns(int stream)
{
    struct winsize size;
    if (!isatty(stream))
        return 0;
    return ioctl(stream, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
}

bool hearth_console_same_place(void)
{
    struct hearth_path out, err;
    return hearth_stream_look(STDOUT_FILENO, &out) && hearth_stream_look(STDERR_FILENO, &err) &&
           out.device == err.device && out.number == err.number;
}

size_t hearth_console_unread(void)
{
    int n = 0;
    return ioctl(STDOUT_FILENO, FIONREAD, &n) || n < 0 ? 0 : (size_t)n;
}

void hearth_console_put(int stream, const char *bytes, size_t n)
{
    while (n) {
        const ssize_t written = write(stream, bytes, n);
        if (written <= 0)
            return;
        bytes += written;
        n -= (size_t)written;
    }
}

bool hearth_console_has_input(void)
{
    struct hearth_path at;
    struct pollfd fd = {.fd = STDIN_FILENO, .events = POLLIN};
    if (!hearth_stream_look(STDIN_FILENO, &at))
        return false;
    if (at.kind == HEARTH_PATH_FILE) {
        const off_t read = lseek(STDIN_FILENO, 0, SEEK_CUR);
        return read >= 0 && (uint64_t)read < at.size;
    }
    return at.kind == HEARTH_PATH_PIPE && poll(&fd, 1, 0) > 0 && (fd.revents & POLLIN);
}

bool hearth_console_waits(int ms)
{
    struct pollfd fd = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&fd, 1, ms) != 0;
}

bool hearth_console_is_in_front(void)
{
    return tcgetpgrp(STDIN_FILENO) == getpgrp();
}

// ---- the terminal as it was

static struct termios before;
static atomic_bool kept;

void hearth_console_keep(void)
{
    atomic_store(&kept, tcgetattr(STDIN_FILENO, &before) == 0);
}

void hearth_console_give_back(void)
{
    // In the background it would stop the program, which is to end.
    if (atomic_load(&kept) && hearth_console_is_in_front())
        tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

// ---- signals

static bool (*on_interrupt)(void);
static void (*on_stop_server)(void);

// Has the signal do what it does to a program that does not know it, with a clean terminal.
static void on_end(int sig)
{
    hearth_terminal_clear_at_once();
    signal(sig, SIG_DFL);
    raise(sig);
}

static void on_kill(int sig)
{
    hearth_terminal_give_back_at_once();
    on_end(sig);
}

static void on_signal(int sig)
{
    const int error = errno;
    if (!on_interrupt())
        on_kill(sig);
    errno = error;
}

static void catch_signal(int sig, void (*handler)(int), int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigaction(sig, &action, NULL);
}

// Ctrl-Z: the shell's line must not follow a progress line, which comes back afterwards by itself.
static void on_stop(int sig)
{
    const int error = errno;
    on_end(sig);
    catch_signal(sig, on_stop, (int)SA_NODEFER | SA_RESTART);
    errno = error;
}

// What the program was started to ignore (nohup) stays ignored.
static void catch_unless_ignored(int sig, void (*handler)(int), int flags)
{
    struct sigaction now;
    if (!sigaction(sig, NULL, &now) && now.sa_handler != SIG_IGN)
        catch_signal(sig, handler, flags | SA_RESTART);
}

void hearth_console_catch(bool (*interrupt)(void))
{
    on_interrupt = interrupt;
    catch_signal(SIGINT, on_signal, SA_RESTART);
    catch_signal(SIGTERM, on_signal, SA_RESTART);
    catch_unless_ignored(SIGHUP, on_kill, 0);
    catch_unless_ignored(SIGQUIT, on_kill, 0);
    catch_unless_ignored(SIGTSTP, on_stop, (int)SA_NODEFER);
}

void hearth_console_catch_input(bool on)
{
    catch_signal(SIGINT, on_signal, on ? 0 : SA_RESTART);
    signal(SIGTERM, on_kill);
}

// Waits for standard input, or a signal.
static void await_input(bool (*interrupted)(void))
{
    fd_set input;
    sigset_t blocked, others;
    int ready = 0;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGINT);
    sigaddset(&blocked, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &blocked, &others); // so that it cannot come between the question and the wait
    while (!interrupted() && ready <= 0) {
        FD_ZERO(&input);
        FD_SET(STDIN_FILENO, &input);
        ready = pselect(STDIN_FILENO + 1, &input, NULL, NULL, NULL, &others);
        if (ready < 0 && errno != EINTR)
            break;
    }
    pthread_sigmask(SIG_SETMASK, &others, NULL);
}

// One byte at a time: what stands behind a last line is the next program's.
int hearth_console_byte(char *out, bool (*interrupted)(void))
{
    struct pollfd fd = {.fd = STDIN_FILENO, .events = POLLIN};
    if (poll(&fd, 1, 0) <= 0 || !(fd.revents & POLLIN)) // of a pipe or a file, most bytes are there
        await_input(interrupted);
    while (!interrupted()) {
        const ssize_t n = read(STDIN_FILENO, out, 1);
        if (n >= 0 || errno != EINTR)
            return n > 0;
    }
    return -1;
}

static void on_server_signal(int sig)
{
    const int error = errno;
    (void)sig;
    on_stop_server();
    errno = error;
}

void hearth_console_catch_for_server(void (*stop)(void))
{
    on_stop_server = stop;
    catch_signal(SIGINT, on_server_signal, SA_RESTART);
    catch_signal(SIGTERM, on_server_signal, SA_RESTART);
    signal(SIGPIPE, SIG_IGN);
}
