/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/output/progress.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/escape.h"
#include "log/read.h"

enum { BAR = 30, NAME_MOST = 30 };

/* "gpumemstat [######....]  45% NAME", redrawn at each percent, erased at the end. */
static void bar_draw(const char *path, uint64_t done, uint64_t total)
{
	static unsigned drawn = 101;
	const unsigned percent = total ? (unsigned)(done * 100 / total) : 100;
	const unsigned filled = percent * BAR / 100;
	const char *slash = strrchr(path, '/');
	char name[4 * 256];
	if (percent >= 100) {
		fputs("\r\033[K", stderr);
		drawn = 101;
		return;
	}
	if (percent == drawn)
		return;
	drawn = percent;
	gm_escape(slash ? slash + 1 : path, name, sizeof name);
	fprintf(stderr, "\rgpumemstat [%.*s%.*s] %3u%% %.*s", (int)filled,
		"##############################", (int)(BAR - filled),
		"..............................", percent, NAME_MOST, name);
}

void gm_progress_start(void)
{
	const char *term = getenv("TERM");
	if (isatty(STDERR_FILENO) && !(term && strcmp(term, "dumb") == 0))
		gm_log_read_progress(bar_draw);
}
