/* native: the module, its exceptions, and the compiler's entry points. */
#include "native.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- exceptions ------------------------------------------------------------------------------ */

static const struct {
    const char *name, *base, *doc;
} error_class[NSTATUS] = {
    [TN_OK] = { "tenon.Error", NULL,
                "What every exception of Tenon is; `status` is the number of the C API." },
    [1] = { NULL, NULL, NULL },
    [TN_USAGE] = { "tenon.UsageError", "ValueError",
                   "An argument, or an input's name, type, rank or size." },
    [TN_MODEL] = { "tenon.ModelError", NULL, "The model is malformed." },
    [TN_UNSUPPORTED] = { "tenon.UnsupportedError", "NotImplementedError",
                         "The model is fine, Tenon cannot compile it." },
    [TN_LIMIT] = { "tenon.LimitError", "MemoryError", "A named limit, memory or disk." },
    [TN_TOOLCHAIN] = { "tenon.ToolchainError", NULL, "The C compiler is missing or failed." },
    [TN_INTERNAL] = { "tenon.InternalError", NULL, "A fault of Tenon's own: please report it." },
};

State *
state_of_type(PyTypeObject *type)
{
    /* a subclass made in Python has no module of ours */
    for (; type; type = PyType_GetSlot(type, Py_tp_base)) {
        State *s = PyType_GetModuleState(type);
        if (s)
            return s;
        PyErr_Clear();
    }
    return NULL;
}

PyObject *
raise(const State *s, TnStatus status, TnContext *ctx)
{
    PyObject *class = status > TN_OK && status < NSTATUS && s->error[status]
                          ? s->error[status]
                          : s->error[TN_INTERNAL];
    const char *text = tn_error(ctx);

    PyErr_SetString(class, strncmp(text, "error: ", 7) ? text : text + 7);
    return NULL;
}

PyObject *
refuse(const State *s, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    PyErr_FormatV(s->error[TN_USAGE], format, args);
    va_end(args);
    return NULL;
}

static bool
add_errors(PyObject *module, State *s)
{
    PyObject *builtins = PyImport_ImportModule("builtins");
    bool ok = builtins != NULL;

    for (int i = 0; i < NSTATUS && ok; i++) {
        if (!error_class[i].name)
            continue;
        PyObject *also =
            error_class[i].base ? PyObject_GetAttrString(builtins, error_class[i].base) : NULL;
        PyObject *bases = i == TN_OK ? NULL
                          : also     ? PyTuple_Pack(2, s->error[TN_OK], also)
                                     : PyTuple_Pack(1, s->error[TN_OK]);
        PyObject *fields = Py_BuildValue("{s:i}", "status", i);
        s->error[i] =
            PyErr_NewExceptionWithDoc(error_class[i].name, error_class[i].doc, bases, fields);
        Py_XDECREF(also);
        Py_XDECREF(bases);
        Py_XDECREF(fields);
        ok = s->error[i] &&
             !PyModule_AddObjectRef(module, strrchr(error_class[i].name, '.') + 1, s->error[i]);
    }
    Py_XDECREF(builtins);
    return ok;
}

/* ---- compiling ------------------------------------------------------------------------------- */

typedef struct {
    PyObject *progress, *print;     /* callables, or NULL */
    PyObject *type, *value, *trace; /* what one of them, or a signal, raised first */
    _Atomic bool raised;
    _Atomic int64_t asked; /* when Python was last asked for signals [milliseconds] */
} Callbacks;

static void
keep_raised(Callbacks *c)
{
    if (c->raised)
        PyErr_Clear();
    else
        PyErr_Fetch(&c->type, &c->value, &c->trace);
    c->raised = true;
}

static void
call_back(Callbacks *c, PyObject *function, PyObject *args)
{
    PyObject *said = args && !c->raised ? PyObject_CallObject(function, args) : NULL;

    Py_XDECREF(args);
    Py_XDECREF(said);
    if (!said && PyErr_Occurred())
        keep_raised(c);
}

static void
on_progress(void *user, const char *what, int64_t done, int64_t total)
{
    Callbacks *c = user;

    PyGILState_STATE held = PyGILState_Ensure();
    call_back(c, c->progress, Py_BuildValue("(sLL)", what, (long long)done, (long long)total));
    PyGILState_Release(held);
}

static void
on_print(void *user, const char *text)
{
    Callbacks *c = user;

    PyGILState_STATE held = PyGILState_Ensure();
    call_back(c, c->print, Py_BuildValue("(s)", text));
    PyGILState_Release(held);
}

/* Does a callback or a signal end the compilation? Python's handlers of signals run here, in its
 * main thread, so that Ctrl-C is heard at once; not at every poll, since its lock may be another
 * thread's for a while. */
static int32_t
on_poll(void *user)
{
    enum { EVERY_MS = 50 };
    Callbacks *c = user;
    struct timespec now;

    if (c->raised)
        return 1;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    if (ms - c->asked < EVERY_MS)
        return 0;
    c->asked = ms;
    PyGILState_STATE held = PyGILState_Ensure();
    if (PyErr_CheckSignals())
        keep_raised(c);
    PyGILState_Release(held);
    return c->raised;
}

/* Options by name, from a dict: strings, and numbers. */
/* kind: s, i (int32), l (int64), d (double) */
typedef struct {
    const char *name;
    size_t at;
    char kind;
} Field;
#define FIELD(name, kind) { #name, offsetof(TnCompileOptions, name), kind }
static const Field field[] = {
    FIELD(target, 's'),
    FIELD(emit, 's'),
    FIELD(plain_schedule, 'i'),
    FIELD(quick, 'i'),
    FIELD(machine, 's'),
    FIELD(cores, 'i'),
    FIELD(dump, 's'),
    FIELD(dump_dir, 's'),
    FIELD(stop_after, 's'),
    FIELD(page, 's'),
    FIELD(page_profile, 's'),
    FIELD(cc, 's'),
    FIELD(cache_dir, 's'),
    FIELD(cache_bytes, 'l'),
    FIELD(jobs, 'i'),
    FIELD(max_model_bytes, 'l'),
    FIELD(max_nodes, 'l'),
    FIELD(max_memory_bytes, 'l'),
    FIELD(max_arena_bytes, 'l'),
    FIELD(ram_bytes, 'l'),
    FIELD(flash_bytes, 'l'),
    FIELD(time, 'i'),
    FIELD(max_seconds, 'd'),
    FIELD(max_depth, 'l'),
    FIELD(choices, 's'),
    FIELD(nests, 's'),
    FIELD(library, 's'),
    FIELD(max_trips, 'l'),
    FIELD(max_calls, 'l'),
    FIELD(seed, 'l'),
    FIELD(formats, 's'),
    FIELD(explain_formats, 'i'),
    FIELD(exact, 'i'),
    FIELD(ragged, 's'),
    FIELD(packed, 'i'),
    FIELD(density, 'd'),
    FIELD(many, 'i'),
    FIELD(keep_denormals, 'i'),
    FIELD(fast_math, 'i'),
    FIELD(state_capacity, 'l'),
    FIELD(fuse, 's'),
    FIELD(weights_growth, 'i'),
    FIELD(variants, 'i'),
    FIELD(weights, 's'),
    FIELD(weights_in, 's'),
    FIELD(weights_keep, 's'),
    FIELD(given, 's'),
    FIELD(explain, 'i'),
    FIELD(why, 's'),
    FIELD(must_fuse, 's'),
    FIELD(keep, 's'),
    FIELD(fuse_plan, 's'),
    FIELD(fuse_bisect, 'i'),
    FIELD(policy, 's'),
    FIELD(reuse, 'i'),
};
enum { NFIELD = sizeof field / sizeof *field };

static bool
set_field(TnCompileOptions *o, const Field *f, PyObject *value)
{
    char *at = (char *)o + f->at;

    if (value == Py_None)
        return true;
    if (f->kind == 's') {
        const char *text = PyUnicode_AsUTF8AndSize(value, NULL);
        *(const char **)at = text;
        return text != NULL;
    }
    if (f->kind == 'd') {
        *(double *)at = PyFloat_AsDouble(value);
        return !PyErr_Occurred();
    }
    long long n = PyLong_AsLongLong(value);
    if (n == -1 && PyErr_Occurred())
        return false;
    if (f->kind == 'i')
        *(int32_t *)at = n > INT32_MAX ? INT32_MAX : n < INT32_MIN ? INT32_MIN : (int32_t)n;
    else
        *(int64_t *)at = n;
    return true;
}

/* {symbol: size, or (least, most)} */
static bool
set_dims(TnCompileOptions *o, PyObject *dict)
{
    PyObject *key, *value;
    Py_ssize_t at = 0, n = PyDict_Size(dict);
    TnDim *dim = calloc((size_t)n + 1, sizeof *dim + sizeof(TnRange));
    TnRange *range = dim ? (TnRange *)(dim + n + 1) : NULL;

    o->dims = dim;
    o->ranges = range;
    while (dim && PyDict_Next(dict, &at, &key, &value)) {
        const char *symbol = PyUnicode_AsUTF8AndSize(key, NULL);
        long long least, most;
        if (symbol && PyTuple_Check(value) && PyArg_ParseTuple(value, "LL", &least, &most))
            range[o->nranges++] = (TnRange){ symbol, least, most };
        else if (symbol && !PyErr_Occurred())
            dim[o->ndims++] = (TnDim){ symbol, PyLong_AsLongLong(value) };
        if (PyErr_Occurred())
            return false;
    }
    return dim || (PyErr_NoMemory(), false);
}

enum { MOST_HINTS = 64 }; /* sizes of one symbol */

/* The sizes in a sequence, at most `most`: how many, or -1 with an exception. */
static int32_t
read_sizes(PyObject *from, const char *option, const char *what, Py_ssize_t most, int64_t *out)
{
    Py_ssize_t count = PySequence_Size(from);

    if (count > most)
        PyErr_Format(PyExc_ValueError, "%s: %zd sizes of one %s, at most %zd are possible", option,
                     count, what, most);
    for (Py_ssize_t i = 0; i < count && !PyErr_Occurred(); i++) {
        PyObject *size = PySequence_GetItem(from, i);
        out[i] = size ? PyLong_AsLongLong(size) : 0;
        Py_XDECREF(size);
    }
    return PyErr_Occurred() ? -1 : (int32_t)count;
}

/* {symbol: (size, …)} */
static bool
set_hints(TnCompileOptions *o, PyObject *dict)
{
    PyObject *key, *value;
    Py_ssize_t at = 0, n = PyDict_Size(dict);
    TnHint *hint = calloc((size_t)n + 1, sizeof *hint + MOST_HINTS * sizeof(int64_t));
    int64_t *sizes = hint ? (int64_t *)(hint + n + 1) : NULL;
    int32_t count;

    o->hints = hint;
    for (; hint && PyDict_Next(dict, &at, &key, &value); sizes += MOST_HINTS) {
        if ((count = read_sizes(value, "dim_hints", "dimension", MOST_HINTS, sizes)) < 0)
            return false;
        hint[o->nhints++] = (TnHint){ PyUnicode_AsUTF8AndSize(key, NULL), sizes, count };
    }
    return hint ? !PyErr_Occurred() : (PyErr_NoMemory(), false);
}

/* {input: (size, …)} */
static bool
set_shapes(TnCompileOptions *o, PyObject *dict)
{
    PyObject *key, *value;
    Py_ssize_t at = 0, n = PyDict_Size(dict);
    TnShape *shape = calloc((size_t)n + 1, sizeof *shape + MAX_RANK * sizeof(int64_t));
    int64_t *dims = shape ? (int64_t *)(shape + n + 1) : NULL;
    int32_t rank;

    o->shapes = shape;
    for (; shape && PyDict_Next(dict, &at, &key, &value); dims += MAX_RANK) {
        if ((rank = read_sizes(value, "shapes", "input", MAX_RANK, dims)) < 0)
            return false;
        shape[o->nshapes++] = (TnShape){ PyUnicode_AsUTF8AndSize(key, NULL), rank, dims };
    }
    return shape ? !PyErr_Occurred() : (PyErr_NoMemory(), false);
}

/* {value: "nhwc"} */
static bool
set_orders(const TnOrder **out, int32_t *n, PyObject *dict)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    TnOrder *order = calloc((size_t)PyDict_Size(dict) + 1, sizeof *order);

    *out = order;
    for (; order && PyDict_Next(dict, &at, &key, &value); ++*n) {
        order[*n] =
            (TnOrder){ PyUnicode_AsUTF8AndSize(key, NULL), PyUnicode_AsUTF8AndSize(value, NULL) };
        if (PyErr_Occurred())
            return false;
    }
    return order || (PyErr_NoMemory(), false);
}

/* {"past.*": "present.*"} */
static bool
set_states(TnCompileOptions *o, PyObject *dict)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    TnStateNames *state = calloc((size_t)PyDict_Size(dict) + 1, sizeof *state);

    o->state = state;
    for (; state && PyDict_Next(dict, &at, &key, &value); o->nstate++) {
        state[o->nstate] = (TnStateNames){ PyUnicode_AsUTF8AndSize(key, NULL),
                                           PyUnicode_AsUTF8AndSize(value, NULL) };
        if (PyErr_Occurred())
            return false;
    }
    return state || (PyErr_NoMemory(), false);
}

/* An option's value of another type, or larger than any number that it takes. */
static bool
refuse_value(State *s, PyObject *key, PyObject *value)
{
    if (PyErr_ExceptionMatches(PyExc_TypeError) || PyErr_ExceptionMatches(PyExc_OverflowError)) {
        PyErr_Clear();
        refuse(s, "option %S: %R is none of its values", key, value);
    }
    return false;
}

static bool
set_options(State *s, TnCompileOptions *o, PyObject *dict)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;

    while (PyDict_Next(dict, &at, &key, &value)) {
        bool ok = true, known = false;
        if (PyUnicode_CompareWithASCIIString(key, "dims") == 0)
            known = true, ok = set_dims(o, value);
        else if (PyUnicode_CompareWithASCIIString(key, "dim_hints") == 0)
            known = true, ok = set_hints(o, value);
        else if (PyUnicode_CompareWithASCIIString(key, "shapes") == 0)
            known = true, ok = set_shapes(o, value);
        else if (PyUnicode_CompareWithASCIIString(key, "format") == 0)
            known = true, ok = set_orders(&o->format, &o->nformat, value);
        else if (PyUnicode_CompareWithASCIIString(key, "io_format") == 0)
            known = true, ok = set_orders(&o->io_format, &o->nio_format, value);
        else if (PyUnicode_CompareWithASCIIString(key, "state") == 0)
            known = true, ok = set_states(o, value);
        for (int i = 0; i < NFIELD && !known; i++)
            if (PyUnicode_CompareWithASCIIString(key, field[i].name) == 0)
                known = true, ok = set_field(o, &field[i], value) || refuse_value(s, key, value);
        if (!known)
            return refuse(s, "there is no option %R", key), false;
        if (!ok)
            return false;
    }
    return true;
}

static PyObject *
tell(const State *s, TnStatus status, TnContext *ctx, const TnCompileReport *r, const Callbacks *c)
{
    if (c->raised) {
        PyErr_Restore(c->type, c->value, c->trace);
        return NULL;
    }
    /* a Ctrl-C that the C compiler heard first */
    if (status != TN_OK)
        return PyErr_CheckSignals() ? NULL : raise(s, status, ctx);
    return Py_BuildValue("{s:s,s:d,s:L,s:L,s:L,s:L,s:L,s:O,s:s}", "summary", r->summary, "seconds",
                         r->seconds, "artefact_bytes", (long long)r->artefact_bytes, "kernels",
                         (long long)r->kernels, "distinct_kernels", (long long)r->distinct_kernels,
                         "compiled_units", (long long)r->compiled_units, "cached_units",
                         (long long)r->cached_units, "reused", r->reused ? Py_True : Py_False,
                         "notes", tn_error(ctx));
}

/* compile(model, out, options, progress, print) -> dict */
static PyObject *
compile(PyObject *module, PyObject *args)
{
    State *s = PyModule_GetState(module);
    TnCompileOptions o = TN_INIT(TnCompileOptions);
    TnCompileReport report = TN_INIT(TnCompileReport);
    Callbacks c = { 0 };
    PyObject *options, *model, *out, *result = NULL;
    TnContext *ctx;
    TnStatus status = TN_OK;

    if (!PyArg_ParseTuple(args, "O&O&O!OO", PyUnicode_FSConverter, &model, PyUnicode_FSConverter,
                          &out, &PyDict_Type, &options, &c.progress, &c.print))
        return NULL;
    if (c.progress != Py_None)
        o.progress = on_progress;
    if (c.print != Py_None)
        o.print = on_print;
    o.stopped = on_poll;
    o.user = &c;
    if (tn_context_new(NULL, &ctx) != TN_OK) {
        PyErr_NoMemory();
    } else if (set_options(s, &o, options)) {
        const char *from = PyBytes_AsString(model), *to = PyBytes_AsString(out);
        Py_BEGIN_ALLOW_THREADS
        status = tn_compile(ctx, from, to, &o, &report);
        Py_END_ALLOW_THREADS
        result = tell(s, status, ctx, &report, &c);
    }
    tn_context_free(ctx);
    free((void *)o.dims);
    free((void *)o.hints);
    free((void *)o.shapes);
    free((void *)o.format);
    free((void *)o.io_format);
    free((void *)o.state);
    Py_DECREF(model);
    Py_DECREF(out);
    return result;
}

/* inspect(path) -> JSON */
static PyObject *
inspect(PyObject *module, PyObject *path)
{
    const State *s = PyModule_GetState(module);
    const char *text = "";
    PyObject *encoded, *result = NULL;
    TnContext *ctx;

    if (!PyUnicode_FSConverter(path, &encoded))
        return NULL;
    if (tn_context_new(NULL, &ctx) != TN_OK)
        return Py_DECREF(encoded), PyErr_NoMemory();
    TnStatus status = tn_inspect(ctx, PyBytes_AsString(encoded), 1, &text);
    result = status == TN_OK ? PyUnicode_FromString(text) : raise(s, status, ctx);
    tn_context_free(ctx);
    Py_DECREF(encoded);
    return result;
}

static PyObject *
targets(PyObject *module, PyObject *unused)
{
    TnContext *ctx;

    (void)module, (void)unused;
    if (tn_context_new(NULL, &ctx) != TN_OK)
        return PyErr_NoMemory();
    PyObject *names = PyUnicode_FromString(tn_targets(ctx));
    tn_context_free(ctx);
    return names;
}

/* ---- the command ----------------------------------------------------------------------------- */

int tenon_command(int argc, char **argv); /* cmd/main.c */

/* command(words) -> exit code. Nothing else of Python runs meanwhile: it is the whole process. */
static PyObject *
command(PyObject *module, PyObject *words)
{
    Py_ssize_t n = PySequence_Size(words);
    PyObject *held = n < 0 ? NULL : PyList_New(0);
    char **argv = held ? calloc((size_t)n + 1, sizeof *argv) : NULL;
    bool ok = argv != NULL;

    (void)module;
    for (Py_ssize_t i = 0; i < n && ok; i++) {
        PyObject *word = PySequence_GetItem(words, i), *bytes = NULL;
        ok = word && PyUnicode_FSConverter(word, &bytes) && !PyList_Append(held, bytes);
        argv[i] = ok ? PyBytes_AsString(bytes) : NULL;
        Py_XDECREF(bytes);
        Py_XDECREF(word);
    }
    PyObject *code = ok ? PyLong_FromLong(tenon_command((int)n, argv)) : NULL;
    free(argv);
    Py_XDECREF(held);
    return ok || PyErr_Occurred() ? code : PyErr_NoMemory();
}

/* ---- the module ------------------------------------------------------------------------------ */

static int
fill_module(PyObject *module)
{
    State *s = PyModule_GetState(module);

    return add_errors(module, s) && add_model_types(module, s) &&
                   !PyModule_AddStringConstant(module, "version", TN_VERSION)
               ? 0
               : -1;
}

static PyMethodDef functions[] = {
    { "compile", compile, METH_VARARGS, "compile(model, out, options, progress, print) -> report" },
    { "inspect", inspect, METH_O, "inspect(path) -> JSON" },
    { "command", command, METH_O, "command(words) -> exit code of the tenon command" },
    { "targets", targets, METH_NOARGS, "the names of the targets" },
    { 0 }
};
static PyModuleDef_Slot slots[] = { { Py_mod_exec, fill_module }, { 0, NULL } };
static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,   .m_name = "tenon._native", .m_doc = "Tenon's C API.",
    .m_size = sizeof(State), .m_methods = functions,    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__native(void)
{
    return PyModuleDef_Init(&definition);
}
