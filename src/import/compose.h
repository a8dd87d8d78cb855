/* compose: defines a node by a text of Tenon's operators.
 *
 *     return call_says(k, "x[..., n] scale[n] ? bias -> y",
 *                      "y = x / sqrt(reduce_mean(x * x, [-1]) + $epsilon:1e-5) * scale\n"
 *                      "bias? y = y + bias\n"
 *                      "$negate? y = -y");
 *
 * doc/text.md has the language; `self(…)` is the node's operator, `{*}` are its attributes. `$name`
 * is a fact: what the converter said of it (call_fact), a size that is known, or the node's
 * attribute, `:` its default. `$real` is the type to compute with, f64 if input 0 is, or f32;
 * `$every` lists all axes of input 0, `$second` and `$last` are permutations that move its last
 * axis to the second place, and back. `$name?` and `!$name?` leave out the rest of the line unless
 * the fact is there and not 0, or is so. Texts are also formatted as by printf.
 *
 * After a text has failed, others do nothing.
 */
#ifndef TENON_IMPORT_COMPOSE_H
#define TENON_IMPORT_COMPOSE_H

#include "import/call.h"

/* Names for texts of this node: its inputs in order, then results: "x scale ? bias -> y mean".
 * Without an arrow the node stays what it is, with the names' values as its inputs.
 * Inputs before `?` are required, `!name` has to be absent. `w[n, 3*n, _]` must have such
 * dimensions: a name is a size from where it first stands alone, `#n` has to be known, `_` is any,
 * and `...` any number of them. `*list` is integers of rank 0 or 1 as i64[n]. `@list` is no input,
 * but a list that is an attribute, absent if it is empty. False, reported: an input is not so. */
bool call_names(Call *k, const char *names);
/* Runs a text over these names; later texts may read what it assigns. */
bool call_text(Call *k, const char *text, ...) __attribute__((format(printf, 2, 3)));
bool call_run(Call *k, const char *text);            /* the same without formatting */
ValueId call_value(const Call *k, const char *name); /* 0: none, or absent */
const Type *call_type(const Call *k, const char *name);
void call_name(Call *k, const char *name, ValueId v);
void call_name_list(Call *k, const char *name, AttrList l); /* a constant; absent if it is empty */
void call_size(Call *k, const char *name, const Expr *size);
int64_t call_known(const Call *k, const char *name); /* a size; -1: it is not known */
void call_fact(Call *k, const char *name, const char *text);
void call_number(Call *k, const char *name, int64_t v);
void call_real(Call *k, const char *name, double v);
/* Sets the node's outputs to the values of the results' names, if any are named; when a converter
 * returns true this is done for it. */
void call_finish(Call *k);
/* Names and text. */
bool call_says(Call *k, const char *names, const char *text, ...)
    __attribute__((format(printf, 3, 4)));

/* The value of a text's last statement, with the names in `names` for v[0], … only; 0, reported. */
ValueId value_of_text(Call *k, const char *names, const ValueId *v, const char *text, ...)
    __attribute__((format(printf, 4, 5)));
#define VALUES(...) ((const ValueId[]){ __VA_ARGS__ })

/* For texts: "[1, 2]", "[0, 1, 2]" of all below n, "[1, -1, 1]", a list along axis d, and the
 * permutation that moves an axis; "" if there is nothing to move. */
const char *ints_text(Call *k, uint32_t n, const int64_t *v);
const char *below_text(Call *k, uint32_t n);
const char *along_text(Call *k, uint32_t d, uint32_t rank);
const char *moved_text(Call *k, int64_t rank, int64_t from, int64_t to);
/* " * 0x1p+1", or "" if that has no effect */
const char *times_text(Call *k, double factor);

#endif
