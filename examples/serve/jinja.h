/* jinja: templates of chats, as tokenizer_config.json has them: a subset of Jinja 2.
 *
 * Values are JSON: none, true and false, whole numbers and floats, strings, lists and mappings;
 * "undefined" is one more. There are
 *
 *   {{ x }} {% %} {# #}, with - on either side; a line's blanks before a block and the newline
 *       behind it are left out, as Hugging Face's Transformers do
 *   for … in … if … / else, with loop.index, index0, first, last, length, previtem and nextitem;
 *       break, continue; if / elif / else; set x, set namespace.x, set … endset; generation (of no
 *       effect)
 *   or and not, == != < <= > >=, in, is, | filters, + - * / // % ~, x if y else z, x.y, x[y],
 *       x[a:b:-1], lists, mappings, strings, numbers
 *   tests and filters: the lists at the end of jinja_call.c; methods of strings, lists and mappings
 *       there too
 *   range, namespace, dict, raise_exception, strftime_now
 *
 * Not there: macro, call, include, import, extends, filter blocks, several targets but in for,
 * keyword arguments but of namespace, dict and tojson. A template that has them is refused by
 * jinja_new, with the line.
 */
#ifndef SERVE_JINJA_H
#define SERVE_JINJA_H

#include <jansson.h>

typedef struct Jinja Jinja;

enum { JINJA_PROBLEM = 256 };

/* NULL: *problem says what is wrong, and in which line. */
Jinja *jinja_new(const char *text, char problem[JINJA_PROBLEM]);
/* The text that the template makes of the mapping `names`, malloc's, and its bytes; NULL:
 * *problem. */
char *jinja_run(const Jinja *t, const json_t *names, size_t *bytes, char problem[JINJA_PROBLEM]);
void jinja_free(Jinja *t);

#endif
