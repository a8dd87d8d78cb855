/* cmd: the `tenon` command. It uses include/tenon.h and the C library, nothing else: whatever it
 * can do, a program that links libtenon can do.
 *
 * main.c finds the verb; options.c reads the command line from one table; each verb is a file.
 */
#ifndef TENON_CMD_H
#define TENON_CMD_H

#include "tenon.h"

#include <stdbool.h>
#include <stdio.h>

/* run --expect, run --data, verify: an output is not what was expected */
enum { EXIT_DIFFERS = 1 };

typedef enum {
    VERB_COMPILE,
    VERB_RUN,
    VERB_BENCH,
    VERB_INSPECT,
    VERB_EXPLAIN,
    VERB_LEARN,
    VERB_VERIFY,
    VERB_MACHINE,
    VERB_CACHE,
    VERB_OPERATORS,
    VERB_COUNT
} VerbId;

typedef struct {
    char *name, *value;
} Pair; /* x=@x.npy, batch=2 */
typedef struct {
    Pair *at;
    int n;
} Pairs;
typedef struct {
    int64_t *at;
    int n;
} NumberList; /* 1,2,4 */

/* The command line, read. Zero and NULL mean "not given", unless said otherwise. */
typedef struct {
    const char *model;
    /* compiling. Its lists are read from these pairs. */
    TnCompileOptions compile;
    Pairs dim, dim_hint, shape, format, io_format, state;
    char *named;     /* compile.given, made of the names in --input; NULL: none */
    const char *how; /* but compile: an option given that is about compiling */
    const char *output;
    int32_t no_cache, list_passes;
    int64_t batch; /* learn: requests at a time, 0: all */
    /* inputs and outputs */
    Pairs input, expect, max_int;
    const char *data, *output_dir;
    const char *against, *python; /* verify */
    int32_t intermediate, stats;
    int64_t top;       /* 0: not given */
    double atol, rtol; /* negative: the verb's own */
    int32_t threads;
    /* bench */
    NumberList sweep;           /* numbers of threads */
    const char *compare;        /* another model */
    int64_t iterations, warmup; /* -1: not given */
    bool told;                  /* sizes that were not given have been named */
    int64_t decode, context;    /* decode 0: not given */
    double duration;            /* seconds; negative: not given */
    const char *json_file, *trace;
    const char *requests;          /* run --many, explain --requests: a file of them */
    int32_t plan, batches, memory; /* explain */
    int32_t profile, json, clear, help;
} Options;

typedef struct {
    const char *name, *usage, *summary, *text, *examples;
    bool wants_model;
    int (*run)(TnContext *ctx, const Options *o);
} Command;
extern const Command verbs[VERB_COUNT];

int cmd_compile(TnContext *ctx, const Options *o);
int cmd_run(TnContext *ctx, const Options *o);
int cmd_bench(TnContext *ctx, const Options *o);
int cmd_inspect(TnContext *ctx, const Options *o);
int cmd_explain(TnContext *ctx, const Options *o);
int cmd_learn(TnContext *ctx, const Options *o);
int cmd_verify(TnContext *ctx, const Options *o);
int cmd_machine(TnContext *ctx, const Options *o);
int cmd_cache(TnContext *ctx, const Options *o);
int cmd_operators(TnContext *ctx, const Options *o);

/* ---- options.c ---- */

/* Read argv[1..] of a verb. TN_OK, or TN_USAGE with a message printed. */
int options_read(VerbId verb, int argc, char **argv, Options *o);
void options_free(Options *o);
void options_help(VerbId verb);
/* The at-th option of a verb, counted from 0; false: there are no more. */
typedef struct {
    const char *name, *value, *help;
    char letter;
} OptionText;
bool option_text(VerbId verb, int at, OptionText *out);
/* The entry of `names` (NULL at the end) that a mistyped word most likely meant, or NULL. */
const char *closest(const char *word, const char *const *names);

/* ---- describe.c: tenon help VERB, help --man [VERB], help --completion SHELL ---- */

int describe(int argc, char **argv);
extern const char exit_codes[]; /* lines of text; main.c */

/* ---- report.c: messages and progress ---- */

int usage_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The context's message on standard error; returns the status, which is the exit code. */
int report(TnContext *ctx, TnStatus s);
/* What was last printed as an error, for failures under --json; "" if nothing was. */
const char *reported(void);
/* Work that takes over a second is shown on a terminal; nothing is when piped. */
typedef struct {
    double start, shown;
    bool terminal, visible;
    char what[64]; /* last told; empty: nothing yet */
    int64_t done, total;
} Progress;
Progress progress_begin(void);
void progress_show(void *progress, const char *what, int64_t done, int64_t total);
void progress_go_on(Progress *p); /* show what was last told, with the seconds since */
void progress_end(Progress *p);
/* The end of work with a progress, and report. */
int report_after(Progress *p, TnContext *ctx, TnStatus s);
double seconds(void);
/* p, or the end of the program for lack of memory */
void *need(void *p);
void fprint_json_string(FILE *to, const char *s);
void print_json_string(const char *s); /* on standard output */
bool ends_with(const char *s, const char *end);
bool is_stdout(const char *file);            /* "-"; file may be NULL */
int by_number(const void *x, const void *y); /* for qsort, of doubles */
double median(const double *sorted, int64_t n);
/* Element i as JSON if its type has values that no double holds: texts and 64-bit integers. */
bool print_if_no_double(const TnTensor *x, int64_t i);
int columns(const char *text);  /* of a terminal, that UTF-8 takes */
void print_size(int64_t bytes); /* 48 B, 97.5 MB */

/* ---- stop.c: interrupted, nothing is left behind ---- */

/* signals that end the command wait from here … */
void stop_defer(void);
void stop_now(void); /* … to here */
/* Did one come? For TnCompileOptions.stopped, whose user is a Progress, which goes on. */
int32_t stop_asked(void *progress);
typedef struct {
    char path[4096];
    int fd;
} Temporary;                       /* a folder of this command alone */
bool temporary_open(Temporary *t); /* or printed */
void temporary_close(Temporary *t);

/* ---- model.c: a model ready to run ---- */

/* Fills the lists of o->compile from the pairs. TN_OK or printed; to be freed either way. */
int compile_lists_read(Options *o);
void compile_lists_free(Options *o);
/* The options with a progress and a printer, which p is for. */
TnCompileOptions compile_options(const Options *o, Progress *p);
/* The same for compiling what is run at once: Tenon's text keeps its symbols, --dim and --shape
 * size inputs alone. */
TnCompileOptions compile_options_to_run(const Options *o, Progress *p);
bool is_artefact(const char *path);
/* Of artefacts and Tenon's text: --dim and --shape size their inputs and are no part of
 * compiling. */
bool compiled_with_open_dims(const char *path);
/* Load an artefact, or compile the model to a temporary one and load that; load_ms, what loading
 * took, may be NULL. TN_OK or printed. */
int model_open(TnContext *ctx, const Options *o, TnModel **out, double *load_ms);
/* The same; if the target's code runs on another processor, for this one, compiled fast: for the
 * inputs and outputs of tensors_run. */
int model_open_anywhere(TnContext *ctx, const Options *o, TnModel **out);
/* Open it, use it, free it. What `use` returns, if it comes that far. */
int model_with(TnContext *ctx, const Options *o,
               int (*use)(TnContext *ctx, const Options *o, TnModel *m));

/* What the model says of input, output or state i, which there is. */
TnValueInfo input_info(const TnModel *m, int32_t i);
TnValueInfo output_info(const TnModel *m, int32_t i);
TnState state_info(const TnModel *m, int32_t i);
/* A session on --threads threads, with the order of --policy. TN_OK or printed; to be freed either
 * way. */
int session_begin(TnContext *ctx, const Options *o, TnModel *m, TnSession **out);

/* ---- inputs.c: what goes in and what should come out ---- */

typedef struct {
    TnTensor *in, *out;
    int32_t nin, nout;
    int64_t **dims; /* [nin]: of random inputs */
    void **own;     /* [nin]: memory of inputs_own, or NULL */
} Tensors;
/* Fill the model's inputs from --input, --data, and random numbers. TN_OK or printed. */
int inputs_make(TnContext *ctx, const Options *o, const TnModel *m, Tensors *t);
/* Empty outputs with their names. */
void outputs_make(const TnModel *m, Tensors *t);
/* A session on --threads threads with its tensors made. TN_OK or printed; both to be freed either
 * way. */
int session_open(TnContext *ctx, const Options *o, TnModel *m, Tensors *t, TnSession **out);
/* Run the session, or under an emulator the model for a target of another processor. TN_OK or
 * printed. */
int tensors_run(TnContext *ctx, const Options *o, TnSession *session, Tensors *t);
/* Inputs in memory of their own, as an application that is fast has them: they begin with a cache
 * line (a product of 256 cubed takes 0.23 ms on a Cascade Lake, 0.29 where its right side does
 * not), and large ones are not in small pages, as mapped files are. */
void inputs_own(Tensors *t);
void tensors_free(Tensors *t);
/* NAME.npy in a folder, with characters unfit for a file name replaced, cut where it is too long,
 * and with a number where that name is one of the `n` that are taken. */
char *output_path(const char *folder, const char *name, char *const *taken, int32_t n);
void fprint_tensor_type(FILE *to, const TnTensor *x); /* f32[1, 10] */
void print_tensor_type(const TnTensor *x);            /* the same, on standard output */
int64_t element_count(const TnTensor *x);

/* ---- json.c: the tokens of a JSON text ---- */

enum { JSON_DEPTH = 64 };
typedef enum {
    JSON_OBJECT,
    JSON_OBJECT_END,
    JSON_LIST,
    JSON_LIST_END,
    JSON_KEY,
    JSON_STRING,
    JSON_NUMBER,
    JSON_TRUE,
    JSON_FALSE,
    JSON_NULL,
    JSON_END,
    JSON_BAD,
} JsonToken;
/* FIRST: a value, or the end of what just began. */
typedef enum { JSON_WANTS_VALUE, JSON_WANTS_FIRST, JSON_WANTS_COMMA } JsonWants;
typedef struct {            /* all but begin, at and end begin as zeros */
    char *begin, *at, *end; /* the text, which strings are decoded in; *end is 0 */
    char *text;             /* a name or a string, 0 behind it; or [n] of a number */
    size_t n;
    int depth;
    bool is_object[JSON_DEPTH];
    JsonWants wants;
    const char *why; /* of JSON_BAD, at `at` */
} Json;
JsonToken json_next(Json *j);

/* ---- requests.c: many requests from a file ---- */

typedef struct {
    int64_t line;       /* in the file, counted from 1 */
    TnTensor *in, *out; /* [nin], [nout]; the inputs' dims and data are its own */
    int status;
    char *error; /* NULL: it has a result, or may still get one */
} Request;
typedef struct {
    Request *at;
    int32_t n, nin, nout;
} Requests;
/* Those of the file o->requests; "-": standard input. TN_OK or printed; to be freed either way. */
int requests_read(const Options *o, const TnModel *m, Requests *out);
/* All that could be read in one tn_run_many. TN_OK, whatever single ones met, or printed. */
int requests_run(TnContext *ctx, TnSession *s, Requests *r);
/* The first without a result, and how many there are of these; NULL, 0. */
const Request *requests_failed(const Requests *r, int32_t *n);
void requests_free(Requests *r);

/* ---- many.c: run --many; batches.c: explain --batches ---- */

int run_many(TnContext *ctx, const Options *o);
int explain_batches(TnContext *ctx, const Options *o);

/* ---- profile.c: which kernels take how long ---- */

typedef struct {
    const char *name, *origin, *dtype;
    int32_t function, kernels;              /* kernels that are this code */
    int64_t calls;                          /* of all runs */
    double seconds, before;                 /* of all runs, and of all but the last */
    double operations, bytes, predicted_ms; /* of one run */
    double *ms;                             /* of each run */
    double median_ms, roof;                 /* share of what the machine could do */
    bool from_cache; /* faster than what holds all of its data, which were nearer */
} ProfileRow;
typedef struct {
    const char *origin;
    double seconds;
} ProfileKernel; /* of all runs */
typedef struct {
    ProfileRow *row;
    int n, runs, *row_of;  /* row_of [kernels] */
    ProfileKernel *kernel; /* [kernels]: those of a row one by one */
    int kernels;
    double sum_ms;
    const char *machine; /* whose roof */
} ProfileReport;
int profile_begin(TnContext *ctx, TnSession *s, ProfileReport *p);
int profile_run(TnContext *ctx, TnSession *s, ProfileReport *p); /* after each run */
int profile_end(TnContext *ctx, const Options *o, int threads, ProfileReport *p);
void profile_print(const ProfileReport *p);
void profile_json(FILE *to, const ProfileReport *p); /* members of an object, after others */
int profile_trace(TnContext *ctx, TnSession *s, FILE *to);
void profile_free(ProfileReport *p);

/* ---- decode.c, bandwidth.c: a token after the other ---- */

int bench_decode(TnContext *ctx, const Options *o); /* --decode */
/* bytes a second that are read from memory, now */
double read_bandwidth(int threads);

/* ---- speeds.c: what bench found ---- */

/* of one model on one number of threads; milliseconds of a run */
typedef struct {
    const char *model;
    int threads;
    int64_t runs;
    double min, median, mean, p90, p99, max, per_second;
    /* of loading; of a session's first run, which takes its memory */
    double load_ms, first_ms;
    int64_t arena_bytes, resident_bytes; /* of a session; of the process, 0: not known */
} Speed;
/* Print at[times][models], or write it where --json says. */
int speeds_tell(const Options *o, const Speed *at, int times, int models,
                const ProfileReport *profile /* or NULL */);
/* A file written beside and renamed, as everything that tenon writes; `write` puts its text. TN_OK
 * or printed. */
int write_report(const char *option, const char *path, int (*write)(void *user, FILE *to),
                 void *user);

/* ---- against.c: what ONNX Runtime makes of it, through files in a folder ---- */

/* FOLDER/marked.onnx: the model with every value between as an output too. TN_OK or printed. */
int against_mark(const Options *o, const char *folder);
/* Run `model` on t's inputs; its outputs, as many and in the order of t's. TN_OK or printed. */
int against_run(TnContext *ctx, const Options *o, const char *model, const char *folder,
                const Tensors *t, TnTensor *out);
/* The node that makes output i of a marked model: to be freed; NULL: not known. */
char *against_node(const char *folder, int32_t i);

/* ---- compare.c ---- */

/* Within --atol and --rtol? TN_OK, or printed: the two cannot be compared. */
int compare_outputs(TnContext *ctx, const Options *o, const TnTensor *x, const TnTensor *want,
                    TnDifference *d, bool *agrees);
/* Members of a JSON object, each after a comma: "agrees", "max_abs", "max_rel", "at", "value",
 * "expected". */
void print_json_difference(const TnDifference *d, bool agrees);
void print_difference(FILE *to, const TnTensor *x, const char *verdict, const TnDifference *d,
                      bool agrees);

/* ---- main.c ---------------------------------------------------------------------------------- */

/* The whole command, as from a shell; its exit code. */
int tenon_command(int argc, char **argv);

#endif
