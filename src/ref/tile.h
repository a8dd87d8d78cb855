/* tile: a nest run many points at a time.
 *
 * The two innermost parallel axes of a nest that have more than one point (or the innermost alone)
 * are cut into tiles of at most TILE_POINTS points, `row` and `col`. The code that the one-point
 * path runs for each of them is run once for the tile: every instruction works on all of its points
 * before the next begins, so that its dispatch is paid once. Points of parallel axes do not see
 * each other, hence each computes exactly what it would alone: the same operations in the same
 * order, reductions included, whose points stay a sequence walked around the whole tile.
 *
 * A register of the code then has one of three forms:
 *   SAME     one value for all points; stands in the register file as ever
 *   LINEAR   an index that grows by fixed steps along row and col; the file has the first point's
 *   EACH     an array, by point: float where the type is f32, Number elsewhere
 *
 * What a tile cannot do at once (a read outside its tensor, a select whose sides may not both be
 * evaluated and whose condition differs within the tile) is no special case: the tile is split in
 * two, and a tile of one point goes the one-point way, which also reports every error. Nothing is
 * stored before all points of a tile have come through, so trying costs no meaning.
 */
#ifndef TENON_REF_TILE_H
#define TENON_REF_TILE_H

#include "ref/internal.h"

enum { TILE_POINTS = 512 };

typedef enum { FORM_SAME, FORM_LINEAR, FORM_EACH } Form;
typedef struct {
    uint8_t form;     /* Form */
    bool f32;         /* EACH: which array */
    int64_t row, col; /* LINEAR: the steps */
    float *f;
    Number *v; /* EACH: [TILE_POINTS] */
} TileReg;

/* How a read or write finds its elements: where all indices are linear, so is the offset. */
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
    /* of what it computes; unless EACH, running it for the first point is enough */
    Form form;
    bool total;           /* BRANCH: no side can fail, both may be evaluated */
    TileAt place;         /* LOAD */
    const TileCode *code; /* REDUCE: [naxis + 1] blocks; BRANCH: [2] sides */
};

typedef struct Tiled {
    Program *p;
    const Domain *domain;
    const Stores *stores;
    uint32_t first;                 /* levels from here on make the tile: one, or two */
    int64_t extent_row, extent_col; /* of the axes; 1 where there is no row axis */
    TileCode *block;                /* [naxis + 1]; those after `first` */
    TileAt *store;                  /* [stores->n] */
    TileReg *reg;
    int64_t rows, cols; /* of the tile being run */
    uint32_t n;         /* its points */
    bool split;         /* it failed for being a tile; nothing is reported */
    /* operands as arrays, aligned as vectors want */
    struct {
        _Alignas(16) float f[TILE_POINTS];
        Number v[TILE_POINTS];
    } scratch[3];
    int64_t offset[TILE_POINTS]; /* elements of a read or write; -1 outside */
} Tiled;

/* The tile whose first point stands in the axes' registers. False: split is set, or it is
 * reported. */
bool tile_run(Tiled *t, int64_t rows, int64_t cols);

#endif
