/* options: what options say, checked, with defaults and what the environment says. No other file
 * under src/ reads the environment.
 *
 *   CC                the C compiler
 *   TENON_CACHE_DIR   the cache folder; empty: no cache
 *   XDG_CACHE_HOME, HOME   where the cache folder is otherwise
 *   TMPDIR            for temporary files if the cache folder cannot be written
 */
#include "driver/internal.h"

#include <stdlib.h>
#include <string.h>

/* Percent. Twice the file's size is acceptable to users who want speed; four times, which all 3x3
 * filters in the largest tiles take, is not. */
enum { WEIGHTS_GROWTH = 100 };
/* Programs of a kernel: for one row, few, many; and one more for hinted sizes. Each takes code, and
 * time to compile. */
enum { VARIANTS = 4 };

static const char *
env(const char *name)
{
    const char *v = getenv(name);

    return v && *v ? v : NULL;
}

const char *
driver_cache_dir(Arena *a, const char *given)
{
    const char *own = given ? given : getenv("TENON_CACHE_DIR");

    if (own)
        return *own ? own : NULL;
    return build_cache_default(a, env("XDG_CACHE_HOME"), env("HOME"));
}

/* ---- lists ----------------------------------------------------------------------------------- */

static const char *
name_or_none(const char *name)
{
    return name ? name : "(no name)";
}

static bool
take_dims(Ctx *c, Arena *a, const TnCompileOptions *o, ImportOptions *out)
{
    Binding *dim = NEW_ARRAY(a, Binding, o->ndims);

    for (int32_t i = 0; i < o->ndims; i++) {
        const TnDim *d = &o->dims[i];
        if (!d->symbol || d->value < 0)
            return diag_usage(&c->diags, "dimension %s: %lld is not a size",
                              name_or_none(d->symbol), (long long)d->value);
        expr_is_var(expr_symbol(c, d->symbol), &dim[i].var);
        dim[i].to = expr_int(c, d->value);
    }
    out->dim = dim;
    out->ndim = (uint32_t)o->ndims;
    return true;
}

static bool
take_shapes(Ctx *c, Arena *a, const TnCompileOptions *o, ImportOptions *out)
{
    ImportShape *shape = NEW_ARRAY(a, ImportShape, o->nshapes);

    for (int32_t i = 0; i < o->nshapes; i++) {
        const TnShape *s = &o->shapes[i];
        if (!s->input || s->rank < 0 || s->rank > TN_MAX_RANK || (s->rank && !s->dims))
            return diag_usage(
                &c->diags, "the shape of input %s has rank %d%s; 0 to %d are possible",
                name_or_none(s->input), s->rank, s->dims ? "" : " and dims NULL", TN_MAX_RANK);
        shape[i] = (ImportShape){ s->input, (uint32_t)s->rank, s->dims };
    }
    out->shape = shape;
    out->nshape = (uint32_t)o->nshapes;
    return true;
}

static bool
check_orders(Ctx *c, const TnOrder *order, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (!order[i].value || !order[i].order)
            return diag_usage(
                &c->diags,
                "an order of dimensions needs the value's name and the order, such as nhwc");
    return true;
}

/* Are there as many entries as each count says? */
static bool
check_counts(Ctx *c, const TnCompileOptions *o)
{
    const struct {
        const char *what;
        const void *at;
        int32_t n;
    } list[] = {
        { "dims", o->dims, o->ndims },       { "shapes", o->shapes, o->nshapes },
        { "format", o->format, o->nformat }, { "io_format", o->io_format, o->nio_format },
        { "state", o->state, o->nstate },    { "ranges", o->ranges, o->nranges },
        { "hints", o->hints, o->nhints },
    };

    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (list[i].n < 0 || (list[i].n && !list[i].at))
            return diag_usage(&c->diags, "option %s: %d entries%s; give an array, or 0 for none",
                              list[i].what, list[i].n, list[i].at ? "" : " at NULL");
    return true;
}

static bool
check_lists(Ctx *c, const TnCompileOptions *o)
{
    for (int32_t i = 0; i < o->nranges; i++) {
        const TnRange *r = &o->ranges[i];
        if (!r->symbol || r->least < 0 || r->most < r->least)
            return diag_usage(&c->diags, "dimension %s: %lld..%lld is no range of sizes",
                              name_or_none(r->symbol), (long long)r->least, (long long)r->most);
    }
    for (int32_t i = 0; i < o->nhints; i++) {
        const TnHint *h = &o->hints[i];
        if (!h->symbol || h->nsizes < 1 || !h->sizes)
            return diag_usage(&c->diags, "dimension %s: a hint has %d sizes, 1 or more are wanted",
                              name_or_none(h->symbol), h->sizes ? (int)h->nsizes : 0);
    }
    for (int32_t i = 0; i < o->nstate; i++)
        if (!o->state[i].input || !o->state[i].output)
            return diag_usage(
                &c->diags,
                "a state needs the name of an input, and that of the output that it is afterwards");
    return check_orders(c, o->format, o->nformat) && check_orders(c, o->io_format, o->nio_format);
}

/* ---- all of them ----------------------------------------------------------------------------- */

static bool
check_numbers(Ctx *c, const TnCompileOptions *o)
{
    if (!(o->density >= 0 && o->density <= 1))
        return diag_usage(&c->diags,
                          "density %g: a share above 0 and at most 1 is possible; 0: the default",
                          o->density);
    if (!(o->max_seconds >= 0) || o->max_memory_bytes < 0 || o->max_arena_bytes < 0 ||
        o->max_nodes < 0 || o->max_model_bytes < 0 || o->max_depth < 0 || o->weights_growth < 0 ||
        o->variants < 0 || o->ram_bytes < 0 || o->flash_bytes < 0)
        return diag_usage(&c->diags, "a limit is negative; 0 stands for its default");
    return true;
}

/* Is it the system's CBLAS, "blas" or "blas=always", and not a file? */
static bool
is_blas(const char *library)
{
    return library && !strncmp(library, "blas", 4) && (!library[4] || library[4] == '=');
}

bool
options_resolve(Ctx *c, Arena *a, const TnCompileOptions *given, Settings *out)
{
    TnCompileOptions *o = &out->o;
    bool blas = is_blas(given->library);

    if (!check_numbers(c, given) || !check_counts(c, given) || !check_lists(c, given))
        return false;
    *o = *given;
    o->fuse = o->fuse ? o->fuse : "dp";
    o->weights_growth = o->weights_growth ? o->weights_growth : WEIGHTS_GROWTH;
    o->variants = o->variants ? o->variants : VARIANTS + (o->nhints > 0);
    o->formats = o->formats ? o->formats : "search";
    out->blas = blas ? o->library : NULL;
    out->build = (BuildOptions){ .cc = o->cc,
                                 .cache_dir = driver_cache_dir(a, o->cache_dir),
                                 .cache_bytes = o->cache_bytes,
                                 .temporary = env("TMPDIR"),
                                 .jobs = o->jobs };
    out->import = (ImportOptions){ .max_model_bytes = o->max_model_bytes,
                                   .max_nodes = o->max_nodes,
                                   .seed = o->seed,
                                   .nests = o->nests,
                                   .library = blas ? NULL : o->library,
                                   .given = o->given };
    return take_dims(c, a, o, &out->import) && take_shapes(c, a, o, &out->import);
}

bool
driver_machine(Ctx *c, Arena *arena, const TnCompileOptions *o, Machine *out)
{
    enum { MOST_CORES = 4096 };
    Bytes file;

    if (o->cores < 0 || o->cores > MOST_CORES)
        return diag_usage(&c->diags, "--cores %lld: 1 to %d cores are possible",
                          (long long)o->cores, MOST_CORES);
    if (!o->machine) {
        if (!machine_find(c, o->target ? o->target : "native", out))
            return false;
    } else {
        if (!file_map(arena, &c->diags, o->machine, &file) ||
            !machine_parse(c, o->machine, (const char *)file.data, file.bytes, out))
            return false;
        if (o->target && strcmp(o->target, out->name))
            return diag_error(&c->diags, DIAG_USAGE, (Loc){ .file = o->machine },
                              "the file describes %s, and --target asks for %s; leave "
                              "one of them out",
                              out->name, o->target);
    }
    if (o->cores)
        out->cores = (uint32_t)o->cores;
    return true;
}

/* $CC is for the processor that compiles, or for the target if it can make its code. */
static const char *const *
compilers(Arena *a, const Platform *p)
{
    const char *cc = env("CC");
    VEC(const char *) list = { 0 };

    if (cc)
        VEC_PUSH(a, &list, cc);
    for (uint32_t i = 0; p->compiler[i]; i++)
        VEC_PUSH(a, &list, p->compiler[i]);
    VEC_PUSH(a, &list, NULL);
    return list.at;
}

bool
options_target(Ctx *c, Arena *a, Settings *set, Machine *out)
{
    TnCompileOptions *o = &set->o;

    if (o->emit && !strcmp(o->emit, "wasm") && !o->target && !o->machine)
        o->target = "wasm32-simd";
    if (!driver_machine(c, a, o, out))
        return false;
    const Platform *p = out->platform;
    o->emit = o->emit ? o->emit : platform_usual_form(a, p);
    if (!artefact_form(c, o->emit))
        return false;
    if (!strcmp(o->emit, "mcu")) { /* C99 has no vectors */
        out->cores = 1;
        out->vector_bytes = sizeof(float);
    }
    if (!platform_emits(p, o->emit))
        return diag_usage(&c->diags, "--emit %s: %s has none; --target %s makes: %s", o->emit,
                          p->name, out->name, p->emit);
    if (platform_is_here(p)) {
        set->build.cc = o->cc ? o->cc : env("CC");
        return true;
    }
    set->build.compilers = compilers(a, p);
    set->build.made_for = p->name;
    set->build.install = p->install;
    return true;
}
