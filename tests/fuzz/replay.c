/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs a harness over its corpus, without libFuzzer: one test a file. $srcdir is the source
 * folder. */
#include <dirent.h>

#include "../tap.h"
#include "fuzz.h"

#undef main /* -Dmain is for tools/main.c */

enum { ROOM = 1 << 20 };

static int is_file(const struct dirent *entry)
{
	return *entry->d_name != '.';
}

static bool replay(const char *folder, const char *name)
{
	static uint8_t room[ROOM];
	char path[4096];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	FILE *file = fopen(path, "rb");
	if (!file)
		return false;
	size_t n = fread(room, 1, sizeof room, file);
	fclose(file);
	uint8_t *exact = malloc(n ? n : 1);
	memcpy(exact, room, n);
	bool done = LLVMFuzzerTestOneInput(exact, n) == 0;
	free(exact);
	return done;
}

int main(void)
{
	const char *top = getenv("srcdir");
	char folder[2048];
	struct dirent **entries;
	snprintf(folder, sizeof folder, "%s/tests/fuzz/corpus/" CORPUS, top ? top : ".");
	int n = scandir(folder, &entries, is_file, alphasort);
	TAP_OK(n > 0, "%s has files", folder);
	for (int i = 0; i < n; i++) {
		TAP_OK(replay(folder, entries[i]->d_name), CORPUS "/%s is replayed",
		       entries[i]->d_name);
		free(entries[i]);
	}
	if (n >= 0)
		free(entries);
	return tap_done();
}
