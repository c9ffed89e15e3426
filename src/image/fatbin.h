/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Containers of device code, as nvcc, fatbinary and nvJitLink of CUDA 11 to 13 make them. NVIDIA
 * does not document the layout; it was read from their output.
 */
#ifndef GM_IMAGE_FATBIN_H
#define GM_IMAGE_FATBIN_H

#include "image/image.h"
#include "image/view.h"

enum {
	GM_WRAPPER_MAGIC = 0x466243b1,
	GM_WRAPPER_LINKED = 2, /* version 1 has `data` only */
	GM_FATBIN_VERSION = 1
};
#define GM_FATBIN_MAGIC 0xba55ed50u

/* In programs: the address of the container and, if it was linked from several, their addresses. */
struct gm_wrapper {
	uint32_t magic, version;
	const void *data;
	const void *const
		*containers; /* version 2 only; NULL ends the list, or its last entry is missing */
};

struct gm_fatbin_head {
	uint32_t magic;
	uint16_t version, header_size;
	uint64_t size; /* bytes of all entries after the header */
};

enum gm_fatbin_kind { GM_FATBIN_PTX = 1, GM_FATBIN_ELF = 2, GM_FATBIN_LTO = 8 };
enum gm_fatbin_flag {
	GM_FATBIN_DEBUG = 0x2,
	GM_FATBIN_LZ4 = 0x2000,
	GM_FATBIN_ZSTD = 0x8000,
	GM_FATBIN_EXACT = 0x100000, /* sm_90a */
	GM_FATBIN_FAMILY = 0x200000 /* sm_100f */
};

struct gm_fatbin_entry {
	uint16_t kind, version;
	uint32_t header_size;  /* 64; more with names or options */
	uint64_t payload_size; /* bytes in the container, padded to 8 */
	uint32_t packed_size;  /* compressed bytes of these; 0: not compressed */
	uint32_t options_offset;
	uint16_t minor, major; /* version of the PTX, or of the ABI */
	uint32_t arch;
	uint32_t name_offset, name_length;
	uint64_t flags, hash, size; /* size: unpacked; 0 if not compressed */
};
_Static_assert(sizeof(struct gm_wrapper) == 24, "as nvcc lays it out");
_Static_assert(sizeof(struct gm_fatbin_head) == 16, "as nvcc lays it out");
_Static_assert(sizeof(struct gm_fatbin_entry) == 64, "as nvcc lays it out");

/* Iterator over the entries of a container. */
struct gm_fatbin {
	struct gm_view entries; /* exactly the entries */
	uint64_t at, end;	/* next entry; end of the container in the view it was opened in */
};

/* Does a container, or a wrapper, begin here? */
bool gm_fatbin_begins(struct gm_view *view, uint64_t offset);
bool gm_wrapper_begins(struct gm_view *view);

/* Open the container at `offset`. False: *why has the reason. */
bool gm_fatbin_open(struct gm_fatbin *fatbin, struct gm_view *view, uint64_t offset,
		    enum gm_image_why *why);

enum gm_fatbin_step { GM_FATBIN_ENTRY, GM_FATBIN_END, GM_FATBIN_BROKEN };

/* The next entry: its description, and its code as stored. */
enum gm_fatbin_step gm_fatbin_next(struct gm_fatbin *fatbin, struct gm_image_part *part,
				   struct gm_view *code);

/* Start again with the first entry. */
void gm_fatbin_rewind(struct gm_fatbin *fatbin);

/*
 * Rank of a part on a device of this architecture: the driver loads the highest. 0: the driver
 * cannot use the part. Parts of equal rank are equivalent.
 */
unsigned gm_fatbin_preference(const struct gm_image_part *part, unsigned arch);

#endif
