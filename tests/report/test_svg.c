/* The palette and the text of pictures. */
#include "tests/report/rig.h"

#include <math.h>

#include "report/svg.h"

/* ---- colours ---- */

/* Computes the red, green and blue of "#rrggbb" in linear light (IEC 61966-2-1). */
static void linear_light(const char *hex, double rgb[3]) {
    unsigned all = (unsigned)strtoul(hex + 1, NULL, 16);
    for (int i = 0; i < 3; i++) {
        double c = (all >> (16 - 8 * i) & 255) / 255.0;
        rgb[i] = c <= 0.04045 ? c / 12.92 : pow((c + 0.055) / 1.055, 2.4);
    }
}

static double luminance(const char *hex) {
    double rgb[3];
    linear_light(hex, rgb);
    return 0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2];
}

/* Returns the contrast ratio of WCAG 2: 1 to 21. */
static double contrast(const char *a, const char *b) {
    double x = luminance(a) + 0.05, y = luminance(b) + 0.05;
    return fmax(x, y) / fmin(x, y);
}

TEST(every_colour_stands_out_on_light_and_dark_paper) {
    assert_near(contrast("#000000", "#ffffff"), 21, 1e-12);
    assert_near(contrast("#ffffff", "#0072b2"), 5.19, 5e-3); /* blue of Okabe and Ito */
    for (int i = 0; i < SVG_COLOURS; i++) {
        if (contrast(SVG_PALETTE[i], SVG_LIGHT) < 3) fail_msg("%s on white", SVG_PALETTE[i]);
        if (contrast(SVG_PALETTE[i], SVG_DARK) < 3) fail_msg("%s on " SVG_DARK, SVG_PALETTE[i]);
    }
}

/* Computes L*a*b* under D65 of a colour as someone sees it. */
static void lab_of(const char *hex, const double sight[9], double lab[3]) {
    static const double xyz[9] = {0.4124, 0.3576, 0.1805, 0.2126, 0.7152, 0.0722, 0.0193, 0.1192, 0.9505};
    static const double white[3] = {0.9505, 1, 1.089};
    double rgb[3], seen[3], f[3];
    linear_light(hex, rgb);
    for (int i = 0; i < 3; i++)
        seen[i] = fmin(fmax(sight[3 * i] * rgb[0] + sight[3 * i + 1] * rgb[1] + sight[3 * i + 2] * rgb[2], 0), 1);
    for (int i = 0; i < 3; i++) {
        double c = (xyz[3 * i] * seen[0] + xyz[3 * i + 1] * seen[1] + xyz[3 * i + 2] * seen[2]) / white[i];
        f[i] = c > 216.0 / 24389 ? cbrt(c) : (24389.0 / 27 * c + 16) / 116;
    }
    lab[0] = 116 * f[1] - 16, lab[1] = 500 * (f[0] - f[1]), lab[2] = 200 * (f[1] - f[2]);
}

/* Matrices of Machado, Oliveira and Fernandes (2009) for the whole loss of a kind of cone. A distance of 2.3 is just
 * noticeable. */
TEST(colours_differ_for_every_kind_of_sight) {
    static const double sights[][9] = {
        {1, 0, 0, 0, 1, 0, 0, 0, 1},
        {0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998},
        {0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.011820, 0.042940, 0.968881},
        {1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.303900}};
    for (int sight = 0; sight < 4; sight++)
        for (int a = 0; a < SVG_COLOURS; a++)
            for (int b = 0; b < a; b++) {
                double x[3], y[3];
                lab_of(SVG_PALETTE[a], sights[sight], x);
                lab_of(SVG_PALETTE[b], sights[sight], y);
                double distance = sqrt(pow(x[0] - y[0], 2) + pow(x[1] - y[1], 2) + pow(x[2] - y[2], 2));
                if (distance < 15)
                    fail_msg("%s and %s are %.1f apart for sight %d", SVG_PALETTE[a], SVG_PALETTE[b], distance, sight);
            }
}

/* ---- text ---- */

static char *escaped(const char *text) {
    char *out;
    size_t size;
    FILE *file = open_memstream(&out, &size);
    svg_escape(file, text);
    fclose(file);
    return keep(keep(out));
}

TEST(text_that_xml_cannot_represent_becomes_spaces) {
    assert_string_equal(escaped("a<b>&\"c'"), "a&lt;b&gt;&amp;\"c'");
    assert_string_equal(escaped("1\x01\n\t\x7F!"), "1    !");
    assert_string_equal(escaped("ı€\xF0\x9F\x98\x80"), "ı€\xF0\x9F\x98\x80");
    assert_string_equal(escaped("\xFF\xC3"), "  ");                  /* no UTF-8; cut */
    assert_string_equal(escaped("\xC0\xAF|\xE0\x80\xAF"), "  |   "); /* overlong '/' */
    assert_string_equal(escaped("\xED\xA0\x80"), "   ");             /* a surrogate */
    assert_string_equal(escaped("\xEF\xBF\xBF"), "   ");             /* U+FFFF */
    assert_string_equal(escaped("\xF4\x90\x80\x80"), "    ");        /* above U+10FFFF */
}

TEST(long_text_loses_its_middle) {
    char *fits = keep(svg_text_fit("short", 100)),
         *cut = keep(svg_text_fit("a class with a name that is far too long", 120));
    assert_string_equal(fits, "short");
    assert_contains(cut, "a class");
    assert_contains(cut, "\xE2\x80\xA6");
    assert_string_equal(cut + strlen(cut) - 4, "long");
    assert_true(svg_text_width(cut) <= 120);
    cut = keep(svg_text_fit("雷達雷達雷達雷達", 60)); /* cut between characters */
    assert_string_equal(cut, "雷\xE2\x80\xA6達");
}
