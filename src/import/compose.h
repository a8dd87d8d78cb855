/* compose: what a node means as a text of Tenon's operators.
 *
 *     return call_says(k, "x scale ? bias -> y",
 *                      "y = x / sqrt(reduce_mean(x * x, [-1]) + %a) * scale\n"
 *                      "bias? y = y + bias", epsilon);
 *
 * doc/text.md has the language. Texts are printed as printf would, so attributes and small lists
 * stand in them; `self(…)` is the node's operator, `{*}` are its attributes.
 */
#ifndef TENON_IMPORT_COMPOSE_H
#define TENON_IMPORT_COMPOSE_H

#include "import/call.h"

/* Names for texts of this node: its inputs in order, then results: "x scale ? bias -> y mean". What
 * stands in front of `?` has to be given. False, reported: it is not. */
bool call_names(Call *k, const char *names);
/* Run a text over these names; what it assigns later texts may read. */
bool call_text(Call *k, const char *text, ...) __attribute__((format(printf, 2, 3)));
ValueId call_value(const Call *k, const char *name); /* 0: none, or absent */
void call_name(Call *k, const char *name, ValueId v);
/* The node's outputs are what the names of results stand for. */
bool call_finish(Call *k);
/* All of it: names, text, end. */
bool call_says(Call *k, const char *names, const char *text, ...)
    __attribute__((format(printf, 3, 4)));

/* The value of a text's last statement, over the names in `names` alone, which stand for v[0], …;
 * 0, reported. */
ValueId value_of_text(Call *k, const char *names, const ValueId *v, const char *text, ...)
    __attribute__((format(printf, 4, 5)));
#define VALUES(...) ((const ValueId[]){ __VA_ARGS__ })

/* For texts: "[1, 2]", and "[0, 1, 2]" of all below n. */
const char *ints_text(Call *k, uint32_t n, const int64_t *v);
const char *floats_text(Call *k, uint32_t n, const double *v);
const char *below_text(Call *k, uint32_t n);

/* " * 0x1p+1", and "" where that changes nothing; the same of a sum. */
const char *times_text(Call *k, double factor);
const char *plus_text(Call *k, double term);

#endif
