/* prelude_foreign: how the host program calls a function of the user's. */
static int
tn_foreign(const TnFrame *f, int32_t number, TnFunction *function, int32_t n, const TnArray *array)
{
    int code = function(n, array);
    return code ? tn_refuse(f->fault, TN_FAULT_FUNCTION, number, 0, code, 0) : 0;
}
