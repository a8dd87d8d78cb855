/* compose: defines a node by a text of Tenon's operators.
 *
 *     return call_says(k, "x scale ? bias -> y",
 *                      "y = x / sqrt(reduce_mean(x * x, [-1]) + %a) * scale\n"
 *                      "bias? y = y + bias", epsilon);
 *
 * doc/text.md has the language. Texts are formatted as by printf, so attributes and small lists are
 * inserted into them; `self(…)` is the node's operator, `{*}` are its attributes.
 */
#ifndef TENON_IMPORT_COMPOSE_H
#define TENON_IMPORT_COMPOSE_H

#include "import/call.h"

/* Names for texts of this node: its inputs in order, then results: "x scale ? bias -> y mean".
 * Inputs before `?` are required. False, reported: one is absent. */
bool call_names(Call *k, const char *names);
/* Runs a text over these names; later texts may read what it assigns. */
bool call_text(Call *k, const char *text, ...) __attribute__((format(printf, 2, 3)));
ValueId call_value(const Call *k, const char *name); /* 0: none, or absent */
void call_name(Call *k, const char *name, ValueId v);
/* Sets the node's outputs to the values of the results' names, if any are named; when a converter
 * returns true this is done for it. */
void call_finish(Call *k);
/* All of these: names, text, outputs. */
bool call_says(Call *k, const char *names, const char *text, ...)
    __attribute__((format(printf, 3, 4)));

/* The value of a text's last statement, with the names in `names` for v[0], … only; 0, reported. */
ValueId value_of_text(Call *k, const char *names, const ValueId *v, const char *text, ...)
    __attribute__((format(printf, 4, 5)));
#define VALUES(...) ((const ValueId[]){ __VA_ARGS__ })

/* For texts: "[1, 2]", and "[0, 1, 2]" of all below n. */
const char *ints_text(Call *k, uint32_t n, const int64_t *v);
const char *floats_text(Call *k, uint32_t n, const double *v);
const char *below_text(Call *k, uint32_t n);

/* " * 0x1p+1", or "" if that has no effect; the same for a sum. */
const char *times_text(Call *k, double factor);
const char *plus_text(Call *k, double term);

#endif
