/* rules: what the rules of rules.def are made with. */
#ifndef TENON_REWRITE_RULES_H
#define TENON_REWRITE_RULES_H

#include "rewrite/internal.h"

typedef struct {
    Rebuild *r;
    const uint32_t *uses; /* of values of the old graph */
    NodeId id;            /* the node the rule is tried at */
    const Node *n;
    ValueId in0, out0; /* its first input and result, in the old graph; 0 where absent */
    /* what the new calls come from; the node's own unless a rule joins another to it */
    Sym origin;
} RuleCall;

/* True when the node's results are mapped, false when the rule does not fit. */
typedef bool RuleFn(RuleCall *k);

#define RULE(root, function, from, to, class) RuleFn rule_##function;
#include "rewrite/rules.def"
#undef RULE

/* The call of `op` that makes value v of the old graph, or NULL. */
const Node *rule_producer(const RuleCall *k, ValueId v, OpKind op);
/* Input i of node n, in the new graph; 0 where absent. */
ValueId rule_input(const RuleCall *k, const Node *n, uint32_t i);
const Value *rule_value(const RuleCall *k, ValueId v); /* of the new graph */
/* The node's first result is computed by this call instead. */
bool rule_call(RuleCall *k, OpKind op, Attrs attrs, uint32_t nin, const ValueId *in);
/* Is v, of the new graph, a constant of which every size is a number? */
bool rule_is_constant(const RuleCall *k, ValueId v);
/* The call's result on constants of the new graph, as a constant of it; 0 where it cannot be
 * had. */
ValueId rule_compute(RuleCall *k, OpKind op, const char *name, ValueId x, ValueId y);
/* A constant of one number, of v's element type. */
ValueId rule_number(RuleCall *k, const char *name, DType t, double v);
/* The new calls come from the producer p as well as from the node. */
void rule_join_origin(RuleCall *k, const Node *p);
/* op(x, y), of type t, as a node of its own before the one that makes the result. */
ValueId rule_call_before(RuleCall *k, OpKind op, const Type *t, ValueId x, ValueId y);
/* The constant's contents under another shape. */
ValueId rule_reshaped(RuleCall *k, ValueId v, uint32_t rank, const Expr *const *dim);

#endif
