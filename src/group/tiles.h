/* Where a tile of a matrix lies, whatever the dtype: tiles(G,a,b) cuts rows into a and columns into b parts, as even as
 * possible, the first ones larger by one. Tiles are counted row by row of tiles. */
#ifndef PSGD_GROUP_TILES_H
#define PSGD_GROUP_TILES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef struct tile_grid {
    int64_t rows, columns; /* of the matrix */
    int64_t down, across;  /* tiles */
} tile_grid;

typedef struct tile_place {
    int64_t row, column, rows, columns;
} tile_place;

static inline int64_t tile_edge(int64_t n, int64_t parts, int64_t i)
{
    return i * (n / parts) + (i < n % parts ? i : n % parts);
}

static inline int64_t tile_count(const tile_grid *grid)
{
    return grid->down * grid->across;
}

static inline tile_place tile_at(const tile_grid *grid, int64_t index)
{
    int64_t i = index / grid->across, j = index % grid->across;
    tile_place t = {.row = tile_edge(grid->rows, grid->down, i), .column = tile_edge(grid->columns, grid->across, j)};
    t.rows = tile_edge(grid->rows, grid->down, i + 1) - t.row;
    t.columns = tile_edge(grid->columns, grid->across, j + 1) - t.column;
    return t;
}

/* The tile out of the matrix, row after row, or back into it. element: bytes. */
static inline void tile_copy(const tile_grid *grid, tile_place t, int64_t element, char *matrix, char *packed,
                             bool back)
{
    size_t bytes = (size_t)(t.columns * element);
    for (int64_t i = 0; i < t.rows; i++) {
        char *row = matrix + ((t.row + i) * grid->columns + t.column) * element, *other = packed + (size_t)i * bytes;
        memcpy(back ? row : other, back ? other : row, bytes);
    }
}

#endif
