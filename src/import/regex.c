/* regex: compiles regular expressions, in the syntax of RE2, to programs for a library routine.
 *
 *     a|b  ab  a*  a+  a?  a{2,5}  (a)  (?:a)  .  [a-z]  [^a-z]  [[:alpha:]]  \d \w \s  \x41  ^ $
 *     \A \z \b \B
 *
 * An expression becomes a tree, and the tree a sequence of instructions. The complete string is
 * matched, so greedy and lazy repetitions are the same. Flags and Unicode classes are refused.
 */
#include "import/converters.h"

#include <string.h>

enum { MOST_INSTRUCTIONS = 20000, MOST_REPEATS = 1000, MOST_NESTING = 200 };

typedef enum { EMPTY, SET, HERE, BOTH, EITHER, REPEAT } RegexNodeKind;
typedef struct RegexNode {
    RegexNodeKind kind;
    const struct RegexNode *a, *b;
    uint32_t first, n; /* SET: ranges; HERE: n is the condition */
    bool negative;
    int64_t least, most; /* REPEAT; most -1: any number */
} RegexNode;

typedef struct {
    Call *k;
    const char *begin, *s, *end;
    uint32_t depth;
    VEC(int64_t) range;
    VEC(int64_t) program;
    bool failed;
} Regex;

static const RegexNode *
refuse(Regex *x, const char *what)
{
    if (!x->failed)
        call_refuse(x->k, "the pattern \"%s\": %s at character %d", x->begin, what,
                    (int)(x->s - x->begin) + 1);
    x->failed = true;
    return NULL;
}

static const RegexNode *
piece(Regex *x, RegexNode t)
{
    return arena_copy(x->k->arena, &t, sizeof t);
}

/* ---- characters ------------------------------------------------------------------------------ */

static void
add_range(Regex *x, int64_t first, int64_t last)
{
    VEC_PUSH(x->k->arena, &x->range, first);
    VEC_PUSH(x->k->arena, &x->range, last);
}

/* The complement of n sorted ranges. */
static void
add_others(Regex *x, const int64_t *range, uint32_t n)
{
    int64_t next = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (range[2 * i] > next)
            add_range(x, next, range[2 * i] - 1);
        next = range[2 * i + 1] + 1;
    }
    add_range(x, next, 0x10ffff);
}

static int64_t
character(Regex *x)
{
    const unsigned char *s = (const unsigned char *)x->s;
    int more = s[0] >= 0xf0 ? 3 : s[0] >= 0xe0 ? 2 : s[0] >= 0xc0 ? 1 : 0;
    int64_t c = more ? s[0] & (0x3f >> more) : s[0];

    for (int i = 1; i <= more; i++) {
        if (x->s + i >= x->end || (s[i] & 0xc0) != 0x80) {
            x->s++;
            return s[0];
        }
        c = c << 6 | (s[i] & 0x3f);
    }
    x->s += more + 1;
    return c;
}

/* The class of a letter after a backslash; false: none. */
static bool
class_of(Regex *x, char letter)
{
    static const int64_t digit[] = { '0', '9' }, space[] = { '\t', '\n', '\f', '\r', ' ', ' ' },
                         word[] = { '0', '9', 'A', 'Z', '_', '_', 'a', 'z' };
    const int64_t *range = strchr("dD", letter)   ? digit
                           : strchr("sS", letter) ? space
                           : strchr("wW", letter) ? word
                                                  : NULL;
    uint32_t n = range == digit ? 1 : range == space ? 3 : 4;

    if (!letter || !range)
        return false;
    if (letter < 'a')
        add_others(x, range, n);
    else
        for (uint32_t i = 0; i < n; i++)
            add_range(x, range[2 * i], range[2 * i + 1]);
    return true;
}

static int64_t
hex(Regex *x)
{
    bool braced = x->s < x->end && *x->s == '{';
    int64_t c = 0;
    int digits = 0;

    x->s += braced;
    for (; x->s < x->end && strchr("0123456789abcdefABCDEF", *x->s) && *x->s &&
           digits < (braced ? 6 : 2);
         x->s++, digits++)
        c = c * 16 + (*x->s <= '9' ? *x->s - '0' : (*x->s | 32) - 'a' + 10);
    if (braced && (x->s >= x->end || *x->s++ != '}'))
        refuse(x, "no end of \\x{");
    if (!digits || c > 0x10ffff)
        refuse(x, "no code point behind \\x");
    return c;
}

/* The character that an escape stands for. */
static int64_t
escaped(Regex *x)
{
    static const char letters[] = "tnrfva", meant[] = "\t\n\r\f\v\a";
    char c = *x->s++;
    const char *at = c ? strchr(letters, c) : NULL;

    if (at)
        return meant[at - letters];
    if (c == 'x')
        return hex(x);
    if ((c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z'))
        refuse(x, "an escape that Tenon does not know");
    return (unsigned char)c;
}

static bool
named_class(Regex *x)
{
    static const struct {
        const char *name;
        int64_t range[8];
        uint32_t n;
    } row[] = {
        { "alpha", { 'A', 'Z', 'a', 'z' }, 2 },
        { "digit", { '0', '9' }, 1 },
        { "alnum", { '0', '9', 'A', 'Z', 'a', 'z' }, 3 },
        { "upper", { 'A', 'Z' }, 1 },
        { "lower", { 'a', 'z' }, 1 },
        { "space", { '\t', '\r', ' ', ' ' }, 2 },
        { "blank", { '\t', '\t', ' ', ' ' }, 2 },
        { "punct", { '!', '/', ':', '@', '[', '`', '{', '~' }, 4 },
        { "xdigit", { '0', '9', 'A', 'F', 'a', 'f' }, 3 },
        { "word", { '0', '9', 'A', 'Z', '_', '_', 'a', 'z' }, 4 },
        { "print", { ' ', '~' }, 1 },
        { "graph", { '!', '~' }, 1 },
        { "cntrl", { 0, 31, 127, 127 }, 2 },
    };
    for (uint32_t i = 0; i < sizeof row / sizeof *row; i++) {
        size_t n = strlen(row[i].name);
        if ((size_t)(x->end - x->s) < n + 4 || strncmp(x->s + 2, row[i].name, n) ||
            strncmp(x->s + 2 + n, ":]", 2))
            continue;
        for (uint32_t k = 0; k < row[i].n; k++)
            add_range(x, row[i].range[2 * k], row[i].range[2 * k + 1]);
        x->s += n + 4;
        return true;
    }
    refuse(x, "a class that Tenon does not know");
    return false;
}

static const RegexNode *
parse_set(Regex *x)
{
    RegexNode t = { .kind = SET, .first = x->range.n / 2 };

    t.negative = x->s < x->end && *x->s == '^';
    x->s += t.negative;
    for (bool first = true; x->s < x->end && (first || *x->s != ']') && !x->failed; first = false) {
        if (*x->s == '[' && x->s + 1 < x->end && x->s[1] == ':') {
            named_class(x);
            continue;
        }
        int64_t low, high;
        if (*x->s == '\\' && x->s + 1 < x->end) {
            x->s++;
            if (class_of(x, *x->s)) {
                x->s++;
                continue;
            }
            low = escaped(x);
        } else {
            low = character(x);
        }
        high = low;
        if (x->s + 1 < x->end && *x->s == '-' && x->s[1] != ']') {
            x->s++;
            high = *x->s == '\\' && x->s + 1 < x->end ? (x->s++, escaped(x)) : character(x);
        }
        if (high < low)
            return refuse(x, "a range that ends before it begins");
        add_range(x, low, high);
    }
    if (x->s >= x->end || *x->s++ != ']')
        return refuse(x, "no end of [");
    t.n = x->range.n / 2 - t.first;
    return piece(x, t);
}

/* ---- parts of an expression ------------------------------------------------------------------ */

static const RegexNode *parse_either(Regex *x);

static const RegexNode *
one(Regex *x, int64_t c)
{
    RegexNode t = { .kind = SET, .first = x->range.n / 2, .n = 1 };

    add_range(x, c, c);
    return piece(x, t);
}

static const RegexNode *
parse_group(Regex *x)
{
    if (x->s < x->end && *x->s == '?') {
        const char *name =
            x->end - x->s > 2 && (!strncmp(x->s, "?P<", 3) || !strncmp(x->s, "?<", 2))
                ? memchr(x->s, '>', (size_t)(x->end - x->s))
                : NULL;
        if (name)
            x->s = name + 1;
        else if (x->end - x->s > 1 && x->s[1] == ':')
            x->s += 2;
        else
            return refuse(x, "a flag, which Tenon does not know,");
    }
    const RegexNode *t = parse_either(x);
    if (!t || x->s >= x->end || *x->s++ != ')')
        return refuse(x, "no end of (");
    return t;
}

static const RegexNode *
parse_atom(Regex *x)
{
    char c = *x->s;

    if (c == '(' || c == '[') {
        x->s++;
        return c == '(' ? parse_group(x) : parse_set(x);
    }
    if (c == '.') {
        x->s++;
        const RegexNode *t = one(x, '\n');
        ((RegexNode *)t)->negative = true;
        return t;
    }
    if (c == '^' || c == '$') {
        x->s++;
        return piece(x, (RegexNode){ .kind = HERE, .n = c == '^' ? 1 : 2 });
    }
    if (strchr("*+?", c))
        return refuse(x, "a repetition of nothing");
    if (c == '\\') {
        if (++x->s >= x->end)
            return refuse(x, "nothing behind \\");
        static const char places[] = "AzbB";
        const char *place = strchr(places, *x->s);
        if (place) {
            x->s++;
            return piece(x, (RegexNode){ .kind = HERE, .n = 1u << (place - places) });
        }
        RegexNode t = { .kind = SET, .first = x->range.n / 2 };
        if (class_of(x, *x->s)) {
            x->s++;
            t.n = x->range.n / 2 - t.first;
            return piece(x, t);
        }
        return one(x, escaped(x));
    }
    return one(x, character(x));
}

static bool
number(Regex *x, int64_t *v)
{
    const char *from = x->s;

    for (*v = 0; x->s < x->end && *x->s >= '0' && *x->s <= '9' && *v <= MOST_REPEATS; x->s++)
        *v = *v * 10 + (*x->s - '0');
    return x->s > from;
}

/* {2}, {2,}, {2,5}; otherwise the brace is a character. */
static bool
counted(Regex *x, int64_t *least, int64_t *most)
{
    const char *from = x->s++;
    bool ok = number(x, least);

    *most = *least;
    if (ok && x->s < x->end && *x->s == ',') {
        x->s++;
        if (!number(x, most))
            *most = -1;
    }
    if (ok && x->s < x->end && *x->s == '}') {
        x->s++;
        return true;
    }
    x->s = from;
    return false;
}

static const RegexNode *
parse_repeat(Regex *x)
{
    const RegexNode *t = parse_atom(x);
    int64_t least = 0, most = 0;

    for (bool again = false; t && x->s < x->end && strchr("*+?{", *x->s); again = true) {
        if (again && *x->s != '{')
            return refuse(x, "a repetition of a repetition");
        if (*x->s == '{') {
            if (!counted(x, &least, &most))
                break;
            if (least > MOST_REPEATS || most > MOST_REPEATS || (most >= 0 && most < least))
                return refuse(x, "a repetition of more than 1000, or to less than from,");
            if (again)
                return refuse(x, "a repetition of a repetition");
        } else {
            least = *x->s == '+';
            most = *x->s++ == '?' ? 1 : -1;
        }
        x->s += x->s < x->end && *x->s == '?'; /* lazy */
        t = piece(x, (RegexNode){ .kind = REPEAT, .a = t, .least = least, .most = most });
    }
    return t;
}

static const RegexNode *
parse_either(Regex *x)
{
    const RegexNode *all = NULL;

    if (++x->depth > MOST_NESTING)
        return refuse(x, "more than 200 groups in each other");
    for (;;) {
        const RegexNode *t = piece(x, (RegexNode){ .kind = EMPTY });
        while (x->s < x->end && *x->s != '|' && *x->s != ')') {
            const RegexNode *next = parse_repeat(x);
            if (!next || x->failed)
                return NULL;
            t = piece(x, (RegexNode){ .kind = BOTH, .a = t, .b = next });
        }
        all = all ? piece(x, (RegexNode){ .kind = EITHER, .a = all, .b = t }) : t;
        if (x->s >= x->end || *x->s != '|')
            break;
        x->s++;
    }
    x->depth--;
    return all;
}

/* ---- the program ----------------------------------------------------------------------------- */

static uint32_t
instruction(Regex *x, int64_t what, int64_t a, int64_t b, int64_t first, int64_t n)
{
    const int64_t v[5] = { what, a, b, first, n };
    uint32_t at = x->program.n / 5;

    if (at >= MOST_INSTRUCTIONS) {
        refuse(x, "too long a program");
        return 0;
    }
    for (int i = 0; i < 5; i++)
        VEC_PUSH(x->k->arena, &x->program, v[i]);
    return at;
}

static int64_t
here(const Regex *x)
{
    return x->program.n / 5;
}

static void emit(Regex *x, const RegexNode *t);

/* Alternatives in their order: each but the last leads to the end. */
static void
emit_either(Regex *x, const RegexNode *t)
{
    VEC(const RegexNode *) other = { 0 };
    VEC(int64_t) over = { 0 };

    for (; t->kind == EITHER; t = t->a)
        VEC_PUSH(x->k->arena, &other, t->b);
    for (uint32_t i = other.n; i > 0 && !x->failed; i--) {
        int64_t at = instruction(x, 1, here(x) + 1, 0, 0, 0);
        emit(x, i < other.n ? other.at[i] : t);
        VEC_PUSH(x->k->arena, &over, instruction(x, 1, 0, 0, 0, 0));
        x->program.at[5 * at + 2] = here(x);
    }
    emit(x, other.at[0]);
    for (uint32_t i = 0; i < over.n && !x->failed; i++)
        x->program.at[5 * over.at[i] + 1] = x->program.at[5 * over.at[i] + 2] = here(x);
}

/* Chains of BOTH and of EITHER are as long as the pattern: loops follow them, no recursion. */
static void
emit(Regex *x, const RegexNode *t)
{
    VEC(const RegexNode *) later = { 0 };
    int64_t at;

    for (; t->kind == BOTH; t = t->a)
        VEC_PUSH(x->k->arena, &later, t->b);
    switch (t->kind) {
    case EMPTY:
    case BOTH: break;
    case SET:
        instruction(x, 2, here(x) + 1, 0, t->first, t->negative ? -(int64_t)t->n : t->n);
        break;
    case HERE: instruction(x, 3, here(x) + 1, t->n, 0, 0); break;
    case EITHER: emit_either(x, t); break;
    case REPEAT:
        for (int64_t i = 0; i < t->least && !x->failed; i++) {
            at = here(x);
            emit(x, t->a);
            if (here(x) == at) /* any number of nothing is nothing */
                break;
        }
        /* without a limit the last copy leads back to its beginning */
        for (int64_t i = t->least; (i < t->most || (t->most < 0 && i == t->least)) && !x->failed;
             i++) {
            at = instruction(x, 1, here(x) + 1, 0, 0, 0);
            emit(x, t->a);
            if (t->most < 0)
                instruction(x, 1, at, at, 0, 0);
            if (!x->failed)
                x->program.at[5 * at + 2] = here(x);
        }
        break;
    }
    for (uint32_t i = later.n; i-- > 0 && !x->failed;)
        emit(x, later.at[i]);
}

ValueId
regex_program(Call *k, const char *pattern)
{
    Regex x = { .k = k, .begin = pattern, .s = pattern, .end = pattern + strlen(pattern) };
    const RegexNode *t = parse_either(&x);

    if (t && x.s < x.end)
        t = refuse(&x, "a ) without (");
    if (!t || x.failed)
        return 0;
    emit(&x, t);
    instruction(&x, 0, 0, 0, 0, 0);
    if (x.failed)
        return 0;
    int64_t count = here(&x), base = 1 + 5 * count,
            *all = NEW_ARRAY(k->arena, int64_t, (size_t)base + x.range.n + 1);
    all[0] = count;
    for (uint32_t i = 0; i < x.program.n; i++)
        all[1 + i] =
            x.program.at[i] + (i % 5 == 3 && x.program.at[i - 3] == 2 ? x.program.at[i] + base : 0);
    for (uint32_t i = 0; i < x.range.n; i++)
        all[base + i] = x.range.at[i];
    return call_ints(k, "program", (uint32_t)base + x.range.n, all);
}
