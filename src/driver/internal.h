/* driver, inside: one compilation on its way through the stages. */
#ifndef TENON_DRIVER_INTERNAL_H
#define TENON_DRIVER_INTERNAL_H

#include "driver/driver.h"

#include "emit/emit.h"
#include "format/format.h"
#include "fuse/fuse.h"
#include "batch/batch.h"
#include "lower/lower.h"
#include "normalise/normalise.h"
#include "page/page.h"
#include "rewrite/rewrite.h"

/* What is priced at so much of another is taken for less. Half of the prices of 215 kernels of six
 * models are off by a factor of 1.29 or more on a Cascade Lake core (tenon bench --profile): what
 * is priced at more may be no gain. */
#define CLEARLY 0.75
/* larger results stay computed: folding must not blow a model up */
#define FOLD_BYTES ((int64_t)256 << 20)

/* Kernels with equal code are one function, whatever nodes call it. */
typedef struct {
    char symbol[24];     /* tk_<16 digits>: the hash of its text */
    char *text;          /* the function, without the prelude */
    const char *emitted; /* the same before it had a name of its own: what equal ones share */
    size_t bytes;
    const Kernel *kernel;     /* one that is it, */
    SymbolList sizes;         /* where TnArgs.sym begins with these */
    VEC(const char *) origin; /* of every node that does */
} Function;

typedef struct {
    VEC(Function) function;
    Map code;         /* of each kernel (Kernel): its KernelCode */
    uint32_t kernels; /* calls in all graphs */
    const char *host; /* the host program */
} Sources;

typedef struct {
    Ctx *ctx;
    Arena *arena;
    const DriverOptions *o;
    const char *model_path, *out_path;
    Bytes file;  /* the model, mapped */
    Writer *out; /* NULL when nothing is to be written */
    Machine machine;
    Graph *graph;
    ModelPlan *plan;
    Sources sources;
    const TnBatchPolicy *policy; /* the order of blocks of many requests; NULL: by depth */
    /* why requests cannot run together; NULL: they can, or nobody asked (--many) */
    const char *single;
    Graph *padded;         /* before its tokens were packed (ragged.c); NULL: they are not */
    const Expr *tokens;    /* how many those are */
    Map chosen;            /* schedules found so far, by their questions (choose.c) */
    Map ahead;             /* answers that were found together, by their questions (ahead.c) */
    FormatDomains domains; /* convolutions that may be products in one (domains.c) */
    /* [graph->state.n]: how a state lies (states.c); NULL: before that stage */
    const uint8_t **state_order;
    VEC(Sym) wished;   /* values that a text says lie in an order (formats.c) */
    Map constant_hash; /* of each constant (Value), from format on: contents, type, format */
    uint64_t weights_hash;
    const char *summary;
    const char *remarks; /* comment lines of the stage that just ran, for its dump; or NULL */
    DriverReport *report;
    Page *page;     /* of every stage; NULL: none is wanted */
    Text explained; /* of a page of what fusion decided: its graphs; … */
    /* … and values that lie otherwise than the model says, a line each; NULL: not known */
    const char *orders;
    bool answered, keeping, wishing; /* what --why, --keep, --must-fuse name has been met */
    /* the text of --fuse-plan, read as far as graphs have been fused; NULL: none, or not yet
     * begun */
    Parse *fuse_plan;
    uint32_t joins; /* of the graphs that have been fused (--fuse-bisect) */
} Job;

/* ---- pipeline.c ---- */

typedef enum { SHOWS_GRAPH, SHOWS_PLAN, SHOWS_SOURCE, SHOWS_REPORT } Shows;
typedef struct {
    const char *name;
    Shows shows; /* what a dump after it prints */
    bool (*run)(Job *j);
} Stage;

/* ---- dump.c ---- */

/* Prints the state after each stage that --dump names. */
typedef struct Dump Dump;
/* NULL with a diagnostic: the folder cannot be made */
Dump *dump_new(Job *j);
bool dump_stage(Dump *d, const Stage *s, uint32_t number);
bool dump_end(Dump *d);

/* ---- fusion.c: which nests become one kernel ---- */

bool fusion_mode(const char *text, FuseMode *mode); /* --fuse */
bool has_nests(const Graph *g);
bool fusion_named(Job *j);
/* "A,B", where names may have commas: split at the first one where both name nodes of g; first
 * NULL: nowhere. */
FuseWish fusion_pair(Job *j, const Graph *g, const FusePlan *p, const char *text);
Graph *fusion_of(void *job, const Graph *g); /* kernels of its nests; NULL: reported */

/* ---- explain.c: what fusion decided, printed ---- */

void explain_fusion(Job *j, const Graph *g, const FusePlan *p, const FuseCertificate *known);
/* false, reported: what --why asks for is nowhere */
bool explain_answered(Job *j);

/* ---- question.c: what is asked of a kernel, and what is answered ---- */

/* programs of an answer that is kept: the cheapest, and the one after it */
enum { QUESTION_KEPT = 2 };
/* A kernel's programs. constant [nin]: which inputs are known now; far: those come from memory in
 * every call. */
Sym question_programs(Job *j, const Kernel *k, const bool *constant, bool far);
/* The variants of the kernel of such a question that has this program. */
Sym question_variants(Job *j, Sym programs, const char *own);
/* In a context of its own. most: programs that it has at most. Arena  a: of the answer, and of much
 * scratch. NULL: there is none. */
const char *question_answer(Arena *a, const Machine *m, Sym question, uint32_t most);
/* Choices as text: how many, and the first of them. */
const char *choices_text(Arena *a, const Choices *choices, uint32_t most);
bool choices_parse(Arena *a, const char *text, uint32_t most, Choices *out);

/* ---- variants.c: other programs for sizes of a kind ---- */

typedef struct {
    uint32_t n;
    Kernel **at;
} Variants;
/* All that kernel k gains by, whose own program is `own`, as text. */
const char *variants_answer(Ctx *c, Arena *a, const Kernel *k, const Machine *m,
                            const bool *constant, bool far, const char *own);
/* As many of an answer as the job allows, those that gain most; what is said of them is added to
 * the remark. False: it is damaged. */
bool variants_parse(Job *j, const Kernel *k, const char *answer, Variants *out, Text *remark);
Kernel *variant_of(Job *j, const Kernel *k, const SizeGuard *guard, const char *program);

/* ---- choice_cache.c: what was answered before ---- */

bool choice_cache_get(Job *j, Arena *a, Sym question, const char **answer);
void choice_cache_put(Job *j, Arena *a, Sym question, const char *answer);

/* ---- policy.c: j->policy of --policy, once j->graph is a program for many ---- */

bool policy_take(Job *j);

/* ---- ahead.c: many questions at once ---- */

typedef VEC(Sym) Noted;                /* questions */
uint32_t driver_threads(const Job *j); /* of the compilation */
bool ahead_can(const Job *j);          /* may several processors work? */
/* Answers, in j->ahead; to some questions perhaps not. */
void ahead_answer(Job *j, const Noted *questions);

/* ---- source.c: the graph of kernels as C ---- */

bool source_kernels(Job *j); /* fills j->sources.function */
bool source_host(Job *j, bool single_file, const void *embed_weights);
/* The function `first` and some after it as a translation unit; how many. */
const char *source_unit(Job *j, uint32_t first, uint32_t *count);
const char *source_whole(Job *j);       /* all of them and the host program as one */
bool source_functions(Job *j, Text *t); /* all functions, with comments for a reader */
/* Everything in one file for a person to read and take along. weights_name: the file beside, or
 * NULL if embedded. */
bool source_single_file(Job *j, Text *t, const char *weights_name);
/* Text of the model's inside a C comment: it may neither end the comment nor start a line. */
void source_comment(Text *t, const char *s);

/* ---- header.c: what a program needs to use it ---- */

void header_write(Job *j, Text *t, const char *weights_name);   /* NAME.h */
bool header_example(Job *j, Text *t, const char *weights_name); /* NAME-main.c */

/* ---- artefact.c: weights and files ---- */

/* constants of equal contents, type and format become one value */
void weights_share(Job *j);
uint64_t weights_hash(Job *j);
bool artefact_write(Job *j); /* compile, link, append: the shared library */
/* NAME.c and NAME.h, NAME.weights if they are many, NAME-main.c if wanted */
bool artefact_write_c(Job *j);
/* The output's path with another ending: NAME.c and ".h" give NAME.h. */
const char *artefact_beside(Job *j, const char *ending);

/* ---- segment.c ---- */

/* Room for a segment of `bytes`, weights after the first `head_bytes`, in a linked library:
 * `before` is to be written, then the segment, then `after`. */
bool segment_append(Job *j, Bytes linked, uint64_t head_bytes, uint64_t bytes, Bytes *before,
                    Bytes *after);

/* ---- options.c: the environment, which only this file reads ---- */

DriverOptions options_resolve(Arena *a, const DriverOptions *o);

/* ---- formats.c: orders of dimensions ---- */

bool formats_how(const char *text, FormatHow *how); /* --formats */
/* of inputs and outputs, as --io-format says; and what the text wishes is kept */
bool formats_ports(Job *j);
const char *formats_port(const Job *j, Sym name); /* what it says of one; NULL: nothing */
bool formats_between(Job *j);                     /* of what lies between kernels */
void formats_pieces(Job *j);                      /* and what of it lies within what */

/* ---- profile.c: what was measured ---- */

/* of `tenon bench --profile --json`; NULL with a diagnostic */
FormatMeasured *profile_read(Job *j, const char *path);

/* ---- prices ---- */

/* Who asks for prices. far: constants come from memory in every call. rounds: so often may prices
 * be noted yet, not found. */
typedef struct {
    Job *j;
    bool far;
    uint32_t rounds;
    Noted noted;
} Prices;

/* ---- ranges.c: what open sizes may be ---- */

/* before the model is read, so that its shape rules know them */
bool ranges_declare(Job *j);
bool ranges_found(Job *j); /* afterwards: each is a size of an input */
void ranges_count(Job *j); /* what symbols of inputs count as */

/* ---- ragged.c ---- */

/* The graph of nests computed for the tokens that --ragged names. */
bool ragged_pack(Job *j);
/* Fused, would scores of all pairs of tokens be stored? Then the graph is what it was before. */
bool ragged_unpack(Job *j);

/* ---- states.c: what a session keeps between runs ---- */

bool states_named(void *job, const char *input); /* does --state say that it is one? */
bool states_declare(Job *j);                     /* those that --state says, into the graph */
bool states_in_place(Job *j);                    /* those that can grow in place do */
/* how input or output i lies, if it is a state's; or NULL */
const char *states_order(const Job *j, bool output, uint32_t i);

/* ---- narrow.c: weights in fewer bits ---- */

bool weights_narrow(Job *j); /* as --weights says */

/* ---- domains.c: convolutions in a transform domain ---- */

/* who stays until the next one begins, or the domains are chosen */
void domains_begin(Prices *prices);
/* As choose_price, in the domain that is cheapest, or in none. data [k->nin]: the contents of
 * inputs that are known now. */
double domains_seconds(Prices *prices, const Kernel *k, const void *const *data);
bool domains_choose(Job *j, Text *remarks); /* the graph with those in it that are */

/* ---- library.c: products by the system's CBLAS ---- */

bool library_check(Job *j);    /* can it be done as --library says? */
bool library_products(Job *j); /* nests that are better called become calls */
uint32_t library_calls(Job *j);
/* what the artefact is linked with; NULL: it calls none */
bool library_link(Job *j, const char **flag);

/* ---- pins.c: a file of choices ---- */

/* where: of a variant */
typedef struct {
    Sym value;
    SizeGuard where;
    const char *steps;
    Loc loc;
    bool used;
} Pin;
typedef VEC(Pin) Pins;
/* by which a kernel is named: the first that it makes */
Sym kernel_value(const Graph *g, NodeId n);
bool pins_read(Job *j, const char *path, Pins *pins); /* none of no path */
/* What is said of a kernel: its own schedule, or that it has variants; NULL: nothing. */
Pin *pins_of(const Pins *pins, Sym value, bool variant);
Variants pins_variants(Job *j, const Pins *pins, Sym value, const Kernel *k);
/* false, reported: one of them is of no kernel */
bool pins_used(Job *j, const Pins *pins);

/* ---- choose.c ---- */

/* Are all constants more than half of the last cache, so that another call's have driven them out
 * when one comes back? */
bool constants_are_far(const Job *j);
/* Kernel.schedule of every kernel that has none (choose.c). */
bool choose_schedules(Job *j);
Prices choose_prices(Job *j);
/* The seconds of a kernel's best schedule; negative: it has none. constant [k->nin]: which inputs
 * are known now. */
double choose_price(void *prices, const Kernel *k, const bool *constant);
/* The same for node n of g, were its kernel k. */
double choose_seconds(Prices *prices, const Graph *g, NodeId n, const Kernel *k);
/* From here on a price that all processors could find together is noted, where more than one may
 * work; 0 stands for it. */
void choose_note(Prices *prices);
/* What was noted is found. True: something was, and is to be asked again. */
bool choose_noted(Prices *prices);
/* Of kernels one after the other, in transform domains where that is cheapest, in the order of
 * dimensions that one of them proposes, or as they are. */
double choose_price_in_turn(void *prices, const Kernel *const *k, const void *const *const *data,
                            uint32_t n);

#endif
