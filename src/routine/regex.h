/* regex: does a regular expression match a whole string?
 *
 * The expression is a program, five numbers an instruction, which import compiles. All paths are
 * followed at once, one character after the other, so the time is at most the product of both
 * lengths (Thompson, 1968).
 *
 *     0            match
 *     1 a b        both a and b
 *     2 a _ k n    a, if the character is in one of n ranges that begin at number k, below 0: in
 *                  none of them
 *     3 a b        a, if one of the bits of b holds here: 1 the string begins, 2 it ends, 4 a word
 *                  boundary, 8 no word boundary
 */
typedef struct {
    int64_t *list, n;
} TnStates;

TN_ROUTINE void
tn_follow(const int64_t *program, TnStates *to, int64_t *mark, int64_t now, int64_t *stack,
          int64_t at, int64_t holds)
{
    int64_t depth = 0;

    stack[depth++] = at;
    while (depth) {
        at = stack[--depth];
        if (mark[at] == now)
            continue;
        mark[at] = now;
        if (program[5 * at] == 1) {
            stack[depth++] = program[5 * at + 2];
            stack[depth++] = program[5 * at + 1];
        } else if (program[5 * at] == 3) {
            if (program[5 * at + 2] & holds)
                stack[depth++] = program[5 * at + 1];
        } else {
            to->list[to->n++] = at;
        }
    }
}
TN_ROUTINE int
tn_is_word(int32_t c)
{
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
/* The conditions between one character (0: none) and the next. */
TN_ROUTINE int64_t
tn_between(int32_t before, const char *s)
{
    int length;
    int32_t next = tn_decode(s, &length);
    return (before ? 0 : 1) | (length ? 0 : 2) | (tn_is_word(before) != tn_is_word(next) ? 4 : 8);
}
TN_ROUTINE int
tn_in_ranges(const int64_t *range, int64_t n, int32_t c)
{
    int64_t some = n < 0 ? -n : n;

    for (int64_t i = 0; i < some; i++)
        if (c >= range[2 * i] && c <= range[2 * i + 1])
            return n > 0;
    return n < 0;
}

TN_ROUTINE int64_t
tn_regex_room(const TnRoutine *r)
{
    return (5 * ((const int64_t *)r->array[1].at)[0] + 8) * (int64_t)sizeof(int64_t);
}

TN_ROUTINE int64_t
tn_regex_plan(const TnRoutine *r, int64_t *scratch)
{
    *scratch = tn_regex_room(r);
    return tn_count(&r->array[0]);
}
/* The states after the character c, in *now. */
TN_ROUTINE void
tn_advance(const int64_t *data, TnStates *now, TnStates *next, int64_t *mark, int64_t step,
           int64_t *stack, int32_t c, int64_t holds)
{
    const TnStates other = *now;

    next->n = 0;
    for (int64_t k = 0; k < other.n; k++) {
        const int64_t *in = data + 1 + 5 * other.list[k];
        if (in[0] == 2 && tn_in_ranges(data + in[3], in[4], c))
            tn_follow(data + 1, next, mark, step, stack, in[1], holds);
    }
    *now = *next;
    *next = other;
}

/* The program: the number of instructions, the instructions, the ranges. */
TN_ROUTINE void
tn_regex_match(const TnArgs *args, int64_t begin, int64_t end, void *scratch)
{
    const TnRoutine *r = (const TnRoutine *)args;
    const int64_t *data = (const int64_t *)r->array[1].at, count = data[0], *program = data + 1;
    int64_t *room = (int64_t *)scratch;
    int length;

    for (int64_t i = begin; i < end; i++) {
        TnStates now = { room, 0 }, next = { room + count, 0 };
        int64_t *mark = room + 2 * count, *stack = room + 3 * count, step = 1;
        int found = 0;
        memset(mark, 0, (size_t)count * sizeof *mark);
        const char *s = tn_string(&r->array[0], i);
        tn_follow(program, &now, mark, step, stack, 0, tn_between(0, s));
        for (int32_t c; (c = tn_decode(s, &length), length) && now.n; s += length) {
            tn_advance(data, &now, &next, mark, ++step, stack, c, tn_between(c, s + length));
        }
        for (int64_t k = 0; k < now.n && !*s; k++)
            found |= program[5 * now.list[k]] == 0;
        ((uint8_t *)r->array[2].at)[i] = (uint8_t)found;
    }
}

/* The longest match that begins at s, after the character `before` (0: none); -1: none. */
TN_ROUTINE int64_t
tn_longest(const int64_t *data, int64_t *room, int32_t before, const char *s)
{
    const int64_t count = data[0], *program = data + 1;
    const char *begin = s;
    TnStates now = { room, 0 }, next = { room + count, 0 };
    int64_t *mark = room + 2 * count, *stack = room + 3 * count, step = 1, longest = -1;
    int length;

    memset(mark, 0, (size_t)count * sizeof *mark);
    tn_follow(program, &now, mark, step, stack, 0, tn_between(before, s));
    for (;;) {
        for (int64_t k = 0; k < now.n; k++)
            longest = program[5 * now.list[k]] == 0 ? s - begin : longest;
        int32_t c = tn_decode(s, &length);
        if (!length || !now.n)
            return longest;
        tn_advance(data, &now, &next, mark, ++step, stack, c, tn_between(c, s + length));
        s += length;
    }
}

/* The tokens of a string: the leftmost longest matches, or the text between them (`between`);
 * tokens of fewer characters than `least` are dropped. */
typedef struct {
    const char *s;
    int32_t before;
    int done;
} TnTokens;

TN_ROUTINE const char *
tn_token(const TnRoutine *r, int64_t *room, TnTokens *t, int64_t *bytes)
{
    const int64_t *program = (const int64_t *)r->array[1].at;
    const int between = r->attr[0] != 0;
    const double least = r->attr[1];
    int length;

    while (!t->done) {
        const char *from = t->s, *at = from;
        int64_t found;
        double skipped = 0;
        int32_t c = t->before;
        for (;; at += length, skipped++) {
            found = tn_longest(program, room, c, at);
            if (found > 0 || !*at)
                break;
            c = tn_decode(at, &length);
        }
        t->done = !*at;
        t->s = at;
        for (const char *end = at + (found > 0 ? found : 0); t->s < end; t->s += length)
            t->before = tn_decode(t->s, &length);
        double characters = 0;
        for (const char *k = at; k < t->s; k += length, characters++)
            tn_decode(k, &length);
        *bytes = between ? at - from : t->s - at;
        if (*bytes && (between ? skipped : characters) >= least)
            return between ? from : at;
    }
    return 0;
}

TN_ROUTINE void
tn_tokens(const TnArgs *args, int64_t begin, int64_t end, void *scratch)
{
    const TnRoutine *r = (const TnRoutine *)args;
    int64_t bytes;

    for (int64_t i = begin; i < end; i++) {
        TnTokens t = { tn_string(&r->array[0], i), 0, 0 };
        int64_t n = 0;
        while (tn_token(r, (int64_t *)scratch, &t, &bytes))
            n++;
        ((int64_t *)r->array[2].at)[i] = n;
    }
}

/* Inputs x, program, the padding after the last token, the most tokens; marks surround them. */
TN_ROUTINE int64_t
tn_tokenize_plan(const TnRoutine *r, int64_t *scratch)
{
    *scratch = tn_regex_room(r);
    return tn_count(&r->array[4]) > 0;
}
TN_ROUTINE void
tn_tokenize(const TnArgs *args, int64_t begin, int64_t end, void *scratch)
{
    const TnRoutine *r = (const TnRoutine *)args;
    const int64_t n = tn_count(&r->array[0]), width = r->array[4].dim[r->array[4].rank - 1];
    TnText *out = (TnText *)r->array[4].at;
    const char *pad = tn_string(&r->array[2], 0);
    const int marks = r->attr[2] != 0;

    (void)begin, (void)end;
    for (int64_t i = 0; i < n; i++, out += width) {
        TnTokens t = { tn_string(&r->array[0], i), 0, 0 };
        int64_t k = 0, bytes;
        if (marks && width)
            out[k++].s = "\x02";
        for (const char *s; k < width && (s = tn_token(r, (int64_t *)scratch, &t, &bytes));) {
            char *to = tn_new_string(r, bytes);
            if (!to)
                return;
            memcpy(to, s, (size_t)bytes);
            out[k++].s = to;
        }
        if (marks && k < width)
            out[k++].s = "\x03";
        while (k < width)
            out[k++].s = pad;
    }
}
