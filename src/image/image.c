/* SPDX-License-Identifier: BSD-3-Clause */
/* The walk through an image: its kind, the parts that count, and their common verdict. */
#include "image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/sys.h"
#include "cubin.h"
#include "fatbin.h"
#include "judge.h"
#include "ptx.h"
#include "sections.h"
#include "unpack.h"

enum {
	CONTAINERS_MOST = 4096, /* containers that a program was linked from */
	GLANCE = 64 << 10	/* bytes */
};

struct walk {
	unsigned arch;	 /* GM_IMAGE_ANY: all parts count */
	bool follow;	 /* pointers in wrappers */
	unsigned number; /* of the container */
	gm_image_see *see;
	gm_image_kernel *kernel;
	gm_image_code_see *code;
	void *arg;
	struct gm_image_verdict *out;
};

/* If no caller sees each part, the first yes is enough. */
static bool walk_is_done(const struct walk *walk)
{
	return !walk->see && !walk->code && walk->out->answer == GM_IMAGE_YES;
}

static void code_judge_plain(struct gm_view *code, struct gm_image_part *part,
			     struct gm_image_verdict *verdict)
{
	if (part->kind == GM_IMAGE_PTX)
		gm_ptx_judge(code, part, verdict);
	else
		gm_cubin_judge(code, part, verdict);
}

/*
 * True: the first bytes show that the code does not allocate. Unpacking all code that a framework
 * loads would take seconds.
 */
static bool code_is_harmless(const struct gm_view *code, struct gm_image_part *part)
{
	enum gm_cubin_glance glance = GM_CUBIN_MORE;
	if (part->kind != GM_IMAGE_CUBIN || part->size > GM_IMAGE_MOST)
		return false;
	for (uint64_t n = GLANCE; glance == GM_CUBIN_MORE && n <= part->size / 2; n *= 4) {
		void *bytes = malloc(n);
		if (!bytes || !gm_unpack_some(part->packing, code, bytes, n))
			glance = GM_CUBIN_SEARCH;
		else
			glance = gm_cubin_glance(bytes, n, part);
		free(bytes);
	}
	return glance == GM_CUBIN_NONE;
}

static void code_judge_packed(const struct gm_view *code, struct gm_image_part *part,
			      struct gm_image_verdict *verdict)
{
	enum gm_image_why why;
	if (code_is_harmless(code, part))
		return;
	void *bytes = gm_unpack(part->packing, code, part->size, &why);
	if (!bytes) {
		gm_verdict_add(verdict, why);
		return;
	}
	struct gm_view plain = {.at = bytes, .size = part->size};
	code_judge_plain(&plain, part, verdict);
	free(bytes);
}

/* Show the code of a cubin, instead of judging it. */
static void part_show(const struct walk *walk, struct gm_view *code,
		      const struct gm_image_part *part)
{
	enum gm_image_why why;
	if (part->kind != GM_IMAGE_CUBIN && part->kind != GM_IMAGE_OBJECT)
		return;
	if (part->packing == GM_IMAGE_RAW) {
		walk->code(walk->arg, code);
		return;
	}
	if (part->packing != GM_IMAGE_LZ4 && part->packing != GM_IMAGE_ZSTD)
		return;
	struct gm_view plain = {.at = gm_unpack(part->packing, code, part->size, &why),
				.size = part->size};
	if (plain.at)
		walk->code(walk->arg, &plain);
	free((void *)(uintptr_t)plain.at);
}

/* A verdict may need a part of the code only; the names of kernels need all of it. */
static void part_name_kernels(const struct walk *walk, const struct gm_view *code,
			      const struct gm_image_part *part)
{
	struct gm_view plain = *code;
	enum gm_image_why why;
	void *bytes = NULL;
	if (part->packing == GM_IMAGE_LZ4 || part->packing == GM_IMAGE_ZSTD) {
		bytes = gm_unpack(part->packing, code, part->size, &why);
		plain = (struct gm_view){.at = bytes, .size = part->size};
		if (!bytes)
			return;
	}
	if (part->kind == GM_IMAGE_PTX)
		gm_ptx_kernels(&plain, walk->kernel, walk->arg);
	else if (part->kind == GM_IMAGE_CUBIN || part->kind == GM_IMAGE_OBJECT)
		gm_cubin_kernels(&plain, walk->kernel, walk->arg);
	free(bytes);
}

static void part_judge(struct walk *walk, struct gm_view *code, struct gm_image_part *part)
{
	struct gm_image_verdict verdict;
	if (walk->code) {
		part_show(walk, code, part);
		return;
	}
	gm_verdict_begin(&verdict);
	if (part->kind == GM_IMAGE_LTO)
		gm_verdict_add(&verdict, GM_IMAGE_WHY_LTO);
	else if (part->kind == GM_IMAGE_OTHER)
		gm_verdict_add(&verdict, GM_IMAGE_WHY_KIND);
	else if (part->packing == GM_IMAGE_PACKED)
		gm_verdict_add(&verdict, GM_IMAGE_WHY_PACKING);
	else if (part->packing == GM_IMAGE_RAW)
		code_judge_plain(code, part, &verdict);
	else
		code_judge_packed(code, part, &verdict);
	if (part->arch)
		gm_verdict_arch(&verdict, part->arch);
	part->container = walk->number;
	if (walk->kernel && part->packing != GM_IMAGE_PACKED)
		part_name_kernels(walk, code, part);
	if (walk->see)
		walk->see(walk->arg, part, &verdict);
	gm_verdict_merge(walk->out, &verdict);
}

/* The best rank in a container; records its architectures. 0: no part for the device. */
static unsigned fatbin_best_rank(struct walk *walk, struct gm_fatbin *fatbin)
{
	struct gm_image_part part;
	struct gm_view code;
	unsigned best = 0;
	enum gm_fatbin_step step;
	while ((step = gm_fatbin_next(fatbin, &part, &code)) == GM_FATBIN_ENTRY) {
		unsigned rank = gm_fatbin_preference(&part, walk->arch);
		best = rank > best ? rank : best;
		gm_verdict_arch(walk->out, part.arch);
	}
	if (step == GM_FATBIN_BROKEN)
		gm_verdict_add(walk->out, GM_IMAGE_WHY_DAMAGED);
	gm_fatbin_rewind(fatbin);
	return best;
}

/* Judge the parts of a container that count. True: it has a cubin for the device. */
static bool walk_fatbin(struct walk *walk, struct gm_fatbin *fatbin)
{
	struct gm_image_part part;
	struct gm_view code;
	unsigned best = fatbin_best_rank(walk, fatbin), n = 0;
	best = walk->arch == GM_IMAGE_ANY ? 0 : best;
	walk->number++;
	for (; !walk_is_done(walk); n++) {
		if (gm_fatbin_next(fatbin, &part, &code) != GM_FATBIN_ENTRY)
			break;
		if (!best || gm_fatbin_preference(&part, walk->arch) == best)
			part_judge(walk, &code, &part);
	}
	if (n == 0)
		gm_verdict_add(walk->out, GM_IMAGE_WHY_NOTHING);
	return best > GM_IMAGE_NUMBER; /* a cubin */
}

/* Judge all adjacent containers if the end is known, else one. Returns walk_fatbin's result for the
 * last one. */
static bool walk_containers(struct walk *walk, struct gm_view *view)
{
	struct gm_fatbin fatbin;
	enum gm_image_why why;
	uint64_t at = 0;
	bool found = false;
	do {
		if (!gm_fatbin_open(&fatbin, view, at, &why)) {
			gm_verdict_add(walk->out, why);
			return false;
		}
		found = walk_fatbin(walk, &fatbin);
		for (at = fatbin.end; !view->open && at < view->size && view->at[at] == 0;)
			at++;
	} while (!view->open && at < view->size && !walk_is_done(walk));
	return found;
}

/* Judge the containers that were linked: the driver may have to link them again. */
static void walk_linked(struct walk *walk, const struct gm_wrapper *wrapper)
{
	struct gm_view list = gm_view_of(wrapper->containers, 0);
	for (uint64_t i = 0; i < CONTAINERS_MOST && !walk_is_done(walk); i++) {
		const void *container;
		if (!gm_view_copy(&list, i * sizeof container, &container, sizeof container))
			gm_verdict_add(walk->out, GM_IMAGE_WHY_UNREADABLE);
		else if (container) {
			struct gm_view view = gm_view_of(container, 0);
			walk_containers(walk, &view);
			continue;
		}
		return;
	}
	gm_verdict_add(walk->out, GM_IMAGE_WHY_FORMAT);
}

static void walk_wrapper(struct walk *walk, struct gm_view *view)
{
	struct gm_wrapper wrapper;
	if (!walk->follow || !gm_view_copy(view, 0, &wrapper, sizeof wrapper) ||
	    (wrapper.version != 1 && wrapper.version != GM_WRAPPER_LINKED)) {
		gm_verdict_add(walk->out, GM_IMAGE_WHY_FORMAT);
		return;
	}
	struct gm_view data = gm_view_of(wrapper.data, 0);
	bool found = walk_containers(walk, &data);
	if (wrapper.version == GM_WRAPPER_LINKED && wrapper.containers && !found &&
	    !walk_is_done(walk))
		walk_linked(walk, &wrapper);
}

/* The sections of a host ELF file in which nvcc and clang put containers. */
static void walk_host(struct walk *walk, const struct gm_sections *sections)
{
	static const char *const names[] = {".nv_fatbin", "__nv_relfatbin"};
	Elf64_Shdr section;
	struct gm_view content;
	bool found = false;
	for (uint64_t i = 0; gm_sections_get(sections, i, &section); i++) {
		bool named = gm_sections_named(sections, &section, names[0]) ||
			     gm_sections_named(sections, &section, names[1]);
		if (!named || section.sh_size == 0 || walk_is_done(walk))
			continue;
		found = true;
		if (gm_sections_view(sections, &section, &content))
			walk_containers(walk, &content);
		else
			gm_verdict_add(walk->out, gm_verdict_lack(sections->view));
	}
	if (!found)
		gm_verdict_add(walk->out, GM_IMAGE_WHY_NOTHING);
}

/* Host code whose sections cannot be read: it was cut, or is damaged. */
static bool elf_is_host(struct gm_view *view, enum gm_image_why *why)
{
	Elf64_Ehdr head;
	if (!gm_view_copy(view, 0, &head, sizeof head) || head.e_machine == EM_CUDA)
		return false;
	const bool cut = !view->open && head.e_shoff > view->size;
	*why = cut ? GM_IMAGE_WHY_UNREADABLE : GM_IMAGE_WHY_DAMAGED;
	return true;
}

static void walk_elf(struct walk *walk, struct gm_view *view)
{
	struct gm_sections sections;
	struct gm_image_part part = {.kind = GM_IMAGE_CUBIN};
	const bool opened = gm_sections_open(&sections, view);
	enum gm_image_why why;
	if (opened && sections.head.e_machine != EM_CUDA) {
		walk_host(walk, &sections);
		return;
	}
	if (!opened && elf_is_host(view, &why)) {
		gm_verdict_add(walk->out, why);
		return;
	}
	part.stored = part.size = view->open ? 0 : view->size;
	part_judge(walk, view, &part);
}

static void walk_image(struct walk *walk, struct gm_view *view)
{
	struct gm_image_part part = {.kind = GM_IMAGE_PTX};
	gm_verdict_begin(walk->out);
	if (gm_wrapper_begins(view))
		walk_wrapper(walk, view);
	else if (gm_fatbin_begins(view, 0))
		walk_containers(walk, view);
	else if (gm_sections_begin(view))
		walk_elf(walk, view);
	else if (gm_ptx_begins(view)) {
		part.stored = part.size = view->open ? 0 : view->size;
		part_judge(walk, view, &part);
	} else {
		bool there = gm_view_get(view, 0, 1);
		gm_verdict_add(walk->out, there ? GM_IMAGE_WHY_FORMAT : GM_IMAGE_WHY_UNREADABLE);
	}
}

bool gm_image_allocates(const void *image, size_t size, unsigned arch, struct gm_image_verdict *out)
{
	struct walk walk = {.arch = arch, .follow = true, .out = out};
	struct gm_view view = gm_view_of(image, size);
	int saved = errno;
	walk_image(&walk, &view);
	errno = saved;
	return out->answer != GM_IMAGE_NO;
}

const void *gm_image_code(const void *image)
{
	struct gm_wrapper wrapper = {.data = NULL};
	struct gm_view view = gm_view_of(image, 0);
	if (!gm_wrapper_begins(&view))
		return view.size ? image : NULL;
	gm_view_copy(&view, 0, &wrapper, sizeof wrapper);
	return wrapper.data;
}

void gm_image_walk(const void *image, size_t size, gm_image_see *see, gm_image_kernel *kernel,
		   void *arg, struct gm_image_verdict *out)
{
	struct walk walk = {.see = see, .kernel = kernel, .arg = arg, .out = out};
	struct gm_view view = {.at = image, .size = size};
	walk_image(&walk, &view);
}

void *gm_image_read(int fd, size_t size)
{
	char *bytes = malloc(size);
	size_t got = 0;
	ssize_t n = 1;
	while (bytes && got < size && n != 0) {
		n = gm_sys_read(fd, bytes + got, size - got);
		if (n < 0 && errno != EINTR)
			break;
		got += n > 0 ? (size_t)n : 0;
	}
	if (!bytes || got == size)
		return bytes;
	if (n == 0)
		errno = 0;
	free(bytes);
	return NULL;
}

/* Read a regular file. NULL: *why has the reason. Not a pipe, which may block the reader. */
static void *file_read(int fd, size_t *size, enum gm_image_why *why)
{
	struct stat about;
	*why = GM_IMAGE_WHY_FILE;
	if (gm_sys_fstat(fd, &about) != 0 || !S_ISREG(about.st_mode) || about.st_size <= 0)
		return NULL;
	*size = (size_t)about.st_size;
	void *bytes = gm_image_read(fd, *size);
	if (!bytes && errno == ENOMEM)
		*why = GM_IMAGE_WHY_NO_MEMORY;
	return bytes;
}

static void walk_file(struct walk *walk, const char *path)
{
	enum gm_image_why why = GM_IMAGE_WHY_FILE;
	size_t size;
	int saved = errno, fd = gm_sys_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
	void *bytes = fd >= 0 ? file_read(fd, &size, &why) : NULL;
	if (bytes) {
		struct gm_view view = {.at = bytes, .size = size};
		walk_image(walk, &view);
		free(bytes);
	} else {
		gm_verdict_begin(walk->out);
		gm_verdict_add(walk->out, why);
	}
	if (fd >= 0)
		gm_sys_close(fd);
	errno = saved;
}

bool gm_image_file_allocates(const char *path, unsigned arch, struct gm_image_verdict *out)
{
	struct walk walk = {.arch = arch, .out = out};
	walk_file(&walk, path);
	return out->answer != GM_IMAGE_NO;
}

void gm_image_cubins(const void *image, const char *path, unsigned arch, gm_image_code_see *see,
		     void *arg)
{
	struct gm_image_verdict ignored;
	struct walk walk = {
		.arch = arch, .follow = image, .code = see, .arg = arg, .out = &ignored};
	struct gm_view view = gm_view_of(image, 0);
	int saved = errno;
	if (image)
		walk_image(&walk, &view);
	else
		walk_file(&walk, path);
	errno = saved;
}
