/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/plot/svg.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/escape.h"

enum { TEXT_MOST = 1024 };

double gm_svg_text_width(const char *text)
{
	double width = 0;
	for (const char *c = text; *c; c++)
		width += (*c & 0xc0) == 0x80 ? 0 : strchr("ijlt.,:;| ()'", *c) ? 4 : 7;
	return width;
}

void gm_svg_escape(FILE *out, const char *text)
{
	char escaped[4 * TEXT_MOST];
	gm_escape(text, escaped, sizeof escaped);
	for (const char *c = escaped; *c; c++)
		switch (*c) {
		case '\xef': /* XML has no U+FFFE and U+FFFF, which are UTF-8 */
			if (c[1] == '\xbf' && (c[2] == '\xbe' || c[2] == '\xbf')) {
				putc('?', out);
				c += 2;
				break;
			}
			putc(*c, out);
			break;
		case '<':
			fputs("&lt;", out);
			break;
		case '>':
			fputs("&gt;", out);
			break;
		case '&':
			fputs("&amp;", out);
			break;
		default:
			putc(*c, out);
		}
}

void gm_svg_text(FILE *out, double x, double y, const char *class, const char *format, ...)
{
	char text[TEXT_MOST];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x, y, class);
	gm_svg_escape(out, text);
	fputs("</text>\n", out);
}

void gm_svg_line(FILE *out, double x1, double y1, double x2, double y2, const char *class)
{
	fprintf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"%s\"/>\n", x1,
		y1, x2, y2, class);
}

void gm_svg_rect(FILE *out, double x, double y, double width, double height, const char *class)
{
	fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" class=\"%s\"/>\n",
		x, y, width, height, class);
}

void gm_svg_steps_to(struct gm_svg_steps *steps, double x, double y)
{
	if (steps->any && fabs(y - steps->y) < 0.05)
		return;
	if (steps->any)
		fprintf(steps->out, "H%.1fV%.1f", x, y);
	else
		fprintf(steps->out, "M%.1f %.1f", x, y);
	steps->x = x;
	steps->y = y;
	steps->any = true;
}
