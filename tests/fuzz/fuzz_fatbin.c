/* SPDX-License-Identifier: BSD-3-Clause */
/* Images of all kinds, with known and unknown size, behind a pointer, and for one device. */
#include <sys/mman.h>

#include "fuzz.h"
#include "image/fatbin.h"

enum { ROOM = 1 << 18 };

/* A copy that ends where its mapping ends. */
static const uint8_t *at_edge(const uint8_t *data, size_t size)
{
	static uint8_t *room;
	if (!room) {
		room = mmap(NULL, 2 * ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			    0);
		FUZZ_CHECK(room != MAP_FAILED && munmap(room + ROOM, ROOM) == 0);
	}
	return memcpy(room + ROOM - size, data, size);
}

static void see(void *arg, const struct gm_image_part *part, const struct gm_image_verdict *verdict)
{
	char name[GM_IMAGE_ARCH_ROOM];
	fuzz_verdict(verdict);
	FUZZ_CHECK(strlen(gm_image_arch_name(part->arch, name)) < sizeof name);
	*(enum gm_image_answer *)arg |= verdict->answer;
}

/* Read each byte of the name: all must be accessible. */
static void see_kernel(void *arg, const char *name, size_t n)
{
	static volatile char last;
	(void)arg;
	for (size_t i = 0; i < n; i++)
		last = name[i];
	(void)last;
	FUZZ_CHECK(!memchr(name, 0, n));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const unsigned archs[] = {GM_IMAGE_ANY, 75, 90, 103};
	struct gm_image_verdict all, one;
	enum gm_image_answer most = GM_IMAGE_NO;
	const uint32_t magic = GM_WRAPPER_MAGIC;
	if (size == 0 || size > ROOM)
		return 0;
	gm_image_walk(data, size, see, see_kernel, &most, &all);
	fuzz_verdict(&all);
	FUZZ_CHECK((most & GM_IMAGE_YES) <= all.answer);
	/* The pointers of a wrapper are arbitrary. */
	if (size >= sizeof magic && memcmp(data, &magic, sizeof magic) == 0)
		return 0;
	for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
		gm_image_allocates(data, size, archs[i], &one);
		fuzz_verdict(&one);
		FUZZ_CHECK(one.answer <= all.answer);
	}
	const uint8_t *edge = at_edge(data, size);
	gm_image_allocates(edge, 0, GM_IMAGE_ANY, &one);
	fuzz_verdict(&one);
	const void *list[] = {edge, NULL};
	struct gm_wrapper wrapper = {GM_WRAPPER_MAGIC, GM_WRAPPER_LINKED, edge, list};
	gm_image_allocates(&wrapper, 0, 90, &one);
	fuzz_verdict(&one);
	return 0;
}
