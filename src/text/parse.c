/* parse: the cursor that all parsers of text forms use.
 *
 * White space and comments (from `;` to the end of the line) only separate tokens. A word matches
 * only as a complete word; a sign does not match a prefix of a longer one (`<` is not in `<=`).
 */
#include "text/parser.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Parse
parse_begin(Ctx *c, const char *file, Bytes text)
{
    const char *s = (const char *)text.data;
    return (Parse){ .ctx = c,
                    .file = file,
                    .start = s,
                    .s = s,
                    .end = s + text.bytes,
                    .line = 1,
                    .line_start = s };
}

static bool
is_word(char ch)
{
    return isalnum((unsigned char)ch) || ch == '_';
}

void
parse_skip(Parse *p)
{
    for (; p->s < p->end; p->s++) {
        if (*p->s == ';')
            while (p->s < p->end && *p->s != '\n')
                p->s++;
        if (p->s == p->end || !isspace((unsigned char)*p->s))
            return;
        if (*p->s == '\n') {
            p->line++;
            p->line_start = p->s + 1;
        }
    }
}

Loc
parse_here(const Parse *p)
{
    return (Loc){ .file = p->file, .line = p->line, .col = (uint32_t)(p->s - p->line_start) + 1 };
}

bool
parse_error(Parse *p, const char *format, ...)
{
    Ctx *c = p->ctx;
    va_list args;
    va_start(args, format);
    diag_error(&c->diags, DIAG_MODEL, parse_here(p), "%s", arena_vprintf(c->arena, format, args));
    va_end(args);
    return false;
}

bool
parse_too_deep(Parse *p, const char *what, uint32_t most)
{
    return diag_error(
        &p->ctx->diags, DIAG_LIMIT, parse_here(p),
        "%s more than %u deep; raise the limit with --max-depth, which is %u and may be %d", what,
        most, depth_levels(p->ctx), DEPTH_MOST);
}

static size_t
word_length(const Parse *p)
{
    size_t n = 0;
    while (p->s + n < p->end && is_word(p->s[n]))
        n++;
    return n;
}

size_t
parse_word(Parse *p)
{
    parse_skip(p);
    size_t n = word_length(p);
    return n && !isdigit((unsigned char)*p->s) ? n : 0;
}

/* The token at the cursor, for messages. */
static const char *
found(Parse *p)
{
    parse_skip(p);
    if (p->s == p->end)
        return "the end of the text";
    size_t n = word_length(p);
    if (n > 40)
        n = 40;
    unsigned char ch = (unsigned char)*p->s;
    if (n == 0 && !isprint(ch))
        return arena_printf(p->ctx->arena, "byte 0x%02x", ch);
    return arena_printf(p->ctx->arena, "`%.*s`", (int)(n ? n : 1), p->s);
}

bool
parse_peek(Parse *p, const char *token)
{
    static const char *const longer[] = { "==", "!=", "<=", ">=", "->", "//" };
    size_t n = strlen(token);
    parse_skip(p);
    if ((size_t)(p->end - p->s) < n || memcmp(p->s, token, n) != 0)
        return false;
    if (is_word(token[n - 1]))
        return p->s + n == p->end || !is_word(p->s[n]);
    for (size_t i = 0; n == 1 && i < sizeof longer / sizeof *longer; i++)
        if (p->end - p->s >= 2 && memcmp(p->s, longer[i], 2) == 0)
            return false;
    return true;
}

bool
parse_accept(Parse *p, const char *token)
{
    if (!parse_peek(p, token))
        return false;
    p->s += strlen(token);
    return true;
}

bool
parse_expect(Parse *p, const char *token)
{
    return parse_accept(p, token) || parse_error(p, "expected `%s`, found %s", token, found(p));
}

bool
parse_end(Parse *p)
{
    parse_skip(p);
    return p->s == p->end;
}

/* ---- names ----------------------------------------------------------------------------------- */

static int
hex_digit(char ch)
{
    if (ch >= '0' && ch <= '9')
        return ch - '0';
    if (ch >= 'a' && ch <= 'f')
        return ch - 'a' + 10;
    return -1;
}

/* "…" with \" \\ \n \t and \xHH; the text inside goes to `out`. */
static bool
quoted(Parse *p, Text *out)
{
    const char *s = p->s + 1;
    for (; s < p->end && *s != '"' && *s != '\n'; s++) {
        char ch = *s;
        if (ch == '\\' && p->end - s >= 2) {
            ch = *++s;
            if (ch == 'n') {
                ch = '\n';
            } else if (ch == 't') {
                ch = '\t';
            } else if (ch == 'x' && p->end - s >= 3 && hex_digit(s[1]) >= 0 &&
                       hex_digit(s[2]) >= 0) {
                ch = (char)(hex_digit(s[1]) * 16 + hex_digit(s[2]));
                s += 2;
            }
        }
        if (ch == 0)
            return parse_error(p, "a quoted text holds a zero byte");
        text_bytes(out, &ch, 1);
    }
    if (s == p->end || *s != '"')
        return parse_error(p, "a quoted text has no closing `\"` on its line");
    p->s = s + 1;
    return true;
}

bool
parse_string(Parse *p, const char **s)
{
    Text t = { .arena = p->ctx->arena };
    parse_skip(p);
    if (p->s == p->end || *p->s != '"')
        return parse_error(p, "expected a quoted text, found %s", found(p));
    if (!quoted(p, &t))
        return false;
    *s = text_str(&t);
    return true;
}

Sym
parse_name(Parse *p)
{
    parse_skip(p);
    if (p->s < p->end && *p->s == '"') {
        Text t = { .arena = p->ctx->arena };
        return quoted(p, &t) ? sym(p->ctx, text_str(&t)) : NULL;
    }
    size_t n = parse_word(p);
    if (n == 0) {
        parse_error(p, "expected a name, found %s", found(p));
        return NULL;
    }
    p->s += n;
    return sym_n(p->ctx, p->s - n, n);
}

void
text_quoted(Text *t, const char *text)
{
    text_add(t, "\"");
    for (const char *s = text; *s; s++) {
        unsigned char ch = (unsigned char)*s;
        if (ch == '"' || ch == '\\')
            text_printf(t, "\\%c", ch);
        else if (ch < ' ' || ch == 127)
            text_printf(t, "\\x%02x", ch);
        else
            text_bytes(t, s, 1);
    }
    text_add(t, "\"");
}

void
text_float(Text *t, DType type, double v)
{
    char s[48];
    if (isnan(v) || isinf(v)) {
        text_add(t, isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
        return;
    }
    bool usual = fabs(v) >= 1 && fabs(v) < 1e6;
    for (int digits = usual ? 1 + (int)log10(fabs(v)) : 1; digits <= 17; digits++) {
        snprintf(s, sizeof s, "%.*g", digits, v);
        if (round_to_dtype(type, strtod(s, NULL)) == v)
            break;
    }
    text_add(t, s);
}

void
text_name(Text *t, const char *name)
{
    bool bare = *name && !isdigit((unsigned char)*name);
    for (const char *s = name; *s; s++)
        bare = bare && is_word(*s);
    if (bare) {
        text_add(t, name);
        return;
    }
    text_quoted(t, name);
}

bool
word_is_reserved(const char *s)
{
    static const char words[] =
        " let in for scan over nest reduce true false inf nan at inside index value broadcast "
        /* of kernels */
        " from lanes evens odds hsum hmax hmin hprod by if else serial parallel unrolled register "
        " scratch local part grain as kept density kernel schedule trips step origin shared "
        " variant ahead far "
        /* of schedules */
        " of exact peel guard pad unroll vector reg odd turned factored pitched lhs rhs ";
    size_t n = strlen(s);
    for (const char *at = words; n && (at = strstr(at, s)); at += n)
        if (at > words && at[-1] == ' ' && at[n] == ' ')
            return true;
    for (Combiner k = COMB_SUM; k < COMB_COUNT; k++)
        if (strlen(combiner_name[k]) == n && memcmp(combiner_name[k], s, n) == 0)
            return true;
    static const char *const lanes[] = { "load", "store", "stream", "splat", "iota" };
    for (size_t i = 0; i < sizeof lanes / sizeof *lanes; i++)
        if (n > strlen(lanes[i]) && memcmp(lanes[i], s, strlen(lanes[i])) == 0 &&
            isdigit((unsigned char)s[strlen(lanes[i])]))
            return true;
    return dtype_from_name(s, n) != DT_NONE || scalar_op_named(s, n) != S_NONE;
}

void
print_word(Text *t, const char *name)
{
    if (word_is_reserved(name))
        text_quoted(t, name);
    else
        text_name(t, name);
}

/* ---- numbers --------------------------------------------------------------------------------- */

#define NUMBER_MAX 64 /* characters of a number; longer ones are refused */

/* The characters of a number, copied so that strtod finds an end. */
static bool
number_text(Parse *p, char *text, size_t *used)
{
    size_t n = 0;
    parse_skip(p);
    const char *s = p->s;
    if (s < p->end && *s == '-')
        n++;
    while (s + n < p->end &&
           (is_word(s[n]) || s[n] == '.' ||
            ((s[n] == '+' || s[n] == '-') && n > 0 && strchr("eEpP", s[n - 1]) && s[n - 1])))
        if (++n >= NUMBER_MAX)
            return parse_error(p, "a number has more than %d characters", NUMBER_MAX - 1);
    memcpy(text, s, n);
    text[n] = 0;
    *used = n;
    return true;
}

bool
parse_int(Parse *p, int64_t *v)
{
    char text[NUMBER_MAX], *end;
    size_t n;
    if (!number_text(p, text, &n))
        return false;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text)
        return parse_error(p, "expected an integer, found %s", found(p));
    if (errno == ERANGE)
        return parse_error(p, "%s does not fit 64 bits", text);
    p->s += end - text;
    *v = value;
    return true;
}

bool
parse_number(Parse *p, double *v)
{
    char text[NUMBER_MAX], *end;
    size_t n;
    if (!number_text(p, text, &n))
        return false;
    *v = strtod(text, &end);
    if (end == text)
        return parse_error(p, "expected a number, found %s", found(p));
    p->s += end - text;
    return true;
}
