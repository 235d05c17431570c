// SPDX-License-Identifier: MIT
// Windows: the file behind a store, opened for reads that overlap and, where that is possible, know no buffers.
#include "base/os_windows.h"

#include "base/os.h"
#include "store/backend.h"

#define SHARE_ALL (FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE)
// The largest sector of common devices, and the size of a page, to which such reads must be aligned.
#define ALIGN 4096

int hearth_io_file_open(struct hearth_io_file *out, const char *path, bool buffered, struct hearth_error *err)
{
    *out = (struct hearth_io_file){.fd = -1, .align = 1};
    HANDLE handle = INVALID_HANDLE_VALUE;
    struct hearth_path at;
    if (!buffered)
        handle = hearth_windows_open(path, GENERIC_READ, SHARE_ALL, OPEN_EXISTING,
                                     FILE_FLAG_OVERLAPPED | FILE_FLAG_NO_BUFFERING);
    if (handle != INVALID_HANDLE_VALUE) {
        out->direct = true;
        out->align = ALIGN;
    } else {
        handle = hearth_windows_open(path, GENERIC_READ, SHARE_ALL, OPEN_EXISTING,
                                     FILE_FLAG_OVERLAPPED | FILE_FLAG_RANDOM_ACCESS);
    }
    out->fd = (intptr_t)handle; // INVALID_HANDLE_VALUE is -1
    if (handle == INVALID_HANDLE_VALUE || !hearth_windows_look(handle, &at)) {
        const DWORD error = GetLastError();
        hearth_io_file_close(out);
        return hearth_fail_windows(err, error, "%s: cannot be opened", path);
    }
    if (at.kind != HEARTH_PATH_FILE) {
        hearth_io_file_close(out);
        return hearth_fail(err, HEARTH_E_IO, "%s: is not a file", path);
    }
    out->size = at.size;
    return HEARTH_OK;
}

void hearth_io_file_close(struct hearth_io_file *file)
{
    if (file->fd != -1)
        CloseHandle((HANDLE)file->fd);
    file->fd = -1;
}

// The system's cache drops what it likes.
void hearth_io_file_forget(const struct hearth_io_file *file, uint64_t offset, uint64_t length)
{
    (void)file;
    (void)offset;
    (void)length;
}
