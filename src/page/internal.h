/* What the pages share. */
#ifndef TENON_PAGE_INTERNAL_H
#define TENON_PAGE_INTERNAL_H

#include "page/page.h"

extern const char page_layout_text[]; /* the library that places the nodes of a graph */
void page_put(Writer *w, const char *s);
/* JSON as it may be in a script: no text of a model ends the script. */
const char *page_json(Arena *a, const char *json, size_t n);
/* What `tenon bench --profile --json` wrote, as it may be in a script; NULL, reported: it is no
 * such text. */
const char *page_read_profile(Ctx *c, Arena *a, const char *path);

#endif
