/* compose: defines a node by a text of Tenon's operators.
 *
 * The graph's own parser (graph/statement.h) reads the text each time a node needs it, since
 * parsing takes a small part of the time to add the operators. The nodes get the location and
 * origin of the ONNX node; values that become its outputs get the outputs' names.
 */
#include "import/compose.h"

#include "graph/statement.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

/* The next word of *s; NULL at the end. */
static Sym
next_word(Ctx *c, const char **s)
{
    *s += strspn(*s, " ");
    size_t n = strcspn(*s, " ");
    const char *word = *s;

    *s += n;
    return n ? sym_n(c, word, n) : NULL;
}

bool
call_names(Call *k, const char *names)
{
    Ctx *c = k->m->c;
    bool needed = true;
    uint32_t i = 0, o = 0;
    Sym word;

    k->name = k->shown = (Map){ .arena = k->m->arena };
    k->results = NULL;
    map_put(&k->name, MAP_PTR(sym(c, "absent")), 0);
    while ((word = next_word(c, &names)) && strcmp(word, "->")) {
        if (!strcmp(word, "?")) {
            needed = false;
            continue;
        }
        if (needed && !need_input(k, i))
            return false;
        map_put(&k->name, MAP_PTR(word), call_in(k, i++));
    }
    if (word)
        k->results = names;
    for (; word && (word = next_word(c, &names)); o++)
        if (o < k->proto->n_output && *text_of(k->proto->output[o]))
            map_put(&k->shown, MAP_PTR(word), MAP_PTR(sym(c, k->proto->output[o])));
    return true;
}

/* Runs a text with the names in `name`, and adds the names that it assigns. */
static bool
run(Call *k, Map *name, const Map *shown, ValueId *last, const char *format, va_list args)
{
    Text text = { .arena = k->m->arena };
    const char *like = k->proto->n_output ? text_of(k->proto->output[0]) : "";

    if (strchr(format, '%')) {
        text_vprintf(&text, format, args);
        format = text_str(&text);
    }
    Statements s = { .g = k->m->g,
                     .loc = k->loc,
                     .origin = k->origin,
                     .like = *like ? like : "size",
                     .self = k->op,
                     .attrs = { k->attr.at, k->attr.n },
                     .name = *name,
                     .shown = *shown };
    bool ok = graph_statements(&s, format);
    *name = s.name;
    *last = s.last;
    return ok;
}

bool
call_text(Call *k, const char *text, ...)
{
    ValueId last;
    va_list args;

    va_start(args, text);
    bool ok = run(k, &k->name, &k->shown, &last, text, args);
    va_end(args);
    return ok;
}

ValueId
call_value(const Call *k, const char *name)
{
    uint64_t v = 0;

    map_get(&k->name, MAP_PTR(sym(k->m->c, name)), &v);
    return (ValueId)v;
}

void
call_name(Call *k, const char *name, ValueId v)
{
    map_put(&k->name, MAP_PTR(sym(k->m->c, name)), v);
}

void
call_finish(Call *k)
{
    const char *names = k->results;
    uint32_t o = 0;
    Sym word;

    if (k->done || !names)
        return;
    k->done = true;
    for (; (word = next_word(k->m->c, &names)); o++)
        if (call_value(k, word))
            call_bind(k, o, call_value(k, word));
}

bool
call_says(Call *k, const char *names, const char *text, ...)
{
    va_list args;
    ValueId last;

    if (!call_names(k, names))
        return false;
    va_start(args, text);
    bool ok = run(k, &k->name, &k->shown, &last, text, args);
    va_end(args);
    if (ok)
        call_finish(k);
    return ok;
}

ValueId
value_of_text(Call *k, const char *names, const ValueId *v, const char *text, ...)
{
    Map name = { .arena = k->m->arena };
    const Map shown = { .arena = k->m->arena };
    va_list args;
    ValueId last;
    Sym word;

    while ((word = next_word(k->m->c, &names)))
        map_put(&name, MAP_PTR(word), *v++);
    va_start(args, text);
    bool ok = run(k, &name, &shown, &last, text, args);
    va_end(args);
    return ok ? last : 0;
}

const char *
ints_text(Call *k, uint32_t n, const int64_t *v)
{
    Text t = { .arena = k->m->arena };

    text_add(&t, "[");
    for (uint32_t i = 0; i < n; i++)
        text_printf(&t, i ? ", %" PRId64 : "%" PRId64, v[i]);
    text_add(&t, "]");
    return text_str(&t);
}

const char *
floats_text(Call *k, uint32_t n, const double *v)
{
    Text t = { .arena = k->m->arena };

    text_add(&t, "[");
    for (uint32_t i = 0; i < n; i++)
        text_printf(&t, i ? ", %a" : "%a", v[i]);
    text_add(&t, "]");
    return text_str(&t);
}

const char *
below_text(Call *k, uint32_t n)
{
    int64_t v[TN_MAX_RANK * 2];

    for (uint32_t i = 0; i < n; i++)
        v[i] = i;
    return ints_text(k, n, v);
}

const char *
times_text(Call *k, double factor)
{
    return factor == 1 ? "" : arena_printf(k->m->arena, " * %a", factor);
}

const char *
plus_text(Call *k, double term)
{
    return term == 0 ? "" : arena_printf(k->m->arena, " + %a", term);
}
