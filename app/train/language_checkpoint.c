/* The checkpoint of a language run: mark, theta, best theta, carried state, checksum. */
#include "train/language.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/file.h"
#include "core/memory.h"
#include "core/text.h"

static const char magic[8] = "psgdlang";

/* FNV-1a over words of 4 bytes. */
static uint64_t checksum(uint64_t sum, const void *data, int64_t bytes)
{
    const uint32_t *words = data;
    for (int64_t i = 0; i < bytes / 4; i++) sum = (sum ^ words[i]) * 1099511628211u;
    return sum;
}

typedef struct piece {
    void *data;
    int64_t bytes;
} piece;

static void pieces_of(const language_memory *memory, piece pieces[4])
{
    int64_t slab = memory->mark.parameters * (int64_t)sizeof(float);
    pieces[0] = (piece){(void *)&memory->mark, sizeof memory->mark};
    pieces[1] = (piece){memory->theta, slab};
    pieces[2] = (piece){memory->best, slab};
    pieces[3] = (piece){memory->state, memory->mark.state_size * (int64_t)sizeof(float)};
}

static psgd_status path_of(const psgd_context *context, const char *folder, text *path)
{
    *path = (text){.context = context};
    psgd__text_add(path, "%s/checkpoint", folder);
    return path->failed ? psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the checkpoint of '%s'", folder) : PSGD_OK;
}

psgd_status psgd__language_save(const psgd_context *context, const language_memory *from, const char *folder)
{
    text path;
    piece pieces[4];
    file_writer file;
    language_memory whole = *from;
    memcpy(whole.mark.magic, magic, sizeof magic);
    pieces_of(&whole, pieces);
    PSGD_TRY(path_of(context, folder, &path));
    psgd_status status = psgd__file_create(context, path.chars, &file);
    psgd__text_free(&path);
    PSGD_TRY(status);
    uint64_t sum = 0;
    for (int i = 0; status == PSGD_OK && i < 4; i++) {
        sum = checksum(sum, pieces[i].data, pieces[i].bytes);
        status = psgd__file_write(&file, pieces[i].data, pieces[i].bytes);
    }
    if (status == PSGD_OK) status = psgd__file_write(&file, &sum, sizeof sum);
    if (status == PSGD_OK) return psgd__file_publish(&file);
    psgd__file_abandon(&file);
    return status;
}

static psgd_status open_checkpoint(const char *folder, FILE **file, language_mark *mark)
{
    text path;
    PSGD_TRY(path_of(NULL, folder, &path));
    psgd_status status = PSGD_OK;
    *file = fopen(path.chars, "rb");
    if (!*file) {
        status = psgd__fail(PSGD_ERR_IO, "'%s' has no checkpoint of a language model: %s", folder, strerror(errno));
    } else if (fread(mark, sizeof *mark, 1, *file) != 1 || memcmp(mark->magic, magic, sizeof magic) != 0) {
        status = psgd__fail(PSGD_ERR_FORMAT, "'%s' is not the checkpoint of a language model", path.chars);
        fclose(*file);
    }
    psgd__text_free(&path);
    return status;
}

psgd_status psgd__language_load_mark(const char *folder, language_mark *mark)
{
    FILE *file;
    PSGD_TRY(open_checkpoint(folder, &file, mark));
    fclose(file);
    return PSGD_OK;
}

psgd_status psgd__language_load(const psgd_context *context, language_memory *to, const char *folder)
{
    FILE *file;
    language_mark mark;
    PSGD_TRY(open_checkpoint(folder, &file, &mark));
    psgd_status status = PSGD_OK;
    int64_t size = 2 * mark.parameters + mark.state_size;
    float *read = NULL;
    if (mark.parameters != to->mark.parameters || mark.state_size != to->mark.state_size) {
        status = psgd__fail(PSGD_ERR_FORMAT, "the checkpoint in '%s' is of a model of %lld numbers, not %lld", folder,
                            (long long)mark.parameters, (long long)to->mark.parameters);
    } else if (!(read = psgd__alloc(context, size, sizeof *read))) {
        status = psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the checkpoint in '%s'", folder);
    } else {
        uint64_t sum = 0, own = checksum(0, &mark, sizeof mark);
        bool whole = fread(read, sizeof *read, (size_t)size, file) == (size_t)size &&
                     fread(&sum, sizeof sum, 1, file) == 1;
        if (!whole || checksum(own, read, size * (int64_t)sizeof *read) != sum)
            status = psgd__fail(PSGD_ERR_FORMAT, "the checkpoint in '%s' is truncated or damaged", folder);
    }
    if (status == PSGD_OK) {
        to->mark = mark;
        memcpy(to->theta, read, (size_t)mark.parameters * sizeof *read);
        memcpy(to->best, read + mark.parameters, (size_t)mark.parameters * sizeof *read);
        memcpy(to->state, read + 2 * mark.parameters, (size_t)mark.state_size * sizeof *read);
    }
    psgd__free(context, read);
    fclose(file);
    return status;
}
