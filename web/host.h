/* host.h: what stands before the parts of libtenon-run that a WebAssembly module contains. They are
 * compiled as they are; their own #include lines are left out, since all headers precede them. */
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* An arena that has no memory left jumps; here it ends the module, and its caller asks for
 * the number of bytes (tn_wanted). */
typedef struct {
    int unused;
} jmp_buf;
#define longjmp(buffer, value) ((void)(buffer), __builtin_trap())

/* Of the C library's, which would bring its streams and numbers of 128 bits, the messages need
 * little. */
int web_vsnprintf(char *to, size_t room, const char *format, va_list args);
#define vsnprintf web_vsnprintf
