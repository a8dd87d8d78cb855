/* prelude_text: the characters of strings that a run makes.
 *
 * They lie in blocks, the newest in front: each begins with the one before it and how much of it is
 * used. All go when the run ends; what leaves the model is copied, addresses first, characters
 * behind them.
 */
typedef struct { TnBlock before; int64_t used; } TnTextHead;

__attribute__((unused)) static char *
tn_text(void *user, int64_t bytes)
{
    const TnFrame *f = (const TnFrame *)user;
    TnTextHead *head = (TnTextHead *)f->text->at;
    if (bytes < 0)
        return 0;
    if (!head || bytes > f->text->bytes - head->used) {
        TnBlock more = {0, tn_size_add(tn_max(bytes, 1 << 12), (int64_t)sizeof *head)};
        more.at = more.bytes >= 0 && f->memory && f->memory->get ? f->memory->get(f->memory->user, &more.bytes) : 0;
        if (!more.at)
            return 0;
        head = (TnTextHead *)more.at;
        *head = (TnTextHead){*f->text, sizeof *head};
        *f->text = more;
    }
    head->used += bytes;
    return (char *)head + head->used - bytes;
}
__attribute__((unused)) static void
tn_text_end(const TnFrame *f)
{
    while (f->text->at) {
        TnBlock before = ((TnTextHead *)f->text->at)->before;
        f->memory->put(f->memory->user, f->text->at, f->text->bytes);
        *f->text = before;
    }
}
__attribute__((unused)) static int
tn_text_out(const TnFrame *f, TnBlock *to, const void *from, int64_t n)
{
    const TnText *s = (const TnText *)from;
    int64_t bytes = tn_size_mul(n, sizeof *s);
    for (int64_t i = 0; i < n; i++)
        bytes = tn_size_add(bytes, s[i].s ? (int64_t)strlen(s[i].s) + 1 : 1);
    int code = tn_need(f, to, tn_max(bytes, 1));
    if (code)
        return code;
    TnText *out = (TnText *)to->at;
    char *at = (char *)(out + n);
    for (int64_t i = 0; i < n; i++) {
        int64_t size = s[i].s ? (int64_t)strlen(s[i].s) + 1 : 1;
        out[i].s = at;
        memcpy(at, s[i].s ? s[i].s : "", (size_t)size);
        at += size;
    }
    return 0;
}
