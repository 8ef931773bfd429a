/* The floor: what a client in C costs that does the least one can do: epoll, receive, look for text, note the time.
 *
 * floor_client PORT STREAMS REQUESTS TOKENS STAMPS ROWS_FILE: a closed loop of STREAMS; STAMPS 1 takes the kernel's
 * receive stamps. Prints CPU seconds, wall seconds and peak KiB; ROWS_FILE.late holds how long after the last token of an
 * answer (by its stamp) what follows it left, int64 ns.
 */
#include "truth.h"

typedef struct {
    int fd;
    char in[1 << 16];
    int have, is_head;
    int64_t row, ended_ns;
} line_t;

static char request[4096];
static int request_size, tokens, started, total, stamps;
static int64_t offset_ns, *late_ns, late_count;

static void ask(line_t *line) {
    row_t *row = new_row(tokens + 8);
    started++;
    line->row = row_count - 1;
    line->have = 0;
    row->at_ns = now_ns(CLOCK_MONOTONIC);
    if (line->ended_ns) late_ns[late_count++] = row->at_ns - line->ended_ns;
    if (send(line->fd, request, request_size, MSG_NOSIGNAL) != request_size) die("send");
}

/* Whole events only; what is left moves to the front. Returns whether the answer is over. */
static int scan(line_t *line, int64_t at_ns) {
    row_t *row = &rows[line->row];
    char *at = line->in, *end = line->in + line->have, *stop;
    int over = 0;
    while ((stop = memmem(at, end - at, "\n\n", 2))) {
        char *text = memmem(at, stop - at, "\"content\":\"", 11), *usage;
        if (text && text[11] != '"' && row->count < tokens) row->token_ns[row->count++] = at_ns;
        if (!text && (usage = memmem(at, stop - at, "\"prompt_tokens\":", 16))) row->number = atoll(usage + 16);
        if (!text && memmem(at, stop - at, "[DONE]", 6)) over = 1;
        at = stop + 2;
    }
    memmove(line->in, at, line->have = end - at);
    return over && line->have >= 7;
}

static int64_t receive(line_t *line) {
    struct iovec part = {line->in + line->have, sizeof line->in - line->have};
    char control[64];
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    int got = stamps ? recvmsg(line->fd, &message, 0) : recv(line->fd, part.iov_base, part.iov_len, 0);
    if (got < 0 && errno == EAGAIN) return 0;
    if (got <= 0) die("recv");
    line->have += got;
    int64_t now = now_ns(CLOCK_MONOTONIC);
    struct cmsghdr *header = stamps ? CMSG_FIRSTHDR(&message) : NULL;
    if (!header) return now;
    struct timespec t;
    memcpy(&t, CMSG_DATA(header), sizeof t);
    return t.tv_sec * 1000000000LL + t.tv_nsec - offset_ns;
}

static void write_late(const char *rows_path) {
    char path[4096];
    snprintf(path, sizeof path, "%s.late", rows_path);
    FILE *file = fopen(path, "wb");
    if (!file) die(path);
    fwrite(late_ns, sizeof *late_ns, late_count, file);
    fclose(file);
}

int main(int argc, char **argv) {
    if (argc != 7) return fprintf(stderr, "floor_client PORT STREAMS REQUESTS TOKENS STAMPS ROWS_FILE\n"), 2;
    int streams = atoi(argv[2]), one = 1, ended = 0;
    total = atoi(argv[3]);
    late_ns = calloc(total, sizeof *late_ns);
    tokens = atoi(argv[4]);
    stamps = atoi(argv[5]);
    offset_ns = now_ns(CLOCK_REALTIME) - now_ns(CLOCK_MONOTONIC);
    char body[2048];
    int size = sprintf(body, "{\"messages\":[{\"role\":\"user\",\"content\":\"");
    for (int i = 0; i < 128; i++) size += sprintf(body + size, "word ");
    size += sprintf(body + size, "\"}],\"max_tokens\":%d,\"model\":\"truth\",\"stream\":true}", tokens);
    request_size = sprintf(request, "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%s",
                           size, body);
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(atoi(argv[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int poll = epoll_create1(0);
    int64_t begin_ns = now_ns(CLOCK_MONOTONIC);
    struct epoll_event want = {.events = EPOLLIN}, got[256];
    for (int i = 0; i < streams && started < total; i++) {
        line_t *line = calloc(1, sizeof *line);
        line->fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(line->fd, (void *)&address, sizeof address)) die("connect");
        fcntl(line->fd, F_SETFL, O_NONBLOCK);
        setsockopt(line->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        if (stamps) setsockopt(line->fd, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof one);
        want.data.ptr = line;
        epoll_ctl(poll, EPOLL_CTL_ADD, line->fd, &want);
        ask(line);
    }
    while (ended < total) {
        int count = epoll_wait(poll, got, 256, 30000);
        if (count <= 0) die("nothing comes");
        for (int i = 0; i < count; i++) {
            line_t *line = got[i].data.ptr;
            int64_t at_ns = receive(line);
            if (!at_ns || !scan(line, at_ns)) continue;
            ended++;
            line->ended_ns = rows[line->row].token_ns[tokens - 1];
            if (started < total) ask(line);
        }
    }
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    printf("%.6f %.6f %ld\n",
           used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6,
           (now_ns(CLOCK_MONOTONIC) - begin_ns) / 1e9, used.ru_maxrss);
    write_rows(argv[6]);
    write_late(argv[6]);
    return 0;
}
