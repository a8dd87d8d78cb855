/* rules: helpers for the functions of rules.def. */
#ifndef TENON_REWRITE_RULES_H
#define TENON_REWRITE_RULES_H

#include "rewrite/internal.h"

typedef struct {
    Rebuild *r;
    const uint32_t *uses; /* of values of the old graph */
    NodeId id;            /* the node the rule is tried at */
    const Node *n;
    ValueId in0, out0; /* its first input and result, in the old graph; 0 where absent */
    /* the origin of the new calls: the node's own unless a rule adds another */
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
/* Is v, of the new graph, a constant with a static shape? */
bool rule_is_constant(const RuleCall *k, ValueId v);
/* Compute op(x, y) on constants of the new graph, as a new constant; 0 if it fails. */
ValueId rule_compute(RuleCall *k, OpKind op, const char *name, ValueId x, ValueId y);
/* A constant with the one number v, of type t. */
ValueId rule_number(RuleCall *k, const char *name, DType t, double v);
/* Name the producer p as an origin of the new calls too. */
void rule_join_origin(RuleCall *k, const Node *p);
/* A node op(x, y) of type t, before the one that makes the result. */
ValueId rule_call_before(RuleCall *k, OpKind op, const Type *t, ValueId x, ValueId y);
/* The constant with another shape. */
ValueId rule_reshaped(RuleCall *k, ValueId v, uint32_t rank, const Expr *const *dim);

#endif
