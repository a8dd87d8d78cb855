/* image_decoder: encoded images. The run finds out the size, then decodes; an image that cannot be
 * decoded has no points. */
#include "import/compose.h"
#include "import/converters.h"

bool
convert_image_decoder(Call *k)
{
    uint32_t form;

    if (!get_choice(k, "pixel_format", "RGB BGR Grayscale", &form))
        return false;
    call_number(k, "form", form);
    return call_says(k, "x -> y", "y = image_points(x, match(image_size(x))) {form = $form}");
}
