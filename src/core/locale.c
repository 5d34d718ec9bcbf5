/* Numbers as text in the C locale. A program may have set another, with a decimal comma, at any time and in any
 * thread. */
#include "core/text.h"

#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static locale_t plain;

static void make_plain(void)
{
    plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

int psgd__vprint(char *to, size_t room, const char *format, va_list args)
{
    pthread_once(&once, make_plain);
    locale_t before = uselocale(plain);
    int length = vsnprintf(to, room, format, args);
    uselocale(before);
    return length;
}

int psgd__print(char *to, size_t room, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = psgd__vprint(to, room, format, args);
    va_end(args);
    return length;
}

double psgd__to_number(const char *word, char **end)
{
    pthread_once(&once, make_plain);
    return strtod_l(word, end, plain);
}
