/* library: operators that are C functions in a user's library (--library FILE).
 *
 * The library declares them in a string:
 *
 *     const char tenon_operators[] = "\"my.Blend\"(x: f32[n, m], y: f32[n, m], s: f32[]) -> (o:
 *     f32[n, m]) = blend";
 *
 * and defines for each a function `int blend(int32_t n, const TnArray *array)`. A call of the
 * operator `library` names the function and its declaration. It is valid only if the library on the
 * command line declares exactly that, so a model alone cannot run code.
 */
#include "op/call.h"
#include "text/text.h"
#include "op/kinds.h"

#include <dlfcn.h>
#include <string.h>

typedef struct {
    VEC(const Type *) in, out;
    Text text;
} Signature;

static bool
read_side(Parse *p, Signature *s, bool out)
{
    Ctx *c = p->ctx;

    text_add(&s->text, "(");
    if (!parse_expect(p, "("))
        return false;
    while (!parse_accept(p, ")")) {
        bool first = out ? s->out.n == 0 : s->in.n == 0;
        if (!first && !parse_expect(p, ","))
            return false;
        Sym name = parse_name(p);
        if (!name)
            return parse_error(p, "expected a name");
        const Type *t = parse_expect(p, ":") ? parse_type(p) : NULL;
        if (!t)
            return false;
        if (dtype_info[t->dtype].bits != 8 * dtype_info[t->dtype].bytes ||
            (out && t->dtype == DT_STR) ||
            (dtype_is_float(t->dtype) && dtype_info[t->dtype].bytes == 1))
            return parse_error(
                p, "functions take and give numbers of 8 bits and more, and take strings; %s is %s",
                name, type_str(c, t));
        text_add(&s->text, first ? "" : ", ");
        text_name(&s->text, name);
        text_printf(&s->text, ": %s", type_str(c, t));
        if (out)
            VEC_PUSH(c->arena, &s->out, t);
        else
            VEC_PUSH(c->arena, &s->in, t);
    }
    text_add(&s->text, ")");
    return true;
}

static bool
read_signature(Parse *p, Signature *s)
{
    *s = (Signature){ .text.arena = p->ctx->arena };
    if (!read_side(p, s, false) || !parse_expect(p, "->"))
        return false;
    text_add(&s->text, " -> ");
    return read_side(p, s, true) && (s->out.n || parse_error(p, "a function without results"));
}

static void
end_use(void *handle)
{
    dlclose(handle);
}

bool
library_open(Ctx *c, const char *path)
{
    Library *l = NEW(c->arena, Library);
    /* a name without a slash is searched in the system's library folders */
    void *handle = dlopen(strchr(path, '/') ? path : arena_printf(c->arena, "./%s", path),
                          RTLD_NOW | RTLD_LOCAL);
    Loc loc = { .file = path };

    *l = (Library){ .path = arena_str(c->arena, path) };
    if (!handle)
        return diag_error(&c->diags, DIAG_USAGE, loc, "cannot open the library: %s", dlerror());
    arena_closer(c->arena, end_use, handle);
    const char *text = dlsym(handle, "tenon_operators");
    if (!text)
        return diag_error(&c->diags, DIAG_USAGE, loc,
                          "the library does not say which operators it has: it needs a string "
                          "`const char tenon_operators[]`");
    Parse p = parse_begin(c, arena_printf(c->arena, "%s:tenon_operators", path),
                          (Bytes){ (const uint8_t *)text, strlen(text) });
    while (!parse_end(&p)) {
        Signature s;
        Foreign f = { .name = parse_name(&p) };
        if (!f.name)
            return parse_error(&p, "expected the name of an operator");
        if (!read_signature(&p, &s) || !parse_expect(&p, "="))
            return false;
        f.function = parse_name(&p);
        if (!f.function ||
            f.function[strspn(f.function,
                              "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")])
            return parse_error(&p, "expected the name of a function");
        f.signature = sym(c, text_str(&s.text));
        *(void **)&f.call = dlsym(handle, f.function);
        if (!f.call)
            return diag_error(&c->diags, DIAG_USAGE, loc,
                              "the library has no function %s, which its tenon_operators names",
                              f.function);
        VEC_PUSH(c->arena, &l->foreign, f);
    }
    c->library = l;
    return true;
}

bool
foreign_types(Ctx *c, const Foreign *f, uint32_t *nin, const Type *const **in, uint32_t *nout)
{
    Parse p =
        parse_begin(c, f->function, (Bytes){ (const uint8_t *)f->signature, strlen(f->signature) });
    Signature s;

    if (!read_signature(&p, &s))
        return false;
    *nin = s.in.n;
    *in = s.in.at;
    *nout = s.out.n;
    return true;
}

const Foreign *
op_foreign(Ctx *c, const OpCall *call)
{
    const Library *l = c->library;
    const char *function, *signature;

    if (call->op != OP_library)
        return NULL;
    function = op_string(c, call, "function");
    signature = op_string(c, call, "signature");
    for (uint32_t i = 0; l && i < l->foreign.n; i++)
        if (!strcmp(l->foreign.at[i].function, function) &&
            !strcmp(l->foreign.at[i].signature, signature))
            return &l->foreign.at[i];
    return NULL;
}

bool
op_bind_sizes(Ctx *c, const OpCall *call, const char *what, const Type *const *declared, uint32_t n,
              BoundSizes *bind)
{
    if (!type_bind(c, declared, n, call->in, call->nin, bind))
        return op_fail(c, call, DIAG_MODEL,
                       "a size of %s stands alone in no dimension of an input, so nothing tells "
                       "what it is",
                       what);
    for (uint32_t i = 0; i < call->nin; i++)
        for (uint32_t d = 0; d < declared[i]->rank; d++)
            if (!op_require_eq(c, call, call->in[i]->dim[d],
                               expr_subst(c, declared[i]->dim[d], bind->at, bind->n),
                               "axis %u of input %u, and what %s declares,", d, i, what))
                return false;
    return true;
}

bool
infer_library(Ctx *c, const OpCall *call, const Type **out)
{
    const Foreign *f = op_foreign(c, call);
    BoundSizes bind = { 0 };
    Signature s;

    if (!f)
        return op_fail(
            c, call, DIAG_MODEL,
            "the function %s%s is declared by no library that was given; name it with --library",
            op_string(c, call, "function"), op_string(c, call, "signature"));
    Parse p =
        parse_begin(c, f->function, (Bytes){ (const uint8_t *)f->signature, strlen(f->signature) });
    if (!read_signature(&p, &s))
        return false;
    if (call->nin != s.in.n || call->nout > s.out.n)
        return op_fail(c, call, DIAG_MODEL, "%s takes %u values and gives %u", f->function, s.in.n,
                       s.out.n);
    for (uint32_t i = 0; i < call->nin; i++)
        if (!has_in(call, i) || call->in[i]->dtype != s.in.at[i]->dtype ||
            call->in[i]->rank != s.in.at[i]->rank)
            return op_fail(c, call, DIAG_MODEL, "input %u is %s; %s is declared", i,
                           has_in(call, i) ? type_str(c, call->in[i]) : "absent",
                           type_str(c, s.in.at[i]));
    const Type **declared = NEW_ARRAY(c->arena, const Type *, s.in.n + s.out.n);
    for (uint32_t i = 0; i < s.in.n + s.out.n; i++)
        declared[i] = i < s.in.n ? s.in.at[i] : s.out.at[i - s.in.n];
    if (!op_bind_sizes(c, call, f->function, declared, s.in.n + s.out.n, &bind))
        return false;
    for (uint32_t i = 0; i < call->nout; i++)
        out[i] = type_subst(c, s.out.at[i], bind.at, bind.n);
    return true;
}
