/* base, shared by its own files. */
#ifndef TENON_BASE_INTERNAL_H
#define TENON_BASE_INTERNAL_H

#include "base/base.h"

#define LEASE_FILE ".tenon-" /* temporary files begin so and end in .tmp */

/* Lock what was just made at `path`. False: another process took it for left behind; make
 * another. */
bool lease_take(int fd, const char *path);

#endif
