/* compose: defines a node by a text of Tenon's operators.
 *
 * Facts behind `$` are put into the text first; then the graph's own parser (graph/statement.h)
 * reads it, each time a node needs it, since parsing takes a small part of the time to add the
 * operators. The nodes get the location and origin of the ONNX node; values that become its outputs
 * get the outputs' names.
 */
#include "import/compose.h"

#include "graph/statement.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

/* The next word of *s, and the dimensions behind it, or NULL; NULL at the end. */
static Sym
next_word(Ctx *c, const char **s, const char **dims)
{
    *s += strspn(*s, " ");
    size_t n = strcspn(*s, " [");
    Sym word = n ? sym_n(c, *s, n) : NULL;

    *s += n;
    *dims = **s == '[' ? *s + 1 : NULL;
    *s += *dims ? strcspn(*s, "]") + 1 : 0;
    return word;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

void
call_size(Call *k, const char *name, const Expr *size)
{
    op_size(k->c, &k->size, name, size);
}

int64_t
call_known(const Call *k, const char *name)
{
    uint64_t size = 0;
    int64_t n = -1;

    map_get(&k->size.of, MAP_PTR(sym(k->c, name)), &size);
    return size && expr_const((const Expr *)(uintptr_t)size, &n) ? n : -1;
}

/* Has input i these dimensions? Runs check what is not known. */
static bool
has_dims(Call *k, uint32_t i, const char *name, const char *dims)
{
    const Type **in = NEW_ARRAY(k->arena, const Type *, i + 1);
    const OpCall call = {
        .loc = k->loc, .nin = i + 1, .in = in, .constraints = &k->m->g->constraints
    };

    in[i] = input_type(k, i);
    return op_has_dims(k->c, &call, i, name, dims, &k->size);
}

void
call_name_list(Call *k, const char *name, AttrList l)
{
    call_name(k, name, l.n ? call_list(k, name, l.t, (uint32_t)l.n, l.data) : 0);
}

/* ---- names ----------------------------------------------------------------------------------- */

bool
call_names(Call *k, const char *names)
{
    const char *all = names, *dims;
    bool needed = true;
    uint32_t i = 0, o = 0;
    Sym word;

    k->name = k->shown = (Map){ .arena = k->arena };
    map_put(&k->name, MAP_PTR(sym(k->c, "absent")), 0);
    for (; (word = next_word(k->c, &names, &dims)) && strcmp(word, "->"); i++) {
        const ValueId v = call_in(k, i);
        if (*word == '?') {
            needed = false;
            i--;
        } else if (*word == '@') {
            call_name_list(k, word + 1, call_attr_list(k, word + 1));
            i--;
        } else if (*word == '!') {
            if (v)
                return call_refuse(k, "input %u (%s) is not supported; export the model without it",
                                   i, word + 1);
        } else {
            if ((needed && !need_input(k, i)) || (dims && v && !has_dims(k, i, word, dims)))
                return false;
            call_name(k, word + (*word == '*'), *word == '*' ? call_int_list(k, v) : v);
        }
    }
    k->inputs = word ? NULL : all;
    k->results = word ? names : NULL;
    for (; word && (word = next_word(k->c, &names, &dims)); o++)
        if (o < k->proto->n_output && *k->proto->output[o])
            map_put(&k->shown, MAP_PTR(word), MAP_PTR(sym(k->c, k->proto->output[o])));
    return true;
}

/* ---- texts ----------------------------------------------------------------------------------- */

void
call_number(Call *k, const char *name, int64_t v)
{
    call_fact(k, name, arena_printf(k->arena, "%" PRId64, v));
}

void
call_real(Call *k, const char *name, double v)
{
    call_fact(k, name, arena_printf(k->arena, "%a", v));
}

void
call_fact(Call *k, const char *name, const char *text)
{
    map_put(&k->fact, MAP_PTR(sym(k->c, name)), MAP_PTR(text));
}

static const char *
floats_text(Call *k, uint32_t n, const double *v)
{
    Text t = { .arena = k->arena };

    text_add(&t, "[");
    for (uint32_t i = 0; i < n; i++)
        text_printf(&t, i ? ", %a" : "%a", v[i]);
    text_add(&t, "]");
    return text_str(&t);
}

/* NULL: it is no number and no list of them. A file's strings are never parts of texts. */
static const char *
attr_text(Call *k, const Attr *a)
{
    switch (a->kind) {
    case ATTR_INT: return arena_printf(k->arena, "%" PRId64, a->i);
    case ATTR_FLOAT: return arena_printf(k->arena, "%a", a->f);
    case ATTR_INTS: return ints_text(k, a->n, a->ints);
    case ATTR_FLOATS: return floats_text(k, a->n, a->floats);
    case ATTR_STRING:
    case ATTR_TENSOR: break;
    }
    return NULL;
}

/* What `$name` stands for; NULL: nothing. */
static const char *
fact_of(Call *k, Sym name)
{
    const Attr *a = call_attr(k, name);
    uint64_t is;

    if (map_get(&k->fact, MAP_PTR(name), &is))
        return (const char *)(uintptr_t)is;
    if (call_known(k, name) >= 0)
        return arena_printf(k->arena, "%" PRId64, call_known(k, name));
    if (!strcmp(name, "every"))
        return below_text(k, input_type(k, 0)->rank);
    if (!strcmp(name, "second"))
        return moved_text(k, input_type(k, 0)->rank, -1, 1);
    if (!strcmp(name, "last"))
        return moved_text(k, input_type(k, 0)->rank, 1, -1);
    if (!strcmp(name, "real"))
        return input_type(k, 0)->dtype == DT_F64 ? "f64" : "f32";
    return a ? attr_text(k, a) : NULL;
}

static bool
is_so(const char *fact)
{
    return fact && *fact && strcmp(fact, "0");
}

/* The text with facts in place of their names. NULL, reported: the node lacks an attribute. */
static const char *
with_facts(Call *k, const char *text)
{
    Text t = { .arena = k->arena };

    for (const char *at; (at = strchr(text, '$'));) {
        size_t n = 0;
        while (isalnum((unsigned char)at[1 + n]) || at[1 + n] == '_')
            n++;
        const Sym name = sym_n(k->c, at + 1, n);
        const char *fact = fact_of(k, name), *end = at + 1 + n;
        const bool negated = at > text && at[-1] == '!' && *end == '?';
        text_bytes(&t, text, (size_t)(at - text) - negated);
        if (*end == '?') {
            const bool kept = is_so(fact) != negated;
            text = end + (kept ? 1 : strcspn(end, "\n"));
            while (!kept && t.n && t.s[t.n - 1] != '\n') /* its other conditions */
                t.n--;
            continue;
        }
        const size_t m = *end != ':'     ? 0
                         : end[1] == '[' ? strcspn(end, "]") + 1
                                         : 1 + strcspn(end + 1, " ,)]}\n");
        if (!fact && (!m || call_attr(k, name)))
            return (call_wrong(k, "%s needs the attribute \"%s\", and in numbers",
                               k->proto->op_type, name),
                    NULL);
        if (fact)
            text_add(&t, strchr(fact, '$') ? with_facts(k, fact) : fact);
        else
            text_bytes(&t, end + 1, m - 1);
        text = end + m;
    }
    text_add(&t, text);
    return text_str(&t);
}

/* Runs a text with the names in `name`, and adds the names that it assigns. */
static bool
run(Call *k, Map *name, const Map *shown, ValueId *last, const char *text)
{
    *last = 0;
    if (strchr(text, '$') && !(text = with_facts(k, text)))
        return false;
    if (!text[strspn(text, "\n")])
        return true;
    Statements s = { .g = k->m->g,
                     .loc = k->loc,
                     .origin = k->origin,
                     .like = output_name(k, "size"),
                     .self = k->op,
                     .attrs = { k->attr.at, k->attr.n },
                     .name = *name,
                     .shown = *shown };
    bool ok = graph_statements(&s, text);
    *name = s.name;
    *last = s.last;
    return ok;
}

static const char *
formatted(Call *k, const char *text, va_list args)
{
    return strchr(text, '%') ? arena_vprintf(k->arena, text, args) : text;
}

bool
call_run(Call *k, const char *text)
{
    ValueId last;

    k->failed = k->failed || !run(k, &k->name, &k->shown, &last, text);
    return !k->failed;
}

bool
call_text(Call *k, const char *text, ...)
{
    va_list args;

    va_start(args, text);
    text = formatted(k, text, args);
    va_end(args);
    return call_run(k, text);
}

ValueId
call_value(const Call *k, const char *name)
{
    uint64_t v = 0;

    map_get(&k->name, MAP_PTR(sym(k->c, name)), &v);
    return (ValueId)v;
}

const Type *
call_type(const Call *k, const char *name)
{
    return value_type(k, call_value(k, name));
}

void
call_name(Call *k, const char *name, ValueId v)
{
    map_put(&k->name, MAP_PTR(sym(k->c, name)), v);
}

void
call_finish(Call *k)
{
    const char *names = k->results, *inputs = k->inputs, *dims;
    uint32_t o = 0;
    Sym word;

    for (uint32_t i = 0; inputs && (word = next_word(k->c, &inputs, &dims));)
        if (*word != '?') {
            ValueId v = call_value(k, word + (*word == '*'));
            if (v || i < k->in.n)
                set_input(k, i, v);
            i++;
        }
    k->inputs = NULL;
    if (k->done || !names)
        return;
    k->done = true;
    for (; (word = next_word(k->c, &names, &dims)); o++)
        if (call_value(k, word))
            call_bind(k, o, call_value(k, word));
}

bool
call_says(Call *k, const char *names, const char *text, ...)
{
    va_list args;

    va_start(args, text);
    text = formatted(k, text, args);
    va_end(args);
    if (!call_names(k, names) || !call_run(k, text))
        return false;
    call_finish(k);
    return true;
}

ValueId
value_of_text(Call *k, const char *names, const ValueId *v, const char *text, ...)
{
    Map name = { .arena = k->arena };
    const Map shown = { .arena = k->arena };
    const char *dims;
    va_list args;
    ValueId last;
    Sym word;

    while ((word = next_word(k->c, &names, &dims)))
        map_put(&name, MAP_PTR(word), *v++);
    va_start(args, text);
    text = formatted(k, text, args);
    va_end(args);
    return run(k, &name, &shown, &last, text) ? last : 0;
}

/* ---- parts of texts -------------------------------------------------------------------------- */

const char *
ints_text(Call *k, uint32_t n, const int64_t *v)
{
    Text t = { .arena = k->arena };

    text_add(&t, "[");
    for (uint32_t i = 0; i < n; i++)
        text_printf(&t, i ? ", %" PRId64 : "%" PRId64, v[i]);
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
along_text(Call *k, uint32_t d, uint32_t rank)
{
    int64_t shape[TN_MAX_RANK];

    for (uint32_t i = 0; i < rank; i++)
        shape[i] = i == d ? -1 : 1;
    return ints_text(k, rank, shape);
}

const char *
moved_text(Call *k, int64_t rank, int64_t from, int64_t to)
{
    int64_t perm[TN_MAX_RANK];

    from += from < 0 ? rank : 0;
    to += to < 0 ? rank : 0;
    if (from == to || from < 0 || to < 0 || from >= rank || to >= rank)
        return "";
    for (int64_t d = 0, next = 0; d < rank; d++) {
        next += next == from;
        perm[d] = d == to ? from : next++;
    }
    return ints_text(k, (uint32_t)rank, perm);
}

const char *
times_text(Call *k, double factor)
{
    return factor == 1 ? "" : arena_printf(k->arena, " * %a", factor);
}
