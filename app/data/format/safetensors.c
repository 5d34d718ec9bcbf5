#include "data/format/safetensors.h"
#include "core/file.h"
#include "core/memory.h"
#include "core/text.h"
#include "data/format/gzip.h"

#include <cjson/cJSON.h>
#include <float.h>
#include <math.h>
#include <string.h>

psgd_status psgd__safetensors_write(const psgd_context *context, const char *path, psgd_dtype dtype, int count,
                                    const named_matrix *matrices)
{
    text header = {.context = context};
    int64_t number = (int64_t)psgd_dtype_size(dtype), at = 0;
    for (int i = 0; i < count; i++) {
        int64_t bytes = matrices[i].rows * matrices[i].columns * number;
        psgd__text_add(&header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%lld,%lld],\"data_offsets\":[%lld,%lld]}",
                       i ? "," : "{", matrices[i].name, dtype == PSGD_F64 ? "F64" : "F32", (long long)matrices[i].rows,
                       (long long)matrices[i].columns, (long long)at, (long long)(at + bytes));
        at += bytes;
    }
    psgd__text_add(&header, "}");
    while (!header.failed && header.length % 8) psgd__text_add(&header, " ");
    if (header.failed) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory to write %s", path);
    uint64_t length = (uint64_t)header.length; /* little-endian, as the machine is: see npy.c */
    file_writer file = {0};
    psgd_status status = psgd__file_create(context, path, &file);
    if (status == PSGD_OK) status = psgd__file_write(&file, &length, sizeof length);
    if (status == PSGD_OK) status = psgd__file_write(&file, header.chars, header.length);
    for (int i = 0; status == PSGD_OK && i < count; i++)
        status = psgd__file_write(&file, matrices[i].values, matrices[i].rows * matrices[i].columns * number);
    if (status == PSGD_OK) status = psgd__file_publish(&file);
    if (status != PSGD_OK) psgd__file_abandon(&file);
    psgd__text_free(&header);
    return status;
}

typedef struct found {
    const unsigned char *bytes;
    bool wide; /* F64 */
} found;

static bool two_sizes(const cJSON *list, double pair[2])
{
    for (int i = 0; i < 2; i++) {
        const cJSON *item = cJSON_GetArrayItem(list, i);
        if (!cJSON_IsNumber(item) || item->valuedouble < 0 || item->valuedouble != floor(item->valuedouble)) {
            return false;
        }
        pair[i] = item->valuedouble;
    }
    return cJSON_GetArraySize(list) == 2;
}

static psgd_status find(const cJSON *header, const char *path, const named_matrix *wanted, const unsigned char *data,
                        int64_t bytes, found *to)
{
    const cJSON *entry = cJSON_GetObjectItemCaseSensitive(header, wanted->name);
    if (!entry) return psgd__fail(PSGD_ERR_FORMAT, "%s has no tensor %s", path, wanted->name);
    const cJSON *dtype = cJSON_GetObjectItemCaseSensitive(entry, "dtype");
    double shape[2], place[2];
    bool single = cJSON_IsString(dtype) && !strcmp(dtype->valuestring, "F32");
    to->wide = cJSON_IsString(dtype) && !strcmp(dtype->valuestring, "F64");
    if (!single && !to->wide) {
        return psgd__fail(PSGD_ERR_FORMAT, "%s: tensor %s is neither F32 nor F64", path, wanted->name);
    }
    if (!two_sizes(cJSON_GetObjectItemCaseSensitive(entry, "shape"), shape) || shape[0] != (double)wanted->rows ||
        shape[1] != (double)wanted->columns) {
        return psgd__fail(PSGD_ERR_FORMAT, "%s: tensor %s is not of shape [%lld, %lld]", path, wanted->name,
                          (long long)wanted->rows, (long long)wanted->columns);
    }
    double need = shape[0] * shape[1] * (to->wide ? 8 : 4);
    if (!two_sizes(cJSON_GetObjectItemCaseSensitive(entry, "data_offsets"), place) || place[1] - place[0] != need ||
        place[1] > (double)bytes) {
        return psgd__fail(PSGD_ERR_FORMAT,
                          "%s: the data of tensor %s lies outside the file: it is truncated or damaged", path,
                          wanted->name);
    }
    to->bytes = data + (int64_t)place[0];
    return PSGD_OK;
}

static void copy(const found *from, psgd_dtype dtype, const named_matrix *to)
{
    for (int64_t i = 0; i < to->rows * to->columns; i++) {
        double wide;
        float single;
        memcpy(&wide, from->bytes + (from->wide ? 8 * i : 0), sizeof wide * from->wide);
        memcpy(&single, from->bytes + (from->wide ? 0 : 4 * i), from->wide ? 0 : sizeof single);
        if (dtype == PSGD_F64) ((double *)to->values)[i] = from->wide ? wide : (double)single;
        if (dtype == PSGD_F32) ((float *)to->values)[i] = from->wide ? (float)wide : single;
    }
}

/* Every value is one that the dtype can hold. */
static psgd_status check_values(const char *path, const found *from, psgd_dtype dtype, const named_matrix *wanted)
{
    const double max = dtype == PSGD_F64 ? DBL_MAX : (double)FLT_MAX;
    for (int64_t i = 0; i < wanted->rows * wanted->columns; i++) {
        double wide;
        float single;
        memcpy(from->wide ? (void *)&wide : (void *)&single, from->bytes + (from->wide ? 8 : 4) * i,
               from->wide ? 8 : 4);
        if (!(fabs(from->wide ? wide : (double)single) <= max)) {
            return psgd__fail(PSGD_ERR_NOT_FINITE, "%s: tensor %s holds a value that is not finite in %s", path,
                              wanted->name, psgd_dtype_name(dtype));
        }
    }
    return PSGD_OK;
}

/* Everything is found and checked before anything is copied. */
static psgd_status take(const psgd_context *context, const char *path, const unsigned char *bytes, int64_t size,
                        psgd_dtype dtype, int count, const named_matrix *matrices)
{
    uint64_t length = 0;
    if (size >= 8) memcpy(&length, bytes, sizeof length);
    if (size < 8 || length > (uint64_t)(size - 8) || length < 2) {
        return psgd__fail(PSGD_ERR_FORMAT, "%s is not a safetensors file", path);
    }
    cJSON *header = cJSON_ParseWithLength((const char *)bytes + 8, (size_t)length);
    found *places = psgd__alloc(context, count, sizeof *places);
    psgd_status status = PSGD_OK;
    if (!cJSON_IsObject(header)) status = psgd__fail(PSGD_ERR_FORMAT, "%s is not a safetensors file", path);
    if (!places) status = psgd__fail(PSGD_ERR_NO_MEMORY, "no memory to read %s", path);
    const unsigned char *data = bytes + 8 + length;
    for (int i = 0; status == PSGD_OK && i < count; i++) {
        status = find(header, path, &matrices[i], data, size - 8 - (int64_t)length, &places[i]);
        if (status == PSGD_OK) status = check_values(path, &places[i], dtype, &matrices[i]);
    }
    for (int i = 0; status == PSGD_OK && i < count; i++) copy(&places[i], dtype, &matrices[i]);
    psgd__free(context, places);
    cJSON_Delete(header);
    return status;
}

psgd_status psgd__safetensors_read(const psgd_context *context, const char *path, psgd_dtype dtype, int count,
                                   const named_matrix *matrices)
{
    unsigned char *bytes;
    int64_t size;
    PSGD_TRY(psgd__file_read(context, path, &bytes, &size));
    psgd_status status = take(context, path, bytes, size, dtype, count, matrices);
    psgd__free(context, bytes);
    return status;
}
