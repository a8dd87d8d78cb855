/* native: the extension module under the Python package, a thin binding over include/tenon.h.
 *
 * native.c has the module, its exceptions and the compiler; model.c loaded models and sessions;
 * tensor.c what goes in and comes out: NumPy arrays and DLPack capsules, never copied where they
 * are contiguous. The stable ABI alone is used, so one build serves every Python from 3.11 on.
 *
 * NumPy is imported when the first array is made, and found through Python calls: importing the
 * package stays cheap. Where its arrays lie in memory as they have since NumPy 1.7, which is tried
 * on one (tensor.c), their fields are read at once: that takes a tenth of the time of the buffer
 * protocol.
 */
#ifndef TENON_NATIVE_H
#define TENON_NATIVE_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdbool.h>

#include "tenon.h"

enum { MAX_RANK = 12, NSTATUS = 8 };

typedef enum {
    T_F32,
    T_F64,
    T_F16,
    T_BF16,
    T_I8,
    T_I16,
    T_I32,
    T_I64,
    T_U8,
    T_U16,
    T_U32,
    T_U64,
    T_BOOL,
    T_F8E4M3FN,
    T_F8E4M3FNUZ,
    T_F8E5M2,
    T_F8E5M2FNUZ,
    T_F8E8M0,
    T_F6E2M3,
    T_F6E3M2,
    T_F4E2M1,
    T_I4,
    T_I2,
    T_U4,
    T_U2,
    T_COUNT
} ElementType;

typedef struct {
    PyObject *error[NSTATUS]; /* by TnStatus; [TN_OK]: the base of all */
    PyObject *model_type, *session_type;
    PyObject *empty, *asarray; /* NumPy's; NULL until first needed */
    PyObject *as_type;         /* tenon._numbers'; NULL until first needed */
    PyObject *array_type;      /* NumPy's, if arrays have the known layout; else NULL */
    /* its dtypes; of what only ml_dtypes has, that of the numbers or bits in memory */
    PyObject *dtype[T_COUNT];
    PyObject *ml[T_COUNT]; /* dtypes of ml_dtypes, or NULL */
    bool ml_tried;
} State;

/* ---- native.c ---- */

State *state_of_type(PyTypeObject *type);
/* Raise the exception of a status with the context's message. Returns NULL. */
PyObject *raise(const State *s, TnStatus status, TnContext *ctx);
/* Raise UsageError with a text of our own. Returns NULL. */
PyObject *refuse(const State *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- model.c ---- */

bool add_model_types(PyObject *module, State *s);

/* ---- tensor.c ---- */

/* An object's memory, borrowed until `release`. */
typedef struct {
    TnTensor tensor;
    Py_buffer view; /* view.obj NULL: not held */
    /* a DLPack capsule, a converted array, or strings and their addresses; or NULL */
    PyObject *held;
    int64_t dims[MAX_RANK];
} Borrowed;

/* x as a tensor. `like`: what the model wants there; lists and numbers are converted to its type,
 * arrays never. False with an exception: no array, on another device, of a type that Tenon does not
 * have. */
bool borrow(State *s, PyObject *x, const TnValueInfo *like, bool writable, Borrowed *out);
void release(Borrowed *b);
/* A new NumPy array of the type and sizes in `t`; t->data and t->bytes are set. */
PyObject *new_array(State *s, TnTensor *t);
/* Is an array of these elements shown otherwise than new_array makes it? */
bool is_shown_otherwise(const char *dtype);
/* The array as the caller sees it: what ml_dtypes has a type for gets it, addresses of strings
 * become an array of str. Takes the reference. */
PyObject *shown_array(State *s, PyObject *array, const TnTensor *t);
/* The front of a caller's array that was written, in the sizes of `t`. */
PyObject *written_part(State *s, PyObject *array, const TnTensor *t);
PyObject *shape_tuple(const TnTensor *t);

#endif
