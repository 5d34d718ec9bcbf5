#include "report/progress.h"
#include "core/clock.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

void psgd__progress_start(progress *self, FILE *to, const char *what)
{
    *self = (progress){.to = to, .what = what, .terminal = isatty(fileno(to)), .began = psgd__seconds(), .from = -1};
    self->shown = self->began;
}

static bool is_due(const progress *self, double t)
{
    return t - self->shown >= (self->drawn ? 0.1 : self->terminal ? 1 : 10);
}

void psgd__progress_show(progress *self, int64_t done, int64_t total)
{
    enum { WIDTH = 40 };
    double t = psgd__seconds();
    if (self->from < 0) self->from = done - 1;
    if (done < 1 || !is_due(self, t)) return;
    self->shown = t;
    self->drawn = self->terminal;
    double speed = (double)(done - self->from) / (t - self->began), left = (double)(total - done) / speed;
    char bar[] = " [........................................]";
    memset(bar + 2, '#', (size_t)(WIDTH * fmin(1, (double)done / (double)total)));
    fprintf(self->to, "%s%s %lld of %lld%s %s%s%.1f/s, %.0f s left%s", self->terminal ? "\r" : "", self->what,
            (long long)done, (long long)total, self->terminal ? bar : ",", self->note, *self->note ? ", " : "", speed,
            left, self->terminal ? " \033[K" : "\n");
    fflush(self->to);
}

void psgd__progress_note(progress *self, const char *format, ...)
{
    va_list args;
    if (!is_due(self, psgd__seconds())) return; /* printing numbers would cost more than a step of a small problem */
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
