/* text: a string that grows, over an arena (the room src/text is the text form of nests).
 * NUL-terminated once something was added. */
#include "base/base.h"

#include <stdio.h>
#include <string.h>

/* Makes room for n more bytes and the terminator. */
static void
reserve(Text *t, size_t n)
{
    if (t->cap - t->n > n)
        return;
    size_t cap = t->cap ? t->cap * 2 : 64;
    while (cap - t->n <= n)
        cap = cap > SIZE_MAX / 4 ? SIZE_MAX
                                 : cap * 2; /* the arena refuses that, and does not return */
    char *s = arena_alloc(t->arena, cap);
    if (t->n)
        memcpy(s, t->s, t->n);
    t->s = s;
    t->cap = cap;
}

void
text_bytes(Text *t, const char *s, size_t n)
{
    reserve(t, n);
    if (n)
        memcpy(t->s + t->n, s, n);
    t->n += n;
    t->s[t->n] = 0;
}

void
text_add(Text *t, const char *s)
{
    text_bytes(t, s, strlen(s));
}

void
text_vprintf(Text *t, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(t->s ? t->s + t->n : NULL, t->cap - t->n, format, args);
    if (n >= 0) {
        if (t->cap - t->n <= (size_t)n) {
            reserve(t, (size_t)n);
            vsnprintf(t->s + t->n, (size_t)n + 1, format, again);
        }
        t->n += (size_t)n;
    }
    va_end(again);
}

void
text_printf(Text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    text_vprintf(t, format, args);
    va_end(args);
}

void
text_numbers(Text *t, const char *sentence, int64_t at, int64_t got, int64_t want)
{
    const struct {
        const char *name;
        int64_t is;
    } number[] = {
        { "{at}", at },
        { "{got}", got },
        { "{want}", want },
    };

    for (const char *s = sentence; *s;) {
        const char *from = s;
        for (int i = 0; i < 3; i++)
            if (s == from && !strncmp(s, number[i].name, strlen(number[i].name))) {
                text_printf(t, "%lld", (long long)number[i].is);
                s += strlen(number[i].name);
            }
        if (s == from)
            text_printf(t, "%c", *s++);
    }
}

const char *
text_str(const Text *t)
{
    return t->n ? t->s : "";
}

void
text_indent(Text *t, int depth)
{
    for (int i = 0; i < depth; i++)
        text_bytes(t, "  ", 2);
}

void
text_count(Text *t, uint64_t n, const char *what)
{
    text_printf(t, "%llu %s%s", (unsigned long long)n, what, n == 1 ? "" : "s");
}

void
text_size(Text *t, int64_t bytes)
{
    static const char *const unit[] = { "B", "KB", "MB", "GB", "TB" };
    double size = (double)bytes;
    int u = 0;

    for (; size >= (u ? 999.95 : 1000) && u < 4; u++) /* three digits before the point */
        size /= 1024;
    text_printf(t, u ? "%.1f %s" : "%.0f %s", size, unit[u]);
}

/* The bytes of the character at s in UTF-8, from two on; 0: it is none. Source: RFC 3629. */
static size_t
utf8_bytes(const unsigned char *s)
{
    size_t n = s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : s[0] < 0xf5 ? 4 : 0;

    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    bool too_long = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90),
         no_character = (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf4 && s[1] > 0x8f);
    return n && !too_long && !no_character ? n : 0;
}

void
text_json(Text *t, const char *s)
{
    text_add(t, "\"");
    for (size_t n; *s; s += n) {
        unsigned char c = (unsigned char)*s;
        n = c < 0x80 ? 1 : utf8_bytes((const unsigned char *)s);
        if (c == '"' || c == '\\')
            text_printf(t, "\\%c", c);
        else if (c < ' ')
            text_printf(t, "\\u%04x", c);
        else if (n)
            text_bytes(t, s, n);
        else
            text_add(t, "\\ufffd");
        n = n ? n : 1;
    }
    text_add(t, "\"");
}

void
text_member(Text *t, const char *before, const char *name, const char *value)
{
    if (!value)
        return;
    text_printf(t, "%s\"%s\": ", before, name);
    text_json(t, value);
}

void
text_comment(Text *t, const char *s)
{
    for (; s && *s; s++)
        if (s[0] == '*' && s[1] == '/')
            text_add(t, "* ");
        else
            text_bytes(t, (unsigned char)*s < ' ' ? " " : s, 1);
}

void
text_seconds(Text *t, double s)
{
    if (s < 1e-3)
        text_printf(t, "%.4g us", s * 1e6);
    else if (s < 1)
        text_printf(t, "%.4g ms", s * 1e3);
    else
        text_printf(t, "%.4g s", s);
}
