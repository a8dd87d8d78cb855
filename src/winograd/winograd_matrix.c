/* winograd_matrix: the matrices of the rule along one axis, by the method of Cook and Toom.
 *
 * m outputs of a window of 3 are coefficients of a product of polynomials, which its values at m + 2
 * points determine.
 */
#include "winograd/internal.h"

#include <math.h>
#include <string.h>

/* the last point is infinity */
static const double points[WINOGRAD_MAX_TILE + 1] = { 0, 1, -1, 2, -2, 0.5, -0.5 };

/* The coefficients of the product of x - points[k] for all k < n but `without`, lowest power
 * first. */
static void
polynomial(uint32_t n, uint32_t without, double *coef)
{
    memset(coef, 0, (WINOGRAD_MAX_TILE + 2) * sizeof *coef);
    coef[0] = 1;
    for (uint32_t k = 0, degree = 0; k < n; k++) {
        if (k == without)
            continue;
        degree++;
        for (uint32_t i = degree + 1; i-- > 0;)
            coef[i] = (i ? coef[i - 1] : 0) - points[k] * coef[i];
    }
}

static double
entry(WinogradMatrix which, uint32_t m, uint32_t row, uint32_t col)
{
    uint32_t n = m + WINOGRAD_WINDOW - 2; /* points without infinity */
    double coef[WINOGRAD_MAX_TILE + 2], divisor = 1;

    switch (which) {
    case MATRIX_FILTER:
        if (row == n)
            return col == WINOGRAD_WINDOW - 1;
        for (uint32_t k = 0; k < n; k++)
            divisor *= k == row ? 1 : points[row] - points[k];
        return pow(points[row], col) / divisor;
    case MATRIX_IMAGE:
        polynomial(n, row, coef); /* row n leaves none out */
        return coef[col];
    case MATRIX_BACK: return col == n ? row == m - 1 : pow(points[col], row);
    case MATRIX_COUNT: break;
    }
    return 0;
}

void
winograd_matrices(Ctx *c, Winograd *k)
{
    uint32_t t = k->tile + WINOGRAD_WINDOW - 1;
    const uint32_t rows[MATRIX_COUNT] = { t, t, k->tile },
                   cols[MATRIX_COUNT] = { WINOGRAD_WINDOW, t, t };

    for (int which = 0; which < MATRIX_COUNT; which++) {
        float *at = NEW_ARRAY(c->arena, float, rows[which] * cols[which]);
        const Expr *dim[2] = { expr_int(c, rows[which]), expr_int(c, cols[which]) };
        for (uint32_t i = 0; i < rows[which]; i++)
            for (uint32_t j = 0; j < cols[which]; j++)
                at[i * cols[which] + j] = (float)entry((WinogradMatrix)which, k->tile, i, j);
        k->matrix[which] = at;
        k->matrix_type[which] = type_new(c, DT_F32, 2, dim);
    }
}
