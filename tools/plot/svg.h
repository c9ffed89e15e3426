/* SPDX-License-Identifier: BSD-3-Clause */
/* Parts of an SVG file: escaped text, curves. Lengths are pixels. Single-threaded. */
#ifndef GM_TOOLS_PLOT_SVG_H
#define GM_TOOLS_PLOT_SVG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Estimated maximum width of a text in class "t", pixels. */
double gm_svg_text_width(const char *text);

/* Text of one line. `class`: class names, separated by blanks. Control characters and bad UTF-8 are
 * escaped. */
void gm_svg_text(FILE *out, double x, double y, const char *class, const char *format, ...)
	__attribute__((format(printf, 5, 6)));

/* The text of an element, escaped in the same way. */
void gm_svg_escape(FILE *out, const char *text);

void gm_svg_line(FILE *out, double x1, double y1, double x2, double y2, const char *class);
void gm_svg_rect(FILE *out, double x, double y, double width, double height, const char *class);

/* A path of steps from left to right: begin, then one value a step, then end. */
struct gm_svg_steps {
	FILE *out;
	double x, y;
	bool any;
};
void gm_svg_steps_to(struct gm_svg_steps *steps, double x, double y);

#endif
