/* fusion: what was fused and why the rest was not, as one HTML page. The data are what `tenon
 * explain --json` prints; the page's program (fusion.js) places the kernels with the library of the
 * other page and draws them itself, so that all words of it can be searched. */
#include "page/internal.h"

#include <string.h>

static const char head_text[] =
#include "fusion_head_text.h"
    ;
static const char program_text[] =
#include "fusion_program_text.h"
    ;

bool
page_fusion(Ctx *c, Arena *a, const char *path, const char *title, const char *fusion,
            const char *orders, const char *profile)
{
    const char *times = profile ? page_read_profile(c, a, profile) : "null";
    Text t = { .arena = a };

    if (!times)
        return false;
    text_member(&t, "{", "title", title);
    text_member(&t, ", ", "orders", orders ? orders : "");
    text_printf(&t, ", \"graphs\": [%s]", fusion);
    const char *data = text_str(&t);
    Writer *w = writer_open(a, &c->diags, path);
    if (!w)
        return false;
    page_put(w, head_text);
    page_put(w, "<script>");
    page_put(w, page_layout_text);
    page_put(w, "</script>\n<script>\nconst data = ");
    page_put(w, page_json(a, data, strlen(data)));
    page_put(w, ",\n\"profile\": ");
    page_put(w, times);
    page_put(w, "};\n");
    page_put(w, program_text);
    page_put(w, "</script>\n");
    return writer_commit(w, 0644);
}
