/* Elements are read straight into the caller's array where the types agree, else through a small buffer: a file larger
 * than memory is no trouble, and a file that shrinks meanwhile is an error, not a crash. */
#include "data/format/npy.h"
#include "core/memory.h"
#include "core/text.h"

#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "npy.c takes the machine to be little-endian"
#endif

enum { MAGIC = 6, HEADER_MAX = 1 << 20, PIECE = 8192 }; /* bytes, bytes, elements */

static psgd_status read_bytes(const npy_file *npy, int64_t at, int64_t bytes, void *to)
{
    char *next = to;
    while (bytes > 0) {
        size_t max = bytes < 1 << 30 ? (size_t)bytes : 1u << 30;
        ssize_t got = pread(npy->handle, next, max, (off_t)at);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return psgd__fail(PSGD_ERR_IO, "cannot read %s: %s", npy->path, strerror(errno));
        if (got == 0) return psgd__fail(PSGD_ERR_FORMAT, "%s ends too early", npy->path);
        next += got;
        at += got;
        bytes -= got;
    }
    return PSGD_OK;
}

/* Where the dictionary starts and how long it says it is. */
static psgd_status read_preamble(const npy_file *npy, int64_t file_bytes, int64_t *start, int64_t *length)
{
    unsigned char head[12] = {0};
    int64_t have = file_bytes < (int64_t)sizeof head ? file_bytes : (int64_t)sizeof head;
    PSGD_TRY(read_bytes(npy, 0, have, head));
    if (have < MAGIC || memcmp(head, "\x93NUMPY", MAGIC) != 0) {
        return psgd__fail(PSGD_ERR_FORMAT, "%s is not a .npy file", npy->path);
    }
    if (have >= 8 && (head[6] < 1 || head[6] > 3)) {
        return psgd__fail(PSGD_ERR_FORMAT, "%s is a .npy file of version %d; psgd reads versions 1 to 3", npy->path,
                          head[6]);
    }
    *start = head[6] == 1 ? 10 : 12;
    if (have < *start) return psgd__fail(PSGD_ERR_FORMAT, "%s is truncated: it ends within its header", npy->path);
    *length = head[8] | head[9] << 8;
    if (head[6] > 1) *length |= (int64_t)head[10] << 16 | (int64_t)head[11] << 24;
    return PSGD_OK;
}

static psgd_status read_header(npy_file *npy, int64_t file_bytes)
{
    int64_t at = 0, length = 0;
    PSGD_TRY(read_preamble(npy, file_bytes, &at, &length));
    if (length > HEADER_MAX) {
        return psgd__fail(PSGD_ERR_FORMAT,
                          "%s: its .npy header claims to be %lld bytes long, which no plain array needs", npy->path,
                          (long long)length);
    }
    if (at + length > file_bytes) {
        return psgd__fail(PSGD_ERR_FORMAT, "%s is truncated: it ends within its header", npy->path);
    }
    char *header = psgd__alloc(npy->context, length + 1, 1);
    if (!header) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory to read %s", npy->path);
    psgd_status status = read_bytes(npy, at, length, header);
    if (status == PSGD_OK) status = psgd__npy_parse_header(header, npy);
    psgd__free(npy->context, header);
    npy->start = at + length;
    return status;
}

static psgd_status check_length(const npy_file *npy, int64_t file_bytes)
{
    int64_t wanted = npy->count * npy->type->size, there = file_bytes - npy->start;
    if (there < wanted) {
        return psgd__fail(PSGD_ERR_FORMAT, "%s is truncated: its shape needs %lld bytes, %lld are there", npy->path,
                          (long long)wanted, (long long)there);
    }
    if (there > wanted) {
        return psgd__fail(PSGD_ERR_FORMAT, "%s has %lld bytes after its last number", npy->path,
                          (long long)(there - wanted));
    }
    return PSGD_OK;
}

psgd_status psgd__npy_open(const psgd_context *context, const char *path, npy_file *npy)
{
    *npy = (npy_file){.context = context, .handle = -1, .path = psgd__strdup(context, path)};
    if (!npy->path) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory to read %s", path);

    int64_t bytes;
    psgd_status status = psgd__file_open(path, &npy->handle, &bytes);
    if (status != PSGD_OK) npy->handle = -1;
    if (status == PSGD_OK) status = read_header(npy, bytes);
    if (status == PSGD_OK) status = check_length(npy, bytes);
    if (status != PSGD_OK) psgd__npy_close(npy);
    return status;
}

void psgd__npy_close(npy_file *npy)
{
    if (!npy->path) return;
    if (npy->handle >= 0) close(npy->handle);
    psgd__free(npy->context, npy->path);
    *npy = (npy_file){.handle = -1};
}

static void swap_bytes(int64_t count, size_t size, void *array)
{
    unsigned char *at = array;
    for (int64_t i = 0; i < count; i++, at += size) {
        for (size_t k = 0; k < size / 2; k++) {
            unsigned char other = at[k];
            at[k] = at[size - 1 - k];
            at[size - 1 - k] = other;
        }
    }
}

/* As stored, in the machine's byte order. */
static psgd_status read_stored(const npy_file *npy, int64_t from, int64_t count, void *to)
{
    size_t size = (size_t)npy->type->size;
    PSGD_TRY(read_bytes(npy, npy->start + from * (int64_t)size, count * (int64_t)size, to));
    if (npy->swapped) swap_bytes(count, size, to);
    return PSGD_OK;
}

#define NUMBER_AT(type) ((double)((const type *)stored)[i])

static double number_at(const npy_type *type, const void *stored, int64_t i)
{
    bool is_signed = type->name[0] == 'i', is_real = type->name[0] == 'f';
    switch (type->size) {
    case 1:
        return is_signed ? NUMBER_AT(int8_t) : NUMBER_AT(uint8_t);
    case 2:
        return is_signed ? NUMBER_AT(int16_t) : NUMBER_AT(uint16_t);
    case 4:
        return is_real ? NUMBER_AT(float) : is_signed ? NUMBER_AT(int32_t) : NUMBER_AT(uint32_t);
    default:
        return is_real ? NUMBER_AT(double) : is_signed ? NUMBER_AT(int64_t) : NUMBER_AT(uint64_t);
    }
}

psgd_status psgd__npy_read(const npy_file *npy, int64_t from, int64_t count, psgd_dtype wanted, void *to)
{
    if (!strcmp(npy->type->name, wanted == PSGD_F64 ? "f8" : "f4")) return read_stored(npy, from, count, to);

    double piece[PIECE]; /* room for elements of any type */
    for (int64_t done = 0, some; done < count; done += some) {
        some = count - done < PIECE ? count - done : PIECE;
        PSGD_TRY(read_stored(npy, from + done, some, piece));
        for (int64_t i = 0; i < some; i++) {
            double number = number_at(npy->type, piece, i);
            if (wanted == PSGD_F64) {
                ((double *)to)[done + i] = number;
            } else {
                ((float *)to)[done + i] = (float)number;
            }
        }
    }
    return PSGD_OK;
}

/* "[3, 0, 12]" for the index-th number. */
static void say_index(const npy_file *npy, int64_t index, char *words, size_t room)
{
    int64_t at[NPY_MAX_DIMS];
    for (int m = npy->ndim - 1; m >= 0; m--) {
        at[m] = index % npy->shape[m];
        index /= npy->shape[m];
    }
    int used = snprintf(words, room, "[");
    for (int m = 0; m < npy->ndim && used > 0 && (size_t)used < room; m++) {
        used += snprintf(words + used, room - (size_t)used, "%s%lld", m ? ", " : "", (long long)at[m]);
    }
    if (used > 0 && (size_t)used < room) snprintf(words + used, room - (size_t)used, "]");
}

static psgd_status refuse_number(const npy_file *npy, int64_t index, double number)
{
    char where[256];
    say_index(npy, index, where, sizeof where);
    if (isfinite(number)) {
        return psgd__fail(PSGD_ERR_NOT_FINITE, "%s holds %g at %s, which f32 cannot; use --dtype f64", npy->path,
                          number, where);
    }
    return psgd__fail(PSGD_ERR_NOT_FINITE, "%s holds %s at %s", npy->path,
                      isnan(number) ? "NaN, not a number,"
                      : number > 0  ? "an infinity"
                                    : "minus infinity",
                      where);
}

psgd_status psgd__npy_check_finite(const npy_file *npy, psgd_dtype wanted)
{
    double piece[PIECE], max = wanted == PSGD_F32 ? (double)FLT_MAX : DBL_MAX;
    for (int64_t done = 0, some; done < npy->count; done += some) {
        some = npy->count - done < PIECE ? npy->count - done : PIECE;
        PSGD_TRY(psgd__npy_read(npy, done, some, PSGD_F64, piece));
        for (int64_t i = 0; i < some; i++) {
            if (!(fabs(piece[i]) <= max)) return refuse_number(npy, done + i, piece[i]);
        }
    }
    return PSGD_OK;
}

static void add_shape(text *to, bool any_first, int ndim, const int64_t *shape)
{
    psgd__text_add(to, any_first ? "(T" : "(");
    for (int m = 0; m < ndim; m++) {
        psgd__text_add(to, "%s%lld", m || any_first ? ", " : "", (long long)shape[m]);
    }
    psgd__text_add(to, ndim + any_first == 1 ? ",)" : ")");
}

psgd_status psgd__npy_check_shape(const npy_file *npy, int ndim, const int64_t *shape, int64_t *first)
{
    bool fits = npy->ndim == ndim + 1;
    for (int m = 0; fits && m < ndim; m++) fits = npy->shape[m + 1] == shape[m];
    if (fits) {
        *first = npy->shape[0];
        return PSGD_OK;
    }
    text has = {.context = npy->context}, wanted = {.context = npy->context};
    add_shape(&has, false, npy->ndim, npy->shape);
    add_shape(&wanted, true, ndim, shape);
    psgd_status status = psgd__fail(PSGD_ERR_FORMAT, "%s has shape %s, not %s for T tensors%s", npy->path,
                                    has.failed ? "?" : has.chars, wanted.failed ? "?" : wanted.chars,
                                    npy->ndim == ndim ? "; add a first axis to a single one" : "");
    psgd__text_free(&has);
    psgd__text_free(&wanted);
    return status;
}

psgd_status psgd__npy_write_header(file_writer *file, psgd_dtype dtype, int ndim, const int64_t *shape)
{
    text sizes = {.context = file->context};
    add_shape(&sizes, false, ndim, shape);
    if (sizes.failed) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory to write %s", file->path);

    enum { ALIGNMENT = 64, ROOM = 1024 }; /* 33 sizes of up to 19 digits fit */
    char head[ROOM];
    int used = snprintf(head + 10, ROOM - 10, "{'descr': '<f%d', 'fortran_order': False, 'shape': %s, }",
                        (int)psgd_dtype_size(dtype), sizes.chars);
    psgd__text_free(&sizes);
    int length = (10 + used + 1 + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT - 10;
    memset(head + 10 + used, ' ', (size_t)(length - used));
    head[10 + length - 1] = '\n';
    memcpy(head, "\x93NUMPY\x01\x00", 8);
    head[8] = (char)(length & 255);
    head[9] = (char)(length >> 8);
    return psgd__file_write(file, head, 10 + length);
}
