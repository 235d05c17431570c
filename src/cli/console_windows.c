// SPDX-License-Identifier: MIT
// Windows: the console, and what comes for Ctrl-C.
#include "base/os_windows.h"

#include <fcntl.h>
#include <io.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "cli/console.h"
#include "cli/terminal.h"

static HANDLE handle_of(int stream)
{
    const intptr_t handle = _get_osfhandle(stream);
    return handle == -1 || handle == -2 ? INVALID_HANDLE_VALUE : (HANDLE)handle;
}

// ---- the standard streams

static UINT code_page_before;

static void give_code_page_back(void)
{
    SetConsoleOutputCP(code_page_before);
}

void hearth_console_begin(void)
{
    for (int i = 0; i <= 2; i++) {
        DWORD mode;
        (void)_setmode(i, _O_BINARY);
        if (i && GetConsoleMode(handle_of(i), &mode))
            SetConsoleMode(handle_of(i), mode | ENABLE_PROCESSED_OUTPUT | ENABLE_VIRTUAL_TERMINAL_PROCESSING);
    }
    code_page_before = GetConsoleOutputCP();
    if (code_page_before && code_page_before != CP_UTF8 && SetConsoleOutputCP(CP_UTF8))
        atexit(give_code_page_back);
}

bool hearth_console_is_terminal(int stream)
{
    DWORD mode;
    return GetConsoleMode(handle_of(stream), &mode);
}

int hearth_console_columns(int stream)
{
    CONSOLE_SCREEN_BUFFER_INFO info;
    DWORD mode;
    const HANDLE handle = handle_of(stream);
    // Old consoles do not know the sequences that the progress line is drawn with.
    if (!GetConsoleMode(handle, &mode) || !(mode & ENABLE_VIRTUAL_TERMINAL_PROCESSING))
        return 0;
    return GetConsoleScreenBufferInfo(handle, &info) ? info.srWindow.Right - info.srWindow.Left + 1 : 80;
}

bool hearth_console_same_place(void)
{
    struct hearth_path out, err;
    if (!hearth_stream_look(1, &out) || !hearth_stream_look(2, &err) || out.kind != err.kind)
        return false;
    if (out.kind == HEARTH_PATH_FILE)
        return out.device == err.device && out.number == err.number;
    return hearth_console_is_terminal(1) && hearth_console_is_terminal(2);
}

// Writers of a pipe cannot see what is left in it.
size_t hearth_console_unread(void)
{
    return 0;
}

void hearth_console_put(int stream, const char *bytes, size_t n)
{
    DWORD written;
    while (n && WriteFile(handle_of(stream), bytes, (DWORD)n, &written, NULL) && written) {
        bytes += written;
        n -= written;
    }
}

bool hearth_console_has_input(void)
{
    struct hearth_path at;
    DWORD waits = 0;
    if (!hearth_stream_look(0, &at))
        return false;
    if (at.kind == HEARTH_PATH_FILE)
        return _telli64(0) < (int64_t)at.size;
    return at.kind == HEARTH_PATH_PIPE && PeekNamedPipe(handle_of(0), NULL, 0, NULL, &waits, NULL) &&
           waits > 0;
}

bool hearth_console_waits(int ms)
{
    struct hearth_path at;
    DWORD waits = 0;
    if (!hearth_stream_look(0, &at) || at.kind == HEARTH_PATH_FILE)
        return true;
    if (at.kind != HEARTH_PATH_PIPE)
        return WaitForSingleObject(handle_of(0), (DWORD)ms) == WAIT_OBJECT_0;
    for (int left = ms;; left -= 10) {
        if (!PeekNamedPipe(handle_of(0), NULL, 0, NULL, &waits, NULL) || waits) // it failed: the end
            return true;
        if (left <= 0)
            return false;
        hearth_sleep_ns(10000000);
    }
}

bool hearth_console_is_in_front(void)
{
    return true;
}

// ---- input

// What was typed comes as UTF-16, a line at a time.
static struct {
    char bytes[3 * 512];
    int n, at;
} typed;

// 1: there is more in `typed`; 0: the end; -1: Ctrl-C.
static int read_console(HANDLE console, bool (*interrupted)(void))
{
    wchar_t wide[512];
    DWORD n = 0;
    static wchar_t half; // of a character, that the last read ended with
    wide[0] = half;
    const DWORD kept = half != 0;
    half = 0;
    const bool ok = ReadConsoleW(console, wide + kept, 511 - kept, &n, NULL);
    if (ok && !n) // the handler of Ctrl-C runs in a thread of its own
        for (int i = 0; i < 20 && !interrupted(); i++)
            hearth_sleep_ns(5000000);
    if (interrupted())
        return -1;
    if (!ok || !n || (!kept && wide[0] == 26)) // Ctrl-Z at the start of a line
        return 0;
    n += kept;
    if (IS_HIGH_SURROGATE(wide[n - 1]))
        half = wide[--n];
    typed.at = 0;
    typed.n = WideCharToMultiByte(CP_UTF8, 0, wide, (int)n, typed.bytes, sizeof typed.bytes, NULL, NULL);
    return 1;
}

int hearth_console_byte(char *out, bool (*interrupted)(void))
{
    const HANDLE in = handle_of(0);
    DWORD n = 0;
    while (!interrupted()) {
        if (!hearth_console_is_terminal(0))
            return ReadFile(in, out, 1, &n, NULL) && n == 1;
        if (typed.at < typed.n) {
            *out = typed.bytes[typed.at++];
            return 1;
        }
        const int more = read_console(in, interrupted);
        if (more <= 0)
            return more;
    }
    typed.at = typed.n = 0;
    return -1;
}

// ---- the terminal as it was

static DWORD mode_before;
static atomic_bool kept;

void hearth_console_keep(void)
{
    atomic_store(&kept, GetConsoleMode(handle_of(0), &mode_before));
}

void hearth_console_give_back(void)
{
    if (atomic_load(&kept))
        SetConsoleMode(handle_of(0), mode_before);
}

// ---- Ctrl-C

static _Atomic(bool (*)(void)) on_interrupt;
static _Atomic(void (*)(void)) on_stop_server;

// In a thread of the system's. Who is asked to end for good has some seconds left after that.
static BOOL WINAPI on_event(DWORD event)
{
    void (*const stop)(void) = atomic_load(&on_stop_server);
    bool (*const interrupt)(void) = atomic_load(&on_interrupt);
    const bool ends = event != CTRL_C_EVENT && event != CTRL_BREAK_EVENT;
    if (stop) {
        stop();
        if (ends)
            Sleep(INFINITE); // the process ends when the server has
        return TRUE;
    }
    if (!ends && interrupt && interrupt())
        return TRUE;
    hearth_terminal_give_back_at_once();
    hearth_terminal_clear_at_once();
    if (code_page_before)
        give_code_page_back();
    return FALSE;
}

void hearth_console_catch(bool (*interrupt)(void))
{
    atomic_store(&on_interrupt, interrupt);
    SetConsoleCtrlHandler(on_event, TRUE);
}

void hearth_console_catch_input(bool on)
{
    (void)on;
}

void hearth_console_catch_for_server(void (*stop)(void))
{
    atomic_store(&on_stop_server, stop);
    SetConsoleCtrlHandler(on_event, TRUE);
}
