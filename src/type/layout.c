/* layout: the text of layouts, and the dimensions that follow from them. */
#include "type/layout.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

enum { MOST = 1 << 20 }; /* limit: of a block, of a border on one side [elements] */

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct {
    const char *at, *letters;
    uint32_t rank;
} Reader;

/* The next number; -1: none, or too large. */
static int64_t
read_number(Reader *r)
{
    int64_t n = 0;

    if (!isdigit((unsigned char)*r->at))
        return -1;
    for (; isdigit((unsigned char)*r->at) && n <= MOST; r->at++)
        n = 10 * n + (*r->at - '0');
    return n <= MOST ? n : -1;
}

/* The next dimension; -1: none. */
static int
read_dim(Reader *r)
{
    if (!r->letters) {
        int64_t d = read_number(r);
        return d < (int64_t)r->rank ? (int)d : -1;
    }
    const char *found = *r->at ? strchr(r->letters, tolower((unsigned char)*r->at)) : NULL;
    r->at++;
    return found ? (int)(found - r->letters) : -1;
}

static bool
accept(Reader *r, char c)
{
    if (*r->at != c)
        return false;
    r->at++;
    return true;
}

/* One part: `c` or `16c`; `1`, `1/16` or `1%16`. With letters, the divisor of a part follows from
 * the blocks behind it. */
static bool
read_part(Reader *r, FormatPart *part)
{
    int64_t block = r->letters && isdigit((unsigned char)*r->at) ? read_number(r) : 0, div = 1;
    int d = block < 0 ? -1 : read_dim(r);

    if (d < 0)
        return false;
    if (!r->letters && accept(r, '/') && (div = read_number(r)) <= 0)
        return false;
    if (!r->letters && accept(r, '%') && (block = read_number(r)) <= 0)
        return false;
    *part = (FormatPart){ (uint8_t)d, div, block };
    return r->letters || !*r->at || *r->at == '+' ||
           (accept(r, ',') && (r->at += strspn(r->at, " "), true));
}

/* h1, h0:2; 2:1, 2:0:2 */
static bool
read_room(Reader *r, Layout *l)
{
    int d = read_dim(r);

    if (d < 0 || (!r->letters && !accept(r, ':')))
        return false;
    l->before[d] = l->after[d] = read_number(r);
    if (l->before[d] >= 0 && accept(r, ':'))
        l->after[d] = read_number(r);
    return l->before[d] >= 0 && l->after[d] >= 0 && (r->letters || !*r->at || accept(r, ','));
}

/* The divisor of a part by the blocks behind it, or around it if it is the rest; 0: too large. */
static int64_t
divisor(const FormatPart *part, uint32_t n, uint32_t p)
{
    int64_t div = 1;

    for (uint32_t q = 0; q < n; q++)
        if (part[q].dim == part[p].dim && part[q].mod && (!part[p].mod || q > p))
            div = div > INT64_MAX / part[q].mod ? 0 : div * part[q].mod;
    return div;
}

/* The part of dimension d with this divisor. */
static const FormatPart *
part_with(const Format *f, uint32_t d, int64_t div)
{
    for (uint32_t p = 0; p < f->npart; p++)
        if (f->part[p].dim == d && f->part[p].div == div)
            return &f->part[p];
    return NULL;
}

bool
format_tiles(const Format *f, uint32_t rank)
{
    uint32_t used = 0;

    for (uint32_t d = 0; d < rank; d++) {
        int64_t div = 1;
        const FormatPart *part = part_with(f, d, div);
        for (; part && part->mod; part = part_with(f, d, div)) {
            if (part->mod < 2 || div > INT64_MAX / MOST / part->mod)
                return false;
            div *= part->mod;
            used++;
        }
        if (!part)
            return false;
        used++;
    }
    return used == f->npart;
}

bool
layout_read(Arena *a, const char *text, uint32_t rank, Layout *l)
{
    bool said = strpbrk(text, "/%,") != NULL;
    Reader r = { text, said ? NULL : order_letters(rank), rank };
    FormatPart *part = NEW_ARRAY(a, FormatPart, TN_MAX_RANK);
    uint32_t n = 0;

    *l = (Layout){ .rank = (uint8_t)rank, .format = { .part = part } };
    for (; *r.at && *r.at != '+'; n++)
        if (n == TN_MAX_RANK || !read_part(&r, &part[n]))
            return false;
    if (r.letters)
        for (uint32_t p = 0; p < n; p++)
            part[p].div = divisor(part, n, p);
    l->format.npart = n;
    if (accept(&r, '+'))
        do {
            if (!read_room(&r, l))
                return false;
        } while (*r.at);
    return format_tiles(&l->format, rank);
}

/* ---- printing -------------------------------------------------------------------------------- */

/* Does the divisor of each part follow from the blocks behind it? */
static bool
is_in_letters(const Layout *l)
{
    for (uint32_t p = 0; p < l->format.npart; p++)
        if (l->format.part[p].div != divisor(l->format.part, l->format.npart, p))
            return false;
    return true;
}

static void
print_room(Text *t, const Layout *l, const char *letters)
{
    bool any = false;

    for (uint32_t d = 0; d < l->rank; d++) {
        if (!l->before[d] && !l->after[d])
            continue;
        text_add(t, any ? letters ? "" : "," : "+");
        if (letters)
            text_bytes(t, letters + d, 1);
        else
            text_printf(t, "%u:", d);
        text_printf(t, "%" PRId64, l->before[d]);
        if (l->after[d] != l->before[d])
            text_printf(t, ":%" PRId64, l->after[d]);
        any = true;
    }
}

void
layout_print(Text *t, uint32_t rank, const Layout *l)
{
    const char *letters = rank > 3 && l && is_in_letters(l) ? order_letters(rank) : NULL;

    if (!l) {
        order_print(t, rank, NULL);
        return;
    }
    for (uint32_t p = 0; p < l->format.npart; p++) {
        FormatPart part = l->format.part[p];
        if (letters) {
            if (part.mod)
                text_printf(t, "%" PRId64, part.mod);
            text_bytes(t, letters + part.dim, 1);
            continue;
        }
        text_printf(t, "%s%u", p ? "," : "", part.dim);
        if (part.div != 1)
            text_printf(t, "/%" PRId64, part.div);
        if (part.mod)
            text_printf(t, "%%%" PRId64, part.mod);
    }
    print_room(t, l, letters);
}

/* ---- what it is ------------------------------------------------------------------------------ */

const Layout *
layout_of_order(Arena *a, uint32_t rank, const uint8_t *order)
{
    Layout *l = NEW(a, Layout);
    FormatPart *part = NEW_ARRAY(a, FormatPart, rank + 1);

    for (uint32_t d = 0; d < rank; d++)
        part[d] = (FormatPart){ order[d], 1, 0 };
    *l = (Layout){ .rank = (uint8_t)rank, .format = { rank, part } };
    return l;
}

bool
layout_is_order(const Layout *l)
{
    for (uint32_t d = 0; d < l->rank; d++)
        if (l->before[d] || l->after[d])
            return false;
    return l->format.npart == l->rank;
}

bool
layout_is_plain(const Layout *l)
{
    for (uint32_t p = 0; p < l->format.npart; p++)
        if (l->format.part[p].dim != p)
            return false;
    return layout_is_order(l);
}

bool
layout_same(const Layout *a, const Layout *b)
{
    if (!a || !b || a->rank != b->rank || !format_same(&a->format, &b->format))
        return a == b;
    return !memcmp(a->before, b->before, sizeof a->before) &&
           !memcmp(a->after, b->after, sizeof a->after);
}

const Expr *
layout_padded(Ctx *c, const Layout *l, const Type *t, uint32_t d)
{
    return expr_add(c, t->dim[d], expr_int(c, l->before[d] + l->after[d]));
}

const Type *
layout_type(Ctx *c, const Layout *l, const Type *t)
{
    const Expr *dim[TN_MAX_RANK];

    for (uint32_t p = 0; p < l->format.npart; p++) {
        FormatPart part = l->format.part[p];
        dim[p] = part.mod
                     ? expr_int(c, part.mod)
                     : expr_ceil_div(c, layout_padded(c, l, t, part.dim), expr_int(c, part.div));
    }
    return type_new(c, t->dtype, l->format.npart, dim);
}

bool
layout_has_room(Ctx *c, const Layout *l, const Type *t, uint32_t d)
{
    for (uint32_t p = 0; p < l->format.npart; p++) {
        FormatPart part = l->format.part[p];
        if (part.dim == d && !part.mod && part.div > 1 &&
            !expr_exact_div(c, layout_padded(c, l, t, d), expr_int(c, part.div)))
            return true;
    }
    return l->before[d] || l->after[d];
}

void
layout_index(Ctx *c, const Layout *l, const Expr *const *at, const Expr **to)
{
    for (uint32_t p = 0; p < l->format.npart; p++) {
        FormatPart part = l->format.part[p];
        const Expr *e =
            expr_div(c, expr_offset(c, at[part.dim], l->before[part.dim]), expr_int(c, part.div));
        to[p] = part.mod ? expr_mod(c, e, expr_int(c, part.mod)) : e;
    }
}
