#include "report/json.h"

#include <math.h>

static bool is_plain(char c)
{
    return (unsigned char)c >= 0x20 && c != '"' && c != '\\' && c != '<';
}

static void add_quoted(text *to, const char *before, const char *chars)
{
    psgd__text_add(to, "%s\"", before);
    for (const char *c = chars; *c;) {
        int plain = 0;
        while (is_plain(c[plain])) plain++;
        psgd__text_add(to, "%.*s", plain, c);
        c += plain;
        if (*c) psgd__text_add(to, "\\u%04x", (unsigned char)*c++);
    }
    psgd__text_add(to, "\"");
}

void psgd__json_string(text *to, const char *before, const char *name, const char *value)
{
    add_quoted(to, before, name);
    add_quoted(to, ":", value);
}

void psgd__json_value(text *to, int digits, double value)
{
    if (isfinite(value)) {
        psgd__text_add(to, "%.*g", digits, value);
    } else {
        psgd__text_add(to, "null");
    }
}

void psgd__json_number(text *to, const char *before, const char *name, int digits, double value)
{
    add_quoted(to, before, name);
    psgd__text_add(to, ":");
    psgd__json_value(to, digits, value);
}
