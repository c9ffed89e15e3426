/* SPDX-License-Identifier: BSD-3-Clause */
/* mkimage FILE WORD...: an image of device code, by the words of ../image_make.h. "mkimage pack":
 * can it compress? */
#include "../image_make.h"

int main(int argc, char **argv)
{
	char words[4096] = "";
	struct make m;
	if (argc == 2 && strcmp(argv[1], "pack") == 0)
		return !make_can_pack();
	for (int i = 2; i < argc; i++)
		snprintf(words + strlen(words), sizeof words - strlen(words), "%s%s",
			 i > 2 ? " " : "", argv[i]);
	FILE *file = argc > 2 ? fopen(argv[1], "wb") : NULL;
	if (!file) {
		fprintf(stderr, "usage: mkimage FILE WORD...\n");
		return 2;
	}
	make_image(&m, words);
	size_t written = fwrite(m.at, 1, m.n, file);
	bool whole = written == m.n && fclose(file) == 0;
	free(m.at);
	return !whole;
}
