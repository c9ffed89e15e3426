/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * May this image call malloc? An image is what the driver is given to load: a wrapper as nvcc puts
 * it into programs, a container (fatbin), a cubin, PTX text, an object file of the host with
 * containers in it.
 *
 * A container has code for several architectures. The driver takes the newest cubin that the device
 * can run, else the newest PTX; gm_image_allocates looks at that one alone when it is told the
 * architecture, and else at all of them. (The driver is made to take PTX by CUDA_FORCE_PTX_JIT: say
 * GM_IMAGE_ANY then.) Code for link time is as good as what it says itself: relocatable cubins are
 * judged by their own symbols, for what they are linked to is an image again; intermediate code
 * (LTO) cannot be read.
 *
 * A yes that is wrong costs memory, a no that is wrong leaves a program as it was; so whatever is
 * not understood is "unknown", to be taken for a yes. free alone is no yes: there is nothing to
 * free where nobody allocates, and `symbols` has it.
 *
 * Nothing here writes, logs, takes a lock or calls the driver; nothing is read beyond `size`, or,
 * where that is unknown, beyond what the headers span and is mapped. Compressed code is unpacked
 * one piece at a time, GM_IMAGE_MOST bytes at most. liblz4.so.1 and libzstd.so.1 are opened when
 * the first image needs them, and never closed. Any thread.
 */
#ifndef GM_IMAGE_IMAGE_H
#define GM_IMAGE_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/size.h"

#define GM_IMAGE_MOST (256 * GM_MIB)

enum gm_image_answer { GM_IMAGE_NO, GM_IMAGE_UNKNOWN, GM_IMAGE_YES };

enum gm_image_why {
#define GM_IMAGE_WHY(name, answer, text) GM_IMAGE_WHY_##name,
#include "image/why.def"
#undef GM_IMAGE_WHY
	GM_IMAGE_WHYS
};

enum gm_image_symbol {
#define GM_IMAGE_SYMBOL(id, name, allocates) GM_IMAGE_SYMBOL_##id,
#include "image/symbols.def"
#undef GM_IMAGE_SYMBOL
	GM_IMAGE_SYMBOLS
};

/* An architecture: its number (90), and flags. */
enum {
	GM_IMAGE_ANY = 0,
	GM_IMAGE_NUMBER = 0xffff,
	GM_IMAGE_EXACT = 1 << 16,  /* sm_90a: for this device alone */
	GM_IMAGE_FAMILY = 1 << 17, /* sm_100f: for its family */
	GM_IMAGE_VIRTUAL = 1 << 18 /* compute_90: PTX, or intermediate code */
};

enum { GM_IMAGE_ARCHS = 24 };

struct gm_image_verdict {
	enum gm_image_answer answer;
	enum gm_image_why why; /* of the answer; the first one, where there are several */
	uint32_t symbols; /* bit s: gm_image_symbol s is called; not all when stopped at a yes */
	unsigned n_archs; /* seen, whether they were looked at or not */
	uint32_t archs[GM_IMAGE_ARCHS]; /* what is beyond is left out */
};

enum gm_image_kind { GM_IMAGE_PTX, GM_IMAGE_CUBIN, GM_IMAGE_OBJECT, GM_IMAGE_LTO, GM_IMAGE_OTHER };
enum gm_image_packing { GM_IMAGE_RAW, GM_IMAGE_LZ4, GM_IMAGE_ZSTD, GM_IMAGE_PACKED };

/* A piece of code of an image. */
struct gm_image_part {
	enum gm_image_kind kind; /* OBJECT: a relocatable cubin, known once it was looked at */
	uint32_t arch;
	enum gm_image_packing packing;
	bool debug;
	unsigned container;    /* 1, 2, ...; 0: it is in none */
	uint64_t stored, size; /* bytes in the image, and unpacked */
};

/*
 * What `image` calls, and why that is the answer. `size`: 0 if unknown. `arch`: the number of the
 * device's architecture (10 times the major version of its compute capability and the minor one),
 * or GM_IMAGE_ANY. True: *out->answer is not GM_IMAGE_NO.
 */
bool gm_image_allocates(const void *image, size_t size, unsigned arch,
			struct gm_image_verdict *out);

/* Where the code of an image is, without looking at it: what a wrapper leads to, else the image.
 * NULL: that cannot be read. */
const void *gm_image_code(const void *image);

/* The same of a file; pointers in it are not followed. It is read whole, not mapped, for it may
 * shrink. */
bool gm_image_file_allocates(const char *path, unsigned arch, struct gm_image_verdict *out);

/*
 * Every part of an image of a known size, one call of `see` each, whatever the answer; pointers in
 * it are not followed. *out is about all of them.
 */
typedef void gm_image_see(void *arg, const struct gm_image_part *part,
			  const struct gm_image_verdict *verdict);
void gm_image_walk(const void *image, size_t size, gm_image_see *see, void *arg,
		   struct gm_image_verdict *out);

/* Texts for people; static, but those of `buf`. */
const char *gm_image_answer_name(enum gm_image_answer answer);
const char *gm_image_why_text(enum gm_image_why why);
const char *gm_image_symbol_name(enum gm_image_symbol symbol);

enum { GM_IMAGE_ARCH_ROOM = 24 };
/* "sm_90a", "compute_75". Returns `buf`. */
const char *gm_image_arch_name(uint32_t arch, char buf[GM_IMAGE_ARCH_ROOM]);

#endif
