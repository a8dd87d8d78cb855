/* text: operators on strings, by routines. */
#include "import/little.h"

#include <string.h>

const Onnx__AttributeProto *
proto_attr(const Call *k, const char *name)
{
    for (size_t i = 0; i < k->proto->n_attribute; i++)
        if (!strcmp(text_of(k->proto->attribute[i]->name), name))
            return k->proto->attribute[i];
    return NULL;
}

ValueId
call_strings(Call *k, const char *name, const Onnx__AttributeProto *a)
{
    size_t n = a ? a->n_strings : 0;
    const char **s = NEW_ARRAY(k->m->arena, const char *, n + 1);
    const Expr *dim = expr_int(k->m->c, (int64_t)n);

    for (size_t i = 0; i < n; i++) {
        OnnxBytes one = a->strings[i];
        if (one.len && memchr(one.data, 0, one.len)) {
            call_refuse(k,
                        "string %zu of attribute \"%s\" has a zero byte inside, where Tenon's end",
                        i, text_of(a->name));
            return 0;
        }
        s[i] = sym_n(k->m->c, one.len ? (const char *)one.data : "", one.len);
    }
    return graph_const(k->m->g, name, type_new(k->m->c, DT_STR, 1, &dim), s);
}

ValueId
call_string(Call *k, const char *name, const char *s)
{
    const char **at = NEW(k->m->arena, const char *);

    *at = sym(k->m->c, s);
    return graph_const(k->m->g, name, type_new(k->m->c, DT_STR, 0, NULL), at);
}

static const char *
string_attr(Call *k, const char *name)
{
    return attr_string((Attrs){ k->attr.at, k->attr.n }, name, "");
}

bool
convert_string_split(Call *k)
{
    Ctx *c = k->m->c;
    const int64_t flat = -1;
    Attr *cuts = NEW(k->m->arena, Attr),
         keep = { .name = sym(c, "keepdims"), .kind = ATTR_INT, .i = 0 };

    if (!need_input(k, 0))
        return false;
    *cuts = (Attr){ .name = sym(c, "maxsplit"), .kind = ATTR_INT, .i = get_int(k, "maxsplit", -1) };
    ValueId x = k->in.at[0], by = call_string(k, "delimiter", string_attr(k, "delimiter"));
    ValueId n = call_op(k, OP_string_pieces, 1, cuts, 2, (ValueId[]){ x, by },
                        k->proto->n_output > 1 ? k->proto->output[1] : "pieces");
    ValueId all = n ? little_2(k, OP_reshape, n, little_list(k, 1, &flat)) : 0;
    ValueId most = all ? call_op(k, OP_reduce_max, 1, &keep, 1, &all, "most") : 0;
    most = most ? little_match(k, little_2(k, OP_max, most, little_number(k, 0)), NULL) : 0;
    call_bind(k, 1, n);
    return finish(k, most ? call_op(k, OP_string_split, 1, cuts, 3, (ValueId[]){ x, by, most },
                                    output_name(k))
                          : 0);
}

bool
convert_string_normalizer(Call *k)
{
    Ctx *c = k->m->c;
    const char *turn = string_attr(k, "case_change_action"), *names[2] = { "kept", "count" };
    int64_t way = !strcmp(turn, "LOWER") ? 1 : !strcmp(turn, "UPPER") ? 2 : 0;
    const int64_t flat = -1, row[2] = { 1, -1 };
    ValueId words = call_strings(k, "words", proto_attr(k, "stopwords")), out[2];
    Attr *attr = NEW_ARRAY(k->m->arena, Attr, 2);

    if (!need_input(k, 0) || !words)
        return false;
    const Type *t = input_type(k, 0);
    if (t->rank != 1 && !(t->rank == 2 && expr_is(t->dim[0], 1)))
        return diag_error(&c->diags, DIAG_MODEL, k->loc,
                          "StringNormalizer of %s; [n] and [1, n] are possible", type_str(c, t));
    attr[0] = (Attr){ .name = sym(c, "case"), .kind = ATTR_INT, .i = way };
    attr[1] = (Attr){ .name = sym(c, "sensitive"),
                      .kind = ATTR_INT,
                      .i = get_int(k, "is_case_sensitive", 0) };
    ValueId x =
        t->rank == 2 ? little_2(k, OP_reshape, k->in.at[0], little_list(k, 1, &flat)) : k->in.at[0];
    if (!x || !graph_infer_op(k->m->g, OP_string_normalize, (Attrs){ attr, 2 }, k->loc, k->origin,
                              2, (ValueId[]){ x, words }, 2, names, out))
        return false;
    ValueId n = little_match(k, out[1], &little_type(k, out[0])->dim[0]),
            zero = little_list(k, 1, (int64_t[]){ 0 });
    ValueId y = n ? call_op(k, OP_slice, 0, NULL, 3, (ValueId[]){ out[0], zero, n },
                            t->rank == 1 ? output_name(k) : "some")
                  : 0;
    return finish(k, t->rank == 1 || !y
                         ? y
                         : call_op(k, OP_reshape, 0, NULL, 2,
                                   (ValueId[]){ y, little_list(k, 2, row) }, output_name(k)));
}

bool
convert_regex_full_match(Call *k)
{
    ValueId program = need_input(k, 0) ? regex_program(k, string_attr(k, "pattern")) : 0;

    return finish(k, program ? call_op(k, OP_regex_match, 0, NULL, 2,
                                       (ValueId[]){ k->in.at[0], program }, output_name(k))
                             : 0);
}

/* Separators as one expression: any of them, as written. */
static const char *
any_of(Call *k, const Onnx__AttributeProto *a)
{
    Text t = { .arena = k->m->arena };

    for (size_t i = 0; i < a->n_strings; i++)
        text_printf(&t, "%s(?:%.*s)", i ? "|" : "", (int)a->strings[i].len,
                    a->strings[i].len ? (const char *)a->strings[i].data : "");
    return text_str(&t);
}

/* com.microsoft.Tokenizer: what an expression matches, what stands between separators, or single
 * characters (the separator ""). */
bool
convert_tokenizer(Call *k)
{
    Ctx *c = k->m->c;
    const Onnx__AttributeProto *separators = proto_attr(k, "separators");
    const char *tokens = string_attr(k, "tokenexp");
    int64_t least = get_int(k, "mincharnum", 1), marks = get_int(k, "mark", 0);
    bool single = separators && separators->n_strings == 1 && separators->strings[0].len == 0;
    const int64_t flat = -1;
    Attr *attr = NEW_ARRAY(k->m->arena, Attr, 3),
         keep = { .name = sym(c, "keepdims"), .kind = ATTR_INT, .i = 0 };

    if (!need_input(k, 0))
        return false;
    if (!*tokens == !separators)
        return diag_error(&c->diags, DIAG_MODEL, k->loc,
                          "Tokenizer has %s of tokenexp and separators; it needs one of them",
                          separators ? "both" : "none");
    if (least < 1)
        return diag_error(&c->diags, DIAG_MODEL, k->loc,
                          "mincharnum is %lld; tokens have at least one character",
                          (long long)least);
    if (input_type(k, 0)->rank < 1 || input_type(k, 0)->rank > 2)
        return diag_error(&c->diags, DIAG_MODEL, k->loc,
                          "Tokenizer of %s; [c] and [n, c] are possible",
                          type_str(c, input_type(k, 0)));
    attr[0] = (Attr){ .name = sym(c, "between"), .kind = ATTR_INT, .i = separators && !single };
    attr[1] = (Attr){ .name = sym(c, "least"), .kind = ATTR_INT, .i = least };
    attr[2] = (Attr){ .name = sym(c, "marks"), .kind = ATTR_INT, .i = marks != 0 };
    ValueId program = regex_program(k, single       ? "[\\x{1}-\\x{10FFFF}]"
                                       : separators ? any_of(k, separators)
                                                    : tokens);
    ValueId x = k->in.at[0],
            n = program ? call_op(k, OP_tokens, 2, attr, 2, (ValueId[]){ x, program }, "tokens")
                        : 0;
    ValueId all = n ? little_2(k, OP_reshape, n, little_list(k, 1, &flat)) : 0;
    ValueId most = all ? call_op(k, OP_reduce_max, 1, &keep, 1, &all, "most") : 0;
    most = most ? little_2(k, OP_max, most, little_number(k, 0)) : 0;
    if (most && marks) /* where there is no token there are no marks */
        most = little_2(k, OP_add, most,
                        little_2(k, OP_mul, little_number(k, 2),
                                 little_2(k, OP_min, most, little_number(k, 1))));
    most = most ? little_match(k, most, NULL) : 0;
    ValueId pad = call_string(k, "pad", string_attr(k, "pad_value"));
    return finish(k, most ? call_op(k, OP_tokenize, 3, attr, 4,
                                    (ValueId[]){ x, program, pad, most }, output_name(k))
                          : 0);
}

bool
convert_equal(Call *k)
{
    if (input_type(k, 0) && input_type(k, 0)->dtype == DT_STR)
        k->op = OP_string_equal;
    return true;
}
