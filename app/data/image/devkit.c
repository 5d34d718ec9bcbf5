/* Just as much of MATLAB's level 5 format as meta.mat is made of: a header of 128 bytes, then elements, each a tag
 * (type, size) and its data, padded to 8 bytes. Arrays are elements that hold elements, and may be deflated. */
#include "data/image/devkit.h"
#include "core/memory.h"
#include "data/format/gzip.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum {
    HEADER = 128,
    TYPE_INT8 = 1,
    TYPE_UINT8 = 2,
    TYPE_UINT16 = 4,
    TYPE_DOUBLE = 9,
    TYPE_ARRAY = 14,
    TYPE_DEFLATED = 15,
    TYPE_UTF8 = 16,
    CLASS_STRUCTURE = 2,
    MAX_SIZE = 1 << 16,  /* of classes in a kit */
    MAX_BYTES = 1 << 28, /* of an array */
    MAX_RATIO = 1032     /* of deflate: one byte cannot stand for more */
};

typedef struct span {
    const unsigned char *at;
    int64_t left;
} span;

typedef struct element {
    uint32_t type;
    span data;
} element;

static uint32_t number_at(const unsigned char *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* Takes the first element off a span. A tag whose size is in its upper half holds up to four bytes itself. */
static bool take(span *from, element *to)
{
    if (from->left < 8) return false;
    uint32_t type = number_at(from->at), size = number_at(from->at + 4);
    if (type >> 16) {
        if (type >> 16 > 4) return false;
        *to = (element){type & 0xffff, {from->at + 4, type >> 16}};
        *from = (span){from->at + 8, from->left - 8};
        return true;
    }
    if (size > from->left - 8) return false;
    *to = (element){type, {from->at + 8, size}};
    int64_t whole = 8 + (type == TYPE_DEFLATED ? (int64_t)size : ((int64_t)size + 7) / 8 * 8);
    if (whole > from->left) whole = from->left;
    *from = (span){from->at + whole, from->left - whole};
    return true;
}

typedef struct array {
    int kind;
    int64_t count; /* the product of its sizes */
    span name, inside;
} array;

static bool open_array(const element *from, array *to)
{
    element flags, sizes, name;
    *to = (array){.count = 1, .inside = from->data};
    if (from->type != TYPE_ARRAY || !take(&to->inside, &flags) || !take(&to->inside, &sizes) ||
        !take(&to->inside, &name) || flags.data.left < 8) {
        return false;
    }
    to->kind = flags.data.at[0];
    to->name = name.data;
    for (int64_t i = 0; i + 4 <= sizes.data.left; i += 4) {
        to->count *= number_at(sizes.data.at + i);
        if (to->count > MAX_BYTES) return false;
    }
    return true;
}

/* A whole number from 0 to 65535, of whatever type MATLAB chose to keep it in, or -1. */
static int64_t read_number(const element *from)
{
    array a;
    element value;
    if (!open_array(from, &a) || a.count != 1 || !take(&a.inside, &value)) return -1;
    if ((value.type == TYPE_INT8 || value.type == TYPE_UINT8) && value.data.left == 1) return value.data.at[0];
    if (value.type == TYPE_UINT16 && value.data.left == 2) return value.data.at[0] | value.data.at[1] << 8;
    if (value.type != TYPE_DOUBLE || value.data.left != 8) return -1;
    uint64_t bits = number_at(value.data.at) | (uint64_t)number_at(value.data.at + 4) << 32;
    double number;
    memcpy(&number, &bits, sizeof number);
    return number >= 0 && number < MAX_SIZE && number == (double)(int64_t)number ? (int64_t)number : -1;
}

/* Characters of one or two bytes, of which a name has only those of ASCII. */
static bool read_text(const element *from, char to[DEVKIT_NAME])
{
    array a;
    element text;
    if (!open_array(from, &a) || !take(&a.inside, &text)) return false;
    int64_t width = text.type == TYPE_UINT16 ? 2 : 1, length = text.data.left / width;
    if (text.type != TYPE_UINT16 && text.type != TYPE_UTF8 && text.type != TYPE_UINT8 && text.type != TYPE_INT8) {
        return false;
    }
    if (length >= DEVKIT_NAME) return false;
    for (int64_t i = 0; i < length; i++) to[i] = (char)text.data.at[i * width];
    to[length] = 0;
    return length > 0;
}

/* Which field has a name that starts and ends so, or -1. */
static int find_field(span names, int64_t width, const char *start, const char *end)
{
    for (int64_t i = 0; i < names.left / width; i++) {
        char name[64] = "";
        memcpy(name, names.at + i * width, (size_t)(width < 63 ? width : 63));
        size_t length = strlen(name), tail = strlen(end);
        if (!strncmp(name, start, strlen(start)) && length >= tail && !strcmp(name + length - tail, end)) return (int)i;
    }
    return -1;
}

static bool keep(const psgd_context *context, devkit *kit, int64_t number, const char *name)
{
    if (!kit->name) kit->name = psgd__alloc(context, MAX_SIZE, sizeof *kit->name);
    if (!kit->name || number < 1 || number > MAX_SIZE) return false;
    memcpy(kit->name[number - 1], name, DEVKIT_NAME);
    if (number > kit->count) kit->count = number;
    return true;
}

/* Structures follow one another, the fields of each in their order. */
static bool read_synsets(const psgd_context *context, span inside, int64_t count, devkit *kit)
{
    element width, names;
    if (!take(&inside, &width) || width.data.left < 4 || !take(&inside, &names)) return false;
    int64_t each = number_at(width.data.at), fields = each > 0 ? names.data.left / each : 0;
    int id = each > 0 ? find_field(names.data, each, "ILSVRC", "_ID") : -1;
    int wnid = each > 0 ? find_field(names.data, each, "WNID", "WNID") : -1;
    if (id < 0 || wnid < 0) return false;
    for (int64_t i = 0; i < count; i++) {
        int64_t number = -1;
        char name[DEVKIT_NAME] = "";
        for (int64_t f = 0; f < fields; f++) {
            element value;
            if (!take(&inside, &value)) return false;
            if (f == id) number = read_number(&value);
            if (f == wnid && !read_text(&value, name)) return false;
        }
        if (!keep(context, kit, number, name)) return false;
    }
    return count > 0;
}

/* True where this array is `synsets` and was read. */
static bool read_array(const psgd_context *context, const element *from, devkit *kit)
{
    array a;
    return open_array(from, &a) && a.kind == CLASS_STRUCTURE && a.name.left == 7 && !memcmp(a.name.at, "synsets", 7) &&
           read_synsets(context, a.inside, a.count, kit);
}

static bool read_deflated(const psgd_context *context, span data, devkit *kit)
{
    unsigned char start[8];
    z_stream stream = {.next_in = (unsigned char *)data.at, .avail_in = (uInt)data.left};
    if (inflateInit(&stream) != Z_OK) return false;
    stream.next_out = start;
    stream.avail_out = sizeof start;
    int state = inflate(&stream, Z_SYNC_FLUSH);
    uint32_t size = number_at(start + 4);
    bool fits = (state == Z_OK || state == Z_STREAM_END) && stream.avail_out == 0 && size <= MAX_BYTES &&
                size <= MAX_RATIO * data.left;
    unsigned char *bytes = fits ? psgd__alloc(context, (int64_t)size + 8, 1) : NULL;
    bool read = false;
    if (bytes) {
        memcpy(bytes, start, sizeof start);
        stream.next_out = bytes + 8;
        stream.avail_out = size;
        inflate(&stream, Z_FINISH);
        span all = {bytes, (int64_t)size + 8};
        element e;
        read = stream.avail_out == 0 && take(&all, &e) && read_array(context, &e, kit);
    }
    inflateEnd(&stream);
    psgd__free(context, bytes);
    return read;
}

psgd_status psgd__devkit_read(const psgd_context *context, const char *path, devkit *kit)
{
    unsigned char *bytes;
    int64_t size;
    *kit = (devkit){0};
    PSGD_TRY(psgd__file_read(context, path, &bytes, &size));
    bool read = false;
    if (size > HEADER && bytes[126] == 'I' && bytes[127] == 'M') {
        span rest = {bytes + HEADER, size - HEADER};
        for (element e; !read && take(&rest, &e);) {
            read = e.type == TYPE_DEFLATED ? read_deflated(context, e.data, kit) : read_array(context, &e, kit);
        }
    }
    psgd__free(context, bytes);
    if (read) return PSGD_OK;
    psgd__devkit_free(context, kit);
    return psgd__fail(PSGD_ERR_FORMAT, "%s is not the meta.mat of an ILSVRC development kit, or is damaged", path);
}

void psgd__devkit_free(const psgd_context *context, devkit *kit)
{
    psgd__free(context, kit->name);
    *kit = (devkit){0};
}
