/* model: loaded models and sessions.
 *
 * A Model owns a context and an artefact, a Session a context and a session of a Model that it
 * keeps alive: contexts are for one thread at a time, and a session's lock sees to that. Python's
 * own lock is released while a model runs.
 */
#include "native.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    PyObject_HEAD
    TnContext *ctx;
    TnModel *model;
} ModelObject;

typedef struct {
    PyObject_HEAD
    State *state;
    PyObject *owner; /* the Model */
    TnContext *ctx;
    TnSession *session;
    PyThread_type_lock lock;
    unsigned long locked_by; /* the thread that has the lock; 0: none */
    PyObject *place;         /* {input's name: its number} */
    int32_t nin, nout;
    TnValueInfo *in_info, *out_info; /* [nin], [nout] */
    Borrowed *borrowed;              /* [nin + nout] */
    TnTensor *in, *out;              /* what tn_run takes */
} SessionObject;

/* ---- models ---------------------------------------------------------------------------------- */

static PyObject *
model_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "path", "name", NULL };
    State *s = state_of_type(type);
    const char *path, *name = NULL;
    PyObject *encoded;
    TnStatus status;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|z", names, PyUnicode_FSConverter, &encoded,
                                     &name))
        return NULL;
    path = PyBytes_AsString(encoded);
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    ModelObject *m = (ModelObject *)alloc(type, 0);
    if (m && tn_context_new(NULL, &m->ctx) != TN_OK) {
        PyErr_NoMemory();
        Py_CLEAR(m);
    }
    if (m) {
        Py_BEGIN_ALLOW_THREADS
        status = tn_load(m->ctx, path, &m->model);
        if (status == TN_OK && name)
            status = tn_model_set_name(m->model, name);
        Py_END_ALLOW_THREADS
        if (status != TN_OK) {
            raise(s, status, m->ctx);
            Py_CLEAR(m);
        }
    }
    Py_DECREF(encoded);
    return (PyObject *)m;
}

static void
free_object(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release_memory = (freefunc)PyType_GetSlot(type, Py_tp_free);

    release_memory(self);
    Py_DECREF(type);
}

static void
model_dealloc(PyObject *self)
{
    ModelObject *m = (ModelObject *)self;

    tn_model_free(m->model);
    tn_context_free(m->ctx);
    free_object(self);
}

/* ((name, dtype, (dim, …), format), …): a dimension is a number, or the text of a symbolic one; the
 * format a text or None. */
static PyObject *
value_tuple(const TnValueInfo *v)
{
    PyObject *dims = PyTuple_New(v->rank);

    for (int32_t d = 0; d < v->rank && dims; d++) {
        PyObject *dim =
            v->dims[d] < 0 ? PyUnicode_FromString(v->dim_text[d]) : PyLong_FromLongLong(v->dims[d]);
        if (!dim)
            Py_CLEAR(dims);
        else
            PyTuple_SetItem(dims, d, dim);
    }
    return dims ? Py_BuildValue("(ssNz)", v->name, v->dtype, dims, v->format) : NULL;
}

static PyObject *
values_of(TnModel *m, int32_t n, TnStatus (*get)(const TnModel *, int32_t, TnValueInfo *))
{
    PyObject *all = PyTuple_New(n);

    for (int32_t i = 0; i < n && all; i++) {
        TnValueInfo v = TN_INIT(TnValueInfo);
        PyObject *one = get(m, i, &v) == TN_OK ? value_tuple(&v) : NULL;
        if (!one)
            Py_CLEAR(all);
        else
            PyTuple_SetItem(all, i, one);
    }
    return all;
}

static PyObject *
model_inputs(PyObject *self, void *unused)
{
    TnModel *m = ((ModelObject *)self)->model;

    (void)unused;
    return values_of(m, tn_model_inputs(m), tn_model_input);
}

static PyObject *
model_outputs(PyObject *self, void *unused)
{
    TnModel *m = ((ModelObject *)self)->model;

    (void)unused;
    return values_of(m, tn_model_outputs(m), tn_model_output);
}

static PyObject *
model_summary(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(tn_model_summary(((ModelObject *)self)->model));
}

static PyObject *
model_single(PyObject *self, void *unused)
{
    const char *why = tn_model_single(((ModelObject *)self)->model);

    (void)unused;
    if (!why)
        Py_RETURN_NONE;
    return PyUnicode_FromString(why);
}

static PyObject *
model_kernels(PyObject *self, void *unused)
{
    TnModel *m = ((ModelObject *)self)->model;
    int32_t n = tn_model_kernels(m);
    PyObject *all = PyTuple_New(n);

    (void)unused;
    for (int32_t i = 0; i < n && all; i++) {
        PyObject *one = PyUnicode_FromString(tn_model_kernel(m, i));
        if (!one)
            Py_CLEAR(all);
        else
            PyTuple_SetItem(all, i, one);
    }
    return all;
}

static PyObject *
model_states(PyObject *self, void *unused)
{
    TnModel *m = ((ModelObject *)self)->model;
    int32_t n = tn_model_states(m);
    PyObject *all = PyTuple_New(n);

    (void)unused;
    for (int32_t i = 0; i < n && all; i++) {
        TnState s = TN_INIT(TnState);
        tn_model_state(m, i, &s);
        PyObject *dims = PyTuple_New(s.rank);
        for (int32_t d = 0; d < s.rank && dims; d++)
            PyTuple_SetItem(dims, d, PyUnicode_FromString(s.dim_text[d]));
        PyObject *one = dims ? Py_BuildValue("(sssNiO)", s.input, s.output, s.dtype, dims,
                                             (int)s.axis, s.in_place ? Py_True : Py_False)
                             : NULL;
        if (!one)
            Py_CLEAR(all);
        else
            PyTuple_SetItem(all, i, one);
    }
    return all;
}

/* Sizes of a dict, by symbol, borrowed from it; -1: an exception is set. */
static int32_t
sizes_of(State *s, PyObject *sizes, TnDim *dim)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    int32_t n = 0;

    while (PyDict_Next(sizes, &at, &key, &value)) {
        if (!PyUnicode_Check(key) || !PyLong_Check(value)) {
            refuse(s, "sizes: %R: %R is given; a symbol's name and a whole number are needed", key,
                   value);
            return -1;
        }
        dim[n] = (TnDim){ PyUnicode_AsUTF8AndSize(key, NULL), PyLong_AsLongLong(value) };
        if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_OverflowError)) {
            PyErr_Clear();
            refuse(s, "sizes: %R: %R is larger than any size", key, value);
        }
        if (!dim[n++].symbol || PyErr_Occurred())
            return -1;
    }
    return n;
}

static PyObject *
solved_input(State *s, ModelObject *m, const TnDim *dim, int32_t n, int32_t i)
{
    TnValueInfo v = TN_INIT(TnValueInfo);
    int64_t *sizes;
    PyObject *one = NULL;

    tn_model_input(m->model, i, &v);
    sizes = calloc((size_t)v.rank + 1, sizeof *sizes);
    if (!sizes)
        return PyErr_NoMemory();
    v.dims = sizes;
    TnStatus status = tn_model_solve(m->model, dim, n, i, sizes);
    if (status == TN_OK)
        one = value_tuple(&v);
    else
        raise(s, status, m->ctx);
    free(sizes);
    return one;
}

static PyObject *
model_solve(PyObject *self, PyObject *sizes)
{
    ModelObject *m = (ModelObject *)self;
    State *s = state_of_type(Py_TYPE(self));
    int32_t nin = tn_model_inputs(m->model);

    if (!PyDict_Check(sizes))
        return refuse(s, "sizes are a dict by symbol; %R is given", sizes);
    TnDim *dim = calloc((size_t)PyDict_Size(sizes) + 1, sizeof *dim);
    if (!dim)
        return PyErr_NoMemory();
    int32_t n = sizes_of(s, sizes, dim);
    PyObject *all = n < 0 ? NULL : PyTuple_New(nin);
    for (int32_t i = 0; i < nin && all; i++) {
        PyObject *one = solved_input(s, m, dim, n, i);
        if (!one)
            Py_CLEAR(all);
        else
            PyTuple_SetItem(all, i, one);
    }
    free(dim);
    return all;
}

/* ((key, value), …) */
static PyObject *
model_metadata(PyObject *self, void *unused)
{
    TnModel *m = ((ModelObject *)self)->model;
    int32_t n = tn_model_metadata(m);
    PyObject *all = PyTuple_New(n);

    (void)unused;
    for (int32_t i = 0; i < n && all; i++) {
        const char *key = tn_model_metadata_key(m, i), *value = tn_model_metadata_value(m, i);
        PyObject *k = PyUnicode_DecodeUTF8(key, (Py_ssize_t)strlen(key), "replace"),
                 *v = PyUnicode_DecodeUTF8(value, (Py_ssize_t)strlen(value), "replace");
        PyObject *one = k && v ? PyTuple_Pack(2, k, v) : NULL;
        Py_XDECREF(k);
        Py_XDECREF(v);
        if (!one)
            Py_CLEAR(all);
        else
            PyTuple_SetItem(all, i, one);
    }
    return all;
}

static PyMethodDef model_methods[] = {
    { "solve", model_solve, METH_O,
      "solve({symbol: size}): the inputs, with the sizes that follow from these" },
    { 0 }
};
static PyGetSetDef model_fields[] = {
    { "inputs", model_inputs, NULL, "((name, dtype, dims), ...) of each input", NULL },
    { "outputs", model_outputs, NULL, "((name, dtype, dims), ...) of each output", NULL },
    { "summary", model_summary, NULL, "target, kernels, weights, in one line", NULL },
    { "single", model_single, NULL, "why requests run one by one, or None", NULL },
    { "states", model_states, NULL,
      "((input, output, dtype, dims, axis, in_place), ...) of what a session keeps", NULL },
    { "metadata", model_metadata, NULL, "((key, value), ...) of what the model says", NULL },
    { "kernels", model_kernels, NULL, "the nodes that each kernel came from", NULL },
    { 0 }
};
static PyType_Slot model_slots[] = {
    { Py_tp_doc, "Model(path, name=None): a compiled model, mapped from its file." },
    { Py_tp_new, model_new },
    { Py_tp_dealloc, model_dealloc },
    { Py_tp_getset, model_fields },
    { Py_tp_methods, model_methods },
    { 0, NULL }
};
static PyType_Spec model_spec = { "tenon._native.Model", sizeof(ModelObject), 0, Py_TPFLAGS_DEFAULT,
                                  model_slots };

/* ---- sessions -------------------------------------------------------------------------------- */

static bool
fill_session(SessionObject *o, TnModel *m)
{
    o->nin = tn_model_inputs(m);
    o->nout = tn_model_outputs(m);
    size_t n = (size_t)o->nin + (size_t)o->nout + 1;
    o->in_info = calloc(n, sizeof *o->in_info);
    o->borrowed = calloc(n, sizeof *o->borrowed);
    o->in = calloc(n, sizeof *o->in);
    o->lock = PyThread_allocate_lock();
    o->place = PyDict_New();
    if (!o->in_info || !o->borrowed || !o->in || !o->lock || !o->place)
        return PyErr_NoMemory(), false;
    o->out_info = o->in_info + o->nin;
    o->out = o->in + o->nin;
    for (size_t i = 0; i < n; i++) {
        o->in_info[i].size = sizeof *o->in_info;
        o->in[i].size = sizeof *o->in;
    }
    for (int32_t i = 0; i < o->nin; i++) {
        tn_model_input(m, i, &o->in_info[i]);
        PyObject *at = PyLong_FromLong(i);
        if (!at || PyDict_SetItemString(o->place, o->in_info[i].name, at))
            return Py_XDECREF(at), false;
        Py_DECREF(at);
    }
    for (int32_t i = 0; i < o->nout; i++)
        tn_model_output(m, i, &o->out_info[i]);
    return true;
}

static PyObject *
session_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "model", "threads", "state_capacity", NULL };
    State *s = state_of_type(type);
    long long capacity = 0;
    TnSessionOptions options = TN_INIT(TnSessionOptions);
    PyObject *owner;
    int threads = 0;
    TnStatus status;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|iL", names, s->model_type, &owner, &threads,
                                     &capacity))
        return NULL;
    if (threads < 0)
        return refuse(s, "threads=%d: 1 or more, or 0 for as many as this process may use",
                      threads);
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    SessionObject *o = (SessionObject *)alloc(type, 0);
    if (!o)
        return NULL;
    Py_INCREF(owner);
    o->owner = owner;
    o->state = s;
    TnModel *m = ((ModelObject *)owner)->model;
    options.threads = threads;
    options.state_capacity = capacity;
    if (tn_context_new(NULL, &o->ctx) != TN_OK) {
        PyErr_NoMemory();
        Py_DECREF(o);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    status = tn_session_new(o->ctx, m, &options, &o->session);
    Py_END_ALLOW_THREADS
    if (status != TN_OK)
        raise(s, status, o->ctx);
    if (status != TN_OK || !fill_session(o, m)) {
        Py_DECREF(o);
        return NULL;
    }
    return (PyObject *)o;
}

static void
session_dealloc(PyObject *self)
{
    SessionObject *o = (SessionObject *)self;

    tn_session_free(o->session);
    tn_context_free(o->ctx);
    free(o->in_info);
    free(o->borrowed);
    free(o->in);
    if (o->lock)
        PyThread_free_lock(o->lock);
    Py_XDECREF(o->place);
    Py_XDECREF(o->owner);
    free_object(self);
}

/* ---- one run --------------------------------------------------------------------------------- */

/* One run at a time; a waiting thread lets other Python threads run. False, with an exception: an
 * input's own code, __array__, asks its session for something while that takes the input. */
static bool
lock(SessionObject *o)
{
    unsigned long self = PyThread_get_thread_ident();

    if (!PyThread_acquire_lock(o->lock, NOWAIT_LOCK)) {
        if (o->locked_by == self) {
            PyErr_SetString(PyExc_RuntimeError,
                            "a session is used while it takes an input of its own: compute the "
                            "input first, or with another session");
            return false;
        }
        Py_BEGIN_ALLOW_THREADS
        PyThread_acquire_lock(o->lock, WAIT_LOCK);
        Py_END_ALLOW_THREADS
    }
    o->locked_by = self;
    return true;
}

static void
unlock(SessionObject *o)
{
    o->locked_by = 0;
    PyThread_release_lock(o->lock);
}

static PyObject *
unlock_with(SessionObject *o, TnStatus status)
{
    PyObject *result = status == TN_OK ? Py_None : raise(o->state, status, o->ctx);

    Py_XINCREF(status == TN_OK ? result : NULL);
    unlock(o);
    return result;
}

/* None, or the error that a call of the library gives, made while the session is locked. */
#define LOCKED(o, call) (lock(o) ? unlock_with(o, call) : NULL)

static bool
borrow_input(State *s, SessionObject *o, int32_t i, PyObject *x)
{
    if (!borrow(s, x, &o->in_info[i], false, &o->borrowed[i]))
        return false;
    o->in[i] = o->borrowed[i].tensor;
    return true;
}

static const char *
input_list(const SessionObject *o, char *text, size_t room)
{
    size_t n = 0;

    text[0] = 0;
    for (int32_t i = 0; i < o->nin && n < room; i++)
        n += (size_t)snprintf(text + n, room - n, "%s%s", i ? ", " : "", o->in_info[i].name);
    return text;
}

/* An input of that name there is not. */
static bool
refuse_name(State *s, const SessionObject *o, PyObject *name)
{
    char names[512];

    refuse(s,
           "the model has no input %R; its inputs are %s (one for which the model has a value of "
           "its own is a constant, unless it is compiled with given=%R)",
           name, input_list(o, names, sizeof names), name);
    return false;
}

static bool
take_inputs(State *s, SessionObject *o, PyObject *args, PyObject *kwargs)
{
    Py_ssize_t given = PyTuple_Size(args), named = kwargs ? PyDict_Size(kwargs) : 0, at = 0;
    PyObject *key, *value;
    char names[512];

    if (given + named != o->nin) {
        while (named && PyDict_Next(kwargs, &at, &key, &value))
            if (!PyDict_GetItemWithError(o->place, key))
                return !PyErr_Occurred() && refuse_name(s, o, key);
        return refuse(s, "%zd inputs were given, the model has %d: %s", given + named, o->nin,
                      input_list(o, names, sizeof names)),
               false;
    }
    for (int32_t i = 0; i < given; i++)
        if (!borrow_input(s, o, i, PyTuple_GetItem(args, i)))
            return false;
    while (named && PyDict_Next(kwargs, &at, &key, &value)) {
        PyObject *place = PyDict_GetItemWithError(o->place, key);
        if (!place)
            return !PyErr_Occurred() && refuse_name(s, o, key);
        int32_t i = (int32_t)PyLong_AsLong(place);
        if (i < given)
            return refuse(s, "input %R was given twice, by position and by name", key), false;
        if (!borrow_input(s, o, i, value))
            return false;
    }
    return true;
}

/* The caller's array for output i: of the model's type and of just its size. */
static PyObject *
use_output(State *s, SessionObject *o, int32_t i, PyObject *x)
{
    Borrowed *b = &o->borrowed[o->nin + i];
    TnTensor *want = &o->out[i];

    if (!borrow(s, x, &o->out_info[i], true, b))
        return NULL;
    bool same = !strcmp(b->tensor.dtype, want->dtype) && b->tensor.rank == want->rank;
    for (int32_t d = 0; same && d < want->rank; d++)
        same = b->tensor.dims[d] == want->dims[d];
    if (!same) {
        PyObject *is = shape_tuple(&b->tensor), *wanted = shape_tuple(want);
        if (is && wanted)
            refuse(s, "out: output %s is %s%R, the array given is %s%R", want->name, want->dtype,
                   wanted, b->tensor.dtype, is);
        Py_XDECREF(is);
        Py_XDECREF(wanted);
        return NULL;
    }
    want->data = b->tensor.data;
    want->bytes = b->tensor.bytes;
    Py_INCREF(x);
    return x;
}

/* What the output's sizes are before the run, which tells those that data decide; false: there is
 * no number that they are below. */
static bool
remember_sizes(SessionObject *o, int32_t i)
{
    const TnTensor *t = &o->out[i];
    bool known = true;

    for (int32_t d = 0; d < t->rank; d++) {
        o->borrowed[o->nin + i].dims[d] = t->dims[d];
        known = known && t->dims[d] >= 0;
    }
    return known;
}

/* Memory is the session's own. */
static PyObject *
no_array(TnTensor *t)
{
    t->data = NULL;
    t->bytes = 0;
    Py_INCREF(Py_None);
    return Py_None;
}

static bool
has_other_sizes(const SessionObject *o, int32_t i)
{
    const TnTensor *t = &o->out[i];
    bool same = true;

    for (int32_t d = 0; d < t->rank; d++)
        same = same && t->dims[d] == o->borrowed[o->nin + i].dims[d];
    return !same;
}

/* In place of the array that was made for the most that there can be: one of just the size. */
static PyObject *
array_of_size(State *s, const TnTensor *t)
{
    TnTensor made = *t;
    PyObject *array = new_array(s, &made);

    if (array && t->bytes)
        memcpy(made.data, t->data, (size_t)t->bytes);
    return array;
}

static PyObject *
make_outputs(State *s, SessionObject *o, PyObject *out)
{
    PyObject *all = PyTuple_New(o->nout);

    if (out && PyTuple_Size(out) != o->nout) {
        Py_XDECREF(all);
        return refuse(s, "out: %zd arrays were given, the model has %d outputs", PyTuple_Size(out),
                      o->nout);
    }
    for (int32_t i = 0; i < o->nout && all; i++) {
        PyObject *given = out ? PyTuple_GetItem(out, i) : NULL;
        PyObject *one = given && given != Py_None ? use_output(s, o, i, given) : NULL;
        bool known = remember_sizes(o, i);
        if (!given || given == Py_None)
            one = known ? new_array(s, &o->out[i]) : no_array(&o->out[i]);
        if (!one)
            Py_CLEAR(all);
        else
            PyTuple_SetItem(all, i, one);
    }
    return all;
}

static PyObject *
show_outputs(State *s, SessionObject *o, PyObject *all, PyObject *out)
{
    for (int32_t i = 0; i < o->nout && all; i++) {
        bool given = out && PyTuple_GetItem(out, i) != Py_None;
        if (has_other_sizes(o, i)) {
            PyObject *one = given ? written_part(s, PyTuple_GetItem(all, i), &o->out[i])
                                  : array_of_size(s, &o->out[i]);
            if (!one || PyTuple_SetItem(all, i, one)) {
                Py_CLEAR(all);
                break;
            }
        }
        if (given || !is_shown_otherwise(o->out[i].dtype))
            continue;
        PyObject *one = PyTuple_GetItem(all, i);
        Py_INCREF(one);
        one = shown_array(s, one, &o->out[i]);
        if (!one || PyTuple_SetItem(all, i, one))
            Py_CLEAR(all);
    }
    return all;
}

static PyObject *
compute(State *s, SessionObject *o, PyObject *args, PyObject *kwargs, PyObject *out)
{
    TnStatus status;

    if (!take_inputs(s, o, args, kwargs))
        return NULL;
    status = tn_prepare(o->session, o->in, o->nin, o->out, o->nout);
    if (status != TN_OK)
        return raise(s, status, o->ctx);
    PyObject *all = make_outputs(s, o, out);
    if (!all)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = tn_run(o->session, o->in, o->nin, o->out, o->nout);
    Py_END_ALLOW_THREADS
    if (status != TN_OK) {
        Py_DECREF(all);
        return raise(s, status, o->ctx);
    }
    return show_outputs(s, o, all, out);
}

static void
let_go(SessionObject *o)
{
    for (int32_t i = 0; i < o->nin + o->nout; i++)
        release(&o->borrowed[i]);
    unlock(o);
}

/* session(x, …): one output as it is, several as a tuple. */
static PyObject *
session_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    SessionObject *o = (SessionObject *)self;

    if (!lock(o))
        return NULL;
    PyObject *all = compute(o->state, o, args, kwargs, NULL);
    let_go(o);
    if (!all || o->nout != 1)
        return all;
    PyObject *one = PyTuple_GetItem(all, 0);
    Py_INCREF(one);
    Py_DECREF(all);
    return one;
}

/* _run(args, kwargs, out): every output, in a tuple. */
static PyObject *
session_run(PyObject *self, PyObject *call)
{
    SessionObject *o = (SessionObject *)self;
    PyObject *args, *kwargs, *out;

    if (!PyArg_ParseTuple(call, "O!O!O", &PyTuple_Type, &args, &PyDict_Type, &kwargs, &out))
        return NULL;
    if (!lock(o))
        return NULL;
    PyObject *all = compute(o->state, o, args, kwargs, out == Py_None ? NULL : out);
    let_go(o);
    return all;
}

/* One of many requests, while it is held: what a session has of one run. */
typedef struct {
    Borrowed *borrowed;
    TnTensor *in, *out;
    PyObject *all;   /* its outputs */
    PyObject *error; /* why it cannot run; NULL: it can */
} Held;

static void
swap_held(SessionObject *o, Held *h)
{
    const Held was = { o->borrowed, o->in, o->out, h->all, h->error };

    o->borrowed = h->borrowed;
    o->in = h->in;
    o->out = h->out;
    *h = was;
}

/* Of n requests, in one block of memory; NULL: there is none. */
static Held *
new_held(const SessionObject *o, Py_ssize_t n, TnRequest **request)
{
    size_t nvalue = (size_t)(o->nin + o->nout), count = (size_t)n + 1;
    Held *held = calloc(count, sizeof *held + sizeof **request +
                                   nvalue * (sizeof(Borrowed) + sizeof(TnTensor)));

    if (!held)
        return NULL;
    *request = (TnRequest *)(held + count);
    Borrowed *borrowed = (Borrowed *)(*request + count);
    TnTensor *tensor = (TnTensor *)(borrowed + count * nvalue);
    for (size_t i = 0; i < (size_t)n; i++, borrowed += nvalue, tensor += nvalue) {
        held[i] = (Held){ borrowed, tensor, tensor + o->nin, NULL, NULL };
        for (size_t k = 0; k < nvalue; k++)
            tensor[k].size = sizeof *tensor;
    }
    return held;
}

/* The exception that is set, as an object. */
static PyObject *
taken_error(void)
{
    PyObject *type, *value, *trace;

    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
    return value;
}

/* Inputs taken and outputs made of a request, (args, kwargs) or what kept it from being that. */
static bool
hold(State *s, SessionObject *o, PyObject *request, Held *h)
{
    PyObject *args, *kwargs;

    if (PyExceptionInstance_Check(request)) {
        Py_INCREF(request);
        h->error = request;
        return false;
    }
    bool ok = PyArg_ParseTuple(request, "O!O!", &PyTuple_Type, &args, &PyDict_Type, &kwargs);
    swap_held(o, h);
    if (ok && (ok = take_inputs(s, o, args, kwargs))) {
        TnStatus status = tn_prepare(o->session, o->in, o->nin, o->out, o->nout);
        h->all = status == TN_OK ? make_outputs(s, o, NULL) : raise(s, status, o->ctx);
        ok = h->all != NULL;
    }
    swap_held(o, h);
    if (!ok)
        h->error = taken_error();
    return ok;
}

static void
drop_held(SessionObject *o, Held *h)
{
    for (int32_t i = 0; i < o->nin + o->nout; i++)
        release(&h->borrowed[i]);
    Py_XDECREF(h->all);
    Py_XDECREF(h->error);
}

/* What each request gave: a tuple of outputs, or the exception that it met. */
static PyObject *
many_results(State *s, SessionObject *o, Held *held, const TnRequest *request, Py_ssize_t n)
{
    PyObject *list = PyList_New(n);

    for (Py_ssize_t i = 0, at = 0; i < n && list; i++) {
        PyObject *one = held[i].error;
        held[i].error = NULL;
        if (!one) {
            const TnRequest *r = &request[at++];
            swap_held(o, &held[i]);
            one = r->status == TN_OK ? show_outputs(s, o, held[i].all, NULL) : NULL;
            swap_held(o, &held[i]);
            if (r->status == TN_OK)
                held[i].all = NULL; /* given, or dropped where it could not be shown */
            else
                PyErr_SetString(s->error[r->status], r->error);
            one = one ? one : taken_error();
        }
        if (PyList_SetItem(list, i, one))
            Py_CLEAR(list);
    }
    return list;
}

/* _run_many([(args, kwargs) or an exception, …]): of each request its outputs in a tuple, or the
 * exception that it met. */
static PyObject *
session_run_many(PyObject *self, PyObject *requests)
{
    SessionObject *o = (SessionObject *)self;
    Py_ssize_t n = PyList_Size(requests), ready = 0;
    TnRequest *request;

    if (n < 0)
        return NULL;
    Held *held = new_held(o, n, &request);
    if (!held)
        return PyErr_NoMemory();
    if (!lock(o))
        return free(held), NULL;
    for (Py_ssize_t i = 0; i < n; i++)
        if (hold(o->state, o, PyList_GetItem(requests, i), &held[i]))
            request[ready++] = (TnRequest){ sizeof *request, held[i].in, held[i].out, o->nin,
                                            o->nout,         TN_OK,      NULL };
    Py_BEGIN_ALLOW_THREADS
    tn_run_many(o->session, request, (int32_t)ready);
    Py_END_ALLOW_THREADS
    PyObject *list = many_results(o->state, o, held, request, n);
    for (Py_ssize_t i = 0; i < n; i++)
        drop_held(o, &held[i]);
    unlock(o);
    free(held);
    return list;
}

/* blocks: ((name, nodes, host, asked, ran), …) */
static PyObject *
session_blocks(PyObject *self, void *closure)
{
    SessionObject *o = (SessionObject *)self;
    int32_t n = tn_model_blocks(((ModelObject *)o->owner)->model);
    PyObject *all = PyTuple_New(n);

    (void)closure;
    if (!lock(o)) /* the context of a session is that of one thread */
        return Py_XDECREF(all), NULL;
    for (int32_t i = 0; i < n && all; i++) {
        TnBlockUse use = TN_INIT(TnBlockUse);
        TnStatus status = tn_session_block(o->session, i, &use);
        PyObject *one = status == TN_OK ? Py_BuildValue("siiLL", use.name, use.nodes, use.host,
                                                        (long long)use.asked, (long long)use.ran)
                                        : raise(o->state, status, o->ctx);
        if (!one || PyTuple_SetItem(all, i, one))
            Py_CLEAR(all);
    }
    unlock(o);
    return all;
}

/* _order(policy): in which order blocks run. */
static PyObject *
session_order(PyObject *self, PyObject *policy)
{
    SessionObject *o = (SessionObject *)self;
    const char *text = policy == Py_None ? NULL : PyUnicode_AsUTF8AndSize(policy, NULL);

    if (!text && policy != Py_None)
        return NULL;
    return LOCKED(o, tn_session_policy(o->session, text));
}

static PyObject *
session_record(PyObject *self, PyObject *unused)
{
    SessionObject *o = (SessionObject *)self;

    (void)unused;
    return LOCKED(o, tn_session_record(o->session));
}

/* _learn(seed): (nodes, bound, depth, agenda, greedy, fsm, states, episodes, table, best) */
static PyObject *
session_learn(PyObject *self, PyObject *seed)
{
    SessionObject *o = (SessionObject *)self;
    unsigned long long number = PyLong_AsUnsignedLongLong(seed);
    TnLearnt l = TN_INIT(TnLearnt);
    TnStatus status;

    if (PyErr_Occurred())
        return NULL;
    if (!lock(o))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = tn_session_learn(o->session, number, &l);
    Py_END_ALLOW_THREADS
    PyObject *all =
        status != TN_OK
            ? raise(o->state, status, o->ctx)
            : Py_BuildValue("LLLLLLiiss", (long long)l.nodes, (long long)l.bound,
                            (long long)l.depth, (long long)l.agenda, (long long)l.greedy,
                            (long long)l.fsm, l.states, l.episodes, l.table, l.best);
    unlock(o);
    return all;
}

/* _sizes(args, kwargs): ((dtype, shape), …) of the outputs for these inputs, nothing run. */
static PyObject *
session_sizes(PyObject *self, PyObject *call)
{
    SessionObject *o = (SessionObject *)self;
    State *s = o->state;
    PyObject *args, *kwargs, *all = NULL;

    if (!PyArg_ParseTuple(call, "O!O!", &PyTuple_Type, &args, &PyDict_Type, &kwargs))
        return NULL;
    if (!lock(o))
        return NULL;
    if (take_inputs(s, o, args, kwargs)) {
        TnStatus status = tn_prepare(o->session, o->in, o->nin, o->out, o->nout);
        all = status == TN_OK ? PyTuple_New(o->nout) : raise(s, status, o->ctx);
        for (int32_t i = 0; i < o->nout && all; i++) {
            PyObject *one = Py_BuildValue("(sN)", o->out[i].dtype, shape_tuple(&o->out[i]));
            if (!one)
                Py_CLEAR(all);
            else
                PyTuple_SetItem(all, i, one);
        }
    }
    let_go(o);
    return all;
}

static PyObject *
session_threads(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromLong(tn_session_threads(((SessionObject *)self)->session));
}

static PyObject *
session_arena(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromLongLong(tn_session_arena_bytes(((SessionObject *)self)->session));
}

static PyObject *
session_state_length(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromLongLong(tn_session_state_length(((SessionObject *)self)->session));
}

static PyObject *
session_drop(PyObject *self, PyObject *rows)
{
    SessionObject *o = (SessionObject *)self;
    long long n = PyLong_AsLongLong(rows);

    if (n == -1 && PyErr_Occurred())
        return NULL;
    return LOCKED(o, tn_session_state_drop(o->session, n));
}

static PyObject *
session_reset(PyObject *self, PyObject *unused)
{
    SessionObject *o = (SessionObject *)self;

    (void)unused;
    return LOCKED(o, tn_session_state_reset(o->session));
}

/* _fork(other): neither runs meanwhile. Two locks are always taken in one order. */
static PyObject *
session_fork(PyObject *self, PyObject *other)
{
    SessionObject *to = (SessionObject *)self, *from = (SessionObject *)other;

    if (!PyObject_TypeCheck(other, (PyTypeObject *)to->state->session_type)) {
        PyErr_SetString(PyExc_TypeError,
                        "a session can be forked into another session, and into nothing else");
        return NULL;
    }
    if (to == from)
        Py_RETURN_NONE;
    SessionObject *first = to < from ? to : from, *second = to < from ? from : to;
    if (!lock(first))
        return NULL;
    if (!lock(second))
        return unlock(first), NULL;
    PyObject *result = unlock_with(to, tn_session_state_fork(to->session, from->session));
    unlock(from);
    return result;
}

/* _arrange(dim, of, length, rows): `of` and `rows`, or None, are contiguous 64-bit integers. */
static PyObject *
session_arrange(PyObject *self, PyObject *args)
{
    SessionObject *o = (SessionObject *)self;
    const char *dim;
    long long length;
    Py_buffer of, from = { 0 };
    PyObject *rows, *result = NULL;

    if (!PyArg_ParseTuple(args, "sy*LO", &dim, &of, &length, &rows))
        return NULL;
    TnArrangement a = { .size = sizeof a,
                        .dim = dim,
                        .sequences = of.len / (Py_ssize_t)sizeof(int64_t),
                        .of = of.buf,
                        .length = length };
    if (rows == Py_None || !PyObject_GetBuffer(rows, &from, PyBUF_SIMPLE)) {
        a.from = rows == Py_None ? NULL : from.buf;
        if (a.from &&
            (length < 0 ||
             (a.sequences && length != from.len / (Py_ssize_t)sizeof(int64_t) / a.sequences))) {
            PyErr_SetString(PyExc_ValueError,
                            "rows: as many of each sequence as `length` says are possible");
        } else {
            result = LOCKED(o, tn_session_state_arrange(o->session, &a));
        }
    }
    if (from.obj)
        PyBuffer_Release(&from);
    PyBuffer_Release(&of);
    return result;
}

static PyMethodDef session_methods[] = {
    { "_arrange", session_arrange, METH_VARARGS,
      "_arrange(dim, of, length, rows): the states' sequences and rows in another order" },
    { "_fork", session_fork, METH_O, "_fork(other): the states hold what those of the other hold" },
    { "drop", session_drop, METH_O, "drop(n): the states that grow lose their last n rows" },
    { "reset", session_reset, METH_NOARGS, "reset(): the states are empty again" },
    { "_order", session_order, METH_O, "_order(policy): in which order blocks run" },
    { "_record", session_record, METH_NOARGS, "_record(): what requests ask for, from now on" },
    { "_learn", session_learn, METH_O, "_learn(seed): a table of what was recorded" },
    { "_run_many", session_run_many, METH_O,
      "_run_many([(args, kwargs), ...]): of each its outputs in a tuple, or the exception that it "
      "met" },
    { "_run", session_run, METH_VARARGS, "_run(args, kwargs, out): every output, in a tuple" },
    { "_sizes", session_sizes, METH_VARARGS,
      "_sizes(args, kwargs): ((dtype, shape), ...) of the outputs; nothing runs" },
    { 0 }
};
static PyGetSetDef session_fields[] = {
    { "threads", session_threads, NULL, "threads that a run uses", NULL },
    { "state_length", session_state_length, NULL, "rows in the states: tokens of a decoder's cache",
      NULL },
    { "_blocks", session_blocks, NULL,
      "((name, nodes, host, asked, ran), ...) of what requests run together", NULL },
    { "arena_bytes", session_arena, NULL, "memory between kernels, of the last run's sizes", NULL },
    { 0 }
};
static PyType_Slot session_slots[] = {
    { Py_tp_doc, "Session(model, threads=0): a model with its memory and its threads." },
    { Py_tp_new, session_new },
    { Py_tp_dealloc, session_dealloc },
    { Py_tp_call, session_call },
    { Py_tp_methods, session_methods },
    { Py_tp_getset, session_fields },
    { 0, NULL }
};
static PyType_Spec session_spec = {
    "tenon._native.Session", sizeof(SessionObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    session_slots,
};

/* ---- what Python's Model is made from -------------------------------------------------------- */

/* It calls the session that its `session()` makes when it is first wanted. Calling goes straight to
 * it: through a method written in Python it would cost as much as everything else. */
typedef struct {
    PyObject_HEAD
    PyObject *session;
} CallerObject;

static PyObject *
caller_session(PyObject *self, void *unused)
{
    CallerObject *c = (CallerObject *)self;

    (void)unused;
    if (!c->session) {
        PyObject *made = PyObject_CallMethod(self, "session", NULL);
        if (!made || c->session) /* another thread was first */
            Py_XDECREF(made);
        else
            c->session = made;
        if (!c->session)
            return NULL;
    }
    Py_INCREF(c->session);
    return c->session;
}

static PyObject *
caller_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    PyObject *session = caller_session(self, NULL);
    PyObject *out = session ? PyObject_Call(session, args, kwargs) : NULL;

    Py_XDECREF(session);
    return out;
}

/* Its session holds the Model that it is: only the garbage collector ends the two. */
static int
caller_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((CallerObject *)self)->session);
    return 0;
}

static int
caller_clear(PyObject *self)
{
    Py_CLEAR(((CallerObject *)self)->session);
    return 0;
}

static void
caller_dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    caller_clear(self);
    free_object(self);
}

static PyGetSetDef caller_fields[] = {
    { "_session", caller_session, NULL, "the session that calls go to", NULL }, { 0 }
};
static PyType_Slot caller_slots[] = { { Py_tp_doc,
                                        "What is called as the session that its session() makes." },
                                      { Py_tp_dealloc, caller_dealloc },
                                      { Py_tp_traverse, caller_traverse },
                                      { Py_tp_clear, caller_clear },
                                      { Py_tp_call, caller_call },
                                      { Py_tp_getset, caller_fields },
                                      { 0, NULL } };
static PyType_Spec caller_spec = {
    "tenon._native.Caller",
    sizeof(CallerObject),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    caller_slots,
};

bool
add_model_types(PyObject *module, State *s)
{
    s->model_type = PyType_FromModuleAndSpec(module, &model_spec, NULL);
    s->session_type = s->model_type ? PyType_FromModuleAndSpec(module, &session_spec, NULL) : NULL;
    PyObject *caller =
        s->session_type ? PyType_FromModuleAndSpec(module, &caller_spec, NULL) : NULL;
    return caller && !PyModule_AddObject(module, "Caller", caller) &&
           !PyModule_AddObjectRef(module, "Model", s->model_type) &&
           !PyModule_AddObjectRef(module, "Session", s->session_type);
}
