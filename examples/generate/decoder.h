/* decoder: a language model whose cache is a state, by the C API: tokens in, scores of the next
 * ones out.
 *
 * Any model will do that takes input_ids, and attention_mask and position_ids if it likes, and
 * gives the scores of the next token first. Functions return false where they fail, and
 * decoder_problem says why.
 */
#ifndef EXAMPLES_DECODER_H
#define EXAMPLES_DECODER_H

#include <stdbool.h>
#include <stdint.h>

#include "tenon.h"

enum { DECODER_INPUTS = 3 };

/* What a run is given: `tokens` columns for each of `sequences`. */
typedef struct {
    int64_t sequences, tokens;
    const int64_t *ids;    /* [sequences][tokens] */
    const int64_t *places; /* [sequences][tokens]: which token of its sequence each is */
    /* [sequences][rows so far + tokens]: 1 where a row belongs to the sequence */
    const int64_t *mask;
} DecoderStep;

typedef struct {
    TnContext *ctx;
    TnModel *model;
    TnSession *session;
    TnTensor in[DECODER_INPUTS], *out;
    int64_t dims[DECODER_INPUTS][2];
    int32_t nin, nout;
    /* it takes a mask, so that sequences of many lengths may share its rows */
    bool masked;
    const char *batch; /* what it calls the number of sequences */
    int64_t words;     /* that it scores; 0 before the first run */
    char problem[512];
} Decoder;

bool decoder_open(Decoder *d, const char *path, int32_t threads,
                  int64_t rows /* at most; 0: no bound */);
/* Take now what runs of so many sequences and tokens take, with so many rows before them. */
bool decoder_reserve(Decoder *d, int64_t sequences, int64_t rows, int64_t tokens);
/* scores: [sequences][tokens][words], valid until the next run. */
bool decoder_run(Decoder *d, const DecoderStep *step, const float **scores);
/* What tn_session_state_arrange says, of the sequences of the runs so far. */
bool decoder_arrange(Decoder *d, int64_t sequences, const int64_t *of, int64_t rows,
                     const int64_t *from);
void decoder_forget(Decoder *d); /* there are no sequences any more */
const char *decoder_problem(const Decoder *d);
void decoder_close(Decoder *d);

#endif
