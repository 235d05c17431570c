// SPDX-License-Identifier: MIT
// Windows: sockets that listen.
#include <winsock2.h>
#include <ws2tcpip.h>

#include "base/os_windows.h"

#include <stdio.h>
#include <string.h>

#include "serve/listen.h"

#define BACKLOG 511

void hearth_listen_close(hearth_socket socket)
{
    closesocket((SOCKET)socket);
}

// There are no sockets in files.
void hearth_listen_clean(const char *host)
{
    (void)host;
}

#define SYSTEM_SOCKET SOCKET
#include "serve/listen_tmpl.h"

// Without it any program could take the port away.
static SOCKET try(const struct addrinfo *at)
{
    const SOCKET fd = socket(at->ai_family, SOCK_STREAM, at->ai_protocol);
    const BOOL on = TRUE;
    if (fd == INVALID_SOCKET)
        return fd;
    (void)SetHandleInformation((HANDLE)fd, HANDLE_FLAG_INHERIT, 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_EXCLUSIVEADDRUSE, (const char *)&on, sizeof on);
    if (bind(fd, at->ai_addr, (int)at->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    const int error = WSAGetLastError();
    closesocket(fd);
    WSASetLastError(error);
    return INVALID_SOCKET;
}

hearth_socket hearth_listen(const char *host, int port, char *address, size_t size, bool *local,
                            struct hearth_error *err)
{
    const size_t n = strlen(host);
    WSADATA data;
    *local = true;
    if (n > 5 && !strcmp(host + n - 5, ".sock"))
        return hearth_fail_param(err, HEARTH_E_UNSUPPORTED, "host",
                                 "host %s: there are no sockets in files on Windows", host);
    if (WSAStartup(MAKEWORD(2, 2), &data))
        return hearth_fail(err, HEARTH_E_UNSUPPORTED, "this system has no network");
    struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM}, *found = NULL;
    char service[16], why[256];
    snprintf(service, sizeof service, "%d", port);
    const int rc = getaddrinfo(host, service, &hints, &found);
    if (rc) {
        hearth_windows_error_text((DWORD)rc, why, sizeof why);
        return hearth_fail_param(err, HEARTH_E_INVALID, "host", "host %s: %s", host, why);
    }
    SOCKET fd = INVALID_SOCKET;
    for (const struct addrinfo *at = found; at && fd == INVALID_SOCKET; at = at->ai_next)
        fd = try(at);
    const int error = WSAGetLastError();
    freeaddrinfo(found);
    if (fd == INVALID_SOCKET && (error == WSAEADDRINUSE || error == WSAEACCES))
        return hearth_fail(err, HEARTH_E_IO, "%s port %d is in use by another program; --port names another",
                           host, port);
    if (fd == INVALID_SOCKET)
        return hearth_fail_windows(err, (DWORD)error, "cannot listen on %s port %d", host, port);
    describe(fd, address, size, local);
    return (hearth_socket)fd;
}
