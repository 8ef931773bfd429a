/* A server that knows the truth: one event per token, each its own send(), stamped on CLOCK_MONOTONIC just before.
 *
 * truth_server TTFT_US ITL_US ROWS_FILE [STEP_US]: prints its port, answers POSTs with a stream of max_tokens tokens, and writes
 * its rows on SIGTERM. The head leaves at once (as uvicorn does), the role chunk just before the first token, usage
 * after the last. With STEP_US all that is due within a step leaves at its end, as from an engine that batches: streams
 * that began in one step end in one. A request counts from its arrival in the kernel. `prompt_tokens` is the request's number, by which a client's rows are put beside these.
 */
#include "truth.h"

#define MODEL "\"id\":\"chatcmpl-0123456789abcdef0123456789abcdef\",\"object\":\"chat.completion.chunk\"," \
              "\"created\":1790000000,\"model\":\"truth\""
#define LIST "{\"object\":\"list\",\"data\":[{\"id\":\"truth\",\"object\":\"model\",\"owned_by\":\"truth\"}]}"
static const char HEAD[] =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";

typedef struct {
    int fd;
    char in[65536];
    int have;
    int64_t row, left, due_ns;
} stream_t;

static stream_t *streams[65536];
static stream_t **heap;
static int heap_count, heap_room;
static char role[512], token[512];
static int role_size, token_size;
static int64_t step_ns;
static volatile sig_atomic_t stopping;

static void stop(int sig) { (void)sig; stopping = 1; }

static int chunk(char *into, const char *event) {
    return sprintf(into, "%zx\r\n%s\r\n", strlen(event), event);
}

static void push(stream_t *stream) {
    if (heap_count == heap_room) heap = realloc(heap, (heap_room = heap_room ? 2 * heap_room : 1024) * sizeof *heap);
    int i = heap_count++;
    for (; i && heap[(i - 1) / 2]->due_ns > stream->due_ns; i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = stream;
}

static stream_t *pop(void) {
    stream_t *top = heap[0], *last = heap[--heap_count];
    int i = 0;
    for (;;) {
        int child = 2 * i + 1;
        if (child >= heap_count) break;
        if (child + 1 < heap_count && heap[child + 1]->due_ns < heap[child]->due_ns) child++;
        if (heap[child]->due_ns >= last->due_ns) break;
        heap[i] = heap[child];
        i = child;
    }
    if (heap_count) heap[i] = last;
    return top;
}

static void put(stream_t *stream, const char *data, int size) {
    if (send(stream->fd, data, size, MSG_NOSIGNAL) != size) stream->left = 0; /* the client is gone or does not read */
}

static int64_t at_step(int64_t due_ns) { return step_ns ? (due_ns + step_ns - 1) / step_ns * step_ns : due_ns; }

/* recv(), and when the last bytes of it came, on CLOCK_MONOTONIC. */
static int receive(int fd, char *into, int room, int64_t *came_ns) {
    char control[64];
    struct iovec part = {into, room};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    int got = recvmsg(fd, &message, 0);
    int64_t now = now_ns(CLOCK_MONOTONIC);
    *came_ns = now;
    struct cmsghdr *first = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (first && first->cmsg_level == SOL_SOCKET && first->cmsg_type == SCM_TIMESTAMPNS) {
        struct timespec wall;
        memcpy(&wall, CMSG_DATA(first), sizeof wall);
        int64_t lay_ns = now_ns(CLOCK_REALTIME) - (wall.tv_sec * 1000000000LL + wall.tv_nsec);
        if (lay_ns > 0) *came_ns -= lay_ns;
    }
    return got;
}

static void begin(stream_t *stream, const char *body, int64_t ttft_ns, int64_t came_ns) {
    const char *limit = strstr(body, "\"max_tokens\":");
    if (!limit) limit = strstr(body, "\"max_completion_tokens\":");
    int64_t tokens = limit ? atoll(strchr(limit, ':') + 1) : 16;
    row_t *row = new_row(tokens);
    row->number = row_count;
    row->at_ns = came_ns;
    stream->row = row_count - 1;
    stream->left = tokens;
    stream->due_ns = at_step(now_ns(CLOCK_MONOTONIC) + ttft_ns);
    put(stream, HEAD, sizeof HEAD - 1);
    push(stream);
}

static void advance(stream_t *stream, int64_t itl_ns) {
    row_t *row = &rows[stream->row];
    if (stream->left <= 0 || stream->fd < 0) return;
    if (!row->count) put(stream, role, role_size);
    do {
        row->token_ns[row->count++] = now_ns(CLOCK_MONOTONIC);
        put(stream, token, token_size);
    } while (--stream->left > 0 && !itl_ns);
    if (stream->left > 0) {
        stream->due_ns = at_step(stream->due_ns + itl_ns);
        push(stream);
        return;
    }
    char event[600], out[1400];
    sprintf(event, "data: {" MODEL ",\"choices\":[{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"length\"}],"
            "\"usage\":{\"prompt_tokens\":%ld,\"completion_tokens\":%ld,\"total_tokens\":%ld}}\n\n",
            (long)row->number, (long)row->count, (long)(row->number + row->count));
    int size = chunk(out, event);
    size += chunk(out + size, "data: [DONE]\n\n");
    size += sprintf(out + size, "0\r\n\r\n");
    put(stream, out, size);
}

static void take(stream_t *stream, int64_t ttft_ns) {
    int64_t came_ns;
    int got = receive(stream->fd, stream->in + stream->have, sizeof stream->in - 1 - stream->have, &came_ns);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) {
        streams[stream->fd] = NULL;
        close(stream->fd);
        stream->fd = -1; /* may still lie in the heap, where it does nothing; a short run leaks it */
        return;
    }
    stream->in[stream->have += got] = 0;
    char *end = strstr(stream->in, "\r\n\r\n");
    if (!end) return;
    if (!memcmp(stream->in, "GET", 3)) {
        char out[600];
        int found = strstr(stream->in, "/models ") != NULL;
        int size = sprintf(out, "HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n\r\n%s",
                           found ? "200 OK" : "404 Not Found", found ? strlen(LIST) : 0, found ? LIST : "");
        put(stream, out, size);
        stream->have = 0;
        return;
    }
    char *length = strcasestr(stream->in, "content-length:");
    if (!length || stream->have < end + 4 - stream->in + atoi(length + 15)) return;
    stream->have = 0;
    begin(stream, end + 4, ttft_ns, came_ns);
}

int main(int argc, char **argv) {
    if (argc != 4 && argc != 5) return fprintf(stderr, "truth_server TTFT_US ITL_US ROWS_FILE [STEP_US]\n"), 2;
    if (argc == 5) step_ns = atoll(argv[4]) * 1000;
    int64_t ttft_ns = atoll(argv[1]) * 1000, itl_ns = atoll(argv[2]) * 1000;
    struct sigaction action = {.sa_handler = stop};
    sigaction(SIGTERM, &action, NULL);
    char event[400];
    sprintf(event, "data: {" MODEL ",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
            "\"logprobs\":null,\"finish_reason\":null}]}\n\n");
    role_size = chunk(role, event);
    sprintf(event, "data: {" MODEL ",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word\"},"
            "\"logprobs\":null,\"finish_reason\":null}]}\n\n");
    token_size = chunk(token, event);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), poll = epoll_create1(0), one = 1;
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    if (bind(listener, (void *)&address, sizeof address) || listen(listener, 4096)) die("listen");
    getsockname(listener, (void *)&address, &size);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    struct epoll_event want = {EPOLLIN, {.fd = listener}}, got[256];
    epoll_ctl(poll, EPOLL_CTL_ADD, listener, &want);
    want.data.fd = timer;
    epoll_ctl(poll, EPOLL_CTL_ADD, timer, &want);
    int64_t armed = 0;
    while (!stopping) {
        while (heap_count && heap[0]->due_ns <= now_ns(CLOCK_MONOTONIC)) advance(pop(), itl_ns);
        if (heap_count && heap[0]->due_ns != armed) set_timer(timer, armed = heap[0]->due_ns);
        int count = epoll_wait(poll, got, 256, 1000);
        for (int i = 0; i < count; i++) {
            int fd = got[i].data.fd;
            if (fd == timer) {
                uint64_t rings;
                armed = read(timer, &rings, 8) ? 0 : 0;
            } else if (fd == listener) {
                int fresh;
                while ((fresh = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
                    setsockopt(fresh, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                    setsockopt(fresh, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof one);
                    streams[fresh] = calloc(1, sizeof(stream_t));
                    streams[fresh]->fd = want.data.fd = fresh;
                    epoll_ctl(poll, EPOLL_CTL_ADD, fresh, &want);
                }
            } else if (streams[fd]) take(streams[fd], ttft_ns);
        }
    }
    write_rows(argv[3]);
    return 0;
}
