/* internals of driver: the state of one compilation, and what the stages share. */
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

/* A program counts as faster only below this ratio of prices. Half of the prices of 215 kernels of
 * six models are off by a factor of 1.29 or more on a Cascade Lake core (tenon bench --profile), so
 * a smaller gain may be none. */
#define CLEARLY 0.75
/* larger results are computed in runs: folding must not inflate the model */
#define FOLD_BYTES ((int64_t)256 << 20)

/* A function: kernels with equal code share one. */
typedef struct {
    char symbol[24]; /* tk_<16 digits>: the hash of its text */
    char *text;      /* the function, without the prelude */
    /* the text with the placeholder as its name: equal ones share a function */
    const char *emitted;
    size_t bytes;
    const Kernel *kernel;     /* one of its kernels */
    SymbolList sizes;         /* the first sizes in TnArgs.sym */
    VEC(const char *) origin; /* of every node that calls it */
} KernelFunction;

typedef struct {
    VEC(KernelFunction) function;
    Map code;         /* of each kernel (Kernel): its KernelCode */
    uint32_t kernels; /* calls in all graphs */
    const char *host; /* the host program */
} Sources;

/* The options of a call with their defaults, and as import and build want them. (options.c) */
typedef struct {
    TnCompileOptions o;
    ImportOptions import;
    BuildOptions build;
    /* matrix multiplications by the system's CBLAS: "blas" if that is faster, "blas=always"; NULL:
     * none */
    const char *blas;
} Settings;

typedef struct {
    Ctx *ctx;
    Arena *arena;
    const Settings *set;
    const TnCompileOptions *o; /* of the settings */
    const char *model_path, *out_path;
    Bytes file;  /* the model, memory-mapped */
    Writer *out; /* NULL: no output */
    Machine machine;
    Graph *graph;
    ModelPlan *plan;
    Sources sources;
    const TnBatchPolicy *policy; /* the order of blocks of many requests; NULL: by depth */
    /* why requests cannot run together; NULL: they can, or --many was not given */
    const char *single;
    Graph *padded;         /* the graph before padding was removed (ragged.c); NULL: it was not */
    const Expr *tokens;    /* the number of tokens */
    Map chosen;            /* schedules chosen so far, by query (choose.c) */
    Map ahead;             /* answers of parallel queries, by query (query_threads.c) */
    FormatDomains domains; /* convolutions that may use the Winograd domain (winograd.c) */
    /* [graph->state.n]: the layout of a state (states.c); NULL: before that stage */
    const uint8_t **state_order;
    VEC(Sym) text_orders; /* values whose layout a text gives (formats.c) */
    /* of each constant (Value), from the stage format on: contents, type, format */
    Map constant_hash;
    uint64_t weights_hash;
    const char *summary;
    const char *remarks; /* comment lines of the last stage, for its dump; or NULL */
    Metadata metadata;   /* of an ONNX model, for those who run it */
    DriverReport *report;
    const char *reuse_key; /* of the artefact in the cache (reuse.c); NULL: it is not kept there */
    Page *page;            /* the HTML page of all stages; NULL: not requested */
    Text explained;        /* for the page: what fusion decided, by graph … */
    /* … and values with another layout than the model's, one per line; NULL: unknown */
    const char *orders;
    /* the names in --why, --keep, --must-fuse occur in some graph */
    bool answered, keeping, paired;
    /* the text of --fuse-plan, parsed up to the next graph; NULL: none, or not begun */
    Parse *fuse_plan;
    uint32_t merges; /* in the graphs fused so far (--fuse-bisect) */
} Job;

/* ---- pipeline.c ---- */

/* diag_error and diag_note at the model's path */
bool model_error(const Job *j, DiagClass class, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void model_note(const Job *j, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* for a message: "a, b, …"; "none" */
const char *value_names(const Job *j, const ValueId *value, uint32_t n);

typedef enum { SHOWS_GRAPH, SHOWS_PLAN, SHOWS_SOURCE, SHOWS_REPORT } Shows;
typedef struct {
    const char *name;
    Shows shows; /* what a dump after the stage prints */
    bool (*run)(Job *j);
} Stage;

/* ---- dump.c ---- */

/* Prints the state after each stage that --dump names. */
typedef struct Dump Dump;
/* NULL with a diagnostic: the folder cannot be made */
Dump *dump_new(Job *j);
bool dump_stage(Dump *d, const Stage *s, uint32_t number);
bool dump_end(Dump *d);

/* ---- fusion.c: fuses nests into kernels ---- */

bool fusion_mode(const char *text, FuseMode *mode); /* --fuse */
bool fusion_known(Job *j);                          /* false, reported: unknown mode */
bool has_nests(const Graph *g);
bool fusion_named(Job *j);
/* "A,B": two nodes of g. Names may have commas: splits at the first comma where both parts name
 * nodes; first NULL: none. */
FuseRequest fusion_pair(Job *j, const Graph *g, const FusePlan *p, const char *text);
/* g with its nests fused into kernels; NULL: reported */
Graph *fusion_of(void *job, const Graph *g);

/* ---- mcu.c: one C file for a microcontroller ---- */

bool mcu_asked(const Job *j); /* --profile mcu */
/* Prints the RAM of each step if explain is 4. False, reported: the model needs what such a file has
 * not, or more memory than allowed. */
bool mcu_check(Job *j);
bool mcu_write(Job *j, const void *weights, Text *source, Text *header);

/* ---- explain.c: prints what fusion decided ---- */

void explain_fusion(Job *j, const Graph *g, const FusePlan *p, const FuseCertificate *known);
/* Says why as many kernels are compiled as there are in the end, if fusion made another number. */
void explain_kernels(Job *j, uint32_t fused, uint32_t with_domains, uint32_t end);
/* false, reported: no graph has the names of --why */
bool explain_answered(Job *j);

/* ---- query.c: queries about a kernel, and their answers -------------------------------------- */

/* programs that an answer keeps: the cheapest, and the second */
enum { QUERY_KEPT = 2 };
/* The query for a kernel's programs. constant [nin]: inputs known at compile time; far: they come
 * from memory in every call. */
Sym query_programs(Job *j, const Kernel *k, const bool *constant, bool far);
/* The query for the variants of that query's kernel, given its own program. */
Sym query_variants(Job *j, Sym programs, const char *own);
/* Answers a query, in a context of its own. most: limit of programs. Arena a: of the answer, and of
 * large scratch. NULL: none. */
const char *query_answer(Arena *a, const Machine *m, Sym query, uint32_t most);
/* Choices as text: their number, and the first of them. */
const char *choices_text(Arena *a, const Choices *choices, uint32_t most);
bool choices_parse(Arena *a, const char *text, uint32_t most, Choices *out);

/* ---- variants.c: further programs for ranges of sizes ---- */

typedef struct {
    uint32_t n;
    Kernel **at;
} Variants;
/* All variants of kernel k that gain over its own program `own`, as text. */
const char *variants_answer(Ctx *c, Arena *a, const Kernel *k, const Machine *m,
                            const bool *constant, bool far, const char *own);
/* The variants of an answer that gain most, as many as --variants allows; describes them in the
 * remark. False: the text is damaged. */
bool variants_parse(Job *j, const Kernel *k, const char *answer, Variants *out, Text *remark);
Kernel *variant_of(Job *j, const Kernel *k, const SizeGuard *guard, const char *program);

/* ---- choice_cache.c: cached answers ---- */

bool choice_cache_get(Job *j, Arena *a, Sym query, const char **answer);
void choice_cache_put(Job *j, Arena *a, Sym query, const char *answer);

/* ---- policy.c: j->policy from --policy, once j->graph is a program for many requests ---- */

bool policy_take(Job *j);

/* ---- query_threads.c: parallel queries ------------------------------------------------------- */

typedef VEC(Sym) Noted;                   /* queries */
uint32_t driver_threads(const Job *j);    /* of the compilation */
bool query_threads_allowed(const Job *j); /* may several threads work? */
/* Answers queries into j->ahead; some may stay unanswered. */
void query_threads_answer(Job *j, const Noted *queries);

/* ---- source.c: the graph of kernels as C ---- */

bool source_kernels(Job *j); /* fills j->sources.function */
/* Of a C file, embed_weights: their contents, or include_weights: the name of their file. */
bool source_host(Job *j, bool single_file, const void *embed_weights, const char *include_weights);
/* The function `first` and some after it as a translation unit; their number. */
const char *source_unit(Job *j, uint32_t first, uint32_t *count);
const char *source_single_unit(Job *j); /* all functions and the host program as one unit */
bool source_functions(Job *j, Text *t); /* all functions, with comments for a reader */
/* Everything in one file that people can read and ship. weights_name: the file beside it, or NULL
 * if embedded. */
bool source_single_file(Job *j, Text *t, const char *weights_name);

/* in a comment: how to read the file of the weights, if there is one */
void source_weights(const Job *j, Text *t, const char *weights_name);

/* in a comment: that the file is the user's */
void source_licence(Text *t);

/* ---- plain_run.c: NAME_run(in, out) of a model of fixed sizes ---- */

bool plain_run_possible(const Job *j);
/* in NAME.h and NAME.c; nothing if it is not possible */
void plain_run_declare(const Job *j, Text *t, const char *weights_name);
void plain_run_define(const Job *j, Text *t, const char *weights_name);

/* ---- header.c: files that users of C source need ---- */

const char *header_prefix(const Job *j);
bool header_needs_memory(const Job *j); /* a run asks TnMemory for some */

void header_write(Job *j, Text *t, const char *weights_name);   /* NAME.h */
bool header_example(Job *j, Text *t, const char *weights_name); /* NAME-main.c */

/* ---- artefact.c: weights and files ---- */

/* merges constants of equal contents, type and format */
void weights_share(Job *j);
uint64_t weights_hash(Job *j);
/* of a C file: an array in it; a file that compiling includes; a file that the program reads */
typedef enum { WEIGHTS_IN_C, WEIGHTS_IN_OBJECT, WEIGHTS_IN_FILE } WeightsIn;
WeightsIn weights_in(const Job *j);
bool weights_in_known(Job *j); /* false, reported: --weights-in is not possible */
bool artefact_write(Job *j);   /* compiles, links and appends weights: the shared library */
/* NAME.c and NAME.h, NAME.weights if they are large, NAME-main.c on request */
bool artefact_write_c(Job *j);
bool artefact_write_mcu(Job *j);
typedef struct {
    const char *name, *what; /* as --emit says it; for people */
    bool (*write)(Job *j);
} ArtefactForm;
/* The forms that an artefact has; NULL, reported: it has none of this name. */
const ArtefactForm *artefact_form(Ctx *c, const char *name);
/* NAME/model.wasm and what goes with it (artefact_wasm.c) */
bool artefact_write_wasm(Job *j);
bool artefact_open_wasm(Job *j); /* the folder, and j->out in it */
/* Writes each constant in its format to its place in the plan. */
bool weights_write(Job *j, Writer *w);
/* How the job's sources are built, without a library's flag. */
BuildOptions artefact_build(Job *j);
/* The job's sources, for this target, with more flags behind the usual ones (each with a blank in
 * front); behind the *nunit there is room for more. */
const BuildUnit *artefact_units(Job *j, const char *more, const char *target, uint32_t room,
                                uint32_t *nunit);
/* The output's path with another suffix: NAME.c and ".h" give NAME.h. */
const char *artefact_path(Job *j, const char *ending);

/* ---- reuse.c: whole artefacts from the cache ---- */

/* Once the model is imported: true if the output is written, and compiling is done. */
bool reuse_take(Job *j);
void reuse_keep(Job *j); /* the output, once it is written */

/* ---- segment.c ---- */

/* Makes room in a linked library for a segment of `bytes`, weights after the first `head_bytes`:
 * the caller writes `before`, the segment, then `after`. */
bool segment_append(Job *j, Bytes linked, uint64_t head_bytes, uint64_t bytes, Bytes *before,
                    Bytes *after);

/* ---- options.c: the environment, which only this file reads ---- */

/* false, reported: an option has no possible value */
bool options_resolve(Ctx *c, Arena *a, const TnCompileOptions *given, Settings *out);
/* The target, and what follows from it: the form of the artefact, the compilers. */
bool options_target(Ctx *c, Arena *a, Settings *set, Machine *out);

/* ---- formats.c: layouts ---- */

bool formats_how(const char *text, FormatHow *how); /* --formats */
bool formats_known(Job *j);                         /* false, reported: unknown mode */
/* layouts of inputs and outputs, by --io-format; records the layouts that a text gives */
bool formats_ports(Job *j);
/* the layout of an input or output in --io-format; NULL: none */
const char *formats_port(const Job *j, Sym name);
bool formats_between(Job *j); /* layouts of values between kernels */
void formats_concats(Job *j); /* which of them are stored within others */

/* ---- profile.c: measured times ---- */

/* reads `tenon bench --profile --json`; NULL with a diagnostic */
FormatMeasured *profile_read(Job *j, const char *path);

/* ---- prices ---- */

/* State of price queries. far: constants come from memory in every call. rounds: how many more
 * times queries may be recorded instead of answered. */
typedef struct {
    Job *j;
    bool far;
    uint32_t rounds;
    Noted noted;
} Prices;

/* ---- ranges.c: ranges and hints of open sizes ---- */

/* before the model is read, so that its shape rules know the ranges */
bool ranges_declare(Job *j);
bool ranges_found(Job *j); /* afterwards: each name is a size of an input */
void ranges_count(Job *j); /* assumes sizes for symbols without a hint */

/* ---- ragged.c ---- */

/* Removes padding from the graph of nests, for the tokens of --ragged. */
bool ragged_pack(Job *j);
/* Restores the padded graph if fusion would store scores of all pairs of tokens. */
bool ragged_unpack(Job *j);

/* ---- states.c: states of a session ---- */

bool states_named(void *job, const char *input); /* does --state name it? */
bool states_declare(Job *j);                     /* adds the states of --state to the graph */
bool states_in_place(Job *j);                    /* makes states grow in place where possible */
/* the layout of input or output i if it is a state's; otherwise NULL */
const char *states_order(const Job *j, bool output, uint32_t i);

/* ---- low_precision.c: low-precision weights -------------------------------------------------- */

bool weights_low_precision(Job *j); /* by --weights */

/* ---- winograd.c: convolutions in a Winograd domain ------------------------------------------- */

/* prices must live until the next domains_begin, or until the domains are chosen */
void domains_begin(Prices *prices);
/* As choose_price, for the cheapest Winograd domain or none. data [k->nin]: contents of inputs
 * known at compile time. */
double domains_seconds(Prices *prices, const Kernel *k, const void *const *data);
bool domains_choose(Job *j, Text *remarks); /* rewrites the selected convolutions */

/* ---- library.c: matrix multiplications by the system's CBLAS ---- */

bool library_check(Job *j);    /* is --library possible? */
bool library_products(Job *j); /* replaces nests by calls where those are faster */
uint32_t library_calls(Job *j);
/* the flag to link the library; NULL: no calls */
bool library_link(Job *j, const char **flag);

/* ---- pins.c: a file of choices ---- */

/* where: of a variant */
typedef struct {
    Sym value;
    SizeGuard where;
    const WrittenSteps *steps;
    Loc loc;
    bool used;
} Pin;
typedef VEC(Pin) Pins;
/* the name of a kernel: its first output */
Sym kernel_value(const Graph *g, NodeId n);
bool pins_read(Job *j, const char *path, Pins *pins); /* empty if path is NULL */
/* The pin of a kernel: its own schedule, or (variant) some variant; NULL: none. */
Pin *pins_of(const Pins *pins, Sym value, bool variant);
Variants pins_variants(Job *j, const Pins *pins, Sym value, const Kernel *k);
/* false, reported: some pin matches no kernel */
bool pins_used(Job *j, const Pins *pins);

/* ---- choose.c ---- */

/* Fills Kernel.schedule of every kernel that has none. */
bool choose_schedules(Job *j);
Prices choose_prices(Job *j);
/* Seconds of a kernel's best schedule; negative: it has none. constant [k->nin]: inputs known at
 * compile time. */
double choose_price(void *prices, const Kernel *k, const bool *constant);
/* The same for node n of g if its kernel were k. */
double choose_seconds(Prices *prices, const Graph *g, NodeId n, const Kernel *k);
/* Starts to record queries, to answer them in parallel, if several threads may work; a recorded
 * query's price is 0. */
void choose_note(Prices *prices);
/* Answers the recorded queries. True: there were some, so the caller repeats its work. */
bool choose_noted(Prices *prices);
/* Of kernels in sequence: unchanged or in the layout that one of them proposes, with Winograd
 * domains where they are cheapest; the least. */
double choose_price_in_turn(void *prices, const Kernel *const *k, const void *const *const *data,
                            uint32_t n);

#endif
