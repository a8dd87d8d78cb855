/* What the files of domain share. */
#ifndef TENON_DOMAIN_INTERNAL_H
#define TENON_DOMAIN_INTERNAL_H

#include "domain/winograd.h"

/* nest_winograd; tiles: the output is made in whole tiles, whatever the image is, with what stands
 * around the sum. */
bool winograd_steps(Ctx *c, const Nest *n, uint32_t m, bool tiles, Winograd *out);

#endif
