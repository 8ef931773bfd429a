/* What the truth server and the floor client share: the clock, the rows on disk. */
#ifndef TRUTH_H
#define TRUTH_H
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <arpa/inet.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

static inline int64_t now_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static inline void die(const char *what) {
    perror(what);
    exit(1);
}

static inline void set_timer(int fd, int64_t at_ns) {
    struct itimerspec spec = {.it_value = {at_ns / 1000000000, at_ns % 1000000000}};
    timerfd_settime(fd, TFD_TIMER_ABSTIME, &spec, NULL);
}

/* One request: its number at the server, when it was read whole (sent, at the client), when each token left (came). */
typedef struct {
    int64_t number, at_ns, count, *token_ns;
} row_t;

static row_t *rows;
static int64_t row_count, row_room;

static inline row_t *new_row(int64_t tokens) {
    if (row_count == row_room) {
        row_room = row_room ? row_room * 2 : 1024;
        rows = realloc(rows, row_room * sizeof *rows);
    }
    row_t *row = &rows[row_count++];
    *row = (row_t){.token_ns = malloc(tokens * sizeof(int64_t))};
    return row;
}

static inline void write_rows(const char *path) {
    FILE *file = fopen(path, "wb");
    if (!file) die(path);
    for (int64_t i = 0; i < row_count; i++) {
        fwrite(&rows[i], sizeof(int64_t), 3, file);
        fwrite(rows[i].token_ns, sizeof(int64_t), rows[i].count, file);
    }
    fclose(file);
}
#endif
