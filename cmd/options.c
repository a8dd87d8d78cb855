/* options: the command line, from one table.
 *
 * A row says which verbs take the option, how it is written, where its value goes and what --help
 * tells of it. getopt_long does the reading, so `--flag value`, `--flag=value` and options after
 * the model's name all work.
 */
#include "cmd.h"

#include <errno.h>
#include <getopt.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    C = 1 << VERB_COMPILE,
    R = 1 << VERB_RUN,
    B = 1 << VERB_BENCH,
    I = 1 << VERB_INSPECT,
    V = 1 << VERB_VERIFY,
    M = 1 << VERB_MACHINE,
    K = 1 << VERB_CACHE,
    O = 1 << VERB_OPERATORS,
    X = 1 << VERB_EXPLAIN,
    L = 1 << VERB_LEARN,
    RUNNING = R | B | V,
    ALL = C | R | B | I | X | L | V | M | K | O,
    /* of how a model is compiled: in a group of its own in --help */
    HOW = 1 << VERB_COUNT,
    COMPILING = C | X | L | RUNNING | HOW,
};

typedef enum {
    TAKES_FLAG,
    TAKES_TEXT,
    TAKES_COUNT,
    TAKES_COUNT32,
    TAKES_COUNTS,
    TAKES_BYTES,
    TAKES_REAL,
    TAKES_SHARE,
    TAKES_PAIR
} Takes;

typedef struct {
    const char *name;
    char letter;
    unsigned verbs;
    Takes takes;
    size_t field;
    const char *value, *help;
} OptionRow;

#define FIELD(name) offsetof(Options, name)

static const OptionRow rows[] = {
    { "output", 'o', C, TAKES_TEXT, FIELD(output), "FILE",
      "where to write; default: the model's name with .so (or .c)" },
    { "output", 'o', M, TAKES_TEXT, FIELD(output), "FILE",
      "write the facts to FILE, for --machine" },
    { "output", 'o', L, TAKES_TEXT, FIELD(output), "FILE",
      "where to write a table; default: the model's name with .policy, where one is best" },
    { "requests", 0, L, TAKES_TEXT, FIELD(requests), "FILE",
      "requests like those to come, a line of JSON each as for run --many; -: standard input" },
    { "batch", 0, L, TAKES_COUNT, FIELD(batch), "N",
      "the number of requests at a time when they are served (default: all)" },
    { "emit", 0, C, TAKES_TEXT, FIELD(compile.emit), "so|c|wasm|mcu",
      "a shared library (default), a readable C file, a folder for the web, or C99 without libc" },
    { "prefix", 0, C, TAKES_TEXT, FIELD(compile.prefix), "NAME",
      "with --emit c: the model is NAME_manifest(), so that a program may have several" },
    { "weights-in", 0, C, TAKES_TEXT, FIELD(compile.weights_in), "WHERE",
      "with --emit c: c, object (taken in as it is compiled), or file (default above 1 MB)" },
    { "main", 0, C, TAKES_FLAG, FIELD(compile.example), NULL,
      "with --emit c: write an example program too, NAME-main.c" },
    { "input", 'i', RUNNING, TAKES_PAIR, FIELD(input), "X=@FILE",
      "input X from FILE: .npy, .npz:member or .pb; repeat for more" },
    { "data", 0, R | V, TAKES_TEXT, FIELD(data), "DIR",
      "inputs from DIR/input_0.pb, …; outputs compared with DIR/output_0.pb, …" },
    { "output-dir", 0, R, TAKES_TEXT, FIELD(output_dir), "DIR",
      "write each output to DIR/NAME.npy" },
    { "stats", 0, R, TAKES_FLAG, FIELD(stats), NULL,
      "tell each output's least, largest and mean element, and the time of the run" },
    { "top", 0, R, TAKES_COUNT, FIELD(top), "K",
      "tell the K largest elements of each row along the last axis, for 4 rows" },
    { "expect", 0, R, TAKES_PAIR, FIELD(expect), "Y=@FILE",
      "compare output Y with FILE; exit code 1 if it differs" },
    { "against", 0, V, TAKES_TEXT, FIELD(against), "RUNTIME",
      "compare with ONNX Runtime, which Python runs, instead of the interpreter" },
    { "intermediate", 0, V, TAKES_FLAG, FIELD(intermediate), NULL,
      "with --against: every value between too, in the order of the nodes" },
    { "python", 0, V, TAKES_TEXT, FIELD(python), "PROGRAM",
      "the Python that has onnx and onnxruntime (default python3)" },
    { "atol", 0, R | V, TAKES_REAL, FIELD(atol), "E",
      "largest error allowed, atol + rtol * largest value (default by type: f32 1e-5, integers "
      "0)" },
    { "rtol", 0, R | V, TAKES_REAL, FIELD(rtol), "E",
      "the same, relative to the output's largest value (f32 1e-4, f16 1e-2, integers 0)" },
    { "dim", 'd', C | X | RUNNING, TAKES_PAIR, FIELD(dim), "N=SIZE",
      "fix the symbolic dimension N, or bound it: N=1..2048; repeat for more" },
    { "dim-hint", 0, COMPILING, TAKES_PAIR, FIELD(dim_hint), "N=SIZE,…",
      "sizes that dimension N usually has, 1,128: choices are made for these; others run as "
      "well" },
    { "shape", 's', C | X | RUNNING, TAKES_PAIR, FIELD(shape), "X=AxBxC",
      "fix the dimensions of input X: --shape x=1x3x224x224" },
    { "seed", 0, L, TAKES_COUNT, FIELD(compile.seed), "N",
      "of learning, which is the same for the same (default 0)" },
    { "seed", 0, C | RUNNING, TAKES_COUNT, FIELD(compile.seed), "N",
      "of inputs not given, and of random operators that have no seed of their own (default 0)" },
    { "max-int", 0, RUNNING, TAKES_PAIR, FIELD(max_int), "X=N",
      "random integers of input X lie in [0, N); default [0, 2)" },
    { "threads", 't', L, TAKES_COUNT32, FIELD(threads), "N", "threads to run on; default: all" },
    { "threads", 't', R | V, TAKES_COUNT32, FIELD(threads), "N",
      "threads to run on; default: all this process may use" },
    { "threads", 't', B, TAKES_COUNTS, FIELD(sweep), "N,…",
      "threads to run on, or several numbers of them: 1,2,4; default: all" },
    { "compare", 0, B, TAKES_TEXT, FIELD(compare), "OTHER",
      "measure OTHER too, in turn, and tell how many times as fast MODEL is" },
    { "decode", 0, B, TAKES_COUNT, FIELD(decode), "N",
      "time N steps of a token each, of a model with states, after --context of them" },
    { "context", 0, B, TAKES_COUNT, FIELD(context), "L",
      "with --decode: tokens of the prompt (default 128)" },
    { "iterations", 'n', B, TAKES_COUNT, FIELD(iterations), "N", "run exactly N times" },
    { "duration", 0, B, TAKES_REAL, FIELD(duration), "SECONDS",
      "run for about so long (default 3)" },
    { "warmup", 0, B, TAKES_COUNT, FIELD(warmup), "N", "runs before the clock starts (default 5)" },
    { "target", 0, COMPILING, TAKES_TEXT, FIELD(compile.target), "NAME",
      "processor to compile for (default native, this one)" },
    { "target", 0, M, TAKES_TEXT, FIELD(compile.target), "NAME",
      "measure as this target (default native)" },
    { "profile", 0, B, TAKES_FLAG, FIELD(profile), NULL,
      "the time of each kernel, beside what the machine could do" },
    { "trace", 0, B, TAKES_TEXT, FIELD(trace), "FILE",
      "what each thread did when, for Perfetto (ui.perfetto.dev)" },
    { "machine", 0, B, TAKES_TEXT, FIELD(compile.machine), "FILE",
      "facts of this processor, as tenon machine wrote them: for --profile, and for compiling" },
    { "machine", 0, COMPILING & ~B, TAKES_TEXT, FIELD(compile.machine), "FILE",
      "facts of the processor to compile for, as tenon machine wrote them" },
    { "machine", 0, M, TAKES_TEXT, FIELD(compile.machine), "FILE",
      "show what FILE says, and measure nothing" },
    { "cores", 0, COMPILING, TAKES_COUNT32, FIELD(compile.cores), "N",
      "cores that kernels are distributed over (default: as the machine has)" },
    { "fuse", 0, COMPILING, TAKES_TEXT, FIELD(compile.fuse), "HOW",
      "which nests become one kernel: dp (default: least predicted time) or none" },
    { "must-fuse", 0, COMPILING, TAKES_TEXT, FIELD(compile.must_fuse), "A,B",
      "with --fuse dp, the default: these two in one kernel, by names of operators or values" },
    { "fuse-plan", 0, COMPILING, TAKES_TEXT, FIELD(compile.fuse_plan), "FILE",
      "the kernels that FILE says, as explain --plan prints them" },
    { "fuse-bisect", 0, COMPILING, TAKES_COUNT32, FIELD(compile.fuse_bisect), "N",
      "only the first N joins of the plan: to find the one that makes a difference" },
    { "keep", 0, COMPILING, TAKES_TEXT, FIELD(compile.keep), "V",
      "value V stays in memory between kernels, as an output does" },
    { "variants", 0, COMPILING, TAKES_COUNT32, FIELD(compile.variants), "N",
      "programs of a kernel at most, for one row, few, one thread; 1: one for all (default 4)" },
    { "formats", 0, COMPILING, TAKES_TEXT, FIELD(compile.formats), "HOW",
      "orders of values between kernels: search (default: least predicted time), nhwc, none" },
    { "format", 0, COMPILING, TAKES_PAIR, FIELD(format), "V=nhwc",
      "the order of dimensions of value V between kernels; or 0,2,3,1; repeat for more" },
    { "io-format", 0, COMPILING, TAKES_PAIR, FIELD(io_format), "X=nhwc",
      "input or output X comes so: a camera's frame needs no transposing; or 0,2,3,1" },
    { "state", 0, COMPILING, TAKES_PAIR, FIELD(state), "X=Y",
      "input X is output Y of the run before, kept in between: 'past.*=present.*'" },
    { "state-capacity", 0, COMPILING, TAKES_COUNT, FIELD(compile.state_capacity), "N",
      "of a state: rows that it holds at most (default: as memory allows)" },
    { "ragged", 0, COMPILING, TAKES_TEXT, FIELD(compile.ragged), "X",
      "input X is 1 of tokens, 0 of padding [batch, length]: padding is not computed" },
    { "packed", 0, COMPILING, TAKES_FLAG, FIELD(compile.packed), NULL,
      "with --ragged: inputs and outputs are [tokens, …]; X.offsets [batch + 1] stands for X" },
    { "density", 0, COMPILING, TAKES_SHARE, FIELD(compile.density), "D",
      "choose for masks that leave the share D of what they are given for (default 0.5)" },
    { "many", 0, R, TAKES_TEXT, FIELD(requests), "FILE",
      "run requests in FILE together, a line of JSON each, {\"x\": [[1, 2]]}; -: standard input" },
    { "many", 0, C, TAKES_FLAG, FIELD(compile.many), NULL,
      "requests can run together: tenon run --many FILE, session.run_many" },
    { "policy", 0, C | R | X, TAKES_TEXT, FIELD(compile.policy), "HOW",
      "with --many, the order of blocks: depth (default), agenda, greedy, fsm:FILE (see learn)" },
    { "explain-formats", 0, C, TAKES_FLAG, FIELD(compile.explain_formats), NULL,
      "tell the order of each value, why, what the second best would cost, and where orders "
      "change" },
    { "exact", 0, COMPILING, TAKES_FLAG, FIELD(compile.exact), NULL,
      "sums as the model says: no transform domain (Winograd), nothing behind a mask left out" },
    { "keep-denormals", 0, COMPILING, TAKES_FLAG, FIELD(compile.keep_denormals), NULL,
      "compute with floats below 2^-126, which is slow; they count as 0 otherwise" },
    { "fast-math", 0, COMPILING, TAKES_FLAG, FIELD(compile.fast_math), NULL,
      "algebra as of real numbers: scales moved and merged, the last bits change" },
    { "weights-growth", 0, COMPILING, TAKES_COUNT32, FIELD(compile.weights_growth), "N",
      "weights may grow by N % for speed in transform domains (default 100)" },
    { "weights", 0, COMPILING, TAKES_TEXT, FIELD(compile.weights), "HOW",
      "weights of products in fewer bits: bf16, f16, int8, int4,group=32,activations=f32" },
    { "weights-keep", 0, COMPILING, TAKES_TEXT, FIELD(compile.weights_keep), "NAME,…",
      "with --weights: these stay, by names of constants or operators; * stands for anything" },
    { "library", 0, COMPILING, TAKES_TEXT, FIELD(compile.library), "FILE|blas",
      "operators of your own in a shared library, or products by OpenBLAS (see "
      "doc/operators.md)" },
    { "given", 0, COMPILING, TAKES_TEXT, FIELD(compile.given), "NAME,…",
      "inputs for which the model has values are given in every run; * stands for all such" },
    { "nests", 0, COMPILING, TAKES_TEXT, FIELD(compile.nests), "FILE",
      "operators of your own, as nests in a file (see doc/operators.md)" },
    { "choices", 0, COMPILING, TAKES_TEXT, FIELD(compile.choices), "FILE",
      "schedules for kernels, as --dump=choose shows them: %VALUE { steps }" },
    { "alternatives", 0, C, TAKES_COUNT32, FIELD(compile.alternatives), "N",
      "--dump=choose shows the N cheapest schedules of each kernel in full" },
    { "plain", 0, COMPILING, TAKES_FLAG, FIELD(compile.plain_schedule), NULL,
      "plain loops: no tiles, no vectors" },
    { "quick", 0, COMPILING, TAKES_FLAG, FIELD(compile.quick), NULL,
      "compile in less time, all kernels as one unit; runs slower" },
    { "cc", 0, COMPILING | M, TAKES_TEXT, FIELD(compile.cc), "PROGRAM",
      "the C compiler (default $CC, then cc, gcc, clang)" },
    { "jobs", 'j', COMPILING, TAKES_COUNT32, FIELD(compile.jobs), "N",
      "C compilers at once; default: the number of processors" },
    { "cache-dir", 0, COMPILING | M | K, TAKES_TEXT, FIELD(compile.cache_dir), "DIR",
      "the cache of objects (default $TENON_CACHE_DIR, then ~/.cache/tenon)" },
    { "no-cache", 0, COMPILING | M, TAKES_FLAG, FIELD(no_cache), NULL,
      "neither use nor fill the cache" },
    { "reuse", 0, COMPILING, TAKES_FLAG, FIELD(compile.reuse), NULL,
      "take the whole artefact from the cache if the same was compiled before" },
    { "max-memory", 0, COMPILING, TAKES_BYTES, FIELD(compile.max_memory_bytes), "SIZE",
      "refuse to use more memory while compiling: 500M, 8G" },
    { "max-model", 0, COMPILING, TAKES_BYTES, FIELD(compile.max_model_bytes), "SIZE",
      "refuse larger model files" },
    { "max-nodes", 0, COMPILING, TAKES_COUNT, FIELD(compile.max_nodes), "N",
      "refuse models of more operators" },
    { "max-depth", 0, COMPILING, TAKES_COUNT, FIELD(compile.max_depth), "N",
      "refuse models nested deeper (default 200, at most 1000)" },
    { "max-time", 0, COMPILING, TAKES_REAL, FIELD(compile.max_seconds), "SECONDS",
      "give up compiling after so long" },
    { "max-trips", 0, COMPILING, TAKES_COUNT, FIELD(compile.max_trips), "N",
      "stop a run whose loop runs more iterations (default 2^30)" },
    { "max-calls", 0, COMPILING, TAKES_COUNT, FIELD(compile.max_calls), "N",
      "stop a run whose functions call each other deeper (default 1000)" },
    { "max-arena", 0, COMPILING, TAKES_BYTES, FIELD(compile.max_arena_bytes), "SIZE",
      "values between kernels take no more at once in a run: 4M; orders are chosen within it" },
    { "ram", 0, C, TAKES_BYTES, FIELD(compile.ram_bytes), "SIZE",
      "with --profile mcu: refuse a model that takes more RAM in a run: 64K" },
    { "flash", 0, C, TAKES_BYTES, FIELD(compile.flash_bytes), "SIZE",
      "with --profile mcu: refuse a model whose weights take more: 512K" },
    { "dump", 0, COMPILING, TAKES_TEXT, FIELD(compile.dump), "STAGE",
      "show the model after STAGE, or after all; see --list-passes" },
    { "dump-dir", 0, COMPILING, TAKES_TEXT, FIELD(compile.dump_dir), "DIR",
      "dumps go to files DIR/MODEL.NN-STAGE.tn (.txt, .c)" },
    { "stop-after", 0, C, TAKES_TEXT, FIELD(compile.stop_after), "STAGE",
      "stop there and write nothing" },
    { "list-passes", 0, C, TAKES_FLAG, FIELD(list_passes), NULL,
      "list the stages and what each does" },
    { "time", 0, COMPILING, TAKES_FLAG, FIELD(compile.time), NULL,
      "print the seconds of each stage" },
    { "json", 0, B, TAKES_TEXT, FIELD(json_file), "FILE",
      "write the numbers to FILE as JSON; - is standard output" },
    { "json", 0, L, TAKES_FLAG, FIELD(json), NULL, "print JSON instead of text" },
    { "json", 0, C | R | I | X | V | K, TAKES_FLAG, FIELD(json), NULL,
      "print JSON instead of text" },
    { "why", 0, X, TAKES_TEXT, FIELD(compile.why), "A,B",
      "why these two nodes are together or apart, by names of operators or values" },
    { "memory", 0, X, TAKES_FLAG, FIELD(memory), NULL,
      "the RAM of each step, as --profile mcu plans it, and what the peak consists of" },
    { "plan", 0, X, TAKES_FLAG, FIELD(plan), NULL, "print the plan as text, for --fuse-plan" },
    { "batches", 0, X, TAKES_FLAG, FIELD(batches), NULL,
      "the blocks that requests run together (--many); of a compiled .so too" },
    { "requests", 0, X, TAKES_TEXT, FIELD(requests), "FILE",
      "with --batches: run the requests in FILE as run --many does, and count batches" },
    { "html", 0, I, TAKES_TEXT, FIELD(compile.page), "FILE",
      "write a page to look at: graph, every stage, memory; not of a compiled .so" },
    { "html", 0, X, TAKES_TEXT, FIELD(compile.page), "FILE",
      "write a page to look at: kernels, the bytes between them, reasons, times" },
    { "profile", 0, I | X, TAKES_TEXT, FIELD(compile.page_profile), "FILE",
      "with --html: the times of kernels too, which bench --profile --json FILE wrote" },
    { "profile", 0, C, TAKES_TEXT, FIELD(compile.page_profile), "mcu|FILE",
      "mcu: for a microcontroller, as --emit mcu; FILE: measured times for --explain-formats" },
    { "clear", 0, K, TAKES_FLAG, FIELD(clear), NULL, "remove every cached object" },
    { "help", 'h', ALL, TAKES_FLAG, FIELD(help), NULL, "this text" },
};
enum { NROW = sizeof rows / sizeof *rows };

/* ---- help ------------------------------------------------------------------------------------ */

static void
help_rows(VerbId verb, bool how)
{
    for (int i = 0; i < NROW; i++) {
        const OptionRow *r = &rows[i];
        char left[64], letter[8] = "    ";
        bool is_how = (r->verbs & HOW) && ((1u << verb) & RUNNING);
        if (!(r->verbs & (1u << verb)) || is_how != how)
            continue;
        if (r->letter)
            snprintf(letter, sizeof letter, "-%c, ", r->letter);
        snprintf(left, sizeof left, "%s--%s%s%s", letter, r->name, r->value ? " " : "",
                 r->value ? r->value : "");
        printf("  %s%*s %s\n", left, columns(left) < 26 ? 26 - columns(left) : 0, "", r->help);
    }
}

void
options_help(VerbId verb)
{
    const Command *v = &verbs[verb];

    printf("usage: tenon %s\n\n%s\n\noptions:\n", v->usage, v->text);
    help_rows(verb, false);
    if (verb == VERB_RUN || verb == VERB_BENCH || verb == VERB_VERIFY) {
        printf("\n%s:\n", verb == VERB_VERIFY ? "how it is compiled"
                                              : "how it is compiled, where MODEL is no .so");
        help_rows(verb, true);
    }
    printf("\nexamples:\n%s", v->examples);
}

bool
option_text(VerbId verb, int at, OptionText *out)
{
    for (int i = 0; i < NROW; i++)
        if ((rows[i].verbs & (1u << verb)) && at-- == 0) {
            *out = (OptionText){ rows[i].name, rows[i].value, rows[i].help, rows[i].letter };
            return true;
        }
    return false;
}

/* ---- what was mistyped ----------------------------------------------------------------------- */

/* Edits (insert, drop, replace, swap neighbours) that make one word of the other. */
static int
edit_distance(const char *a, const char *b)
{
    enum { MOST = 40 };
    int d[MOST + 1][MOST + 1], m = (int)strlen(a), n = (int)strlen(b);

    if (m > MOST || n > MOST)
        return MOST;
    for (int i = 0; i <= m; i++)
        for (int j = 0; j <= n; j++) {
            if (!i || !j) {
                d[i][j] = i + j;
                continue;
            }
            int best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (d[i - 1][j] + 1 < best)
                best = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < best)
                best = d[i][j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                d[i - 2][j - 2] + 1 < best)
                best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    return d[m][n];
}

const char *
closest(const char *word, const char *const *names)
{
    const char *best = NULL;
    int least = (int)strlen(word) / 3 + 2;

    for (; *names; names++) {
        int d = edit_distance(word, *names);
        if (d < least) {
            least = d;
            best = *names;
        }
    }
    return best;
}

static int
unknown_option(VerbId verb, const char *given)
{
    const char *names[NROW + 1];
    char word[64];
    int n = 0;

    for (int i = 0; i < NROW; i++)
        if (rows[i].verbs & (1u << verb))
            names[n++] = rows[i].name;
    names[n] = NULL;
    const char *start = given + strspn(given, "-");
    snprintf(word, sizeof word, "%.*s", (int)strcspn(start, "="), start);
    for (int i = 0; i < NROW; i++)
        if (!strcmp(rows[i].name, word) && !(rows[i].verbs & (1u << verb)))
            return usage_error("--%s is not an option of %s. See: tenon %s --help", word,
                               verbs[verb].name, verbs[verb].name);
    const char *meant = closest(word, names);
    return usage_error("%s: no such option%s%s%s. See: tenon %s --help", given,
                       meant ? ", did you mean --" : "", meant ? meant : "", meant ? "?" : "",
                       verbs[verb].name);
}

/* ---- values ---------------------------------------------------------------------------------- */

static int
read_count(const OptionRow *r, const char *text, int64_t most, int64_t *out)
{
    char *end;

    errno = 0;
    *out = strtoll(text, &end, 10);
    if (end == text || *end || errno || *out < 0)
        return usage_error("--%s %s: a whole number of 0 or more is needed", r->name, text);
    if (*out > most)
        return usage_error("--%s %s: at most %lld is possible", r->name, text, (long long)most);
    return TN_OK;
}

/* 1,2,4 */
static int
read_counts(const OptionRow *r, const char *text, NumberList *out)
{
    const char *s = text;

    out->n = 0;
    for (char *end;; s = end + 1) {
        errno = 0;
        long long v = strtoll(s, &end, 10);
        if (end == s || (*end && *end != ',') || errno || v < 1)
            return usage_error(
                "--%s %s: numbers of 1 or more are needed, with commas between: 1,2,4", r->name,
                text);
        if (v > INT32_MAX)
            return usage_error("--%s %s: at most %d is possible", r->name, text, INT32_MAX);
        out->at = need(realloc(out->at, (size_t)(out->n + 1) * sizeof *out->at));
        out->at[out->n++] = v;
        if (!*end)
            return TN_OK;
    }
}

/* 800M, 800MB, 8G: by 1024 each, as sizes are printed. */
static int
read_bytes(const OptionRow *r, const char *text, int64_t *out)
{
    static const char units[] = "KMGT";
    char *end;
    int shift = 0;

    errno = 0;
    long long v = strtoll(text, &end, 10);
    const char *unit = *end ? strchr(units, *end) : NULL;
    if (unit) {
        shift = 10 * (int)(unit - units + 1);
        end++;
    }
    end += *end == 'B';
    if (end == text || *end || errno || v <= 0 || v > INT64_MAX >> shift)
        return usage_error("--%s %s: a size is needed, such as 800M or 8G", r->name, text);
    *out = (int64_t)v << shift;
    return TN_OK;
}

static int
read_real(const OptionRow *r, const char *text, double *out)
{
    char *end;
    double v = strtod(text, &end);

    if (end == text || *end || !(v >= 0))
        return usage_error("--%s %s: a number of 0 or more is needed", r->name, text);
    *out = v;
    return TN_OK;
}

static int
read_share(const OptionRow *r, const char *text, double *out)
{
    char *end;

    *out = strtod(text, &end);
    if (end == text || *end || !(*out > 0) || !(*out <= 1))
        return usage_error("--%s %s: a share above 0 and at most 1 is needed", r->name, text);
    return TN_OK;
}

/* Names may hold an equals sign: values of the form @FILE begin after "=@", others that are no
 * files after the last. */
static int
read_pair(const OptionRow *r, const char *text, Pairs *out)
{
    bool is_file = strchr(r->value, '@') != NULL;
    const char *at = is_file ? strstr(text, "=@") : strrchr(text, '=');
    int skip = is_file && at ? 2 : 1;

    if (is_file && !at) /* the @ may be left out where it is clear */
        at = strchr(text, '=');
    if (!at || at == text || !at[skip])
        return usage_error("--%s %s: write --%s %s", r->name, text, r->name, r->value);
    for (int i = 0; i < out->n; i++)
        if (strlen(out->at[i].name) == (size_t)(at - text) &&
            !memcmp(out->at[i].name, text, (size_t)(at - text)))
            return usage_error("--%s %s: %s was given before, as %s", r->name, text,
                               out->at[i].name, out->at[i].value);
    out->at = need(realloc(out->at, (size_t)(out->n + 1) * sizeof *out->at));
    out->at[out->n++] = (Pair){ need(strndup(text, (size_t)(at - text))), need(strdup(at + skip)) };
    return TN_OK;
}

static int
set(const OptionRow *r, const char *value, Options *o)
{
    void *field = (char *)o + r->field;
    int64_t count = 0;
    int status = TN_OK;

    switch (r->takes) {
    case TAKES_FLAG: *(int32_t *)field = 1; return TN_OK;
    case TAKES_TEXT: *(const char **)field = value; return TN_OK;
    case TAKES_COUNT: return read_count(r, value, INT64_MAX, field);
    case TAKES_COUNT32:
        status = read_count(r, value, INT32_MAX, &count);
        *(int32_t *)field = (int32_t)count;
        return status;
    case TAKES_COUNTS: return read_counts(r, value, field);
    case TAKES_BYTES: return read_bytes(r, value, field);
    case TAKES_REAL: return read_real(r, value, field);
    case TAKES_SHARE: return read_share(r, value, field);
    case TAKES_PAIR: return read_pair(r, value, field);
    }
    return TN_INTERNAL;
}

/* ---- reading --------------------------------------------------------------------------------- */

static int
read_all(VerbId verb, int argc, char **argv, const struct option *longs, const char *shorts,
         Options *o)
{
    enum { FIRST_ID = 256 };
    int id, status = TN_OK;

    opterr = 0;
    optind = 1;
    while (status == TN_OK && (id = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
        if (id == ':')
            return usage_error("%s needs a value. See: tenon %s --help", argv[optind - 1],
                               verbs[verb].name);
        if (id == '?') {
            char letter[3] = { '-', (char)optopt, 0 };
            bool is_flag_with_value = optopt >= FIRST_ID;
            if (is_flag_with_value)
                return usage_error("--%s takes no value. See: tenon %s --help",
                                   rows[optopt - FIRST_ID].name, verbs[verb].name);
            return unknown_option(verb, optopt ? letter : argv[optind - 1]);
        }
        const OptionRow *r = NULL;
        for (int i = 0; i < NROW && !r; i++)
            if ((rows[i].verbs & (1u << verb)) && (id == FIRST_ID + i || id == rows[i].letter))
                r = &rows[i];
        status = set(r, optarg, o);
        if ((r->verbs & HOW) && ((1u << verb) & (RUNNING | X | L)))
            o->how = r->name;
    }
    return status;
}

static int
read_model(VerbId verb, int argc, char **argv, Options *o)
{
    const Command *v = &verbs[verb];

    if (o->help || o->list_passes)
        return TN_OK;
    if (optind < argc && v->wants_model)
        o->model = argv[optind++];
    if (optind < argc)
        return usage_error("%s: one argument too many. See: tenon %s --help", argv[optind],
                           v->name);
    if (v->wants_model && !o->model)
        return usage_error("which model? usage: tenon %s", v->usage);
    if (o->compile.dump_dir && !o->compile.dump)
        return usage_error(
            "--dump-dir says where, --dump=STAGE or --dump=all says what: give both");
    o->compile.many |= o->requests || o->batches;
    o->compile.cache_dir = o->no_cache ? "" : o->compile.cache_dir;
    return compile_lists_read(o);
}

void
options_free(Options *o)
{
    compile_lists_free(o);
    free(o->sweep.at);
    for (int k = 0; k < NROW; k++) {
        Pairs *p = (Pairs *)((char *)o + rows[k].field);
        for (int i = 0; rows[k].takes == TAKES_PAIR && i < p->n; i++) {
            free(p->at[i].name);
            free(p->at[i].value);
        }
        if (rows[k].takes == TAKES_PAIR) {
            free(p->at);
            *p = (Pairs){ 0 }; /* several rows may have it */
        }
    }
}

int
options_read(VerbId verb, int argc, char **argv, Options *o)
{
    struct option longs[NROW + 1] = { 0 };
    char shorts[2 * NROW + 2] = ":";
    int n = 0, k = 1;

    *o = (Options){ .compile.size = sizeof o->compile,
                    .atol = -1,
                    .rtol = -1,
                    .iterations = -1,
                    .warmup = -1,
                    .duration = -1,
                    .context = 128 };
    for (int i = 0; i < NROW; i++) {
        const OptionRow *r = &rows[i];
        if (!(r->verbs & (1u << verb)))
            continue;
        longs[n++] =
            (struct option){ r->name, r->takes == TAKES_FLAG ? no_argument : required_argument,
                             NULL, 256 + i };
        if (r->letter) {
            shorts[k++] = r->letter;
            if (r->takes != TAKES_FLAG)
                shorts[k++] = ':';
        }
    }
    int status = read_all(verb, argc, argv, longs, shorts, o);
    return status == TN_OK ? read_model(verb, argc, argv, o) : status;
}
