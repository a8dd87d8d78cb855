#include "answer.h"

#include <stdlib.h>
#include <string.h>

bool
buffer_add(Buffer *b, const char *bytes, size_t n)
{
    if (n > b->room - b->n) {
        size_t room = 2 * (b->n + n) + 64;
        char *at = realloc(b->at, room);
        if (!at)
            return false;
        *b = (Buffer){ at, b->n, room };
    }
    if (n)
        memcpy(b->at + b->n, bytes, n);
    b->n += n;
    return true;
}

void
buffer_free(Buffer *b)
{
    free(b->at);
    *b = (Buffer){ 0 };
}

/* ---- characters ------------------------------------------------------------------------------ */

/* Bytes of the character at the front of n; 0: it goes on behind them; -1: its first byte begins
 * none. */
static int
character(const unsigned char *c, size_t n)
{
    int length = c[0] < 0x80                   ? 1
                 : c[0] >= 0xc2 && c[0] < 0xe0 ? 2
                 : c[0] >= 0xe0 && c[0] < 0xf0 ? 3
                 : c[0] >= 0xf0 && c[0] < 0xf5 ? 4
                                               : -1;

    for (int i = 1; i < length; i++) {
        if ((size_t)i >= n)
            return 0;
        /* The second byte of four leads is narrower: no second way to write a character, no
         * surrogate, none beyond U+10FFFF. */
        unsigned char low = i > 1 ? 0x80 : c[0] == 0xe0 ? 0xa0 : c[0] == 0xf0 ? 0x90 : 0x80;
        unsigned char high = i > 1 ? 0xbf : c[0] == 0xed ? 0x9f : c[0] == 0xf4 ? 0x8f : 0xbf;
        if (c[i] < low || c[i] > high)
            return -1;
    }
    return length;
}

/* The first n held bytes are text; what of them is no whole character stays, or, at the end, is
 * text too. */
static bool
release(Answer *a, size_t n, bool end)
{
    size_t done = 0;

    while (done < n) {
        int length = character((unsigned char *)a->held.at + done, n - done);
        if (!length && !end)
            break;
        if (!(length > 0 ? buffer_add(&a->text, a->held.at + done, (size_t)length)
                         : buffer_add(&a->text, "\xef\xbf\xbd", 3)))
            return false;
        done += length > 0 ? (size_t)length : 1;
    }
    if (done)
        memmove(a->held.at, a->held.at + done, a->held.n - done);
    a->held.n -= done;
    return true;
}

/* ---- stop strings ---------------------------------------------------------------------------- */

/* Where the first stop string begins in what is held, or might with what comes; *whole: it is all
 * there. */
static size_t
find_stop(const Answer *a, bool *whole)
{
    *whole = false;
    for (size_t i = 0; i < a->held.n; i++)
        for (int k = 0; k < a->nstop; k++) {
            size_t length = strlen(a->stop[k]), left = a->held.n - i,
                   n = length < left ? length : left;
            if (memcmp(a->held.at + i, a->stop[k], n))
                continue;
            *whole = n == length;
            return i;
        }
    return a->held.n;
}

bool
answer_add(Answer *a, const char *bytes, size_t n)
{
    bool whole;

    if (a->stopped)
        return true;
    if (!buffer_add(&a->held, bytes, n))
        return false;
    size_t certain = find_stop(a, &whole);
    if (!release(a, certain, whole))
        return false;
    a->stopped = whole;
    a->held.n = whole ? 0 : a->held.n;
    return true;
}

bool
answer_end(Answer *a)
{
    return release(a, a->held.n, true);
}

void
answer_free(Answer *a)
{
    buffer_free(&a->held);
    buffer_free(&a->text);
}
