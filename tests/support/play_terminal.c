// SPDX-License-Identifier: MIT
// Plays a command in a terminal and prints what a person would see at its end:
//
//     play_terminal [-w COLUMNS] [-h ROWS] [-s TEXT] [-c TEXT] [-z TEXT] [-k TEXT] [-a TEXT=ANSWER] [-t MS]
//                   COMMAND ARGUMENT...
//
// -s, -c, -z, -k and -a happen one after the other, each as soon as the screen shows its TEXT: the screen is
// printed; Ctrl-C is pressed; Ctrl-Z is, then the terminal shows `[stopped]`, and the command goes on after a
// moment; SIGTERM goes to the command; ANSWER is typed, and Enter. -t: so long after the last of them the
// command must have ended, or it is killed. Default, and how long each of them is waited for: 300000.
// Understands carriage return, newline, backspace, ESC [ K and what goes over the last column; any other
// control character shows as `^X`. What scrolls off the screen is gone.
//
// The screens go to standard output, each after a line `--- TEXT`; the last one is `--- end`. A last line on
// standard error has the exit status (128 + signal) and the milliseconds from the last key to the end:
// "status 130, 12 ms". The one before it says how many lines went over the last column: "3 wrapped".
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE_MS = 300000 };
enum { MOST_COLUMNS = 1000, MOST_ROWS = 100, MOST_ACTIONS = 16, CELL = 5 };

// ---- the screen

struct screen {
    char cells[MOST_ROWS][MOST_COLUMNS][CELL]; // one UTF-8 character each
    int columns, rows, x, y;                   // x may be `columns`: the next character wraps
    char pending[CELL];                        // a character or an escape sequence that is not complete
    int n_pending;
    int wrapped; // lines that went over the last column
};

static void erase_from(struct screen *s, int y, int x)
{
    for (; x < s->columns; x++)
        strcpy(s->cells[y][x], " ");
}

static void new_line(struct screen *s)
{
    if (s->y + 1 < s->rows) {
        s->y++;
        return;
    }
    memmove(s->cells[0], s->cells[1], sizeof s->cells[0] * (size_t)(s->rows - 1));
    erase_from(s, s->rows - 1, 0);
}

static void show(struct screen *s, const char *character)
{
    if (s->x == s->columns) {
        new_line(s);
        s->x = 0;
        s->wrapped++;
    }
    strcpy(s->cells[s->y][s->x++], character);
}

static int utf8_length(unsigned char first)
{
    return first < 0xC0 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

static void control(struct screen *s, char c)
{
    if (c == '\r')
        s->x = 0;
    else if (c == '\n')
        new_line(s);
    else if (c == '\b')
        s->x -= s->x > 0;
    else {
        show(s, "^");
        show(s, (char[]){(char)(c ^ 64), 0});
    }
}

static void take(struct screen *s, char c)
{
    if (!s->n_pending && (unsigned char)c < 32 && c != 27) {
        control(s, c);
        return;
    }
    s->pending[s->n_pending++] = c;
    s->pending[s->n_pending] = '\0';
    const bool escape = s->pending[0] == 27;
    if (s->n_pending < (escape ? 3 : utf8_length((unsigned char)s->pending[0])))
        return;
    s->n_pending = 0;
    if (!escape) {
        show(s, s->pending);
    } else if (!strcmp(s->pending + 1, "[K")) {
        erase_from(s, s->y, s->x);
    } else {
        control(s, 27);
        show(s, (char[]){s->pending[1], 0});
        show(s, (char[]){s->pending[2], 0});
    }
}

// The lines down to the last one that has something, without blanks at their ends. The caller frees it.
static char *text_of(const struct screen *s)
{
    char *text = malloc((size_t)s->rows * ((size_t)s->columns * CELL + 1) + 1);
    size_t n = 0, end = 0;
    for (int y = 0; text && y < s->rows; y++) {
        size_t line_end = n;
        for (int x = 0; x < s->columns; x++) {
            const char *cell = s->cells[y][x];
            memcpy(text + n, cell, strlen(cell));
            n += strlen(cell);
            if (strcmp(cell, " ") != 0)
                line_end = n;
        }
        n = line_end;
        text[n++] = '\n';
        if (n > 1 && text[n - 2] != '\n')
            end = n;
    }
    if (text)
        text[end] = '\0';
    return text;
}

// ---- playing

struct action {
    int kind; // 's', 'c', 'z' or 'a'
    const char *text, *answer;
};

struct play {
    struct screen screen;
    struct action actions[MOST_ACTIONS];
    int n_actions, at;
    long limit_ms, acted_ms; // when it began, or the last action was
    long key_ms;             // when the last key was pressed
    int terminal;
    pid_t pid;
    bool got; // something was read the last time
};

static long now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000L + t.tv_nsec / 1000000L;
}

static void print_screen(const struct screen *s, const char *name)
{
    char *text = text_of(s);
    printf("--- %s\n%s", name, text ? text : "(no memory)\n");
    free(text);
}

static void press(struct play *p, char key)
{
    p->key_ms = now_ms();
    if (write(p->terminal, &key, 1) != 1)
        fprintf(stderr, "play_terminal: cannot press a key\n");
}

static void type(struct play *p, const char *answer)
{
    while (*answer)
        press(p, *answer++);
    press(p, '\r');
}

// Whether a signal that a key sent has not reached the command yet: a second one would become one with it.
static bool signal_is_on_its_way(const struct play *p)
{
    char path[40], line[100];
    unsigned long long pending = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)tcgetpgrp(p->terminal));
    FILE *status = fopen(path, "r");
    while (status && fgets(line, sizeof line, status))
        if (!strncmp(line, "ShdPnd:", 7))
            pending = strtoull(line + 7, NULL, 16);
    if (status)
        fclose(status);
    return pending & 1ull << (SIGINT - 1);
}

static void act(struct play *p)
{
    if (p->key_ms && signal_is_on_its_way(p))
        return;
    char *text = p->at < p->n_actions ? text_of(&p->screen) : NULL;
    const struct action *a = &p->actions[p->at];
    const bool stops = p->at && a[-1].kind == 'z'; // which may take a while
    if (text && strstr(text, a->text) && (!stops || strstr(text, "[stopped]"))) {
        p->at++;
        p->acted_ms = now_ms();
        if (a->kind == 's')
            print_screen(&p->screen, a->text);
        else if (a->kind == 'a')
            type(p, a->answer);
        else if (a->kind == 'k')
            kill(-tcgetpgrp(p->terminal), SIGTERM);
        else
            press(p, a->kind == 'c' ? 3 : 26);
    }
    free(text);
}

// So little at a time that nothing scrolls off the screen unseen, however late it is read. False: the terminal
// is closed at its other end.
static bool read_some(struct play *p, int wait_ms)
{
    struct pollfd ready = {.fd = p->terminal, .events = POLLIN};
    char bytes[64];
    p->got = false;
    if (poll(&ready, 1, wait_ms) <= 0)
        return true;
    const ssize_t n = read(p->terminal, bytes, sizeof bytes);
    p->got = n > 0;
    for (ssize_t i = 0; i < n; i++)
        take(&p->screen, bytes[i]);
    return n > 0 || (n < 0 && errno == EINTR);
}

static int play(struct play *p)
{
    int status = 0;
    bool open = true, killed = false;
    p->acted_ms = now_ms();
    for (;;) {
        if (open)
            open = read_some(p, 5);
        act(p);
        if (!(open && p->got) && waitpid(p->pid, &status, open ? WNOHANG : 0) == p->pid)
            break;
        const long limit_ms = p->at < p->n_actions ? PATIENCE_MS : p->limit_ms;
        if (!killed && now_ms() - p->acted_ms > limit_ms) {
            fprintf(stderr, "play_terminal: it takes too long\n");
            kill(tcgetpgrp(p->terminal), SIGKILL);
            killed = true;
        }
    }
    const long end = now_ms();
    for (int idle = 0; open && idle < 20; idle += !p->got) { // what is still in the terminal
        open = read_some(p, 5);
        if (p->at < p->n_actions && p->actions[p->at].kind == 's')
            act(p);
    }
    print_screen(&p->screen, "end");
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    fflush(stdout);
    fprintf(stderr, "%d wrapped\n", p->screen.wrapped);
    fprintf(stderr, "status %d, %ld ms\n", code, p->key_ms ? end - p->key_ms : 0);
    return p->at == p->n_actions ? code : 125;
}

// What a shell does: the command is a job in the foreground, which may be stopped.
static int run_job(char **command)
{
    const pid_t pid = fork();
    if (!pid) {
        setpgid(0, 0);
        tcsetpgrp(0, getpid());
        signal(SIGTTOU, SIG_DFL);
        execvp(command[0], command);
        _exit(127);
    }
    int status = 0;
    while (waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status)) {
        dprintf(1, "[stopped]\n");
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
        kill(-pid, SIGCONT);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static pid_t start(struct play *p, char **command)
{
    p->terminal = posix_openpt(O_RDWR | O_NOCTTY);
    if (p->terminal < 0 || grantpt(p->terminal) || unlockpt(p->terminal))
        return -1;
    const struct winsize size = {.ws_col = (unsigned short)p->screen.columns,
                                 .ws_row = (unsigned short)p->screen.rows};
    const char *name = ptsname(p->terminal);
    if (!name || ioctl(p->terminal, TIOCSWINSZ, &size))
        return -1;
    const pid_t pid = fork();
    if (pid)
        return pid;
    setsid();
    const int end = open(name, O_RDWR);
    if (end < 0)
        _exit(126);
    for (int fd = 0; fd < 3; fd++)
        dup2(end, fd);
    if (end > 2)
        close(end);
    close(p->terminal);
    signal(SIGTTOU, SIG_IGN); // to put the job into the foreground
    _exit(run_job(command));
}

// Splits "TEXT=ANSWER".
static struct action action_of(int kind, char *text)
{
    char *answer = kind == 'a' ? strrchr(text, '=') : NULL;
    if (answer)
        *answer++ = '\0';
    return (struct action){kind, text, answer ? answer : ""};
}

int main(int argc, char **argv)
{
    static struct play p = {.screen = {.columns = 80, .rows = 24}, .limit_ms = PATIENCE_MS};
    int opt;
    while ((opt = getopt(argc, argv, "+w:h:t:s:c:z:k:a:")) != -1) {
        if (opt == 'w')
            p.screen.columns = atoi(optarg);
        else if (opt == 'h')
            p.screen.rows = atoi(optarg);
        else if (opt == 't')
            p.limit_ms = atol(optarg);
        else if (opt != '?' && p.n_actions < MOST_ACTIONS)
            p.actions[p.n_actions++] = action_of(opt, optarg);
        else
            return 126;
    }
    if (optind == argc || p.screen.columns < 1 || p.screen.columns > MOST_COLUMNS || p.screen.rows < 1 ||
        p.screen.rows > MOST_ROWS)
        return 126;
    for (int y = 0; y < p.screen.rows; y++)
        erase_from(&p.screen, y, 0);
    p.pid = start(&p, argv + optind);
    if (p.pid < 0) {
        perror("play_terminal");
        return 77;
    }
    return play(&p);
}
