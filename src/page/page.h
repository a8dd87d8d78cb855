/* page: what a compilation made of a model, as one HTML page that needs nothing else.
 *
 * The page holds data (JSON: a graph for each stage, the memory plan, a profile), two kept
 * libraries that place and draw graphs, and a program of its own that shows the data (page.js).
 * What is the same in two stages is written once: all texts are numbers of one table.
 *
 * The drawing knows nothing of compilers: nodes with a label, a text and ports, in frames that a
 * slider walks through. Another picture (what was fused with what and why, a tensor's format) is
 * other frames.
 */
#ifndef TENON_PAGE_H
#define TENON_PAGE_H

#include "graph/placement.h"

typedef struct Page Page;
Page *page_new(Ctx *c, Arena *a, const char *title);
/* One more frame: the graph as it is now. A graph equal to the frame before is told to be so. */
void page_graph(Page *p, const char *name, const char *what, const Graph *g);
/* Where values are stored and how long they live; sizes as if every symbol were at least 1 and
 * otherwise at its least. */
void page_memory(Page *p, const Graph *g, const Plan *plan);
/* Times of kernels: what `tenon bench --profile --json` wrote. False with a diagnostic: it is no
 * such text. */
bool page_profile(Page *p, const char *path);
bool page_write(Page *p, const char *path);

/* A page of its own: what fusion decided. fusion: objects as `tenon explain --json` prints them, a
 * graph each, with commas between; orders: lines "; %v: nhwc" of values with another layout than
 * the model says; profile: as above. orders, profile: or NULL. */
bool page_fusion(Ctx *c, Arena *a, const char *path, const char *title, const char *fusion,
                 const char *orders, const char *profile);

#endif
