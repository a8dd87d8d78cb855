/* step_stream: non-temporal stores.
 *
 * A line that vectors write completely need not be read from memory first, which takes half of the
 * time if accesses are strided and hardware does not prefetch. It is not in a cache afterwards: its
 * reader waits for memory. The price decides whether that pays; here it is only required that
 * nothing in this kernel reads it. That vectors are complete lines shows when the tree is made.
 */
#include "schedule/point.h"

static bool
part_touches(const Points *p, const Part *part, uint32_t b, bool *reads, bool *adds)
{
    const Nest *n = part->nest;
    Accesses all = nest_accesses(p->c, p->a, n);
    bool writes = false;

    for (uint32_t i = 0; i < all.n; i++)
        *reads |= part->buffer[all.at[i].load->u.load.slot] == b;
    for (uint32_t i = 0; i < n->nwrite; i++)
        if (part->buffer[n->write[i].out] == b) {
            writes = true;
            *adds |= n->write[i].combiner != COMB_NONE;
        }
    return writes;
}

bool
step_stream(Points *p, const Step *s)
{
    const Kernel *k = p->k;
    uint32_t b = k->nin;
    bool reads = false, adds = false;

    while (b < k->nin + k->nout && k->buffer.at[b].name != s->subject)
        b++;
    if (b == k->nin + k->nout)
        return points_refuse(p, "%s is no output of the kernel: nothing else leaves it",
                             s->subject);
    for (uint32_t i = 0; i < k->npart; i++)
        adds |= part_touches(p, &k->part[i], b, &reads, &adds) && part_is_filled(p, i);
    if (adds)
        return points_refuse(p, "%s is filled first, and added to: it has to be near", s->subject);
    if (reads)
        return points_refuse(p, "%s is read in this kernel: it has to be near", s->subject);
    if (!p->stream)
        p->stream = NEW_ARRAY(p->a, Stream, k->nin + k->nout);
    p->stream[b] = STREAM_ASKED;
    return true;
}

bool
streams_are_lines(Points *p)
{
    for (uint32_t b = 0; p->stream && b < p->k->nin + p->k->nout; b++)
        if (p->stream[b] != STREAM_NONE && p->stream[b] != STREAM_MADE)
            return points_refuse(p,
                                 "%s goes past the caches in vectors that are whole lines of %u "
                                 "bytes: vectors of it have %u bytes, %s",
                                 p->k->buffer.at[b].name, p->m->line_bytes, p->m->vector_bytes,
                                 p->stream[b] == STREAM_TORN ? "and some begin inside a line"
                                                             : "and none of them is whole");
    return true;
}
