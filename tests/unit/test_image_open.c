/* SPDX-License-Identifier: BSD-3-Clause */
/* Images of unknown length: at the very end of a mapping, cut off there, and behind pointers. */
#include "image/image.h"

#include <sys/mman.h>
#include <unistd.h>

#include "../image_make.h"
#include "../tap.h"

/* `n` bytes up to the end of a mapping; the page behind it is not mapped. */
static unsigned char *at_edge(const void *bytes, size_t n)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = gm_round_up(n, page);
	unsigned char *at = mmap(NULL, whole + page, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED || munmap(at + whole, page) != 0)
		exit(99);
	return memcpy(at + whole - n, bytes, n);
}

static void drop(unsigned char *at, size_t n)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = gm_round_up(n, page);
	munmap(at + n - whole, whole);
}

static enum gm_image_why judge(const void *image, unsigned arch)
{
	struct gm_image_verdict verdict;
	gm_image_allocates(image, 0, arch, &verdict);
	return verdict.why;
}

static void whole(void)
{
	static const struct {
		const char *words;
		enum gm_image_why why;
	} rows[] = {
		{"fatbin cubin:90 ptx:90", GM_IMAGE_WHY_NONE},
		{"fatbin cubin:90 ptx:90:raw:malloc", GM_IMAGE_WHY_SYMBOL},
		{"fatbin cubin:90 fatbin cubin:90:raw:malloc",
		 GM_IMAGE_WHY_NONE}, /* only the first image counts */
		{"cubin:90", GM_IMAGE_WHY_NONE},
		{"cubin:90:raw:malloc", GM_IMAGE_WHY_SYMBOL},
		{"old:75:raw:malloc", GM_IMAGE_WHY_SYMBOL},
		{"host fatbin cubin:90:raw:malloc", GM_IMAGE_WHY_SYMBOL},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct make m;
		make_image(&m, rows[i].words);
		unsigned char *at = at_edge(m.at, m.n);
		TAP_STR(gm_image_why_text(judge(at, 0)), gm_image_why_text(rows[i].why),
			"'%s' at the edge", rows[i].words);
		drop(at, m.n);
		free(m.at);
	}
}

/* Any cut is detected, and no byte behind the edge is touched. */
static void cut(const char *words)
{
	struct make m;
	size_t wrong = 0;
	make_image(&m, words);
	for (size_t n = 1; n < m.n; n++) {
		unsigned char *at = at_edge(m.at, n);
		enum gm_image_why why = judge(at, 0);
		wrong += why != GM_IMAGE_WHY_UNREADABLE && (n >= 4 || why != GM_IMAGE_WHY_FORMAT);
		drop(at, n);
	}
	TAP_IS(wrong, 0, "the image '%s' cut anywhere is unreadable", words);
	free(m.at);
}

static void text(void)
{
	enum { LONG = 300000 };
	struct make m;
	make_image(&m, "ptx:90:raw:malloc");
	unsigned char *at = at_edge(m.at, m.n);
	TAP_IS(judge(at, 0), GM_IMAGE_WHY_UNREADABLE, "a text without an end is unreadable");
	drop(at, m.n);
	make_put(&m, "", 1);
	at = at_edge(m.at, m.n);
	TAP_IS(judge(at, 0), GM_IMAGE_WHY_SYMBOL, "text that ends at the edge");
	drop(at, m.n);
	free(m.at);
	/* One of many pages, each of which is looked up; the decisive text is at the end. */
	struct make all = {0};
	memset(make_put(&all, NULL, LONG), '\n', LONG);
	make_image(&m, "ptx:90:raw:malloc");
	make_put(&all, m.at, m.n);
	make_put(&all, "", 1);
	at = at_edge(all.at, all.n);
	TAP_IS(judge(at, 0), GM_IMAGE_WHY_SYMBOL, "a long text is read to its end");
	drop(at, all.n);
	free(all.at);
	free(m.at);
}

/* Sizes that wrap around the address space, to the container or to an address before it. */
static void around(void)
{
	enum { PAGES = 2 * 4096 };
	struct make m;
	size_t wrong = 0;
	make_image(&m, "fatbin cubin:90");
	unsigned char *at = at_edge(m.at, m.n);
	for (uint64_t back = 1; back < PAGES; back++) {
		uint64_t size = 0 - back;
		memcpy(at + offsetof(struct gm_fatbin_head, size), &size, sizeof size);
		wrong += judge(at, 0) != GM_IMAGE_WHY_UNREADABLE;
	}
	TAP_IS(wrong, 0, "containers of nearly 2^64 bytes");
	drop(at, m.n);
	free(m.at);
}

static void wrappers(void)
{
	struct make plain, calls, none;
	make_image(&plain, "fatbin cubin:90 ptx:80");
	make_image(&calls, "fatbin cubin:80:raw:malloc ptx:80:raw:malloc");
	make_image(&none, "fatbin");
	struct gm_wrapper wrapper = {GM_WRAPPER_MAGIC, 1, calls.at, NULL};
	TAP_IS(judge(&wrapper, 0), GM_IMAGE_WHY_SYMBOL, "version 1 has malloc in its container");
	wrapper.data = plain.at;
	TAP_IS(judge(&wrapper, 0), GM_IMAGE_WHY_NONE, "version 1 without malloc");
	const void *list[] = {plain.at, calls.at, NULL};
	wrapper.containers = list;
	TAP_IS(judge(&wrapper, 0), GM_IMAGE_WHY_NONE, "version 1 has no list");
	wrapper.version = 2;
	TAP_IS(judge(&wrapper, 0), GM_IMAGE_WHY_SYMBOL, "version 2 was linked from others");
	TAP_IS(judge(&wrapper, 90), GM_IMAGE_WHY_NONE,
	       "linked parts do not count if the image suits the device");
	TAP_IS(judge(&wrapper, 89), GM_IMAGE_WHY_SYMBOL,
	       "linked parts count if the image does not suit the device");
	wrapper.data = none.at;
	list[1] = NULL;
	TAP_IS(judge(&wrapper, 0), GM_IMAGE_WHY_NOTHING,
	       "an empty container with its list has nothing");
	wrapper.data = plain.at;
	list[0] = NULL;
	TAP_IS(judge(&wrapper, 0), GM_IMAGE_WHY_NONE, "version 2 may have a list of none");
	wrapper.containers = NULL;
	TAP_IS(judge(&wrapper, 0), GM_IMAGE_WHY_NONE, "version 2 may have no list");
	list[0] = plain.at;
	unsigned char *at = at_edge(list, sizeof *list);
	wrapper.containers = (const void *const *)(void *)at;
	TAP_IS(judge(&wrapper, 0), GM_IMAGE_WHY_UNREADABLE, "a list without an end is unreadable");
	drop(at, sizeof *list);
	enum { MANY = 5000 };
	const void **many = calloc(MANY, sizeof *many);
	for (size_t i = 0; i + 1 < MANY; i++)
		many[i] = plain.at;
	wrapper.containers = many;
	TAP_IS(judge(&wrapper, 0), GM_IMAGE_WHY_FORMAT, "a list that does not end is refused");
	many[1] = "text";
	many[2] = NULL;
	TAP_IS(judge(&wrapper, 0), GM_IMAGE_WHY_FORMAT,
	       "a list with something else in it is refused");
	free(many);
	wrapper = (struct gm_wrapper){GM_WRAPPER_MAGIC, 3, plain.at, NULL};
	TAP_IS(judge(&wrapper, 0), GM_IMAGE_WHY_FORMAT, "version 3 is an unknown format");
	wrapper = (struct gm_wrapper){GM_WRAPPER_MAGIC, 1, NULL, NULL};
	TAP_IS(judge(&wrapper, 0), GM_IMAGE_WHY_UNREADABLE,
	       "a wrapper without a container is unreadable");
	wrapper.data = (const void *)UINTPTR_MAX;
	TAP_IS(judge(&wrapper, 0), GM_IMAGE_WHY_UNREADABLE,
	       "a container at the end of all addresses is unreadable");
	wrapper.data = "text that is no container";
	TAP_IS(judge(&wrapper, 0), GM_IMAGE_WHY_FORMAT,
	       "a container that is something else is refused");
	at = at_edge(&wrapper, 12);
	TAP_IS(judge(at, 0), GM_IMAGE_WHY_FORMAT, "a wrapper that is cut off");
	drop(at, 12);
	free(plain.at);
	free(calls.at);
	free(none.at);
}

int main(void)
{
	whole();
	cut("fatbin cubin:90 ptx:90:raw:malloc");
	cut("cubin:90:raw:malloc");
	text();
	around();
	wrappers();
	return tap_done();
}
