#include "report/progress.h"
#include "core/clock.h"

#include <stdarg.h>
#include <unistd.h>

void psgd__progress_start(progress *self, FILE *to, const char *what)
{
    *self = (progress){.to = to, .what = what, .terminal = isatty(fileno(to)), .began = psgd__seconds(), .from = -1};
    self->shown = self->began;
}

static void draw_bar(const progress *self, int64_t done, int64_t total, double speed, double left)
{
    enum { WIDTH = 40 };
    char bar[WIDTH + 1];
    int full = (int)((double)WIDTH * (double)done / (double)total);
    for (int i = 0; i < WIDTH; i++) bar[i] = i < full ? '#' : '.';
    bar[WIDTH] = 0;
    fprintf(self->to, "\r%s %lld of %lld [%s] %s%s%.1f/s, %.0f s left \033[K", self->what, (long long)done,
            (long long)total, bar, self->note, *self->note ? ", " : "", speed, left);
    fflush(self->to);
}

void psgd__progress_show(progress *self, int64_t done, int64_t total)
{
    double t = psgd__seconds();
    if (self->from < 0) self->from = done - 1;
    if (done < 1 || t - self->shown < (self->drawn ? 0.1 : self->terminal ? 1 : 10)) return;
    self->shown = t;
    double speed = (double)(done - self->from) / (t - self->began), left = (double)(total - done) / speed;
    if (self->terminal) {
        draw_bar(self, done, total, speed, left);
        self->drawn = true;
    } else {
        fprintf(self->to, "%s %lld of %lld, %s%s%.1f/s, %.0f s left\n", self->what, (long long)done, (long long)total,
                self->note, *self->note ? ", " : "", speed, left);
    }
}

void psgd__progress_note(progress *self, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(self->note, sizeof self->note, format, args);
    va_end(args);
}

void psgd__progress_end(progress *self)
{
    if (self->drawn) fputs("\r\033[K", self->to);
    if (self->drawn) fflush(self->to);
    self->drawn = false;
}
