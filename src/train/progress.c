#include "train/progress.h"

#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void psgd__progress_start(progress *self, FILE *to, const char *what)
{
    *self = (progress){.to = to, .what = what, .terminal = isatty(fileno(to)), .began = now()};
    self->shown = self->began;
}

static void draw_bar(const progress *self, int64_t done, int64_t total, double left)
{
    enum { WIDTH = 40 };
    char bar[WIDTH + 1];
    int full = (int)((double)WIDTH * (double)done / (double)total);
    for (int i = 0; i < WIDTH; i++) bar[i] = i < full ? '#' : '.';
    bar[WIDTH] = 0;
    fprintf(self->to, "\r%s %lld of %lld [%s] %.0f s left \033[K", self->what, (long long)done, (long long)total, bar,
            left);
    fflush(self->to);
}

void psgd__progress_show(progress *self, int64_t done, int64_t total)
{
    double t = now();
    if (done < 1 || t - self->shown < (self->drawn ? 0.1 : self->terminal ? 1 : 10)) return;
    self->shown = t;
    double left = (t - self->began) * (double)(total - done) / (double)done;
    if (self->terminal) {
        draw_bar(self, done, total, left);
        self->drawn = true;
    } else {
        fprintf(self->to, "%s %lld of %lld, %.0f s left\n", self->what, (long long)done, (long long)total, left);
    }
}

void psgd__progress_end(progress *self)
{
    if (self->drawn) fputs("\r\033[K", self->to);
    if (self->drawn) fflush(self->to);
    self->drawn = false;
}
