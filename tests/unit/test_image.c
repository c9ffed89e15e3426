/* SPDX-License-Identifier: BSD-3-Clause */
/* The verdicts on images of every format: complete ones, made in memory. */
#include "image/image.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../image_make.h"
#include "../tap.h"
#include "image/cubin.h"

/* Judge the image described by `words`, its size known. */
static struct gm_image_verdict judge(const char *words, unsigned arch)
{
	struct gm_image_verdict verdict;
	struct make m;
	make_image(&m, words);
	bool yes = gm_image_allocates(m.at, m.n, arch, &verdict);
	if (yes != (verdict.answer != GM_IMAGE_NO))
		TAP_OK(false, "the answer of '%s' is that of its verdict", words);
	free(m.at);
	return verdict;
}

#define IS(words, arch, want)                                                                      \
	TAP_STR(gm_image_why_text(judge(words, arch).why), gm_image_why_text(GM_IMAGE_WHY_##want), \
		"'%s' for %u: " #want, words, arch)

static void symbols(void)
{
	IS("cubin:90", 0, NONE);
	IS("cubin:90:raw:malloc,free", 0, SYMBOL);
	IS("cubin:90:raw:vprintf,__assertfail", 0, NONE);
	IS("cubin:90:raw:free", 0, NONE);
	IS("cubin:90:raw:mymalloc,malloc_,mallo,xmalloc,mallocs", 0, NONE);
	IS("cubin:90:raw:=malloc,=free", 0, NONE); /* defined by the program itself */
	IS("cubin:90:raw:=malloc,malloc", 0, SYMBOL);
	IS("cubin:90:raw:a_function_with_a_name_that_is_longer_than_any_name_of_an_allocator_is", 0,
	   NONE);
	IS("old:75:raw:malloc", 0, SYMBOL);
	IS("old:75:raw:free", 0, NONE);
	IS("object:120:raw:malloc", 0, SYMBOL);
	IS("object:120:raw:other", 0, NONE);
	for (unsigned i = 0; i < GM_IMAGE_SYMBOLS; i++) {
		char words[2][128];
		const char *name = gm_image_symbol_name((enum gm_image_symbol)i);
		snprintf(words[0], sizeof words[0], "cubin:90:raw:%s", name);
		snprintf(words[1], sizeof words[1], "ptx:90:raw:%s", name);
		for (unsigned j = 0; j < 2; j++) {
			struct gm_image_verdict verdict = judge(words[j], 0);
			bool runtime = i >= GM_IMAGE_SYMBOL_GRAPH_SET;
			bool frees = strstr(name, "ree") || strstr(name, "_Zd") || runtime;
			TAP_IS(verdict.symbols, UINT32_C(1) << i, "'%s' is seen", words[j]);
			TAP_IS(verdict.answer, frees ? GM_IMAGE_NO : GM_IMAGE_YES,
			       "the verdict is whether it allocates");
		}
	}
}

/* Such images get another malloc of the driver. */
static void device_runtime(void)
{
	static const char *const uses[] = {
		"cubin:90:raw:malloc,cudaGraphSetConditional",
		"cubin:90:raw:cudaGraphLaunch,malloc",
		"cubin:90:raw:malloc,__cuda_syscall_cnpv2LaunchDeviceV2",
		"ptx:90:raw:__cuda_syscall_cnpv2SetLastError,malloc",
		"fatbin cubin:75 cubin:90:raw:free,malloc,cudaGraphLaunch",
		"fatbin lto:90",
	};
	static const char *const none[] = {
		"cubin:90:raw:malloc",
		"cubin:90:raw:malloc,vprintf,__assertfail,__cuda_syscall_aligned_malloc",
		("cubin:90:raw:malloc,cudaGraphLaunc,cudaGraphLaunches,__cuda_syscall_cn,="
		 "cudaGraphLaunch"),
		"ptx:90:raw:malloc,free",
	};
	for (unsigned i = 0; i < sizeof uses / sizeof *uses; i++) {
		struct gm_image_verdict verdict = judge(uses[i], 0);
		TAP_OK(gm_image_uses_runtime(&verdict), "'%s' may call the device runtime",
		       uses[i]);
	}
	for (unsigned i = 0; i < sizeof none / sizeof *none; i++) {
		struct gm_image_verdict verdict = judge(none[i], 0);
		TAP_OK(!gm_image_uses_runtime(&verdict), "'%s' does not call the device runtime",
		       none[i]);
	}
}

static void containers(void)
{
	IS("fatbin cubin:90 ptx:90", 0, NONE);
	IS("fatbin cubin:90 ptx:90:raw:malloc", 0, SYMBOL);
	IS("fatbin cubin:90 fatbin cubin:75:raw:malloc", 0, SYMBOL);
	IS("fatbin", 0, NOTHING);
	IS("host fatbin cubin:90 fatbin cubin:75:raw:malloc", 0, SYMBOL);
	IS("host fatbin cubin:90 fatbin cubin:75", 0, NONE);
	IS("fatbin lto:90", 0, LTO);
	IS("fatbin 64:90", 0, KIND);
	IS("fatbin cubin:90:odd", 0, PACKING);
	/* A yes outweighs unknown parts, at any position. */
	IS("fatbin lto:90 cubin:90:raw:malloc", 0, SYMBOL);
	IS("fatbin cubin:90:raw:malloc lto:90", 0, SYMBOL);
	IS("fatbin cubin:90 lto:90 64:90", 0, LTO);
	struct gm_image_verdict verdict =
		judge("fatbin ptx:90 cubin:75:raw:free cubin:90a:raw:malloc cubin:75", 0);
	TAP_IS(verdict.symbols, 1 << GM_IMAGE_SYMBOL_FREE | 1 << GM_IMAGE_SYMBOL_MALLOC,
	       "the verdict has the symbols of all parts");
	TAP_IS(verdict.n_archs, 3, "the verdict has each architecture once");
	char name[GM_IMAGE_ARCH_ROOM];
	TAP_STR(gm_image_arch_name(verdict.archs[0], name), "compute_90",
		"PTX has a compute architecture");
	TAP_STR(gm_image_arch_name(verdict.archs[1], name), "sm_75",
		"a cubin has an sm architecture");
	TAP_STR(gm_image_arch_name(verdict.archs[2], name), "sm_90a",
		"a cubin of one device has its letter");
	verdict = judge("fatbin cubin:100f", 0);
	TAP_STR(gm_image_arch_name(verdict.archs[0], name), "sm_100f",
		"a cubin of a family has its letter");
	TAP_STR(gm_image_answer_name(judge("fatbin lto:90", 0).answer), "unknown",
		"the answer has a name");
	char words[1024] = "fatbin";
	for (unsigned i = 0; i < 2 * GM_IMAGE_ARCHS; i++)
		snprintf(words + strlen(words), sizeof words - strlen(words), " cubin:%u", i + 50);
	TAP_IS(judge(words, 0).n_archs, GM_IMAGE_ARCHS, "no more architectures than there is room");
}

static void compressed(void)
{
	IS("fatbin cubin:90:lz4 ptx:90:lz4", 0, NONE);
	IS("fatbin cubin:90:zstd ptx:90:zstd", 0, NONE);
	IS("fatbin cubin:90:lz4:malloc", 0, SYMBOL);
	IS("fatbin cubin:90:zstd:malloc", 0, SYMBOL);
	IS("fatbin ptx:90:lz4:malloc", 0, SYMBOL);
	IS("fatbin ptx:90:zstd:malloc", 0, SYMBOL);
	IS("fatbin object:90:zstd:malloc", 0, SYMBOL);
	IS("host fatbin old:75:lz4:malloc", 0, SYMBOL);
}

static void *judge_some(void *words)
{
	struct gm_image_verdict verdict;
	struct make m;
	size_t yes = 0;
	make_image(&m, words);
	for (unsigned i = 0; i < 100; i++)
		yes += gm_image_allocates(m.at, m.n, 0, &verdict);
	free(m.at);
	return (void *)yes;
}

/* Threads that race to be the first user of the libraries. */
static void threads(void)
{
	enum { THREADS = 4 };
	static char lz4[] = "fatbin cubin:90:lz4:malloc", zstd[] = "fatbin cubin:90:zstd:malloc";
	pthread_t thread[THREADS];
	size_t yes = 0;
	for (unsigned i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, judge_some, i % 2 ? lz4 : zstd) != 0)
			exit(99);
	for (unsigned i = 0; i < THREADS; i++) {
		void *got;
		pthread_join(thread[i], &got);
		yes += (size_t)got;
	}
	TAP_IS(yes, 100 * THREADS, "compressed images in several threads");
}

/*
 * Only the beginning of a large amount of compressed code is unpacked, if it suffices; missing
 * bytes at its end then have no effect. If the beginning has an allocator's name, or a similar
 * string, all of the code is unpacked.
 */
static void large(void)
{
	static const struct {
		const char *words;
		enum gm_image_why whole, half;
	} rows[] = {
		{"fatbin cubin:90:zstd:vprintf:1000000", GM_IMAGE_WHY_NONE, GM_IMAGE_WHY_NONE},
		{"fatbin cubin:90:lz4:vprintf:1000000", GM_IMAGE_WHY_NONE, GM_IMAGE_WHY_NONE},
		{"fatbin object:90:zstd:vprintf:1000000", GM_IMAGE_WHY_NONE, GM_IMAGE_WHY_NONE},
		{"fatbin cubin:90:zstd:#20000:8000000", GM_IMAGE_WHY_NONE, GM_IMAGE_WHY_NONE},
		{"fatbin cubin:90:lz4:#20000:8000000", GM_IMAGE_WHY_NONE, GM_IMAGE_WHY_NONE},
		{"fatbin cubin:90:zstd:malloc:1000000", GM_IMAGE_WHY_SYMBOL, GM_IMAGE_WHY_UNPACKED},
		{"fatbin cubin:90:lz4:malloc:1000000", GM_IMAGE_WHY_SYMBOL, GM_IMAGE_WHY_UNPACKED},
		{"fatbin cubin:90:zstd:#20000,malloc:8000000", GM_IMAGE_WHY_SYMBOL,
		 GM_IMAGE_WHY_UNPACKED},
		{"fatbin cubin:90:zstd:mymalloc:1000000", GM_IMAGE_WHY_NONE, GM_IMAGE_WHY_UNPACKED},
		{"fatbin cubin:90:lz4:free:1000000", GM_IMAGE_WHY_NONE, GM_IMAGE_WHY_UNPACKED},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct gm_image_verdict verdict;
		struct gm_fatbin_entry entry;
		struct make m;
		size_t at = sizeof(struct gm_fatbin_head);
		make_image(&m, rows[i].words);
		gm_image_allocates(m.at, m.n, 0, &verdict);
		TAP_STR(gm_image_why_text(verdict.why), gm_image_why_text(rows[i].whole),
			"the image '%s' is judged", rows[i].words);
		memcpy(&entry, m.at + at, sizeof entry);
		entry.packed_size /= 2;
		memcpy(m.at + at, &entry, sizeof entry);
		gm_image_allocates(m.at, m.n, 0, &verdict);
		TAP_STR(gm_image_why_text(verdict.why), gm_image_why_text(rows[i].half),
			"half of the packed code is judged");
		free(m.at);
	}
}

/* However little of a cubin is present, one that calls malloc is not taken for harmless. */
static void glances(void)
{
	struct gm_image_part part = {.kind = GM_IMAGE_CUBIN};
	struct make with, without;
	size_t wrong = 0, none = 0, first = 0;
	make_image(&with, "cubin:90:raw:vprintf,malloc,other");
	make_image(&without, "object:75:raw:vprintf,mallok,other");
	for (size_t n = 0; n <= with.n; n++)
		wrong += gm_cubin_glance(with.at, n, &part) == GM_CUBIN_NONE;
	TAP_IS(wrong, 0, "no beginning of an image with malloc is enough");
	for (size_t n = 0; n <= without.n; n++) {
		bool is = gm_cubin_glance(without.at, n, &part) == GM_CUBIN_NONE;
		first = is && !none ? n : first;
		none += is;
	}
	TAP_OK(none > 0 && none == without.n - first + 1,
	       "a beginning longer than one that is enough is enough");
	TAP_OK(part.kind == GM_IMAGE_OBJECT && part.arch == 75,
	       "the header of a beginning is recorded");
	without.at[offsetof(Elf64_Ehdr, e_machine)] ^= 1;
	TAP_IS(gm_cubin_glance(without.at, without.n, &part), GM_CUBIN_SEARCH,
	       "another machine needs a full search");
	without.at[offsetof(Elf64_Ehdr, e_machine)] ^= 1;
	without.at[sizeof(Elf64_Ehdr) + 1] = 'x';
	TAP_IS(gm_cubin_glance(without.at, without.n, &part), GM_CUBIN_SEARCH,
	       "another layout needs a full search");
	free(with.at);
	free(without.at);
}

/* Of several parts, the one that the driver takes. */
static void choice(void)
{
	IS("fatbin cubin:80:raw:malloc cubin:90", 90, NONE);
	IS("fatbin cubin:80 cubin:90:raw:malloc", 90, SYMBOL);
	IS("fatbin cubin:80 cubin:86:raw:malloc cubin:90", 86, SYMBOL);
	IS("fatbin cubin:80:raw:malloc cubin:86 cubin:90", 89, NONE);
	IS("fatbin cubin:80:raw:malloc ptx:70", 90, NONE); /* cubins run on their major version */
	IS("fatbin cubin:90:raw:malloc ptx:70", 80, NONE); /* but on no older device */
	IS("fatbin cubin:80 ptx:90:raw:malloc", 80, NONE); /* a cubin is preferred to PTX */
	IS("fatbin ptx:70:raw:malloc ptx:80", 90, NONE);   /* the newest */
	IS("fatbin cubin:90a:raw:malloc ptx:80", 90, SYMBOL); /* of this device */
	IS("fatbin cubin:100a:raw:malloc ptx:80", 103, NONE); /* of another */
	IS("fatbin cubin:100f:raw:malloc ptx:80", 103, SYMBOL);
	IS("fatbin ptx:100f:raw:malloc ptx:80", 120, NONE);
	IS("fatbin ptx:90a:raw:malloc ptx:80", 100, NONE);
	IS("fatbin cubin:90 cubin:90a:raw:malloc", 90, SYMBOL); /* equally good: both count */
	IS("fatbin cubin:90 64:90 lto:90", 90, NONE);		/* known formats have priority */
	/* No part suits the device: its behaviour is unknown, and all parts count. */
	IS("fatbin cubin:90 cubin:75:raw:malloc", 50, SYMBOL);
	IS("fatbin cubin:90 lto:90", 50, LTO);
	TAP_IS(judge("fatbin cubin:80 cubin:86 ptx:90", 86).n_archs, 3,
	       "all architectures are recorded, whichever is chosen");
	/* A file with one part offers no choice. */
	IS("cubin:75:raw:malloc", 90, SYMBOL);
}

static void strange(void)
{
	struct gm_image_verdict verdict;
	static const struct {
		const char *bytes;
		size_t n;
		enum gm_image_why why;
	} rows[] = {
		{"garbage", 7, GM_IMAGE_WHY_FORMAT},
		{"\0", 1, GM_IMAGE_WHY_FORMAT},
		{"   ", 3, GM_IMAGE_WHY_FORMAT},
		{".", 1, GM_IMAGE_WHY_FORMAT},
		{"// nothing", 10, GM_IMAGE_WHY_FORMAT},
		{".version 8.0 /*", 15, GM_IMAGE_WHY_DAMAGED},
		{"\x7f"
		 "ELF",
		 4, GM_IMAGE_WHY_DAMAGED},
		{"\x50\xed\x55\xba", 4, GM_IMAGE_WHY_DAMAGED},
		{"\xb1\x43\x62\x46", 4, GM_IMAGE_WHY_FORMAT},
		{"\x50\xed\x55\xba\2\0\x10\0\0\0\0\0\0\0\0\0", 16, GM_IMAGE_WHY_FORMAT},
		{"\x50\xed\x55\xba\1\0\x0f\0\0\0\0\0\0\0\0\0", 16, GM_IMAGE_WHY_DAMAGED},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char *bytes = malloc(rows[i].n);
		memcpy(bytes, rows[i].bytes, rows[i].n);
		gm_image_allocates(bytes, rows[i].n, 0, &verdict);
		TAP_STR(gm_image_why_text(verdict.why), gm_image_why_text(rows[i].why),
			"the strange image %zu has its reason", i);
		TAP_IS(verdict.answer, GM_IMAGE_UNKNOWN, "a strange image is unknown");
		free(bytes);
	}
	errno = 4711;
	TAP_OK(gm_image_allocates(NULL, 0, 0, &verdict), "NULL is an unknown image");
	TAP_IS(errno, 4711, "a judgement does not change errno");
	TAP_IS(verdict.why, GM_IMAGE_WHY_UNREADABLE, "a missing image is unreadable");
}

/* Change one field of an ELF file, and judge the result. */
static enum gm_image_why changed(const char *words, size_t offset, uint64_t value, size_t size)
{
	struct gm_image_verdict verdict;
	struct make m;
	make_image(&m, words);
	memcpy(m.at + offset, &value, size);
	gm_image_allocates(m.at, m.n, 0, &verdict);
	free(m.at);
	return verdict.why;
}

#define HEAD(field, value)                                                   \
	changed("cubin:90:raw:malloc", offsetof(Elf64_Ehdr, field), (value), \
		sizeof((Elf64_Ehdr *)0)->field)

static void elf_fields(void)
{
	Elf64_Ehdr head;
	struct make m;
	make_image(&m, "cubin:90:raw:malloc");
	memcpy(&head, m.at, sizeof head);
	size_t first = head.e_shoff, symtab = first + 3 * sizeof(Elf64_Shdr);
	free(m.at);
	TAP_IS(HEAD(e_machine, EM_X86_64), GM_IMAGE_WHY_NOTHING,
	       "a host's file without containers");
	TAP_IS(HEAD(e_shoff, 0), GM_IMAGE_WHY_DAMAGED,
	       "an image without a table of sections is damaged");
	TAP_IS(HEAD(e_shoff, UINT64_MAX - 64), GM_IMAGE_WHY_DAMAGED,
	       "a table of sections beyond everything is damage");
	TAP_IS(HEAD(e_shentsize, 40), GM_IMAGE_WHY_DAMAGED, "sections of another size are damage");
	TAP_IS(HEAD(e_shnum, 6), GM_IMAGE_WHY_DAMAGED, "more sections than there are is damage");
	TAP_IS(HEAD(e_shnum, 3), GM_IMAGE_WHY_NO_SYMBOLS,
	       "an image with too few sections has no table of symbols");
	TAP_IS(HEAD(e_shstrndx, 77), GM_IMAGE_WHY_SYMBOL, "the names of sections are not needed");
	TAP_IS(HEAD(e_shnum, 0), GM_IMAGE_WHY_NO_SYMBOLS,
	       "a section count of 0 is read from the first section");
	TAP_IS(changed("cubin:90:raw:malloc", EI_CLASS, ELFCLASS32, 1), GM_IMAGE_WHY_KIND,
	       "an image of 32 bits is another kind");
	TAP_IS(changed("cubin:90:raw:malloc", EI_DATA, ELFDATA2MSB, 1), GM_IMAGE_WHY_DAMAGED,
	       "a big-endian image is damaged");
	const char *words = "cubin:90:raw:malloc";
	TAP_IS(changed(words, symtab + offsetof(Elf64_Shdr, sh_type), SHT_PROGBITS, 4),
	       GM_IMAGE_WHY_NO_SYMBOLS, "an image without a table of symbols");
	TAP_IS(changed(words, symtab + offsetof(Elf64_Shdr, sh_entsize), 16, 8),
	       GM_IMAGE_WHY_DAMAGED, "symbols of another size are damage");
	TAP_IS(changed(words, symtab + offsetof(Elf64_Shdr, sh_link), 9, 4), GM_IMAGE_WHY_DAMAGED,
	       "symbols without a section of names are damage");
	TAP_IS(changed(words, symtab + offsetof(Elf64_Shdr, sh_offset), UINT64_MAX, 8),
	       GM_IMAGE_WHY_DAMAGED, "symbols beyond everything are damage");
	TAP_IS(changed(words, symtab - 64 + offsetof(Elf64_Shdr, sh_type), SHT_NOBITS, 4),
	       GM_IMAGE_WHY_DAMAGED, "names without content are damage");
	TAP_IS(changed(words, symtab - 64 + offsetof(Elf64_Shdr, sh_size), sizeof make_begin + 3,
		       8),
	       GM_IMAGE_WHY_DAMAGED, "a name that does not end is damage");
	TAP_IS(changed(words, symtab - 64 + offsetof(Elf64_Shdr, sh_size), 4, 8),
	       GM_IMAGE_WHY_DAMAGED, "names that end before a name are damage");
}

/* Containers as a linker places them: zeros between and behind them. */
static void padded(void)
{
	struct gm_image_verdict verdict;
	struct make m, second;
	make_image(&m, "fatbin cubin:90");
	make_image(&second, "fatbin cubin:90:raw:malloc");
	make_put(&m, NULL, 24);
	gm_image_allocates(m.at, m.n, 0, &verdict);
	TAP_IS(verdict.why, GM_IMAGE_WHY_NONE, "zeros behind a container are skipped");
	make_put(&m, second.at, second.n);
	gm_image_allocates(m.at, m.n, 0, &verdict);
	TAP_IS(verdict.why, GM_IMAGE_WHY_SYMBOL, "zeros before a container are skipped");
	free(m.at);
	free(second.at);
	make_image(&m, "fatbin cubin:90");
	make_put(&m, "x", 1);
	gm_image_allocates(m.at, m.n, 0, &verdict);
	TAP_IS(verdict.why, GM_IMAGE_WHY_DAMAGED, "something else behind a container is damage");
	free(m.at);
}

/* More sections than the header can count; a mark in it says so. */
static void many_sections(void)
{
	struct gm_image_verdict verdict;
	struct make m;
	Elf64_Ehdr head;
	Elf64_Shdr first;
	make_image(&m, "host fatbin cubin:90:raw:malloc");
	memcpy(&head, m.at, sizeof head);
	memcpy(&first, m.at + head.e_shoff, sizeof first);
	first.sh_size = head.e_shnum;
	first.sh_link = head.e_shstrndx;
	head.e_shnum = 0;
	head.e_shstrndx = SHN_XINDEX;
	memcpy(m.at + head.e_shoff, &first, sizeof first);
	memcpy(m.at, &head, sizeof head);
	gm_image_allocates(m.at, m.n, 0, &verdict);
	TAP_IS(verdict.why, GM_IMAGE_WHY_SYMBOL, "sections can be counted in the first of them");
	first.sh_size = (uint64_t)1 << 58; /* times 64: 0 */
	memcpy(m.at + head.e_shoff, &first, sizeof first);
	gm_image_allocates(m.at, m.n, 0, &verdict);
	TAP_IS(verdict.why, GM_IMAGE_WHY_DAMAGED, "more sections than there can be is damage");
	free(m.at);
}

static void files(void)
{
	struct gm_image_verdict verdict;
	struct make m;
	char path[] = "/tmp/gm_test_image.XXXXXX";
	int fd = mkstemp(path);
	make_image(&m, "fatbin cubin:80 cubin:90:raw:malloc");
	TAP_OK(fd >= 0 && write(fd, m.at, m.n) == (ssize_t)m.n, "a file of an image is written");
	TAP_OK(gm_image_file_allocates(path, 90, &verdict), "a file is read");
	TAP_OK(!gm_image_file_allocates(path, 80, &verdict),
	       "the part for the device is chosen from a file");
	struct gm_wrapper wrapper = {GM_WRAPPER_MAGIC, 1, m.at, NULL};
	TAP_IS(pwrite(fd, &wrapper, sizeof wrapper, 0), sizeof wrapper,
	       "a file with a pointer is written");
	TAP_OK(gm_image_file_allocates(path, 80, &verdict), "a pointer in a file is not followed");
	TAP_IS(verdict.why, GM_IMAGE_WHY_FORMAT, "a pointer in a file has no meaning");
	TAP_OK(ftruncate(fd, 0) == 0 && gm_image_file_allocates(path, 90, &verdict),
	       "an empty file may allocate");
	TAP_IS(verdict.why, GM_IMAGE_WHY_FILE, "an empty file cannot be judged");
	close(fd);
	unlink(path);
	errno = 4711;
	TAP_OK(gm_image_file_allocates(path, 90, &verdict) && errno == 4711,
	       "a file that is not there, and errno as it was");
	TAP_IS(verdict.why, GM_IMAGE_WHY_FILE, "a missing file cannot be judged");
	TAP_OK(mkfifo(path, 0600) == 0 && gm_image_file_allocates(path, 90, &verdict),
	       "a pipe does not block");
	TAP_IS(verdict.why, GM_IMAGE_WHY_FILE, "a pipe cannot be judged");
	unlink(path);
	free(m.at);
}

int main(void)
{
	if (make_can_pack())
		threads();
	symbols();
	device_runtime();
	containers();
	glances();
	if (make_can_pack()) {
		compressed();
		large();
	}
	choice();
	strange();
	elf_fields();
	many_sections();
	padded();
	files();
	return tap_done();
}
