/* names: the table of operators for users, and suggestions for names that are not in it. */
#include "import/converters.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 64 };

/* Edit distance (insert, delete, replace) of two words, ignoring case; UINT32_MAX: one is long. */
static uint32_t
distance(const char *a, const char *b)
{
    uint32_t row[MOST + 1], m = (uint32_t)strlen(a), n = (uint32_t)strlen(b);

    if (m >= MOST || n >= MOST)
        return UINT32_MAX;
    for (uint32_t j = 0; j <= n; j++)
        row[j] = j;
    for (uint32_t i = 1; i <= m; i++) {
        uint32_t before = row[0];
        row[0] = i;
        for (uint32_t j = 1; j <= n; j++) {
            uint32_t here = row[j], replaced = before + ((a[i - 1] | 32) != (b[j - 1] | 32));
            uint32_t dropped = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            row[j] = replaced < dropped ? replaced : dropped;
            before = here;
        }
    }
    return row[n];
}

bool
refuse_operator(Call *k, const char *name)
{
    const char *best = NULL, *dot = strrchr(name, '.');
    /* the domain is not part of the misspelt word */
    uint32_t least = (uint32_t)strlen(dot ? dot + 1 : name) / 3 + 2;

    for (uint32_t i = 0; op_row_at(i); i++)
        if (distance(name, op_row_at(i)->onnx) < least) {
            best = op_row_at(i)->onnx;
            least = distance(name, best);
        }
    if (best)
        return call_refuse(k, "there is no operator %s; did you mean %s?", name, best);
    return call_refuse(
        k,
        "there is no operator %s in ONNX, and Tenon has none of that name; `tenon "
        "operators` lists those it has. Define it as nests in a text (--nests FILE), "
        "or in C in a library (--library FILE)",
        name);
}

/* ---- the table ------------------------------------------------------------------------------- */

static void
add_count(Text *t, uint32_t least, uint32_t most)
{
    if (least == most)
        text_printf(t, "%u", least);
    else if (most == 255)
        text_printf(t, "%u…", least);
    else
        text_printf(t, "%u–%u", least, most);
}

static void
add_cell(Text *t, const char *s)
{
    for (; *s; s++)
        text_printf(t, *s == '|' ? "\\|" : "%c", *s);
}

static void
add_row(Text *t, const OpRow *row)
{
    const OpInfo *info = &op_info[row->op];

    text_printf(t, "| %s | ", row->onnx);
    if (row->op == OP_NONE) {
        text_printf(t, "%s | | | |\n", strcmp(row->onnx, "Constant") ? "several" : "a constant");
        return;
    }
    text_printf(t, "`%s` | ", info->name);
    add_count(t, info->min_in, info->max_in);
    text_add(t, " | ");
    text_add(t, *info->attrs ? "`" : "");
    add_cell(t, info->attrs);
    text_add(t, *info->attrs ? "` | " : "| ");
    add_cell(t, info->meaning);
    text_add(t, " |\n");
}

static int
by_name(const void *x, const void *y)
{
    return strcmp((*(const OpRow *const *)x)->onnx, (*(const OpRow *const *)y)->onnx);
}

void
import_operators(Text *t)
{
    const OpRow *row[512];
    uint32_t n = 0;

    for (uint32_t i = 0; op_row_at(i) && n < sizeof row / sizeof *row; i++)
        if (!op_row_at(i)->control)
            row[n++] = op_row_at(i);
    qsort(row, n, sizeof *row, by_name);
    text_add(
        t,
        "| ONNX | Tenon | inputs | attributes and defaults | meaning |\n|---|---|---|---|---|\n");
    for (uint32_t i = 0; i < n; i++)
        add_row(t, row[i]);
}
