// SPDX-License-Identifier: MIT
// The address of a socket that listens, as people are told it. The file that includes this has the system's headers for
// sockets, and SYSTEM_SOCKET, the type of their descriptors.

static bool is_loopback(const struct sockaddr *at)
{
    if (at->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)at)->sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)at)->sin6_addr);
}

static void describe(SYSTEM_SOCKET fd, char *address, size_t size, bool *local)
{
    struct sockaddr_storage at;
    socklen_t n = sizeof at;
    char host[64] = "?", port[16] = "?";
    struct sockaddr *any = (struct sockaddr *)&at;
    if (getsockname(fd, any, &n) == 0) {
        getnameinfo(any, n, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
        *local = is_loopback(any);
    }
    snprintf(address, size, strchr(host, ':') ? "http://[%s]:%s" : "http://%s:%s", host, port);
}
