/* A machine's clock that is wrong: built by node_cases.py, and loaded before libc.

   The file that NODE_CLOCK names says by how many seconds; it may change at any time. Clocks that
   count from the start of the machine stay right, as they do on a machine whose clock is set. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static char path[512];
static int (*real)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void) {
    const char *found = getenv("NODE_CLOCK"); /* a gateway wipes it later */
    if (found) strncpy(path, found, sizeof path - 1);
    real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
}

static long wrong_by(void) {
    char text[32] = "";
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    return length > 0 ? atol(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    if (!real) begin();
    int result = real(clock, at);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        at->tv_sec += wrong_by();
    return result;
}

int gettimeofday(struct timeval *at, void *zone) {
    struct timespec now;
    (void)zone;
    int result = clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return result;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
