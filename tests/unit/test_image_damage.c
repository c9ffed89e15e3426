/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Images cut off at every byte, and with any one bit flipped: no read goes beyond the end (the
 * copies have the exact length, for the sanitizers), and no damaged image passes for one that calls
 * no allocator.
 */
#include "image/image.h"

#include "../image_make.h"
#include "../tap.h"

static struct gm_image_verdict judge(const unsigned char *bytes, size_t n, unsigned arch)
{
	struct gm_image_verdict verdict;
	unsigned char *exact = malloc(n);
	memcpy(exact, bytes, n);
	gm_image_allocates(exact, n, arch, &verdict);
	free(exact);
	return verdict;
}

/* Every beginning of the image; `safe`: none of them gets a no. */
static void cut_bytes(const char *words, const struct make *image, bool safe)
{
	const struct make m = *image;
	size_t no = 0, inconsistent = 0;
	for (size_t n = 1; n < m.n; n++) {
		struct gm_image_verdict verdict = judge(m.at, n, 0);
		no += verdict.answer == GM_IMAGE_NO;
		inconsistent +=
			(verdict.answer == GM_IMAGE_YES) != (verdict.why == GM_IMAGE_WHY_SYMBOL);
	}
	TAP_OK(!safe || no == 0, "'%s' cut anywhere is no no (%zu times it is)", words, no);
	TAP_IS(inconsistent, 0, "each yes has a reason");
}

static void cut(const char *words, bool safe)
{
	struct make m;
	make_image(&m, words);
	cut_bytes(words, &m, safe);
	free(m.at);
}

/* Flip every bit of the first `most` bytes. Counts each answer. */
static void flip_bytes(struct make *m, unsigned arch, size_t most, size_t count[3])
{
	memset(count, 0, 3 * sizeof *count);
	for (size_t bit = 0; bit < 8 * (most && most < m->n ? most : m->n); bit++) {
		m->at[bit / 8] ^= (unsigned char)(1 << bit % 8);
		count[judge(m->at, m->n, arch).answer]++;
		m->at[bit / 8] ^= (unsigned char)(1 << bit % 8);
	}
}

static void flip(const char *words, unsigned arch, size_t most, size_t count[3])
{
	struct make m;
	make_image(&m, words);
	flip_bytes(&m, arch, most, count);
	free(m.at);
}

static void flips(void)
{
	size_t count[3], heads = sizeof(struct gm_fatbin_head) + sizeof(struct gm_fatbin_entry);
	/* An image without calls gets no yes by one flipped bit anywhere. */
	static const char *const harmless[] = {"fatbin cubin:90 ptx:90:raw:vprintf",
					       "cubin:90:raw:free", "old:75", "ptx:90:raw:free",
					       "host fatbin cubin:90"};
	for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++) {
		flip(harmless[i], 0, 0, count);
		TAP_IS(count[GM_IMAGE_YES], 0, "'%s' with a bit flipped", harmless[i]);
		TAP_OK(count[GM_IMAGE_UNKNOWN] > 50, "damage is found often: %zu times",
		       count[GM_IMAGE_UNKNOWN]);
	}
	/* An image with calls gets no no by one flipped bit in the headers of a container. */
	flip("fatbin cubin:90:raw:malloc", 0, heads, count);
	TAP_IS(count[GM_IMAGE_NO], 0, "headers with a bit flipped");
	TAP_IS(count[GM_IMAGE_YES] + count[GM_IMAGE_UNKNOWN], 8 * heads,
	       "flipped headers give yes or unknown");
	flip("fatbin cubin:90:raw:malloc", 90, heads, count);
	TAP_IS(count[GM_IMAGE_NO], 0, "flipped headers never give no for one architecture");
}

/* Numbers at limits of integers, in each field of the headers, at every place of two and more
 * bytes. */
static void numbers(void)
{
	static const uint64_t values[] = {0,
					  1,
					  7,
					  8,
					  63,
					  64,
					  65,
					  INT32_MAX,
					  UINT32_MAX,
					  INT64_MAX,
					  UINT64_MAX - 7,
					  UINT64_MAX,
					  (uint64_t)1 << 63,
					  GM_IMAGE_MOST + 1};
	struct make m;
	size_t no = 0, heads = sizeof(struct gm_fatbin_head) + sizeof(struct gm_fatbin_entry);
	make_image(&m, "fatbin cubin:90:raw:malloc");
	unsigned char *copy = malloc(m.n);
	for (size_t at = 0; at < heads; at += 2)
		for (size_t i = 0; i < sizeof values / sizeof *values; i++)
			for (size_t size = 2; size <= 8; size *= 2) {
				memcpy(copy, m.at, m.n);
				memcpy(copy + at, &values[i], size);
				/* A container with a length of 0 is a valid empty one; the code is
				 * then behind it. */
				no += judge(copy, m.n, 0).answer == GM_IMAGE_NO;
			}
	TAP_IS(no, 0, "no number in a header makes a no");
	free(copy);
	free(m.at);
}

/* Compressed code, and the fields that give its size. */
static void packed(const char *words)
{
	struct make m;
	size_t no = 0, unknown = 0, body, at = sizeof(struct gm_fatbin_head);
	size_t count[3];
	struct gm_fatbin_entry entry;
	make_image(&m, words);
	memcpy(&entry, m.at + at, sizeof entry);
	body = at + entry.header_size;
	static const uint64_t sizes[] = {
		0, 1, 100, 1 << 20, GM_IMAGE_MOST, GM_IMAGE_MOST + 1, UINT64_MAX};
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		struct gm_fatbin_entry other = entry;
		other.size = sizes[i];
		memcpy(m.at + at, &other, sizeof other);
		struct gm_image_verdict verdict = judge(m.at, m.n, 0);
		TAP_OK(verdict.answer == GM_IMAGE_UNKNOWN &&
			       (sizes[i] <= GM_IMAGE_MOST || verdict.why == GM_IMAGE_WHY_LARGE),
		       "'%s' said to be of %" PRIu64 " bytes: %s", words, sizes[i],
		       gm_image_why_text(verdict.why));
	}
	memcpy(m.at + at, &entry, sizeof entry);
	for (uint32_t more = 1; more < 100000; more *= 3) {
		struct gm_fatbin_entry other = entry;
		other.packed_size = (uint32_t)entry.payload_size + more;
		memcpy(m.at + at, &other, sizeof other);
		no += judge(m.at, m.n, 0).why != GM_IMAGE_WHY_DAMAGED;
	}
	TAP_IS(no, 0, "said to be longer than there is room");
	for (size_t n = body; n < body + entry.packed_size; n++) {
		struct gm_fatbin_entry other = entry;
		other.packed_size = (uint32_t)(n - body);
		memcpy(m.at + at, &other, sizeof other);
		struct gm_image_verdict verdict = judge(m.at, m.n, 0);
		no += verdict.answer == GM_IMAGE_NO;
		unknown += verdict.answer == GM_IMAGE_UNKNOWN;
	}
	TAP_IS(no, 0, "cut off in the middle");
	TAP_IS(unknown, entry.packed_size, "a cut image is unknown");
	free(m.at);
	flip(words, 0, body, count);
	TAP_IS(count[GM_IMAGE_NO], 0, "headers with a bit flipped");
	flip(words, 0, 0, count);
	TAP_OK(count[GM_IMAGE_YES] > 0 && count[GM_IMAGE_UNKNOWN] > 0,
	       "flips give both yes and unknown");
	cut(words, true);
}

static void of_file(const char *path)
{
	struct make m = {0};
	size_t count[3];
	FILE *file = fopen(path, "rb");
	unsigned char buf[4096];
	for (size_t n; file && (n = fread(buf, 1, sizeof buf, file)) > 0;)
		make_put(&m, buf, n);
	if (file)
		fclose(file);
	if (!TAP_OK(m.n && judge(m.at, m.n, 0).answer == GM_IMAGE_YES, "%s calls malloc", path))
		return;
	cut_bytes(path, &m, true);
	flip_bytes(&m, 0, sizeof(struct gm_fatbin_head) + sizeof(struct gm_fatbin_entry), count);
	TAP_IS(count[GM_IMAGE_NO], 0, "headers with a bit flipped");
	flip_bytes(&m, 0, 0, count);
	TAP_OK(count[GM_IMAGE_YES] > count[GM_IMAGE_NO], "more flips give yes than no");
	free(m.at);
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		of_file(argv[i]);
	if (argc > 1)
		return tap_done();
	cut("fatbin cubin:90:raw:malloc", true);
	cut("fatbin cubin:90 ptx:90 fatbin ptx:80", false);
	cut("cubin:90", true);
	cut("object:90:raw:malloc", true);
	cut("host fatbin cubin:90:raw:malloc", true);
	cut("ptx:90:raw:malloc", false);
	flips();
	numbers();
	if (make_can_pack()) {
		packed("fatbin cubin:90:lz4:malloc");
		packed("fatbin cubin:90:zstd:malloc");
	}
	return tap_done();
}
