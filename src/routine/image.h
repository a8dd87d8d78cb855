/* image: pictures in the formats of ImageDecoder, as bytes of red, green and blue, or of their
 * lightness.
 *
 * BMP and the PNM family are read here. Other formats are read by their usual libraries, opened
 * when such a picture comes: a program that gets none needs none, and a missing one is named. Their
 * functions are declared here as in their manuals, since a model may be compiled without their
 * headers.
 */
#ifndef TN_ROUTINE_IMAGE_H
#define TN_ROUTINE_IMAGE_H
#include <dlfcn.h>
#include <stdarg.h>

#define TN_IMAGE_POINTS (INT64_C(1) << 28) /* the most points of a picture */

typedef struct {
    const uint8_t *at; /* the file, and the read position */
    int64_t bytes, next;
    int64_t width, height;
    /* [height, width, 3]: the points; NULL: only the sizes are wanted */
    uint8_t *out;
    const char *missing; /* the library that it needs and that is missing */
} TnImage;
typedef int TnImageReader(TnImage *m); /* 1: done */

/* ---- libraries ------------------------------------------------------------------------------- */

/* n functions of a library, by NULL-terminated names; loaded until the program ends. */
TN_ROUTINE int
tn_image_library(TnImage *m, const char *file, const char *const *name, void **function)
{
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    int all = library != 0;

    for (int i = 0; all && name[i]; i++)
        all = (function[i] = dlsym(library, name[i])) != 0;
    if (!all)
        m->missing = file;
    return all;
}
TN_ROUTINE int
tn_image_begins(const TnImage *m, const char *with, int64_t n)
{
    return m->bytes >= n && !memcmp(m->at, with, (size_t)n);
}
/* Are the sizes possible, and are the points wanted too? */
TN_ROUTINE int
tn_image_fits(const TnImage *m)
{
    return m->width > 0 && m->height > 0 && m->width <= TN_IMAGE_POINTS &&
           m->height <= TN_IMAGE_POINTS / m->width;
}

TN_ROUTINE int
tn_image_jpeg(TnImage *m)
{
    static const char *const names[] = { "tjInitDecompress", "tjDecompressHeader3", "tjDecompress2",
                                         "tjDestroy", 0 };
    void *f[4];
    int width = 0, height = 0, sampling, colours, done;

    if (!tn_image_library(m, "libturbojpeg.so.0", names, f))
        return 0;
    typedef int Header(void *, const unsigned char *, unsigned long, int *, int *, int *, int *);
    typedef int Decode(void *, const unsigned char *, unsigned long, unsigned char *, int, int, int,
                       int, int);
    Decode *decode = (Decode *)f[2];
    int (*end)(void *) = (int (*)(void *))f[3];
    void *turbo = ((void *(*)(void))f[0])();
    if (!turbo)
        return 0;
    done = ((Header *)f[1])(turbo, m->at, (unsigned long)m->bytes, &width, &height, &sampling,
                            &colours) == 0;
    m->width = width;
    m->height = height;
    if (done && m->out) /* red first; the exact transform, colours interpolated */
        done = tn_image_fits(m) && decode(turbo, m->at, (unsigned long)m->bytes, m->out, width, 0,
                                          height, 0, 4096) == 0;
    end(turbo);
    return done;
}

TN_ROUTINE int
tn_image_png(TnImage *m)
{
    struct { /* png_image, version 1 */
        void *opaque;
        uint32_t version, width, height, format, flags, colours, trouble;
        char message[64];
    } png;
    static const char *const names[] = { "png_image_begin_read_from_memory",
                                         "png_image_finish_read", "png_image_free", 0 };
    void *f[3];
    int done;

    if (!tn_image_library(m, "libpng16.so.16", names, f))
        return 0;
    typedef int Begin(void *, const void *, size_t);
    typedef int Finish(void *, const void *, void *, int32_t, void *);
    memset(&png, 0, sizeof png);
    png.version = 1;
    done = ((Begin *)f[0])(&png, m->at, (size_t)m->bytes) != 0;
    m->width = png.width;
    m->height = png.height;
    if (done && m->out) {
        const uint8_t black[3] = { 0, 0, 0 };
        png.format = 2; /* red, green, blue, 8 bits each */
        done = tn_image_fits(m) && ((Finish *)f[1])(&png, black, m->out, 0, 0) != 0;
    }
    ((void (*)(void *))f[2])(&png);
    return done;
}

TN_ROUTINE int
tn_image_webp(TnImage *m)
{
    static const char *const names[] = { "WebPGetInfo", "WebPDecodeRGBInto", 0 };
    void *f[2];
    int width = 0, height = 0;

    if (!tn_image_library(m, "libwebp.so.7", names, f))
        return 0;
    typedef int Header(const uint8_t *, size_t, int *, int *);
    typedef uint8_t *Decode(const uint8_t *, size_t, uint8_t *, size_t, int);
    Decode *decode = (Decode *)f[1];
    if (!((Header *)f[0])(m->at, (size_t)m->bytes, &width, &height))
        return 0;
    m->width = width;
    m->height = height;
    return !m->out ||
           (tn_image_fits(m) && decode(m->at, (size_t)m->bytes, m->out,
                                       (size_t)(3 * m->width * m->height), 3 * width) != 0);
}

/* Callbacks by which TIFF's and JPEG 2000's libraries read a file in memory. */
TN_ROUTINE intptr_t
tn_image_take(TnImage *m, void *to, intptr_t n)
{
    int64_t left = m->bytes - m->next;

    n = n < left ? n : (intptr_t)(left > 0 ? left : 0);
    if (n > 0)
        memcpy(to, m->at + m->next, (size_t)n);
    m->next += n > 0 ? n : 0;
    return n;
}
TN_ROUTINE intptr_t
tn_tiff_read(void *m, void *to, intptr_t n)
{
    return tn_image_take((TnImage *)m, to, n);
}
TN_ROUTINE intptr_t
tn_tiff_write(void *m, void *from, intptr_t n)
{
    (void)m, (void)from, (void)n;
    return 0;
}
TN_ROUTINE uint64_t
tn_tiff_seek(void *user, uint64_t to, int from)
{
    TnImage *m = (TnImage *)user;
    int64_t base = from == 1 ? m->next : from == 2 ? m->bytes : 0;

    if (to > INT64_MAX || base > INT64_MAX - (int64_t)to)
        return UINT64_MAX;
    return (uint64_t)(m->next = base + (int64_t)to);
}
TN_ROUTINE int
tn_tiff_close(void *m)
{
    (void)m;
    return 0;
}
TN_ROUTINE uint64_t
tn_tiff_size(void *m)
{
    return (uint64_t)((TnImage *)m)->bytes;
}
TN_ROUTINE void
tn_tiff_says(const char *module, const char *format, va_list arguments)
{
    (void)module, (void)format, (void)arguments;
}

TN_ROUTINE int
tn_image_tiff(TnImage *m)
{
    static const char *const names[] = { "TIFFClientOpen",
                                         "TIFFGetField",
                                         "TIFFReadRGBAImageOriented",
                                         "TIFFClose",
                                         "TIFFSetErrorHandler",
                                         "TIFFSetWarningHandler",
                                         0 };
    typedef void Says(const char *, const char *, va_list);
    void *f[6];
    uint32_t width = 0, height = 0;
    int done;

    if (!tn_image_library(m, "libtiff.so.6", names, f))
        return 0;
    typedef intptr_t Read(void *, void *, intptr_t);
    typedef void *Open(const char *, const char *, void *, Read *, Read *,
                       uint64_t (*)(void *, uint64_t, int), int (*)(void *), uint64_t (*)(void *),
                       void *, void *);
    typedef int Field(void *, uint32_t, ...);
    typedef int Decode(void *, uint32_t, uint32_t, uint32_t *, int, int);
    typedef Says *SetSays(Says *);
    Field *field = (Field *)f[1];
    Decode *decode = (Decode *)f[2];
    ((SetSays *)f[4])(tn_tiff_says);
    ((SetSays *)f[5])(tn_tiff_says);
    m->next = 0;
    void *tiff = ((Open *)f[0])("image", "rm", m, tn_tiff_read, tn_tiff_write, tn_tiff_seek,
                                tn_tiff_close, tn_tiff_size, 0, 0);
    if (!tiff)
        return 0;
    done = field(tiff, 256, &width) == 1 && field(tiff, 257, &height) == 1;
    m->width = width;
    m->height = height;
    if (done && m->out) {
        int64_t n = tn_image_fits(m) ? m->width * m->height : 0;
        uint32_t *point = n ? (uint32_t *)malloc((size_t)n * sizeof *point) : 0;
        /* the first point is at the upper left */
        done = point && decode(tiff, width, height, point, 1, 0) == 1;
        for (int64_t i = 0; done && i < 3 * n; i++)
            m->out[i] = (uint8_t)(point[i / 3] >> (8 * (i % 3)));
        free(point);
    }
    ((void (*)(void *))f[3])(tiff);
    return done;
}

typedef struct {
    uint32_t dx, dy, w, h, x0, y0, prec, bpp, sgnd, resolution, factor;
    int32_t *data;
    uint16_t alpha;
} TnOpjPlane;
/* the beginning of the struct in all 2.x */
typedef struct {
    uint32_t x0, y0, x1, y1, planes;
    int32_t colours;
    TnOpjPlane *plane;
} TnOpjImage;
TN_ROUTINE size_t
tn_opj_read(void *to, size_t n, void *m)
{
    intptr_t took = tn_image_take((TnImage *)m, to, n > INTPTR_MAX ? INTPTR_MAX : (intptr_t)n);
    return took > 0 ? (size_t)took : (size_t)-1;
}
TN_ROUTINE int64_t
tn_opj_skip(int64_t n, void *user)
{
    TnImage *m = (TnImage *)user;

    if (n < 0 || n > m->bytes - m->next)
        return -1;
    m->next += n;
    return n;
}
TN_ROUTINE int
tn_opj_seek(int64_t to, void *user)
{
    TnImage *m = (TnImage *)user;

    if (to < 0 || to > m->bytes)
        return 0;
    m->next = to;
    return 1;
}

/* Planes of any number of bits, one or three, each as large as the picture or subsampled. */
TN_ROUTINE int
tn_opj_points(const TnImage *m, const TnOpjImage *image)
{
    for (uint32_t p = 0; p < 3; p++) {
        const TnOpjPlane *plane = &image->plane[image->planes < 3 ? 0 : p];
        if (!plane->data || !plane->w || !plane->h || !plane->dx || !plane->dy || plane->prec < 1 ||
            plane->prec > 31)
            return 0;
        for (int64_t i = 0; i < m->width * m->height; i++) {
            int64_t x = i % m->width / plane->dx, y = i / m->width / plane->dy,
                    most = (INT64_C(1) << plane->prec) - 1;
            x = x < plane->w ? x : plane->w - 1;
            y = y < plane->h ? y : plane->h - 1;
            int64_t v = plane->data[y * plane->w + x] + (plane->sgnd ? (most + 1) / 2 : 0);
            v = v < 0 ? 0 : v > most ? most : v;
            m->out[3 * i + p] = (uint8_t)(plane->prec == 8 ? v : v * 255 / most);
        }
    }
    return 1;
}

TN_ROUTINE int
tn_image_jpeg2000(TnImage *m)
{
    static const char *const names[] = { "opj_create_decompress",
                                         "opj_set_default_decoder_parameters",
                                         "opj_setup_decoder",
                                         "opj_stream_create",
                                         "opj_stream_set_read_function",
                                         "opj_stream_set_skip_function",
                                         "opj_stream_set_seek_function",
                                         "opj_stream_set_user_data",
                                         "opj_stream_set_user_data_length",
                                         "opj_read_header",
                                         "opj_decode",
                                         "opj_image_destroy",
                                         "opj_stream_destroy",
                                         "opj_destroy_codec",
                                         0 };
    void *f[14];
    int done;
    TnOpjImage *image = 0;

    if (!tn_image_library(m, "libopenjp2.so.7", names, f))
        return 0;
    void *codec = ((void *(*)(int))f[0])(m->at[0] == 0 ? 2 : 0),
         *stream = ((void *(*)(size_t, int))f[3])(1 << 16, 1);
    void *options = calloc(1, 1 << 16); /* opj_dparameters_t has 8 KB */
    done = codec && stream && options;
    if (done) {
        ((void (*)(void *))f[1])(options);
        done = ((int (*)(void *, void *))f[2])(codec, options);
        m->next = 0;
        ((void (*)(void *, size_t (*)(void *, size_t, void *)))f[4])(stream, tn_opj_read);
        ((void (*)(void *, int64_t (*)(int64_t, void *)))f[5])(stream, tn_opj_skip);
        ((void (*)(void *, int (*)(int64_t, void *)))f[6])(stream, tn_opj_seek);
        ((void (*)(void *, void *, void *))f[7])(stream, m, 0);
        ((void (*)(void *, uint64_t))f[8])(stream, (uint64_t)m->bytes);
    }
    done = done && ((int (*)(void *, void *, TnOpjImage **))f[9])(stream, codec, &image) && image &&
           image->plane && image->planes;
    if (done) {
        m->width = (int64_t)image->x1 - image->x0;
        m->height = (int64_t)image->y1 - image->y0;
    }
    if (done && m->out)
        done = tn_image_fits(m) &&
               ((int (*)(void *, void *, TnOpjImage *))f[10])(codec, stream, image) &&
               tn_opj_points(m, image);
    if (image)
        ((void (*)(TnOpjImage *))f[11])(image);
    if (stream)
        ((void (*)(void *))f[12])(stream);
    if (codec)
        ((void (*)(void *))f[13])(codec);
    free(options);
    return done;
}

/* ---- the formats read here ------------------------------------------------------------------- */

TN_ROUTINE int64_t
tn_image_little(const TnImage *m, int64_t at, int n)
{
    uint32_t v = 0;

    for (int i = 0; i < n; i++)
        v |= (uint32_t)(at + i < m->bytes ? m->at[at + i] : 0) << (8 * i);
    return n == 4 ? (int32_t)v : (int64_t)v;
}

/* Rows from the lowest up, or from the highest down if the height is negative; 24 or 32 bits for a
 * point, or an index of 1, 4 or 8 bits into a colour table. */
TN_ROUTINE int
tn_image_bmp(TnImage *m)
{
    int64_t head = tn_image_little(m, 14, 4), width = tn_image_little(m, 18, 4),
            height = tn_image_little(m, 22, 4);
    int64_t bits = tn_image_little(m, 28, 2), packed = tn_image_little(m, 30, 4),
            points = tn_image_little(m, 10, 4);
    int64_t down = height < 0, colours = tn_image_little(m, 46, 4);

    m->width = width;
    m->height = down ? -height : height;
    if (m->bytes < 54 || head < 40 || (packed && !(packed == 3 && bits == 32)) ||
        (bits != 1 && bits != 4 && bits != 8 && bits != 24 && bits != 32) || !tn_image_fits(m))
        return 0;
    int64_t row = (width * bits + 31) / 32 * 4, table = 14 + head,
            most = bits > 8 ? 0 : INT64_C(1) << bits;
    colours = colours > 0 && colours < most ? colours : most;
    if (points < 0 || points > m->bytes || row > (m->bytes - points) / m->height ||
        table > m->bytes || 4 * colours > m->bytes - table)
        return 0;
    for (int64_t i = 0; m->out && i < width * m->height; i++) {
        int64_t x = i % width, y = down ? i / width : m->height - 1 - i / width;
        const uint8_t *at = m->at + points + y * row + x * bits / 8;
        if (bits < 24) {
            int64_t index = *at >> (8 - bits - x * bits % 8) & (most - 1);
            at = m->at + table + 4 * (index < colours ? index : 0);
        }
        for (int c = 0; c < 3; c++)
            m->out[3 * i + c] = at[2 - c];
    }
    return 1;
}

/* The next number of a PNM file, after white space and comments; -1: none. */
TN_ROUTINE int64_t
tn_image_number(TnImage *m, int single)
{
    int64_t v = -1;

    for (; m->next < m->bytes; m->next++) {
        int c = m->at[m->next];
        if (c == '#')
            while (m->next < m->bytes && m->at[m->next] != '\n')
                m->next++;
        else if (c != ' ' && (c < '\t' || c > '\r'))
            break;
    }
    while (m->next < m->bytes && m->at[m->next] >= '0' && m->at[m->next] <= '9' &&
           v <= TN_IMAGE_POINTS && !(single && v >= 0))
        v = (v < 0 ? 0 : 10 * v) + m->at[m->next++] - '0';
    return v;
}

/* P1 to P3: numbers as text; P4 to P6: bits, bytes, or pairs of bytes. */
TN_ROUTINE int
tn_image_pnm(TnImage *m)
{
    int kind = m->at[1] - '0', planes = kind % 3 ? 1 : 3, bits = kind % 3 == 1;
    int64_t most = 1;

    m->next = 2;
    m->width = tn_image_number(m, 0);
    m->height = tn_image_number(m, 0);
    if (!bits)
        most = tn_image_number(m, 0);
    if (!tn_image_fits(m) || most < 1 || most > 65535)
        return 0;
    m->next += kind > 3; /* one character of white space */
    int64_t wide = most > 255 ? 2 : 1, row = bits ? (m->width + 7) / 8 : m->width * planes * wide;
    if (kind > 3 && (m->next > m->bytes || row > (m->bytes - m->next) / m->height))
        return 0;
    for (int64_t i = 0; m->out && i < m->width * m->height * planes; i++) {
        const uint8_t *at = m->at + m->next +
                            (kind > 3 && !bits ? i * wide : i / m->width * row + i % m->width / 8);
        int64_t v = kind < 4    ? tn_image_number(m, bits)
                    : bits      ? *at >> (7 - i % m->width % 8) & 1
                    : wide == 2 ? at[0] * 256 + at[1]
                                : at[0];
        if (v < 0)
            return 0;
        v = v > most ? most : v;
        v = bits ? 255 * !v : most == 255 ? v : (v * 255 + most / 2) / most;
        for (int c = 0; c < (planes == 1 ? 3 : 1); c++)
            m->out[planes == 1 ? 3 * i + c : i] = (uint8_t)v;
    }
    return 1;
}

/* ---- the routines ---------------------------------------------------------------------------- */

TN_ROUTINE TnImageReader *
tn_image_reader(const TnImage *m)
{
    if (tn_image_begins(m, "\xff\xd8\xff", 3))
        return tn_image_jpeg;
    if (tn_image_begins(m, "\x89PNG\r\n\x1a\n", 8))
        return tn_image_png;
    if (tn_image_begins(m, "RIFF", 4) && m->bytes > 12 && !memcmp(m->at + 8, "WEBP", 4))
        return tn_image_webp;
    if (tn_image_begins(m, "II*\0", 4) || tn_image_begins(m, "MM\0*", 4))
        return tn_image_tiff;
    if (tn_image_begins(m, "\0\0\0\x0cjP  \r\n\x87\n", 12) ||
        tn_image_begins(m, "\xff\x4f\xff\x51", 4))
        return tn_image_jpeg2000;
    if (tn_image_begins(m, "BM", 2))
        return tn_image_bmp;
    if (m->bytes > 2 && m->at[0] == 'P' && m->at[1] >= '1' && m->at[1] <= '6')
        return tn_image_pnm;
    return 0;
}

/* Its points, red, green and blue, to be freed, and its sizes. NULL: no readable picture, or an
 * error was reported. */
TN_ROUTINE uint8_t *
tn_image_read(const TnRoutine *r, int64_t *width, int64_t *height)
{
    TnImage m = { (const uint8_t *)r->array[0].at, tn_count(&r->array[0]), 0, 0, 0, 0, 0 };
    TnImageReader *reader = tn_image_reader(&m);
    int done = reader && reader(&m) && m.width > 0 && m.height > 0;

    if (done && !tn_image_fits(&m)) {
        tn_wrong(r, m.width < TN_IMAGE_POINTS ? m.width * m.height : m.width, TN_IMAGE_POINTS);
        return 0;
    }
    if (done && !(m.out = (uint8_t *)malloc((size_t)(3 * m.width * m.height))))
        tn_no_memory(r, 3 * m.width * m.height);
    else if (done && !reader(&m)) {
        free(m.out);
        m.out = 0;
    }
    if (m.missing)
        tn_lacks(r, m.missing);
    *width = m.width;
    *height = m.height;
    return m.out;
}

/* image_size(data) {form}: rows and columns; 0 if the picture cannot be read. */
TN_ROUTINE void
tn_image_size(const TnArgs *a, int64_t begin, int64_t end, void *scratch)
{
    const TnRoutine *r = (const TnRoutine *)a;
    int64_t *size = (int64_t *)r->array[1].at, width = 0, height = 0;
    uint8_t *point;

    (void)scratch;
    if (begin >= end)
        return;
    point = tn_image_read(r, &width, &height);
    size[0] = point ? height : 0;
    size[1] = point ? width : 0;
    free(point);
}

/* image_points(data, size) {form}: 0: red, green, blue; 1: blue, green, red; 2: lightness by ITU-R
 * 601. */
TN_ROUTINE void
tn_image_points(const TnArgs *a, int64_t begin, int64_t end, void *scratch)
{
    const TnRoutine *r = (const TnRoutine *)a;
    const TnArray *y = &r->array[2];
    uint8_t *out = (uint8_t *)y->at, *point;
    int64_t width = 0, height = 0, n = y->dim[0] * y->dim[1];
    int form = (int)r->attr[0];

    (void)scratch;
    if (begin >= end || !n)
        return;
    point = tn_image_read(r, &width, &height);
    if (!point || width != y->dim[1] || height != y->dim[0]) {
        free(point);
        if (!r->args.fault->code)
            tn_wrong(r, n, point ? width * height : 0);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        const uint8_t *p = point + 3 * i;
        if (form == 2)
            out[i] = (uint8_t)((p[0] * 19595 + p[1] * 38470 + p[2] * 7471 + 0x8000) >> 16);
        else
            for (int c = 0; c < 3; c++)
                out[3 * i + c] = p[form ? 2 - c : c];
    }
    free(point);
}
#endif
