/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * May this image call malloc? An image is the driver's input for loading device code: a wrapper as
 * nvcc puts it into programs, a container (fatbin), a cubin, PTX text, or an object file of the
 * host with containers in it.
 *
 *     wrapper ---------> container: | entry | entry | ...
 *     host ELF: section -^          an entry: cubin, PTX or LTO, plain or compressed
 *
 * A container has code for several architectures. The driver loads the newest cubin that the device
 * can run, else the newest PTX. gm_image_allocates judges that entry alone if it is given the
 * architecture, else all entries. (CUDA_FORCE_PTX_JIT makes the driver load PTX: pass GM_IMAGE_ANY
 * then.) Relocatable cubins are judged by their own symbols: the result of linking is another
 * image. Intermediate code (LTO) cannot be read.
 *
 * A wrong yes costs memory, a wrong no leaves a program as it was. So an image that is not
 * understood is "unknown", to be taken for a yes. free alone is no yes: without an allocation there
 * is nothing to free; `symbols` has it.
 *
 * No function here writes, logs, takes a lock or calls the driver. Nothing is read beyond `size`
 * or, where that is unknown, beyond the mapped range that the headers span. Compressed code is
 * unpacked one entry at a time, GM_IMAGE_MOST bytes at most. liblz4.so.1 and libzstd.so.1 are
 * opened for the first image that needs them, and never closed. Any thread.
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
#define GM_IMAGE_SYMBOL(id, name, role) GM_IMAGE_SYMBOL_##id,
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
	enum gm_image_why why; /* reason of the answer; the first of several */
	uint32_t symbols;      /* bit s: gm_image_symbol s is called; incomplete after a yes */
	unsigned n_archs;      /* architectures seen, judged or not */
	uint32_t archs[GM_IMAGE_ARCHS]; /* further ones are dropped */
};

enum gm_image_kind { GM_IMAGE_PTX, GM_IMAGE_CUBIN, GM_IMAGE_OBJECT, GM_IMAGE_LTO, GM_IMAGE_OTHER };
enum gm_image_packing { GM_IMAGE_RAW, GM_IMAGE_LZ4, GM_IMAGE_ZSTD, GM_IMAGE_PACKED };

/* A part of an image: one piece of code. */
struct gm_image_part {
	enum gm_image_kind kind; /* OBJECT: a relocatable cubin, known once it is judged */
	uint32_t arch;
	enum gm_image_packing packing;
	bool debug;
	unsigned container;    /* 1, 2, ...; 0: in no container */
	uint64_t stored, size; /* bytes in the image, and unpacked */
};

/*
 * Judge an image. `size`: 0 if unknown. `arch`: the number of the device's architecture (10 times
 * the major version of its compute capability plus the minor one), or GM_IMAGE_ANY. True:
 * out->answer is not GM_IMAGE_NO.
 */
bool gm_image_allocates(const void *image, size_t size, unsigned arch,
			struct gm_image_verdict *out);

/* May the image call functions of the device runtime (symbols.def)? True for code that cannot be
 * read. `verdict` is not a no. */
bool gm_image_uses_runtime(const struct gm_image_verdict *verdict);

/* Address of an image's code: the container of a wrapper, else the image. NULL: it cannot be
 * read. */
const void *gm_image_code(const void *image);

/* gm_image_allocates for a file; pointers in it are not followed. The file is read, not mapped: it
 * may shrink. */
bool gm_image_file_allocates(const char *path, unsigned arch, struct gm_image_verdict *out);

/* Read `size` bytes (at least 1) from the position of `fd` into memory that the caller frees. Not
 * mapped: a mapped file that shrinks would end the process. NULL: errno, or 0 if the file has
 * fewer. */
void *gm_image_read(int fd, size_t size);

/*
 * Call `see` for every part of an image of a known size, whatever the answer; pointers in it are
 * not followed. *out is the verdict of all parts. Before that, `kernel` (may be NULL) gets the
 * names of the part's kernels, as far as its code can be unpacked, not ended by a 0.
 */
typedef void gm_image_kernel(void *arg, const char *name, size_t n);
typedef void gm_image_see(void *arg, const struct gm_image_part *part,
			  const struct gm_image_verdict *verdict);
void gm_image_walk(const void *image, size_t size, gm_image_see *see, gm_image_kernel *kernel,
		   void *arg, struct gm_image_verdict *out);

/* Call `see` with the code of each cubin that gm_image_allocates would judge in an image, or else
 * in the file `path`: unpacked, valid during the call. Its end may be unknown (view.h). */
struct gm_view;
typedef void gm_image_code_see(void *arg, struct gm_view *code);
void gm_image_cubins(const void *image, const char *path, unsigned arch, gm_image_code_see *see,
		     void *arg);

/* Texts for users; static, except those in `buf`. */
const char *gm_image_answer_name(enum gm_image_answer answer);
const char *gm_image_why_text(enum gm_image_why why);
const char *gm_image_symbol_name(enum gm_image_symbol symbol);

enum { GM_IMAGE_ARCH_ROOM = 24 };
/* "sm_90a", "compute_75". Returns `buf`. */
const char *gm_image_arch_name(uint32_t arch, char buf[GM_IMAGE_ARCH_ROOM]);

#endif
