/* tile: runs many points of a nest at a time.
 *
 * The two innermost parallel axes of a nest that have more than one point (or the innermost alone)
 * are split into tiles of at most TILE_POINTS points, `row` and `col`. The instructions of the
 * one-point path run once for a tile: each works on all points before the next one begins, so
 * dispatch is paid once. Points of parallel axes are independent, so each computes exactly what it
 * would alone: the same operations in the same order. The points of a reduction stay sequential
 * around the complete tile.
 *
 * A register has one of three forms:
 *   SAME     one value for all points, in the register file
 *   LINEAR   an index with fixed steps along row and col; the file has the value of the first point
 *   EACH     an array, by point: float if the type is f32, otherwise Number
 *
 * If a tile cannot do something at once (a read outside of its tensor; a select whose condition
 * differs within the tile and whose sides may not both be evaluated), it is split in two. A tile of
 * one point takes the one-point path, which also reports errors. Nothing is stored before all
 * points of a tile have succeeded, so a failed attempt has no effect.
 */
#ifndef TENON_REF_TILE_H
#define TENON_REF_TILE_H

#include "ref/internal.h"

enum { TILE_POINTS = 512 };

typedef enum { FORM_SAME, FORM_LINEAR, FORM_EACH } RegisterForm;
typedef struct {
    uint8_t form;     /* Form */
    bool f32;         /* EACH: which array */
    int64_t row, col; /* LINEAR: the steps */
    float *f;
    Number *v; /* EACH: [TILE_POINTS] */
} TileReg;

/* How a read or write finds its elements: if all indices are linear, so is the offset. */
typedef struct {
    uint32_t rank;
    const uint32_t *at;
    bool linear;
    int64_t row, col;
} TileAt;

typedef struct TileInstr TileInstr;
typedef struct {
    uint32_t n;
    TileInstr *at;
} TileCode;
struct TileInstr {
    const Instr *in;
    /* of its result; unless EACH, running it for the first point suffices */
    RegisterForm form;
    bool total;           /* BRANCH: no side can fail, so both may be evaluated */
    TileAt place;         /* LOAD */
    const TileCode *code; /* REDUCE: [naxis + 1] blocks; BRANCH: [2] sides */
};

typedef struct Tiled {
    CompiledNest *p;
    const Domain *domain;
    const Stores *stores;
    uint32_t first;                 /* the tile is the levels from here on: one or two */
    int64_t extent_row, extent_col; /* of the axes; 1 without a row axis */
    TileCode *block;                /* [naxis + 1]; those after `first` */
    TileAt *store;                  /* [stores->n] */
    TileReg *reg;
    int64_t rows, cols; /* of the tile being run */
    uint32_t n;         /* its points */
    bool split;         /* it failed because it is a tile; nothing is reported */
    /* operands as arrays, aligned for vectors */
    struct {
        _Alignas(16) float f[TILE_POINTS];
        Number v[TILE_POINTS];
    } scratch[3];
    int64_t offset[TILE_POINTS]; /* elements of a read or write; -1 outside */
} Tiled;

/* The tile whose first point is in the axes' registers. False: split is set, or an error is
 * reported. */
bool tile_run(Tiled *t, int64_t rows, int64_t cols);

#endif
