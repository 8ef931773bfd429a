/* What a burst of sends costs in C, and the reader for it.
 *
 * burst listen: prints its port, reads and throws away what comes, blocked in epoll, until its one client is gone.
 * burst send PORT SOCKETS BYTES BURSTS: sends one message on each socket, BURSTS times, 10 ms apart; prints for each
 * burst how long the first half and the whole of it took, in ns.
 */
#include "truth.h"

static int listen_for(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), poll = epoll_create1(0), open = 0, seen = 0, one = 1;
    if (bind(listener, (void *)&address, sizeof address) || listen(listener, 4096)) die("listen");
    getsockname(listener, (void *)&address, &size);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    struct epoll_event want = {EPOLLIN, {.fd = listener}}, got[256];
    epoll_ctl(poll, EPOLL_CTL_ADD, listener, &want);
    while (!seen || open) {
        int count = epoll_wait(poll, got, 256, 30000);
        if (count <= 0) die("nobody sends");
        for (int i = 0; i < count; i++) {
            char into[65536];
            int fd = got[i].data.fd, fresh;
            if (fd != listener) {
                int had = recv(fd, into, sizeof into, 0);
                if (!had || (had < 0 && errno != EAGAIN)) close(fd), open--;
                continue;
            }
            while ((fresh = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
                setsockopt(fresh, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof one); /* as the truth server */
                want.data.fd = fresh;
                epoll_ctl(poll, EPOLL_CTL_ADD, fresh, &want);
                seen = 1, open++;
            }
        }
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 2 && !strcmp(argv[1], "listen")) return listen_for();
    if (argc != 6) return fprintf(stderr, "burst listen | burst send PORT SOCKETS BYTES BURSTS\n"), 2;
    int count = atoi(argv[3]), bytes = atoi(argv[4]), one = 1, *fds = calloc(count, sizeof *fds);
    char *message = calloc(1, bytes);
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(atoi(argv[2])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (int i = 0; i < count; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fds[i], (void *)&address, sizeof address)) die("connect");
        setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    }
    for (int burst = atoi(argv[5]); burst > 0; burst--) {
        usleep(10000);
        int64_t half_ns = 0, begin_ns = now_ns(CLOCK_MONOTONIC);
        for (int i = 0; i < count; i++) {
            if (send(fds[i], message, bytes, MSG_NOSIGNAL) != bytes) die("send");
            if (i == count / 2 - 1) half_ns = now_ns(CLOCK_MONOTONIC) - begin_ns;
        }
        printf("%ld %ld\n", (long)half_ns, (long)(now_ns(CLOCK_MONOTONIC) - begin_ns));
    }
    return 0;
}
