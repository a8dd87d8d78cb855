/* tensor: Python's arrays as tensors.
 *
 * Four roads, the fastest first: the fields of NumPy's arrays, the buffer protocol (memoryview,
 * array), DLPack (PyTorch, JAX and others), and NumPy's asarray for everything else: lists,
 * numbers, arrays with gaps.
 *
 * Strings have a road of their own: Tenon's are addresses of characters, which Python's have as
 * well.
 *
 * What NumPy has no type for, ml_dtypes has: bf16, floats of 8 bits and fewer, integers of 4 and 2.
 * Arrays of its types go in and come out as they lie, but for integers below 0, which ml_dtypes
 * holds in the low bits alone. That package is optional: bytes are taken too, and come out where
 * it is not installed.
 */
#include "native.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "dlpack/dlpack.h"

/* kind: f, b (bfloat), i, u, ?; 0: none that NumPy's buffers know. ml: its name in ml_dtypes, and
 * numpy what it is in memory. */
typedef struct {
    const char *name, *numpy;
    uint8_t bytes;
    char kind;
    const char *ml;
} Element;
static const Element element[T_COUNT] = {
    [T_F32] = { "f32", "float32", 4, 'f' },
    [T_F64] = { "f64", "float64", 8, 'f' },
    [T_F16] = { "f16", "float16", 2, 'f' },
    [T_BF16] = { "bf16", "uint16", 2, 'b', "bfloat16" },
    [T_I8] = { "i8", "int8", 1, 'i' },
    [T_I16] = { "i16", "int16", 2, 'i' },
    [T_I32] = { "i32", "int32", 4, 'i' },
    [T_I64] = { "i64", "int64", 8, 'i' },
    [T_U8] = { "u8", "uint8", 1, 'u' },
    [T_U16] = { "u16", "uint16", 2, 'u' },
    [T_U32] = { "u32", "uint32", 4, 'u' },
    [T_U64] = { "u64", "uint64", 8, 'u' },
    [T_BOOL] = { "bool", "bool", 1, '?' },
    [T_F8E4M3FN] = { "f8e4m3fn", "uint8", 1, 0, "float8_e4m3fn" },
    [T_F8E4M3FNUZ] = { "f8e4m3fnuz", "uint8", 1, 0, "float8_e4m3fnuz" },
    [T_F8E5M2] = { "f8e5m2", "uint8", 1, 0, "float8_e5m2" },
    [T_F8E5M2FNUZ] = { "f8e5m2fnuz", "uint8", 1, 0, "float8_e5m2fnuz" },
    [T_F8E8M0] = { "f8e8m0", "uint8", 1, 0, "float8_e8m0fnu" },
    [T_F6E2M3] = { "f6e2m3", "uint8", 1, 0, "float6_e2m3fn" },
    [T_F6E3M2] = { "f6e3m2", "uint8", 1, 0, "float6_e3m2fn" },
    [T_F4E2M1] = { "f4e2m1", "uint8", 1, 0, "float4_e2m1fn" },
    [T_I4] = { "i4", "int8", 1, 0, "int4" },
    [T_I2] = { "i2", "int8", 1, 0, "int2" },
    [T_U4] = { "u4", "uint8", 1, 0, "uint4" },
    [T_U2] = { "u2", "uint8", 1, 0, "uint2" },
};

static int
find_element(char kind, size_t bytes)
{
    for (int t = 0; t < T_COUNT; t++)
        if (element[t].kind == kind && element[t].bytes == bytes)
            return t;
    return -1;
}

static int
find_name(const char *name)
{
    for (int t = 0; t < T_COUNT; t++)
        if (!strcmp(element[t].name, name))
            return t;
    return -1;
}

/* ---- NumPy, when first needed ---------------------------------------------------------------- */

/* What stands at the beginning of every array, in all versions of NumPy's binary interface since
 * 1.7. */
typedef struct {
    PyObject_HEAD
    char *data;
    int nd;
    Py_ssize_t *dims, *strides;
    PyObject *base, *dtype;
    int flags;
} Array;
enum {
    ARRAY_CONTIGUOUS = 1,
    ARRAY_ALIGNED = 0x100,
    ARRAY_WRITEABLE = 0x400,
    ARRAY_GOOD = ARRAY_CONTIGUOUS | ARRAY_ALIGNED | ARRAY_WRITEABLE
};

static bool
has_layout(const State *s, PyObject *array, const Py_buffer *view, int flags)
{
    const Array *a = (const Array *)array;

    return a->data == view->buf && a->nd == 2 && a->dims[0] == view->shape[0] &&
           a->dims[1] == view->shape[1] && a->strides[0] == view->strides[0] &&
           a->strides[1] == view->strides[1] && a->dtype == s->dtype[T_F32] &&
           (a->flags & ARRAY_GOOD) == flags;
}

/* Do arrays have the layout of Array? Tried on one with rows and columns, and turned over; the
 * buffer protocol knows. */
static void
try_layout(State *s)
{
    PyObject *array = PyObject_CallFunction(s->empty, "((ii)O)", 2, 3, s->dtype[T_F32]),
             *turned = array ? PyObject_GetAttrString(array, "T") : NULL;
    Py_buffer a, t;
    bool same = false;

    if (turned && sizeof(Py_ssize_t) == sizeof(int64_t) &&
        !PyObject_GetBuffer(array, &a, PyBUF_STRIDES)) {
        if (!PyObject_GetBuffer(turned, &t, PyBUF_STRIDES)) {
            same = has_layout(s, array, &a, ARRAY_GOOD) &&
                   has_layout(s, turned, &t, ARRAY_GOOD & ~ARRAY_CONTIGUOUS);
            PyBuffer_Release(&t);
        }
        PyBuffer_Release(&a);
    }
    if (same) {
        s->array_type = (PyObject *)Py_TYPE(array);
        Py_INCREF(s->array_type);
    }
    PyErr_Clear();
    Py_XDECREF(turned);
    Py_XDECREF(array);
}

static bool
need_numpy(State *s)
{
    if (s->asarray)
        return true;
    PyObject *numpy = PyImport_ImportModule("numpy");
    if (!numpy)
        return false;
    bool ok = true;
    for (int t = 0; t < T_COUNT && ok; t++) {
        if (!s->dtype[t])
            s->dtype[t] = PyObject_CallMethod(numpy, "dtype", "s", element[t].numpy);
        ok = s->dtype[t] != NULL;
    }
    if (ok && !s->empty)
        s->empty = PyObject_GetAttrString(numpy, "empty");
    if (ok)
        s->asarray = PyObject_GetAttrString(numpy, "asarray");
    Py_DECREF(numpy);
    if (s->empty && s->asarray)
        try_layout(s);
    return s->empty && s->asarray;
}

/* The dtype of ml_dtypes for a type, NULL without an exception where that is not installed or too
 * old. */
static PyObject *
ml_dtype(State *s, int type)
{
    PyObject *module = s->ml_tried || !s->asarray ? NULL : PyImport_ImportModule("ml_dtypes"),
             *numpy = module ? PyImport_ImportModule("numpy") : NULL;

    for (int t = 0; t < T_COUNT && numpy; t++) {
        PyObject *scalar = element[t].ml ? PyObject_GetAttrString(module, element[t].ml) : NULL;
        s->ml[t] = scalar ? PyObject_CallMethod(numpy, "dtype", "O", scalar) : NULL;
        Py_XDECREF(scalar);
    }
    s->ml_tried = s->ml_tried || s->asarray;
    Py_XDECREF(numpy);
    Py_XDECREF(module);
    PyErr_Clear();
    return s->ml[type];
}

/* Does ml_dtypes hold the elements otherwise than Tenon, in their low bits alone? */
static bool
lies_otherwise(int type)
{
    return type == T_I4 || type == T_I2;
}

/* ---- NumPy's arrays -------------------------------------------------------------------------- */

static void
set_tensor(Borrowed *b, int type, int rank, const int64_t *dims, void *data, int64_t bytes)
{
    b->tensor = (TnTensor){ .size = sizeof b->tensor,
                            .dtype = element[type].name,
                            .rank = rank,
                            .dims = dims,
                            .data = data,
                            .bytes = bytes };
}

/* False: another road. */
static bool
borrow_array(State *s, PyObject *x, bool writable, Borrowed *b)
{
    const Array *a = (const Array *)x;
    int need = writable ? ARRAY_GOOD : ARRAY_GOOD & ~ARRAY_WRITEABLE, type = 0;

    if ((PyObject *)Py_TYPE(x) != s->array_type || (a->flags & need) != need || a->nd > MAX_RANK)
        return false;
    while (type < T_COUNT && (element[type].ml || s->dtype[type] != a->dtype))
        type++;
    if (type == T_COUNT)
        return false;
    int64_t bytes = element[type].bytes;
    for (int d = 0; d < a->nd; d++)
        bytes *= b->dims[d] = a->dims[d];
    set_tensor(b, type, a->nd, b->dims, a->data, bytes);
    Py_INCREF(x);
    b->held = x;
    return true;
}

/* ---- the buffer protocol --------------------------------------------------------------------- */

/* The element type of a struct-module format, in this machine's byte order; -1: none of ours. */
static int
type_of_format(const char *format, Py_ssize_t bytes)
{
    if (!format)
        return T_U8;
    if (*format == '@' || *format == '=' || *format == '<')
        format++;
    if (!*format || format[1])
        return -1;
    if (strchr("fde", *format))
        return find_element('f', (size_t)bytes);
    if (strchr("bhilqn", *format))
        return find_element('i', (size_t)bytes);
    if (strchr("BHILQN", *format))
        return find_element('u', (size_t)bytes);
    return *format == '?' ? T_BOOL : -1;
}

/* 1: done, 0: another road, -1: an exception. */
static int
borrow_buffer(State *s, PyObject *x, const char *name, int type, bool writable, Borrowed *b)
{
    if (PyObject_GetBuffer(x, &b->view,
                           PyBUF_FORMAT | PyBUF_ND | (writable ? PyBUF_WRITABLE : 0))) {
        PyErr_Clear();
        b->view.obj = NULL;
        return 0;
    }
    if (type < 0)
        type = type_of_format(b->view.format, b->view.itemsize);
    if (type < 0 || b->view.ndim > MAX_RANK) {
        if (type < 0)
            refuse(s,
                   "%s: elements of type '%s' (%zd bytes each): use f16 to f64, integers of 1 to 8 "
                   "bytes or bool, in native byte order",
                   name, b->view.format, b->view.itemsize);
        else
            refuse(s, "%s: %d dimensions, at most %d can be", name, b->view.ndim, MAX_RANK);
        release(b);
        return -1;
    }
    set_tensor(b, type, b->view.ndim, (const int64_t *)b->view.shape, b->view.buf, b->view.len);
    return 1;
}

/* ---- DLPack ---------------------------------------------------------------------------------- */

static int
type_of_dlpack(DLDataType t)
{
    if (t.lanes == 1 && t.bits == 8)
        switch (t.code) {
        case kDLFloat8_e4m3fn: return T_F8E4M3FN;
        case kDLFloat8_e4m3fnuz: return T_F8E4M3FNUZ;
        case kDLFloat8_e5m2: return T_F8E5M2;
        case kDLFloat8_e5m2fnuz: return T_F8E5M2FNUZ;
        case kDLFloat8_e8m0fnu: return T_F8E8M0;
        default: break;
        }
    char kind = t.code == kDLFloat    ? 'f'
                : t.code == kDLBfloat ? 'b'
                : t.code == kDLInt    ? 'i'
                : t.code == kDLUInt   ? 'u'
                : t.code == kDLBool   ? '?'
                                      : 0;

    return kind && t.lanes == 1 && t.bits % 8 == 0 ? find_element(kind, t.bits / 8) : -1;
}

/* Row-major without gaps? Strides of axes of one element, and of empty arrays, do not count. */
static bool
is_compact(const DLTensor *t)
{
    int64_t step = 1;

    if (!t->strides)
        return true;
    for (int d = t->ndim; d-- > 0; step *= t->shape[d]) {
        if (t->shape[d] == 0)
            return true;
        if (t->shape[d] != 1 && t->strides[d] != step)
            return false;
    }
    return true;
}

static void
drop_capsule(PyObject *capsule)
{
    if (!PyCapsule_IsValid(capsule, "used_dltensor"))
        return;
    DLManagedTensor *m = PyCapsule_GetPointer(capsule, "used_dltensor");
    if (m && m->deleter)
        m->deleter(m);
}

static int
borrow_capsule(State *s, const char *name, Borrowed *b)
{
    if (!PyCapsule_IsValid(b->held, "dltensor")) {
        refuse(s, "%s: __dlpack__ gave no capsule called \"dltensor\"", name);
        return -1;
    }
    DLManagedTensor *m = PyCapsule_GetPointer(b->held, "dltensor");
    const DLTensor *t = &m->dl_tensor;
    int type = type_of_dlpack(t->dtype);
    if (t->device.device_type != kDLCPU && t->device.device_type != kDLCUDAHost) {
        refuse(s, "%s: it lies on another device (DLPack type %d): move it to the CPU first", name,
               (int)t->device.device_type);
        return -1;
    }
    if (type < 0 || t->ndim > MAX_RANK) {
        refuse(s,
               "%s: DLPack elements of code %d with %d bits in %d dimensions are none of Tenon's",
               name, t->dtype.code, t->dtype.bits, t->ndim);
        return -1;
    }
    if (!is_compact(t))
        return 0;
    int64_t bytes = element[type].bytes;
    for (int d = 0; d < t->ndim; d++) {
        b->dims[d] = t->shape[d];
        bytes *= t->shape[d];
    }
    PyCapsule_SetName(b->held, "used_dltensor"); /* it is ours to delete now */
    PyCapsule_SetDestructor(b->held, drop_capsule);
    set_tensor(b, type, t->ndim, b->dims, (char *)t->data + t->byte_offset, bytes);
    return 1;
}

static int
borrow_dlpack(State *s, PyObject *x, const char *name, Borrowed *b)
{
    b->held = PyObject_CallMethod(x, "__dlpack__", NULL);
    if (!b->held)
        return -1;
    int done = borrow_capsule(s, name, b);
    if (done < 1)
        Py_CLEAR(b->held);
    return done;
}

/* ---- everything else ------------------------------------------------------------------------- */

static bool
is_plain(PyObject *x)
{
    return PyList_Check(x) || PyTuple_Check(x) || PyLong_Check(x) || PyFloat_Check(x);
}

/* The type that an array of ml_dtypes has, which the buffer protocol has no letters for; -1:
 * another array. */
static int
type_of_ml(PyObject *array)
{
    PyObject *dtype = PyObject_GetAttrString(array, "dtype"),
             *name = dtype ? PyObject_GetAttrString(dtype, "name") : NULL;
    PyObject *native = dtype ? PyObject_GetAttrString(dtype, "isnative") : NULL;
    int type = -1;

    for (int t = 0; t < T_COUNT && name && native == Py_True && PyUnicode_Check(name); t++)
        if (element[t].ml && PyUnicode_CompareWithASCIIString(name, element[t].ml) == 0)
            type = t;
    PyErr_Clear();
    Py_XDECREF(native);
    Py_XDECREF(dtype);
    Py_XDECREF(name);
    return type;
}

/* An array of ml_dtypes as what it is in memory, or as the numbers that Tenon has there. Takes the
 * reference. */
static PyObject *
plain_array(State *s, PyObject *array, int type)
{
    PyObject *plain =
        PyObject_CallMethod(array, lies_otherwise(type) ? "astype" : "view", "O", s->dtype[type]);

    Py_DECREF(array);
    return plain;
}

/* Is x a number that NumPy takes as it is, without asking whether the type holds it? */
static bool
fits(PyObject *x, int want)
{
    int overflow = 0;

    if (want == T_I64 && PyLong_Check(x))
        return PyLong_AsLongLongAndOverflow(x, &overflow), !overflow;
    if (want == T_F64)
        return PyFloat_Check(x);
    return want == T_F32 && PyFloat_Check(x) && fabs(PyFloat_AsDouble(x)) <= FLT_MAX;
}

/* Python's numbers as an array that holds them, by tenon._numbers, which says what is refused. */
static PyObject *
checked_array(State *s, PyObject *x, PyObject *dtype, const char *name)
{
    if (!s->as_type) {
        PyObject *module = PyImport_ImportModule("tenon._numbers");
        s->as_type = module ? PyObject_GetAttrString(module, "as_type") : NULL;
        Py_XDECREF(module);
    }
    PyObject *where = s->as_type ? PyUnicode_FromFormat("input %s", name) : NULL;
    PyObject *array = where ? PyObject_CallFunction(s->as_type, "OOO", x, dtype, where) : NULL;
    Py_XDECREF(where);
    return array;
}

/* Lists and numbers get the type that the model takes, where there is one for them. */
static PyObject *
as_array(State *s, PyObject *x, int want, const char *name)
{
    PyObject *dtype =
        element[want].ml && !ml_dtype(s, want)
            ? lies_otherwise(want) || want == T_U4 || want == T_U2 ? s->dtype[want] : Py_None
        : element[want].ml ? s->ml[want]
                           : s->dtype[want];

    if (!element[want].ml && fits(x, want))
        return PyObject_CallMethod(dtype, "type", "O", x);
    if (!element[want].ml && (is_plain(x) || PyUnicode_Check(x) || x == Py_None))
        return checked_array(s, x, dtype, name);
    return PyObject_CallFunction(s->asarray, "OOs", x, is_plain(x) ? dtype : Py_None, "C");
}

static bool
borrow_converted(State *s, PyObject *x, const TnValueInfo *like, bool writable, Borrowed *b)
{
    int want = find_name(like->dtype), type = -1;

    if (!need_numpy(s))
        return false;
    if (want < 0)
        return refuse(s,
                      "input %s is %s, for which NumPy has no type here: add a Cast to the model",
                      like->name, like->dtype),
               false;
    PyObject *array = as_array(s, x, want, like->name);
    type = array ? type_of_ml(array) : -1;
    if (type >= 0 && writable && lies_otherwise(type)) {
        Py_DECREF(array);
        return refuse(s,
                      "out: output %s is %s: give an array of int8, ml_dtypes holds such numbers "
                      "otherwise",
                      like->name, like->dtype),
               false;
    }
    if (type >= 0)
        array = plain_array(s, array, type);
    if (!array)
        return false;
    if (writable) {
        PyObject *owner = PyObject_GetAttrString(array, "base");
        bool same = array == x || (owner && owner == x);
        Py_XDECREF(owner);
        if (!same) {
            Py_DECREF(array);
            refuse(s, "%s: an array to write to must be contiguous and writable", like->name);
            return false;
        }
    }
    int done = borrow_buffer(s, array, like->name, type, writable, b);
    if (done == 0 && writable)
        refuse(s, "%s: an array to write to must be contiguous and writable", like->name);
    else if (done == 0)
        refuse(s, "%s: an object of type %R cannot be read as an array", like->name,
               (PyObject *)Py_TYPE(x));
    b->held = array;
    if (done < 1)
        release(b);
    return done == 1;
}

/* Bytes for elements that NumPy has no type for: their bits, or the numbers that they are. bf16 is
 * not among these: u16 is a type of models too. */
static void
take_bytes(const TnValueInfo *like, Borrowed *b)
{
    int want = find_name(like->dtype);

    if (want >= 0 && element[want].ml && element[want].bytes == 1 &&
        !strcmp(b->tensor.dtype, lies_otherwise(want) ? "i8" : "u8"))
        b->tensor.dtype = element[want].name;
}

/* ---- strings --------------------------------------------------------------------------------- */

static bool
is_text(const char *dtype)
{
    return !strcmp(dtype, "str");
}

/* The characters of a str or of bytes, as long as the object is; NULL with an exception. */
static const char *
characters(State *s, PyObject *x, const char *name)
{
    Py_ssize_t n = 0;
    const char *text = PyUnicode_Check(x) ? PyUnicode_AsUTF8AndSize(x, &n)
                       : PyBytes_Check(x) ? PyBytes_AsString(x)
                                          : NULL;

    if (PyErr_Occurred())
        return NULL;
    if (!text)
        return refuse(s, "%s: the model takes strings, one element is of type %R", name,
                      (PyObject *)Py_TYPE(x)),
               NULL;
    n = PyBytes_Check(x) ? PyBytes_Size(x) : n;
    return strlen(text) == (size_t)n
               ? text
               : (refuse(s, "%s: a string with a zero character in it ends there for Tenon", name),
                  NULL);
}

/* Sizes of an array; its rank, or -1. */
static int
read_shape(State *s, PyObject *array, const char *name, int64_t *dims)
{
    PyObject *shape = PyObject_GetAttrString(array, "shape");
    int rank = shape ? (int)PyTuple_Size(shape) : -1;

    if (rank > MAX_RANK)
        refuse(s, "%s: %d dimensions, at most %d can be", name, rank, MAX_RANK);
    for (int d = 0; d < rank && rank <= MAX_RANK; d++)
        dims[d] = PyLong_AsLongLong(PyTuple_GetItem(shape, d));
    Py_XDECREF(shape);
    return rank <= MAX_RANK ? rank : -1;
}

/* The objects of an array of `shaped`'s sizes, in order, and beside them a bytes object that has
 * their addresses: both are held. */
static bool
borrow_addresses(State *s, PyObject *array, PyObject *shaped, const TnValueInfo *like, Borrowed *b)
{
    int rank = read_shape(s, shaped, like->name, b->dims);
    PyObject *flat = rank < 0 ? NULL : PyObject_CallMethod(array, "ravel", NULL),
             *list = flat ? PyObject_CallMethod(flat, "tolist", NULL) : NULL;
    Py_ssize_t n = list ? PyList_Size(list) : 0;
    PyObject *addresses =
        list ? PyBytes_FromStringAndSize(NULL, n * (Py_ssize_t)sizeof(char *)) : NULL;
    bool ok = addresses != NULL;

    for (Py_ssize_t i = 0; i < n && ok; i++) {
        const char *text = characters(s, PyList_GetItem(list, i), like->name);
        memcpy(PyBytes_AsString(addresses) + i * (Py_ssize_t)sizeof text, &text, sizeof text);
        ok = text != NULL;
    }
    if (ok) {
        b->tensor = (TnTensor){ .size = sizeof b->tensor,
                                .dtype = "str",
                                .rank = rank,
                                .dims = b->dims,
                                .data = PyBytes_AsString(addresses),
                                .bytes = n * (Py_ssize_t)sizeof(char *) };
        b->held = PyTuple_Pack(2, list, addresses);
    }
    Py_XDECREF(addresses);
    Py_XDECREF(list);
    Py_XDECREF(flat);
    return ok && b->held;
}

/* Neither read as characters nor cut at its zeros. */
static PyObject *
alone(State *s, PyObject *x)
{
    PyObject *array = PyObject_CallFunction(s->empty, "()s", "O"),
             *done = array ? PyObject_CallMethod(array, "fill", "O", x) : NULL;

    if (!done)
        Py_CLEAR(array);
    Py_XDECREF(done);
    return array;
}

/* Arrays of objects, of NumPy's strings, lists of strings, one string. */
static bool
borrow_text(State *s, PyObject *x, const TnValueInfo *like, bool writable, Borrowed *b)
{
    if (writable)
        return refuse(s, "out: output %s is strings, which get an array of their own", like->name),
               false;
    if (!need_numpy(s))
        return false;
    bool one = PyUnicode_Check(x) || PyBytes_Check(x);
    PyObject *array = one ? alone(s, x) : PyObject_CallFunction(s->asarray, "OOs", x, Py_None, "C");
    bool ok = array &&
              borrow_addresses(s, array, PyObject_HasAttrString(x, "shape") ? x : array, like, b);
    Py_XDECREF(array);
    return ok;
}

/* An array of str from the addresses that a run left in one of numbers, the reference of which it
 * takes. */
static PyObject *
text_array(State *s, PyObject *array, const TnTensor *t)
{
    const char *const *at = t->data;
    Py_ssize_t n = (Py_ssize_t)(t->bytes / (int64_t)sizeof *at);
    PyObject *shape = shape_tuple(t),
             *flat = shape ? PyObject_CallFunction(s->empty, "ns", n, "O") : NULL;

    for (Py_ssize_t i = 0; i < n && flat; i++) {
        PyObject *one = PyUnicode_DecodeUTF8(
            at[i] ? at[i] : "", at[i] ? (Py_ssize_t)strlen(at[i]) : 0, "surrogateescape");
        PyObject *place = one ? PyLong_FromSsize_t(i) : NULL;
        if (!place || PyObject_SetItem(flat, place, one))
            Py_CLEAR(flat);
        Py_XDECREF(place);
        Py_XDECREF(one);
    }
    PyObject *shown = flat ? PyObject_CallMethod(flat, "reshape", "(O)", shape) : NULL;
    Py_XDECREF(flat);
    Py_XDECREF(shape);
    Py_DECREF(array);
    return shown;
}

bool
borrow(State *s, PyObject *x, const TnValueInfo *like, bool writable, Borrowed *b)
{
    int done = 0;

    b->view.obj = NULL;
    b->held = NULL;
    if (is_text(like->dtype))
        return borrow_text(s, x, like, writable, b);
    if (s->array_type && borrow_array(s, x, writable, b))
        done = 1;
    else if (PyObject_CheckBuffer(x))
        done = borrow_buffer(s, x, like->name, -1, writable, b);
    else if (PyObject_HasAttrString(x, "__dlpack__"))
        done = borrow_dlpack(s, x, like->name, b);
    if (done < 0 || (done == 0 && !borrow_converted(s, x, like, writable, b)))
        return false;
    take_bytes(like, b);
    return true;
}

void
release(Borrowed *b)
{
    if (b->view.obj)
        PyBuffer_Release(&b->view);
    b->view.obj = NULL;
    Py_CLEAR(b->held);
}

/* ---- results --------------------------------------------------------------------------------- */

PyObject *
shape_tuple(const TnTensor *t)
{
    PyObject *shape = PyTuple_New(t->rank);

    for (int32_t d = 0; d < t->rank && shape; d++) {
        PyObject *n = PyLong_FromLongLong(t->dims[d]);
        if (!n)
            Py_CLEAR(shape);
        else
            PyTuple_SetItem(shape, d, n);
    }
    return shape;
}

PyObject *
new_array(State *s, TnTensor *t)
{
    /* addresses; zeros are empty strings */
    int type = is_text(t->dtype) ? T_U64 : find_name(t->dtype);
    Py_buffer view;

    if (type < 0)
        return refuse(s,
                      "output %s is %s, for which NumPy has no type here: add a Cast to the model",
                      t->name, t->dtype);
    if (!need_numpy(s))
        return NULL;
    if (type == T_BF16 && !ml_dtype(s, type))
        return refuse(s, "the model gives bf16, for which NumPy needs the package ml_dtypes: pip "
                         "install ml_dtypes, or give out=");
    PyObject *shape = shape_tuple(t);
    PyObject *array =
        shape ? PyObject_CallFunctionObjArgs(s->empty, shape, s->dtype[type], NULL) : NULL;
    Py_XDECREF(shape);
    if (array && (PyObject *)Py_TYPE(array) == s->array_type) {
        t->data = ((Array *)array)->data;
        t->bytes = element[type].bytes;
        for (int32_t d = 0; d < t->rank; d++)
            t->bytes *= t->dims[d];
        return array;
    }
    if (!array || PyObject_GetBuffer(array, &view, PyBUF_WRITABLE)) {
        Py_XDECREF(array);
        return NULL;
    }
    t->data = view.buf;
    t->bytes = view.len;
    PyBuffer_Release(&view); /* the array keeps its memory, and has no reference yet */
    return array;
}

bool
is_shown_otherwise(const char *dtype)
{
    int type = find_name(dtype);

    return is_text(dtype) || (type >= 0 && element[type].ml);
}

PyObject *
shown_array(State *s, PyObject *array, const TnTensor *t)
{
    int type = find_name(t->dtype);

    if (is_text(t->dtype))
        return text_array(s, array, t);
    if (type < 0 || !element[type].ml || !ml_dtype(s, type))
        return array;
    PyObject *shown =
        PyObject_CallMethod(array, lies_otherwise(type) ? "astype" : "view", "O", s->ml[type]);
    Py_DECREF(array);
    return shown;
}

PyObject *
written_part(State *s, PyObject *array, const TnTensor *t)
{
    Py_ssize_t n = 1;

    for (int32_t d = 0; d < t->rank; d++)
        n *= (Py_ssize_t)t->dims[d];
    PyObject *shape = shape_tuple(t),
             *whole = need_numpy(s) ? PyObject_CallFunctionObjArgs(s->asarray, array, NULL) : NULL,
             *flat = whole ? PyObject_CallMethod(whole, "reshape", "i", -1) : NULL,
             *part = flat ? PySequence_GetSlice(flat, 0, n) : NULL,
             *shown = part && shape ? PyObject_CallMethod(part, "reshape", "(O)", shape) : NULL;

    Py_XDECREF(part);
    Py_XDECREF(flat);
    Py_XDECREF(whole);
    Py_XDECREF(shape);
    return shown;
}
