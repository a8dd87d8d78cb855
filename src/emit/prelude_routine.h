/* prelude_routine: how the host program calls a routine. */
static int
tn_routine(const TnFrame *f, int32_t number, TnKernelFn *fn, TnRoutinePlan *plan, const TnArray *array, const double *attr)
{
    const TnRoutine r = {{sizeof r.args, 0, f->sym, f->fault, number}, array, attr, TN_TEXT_OF, (void *)f};
    int64_t scratch = 0, trips = plan(&r, &scratch);
    int code = f->fault->code;
    if (code || trips <= 0 || (scratch > 0 && (code = tn_scratch(f, scratch))))
        return code;
    tn_call(f->host, fn, &r.args, trips, 1);
    return f->fault->code;
}
