// SPDX-License-Identifier: MIT
// Linux and macOS: sockets that listen.
#include "serve/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#ifndef SOCK_CLOEXEC // macOS: programs that are started inherit it
#define SOCK_CLOEXEC 0
#endif
#define BACKLOG 511
// Of a socket's file: who may write there may connect.
#define MODE 0660

static bool is_path(const char *host)
{
    const size_t n = strlen(host);
    return n > 5 && !strcmp(host + n - 5, ".sock");
}

// ---- a socket in the file system

// A socket that a former server left behind goes; one that somebody listens on stays.
static void remove_stale(const char *path, const struct sockaddr_un *at)
{
    struct stat st;
    if (lstat(path, &st) || !S_ISSOCK(st.st_mode))
        return;
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)at, sizeof *at) && errno == ECONNREFUSED)
        unlink(path);
    if (fd >= 0)
        close(fd);
}

static int listen_path(const char *path, char *address, size_t size, struct hearth_error *err)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof at.sun_path)
        return hearth_fail_param(err, HEARTH_E_INVALID, "host",
                                 "host %s is too long for the path of a socket", path);
    memcpy(at.sun_path, path, strlen(path) + 1);
    remove_stale(path, &at);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return hearth_fail_errno(err, errno, "cannot make a socket");
    // Its file is the owner's alone until it has the mode that is meant.
    const bool bound = !fchmod(fd, 0600) && !bind(fd, (const struct sockaddr *)&at, sizeof at);
    if (!bound || chmod(path, MODE) || listen(fd, BACKLOG)) {
        const int error = errno;
        close(fd);
        if (bound)
            unlink(path);
        return hearth_fail_errno(err, error, "cannot listen on %s", path);
    }
    snprintf(address, size, "unix:%s", path);
    return fd;
}

void hearth_listen_close(hearth_socket socket)
{
    close((int)socket);
}

void hearth_listen_clean(const char *host)
{
    if (is_path(host))
        unlink(host);
}

// ---- a port

#define SYSTEM_SOCKET int
#include "serve/listen_tmpl.h"

static int try(const struct addrinfo *at)
{
    const int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, at->ai_protocol), on = 1;
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    const int error = errno;
    close(fd);
    errno = error;
    return -1;
}

hearth_socket hearth_listen(const char *host, int port, char *address, size_t size, bool *local,
                            struct hearth_error *err)
{
    *local = false; // no web page can reach a file, whatever name it gives
    if (is_path(host))
        return listen_path(host, address, size, err);
    *local = true;
    struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM}, *found = NULL;
    char service[16];
    snprintf(service, sizeof service, "%d", port);
    const int rc = getaddrinfo(host, service, &hints, &found);
    if (rc)
        return hearth_fail_param(err, HEARTH_E_INVALID, "host", "host %s: %s", host, gai_strerror(rc));
    int fd = -1;
    for (const struct addrinfo *at = found; at && fd < 0; at = at->ai_next)
        fd = try(at);
    const int error = errno;
    freeaddrinfo(found);
    if (fd < 0 && error == EADDRINUSE)
        return hearth_fail(err, HEARTH_E_IO, "%s port %d is in use by another program; --port names another",
                           host, port);
    if (fd < 0)
        return hearth_fail_errno(err, error, "cannot listen on %s port %d", host, port);
    describe(fd, address, size, local);
    return fd;
}
