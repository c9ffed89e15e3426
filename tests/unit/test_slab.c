/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/lock.h"
#include "pool/slab.h"

#include "base/size.h"

#include "../tap.h"

int main(void)
{
	struct gm_lock lock = GM_LOCK_INIT(GM_LOCK_RANK_POOL); /* as if of the pool */
	gm_lock_take(&lock);
	unsigned wrong = 0, unordered = 0, wasteful = 0, loose = 0, misled = 0;
	for (uint64_t size = 1; size <= GM_SLAB_LARGEST; size++) {
		unsigned class = gm_slab_class(size);
		uint64_t slot = gm_slab_slot(class), rounded = gm_round_up(size, 512);
		wrong += class >= GM_SLAB_CLASSES || slot < size || slot % 512;
		unordered += size > 1 && class < gm_slab_class(size - 1);
		wasteful += (slot - rounded) * 8 > slot;
		loose += class && gm_slab_slot(class - 1) >= size;
	}
	for (unsigned class = 0; class < GM_SLAB_CLASSES; class ++) {
		uint32_t slot = gm_slab_slot(class), inverse = gm_slab_inverse(slot);
		for (uint64_t at = 0; at < gm_slab_longest(class); at += 256)
			misled += gm_slab_index(at, inverse) != at / slot;
	}
	TAP_IS(wrong, 0, "every small size has a class of slots that hold it, in steps of 512");
	TAP_IS(unordered, 0, "larger sizes have larger classes");
	TAP_IS(wasteful, 0, "no slot is more than an eighth too long");
	TAP_IS(loose, 0, "no size would fit into a smaller class");
	TAP_IS(misled, 0, "every offset leads to the slot that holds it");
	TAP_IS(gm_slab_slot(GM_SLAB_CLASSES - 1), GM_SLAB_LARGEST, "the last class is the largest");
	TAP_IS(gm_slab_slot(gm_slab_class(4097)), 4608, "4097 bytes take 4608");
	TAP_IS(gm_slab_slot(gm_slab_class(8193)), 9216, "8193 bytes take 9216");
	struct gm_slabs slabs = {0};
	unsigned largest = GM_SLAB_CLASSES - 1;
	TAP_IS(gm_slab_length(&slabs, 0), 128 * GM_KIB, "a slab has 128 KiB at least");
	TAP_IS(gm_slab_length(&slabs, largest), 256 * GM_KIB,
	       "the first slab of a class has 4 slots");
	slabs.classes[largest].slots = 12;
	TAP_IS(gm_slab_length(&slabs, largest), GM_MIB,
	       "a later slab has as many slots as there are");
	slabs.classes[largest].slots = 100;
	TAP_IS(gm_slab_length(&slabs, largest), 2 * GM_MIB, "a later slab has 32 slots at most");
	slabs.classes[largest].slots = 0;
	slabs.long_ones = true;
	TAP_IS(gm_slab_length(&slabs, largest), 2 * GM_MIB,
	       "slabs that are asked for have the full length");
	return tap_done();
}
