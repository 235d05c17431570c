// SPDX-License-Identifier: MIT
// For the command-line tests: a client that sends its request and says at once that nothing more comes, but reads on.
// half_close PORT <REQUEST >ANSWER: to 127.0.0.1. Exit status 1: there is no answer at all.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static int copy(int from, int to)
{
    char data[4096];
    ssize_t n;
    int some = 0;
    while ((n = read(from, data, sizeof data)) > 0) {
        some = 1;
        if (write(to, data, (size_t)n) != n)
            return 0;
    }
    return some;
}

int main(int argc, char **argv)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (argc < 2 || fd < 0)
        return 2;
    at.sin_port = htons((uint16_t)strtoul(argv[1], NULL, 10));
    if (connect(fd, (struct sockaddr *)&at, sizeof at) || !copy(STDIN_FILENO, fd) || shutdown(fd, SHUT_WR))
        return 2;
    return !copy(fd, STDOUT_FILENO);
}
