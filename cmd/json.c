/* json: the tokens of a JSON text, one after the other (RFC 8259; also NaN, Infinity and -Infinity,
 * as Python has them).
 *
 * No library: the command needs libtenon and the C library alone, so that it runs anywhere. And
 * libraries make a tree of what they read, several times the memory of a tensor; tokens go straight
 * into it. What is open is a stack of JSON_DEPTH flags: depth is bounded and nothing recurses.
 */
#include "cmd.h"

#include <stdlib.h>
#include <string.h>

#define BLANKS " \t\r\n"

static JsonToken
bad(Json *j, const char *why)
{
    j->why = j->at != j->end ? why : "the line ends here, and the request does not";
    return JSON_BAD;
}

/* Bytes of the character at s; 0: it is none. Nothing behind a zero is looked at. */
static int
utf8_length(const unsigned char *s)
{
    static const unsigned char second[4][3] = {
        /* or it is half a pair, beyond U+10FFFF, … */
        { 0xe0, 0xa0, 0xbf },
        { 0xed, 0x80, 0x9f },
        { 0xf0, 0x90, 0xbf },
        { 0xf4, 0x80, 0x8f },
    };
    int n = *s < 0x80 ? 1 : *s < 0xc2 ? 0 : *s < 0xe0 ? 2 : *s < 0xf0 ? 3 : *s < 0xf5 ? 4 : 0;

    for (int i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    for (int i = 0; i < 4; i++)
        if (*s == second[i][0] && (s[1] < second[i][1] || s[1] > second[i][2]))
            return 0;
    return n;
}

/* 0: it is no number of four digits, or 0, which no string may hold. */
static unsigned
read_hex(const char *s)
{
    char four[5] = { 0 };

    if (strspn(s, "0123456789abcdefABCDEF") < 4)
        return 0;
    return (unsigned)strtoul(memcpy(four, s, 4), NULL, 16);
}

/* \uXXXX, or two of them that are one character; at the u. */
static bool
read_escape(Json *j, char **to)
{
    static const unsigned char mark[] = { 0, 0xc0, 0xe0, 0xf0 };
    unsigned c = read_hex(j->at + 1), low = 0;

    if (!c || (c & 0xfc00) == 0xdc00)
        return false;
    j->at += 5;
    if ((c & 0xfc00) == 0xd800) {
        low = strncmp(j->at, "\\u", 2) ? 0 : read_hex(j->at + 2);
        if ((low & 0xfc00) != 0xdc00)
            return false;
        c = 0x10000 + ((c & 0x3ff) << 10) + (low & 0x3ff);
        j->at += 6;
    }
    int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    *(*to)++ = (char)(mark[more] | c >> 6 * more);
    while (more-- > 0)
        *(*to)++ = (char)(0x80 | (c >> 6 * more & 0x3f));
    return true;
}

/* At the quote. Decoded in place, which never makes it longer; the text then ends with a zero. */
static bool
read_string(Json *j)
{
    static const char escape[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    char *to = j->text = ++j->at;

    while (*j->at != '"') {
        int n = utf8_length((const unsigned char *)j->at);
        if (!n)
            return bad(j, "bytes that are not UTF-8"), false;
        if ((unsigned char)*j->at < ' ')
            return bad(j, "a character that a string has as \\u and its number"), false;
        if (*j->at != '\\') {
            while (n--)
                *to++ = *j->at++;
            continue;
        }
        const char *e = *++j->at ? strchr(escape, *j->at) : NULL;
        if (e) {
            *to++ = meant[e - escape];
            j->at++;
        } else if (*j->at != 'u' || !read_escape(j, &to)) {
            return bad(j, "no such escape in a string"), false;
        }
    }
    j->at++;
    *to = 0;
    return true;
}

/* skip: characters in front of the digits. */
static bool
skip_digits(Json *j, int skip)
{
    size_t n = strspn(j->at + skip, "0123456789");

    j->at += (size_t)skip + n;
    return n > 0;
}

/* Its text is what strtod and strtoll read. */
static JsonToken
read_number(Json *j)
{
    j->text = j->at;
    j->at += *j->at == '-';
    if (!strncmp(j->at, "Infinity", 8))
        j->at += 8;
    else if (*j->at == '0')
        j->at++;
    else if (!skip_digits(j, 0))
        return bad(j, "a number, list, string, true, false or null is missing");
    if (*j->at == '.' && !skip_digits(j, 1))
        return bad(j, "digits are missing behind the point");
    bool is_signed = *j->at && (j->at[1] == '+' || j->at[1] == '-');
    if ((*j->at == 'e' || *j->at == 'E') && !skip_digits(j, is_signed ? 2 : 1))
        return bad(j, "digits of the exponent are missing");
    j->n = (size_t)(j->at - j->text);
    return JSON_NUMBER;
}

static JsonToken
read_value(Json *j)
{
    static const struct {
        const char *text;
        JsonToken token;
    } words[4] = {
        { "true", JSON_TRUE },
        { "false", JSON_FALSE },
        { "null", JSON_NULL },
        { "NaN", JSON_NUMBER },
    };

    j->wants = JSON_WANTS_COMMA;
    if (*j->at == '{' || *j->at == '[') {
        if (j->depth == JSON_DEPTH)
            return bad(j, "nested too deep");
        j->is_object[j->depth++] = *j->at == '{';
        j->wants = JSON_WANTS_FIRST;
        return *j->at++ == '{' ? JSON_OBJECT : JSON_LIST;
    }
    if (*j->at == '"')
        return read_string(j) ? JSON_STRING : JSON_BAD;
    for (int i = 0; i < 4; i++)
        if (!strncmp(j->at, words[i].text, j->n = strlen(words[i].text))) {
            j->text = j->at;
            j->at += j->n;
            return words[i].token;
        }
    return read_number(j);
}

static JsonToken
read_key(Json *j)
{
    if (*j->at != '"')
        return bad(j, "a name in quotes is missing");
    if (!read_string(j))
        return JSON_BAD;
    j->at += strspn(j->at, BLANKS);
    if (*j->at != ':')
        return bad(j, "a colon is missing");
    j->at++;
    j->wants = JSON_WANTS_VALUE;
    return JSON_KEY;
}

JsonToken
json_next(Json *j)
{
    bool object = j->depth && j->is_object[j->depth - 1];

    j->at += strspn(j->at, BLANKS);
    if (j->wants == JSON_WANTS_COMMA && !j->depth)
        return j->at == j->end ? JSON_END : bad(j, "something stands behind the request");
    if (j->wants != JSON_WANTS_VALUE && j->depth && *j->at == (object ? '}' : ']')) {
        j->at++;
        j->depth--;
        j->wants = JSON_WANTS_COMMA;
        return object ? JSON_OBJECT_END : JSON_LIST_END;
    }
    if (j->wants == JSON_WANTS_COMMA) {
        if (*j->at != ',')
            return bad(j, object ? "a comma or } is missing" : "a comma or ] is missing");
        j->at++;
        j->at += strspn(j->at, BLANKS);
    }
    return object && j->wants != JSON_WANTS_VALUE ? read_key(j) : read_value(j);
}
