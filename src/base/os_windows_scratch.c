// SPDX-License-Identifier: MIT
// Windows: scratch files, see os.h. They have names that nobody can open, and go with their last handle.
#include "base/os_windows.h"

#include <stdlib.h>
#include <string.h>
#include <winioctl.h>

#include "base/memory.h"
#include "base/os.h"

struct hearth_scratch {
    HANDLE handle;
    char *folder;
};

int hearth_scratch_open(struct hearth_scratch **out, const char *beside, struct hearth_error *err)
{
    struct hearth_scratch *s = hearth_calloc(1, sizeof *s);
    const size_t n = hearth_windows_folder_length(beside);
    char name[4096];
    DWORD got;
    *out = s;
    if (s) {
        s->handle = INVALID_HANDLE_VALUE;
        s->folder = n ? hearth_strndup(beside, n) : hearth_strndup("./", 2);
    }
    if (!s || !s->folder) {
        hearth_scratch_close(out);
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for a scratch file");
    }
    snprintf(name, sizeof name, "%s.hearth-scratch-%016llx", s->folder,
             (unsigned long long)hearth_random_u64());
    s->handle = hearth_windows_open(name, GENERIC_READ | GENERIC_WRITE, 0, CREATE_NEW,
                                    FILE_ATTRIBUTE_TEMPORARY | FILE_FLAG_DELETE_ON_CLOSE);
    if (s->handle != INVALID_HANDLE_VALUE) {
        (void)DeviceIoControl(s->handle, FSCTL_SET_SPARSE, NULL, 0, NULL, 0, &got, NULL);
        return HEARTH_OK;
    }
    const int rc = hearth_fail_windows(err, GetLastError(), "%s: cannot make a scratch file", s->folder);
    hearth_scratch_close(out);
    return rc;
}

void hearth_scratch_close(struct hearth_scratch **scratch)
{
    struct hearth_scratch *s = *scratch;
    if (!s)
        return;
    if (s->handle != INVALID_HANDLE_VALUE)
        CloseHandle(s->handle);
    free(s->folder);
    free(s);
    *scratch = NULL;
}

int hearth_scratch_write(struct hearth_scratch *s, const void *src, size_t n, uint64_t offset,
                         struct hearth_error *err)
{
    for (const char *from = src; n;) {
        OVERLAPPED at = hearth_windows_at(offset);
        DWORD done = 0;
        if (!WriteFile(s->handle, from, (DWORD)(n < HEARTH_MOST_TRANSFER ? n : HEARTH_MOST_TRANSFER), &done,
                       &at) ||
            !done)
            return hearth_fail_windows(err, GetLastError(), "%s: cannot write to a scratch file", s->folder);
        from += done;
        n -= done;
        offset += done;
    }
    return HEARTH_OK;
}

int hearth_scratch_read(struct hearth_scratch *s, void *dst, size_t n, uint64_t offset,
                        struct hearth_error *err)
{
    for (char *to = dst; n;) {
        OVERLAPPED at = hearth_windows_at(offset);
        DWORD done = 0;
        if (!ReadFile(s->handle, to, (DWORD)(n < HEARTH_MOST_TRANSFER ? n : HEARTH_MOST_TRANSFER), &done,
                      &at) &&
            GetLastError() != ERROR_HANDLE_EOF)
            return hearth_fail_windows(err, GetLastError(), "%s: cannot read a scratch file", s->folder);
        if (!done) { // never written
            memset(to, 0, n);
            return HEARTH_OK;
        }
        to += done;
        n -= done;
        offset += done;
    }
    return HEARTH_OK;
}
