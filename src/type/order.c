/* order: orders of dimensions by their customary names.
 *
 * "nhwc" names the dimensions of an image's tensor by their usual letters: n c w, n c h w, n c d h
 * w for ranks three, four and five. "0,2,3,1" is the same for any rank: the dimension that comes
 * first, the one that comes second, ….
 */
#include "type/layout.h"

#include <ctype.h>
#include <string.h>

const char *
order_letters(uint32_t rank)
{
    return rank == 3 ? "ncw" : rank == 4 ? "nchw" : rank == 5 ? "ncdhw" : NULL;
}

/* The next dimension of the text; -1: none. */
static int
next_dim(const char **text, const char *letters)
{
    const char *at = *text;
    int d = 0;

    if (letters) {
        const char *found = *at ? strchr(letters, tolower((unsigned char)*at)) : NULL;
        *text = at + 1;
        return found ? (int)(found - letters) : -1;
    }
    if (!isdigit((unsigned char)*at))
        return -1;
    for (; isdigit((unsigned char)*at) && d <= TN_MAX_RANK; at++)
        d = 10 * d + (*at - '0');
    at += strspn(at, ", ");
    *text = at;
    return d;
}

bool
order_read(const char *text, uint32_t rank, uint8_t *order)
{
    const char *letters = isdigit((unsigned char)*text) ? NULL : order_letters(rank);
    uint32_t seen = 0;

    if (!letters && !isdigit((unsigned char)*text))
        return rank == 0 && !*text;
    for (uint32_t i = 0; i < rank; i++) {
        int d = next_dim(&text, letters);
        if (d < 0 || d >= (int)rank || seen >> d & 1)
            return false;
        seen |= 1u << d;
        order[i] = (uint8_t)d;
    }
    return !*text;
}

void
order_print(Text *t, uint32_t rank, const uint8_t *order)
{
    /* tensors of rank three are as often rows, columns and something else */
    const char *letters = rank > 3 ? order_letters(rank) : NULL;

    for (uint32_t i = 0; i < rank; i++) {
        uint32_t d = order ? order[i] : i;
        if (letters)
            text_bytes(t, letters + d, 1);
        else
            text_printf(t, "%s%u", i ? "," : "", d);
    }
}

const char *
order_examples(uint32_t rank)
{
    return rank == 4   ? "nhwc or 0,2,3,1"
           : rank == 3 ? "nwc or 0,2,1"
           : rank == 5 ? "ndhwc or 0,2,3,4,1"
           : rank == 2 ? "1,0"
                       : "dimensions with commas between, each once: 0,2,1 of rank 3";
}

bool
order_is_plain(uint32_t rank, const uint8_t *order)
{
    for (uint32_t d = 0; d < rank; d++)
        if (order && order[d] != d)
            return false;
    return true;
}
