/* What the files of domain share. */
#ifndef TENON_DOMAIN_INTERNAL_H
#define TENON_DOMAIN_INTERNAL_H

#include "domain/winograd.h"

/* nest_winograd; tiles: the output is made in complete tiles, whatever the image's size, with the
 * epilogue. */
bool winograd_steps(Ctx *c, const Nest *n, uint32_t m, bool tiles, Winograd *out);

#endif
