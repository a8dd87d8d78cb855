/* step_copy: operands packed near their readers.
 *
 * A stage copies the value of an operand at each point of some loops, so whatever computes it
 * (padding, a fused producer) is computed once. An image is such a copy whose points are the
 * positions under a window instead, so that all points of the window read one copy (input_tile.h).
 */
#include "schedule/point.h"

#include <string.h>

/* ---- what is copied -------------------------------------------------------------------------- */

/* "rhs", "lhs", or a parameter with one read, under the sum or anywhere; after "part." if there are
 * several parts. */
static const Scalar *
find_operand(Points *p, Sym name, bool anywhere, uint32_t *part)
{
    const char *dot = p->k->npart > 1 ? strchr(name, '.') : NULL, *own = dot ? dot + 1 : name;
    Contraction view;

    *part = dot ? points_part(p, sym_n(p->c, name, (size_t)(dot - name))) : 0;
    if (*part == NO_SLOT)
        return NULL;
    const Nest *n = p->k->part[*part].nest;
    if ((!strcmp(own, "lhs") || !strcmp(own, "rhs")) && nest_contraction(p->c, n, &view))
        return own[0] == 'l' ? view.a : view.b;
    const Scalar *reduce = anywhere ? NULL : part_reduction(p, *part);
    const Scalar *found = NULL;
    uint32_t count = 0;
    FOR_EACH_SCALAR (load, scalar_loads(p->c, reduce ? reduce->arg[0] : n->write[0].value))
        if (load->u.load.slot < n->nin && !strcmp(n->param[load->u.load.slot].name, own)) {
            found = load;
            count++;
        }
    if (count == 1)
        return found;
    points_refuse(p,
                  count ? "%s is read at %u places: which one is meant?"
                        : "nothing reads %s under the sum: it is lhs, rhs or a parameter's name",
                  name, count);
    return NULL;
}

/* ---- where it is known ----------------------------------------------------------------------- */

/* The vector loop on the path from `at` down to a leaf. */
static IterId
lane_loop(const LoopNode *leaf, const LoopNode *at)
{
    for (const LoopNode *n = leaf; n != at; n = n->up)
        if (n->run == WORD_vector)
            return n->iter;
    return 0;
}

static LoopNode *
begin_copy(Points *p, const Step *s, uint32_t part, Copy *c, LoopNode **sub)
{
    LoopNode *at = points_loop(p, s->at), *leaf = at ? part_leaf(p, part) : NULL;

    if (!leaf)
        return NULL;
    /* The loops of a copy of it belong to that copy. */
    for (uint32_t i = 1; i < p->copy.n && !node_inside(leaf, at); i++)
        if (p->copy.at[i].operand == c->operand && !p->copy.at[i].image &&
            node_inside(p->copy.at[i].leaf, at)) {
            c->into = i;
            leaf = p->copy.at[i].leaf;
        }
    if (!node_inside(leaf, at))
        return points_refuse(p, "nothing of it is read inside %s", s->at), NULL;
    for (uint32_t i = 1; i < p->copy.n; i++)
        if (p->copy.at[i].name == s->made[0])
            return points_refuse(p, "the name %s is taken", s->made[0]), NULL;
    for (*sub = leaf; (*sub)->up != at; *sub = (*sub)->up)
        ;
    c->name = s->made[0];
    c->part = part;
    c->at = at;
    return leaf;
}

static LoopNode *
copy_leaf(Points *p, const Copy *c, LoopNode *in, Phase phase, const LoopNode *sub)
{
    LoopNode *leaf = node_new(p, NODE_LEAF, in, phase, NULL);

    leaf->part = c->part;
    leaf->copy = p->copy.n;
    node_move_last(c->at, node_place(c->at, sub)); /* with the loops around it */
    return leaf;
}

/* A copy whose innermost loop is `in`, before `sub`. */
static void
add_copy(Points *p, Copy *c, LoopNode *in, const LoopNode *sub)
{
    c->leaf = copy_leaf(p, c, in, PHASE_COPY, sub);
    if (c->transposed)
        copy_leaf(p, c, c->at, PHASE_TRANSPOSE, sub);
    VEC_PUSH(p->a, &c->at->copies, p->copy.n);
    VEC_PUSH(p->a, &p->copy, *c);
}

/* Can the copy be transposed: are rows lanes where it is read, and lanes unrolled there? */
static bool
is_tile(Points *p, const Copy *c, const LoopNode *leaf)
{
    const Iter *row = &p->iter.at[c->dim[0]], *lane = &p->iter.at[c->dim[1]];
    bool unrolled = false;

    if (c->space != WORD_reg || c->ndim != 2)
        return points_refuse(p, "a tile that is turned is in reg, of two loops");
    for (const LoopNode *n = leaf; n != c->at; n = n->up)
        unrolled |= n->iter == c->dim[1] && n->run == WORD_unroll;
    if (lane_loop(leaf, c->at) != c->dim[0] || !unrolled)
        return points_refuse(p,
                             "a tile is turned between the lanes of %s and an unrolled loop; run "
                             "%s vector, %s unroll",
                             row->name, row->name, lane->name);
    if (!row->inner || !lane->inner || row->factor != lane->factor ||
        (row->factor & (row->factor - 1)))
        return points_refuse(
            p, "%s and %s are the points of splits by one power of two where a tile is turned",
            row->name, lane->name);
    if (dtype_info[c->operand->dtype].bytes < 4)
        return points_refuse(p, "a tile is turned of elements of four bytes or eight");
    return true;
}

/* A skipped reduction runs over its whole axis outside of the skip. */
static IterId
outside_skips(const Points *p, const LoopNode *at, IterId x)
{
    const Iter *it = &p->iter.at[x];

    return it->skip && !node_inside(at, p->skip.at[it->skip].at) ? p->axis[it->part][it->axis] : x;
}

bool
step_stage(Points *p, const Step *s)
{
    Copy c = { .space = s->word, .odd = s->word2 == WORD_odd };
    uint32_t part = NO_SLOT;
    LoopNode *sub, *leaf;

    for (uint32_t i = 1; i < p->copy.n; i++)
        if (p->copy.at[i].name == s->subject) {
            c.operand = p->copy.at[i].operand;
            part = p->copy.at[i].part;
        }
    if (!c.operand && !(c.operand = find_operand(p, s->subject, false, &part)))
        return false;
    if (!(leaf = begin_copy(p, s, part, &c, &sub)))
        return false;
    c.transposed = s->word2 == WORD_turned;
    c.ahead = s->number;
    c.far = s->word2 == WORD_far;
    if (s->word != WORD_reg && s->word != WORD_scratch)
        return points_refuse(p, "a copy is in reg or in scratch, not in %s", word_name[s->word]);
    if ((c.far || s->word2 == WORD_ahead) != (s->number > 0) || (c.ahead && s->word != WORD_reg))
        return points_refuse(p, "what is read into registers is fetched ahead, by a number of "
                                "trips: reg … ahead 4, reg … far 16");
    for (uint32_t i = 0; i < s->nloop; i++)
        if (!(c.dim[c.ndim++] = outside_skips(p, c.at, points_iter(p, s->loop[i]))))
            return false;
    AxisSet axes = c.operand->axes;
    IterId lane = s->word == WORD_reg ? lane_loop(leaf, c.at) : 0, known[STEP_MAX_LOOPS + 1];
    memcpy(known, c.dim, sizeof c.dim);
    known[c.ndim] = lane;
    for (uint32_t x = 0; x < NEST_MAX_AXES; x++)
        if (axes >> x & 1 && !iter_is_known(p, c.at, p->axis[part][x], known, c.ndim + (lane != 0)))
            return points_refuse(p, "%s varies with %s, which neither %s nor the named loops fix",
                                 s->subject, p->iter.at[p->axis[part][x]].name, s->at);
    bool varies = false; /* from lane to lane */
    for (uint32_t x = 0; lane && x < NEST_MAX_AXES; x++)
        varies |= axes >> x & 1 && !iter_is_known(p, c.at, p->axis[part][x], c.dim, c.ndim);
    if (c.transposed && !is_tile(p, &c, leaf))
        return false;
    /* registers hold what the sums read, as far as they read */
    Phase phase = s->word == WORD_reg && !c.transposed ? PHASE_UPDATE : PHASE_COPY;
    LoopNode *in = c.at;
    for (uint32_t i = 0; i < c.ndim; i++) {
        in = node_loop(p, in, c.dim[i], phase, c.name);
        in->run = c.transposed && i > 0 ? WORD_vector
                  : s->word == WORD_reg ? WORD_unroll
                                        : WORD_serial;
    }
    if (varies) {
        in = node_loop(p, in, lane, phase, c.name);
        in->run = WORD_vector;
    }
    add_copy(p, &c, in, sub);
    return true;
}

bool
step_prefetch(Points *p, const Step *s)
{
    Prefetch f = { 0 };

    if (!(f.operand = find_operand(p, s->subject, true, &f.part)) ||
        !(f.at = points_loop(p, s->at)) || !(f.of = points_loop(p, s->loop[0])))
        return false;
    const LoopNode *leaf = part_leaf(p, f.part);
    if (s->nloop > 1 || !f.at->iter || !f.of->iter || (f.at != f.of && !node_inside(f.at, f.of)) ||
        !leaf || !node_inside(leaf, f.at))
        return points_refuse(p, "prefetch is of one loop around %s, inside of which %s is read",
                             s->at, s->subject);
    VEC_PUSH(p->a, &p->prefetch, f);
    return true;
}

/* The axis of a part whose loop began under a name. */
static uint32_t
axis_called(const Points *p, uint32_t part, Sym name)
{
    for (uint32_t x = 0; x < p->k->part[part].nest->naxis; x++)
        if (p->axis[part][x] && p->iter.at[p->axis[part][x]].name == name)
            return x;
    return NO_SLOT;
}

/* A parameter stands for its sliding value, including the test around its read. */
bool
step_image(Points *p, const Step *s)
{
    Copy c = { .space = WORD_scratch, .image = NEW(p->a, InputTile) };
    uint32_t part;
    LoopNode *sub;
    AxisSet wanted = 0, known = 0, inner = 0;

    if (!(c.operand = find_operand(p, s->subject, false, &part)) ||
        !begin_copy(p, s, part, &c, &sub))
        return false;
    const Scalar *reduce = part_reduction(p, part);
    Low l = low_part(p->c, p->a, p->k, p->m, &p->k->part[part]);
    const Scalar *slides =
        reduce ? input_tile_operand(&l, reduce->arg[0], reduce->u.reduce.axes) : NULL;
    if (slides && c.operand->op == S_LOAD && scalar_holds(p->c, slides, c.operand))
        c.operand = slides;
    /* An iterator fused at the tile's pitch slides, whether a window moves along it or not. */
    for (IterId x = 1; x < p->iter.n; x++)
        if (p->iter.at[x].pitched) {
            c.dim[0] = x;
            for (uint32_t i = 0; i < p->iter.at[x].nfrom; i++)
                wanted |= (AxisSet)1 << p->iter.at[p->iter.at[x].from[i]].axis;
        }
    for (uint32_t i = 0; i < s->nloop; i++) {
        uint32_t x = axis_called(p, part, s->loop[i]);
        if (x == NO_SLOT)
            return points_refuse(p, "no axis of it is called %s", s->loop[i]);
        inner |= (AxisSet)1 << x;
    }
    for (uint32_t x = 0; x < l.n->naxis; x++)
        if (l.n->axis[x].kind == AXIS_PARALLEL && iter_is_known(p, c.at, p->axis[part][x], NULL, 0))
            known |= (AxisSet)1 << x;
    InputTileAxes axes = { reduce ? reduce->u.reduce.axes : 0, wanted, known & ~wanted, inner };
    if (!reduce || !input_tile_recognise(&l, c.operand, axes, c.image))
        return points_refuse(p, "%s is not read under a window%s", s->subject,
                             inner ? ", with the named axes behind what slides"
                                   : ": no index is an output and a summed axis with whole steps");
    const InputTile *image = c.image;
    AxisSet open = c.operand->axes & nest_axes_of_kind(l.n, AXIS_PARALLEL) & ~(known | inner);
    for (uint32_t i = 0; i < image->nslide; i++)
        open &= ~((AxisSet)1 << image->slide[i].axis);
    if (open)
        return points_refuse(p, "%s varies with %s, which neither slides nor is fixed at %s",
                             s->subject, p->iter.at[p->axis[part][__builtin_ctzll(open)]].name,
                             s->at);
    c.ndim = c.dim[0] != 0;
    const Expr *row = image->slide[image->nslide - 1].positions;
    c.along = iter_new(p, sym(p->c, "q"), AXIS_PARALLEL);
    p->iter.at[c.along].size = row;
    LoopNode *n = node_new(p, NODE_IMAGE, c.at, PHASE_COPY, NULL);
    n->iter = image->ninner ? p->axis[part][image->inner[image->ninner - 1]] : c.along;
    n->copy = p->copy.n;
    n->lanes = machine_lanes(p->m, c.operand->dtype);
    if (image->ninner)
        row = low_extent(&l, image->inner[image->ninner - 1]);
    while (n->lanes > 2 && n->lanes / 2 >= expr_or(row, INT64_MAX))
        n->lanes /= 2;
    add_copy(p, &c, n, sub);
    return true;
}

/* A format is carried out on the graph, before kernels become points (nest_reindex). */
bool
step_lay(Points *p, const Step *s)
{
    for (uint32_t i = 0; i < p->k->nin; i++)
        if (p->k->buffer.at[i].name == s->subject)
            return true;
    return points_refuse(p, "the kernel has no input %s", s->subject);
}
