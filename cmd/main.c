/* main: which verb, and the ends of the program. The Python package runs it too. */
#include "cmd.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const Command verbs[VERB_COUNT] = {
    [VERB_COMPILE] = {
        "compile", "compile MODEL [-o FILE] [options]",
        "an ONNX model to a native shared library or a C file",
        "Compile MODEL (.onnx, or Tenon's own text, .tn) to a shared library that libtenon-run,\n"
        "`tenon run` or your own program can load. One line says what was chosen: target,\n"
        "kernels, bytes of weights, and the arena, the memory that a run needs besides inputs\n"
        "and outputs.",
        "  tenon compile digits.onnx -o digits.so\n"
        "  tenon compile resnet50.onnx --target x86-64-v3 -o resnet50.so   # for any AVX2 machine\n"
        "  tenon compile bert.onnx --dim batch=1 -o bert.so"
        "                 # one dimension fixed, others free\n"
        "  tenon compile digits.onnx --emit c -o digits.c"
        "                  # C to read or to take along, and digits.h\n"
        "  tenon compile digits.onnx --emit c --prefix digits --main -o digits.c"
        "   # with an example program\n"
        "  tenon compile digits.onnx --dump=all --dump-dir dumps           # every stage as text\n",
        true, cmd_compile,
    },
    [VERB_RUN] = {
        "run", "run MODEL [--input X=@FILE]… [--many FILE] [options]",
        "run a model once on given or random inputs",
        "Run MODEL (.onnx, .tn or a compiled .so) once. Inputs that are not given are random:\n"
        "normal numbers, integers in [0, 2) or as --max-int says; symbolic dimensions that\n"
        "nothing fixes are 1.\n"
        "Exit code 1 means that an output differs from what --expect or --data says: its\n"
        "largest error is over atol + rtol * (its largest value).\n"
        "--many runs the requests of a file together, if MODEL was compiled so: each line is a\n"
        "JSON object of inputs by name and gets a line of outputs, or {\"error\": …}.",
        "  tenon run digits.so --input image=@image.npy --output-dir out\n"
        "  tenon run digits.onnx --input image=@held_out.npz:images\n"
        "  tenon run bert.onnx --dim batch=2 --dim seq=128 --max-int input_ids=30000\n"
        "  tenon run model.onnx --input x=@x.npy --expect y=@y.npy --rtol 1e-3\n"
        "  tenon run model.onnx --data test_data_set_0\n"
        "  tenon run model.onnx --target armv8-a --output-dir out\n"
        "  tenon run model.so --many requests.jsonl > results.jsonl\n",
        true, cmd_run,
    },
    [VERB_BENCH] = {
        "bench", "bench MODEL [--threads N,…] [--compare OTHER] [options]", "how fast a model runs",
        "Run MODEL (.onnx, .tn or a compiled .so) again and again and print the times of one\n"
        "run in milliseconds, the runs in a second, what loading and the first run took, and\n"
        "the memory. Inputs are chosen as for `tenon run`. --compare runs two models in turn.\n"
        "--profile runs MODEL as often again and tells of each kernel its time, its rates, and\n"
        "the share of what the machine could do (its roof). States are empty as each run\n"
        "begins; --decode goes on from what they hold.",
        "  tenon bench resnet50.so --threads 1\n"
        "  tenon bench resnet50.onnx --duration 10 --json times.json\n"
        "  tenon bench resnet50.so --threads 1,2,4\n"
        "  tenon bench --compare old.so new.so --threads 1\n"
        "  tenon bench bert.so --dim batch=1 --dim seq=128 --iterations 200\n"
        "  tenon bench resnet50.so --threads 2 --profile --machine here.machine --trace "
        "resnet50.trace\n",
        true, cmd_bench,
    },
    [VERB_INSPECT] = {
        "inspect", "inspect MODEL [--html FILE] [--json]",
        "what a model file holds, and what cannot be compiled",
        "Tell MODEL's (.onnx, .tn or a compiled .so) inputs and outputs with their types, its\n"
        "symbolic dimensions, operators, weights, and every node that cannot be compiled, with\n"
        "the reason.",
        "  tenon inspect model.onnx\n"
        "  tenon inspect model.onnx --html model.html\n"
        "  tenon inspect model.so --json\n",
        true, cmd_inspect,
    },
    [VERB_EXPLAIN] = {
        "explain", "explain MODEL [--why A,B] [--html FILE] [--plan] [--batches] [--json]",
        "which nodes became one kernel, and why others did not",
        "Tell the kernels that MODEL (.onnx or .tn) is fused into: their operators, what each\n"
        "is predicted to take, the bytes that it keeps out of memory; and of every two kernels\n"
        "between which a value passes, why they are not one: order (a way round), pair (no\n"
        "kernel computes both), visible, capacity, unproven, cost, with both prices, or rival\n"
        "(what wants one of them gains more). --batches tells what requests run together.",
        "  tenon explain model.onnx\n"
        "  tenon explain model.onnx --why conv1,relu1\n"
        "  tenon explain model.onnx --html fusion.html\n"
        "  tenon explain model.onnx --plan > model.plan && tenon compile model.onnx "
        "--fuse-plan model.plan -o model.so\n"
        "  tenon explain model.onnx --fuse none --json\n"
        "  tenon explain model.so --batches --requests requests.jsonl\n",
        true, cmd_explain,
    },
    [VERB_LEARN] = {
        "learn", "learn MODEL --requests FILE [-o FILE] [--batch N]",
        "the order in which blocks of many requests run in fewest batches",
        "Run the requests of a file as `tenon run --many` does, record which blocks of MODEL they\n"
        "ask for (a .so compiled with --many, .onnx or .tn), and learn in which order those run\n"
        "in fewest batches. Told is that number by each policy, and the least that any order has.\n"
        "Where a table is best it is written to FILE, by default the model's name with .policy.\n"
        "Results are the same bits by every policy.",
        "  tenon learn trees.so --requests sample.jsonl\n"
        "  tenon compile trees.onnx --many --policy fsm:trees.policy -o trees.so\n"
        "  tenon run trees.so --many requests.jsonl --policy fsm:trees.policy\n",
        true, cmd_learn,
    },
    [VERB_VERIFY] = {
        "verify", "verify MODEL [--against onnxruntime] [options]",
        "compiled code against the interpreter, or ONNX Runtime",
        "Compile MODEL (.onnx or .tn), run it, run the interpreter on the same inputs, and\n"
        "compare: the error of each output, and the first that differs. An output agrees when\n"
        "its largest error is at most atol + rtol * (its largest value). Exit code 1 means that\n"
        "one does not. Inputs are chosen as for `tenon run`. The interpreter is slow: large\n"
        "models take minutes. ONNX Runtime is not; with --intermediate the values between the\n"
        "nodes are outputs too, which keeps nodes apart that would be one kernel. Code for another\n"
        "processor (--target armv8-a, rv64gcv, wasm32-simd, …) is compiled by a cross compiler and\n"
        "runs under an emulator, qemu-user or Node; a message says what to install.",
        "  tenon verify digits.onnx\n"
        "  tenon verify bert.onnx --dim batch=2 --dim seq=7 --max-int input_ids=1000\n"
        "  tenon verify model.onnx --target x86-64-v3 --seed 7\n"
        "  tenon verify model.onnx --target armv8-a\n"
        "  tenon verify model.onnx --against onnxruntime --intermediate\n",
        true, cmd_verify,
    },
    [VERB_MACHINE] = {
        "machine", "machine [-o FILE]", "measure this processor, for code that fits it",
        "Measure what this processor offers, in under 20 seconds and undisturbed: arithmetic by\n"
        "type, bandwidth by cache level for one thread and for all, what waking a worker and\n"
        "calling a kernel cost. FILE gets one fact a line; a program compiled with --machine\n"
        "FILE is the same wherever it is compiled.",
        "  tenon machine\n"
        "  tenon machine -o here.machine\n"
        "  tenon compile model.onnx --machine here.machine -o model.so\n",
        false, cmd_machine,
    },
    [VERB_CACHE] = {
        "cache", "cache [--clear]", "how much the cache of compiled objects holds; empty it",
        "Compiled objects are kept, up to 2 GiB, the least recently used dropped first.",
        "  tenon cache\n"
        "  tenon cache --clear\n",
        false, cmd_cache,
    },
    [VERB_OPERATORS] = {
        "operators", "operators", "the operators that a model may have",
        "A table of ONNX's operators (and of those that ONNX Runtime adds) that can be\n"
        "compiled: Tenon's name, the number of inputs, the attributes with their defaults, and\n"
        "the meaning. It is the table of doc/operators.md.",
        "  tenon operators\n"
        "  tenon operators | grep -i pool\n",
        false, cmd_operators,
    },
};

const char exit_codes[] =
    "exit codes: 0 fine, 1 outputs differ, 2 usage or inputs, 3 malformed model, 4 unsupported "
    "model,\n"
    "            5 a limit, memory or disk, 6 the C compiler, 7 a fault of tenon's own\n";

static void
help(FILE *to)
{
    fprintf(to, "tenon compiles trained deep-learning models (ONNX) to fast native code.\n\n"
                "usage: tenon VERB [arguments]\n\n");
    for (int i = 0; i < VERB_COUNT; i++)
        fprintf(to, "  %-9s %s\n", verbs[i].name, verbs[i].summary);
    fprintf(
        to,
        "\ntenon help VERB tells more, with examples. tenon --version prints the version.\n\n%s",
        exit_codes);
}

static int
unknown_verb(const char *word)
{
    const char *names[VERB_COUNT + 1] = { 0 };

    for (int i = 0; i < VERB_COUNT; i++)
        names[i] = verbs[i].name;
    const char *meant = closest(word, names);
    return usage_error("%s: no such verb%s%s%s. See: tenon --help", word,
                       meant ? ", did you mean " : "", meant ? meant : "", meant ? "?" : "");
}

static int
run_verb(VerbId verb, const Options *o)
{
    TnContext *ctx;

    if (o->help) {
        options_help(verb);
        return TN_OK;
    }
    if (tn_context_new(NULL, &ctx) != TN_OK)
        return usage_error("out of memory"), TN_LIMIT;
    int status = verbs[verb].run(ctx, o);
    tn_context_free(ctx);
    return status;
}

/* What failed is told to a machine too, where it reads along. */
static void
print_failure(int status)
{
    printf("{\"error\": {\"status\": %d, \"name\": \"%s\", \"message\": ", status,
           tn_status_name((TnStatus)status));
    print_json_string(reported());
    puts("}}");
}

static int
read_and_run(VerbId verb, int argc, char **argv)
{
    Options o;

    int status = options_read(verb, argc, argv, &o);
    if (status == TN_OK)
        status = run_verb(verb, &o);
    if (status > EXIT_DIFFERS && (o.json || is_stdout(o.json_file)))
        print_failure(status);
    options_free(&o);
    return status;
}

/* Output that could not be written, to a full disk say, is a failure too. */
static int
finish(int status)
{
    if ((fflush(stdout) || ferror(stdout)) && status == TN_OK) {
        fprintf(stderr, "tenon: error: standard output could not be written; is the disk full?\n");
        return TN_LIMIT;
    }
    return status;
}

int
tenon_command(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : NULL;

    /* a file size limit is then an error of write, reported as such */
    signal(SIGXFSZ, SIG_IGN);
    if (!word) {
        help(stderr);
        return TN_USAGE;
    }
    if (!strcmp(word, "--help") || !strcmp(word, "-h") || (!strcmp(word, "help") && argc == 2)) {
        help(stdout);
        return finish(TN_OK);
    }
    if (!strcmp(word, "help"))
        return finish(describe(argc - 1, argv + 1));
    if (!strcmp(word, "--version") || !strcmp(word, "-v") || !strcmp(word, "-V")) {
        puts("tenon " TN_VERSION);
        return finish(TN_OK);
    }
    for (int i = 0; i < VERB_COUNT; i++)
        if (!strcmp(verbs[i].name, word))
            return finish(read_and_run((VerbId)i, argc - 1, argv + 1));
    return unknown_verb(word);
}
