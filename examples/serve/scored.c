#include "scored.h"

#include <math.h>

bool
scored_add(Buffer *to, int64_t token, int64_t top, const float *score, int64_t n)
{
    Scored s[1 + MOST_TOP];
    int64_t count = 0;
    double sum = 0;

    for (int64_t i = 0; i < n; i++) {
        int64_t at = count < top ? ++count : count;
        /* the least of them makes room: s[1] to s[count] fall */
        if (at == 0 || (i >= top && score[i] <= s[at].logprob))
            continue;
        for (; at > 1 && s[at - 1].logprob < score[i]; at--)
            s[at] = s[at - 1];
        s[at] = (Scored){ i, score[i] };
    }
    double best = score[0];
    for (int64_t i = 1; i < n; i++)
        best = score[i] > best ? score[i] : best;
    for (int64_t i = 0; i < n; i++)
        sum += exp(score[i] - best);
    s[0] = (Scored){ token, score[token] };
    for (; count < top; count++) /* more than there are words */
        s[1 + count] = s[0];
    for (int64_t i = 0; i <= top; i++)
        s[i].logprob -= best + log(sum);
    return buffer_add(to, (const char *)s, (size_t)(1 + top) * sizeof *s);
}
