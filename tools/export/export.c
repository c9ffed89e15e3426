/* SPDX-License-Identifier: BSD-3-Clause */
/* gpumemstat export: a log in a format of other programs. */
#include "tools/export/export.h"

#include "tools/export/convert.h"

static const struct {
	bool binary, events;
	void (*write)(FILE *out, const struct gm_options *options, struct gm_figures *figures);
} formats[] = {
#define GM_FORMAT(name, binary, events) {binary, events, gm_export_##name},
#include "tools/export/formats.def"
#undef GM_FORMAT
};

int gm_export_main(const struct gm_command *self, int argc, char **argv)
{
	struct gm_options options;
	int first = gm_options_parse(&options, self, argc, argv);
	if (first == GM_OPTIONS_STOP)
		return options.status;
	const struct gm_convert convert = {
		.options = &options,
		.need = formats[options.format].events ? GM_LOGS_EVENTS : GM_LOGS_ANY,
		.binary = formats[options.format].binary,
		.write = formats[options.format].write,
	};
	return gm_convert_run(self, &convert, argv + first, (size_t)(argc - first));
}
