/* answer: the text of an answer, made of the bytes of its tokens as they come.
 *
 * Text is released when it is certain: a character is whole, and what it ends with cannot be the
 * beginning of a stop string. Bytes that are no UTF-8 are released as U+FFFD.
 */
#ifndef SERVE_ANSWER_H
#define SERVE_ANSWER_H

#include <stdbool.h>
#include <stddef.h>

enum { MOST_STOPS = 4, MOST_STOP_BYTES = 64 };

typedef struct {
    char *at;
    size_t n, room;
} Buffer;

/* n bytes behind what is there; false: no memory, and nothing has changed. */
bool buffer_add(Buffer *b, const char *bytes, size_t n);
void buffer_free(Buffer *b);

typedef struct {
    char stop[MOST_STOPS][MOST_STOP_BYTES + 1];
    int nstop;
    Buffer held;  /* bytes that are not released yet */
    Buffer text;  /* what was released; who reads it may empty it */
    bool stopped; /* a stop string came; nothing comes behind it */
} Answer;

/* false: no memory. */
bool answer_add(Answer *a, const char *bytes, size_t n);
bool answer_end(Answer *a); /* what is held is all there will be */
void answer_free(Answer *a);

#endif
