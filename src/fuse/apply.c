/* apply: turn a graph of nests and a plan into a graph of kernels.
 *
 * The plan's edges say what is inlined (compose.c). The nodes of a group that are not inlined are
 * the stages of its kernel, in the graph's order. A value that another group reads, or that is an
 * output of the model, is an output of its kernel; a value that only other stages read stays
 * inside.
 */
#include <math.h>
#include <string.h>

#include "fuse/internal.h"

#define NAME_LIMIT 48 /* characters of a kernel's name */
#define ORIGIN_LIMIT 240

/* ---- names for people ------------------------------------------------------------------------ */

typedef struct {
    Arena *arena;
    VEC(const char *) list;
} NameWords;

static void
add_word(NameWords *w, const char *word)
{
    for (uint32_t i = 0; i < w->list.n; i++)
        if (!strcmp(w->list.at[i], word))
            return;
    VEC_PUSH(w->arena, &w->list, word);
}

/* Is another word of the list a prefix of this one, as softmax is of softmax_max? */
static bool
is_detail(const NameWords *w, uint32_t which)
{
    const char *word = w->list.at[which];

    for (uint32_t i = 0; i < w->list.n; i++) {
        size_t n = strlen(w->list.at[i]);
        if (i != which && !strncmp(word, w->list.at[i], n) && word[n] == '_')
            return true;
    }
    return false;
}

static const char *
join(const NameWords *w, const char *between, size_t limit)
{
    Text t = { .arena = w->arena };

    for (uint32_t i = 0; i < w->list.n; i++) {
        if (is_detail(w, i))
            continue;
        if (t.n && t.n + strlen(between) + strlen(w->list.at[i]) > limit)
            break;
        if (t.n)
            text_add(&t, between);
        text_add(&t, w->list.at[i]);
    }
    return text_str(&t);
}

typedef struct {
    Sym name;
    const char *origin;
    Loc loc;
} Label;

static Label
label_group(const Fusion *f, const NodeId *member, uint32_t n)
{
    const Graph *g = f->g;
    NameWords work = { .arena = f->arena }, views = { .arena = f->arena },
              origin = { .arena = f->arena };
    Label label = { 0 };

    for (uint32_t i = 0; i < n; i++) {
        const Node *node = &g->node.at[member[i]];
        if (!origin.list.n)
            label.loc = node->loc;
        if (node->origin)
            add_word(&origin, node->origin);
        /* data movement is named only if the kernel does nothing else */
        add_word(fuse_is_view(f->ctx, node->nest) ? &views : &work, node->nest->name);
    }
    label.name = sym(f->ctx, join(work.list.n ? &work : &views, "_", NAME_LIMIT));
    label.origin = join(&origin, " + ", ORIGIN_LIMIT);
    return label;
}

/* ---- one kernel ------------------------------------------------------------------------------ */

typedef struct {
    const Fusion *f;
    Arena *arena; /* of the new graph */
    Kernel *kernel;
    NodeId *stage; /* [nhost], ascending */
    uint32_t nstage;
    Map buffer; /* of a value: its buffer */
    VEC(ValueId) in, out;
} KernelBuild;

/* A buffer named after the parameter: kernels of equal meaning are equal as text. */
static void
add_buffer(KernelBuild *b, ValueId v, Sym name, Space space)
{
    if (map_get(&b->buffer, v, NULL))
        return;
    map_put(
        &b->buffer, v,
        kernel_buffer(b->f->ctx, b->arena, b->kernel, name, b->f->g->value.at[v].type, space, 1));
    if (space == SPACE_IN) {
        b->kernel->buffer.at[b->kernel->buffer.n - 1].kept = graph_is_kept(b->f->g, v);
        VEC_PUSH(b->f->arena, &b->in, v);
    }
    if (space == SPACE_OUT)
        VEC_PUSH(b->f->arena, &b->out, v);
}

static void
add_buffers(KernelBuild *b)
{
    for (int pass = 0; pass < 3; pass++)
        for (uint32_t i = 0; i < b->nstage; i++) {
            const FusedCall *p = &b->f->call[b->stage[i]];
            uint32_t nin = p->nest->nin;
            for (uint32_t k = 0; k < nin + p->nest->nout; k++) {
                ValueId v = p->value[k];
                Sym name = p->nest->param[k].name;
                if (pass == 0 && k < nin &&
                    !fuse_is_among(b->stage, b->nstage, b->f->g->value.at[v].def))
                    add_buffer(b, v, name, SPACE_IN);
                if (pass == 1 && k >= nin && fuse_escapes(b->f, v, b->stage, b->nstage))
                    add_buffer(b, v, name, SPACE_OUT);
                if (pass == 2 && k >= nin)
                    add_buffer(b, v, name, SPACE_LOCAL);
            }
        }
    b->kernel->nin = b->in.n;
    b->kernel->nout = b->out.n;
}

/* Does a stage read what one writes to this buffer? */
static bool
read_inside(const Kernel *k, uint32_t buffer)
{
    for (uint32_t i = 0; i < k->npart; i++)
        for (uint32_t j = 0; j < k->part[i].nest->nin; j++)
            if (k->part[i].buffer[j] == buffer)
                return true;
    return false;
}

/* An output that is written at digits of axes gets a dimension for each axis inside the kernel, so
 * that schedules see plain axes. The memory is the same. */
static void
see_bare_outputs(KernelBuild *b, Part *part)
{
    Kernel *k = b->kernel;

    for (uint32_t i = 0; i < k->npart; i++) {
        const Nest *bare = nest_dim_per_axis(b->f->ctx, part[i].nest);
        bool free = bare != NULL;
        for (uint32_t o = 0; o < part[i].nest->nout && free; o++)
            free = !read_inside(k, part[i].buffer[part[i].nest->nin + o]);
        if (!free)
            continue;
        part[i].nest = bare;
        for (uint32_t o = bare->nin; o < bare->nin + bare->nout; o++)
            k->buffer.at[part[i].buffer[o]].type = bare->param[o].type;
    }
}

static void
add_parts(KernelBuild *b)
{
    Part *part = NEW_ARRAY(b->arena, Part, b->nstage);
    const Nest *const *nest = fuse_parts(b->f, b->stage, b->nstage);

    for (uint32_t i = 0; i < b->nstage; i++) {
        const FusedCall *p = &b->f->call[b->stage[i]];
        uint32_t nparam = p->nest->nin + p->nest->nout;
        uint32_t *buffer = NEW_ARRAY(b->arena, uint32_t, nparam);
        for (uint32_t k = 0; k < nparam; k++) {
            uint64_t at = 0;
            map_get(&b->buffer, p->value[k], &at);
            buffer[k] = (uint32_t)at;
        }
        for (uint32_t o = nest[i]->nin; o < nparam; o++)
            b->kernel->buffer.at[buffer[o]].type = nest[i]->param[o].type;
        part[i] = (Part){ nest[i], buffer };
    }
    b->kernel->part = part;
    b->kernel->npart = b->nstage;
    see_bare_outputs(b, part);
}

/* ---- tables of masks ------------------------------------------------------------------------- */

/* The share of tiles of data[tables, rows, keys] that are not all false. */
static uint8_t
density_of(const uint8_t *data, const int64_t size[3], int64_t rows, int64_t keys)
{
    int64_t used = 0, all = 0;

    for (int64_t t = 0; t < size[0]; t++)
        for (int64_t row = 0; row < size[1]; row += rows)
            for (int64_t key = 0; key < size[2]; key += keys, all++) {
                bool any = false;
                for (int64_t i = row; i < row + rows && i < size[1]; i++)
                    for (int64_t j = key; j < key + keys && j < size[2]; j++)
                        any |= data[(t * size[1] + i) * size[2] + j] != 0;
                used += any;
            }
    int64_t share = all ? (used * DENSITY_OF + all - 1) / all : DENSITY_OF;
    return (uint8_t)(share < 1 ? 1 : share);
}

static void
add_density(KernelBuild *b, const FusedCall *p, const Scalar *s)
{
    if (s->op != S_SEEN || s->arg[0]->op != S_NE || s->arg[0]->arg[0]->op != S_LOAD)
        return;
    uint32_t slot = s->arg[0]->arg[0]->u.load.slot;
    const Value *v = slot < p->nest->nin ? &b->f->g->value.at[p->value[slot]] : NULL;
    double said = b->f->ctx->density;
    if (!v || v->type->dtype != DT_U8 || v->format || (!v->data && said == 0))
        return;
    uint64_t at;
    int64_t size[3] = { 1, 1, 1 }; /* tables, rows, keys */
    for (uint32_t d = 0, rank = v->type->rank; d < rank; d++)
        size[d + 1 == rank ? 2 : d + 2 == rank ? 1 : 0] *= expr_or(v->type->dim[d], 0);
    if (!map_get(&b->buffer, p->value[slot], &at))
        return;
    Density *d = &b->kernel->buffer.at[at].density;
    for (uint32_t k = 0; k < DENSITY_KEYS; k++)
        for (uint32_t r = 0; r < DENSITY_ROWS; r++)
            d->of[k][r] = v->data ? density_of(v->data, size, (int64_t)1 << r, (int64_t)1 << k)
                                  : (uint8_t)fmax(1, round(said * DENSITY_OF));
}

static void
add_densities(KernelBuild *b)
{
    for (uint32_t i = 0; i < b->nstage; i++) {
        const FusedCall *p = &b->f->call[b->stage[i]];
        for (uint32_t w = 0; w < p->nest->nwrite; w++)
            FOR_EACH_SCALAR (s, scalar_nodes(b->f->ctx, p->nest->write[w].value))
                add_density(b, p, s);
    }
}

/* ---- the graph ------------------------------------------------------------------------------- */

static KernelBuild
make_kernel(const Fusion *f, Arena *a, const Label *label, const NodeId *node, uint32_t n)
{
    KernelBuild b = { .f = f,
                      .arena = a,
                      .kernel = NEW(a, Kernel),
                      .stage = NEW_ARRAY(f->arena, NodeId, n),
                      .buffer.arena = f->arena };

    b.nstage = fuse_stages(f, node, n, b.stage);
    b.kernel->name = label->name;
    /* what reads rows, of --many, came from no node */
    b.kernel->origin = *label->origin ? sym(f->ctx, label->origin) : NULL;
    uint32_t depth = fuse_depth(f, b.stage, b.nstage), most = fuse_shared(f, b.stage, b.nstage);
    b.kernel->shared = fuse_are_independent(f, b.stage, b.nstage) ? 0
                       : depth && depth < most                    ? depth
                                                                  : most;
    add_buffers(&b);
    add_parts(&b);
    add_densities(&b);
    kernel_take_names(f->ctx, a, b.kernel);
    return b;
}

static void
add_kernel(const Fusion *f, Graph *to, const NodeId *node, uint32_t n, ValueId *map)
{
    Label label = label_group(f, node, n);
    KernelBuild b = make_kernel(f, to->arena, &label, node, n);
    ValueId *in = NEW_ARRAY(f->arena, ValueId, b.in.n),
            *out = NEW_ARRAY(f->arena, ValueId, b.out.n);

    for (uint32_t i = 0; i < b.in.n; i++)
        in[i] = map[b.in.at[i]];
    for (uint32_t i = 0; i < b.out.n; i++)
        out[i] = map[b.out.at[i]] = graph_copy_value(to, f->g, b.out.at[i]);
    graph_call_kernel(to, b.kernel, label.loc, b.kernel->origin, in, out);
}

const Kernel *
fuse_kernel(const Fusion *f, const NodeId *node, uint32_t n, const void *const **data)
{
    Label label = label_group(f, node, n);
    KernelBuild b = make_kernel(f, f->arena, &label, node, n);
    const void **known = NEW_ARRAY(f->arena, const void *, b.in.n + 1);

    for (uint32_t i = 0; i < b.in.n; i++)
        known[i] = f->g->value.at[b.in.at[i]].data;
    *data = known;
    return b.kernel;
}

static Graph *
add_kernels(const Fusion *f, const Groups *groups)
{
    ValueId *map;
    Graph *to = graph_rebuild(f->g, &map);

    for (uint32_t group = 1; group <= f->plan->ngroup; group++) {
        uint32_t first = groups->first[group];
        add_kernel(f, to, &groups->node[first], groups->first[group + 1] - first, map);
    }
    graph_finish(to, f->g, map);
    return to;
}

Graph *
fuse_apply(const Graph *g, const FusePlan *p)
{
    Ctx *c = g->ctx;
    Arena *scratch = arena_child(c->arena);
    const char *no = fuse_illegal_numbers(g, p);
    Graph *to = NULL;

    if (!no) {
        Fusion f = fuse_compose(g, scratch, p, NULL, NULL);
        Groups groups = fuse_groups(g, scratch, p);
        no = fuse_illegal_kernels(&f, &groups);
        to = no ? NULL : add_kernels(&f, &groups);
    }
    if (no)
        diag_error(&c->diags, DIAG_INTERNAL, (Loc){ 0 }, "fuse: the plan is not legal: %s", no);
    arena_free(scratch);
    return to;
}
