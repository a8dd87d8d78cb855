/* format: vsnprintf for the messages of a session: %s, %c, %p, integers of every size with a width
 * and leading zeros, and %.*s.
 */

typedef struct {
    char *to;
    size_t room, n; /* n: characters so far, also those without room */
} Print;

static void
put(Print *p, char c)
{
    if (p->n + 1 < p->room)
        p->to[p->n] = c;
    p->n++;
}

static void
put_number(Print *p, uint64_t x, bool negative, unsigned base, int width, char fill)
{
    char digit[20];
    int n = 0;

    do
        digit[n++] = "0123456789abcdef"[x % base];
    while (x /= base);
    if (negative)
        put(p, '-');
    for (int i = n + negative; i < width; i++)
        put(p, fill);
    while (n)
        put(p, digit[--n]);
}

int
web_vsnprintf(char *to, size_t room, const char *format, va_list args)
{
    Print p = { to, room, 0 };

    for (const char *s = format; *s; s++) {
        if (*s != '%') {
            put(&p, *s);
            continue;
        }
        char fill = *++s == '0' ? *s++ : ' ';
        int width = 0, most = -1, size = 0;
        for (; *s >= '0' && *s <= '9'; s++)
            width = 10 * width + (*s - '0');
        if (*s == '.') {
            most = va_arg(args, int); /* %.*s */
            s += 2;
        }
        for (; *s == 'l' || *s == 'z'; s++)
            size += *s == 'l';
        switch (*s) {
        case 'd':
        case 'u':
        case 'x': {
            uint64_t x = size > 1    ? va_arg(args, uint64_t)
                         : *s == 'd' ? (uint64_t)va_arg(args, int)
                                     : va_arg(args, unsigned);
            bool negative = *s == 'd' && (int64_t)x < 0;
            put_number(&p, negative ? 0 - x : x, negative, *s == 'x' ? 16 : 10, width, fill);
            break;
        }
        case 'p': put_number(&p, (uintptr_t)va_arg(args, void *), false, 16, 0, ' '); break;
        case 'c': put(&p, (char)va_arg(args, int)); break;
        case 's':
            for (const char *text = va_arg(args, const char *); most && *text; text++, most--)
                put(&p, *text);
            break;
        default: put(&p, *s);
        }
    }
    if (room)
        to[p.n < room ? p.n : room - 1] = 0;
    return (int)p.n;
}
