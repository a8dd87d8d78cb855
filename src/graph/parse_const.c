/* parse_const: contents of constants and attributes of operators from text.
 *
 * Large constants are in files beside the text, which are mapped once for all graphs of it.
 */
#include "graph/statement.h"
#include "graph/text.h"

#include <string.h>

/* ---- contents -------------------------------------------------------------------------------- */

static bool
read_file(GraphParser *r, int64_t bytes, const void **data)
{
    const char *name;
    int64_t offset;
    uint64_t known;
    Bytes *file = NULL;

    if (!parse_string(&r->p, &name) || !parse_int(&r->p, &offset))
        return false;
    Sym key = sym(r->g->ctx, name);
    if (map_get(&r->source->file, MAP_PTR(key), &known)) {
        file = (Bytes *)(uintptr_t)known;
    } else {
        if (name[0] == '/' || strstr(name, ".."))
            return parse_error(&r->p, "weights file \"%s\" does not lie beside the text", name);
        file = NEW(r->g->arena, Bytes);
        if (!file_map(r->g->arena, &r->g->ctx->diags,
                      path_join(r->g->arena, path_folder(r->g->arena, r->p.file), name), file))
            return false;
        map_put(&r->source->file, MAP_PTR(key), MAP_PTR(file));
    }
    if (offset < 0 || bytes > (int64_t)file->bytes || offset > (int64_t)file->bytes - bytes)
        return parse_error(&r->p,
                           "weights file \"%s\" has %zu bytes; %lld at offset %lld lie behind its "
                           "end",
                           name, file->bytes, (long long)bytes, (long long)offset);
    *data = file->data + offset;
    return true;
}

bool
read_contents(GraphParser *r, const Type *t, const void **data)
{
    int64_t bytes, n;

    if (!type_static_bytes(t, &bytes) || !expr_const(type_count(r->g->ctx, t), &n))
        return parse_error(&r->p, "a constant of type %s has no constant size",
                           type_str(r->g->ctx, t));
    if (t->dtype != DT_STR && parse_accept(&r->p, "file"))
        return read_file(r, bytes, data);
    if (parse_accept(&r->p, "elided"))
        return parse_error(&r->p,
                           "the contents of this constant were left out when it was printed");
    if (!parse_expect(&r->p, "["))
        return false;
    /* Each element takes at least two characters of text, so this bounds the allocation. */
    if (n > r->p.end - r->p.s)
        return parse_error(&r->p, "a constant of %lld elements does not end in this text",
                           (long long)n);
    char *at = arena_alloc(r->g->arena, (size_t)bytes + 1);
    *data = at;
    for (int64_t i = 0; i < n; i++, at += dtype_info[t->dtype].bytes)
        if ((i && !parse_expect(&r->p, ",")) || !element_parse(&r->p, t->dtype, at))
            return false;
    return parse_expect(&r->p, "]");
}

/* ---- attributes ------------------------------------------------------------------------------ */

/* Is the number at the cursor a float: does it have a point or an exponent, or is it inf or nan? */
static bool
float_ahead(Parse *p)
{
    parse_peek(p, "["); /* peeking skips white space */
    for (const char *s = p->s; s < p->end && !strchr(",]}) \n", *s); s++)
        if (strchr(".eEnxp", *s))
            return true;
    return false;
}

static bool
read_list(GraphParser *r, Attr *a)
{
    VEC(int64_t) ints = { 0 };
    VEC(double) floats = { 0 };
    Arena *arena = r->g->arena;
    bool real = float_ahead(&r->p);
    int64_t i;
    double f;

    while (!parse_peek(&r->p, "]")) {
        if ((ints.n + floats.n) && !parse_expect(&r->p, ","))
            return false;
        if (real ? !parse_number(&r->p, &f) : !parse_int(&r->p, &i))
            return false;
        if (real)
            VEC_PUSH(arena, &floats, f);
        else
            VEC_PUSH(arena, &ints, i);
    }
    a->kind = real ? ATTR_FLOATS : ATTR_INTS;
    a->n = ints.n + floats.n;
    a->ints = ints.at;
    a->floats = floats.at;
    return parse_expect(&r->p, "]");
}

static bool
read_attr(GraphParser *r, Attr *a)
{
    Parse *p = &r->p;

    *a = (Attr){ .name = parse_name(p) };
    if (!a->name || !parse_expect(p, "="))
        return false;
    if (parse_accept(p, "["))
        return read_list(r, a);
    if (parse_peek(p, "\"")) {
        a->kind = ATTR_STRING;
        return parse_string(p, &a->s);
    }
    if (parse_accept(p, "const")) {
        a->kind = ATTR_TENSOR;
        a->type = parse_type(p);
        return a->type && read_contents(r, a->type, &a->data);
    }
    a->kind = float_ahead(p) ? ATTR_FLOAT : ATTR_INT;
    return a->kind == ATTR_FLOAT ? parse_number(p, &a->f) : parse_int(p, &a->i);
}

bool
read_attrs(GraphParser *r, Attrs *out)
{
    VEC(Attr) list = { 0 };
    Attr a;

    *out = (Attrs){ 0 };
    if (!parse_accept(&r->p, "{"))
        return true;
    bool all = r->by && parse_accept(&r->p, "*");
    for (uint32_t i = 0; all && i < r->by->attrs.n; i++)
        VEC_PUSH(r->g->arena, &list, r->by->attrs.at[i]);
    for (bool first = !all; !parse_peek(&r->p, "}"); first = false) {
        uint32_t same = 0;
        if ((!first && !parse_expect(&r->p, ",")) || !read_attr(r, &a))
            return false;
        while (all && same < list.n && list.at[same].name != a.name)
            same++;
        if (all && same < list.n)
            list.at[same] = a;
        else
            VEC_PUSH(r->g->arena, &list, a);
    }
    *out = (Attrs){ list.at, list.n };
    return parse_expect(&r->p, "}");
}
