/* SPDX-License-Identifier: BSD-3-Clause */
#include "fatbin.h"

#include "judge.h"

static bool magic_is_at(struct gm_view *view, uint64_t offset, uint32_t magic)
{
	uint32_t found;
	return gm_view_copy(view, offset, &found, sizeof found) && found == magic;
}

bool gm_fatbin_begins(struct gm_view *view, uint64_t offset)
{
	return magic_is_at(view, offset, GM_FATBIN_MAGIC);
}

bool gm_wrapper_begins(struct gm_view *view)
{
	return magic_is_at(view, 0, GM_WRAPPER_MAGIC);
}

bool gm_fatbin_open(struct gm_fatbin *fatbin, struct gm_view *view, uint64_t offset,
		    enum gm_image_why *why)
{
	struct gm_fatbin_head head;
	*fatbin = (struct gm_fatbin){0};
	/* The magic number first: the rest of a header is read only if this is one. */
	bool there = gm_view_get(view, offset, sizeof head.magic);
	*why = there ? GM_IMAGE_WHY_FORMAT : gm_verdict_lack(view);
	if (!there || !gm_fatbin_begins(view, offset))
		return false;
	*why = gm_verdict_lack(view);
	if (!gm_view_copy(view, offset, &head, sizeof head) || head.header_size < sizeof head)
		return false;
	if (head.version != GM_FATBIN_VERSION) {
		*why = GM_IMAGE_WHY_FORMAT;
		return false;
	}
	if (!gm_view_part(view, offset + head.header_size, head.size, &fatbin->entries))
		return false;
	fatbin->end = offset + head.header_size + head.size;
	return true;
}

static enum gm_image_packing entry_packing(const struct gm_fatbin_entry *entry)
{
	uint64_t how = entry->flags & (GM_FATBIN_LZ4 | GM_FATBIN_ZSTD);
	if (how == 0 && entry->packed_size == 0)
		return GM_IMAGE_RAW;
	if (entry->packed_size == 0 || how == 0 || how == (GM_FATBIN_LZ4 | GM_FATBIN_ZSTD))
		return GM_IMAGE_PACKED;
	return how == GM_FATBIN_LZ4 ? GM_IMAGE_LZ4 : GM_IMAGE_ZSTD;
}

static enum gm_image_kind entry_kind(const struct gm_fatbin_entry *entry)
{
	switch (entry->kind) {
	case GM_FATBIN_PTX:
		return GM_IMAGE_PTX;
	case GM_FATBIN_ELF:
		return GM_IMAGE_CUBIN;
	case GM_FATBIN_LTO:
		return GM_IMAGE_LTO;
	default:
		return GM_IMAGE_OTHER;
	}
}

static struct gm_image_part entry_part(const struct gm_fatbin_entry *entry)
{
	struct gm_image_part part = {.kind = entry_kind(entry),
				     .arch = entry->arch & GM_IMAGE_NUMBER,
				     .packing = entry_packing(entry),
				     .debug = entry->flags & GM_FATBIN_DEBUG,
				     .stored = entry->payload_size,
				     .size = entry->size ? entry->size : entry->payload_size};
	part.arch |= entry->flags & GM_FATBIN_EXACT ? GM_IMAGE_EXACT : 0;
	part.arch |= entry->flags & GM_FATBIN_FAMILY ? GM_IMAGE_FAMILY : 0;
	if (part.kind == GM_IMAGE_PTX || part.kind == GM_IMAGE_LTO)
		part.arch |= GM_IMAGE_VIRTUAL;
	return part;
}

enum gm_fatbin_step gm_fatbin_next(struct gm_fatbin *fatbin, struct gm_image_part *part,
				   struct gm_view *code)
{
	struct gm_fatbin_entry entry;
	uint64_t behind;
	if (fatbin->at == fatbin->entries.size)
		return GM_FATBIN_END;
	if (!gm_view_copy(&fatbin->entries, fatbin->at, &entry, sizeof entry) ||
	    entry.header_size < sizeof entry || entry.packed_size > entry.payload_size ||
	    __builtin_add_overflow(fatbin->at, entry.header_size, &behind) ||
	    !gm_view_part(&fatbin->entries, behind, entry.payload_size, code))
		return GM_FATBIN_BROKEN;
	*part = entry_part(&entry);
	fatbin->at = behind + entry.payload_size;
	if (entry.packed_size)
		code->size = entry.packed_size;
	return GM_FATBIN_ENTRY;
}

void gm_fatbin_rewind(struct gm_fatbin *fatbin)
{
	fatbin->at = 0;
}

unsigned gm_fatbin_preference(const struct gm_image_part *part, unsigned arch)
{
	unsigned number = part->arch & GM_IMAGE_NUMBER;
	bool same_major = number / 10 == arch / 10, cubin = part->kind == GM_IMAGE_CUBIN;
	if ((!cubin && part->kind != GM_IMAGE_PTX) || number > arch)
		return 0;
	if (part->arch & GM_IMAGE_EXACT && number != arch)
		return 0;
	if ((cubin || part->arch & GM_IMAGE_FAMILY) && !same_major)
		return 0;
	return (cubin ? GM_IMAGE_NUMBER + 1 : 0) + number + 1;
}
