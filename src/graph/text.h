/* text: shared by the files that parse the text form.
 *
 * source.c reads a complete text: data types, functions, models from other files, and the model;
 * parse.c graphs and their nodes; parse_value.c nested expressions; parse_control.c nodes that run
 * graphs; parse_batch.c programs for many requests; parse_const.c contents and attributes. data.c
 * and case.c lower data types and selections by them.
 */
#ifndef TENON_GRAPH_TEXT_H
#define TENON_GRAPH_TEXT_H

#include "graph/internal.h"

typedef uint64_t DataSet; /* a set of data types: bit Data.number */
enum { MOST_DATA = 64 };  /* data types of a text */

/* ---- data types ---- */

typedef struct {
    Sym name;
    const Type *type;
    const struct Data *data;
    uint32_t column;
} Field;
typedef struct {
    Sym name;
    VEC(Field) field;
} Constructor;
/* type: [rows, dimensions of a field]; element: of a field */
typedef struct {
    Sym name;
    const Type *type, *element;
    const struct Data *data;
} Column;

typedef struct Data {
    Sym name;
    uint32_t number;
    DataSet leads;    /* itself, and the types that its fields refer to, transitively */
    const Expr *rows; /* of its table */
    VEC(Constructor) made;
    VEC(Column) column; /* [0]: the tag, if there are several constructors */
} Data;

/* ---- parsing ---- */

/* %name: type as format. data: the value is a row number of that type's table, i64[] in the
 * graph. */
typedef struct {
    Sym name; /* NULL: `_` */
    Loc loc;
    const Type *type; /* NULL: omitted */
    const Data *data;
    const Format *format;
} Definition;
typedef VEC(Definition) Definitions;
typedef VEC(ValueId) Values;

/* @name(param, …) -> (result, …); a result's type is NULL if it is omitted. */
typedef struct {
    Sym name;
    Definitions param, result;
} Head;

/* A graph that others call. Calls point at `graph` before its body is read. */
typedef struct {
    Head head;
    Graph *graph;
    bool made;
} Function;

/* Shared by all graphs of a text. */
typedef struct {
    Map function; /* Sym -> Function */
    Map file;     /* Sym of a weights file -> its Bytes */
    VEC(Data *) data;
    /* Graph -> the data types of its outputs: const Data *[output.n], NULL: none */
    Map returns;
    const GraphLoader *loader;
    uint32_t arms; /* the number of arms that became functions */
} Source;

/* A graph that is being read. */
typedef struct {
    Parse p;
    Graph *g;
    Map value; /* Sym -> ValueId */
    Map data;  /* ValueId -> Data */
    /* [MOST_DATA]: its columns of each data type; NULL: no value here has that type */
    ValueId **column;
    Source *source;
    uint32_t depth;              /* nesting of graphs */
    uint32_t deep;               /* nesting of values */
    Loc loc;                     /* of the nodes of a line */
    Sym origin;                  /* of nodes whose text says none */
    const struct Statements *by; /* whose statements these are; NULL: lines of a graph */
    struct Body *body;           /* of the loop that these are the body of; NULL: of none */
    /* a block of a program for many: walks check its sizes */
    bool block;
} GraphParser;

/* ---- parse.c ---- */

/* An error at a location before the cursor. */
bool read_error(const GraphParser *r, Loc loc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A type, or a data type, into `d`. */
bool read_type(GraphParser *r, Definition *d);
/* For messages: f32[4], Tree[]. */
const char *read_type_str(const GraphParser *r, const Data *data, const Type *t);
/* typed: parameters must have types. */
bool read_head(GraphParser *r, Head *h, bool typed);
/* A reader for a graph inside of `outer`, at its cursor, empty. */
GraphParser read_inside(const GraphParser *outer, Graph *g);
/* Inputs from number `first` on, with their types. */
void read_inputs(GraphParser *r, const Head *h, uint32_t first);
ValueId read_define(GraphParser *r, const Definition *d, ValueId v);
/* From the opening brace to the closing one. False: reported. */
bool read_body(GraphParser *r, const Head *h);
bool read_use(GraphParser *r, ValueId *v); /* %name or _ */
bool read_arguments(GraphParser *r, Values *in);
bool read_origin(GraphParser *r, Sym *origin);
/* a == b "why": holds from there on. */
bool read_constraint(GraphParser *r, Constraint *k);
ValueId *read_define_results(GraphParser *r, uint32_t n, const Definition *result);

/* ---- parse_value.c ---- */

/* An expression; 0: an absent value. */
bool read_value(GraphParser *r, ValueId *v);
/* From the parenthesis after an operator's name on: a node with these results. */
bool read_operator(GraphParser *r, Sym name, uint32_t nout, const char *const *names, ValueId *out);

/* ---- statement.c ---- */

/* The value of a name, which may be absent (0); the body of a loop captures outer names. */
bool read_named(GraphParser *r, Sym name, ValueId *v);

/* ---- parse_control.c ---- */

/* After the word: a match, if, loop, join or call of a function. */
bool read_control(GraphParser *r, Loc loc, CalleeKind callee, Definitions *result);
bool read_bind(GraphParser *r, Region *region);
/* `word` [a = e, …], optional. */
bool read_bindings(GraphParser *r, const char *word, BoundSizes *list);
bool read_fresh(GraphParser *r, Node *n);
/* Enters a nested graph; checks the depth. */
bool read_deeper(GraphParser *r);

/* Matches arguments arg [n] with a graph's parameters from `param` on: data types, ranks and
 * element types must agree. Without a `with`, symbols are bound to the dimensions of the arguments'
 * types. A parameter without a type gets its argument's. */
bool read_unify(GraphParser *r, Loc loc, Region *region, Sym callee, uint32_t n, Definition *param,
                const ValueId *arg);
/* Omitted types of results are those of the region's outputs from number `first` on. */
bool read_results(GraphParser *r, const Region *region, uint32_t first, uint32_t n,
                  Definition *result);
/* Do all results have a type? `what` does not give it, for the message. */
bool read_all_typed(GraphParser *r, const Definitions *result, const char *what);

/* ---- parse_const.c ---- */

bool read_contents(GraphParser *r, const Type *t, const void **data);
bool read_attrs(GraphParser *r, Attrs *out);

/* ---- data.c ---- */

/* After the word `data`. */
bool read_data(GraphParser *r);
/* The data type named at the cursor, which moves past it; NULL: none. */
const Data *read_data_name(GraphParser *r);
const Data *data_of(const GraphParser *r, ValueId v);
/* The data types whose columns a graph with these parameters gets: theirs, and those that they
 * refer to. */
DataSet data_of_params(uint32_t n, const Definition *param);
DataSet data_of_values(const GraphParser *r, uint32_t n, const ValueId *v);
/* Adds inputs for the columns of these types. False, reported: another input has such a name. */
bool data_inputs(GraphParser *r, DataSet set);
/* Appends the columns to the arguments of a call, and binds the lengths of their tables. */
void data_arguments(GraphParser *r, DataSet set, Values *in, Region *region);

/* ---- case.c ---- */

/* From its opening parenthesis on. */
bool read_case(GraphParser *r, Loc loc, Definitions *result);

/* ---- parse_batch.c ---- */

/* A program for many requests, from its opening parenthesis on. */
bool read_blocks(GraphParser *r, Loc loc, Definitions *result);

/* ---- source.c ---- */

const Function *source_function(const Source *s, Sym name);

#endif
