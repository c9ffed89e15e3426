/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where in a program a piece of machine code is: the cubins of loaded images are kept, and searched
 * for equal instructions. Instructions that a loader patches may differ.
 */
#ifndef GM_IMAGE_PLACES_H
#define GM_IMAGE_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gm_image_place {
	char function[1024]; /* of the kernel, or the function with code of its own; mangled */
	uint64_t offset;     /* in its code */
	char file[1024];     /* "": not known */
	uint32_t line;
};

/*
 * Keep copies of the code that the driver loads from an image (gm_image_allocates has the
 * arguments), or else from a file, each once, 512 MiB in all. They stay as long as the process.
 * Without host memory there are fewer. Any thread; takes no lock.
 */
void gm_places_keep(const void *image, const char *path, unsigned arch);

/*
 * Find the instruction at `address`, behind a call: `words` are the halves of `n` instructions, of
 * which number n / 2 is the one; those that are 0 are not known. Of equal code, as in an unrolled
 * loop, that is found which fits the alignment of the function, and then the calls of it that were
 * found before. False: no kept code has them. Any thread.
 */
bool gm_places_find(uint64_t address, const uint64_t *words, unsigned n,
		    struct gm_image_place *out);

/* In a forked child: forget the code. */
void gm_places_forget(void);

#endif
