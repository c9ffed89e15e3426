/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The size classes of policy `granule`: the part of a full heap that blocks of each size use, and
 * the arithmetic from addresses to slots at every address, which does not divide.
 */
#include "tests/unit/heap_help.h"

static struct fixture f;

static const struct gm_granule_class *class_at(uint32_t c)
{
	return &gm_granules_of(&f.heap)->class_[c];
}

/* Thousandths of a full heap that blocks of this size use. */
static unsigned used(size_t size)
{
	const struct gm_granule_class *class_ = class_at(gm_granule_class_of(size));
	return (unsigned)(size * class_->slots * 1000 / GM_GRANULE);
}

/* The same for slots of exactly the size, rounded up to the block alignment of 16 bytes. */
static unsigned possible(size_t size)
{
	return (unsigned)(size * 1000 / ((size + 15) & ~(size_t)15));
}

static void check_sizes(void)
{
	unsigned wrong = 0, smaller = 0, least = 1000, unaligned = 0, exact = 0;
	for (size_t size = 1; size <= 1 << 20; size++) {
		uint32_t c = gm_granule_class_of(size);
		wrong += c >= GM_CLASSES || gm_granule_size(c) < size;
		smaller += c && gm_granule_size(c - 1) >= size;
		if (size <= 256)
			exact += gm_granule_size(c) == ((size + 15) & ~(size_t)15);
		if (size > 128 && size <= 8192 && used(size) < least)
			least = used(size);
	}
	TAP_IS(wrong, 0, "each size has a class with slots of at least that size");
	TAP_IS(smaller, 0, "no class with smaller slots is large enough");
	TAP_IS(exact, 256, "slots up to 256 bytes have the size, rounded up to 16 bytes");
	TAP_OK(least >= 888, "blocks of 129 bytes to 8 KiB use %u thousandths of a full heap",
	       least);
	for (uint32_t c = 0; c < GM_CLASSES; c++) {
		uint32_t size = class_at(c)->size, header = class_at(c)->header;
		unaligned += size % 16 || header % size;
		unaligned += (size & (size - 1)) == 0 && gm_granule_class_of(size) != c;
		unaligned += header + (uint64_t)size * class_at(c)->slots > GM_GRANULE;
		unaligned += header && (class_at(c)->slots + 31) / 32 * 4 > header;
		unaligned += !header && class_at(c)->slots > GM_SLAB_BITS;
	}
	TAP_IS(unaligned, 0, "powers of two are classes, and slots are aligned to them");
	TAP_IS(gm_granule_class_of(0), 0, "no bytes are the first class");
}

/* The figures of doc/performance.md. */
static void check_table(void)
{
	static const struct {
		size_t size;
		unsigned least; /* thousandths */
	} table[] = {{16, 990},	  {24, 740},	{32, 990},   {40, 825},	  {64, 990},   {100, 885},
		     {128, 990},  {200, 950},	{256, 990},  {320, 990},  {400, 950},  {512, 990},
		     {600, 935},  {777, 930},	{1000, 970}, {1024, 990}, {1500, 970}, {2048, 990},
		     {3000, 970}, {4096, 1000}, {5000, 970}, {6000, 970}, {8192, 1000}};
	for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
		TAP_OK(used(table[i].size) >= table[i].least,
		       "%zu bytes use %u thousandths of a full heap; alignment allows %u",
		       table[i].size, used(table[i].size), possible(table[i].size));
}

/* Every multiple of 16 bytes, and its neighbours. */
static void check_addresses(void)
{
	unsigned wrong = 0, wrapped = 0;
	for (uint32_t c = 0; c < GM_CLASSES; c++) {
		const struct gm_granule_class *class_ = class_at(c);
		for (uint32_t offset = 0; offset < GM_GRANULE; offset += 16) {
			uint32_t header = 0, part = offset - class_->header;
			uint32_t slot = gm_granule_slot_at(class_, offset, &header);
			bool begins = offset >= class_->header && part % class_->size == 0 &&
				      part / class_->size < class_->slots;
			wrong += header != class_->header;
			wrong += slot != (begins ? part / class_->size : GM_NO_SLOT);
			wrong += gm_granule_slot_at(class_, offset + 1, &header) != GM_NO_SLOT;
			wrong += gm_granule_slot_at(class_, offset + 8, &header) != GM_NO_SLOT;
		}
		for (uint32_t k = 0; k < 1000; k++) {
			uint32_t near = k * class_->slots, far = ~0u - k * 4294967;
			wrapped += gm_granule_wrap(class_, near) != 0;
			wrapped += gm_granule_wrap(class_, near - 1) != (near - 1) % class_->slots;
			wrapped += gm_granule_wrap(class_, far) != far % class_->slots;
		}
	}
	TAP_IS(wrong, 0, "an address is a slot's where, and only where, the slot begins");
	TAP_IS(wrapped, 0, "a cursor comes round after the last slot");
}

/* Thousandths of a full heap, with the next classes whose slots have at least the same
 * alignment. */
static void check_larger(void)
{
	unsigned wrong = 0;
	for (uint32_t c = 0; c < GM_CLASSES; c++) {
		uint32_t larger = gm_granule_larger(c), size = gm_granule_size(c);
		if (size == 1 << 20)
			wrong += larger < GM_CLASSES;
		else
			wrong += gm_granule_size(larger) != 2u << gm_log2(size);
	}
	TAP_IS(wrong, 0, "after a class comes the next power of two, to 1 MiB");
}

static void check_bins(void)
{
	static const size_t sizes[] = {16, 32, 48, 64, 96, 128, 192, 256, 384};
	unsigned wrong = 0;
	for (uint32_t bin = 0; bin < sizeof sizes / sizeof *sizes; bin++)
		wrong += gm_granule_bin(gm_granule_class_of(sizes[bin])) != bin;
	wrong += gm_granule_bin(gm_granule_class_of(80)) != 4;
	wrong += gm_granule_bin(gm_granule_class_of(777)) != 11;
	wrong += gm_granule_bin(GM_CLASSES - 1) != GM_SIZES - 2;
	TAP_IS(wrong, 0, "statistics count each class in the least bin that holds its size");
}

int main(void)
{
	unsigned p = 0;
	while (gm_policies[p].malloc != gm_granule_malloc)
		p++;
	test_open(&f, &gm_policies[p], 1, 1, test_seed());
	check_sizes();
	check_table();
	check_addresses();
	check_larger();
	check_bins();
	test_close(&f);
	return tap_done();
}
