// SPDX-License-Identifier: MIT
// HTTP over libmicrohttpd.
#include "serve/http.h"

#include <errno.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/os.h"
#include "serve/access.h"
#include "serve/body.h"
#include "serve/crew.h"
#include "serve/listen.h"
#include "serve/routes.h"
#include "serve/watch.h"

// Bytes that are handed to a socket at once.
#define BLOCK            65536
#define MOST_CONNECTIONS 1000
// Requests that are prepared at once, and from how many bytes, or texts of the answer, on one takes long.
#define MOST_PREPARED 16
#define LARGE         65536
#define MANY_TEXTS    4
// How many of the largest bodies may be on their way at once, in bytes.
#define MOST_HELD 16
// How long a connection says nothing in the middle of a request before it is asked for its end.
#define SILENCE_NS 1000000000u

// A place in a list: the first member of what is in it.
struct link {
    struct link *next, **at; // at: what points here
};

struct hearth_http {
    struct hearth_serving *server;
    struct MHD_Daemon *daemon;
    char address[128];
    bool local; // a port that only this machine can reach
    bool listens;
    struct hearth_watch *watch;
    pthread_mutex_t mutex;
    struct link *clients; // whose answers are generated
    struct link *connections;
    uint64_t looked_ns; // for the ends of connections
    uint64_t n_watched; // since the start
    int n_answering;    // requests with a body that are prepared or answered
    atomic_size_t held; // bytes of bodies that are not read yet
    struct hearth_crew *crew;
};

struct connection {
    struct link link;
    hearth_socket fd;
    _Atomic uint64_t heard_ns; // while a request is wanted of it, else 0
};

// An exchange with its connection.
struct client {
    struct link link; // among those that are watched
    struct hearth_exchange x;
    struct hearth_http *http;
    struct MHD_Connection *connection;
    const char *origin; // that may read the answer, or NULL
    uint64_t number;    // its own there: an address may be another client's by the time an event is seen
    hearth_socket fd;
    int refused; // with this status: the body is too large, or there are too many; else 0
    size_t held;
    size_t sent; // of what is in x.out
    bool replied, watched, prepared;
    struct hearth_errand errand; // that prepares the request, or completes the answer
    atomic_bool ping;
    _Atomic uint64_t last_ns; // something was sent
};

static hearth_socket socket_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    return info ? (hearth_socket)info->connect_fd : -1;
}

// ---- lists: all with the mutex held

static void add_link(struct link **list, struct link *link)
{
    *link = (struct link){.next = *list, .at = list};
    if (link->next)
        link->next->at = &link->next;
    *list = link;
}

static void remove_link(struct link *link)
{
    *link->at = link->next;
    if (link->next)
        link->next->at = link->at;
}

// ---- answers

static void add_header(struct MHD_Response *r, const char *name, const char *value)
{
    if (value)
        (void)MHD_add_response_header(r, name, value);
}

static enum MHD_Result send_response(struct client *c, struct MHD_Response *r)
{
    if (!r)
        return MHD_NO;
    add_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, c->x.type);
    add_header(r, MHD_HTTP_HEADER_ALLOW, *c->x.allow ? c->x.allow : NULL);
    add_header(r, MHD_HTTP_HEADER_RETRY_AFTER, c->x.status == 503 ? "1" : NULL);
    add_header(r, MHD_HTTP_HEADER_WWW_AUTHENTICATE, c->x.status == 401 ? "Bearer" : NULL);
    add_header(r, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_ORIGIN, c->origin);
    add_header(r, MHD_HTTP_HEADER_VARY, MHD_HTTP_HEADER_ORIGIN);
    add_header(r, "X-Content-Type-Options", "nosniff");
    if (c->x.policy) {
        add_header(r, "Content-Security-Policy", c->x.policy);
        add_header(r, "Referrer-Policy", "no-referrer");
        add_header(r, MHD_HTTP_HEADER_CACHE_CONTROL,
                   "no-cache"); // its next version comes with the next program
    }
    c->replied = true;
    const enum MHD_Result sent = MHD_queue_response(c->connection, (unsigned)c->x.status, r);
    MHD_destroy_response(r);
    return sent;
}

// What is written and not sent yet.
static size_t unsent(const struct client *c)
{
    return c->x.out.n - c->sent;
}

static ssize_t take_out(struct client *c, char *to, size_t most)
{
    struct hearth_out *out = &c->x.out;
    const size_t n = unsent(c) < most ? unsent(c) : most;
    memcpy(to, out->data + c->sent, n);
    c->sent += n;
    if (c->sent > out->n / 2) { // not each time, which would move a long rest again and again
        hearth_out_drop(out, c->sent);
        c->sent = 0;
    }
    return (ssize_t)n;
}

// Writes some of an answer, if it is not all there.
static void write_more(struct client *c)
{
    struct hearth_exchange *x = &c->x;
    while (x->more && unsent(c) < BLOCK && !x->out.failed)
        if (!x->more(x))
            x->more = NULL;
}

static ssize_t read_parts(void *arg, uint64_t at, char *to, size_t most)
{
    struct client *c = arg;
    (void)at;
    write_more(c);
    if (c->x.out.failed)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    return unsent(c) ? take_out(c, to, most) : MHD_CONTENT_READER_END_OF_STREAM;
}

static enum MHD_Result reply(struct client *c)
{
    struct hearth_out *out = &c->x.out;
    write_more(c);
    if (out->failed) {
        hearth_out_free(out);
        c->x.more = NULL;
        c->x.status = 500;
    }
    if (c->x.more)
        return send_response(c,
                             MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, read_parts, c, NULL));
    struct MHD_Response *r = MHD_create_response_from_buffer(out->n, out->data, MHD_RESPMEM_MUST_FREE);
    if (r)
        *out = (struct hearth_out){0};
    return send_response(c, r);
}

// ---- streams

static void sleep_client(void *arg)
{
    MHD_suspend_connection(((struct client *)arg)->connection);
}

static void wake_client(void *arg)
{
    MHD_resume_connection(((struct client *)arg)->connection);
}

static ssize_t read_stream(void *arg, uint64_t at, char *to, size_t most)
{
    struct client *c = arg;
    struct hearth_out *out = &c->x.out;
    (void)at;
    hearth_exchange_take(&c->x);
    if (out->failed || c->x.abandoned)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (!unsent(c) && c->x.finished)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (atomic_exchange(&c->ping, false) && !unsent(c))
        hearth_out_text(out, ": working\n\n");
    if (!unsent(c)) {
        (void)hearth_task_sleep(c->x.task, sleep_client, wake_client, c);
        return 0;
    }
    atomic_store(&c->last_ns, hearth_now_ns());
    return take_out(c, to, most);
}

static enum MHD_Result reply_with_stream(struct client *c)
{
    struct MHD_Response *r = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, read_stream, c, NULL);
    if (r) {
        add_header(r, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache");
        add_header(r, "X-Accel-Buffering", "no"); // for nginx
    }
    return send_response(c, r);
}

// ---- clients that wait for their answers

static void watch(struct client *c)
{
    struct hearth_http *http = c->http;
    c->watched = true;
    pthread_mutex_lock(&http->mutex);
    c->number = ++http->n_watched;
    add_link(&http->clients, &c->link);
    atomic_store(&c->last_ns, hearth_now_ns());
    hearth_watch_add(http->watch, c->fd, c->number);
    pthread_mutex_unlock(&http->mutex);
}

static void unwatch(struct client *c)
{
    struct hearth_http *http = c->http;
    if (!c->watched) // link is the list's, and others change it
        return;
    pthread_mutex_lock(&http->mutex);
    remove_link(&c->link);
    hearth_watch_remove(http->watch, c->fd);
    pthread_mutex_unlock(&http->mutex);
}

// A client that is still there: others may have gone since the event came.
static struct client *find_client(struct hearth_http *http, uint64_t number)
{
    for (struct link *l = http->clients; l; l = l->next)
        if (((struct client *)(void *)l)->number == number)
            return (struct client *)(void *)l;
    return NULL;
}

// Looks after a client whose side has sent its end: it has gone, or it only sends nothing more and waits for
// the answer. With a stream that shows when something is sent: whoever is gone refuses it. Else both look
// alike, and most have gone.
static bool is_gone(struct hearth_http *http, struct client *c, bool broken)
{
    if (!c->x.streams || broken) {
        hearth_watch_remove(http->watch, c->fd);
        return true;
    }
    hearth_watch_less(http->watch, c->fd, c->number);
    atomic_store(&c->ping, true);
    hearth_task_nudge(c->x.task);
    return false;
}

static void drop_gone(struct hearth_http *http, const struct hearth_watch_event *event)
{
    struct client *c = find_client(http, event->number);
    if (c && is_gone(http, c, event->broken))
        hearth_scheduler_cancel(http->server->scheduler, c->x.task);
}

static void ping_silent(struct hearth_http *http)
{
    const uint64_t now = hearth_now_ns();
    const uint64_t interval = (uint64_t)http->server->params->ping_interval * 1000000000u;
    for (struct link *l = http->clients; l && interval; l = l->next) {
        struct client *c = (struct client *)(void *)l;
        const uint64_t last = atomic_load(&c->last_ns); // it may be later than `now`
        if (!c->x.streams || last > now || now - last < interval)
            continue;
        atomic_store(&c->last_ns, now);
        atomic_store(&c->ping, true);
        hearth_task_nudge(c->x.task);
    }
}

// libmicrohttpd (0.9.75) reads until a read is short and then waits for epoll's next edge: where a client's last
// bytes and its end came together there is none, and the connection would stay until its time is over.
static void wake_ended(struct hearth_http *http)
{
    const uint64_t now = hearth_now_ns();
    if (now - http->looked_ns < SILENCE_NS)
        return;
    http->looked_ns = now;
    for (const struct link *l = http->connections; l; l = l->next) {
        const struct connection *c = (const struct connection *)(const void *)l;
        const uint64_t heard = atomic_load(&c->heard_ns);
        if (heard && now > heard && now - heard >= SILENCE_NS)
            hearth_watch_wake_ended(c->fd);
    }
}

void hearth_http_watch(struct hearth_http *http, int timeout_ms)
{
    struct hearth_watch_event events[64];
    const int n = hearth_watch_wait(http->watch, events, sizeof events / sizeof events[0], timeout_ms);
    pthread_mutex_lock(&http->mutex);
    for (int i = 0; i < n; i++)
        drop_gone(http, &events[i]);
    ping_silent(http);
    wake_ended(http);
    pthread_mutex_unlock(&http->mutex);
}

void hearth_http_wake(struct hearth_http *http)
{
    hearth_watch_wake(http->watch);
}

// ---- connections

static void on_connection(void *arg, struct MHD_Connection *connection, void **state,
                          enum MHD_ConnectionNotificationCode what)
{
    struct hearth_http *http = arg;
    struct connection *c = *state;
    pthread_mutex_lock(&http->mutex);
    if (what == MHD_CONNECTION_NOTIFY_STARTED && (c = hearth_calloc(1, sizeof *c))) {
        c->fd = socket_of(connection);
        add_link(&http->connections, &c->link);
        atomic_store(&c->heard_ns, hearth_now_ns());
        *state = c;
    } else if (what == MHD_CONNECTION_NOTIFY_CLOSED && c) {
        remove_link(&c->link);
        free(c);
        *state = NULL;
    }
    pthread_mutex_unlock(&http->mutex);
}

// Something has come, and more of it is wanted or not.
static void note_heard(struct MHD_Connection *connection, bool wanted)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct connection *c = info ? info->socket_context : NULL;
    if (c)
        atomic_store(&c->heard_ns, wanted ? hearth_now_ns() : 0);
}

// ---- requests

static const char *header(const struct client *c, const char *name)
{
    return MHD_lookup_connection_value(c->connection, MHD_HEADER_KIND, name);
}

static void drop_body(struct client *c)
{
    atomic_fetch_sub(&c->http->held, c->held);
    c->held = 0;
    hearth_out_free(&c->x.in);
}

static void take_body(struct client *c, const char *data, size_t n)
{
    if (c->x.finished)
        return; // it is refused
    const size_t most = c->http->server->params->max_body;
    c->held += n;
    if ((atomic_fetch_add(&c->http->held, n) + n) / MOST_HELD >= most && !c->refused)
        c->refused = 503;
    if (c->x.in.n + n > most)
        c->refused = 413;
    if (c->refused)
        drop_body(c);
    else
        hearth_out_add(&c->x.in, data, n);
}

static bool parse_body(struct client *c)
{
    struct hearth_exchange *x = &c->x;
    json_error_t error;
    const bool large = hearth_body_is_large(&x->in);
    if (!large) // to erase a slot wants no fields
        x->body = x->in.n ? hearth_body_read(&x->in, &error) : json_object();
    const bool failed = x->in.failed;
    drop_body(c);
    if (large)
        hearth_exchange_error(x, 413, NULL, "the body has too many values");
    else if (failed)
        hearth_exchange_error(x, 500, NULL, "out of memory");
    else if (!x->body)
        hearth_exchange_error(x, 400, NULL, "the body is no JSON: %s (line %d, column %d)", error.text,
                              error.line, error.column);
    else if (!json_is_object(x->body) && !(x->route->takes_list && json_is_array(x->body)))
        hearth_exchange_error(x, 400, NULL, "the body is no JSON object");
    return !x->finished;
}

// Once the request is there.
static void answer(struct client *c)
{
    struct hearth_exchange *x = &c->x;
    if (c->refused == 413)
        hearth_exchange_error(x, 413, NULL, "the body has more than %zu bytes",
                              c->http->server->params->max_body);
    else if (c->refused)
        hearth_exchange_error(x, c->refused, NULL, "too much is being sent at once; try again later");
    else if (!x->route->has_body || parse_body(c))
        x->route->answer(x);
}

static void answer_unknown(struct hearth_exchange *x, const char *path)
{
    const char *instead = hearth_route_instead(path);
    if (instead)
        hearth_exchange_error(x, 404, NULL, "there is no %s here; %s is what this server has for it", path,
                              instead);
    else
        hearth_exchange_error(x, 404, NULL, "there is no %s here", path);
}

static void refuse(struct client *c, const char *path, const char *method)
{
    struct hearth_exchange *x = &c->x;
    x->route = hearth_route_find(path, method);
    if (!x->route)
        hearth_route_methods(path, x->allow, sizeof x->allow);
    x->api = hearth_route_api(path);
    x->action = MHD_lookup_connection_value(c->connection, MHD_GET_ARGUMENT_KIND, "action");
    x->rest = x->route && strlen(path) > strlen(x->route->path) ? path + strlen(x->route->path) : "";
    const struct hearth_server_params *params = c->http->server->params;
    const char *length = header(c, MHD_HTTP_HEADER_CONTENT_LENGTH);
    if (!hearth_access_host(c->http->local && !params->n_api_keys, header(c, MHD_HTTP_HEADER_HOST)))
        hearth_exchange_error(x, 403, NULL, "this name is not one of this machine's");
    else if (!x->route && *x->allow)
        hearth_exchange_error(x, 405, NULL, "%s takes %s", path, x->allow);
    else if (!x->route)
        answer_unknown(x, path);
    // Without keys any page could have a browser send a request, although it cannot read the answer.
    else if (!x->route->open && !params->n_api_keys &&
             !hearth_access_page(params, header(c, MHD_HTTP_HEADER_ORIGIN), header(c, MHD_HTTP_HEADER_HOST)))
        hearth_exchange_error(x, 403, NULL, "pages of this origin may not use the server (--cors-origins)");
    else if (!x->route->open &&
             !hearth_access_key(params, header(c, MHD_HTTP_HEADER_AUTHORIZATION), header(c, "x-api-key")))
        hearth_exchange_error(x, 401, NULL, "an API key is wanted, as \"Authorization: Bearer KEY\"");
    else if (x->route->needs_model && !atomic_load(&c->http->server->ready))
        hearth_exchange_error(x, 503, NULL, "Loading model");
    else if (length && strtoull(length, NULL, 10) > params->max_body)
        hearth_exchange_error(x, 413, NULL, "the body has more than %zu bytes", params->max_body);
}

// A browser asks what a page of another origin may do.
static enum MHD_Result allow_origin(struct client *c)
{
    struct MHD_Response *r = MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    c->x.status = 204;
    if (r) {
        add_header(r, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, OPTIONS");
        add_header(r, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_HEADERS,
                   header(c, "Access-Control-Request-Headers"));
        add_header(r, MHD_HTTP_HEADER_ACCESS_CONTROL_MAX_AGE, "3600");
    }
    return send_response(c, r);
}

static enum MHD_Result begin(struct hearth_http *http, struct MHD_Connection *connection, const char *path,
                             const char *method, void **state)
{
    struct client *c = hearth_calloc(1, sizeof *c);
    if (!c)
        return MHD_NO;
    *state = c;
    c->http = http;
    c->connection = connection;
    c->x.server = http->server;
    c->origin = hearth_access_origin(http->server->params, header(c, MHD_HTTP_HEADER_ORIGIN));
    c->fd = socket_of(connection);
    if (!strcmp(method, MHD_HTTP_METHOD_OPTIONS)) {
        hearth_route_methods(path, c->x.allow, sizeof c->x.allow);
        return allow_origin(c);
    }
    refuse(c, path, method);
    // Clients that do not wait to be asked for the body are told when they have sent it: the system resets a
    // connection that is closed before, and what it says of this is all they hear.
    return c->x.finished && header(c, MHD_HTTP_HEADER_EXPECT) ? reply(c) : MHD_YES;
}

static void count_answering(struct hearth_http *http, int change)
{
    pthread_mutex_lock(&http->mutex);
    http->n_answering += change;
    pthread_mutex_unlock(&http->mutex);
}

// In a thread of the crew; the connection sleeps.
static void prepare(void *arg)
{
    struct client *c = arg;
    answer(c);
    if (!c->x.recalls) { // large ones take a while to free, which would keep HTTP's threads
        json_decref(c->x.body);
        c->x.body = NULL;
    }
    if (!c->x.finished && c->x.task)
        watch(c);
    wake_client(c);
}

static void begin_preparing(struct client *c)
{
    const bool large = c->x.in.n >= LARGE;
    c->prepared = true;
    c->errand = (struct hearth_errand){.fn = prepare, .arg = c, .large = large};
    count_answering(c->http, 1);
    sleep_client(c);
    hearth_crew_run(c->http->crew, &c->errand);
}

// In a thread of the crew: many tokens with their probabilities take a while.
static void complete(void *arg)
{
    struct client *c = arg;
    hearth_exchange_take(&c->x);
    wake_client(c);
}

static void begin_completing(struct client *c)
{
    c->errand = (struct hearth_errand){.fn = complete, .arg = c, .large = c->x.n_choices > MANY_TEXTS};
    sleep_client(c);
    hearth_crew_run(c->http->crew, &c->errand);
}

// The request is there, or an answer that was waited for.
static enum MHD_Result go_on(struct client *c)
{
    struct hearth_exchange *x = &c->x;
    if (!c->prepared && !x->finished && x->route->has_body && !c->refused) {
        begin_preparing(c);
        return MHD_YES;
    }
    if (!c->prepared && !x->finished)
        answer(c);
    if (!x->finished && x->streams)
        return reply_with_stream(c);
    if (!x->finished) {
        if (!hearth_task_sleep(x->task, sleep_client, wake_client, c))
            begin_completing(c); // x is the crew's now
        return MHD_YES;
    }
    return x->abandoned ? MHD_NO : reply(c);
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection, const char *path,
                                  const char *method, const char *version, const char *data, size_t *n_data,
                                  void **state)
{
    struct client *c = *state;
    (void)version;
    note_heard(connection, !c || *n_data);
    if (!c)
        return begin(arg, connection, path, method, state);
    if (c->replied)
        return MHD_YES;
    if (*n_data) {
        take_body(c, data, *n_data);
        *n_data = 0;
        return MHD_YES;
    }
    return go_on(c);
}

// libmicrohttpd (0.9.75) closes a connection whose answer ends with an error, but not its socket: that waits until
// nothing of the same thread has been silent for longer, and something wakes the thread, or until the connection's time
// is over. Those with a time of their own wait for that alone.
static void close_soon(struct MHD_Connection *connection)
{
    (void)MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, 1u);
}

static void on_end(void *arg, struct MHD_Connection *connection, void **state,
                   enum MHD_RequestTerminationCode how)
{
    struct client *c = *state;
    (void)arg;
    note_heard(connection, true);
    if (!c)
        return;
    if (how != MHD_REQUEST_TERMINATED_COMPLETED_OK)
        close_soon(connection);
    unwatch(c);
    drop_body(c);
    if (c->prepared)
        count_answering(c->http, -1);
    if (c->x.task && !c->x.finished) {
        hearth_task_forget(c->x.task);
        hearth_scheduler_cancel(c->http->server->scheduler, c->x.task);
    }
    hearth_exchange_free(&c->x);
    free(c);
    *state = NULL;
}

// ---- opening and closing

static void on_log(void *arg, const char *fmt, va_list args)
{
    char line[300];
    (void)arg;
    vsnprintf(line, sizeof line, fmt, args);
    line[strcspn(line, "\n")] = 0;
    hearth_log(HEARTH_LOG_DEBUG, "http: %s", line);
}

static int start_daemon(struct hearth_http *http, hearth_socket fd, struct hearth_error *err)
{
    const struct hearth_server_params *p = http->server->params;
    const unsigned how = MHD_is_feature_supported(MHD_FEATURE_EPOLL) == MHD_YES
                             ? MHD_USE_EPOLL_INTERNAL_THREAD
                             : MHD_USE_AUTO_INTERNAL_THREAD;
    http->daemon =
        MHD_start_daemon(how | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL, on_request, http,
                         MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL, MHD_OPTION_LISTEN_SOCKET, (MHD_socket)fd,
                         MHD_OPTION_THREAD_POOL_SIZE, (unsigned)p->n_threads, MHD_OPTION_CONNECTION_LIMIT,
                         (unsigned)MOST_CONNECTIONS, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)(2 * BLOCK),
                         MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)p->timeout, MHD_OPTION_NOTIFY_COMPLETED,
                         on_end, http, MHD_OPTION_NOTIFY_CONNECTION, on_connection, http, MHD_OPTION_END);
    if (http->daemon)
        return 0;
    const int error = errno;
    hearth_listen_close(fd);
    return hearth_fail_errno(err, error, "cannot start the HTTP server");
}

int hearth_http_open(struct hearth_http **out, struct hearth_serving *server, struct hearth_error *err)
{
    struct hearth_http *http = hearth_calloc(1, sizeof *http);
    *out = NULL;
    if (!http)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for the server");
    http->server = server;
    pthread_mutex_init(&http->mutex, NULL);
    http->crew = hearth_crew_open(MOST_PREPARED);
    int rc = http->crew ? hearth_watch_open(&http->watch, err)
                        : hearth_fail(err, HEARTH_E_MEMORY, "no memory for the server");
    const hearth_socket fd = rc ? -1
                                : hearth_listen(server->params->host, server->params->port, http->address,
                                                sizeof http->address, &http->local, err);
    http->listens = fd >= 0;
    if (!rc)
        rc = fd < 0 ? (int)fd : start_daemon(http, fd, err);
    *out = http;
    if (rc)
        hearth_http_close(out);
    return rc;
}

const char *hearth_http_address(const struct hearth_http *http)
{
    return http->address;
}

void hearth_http_quiesce(struct hearth_http *http)
{
    const MHD_socket fd = MHD_quiesce_daemon(http->daemon);
    hearth_listen_clean(http->server->params->host);
    http->listens = false;
    if (fd != MHD_INVALID_SOCKET)
        hearth_listen_close((hearth_socket)fd);
}

int hearth_http_busy(struct hearth_http *http)
{
    pthread_mutex_lock(&http->mutex);
    const int n = http->n_answering;
    pthread_mutex_unlock(&http->mutex);
    return n;
}

void hearth_http_close(struct hearth_http **h)
{
    struct hearth_http *http = *h;
    if (!http)
        return;
    if (http->crew) // what sleeps must go on before HTTP can end
        hearth_crew_end(http->crew);
    if (http->daemon)
        MHD_stop_daemon(http->daemon);
    hearth_crew_close(&http->crew);
    if (http->listens) // it did not come to the usual end
        hearth_listen_clean(http->server->params->host);
    hearth_watch_close(&http->watch);
    pthread_mutex_destroy(&http->mutex);
    free(http);
    *h = NULL;
}
