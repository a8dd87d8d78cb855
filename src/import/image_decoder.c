/* image_decoder: encoded images. The run finds out the size, then decodes; an image that cannot be
 * decoded has no points. */
#include "import/compose.h"
#include "import/converters.h"

#include <string.h>

bool
convert_image_decoder(Call *k)
{
    static const char *const forms[] = { "RGB", "BGR", "Grayscale" };
    const Attr *given = call_attr(k, "pixel_format");
    const char *name = given ? given->s : forms[0];
    int64_t form = 0;

    if (!need_input(k, 0))
        return false;
    while (form < 3 && strcmp(forms[form], name))
        form++;
    if (form == 3)
        return call_wrong(k, "pixel_format is \"%s\"; RGB, BGR and Grayscale are possible", name);
    Attr *attr = NEW(k->m->arena, Attr);
    *attr = (Attr){ .name = sym(k->m->c, "form"), .kind = ATTR_INT, .i = form };
    ValueId size = value_of_text(k, "x", k->in.at, "match(image_size(x))");
    return finish(k, size ? call_op(k, OP_image_points, 1, attr, 2,
                                    (ValueId[]){ k->in.at[0], size }, output_name(k))
                          : 0);
}
