/* SPDX-License-Identifier: BSD-3-Clause */
/* What kind of image it is, which parts of it count, and what they say together. */
#include "image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fatbin.h"
#include "judge.h"
#include "sections.h"
#include "unpack.h"

enum {
	CONTAINERS_MOST = 4096, /* that a program was linked from */
	GLANCE = 64 << 10	/* bytes */
};

struct walk {
	unsigned arch;	 /* GM_IMAGE_ANY: all parts count */
	bool follow;	 /* pointers in wrappers */
	unsigned number; /* of the container */
	gm_image_see *see;
	void *arg;
	struct gm_image_verdict *out;
};

/* With nobody to be shown the parts, one that says yes is enough. */
static bool is_done(const struct walk *walk)
{
	return !walk->see && walk->out->answer == GM_IMAGE_YES;
}

static void judge_plain(struct gm_view *code, struct gm_image_part *part,
			struct gm_image_verdict *verdict)
{
	if (part->kind == GM_IMAGE_PTX)
		gm_ptx_judge(code, part, verdict);
	else
		gm_cubin_judge(code, part, verdict);
}

/*
 * True: the first few of many bytes were enough to see that nothing in it allocates. To unpack all
 * of what a framework loads would take seconds.
 */
static bool is_harmless(const struct gm_view *code, struct gm_image_part *part)
{
	enum gm_cubin_glance glance = GM_CUBIN_MORE;
	if (part->kind != GM_IMAGE_CUBIN || part->size > GM_IMAGE_MOST)
		return false;
	for (uint64_t n = GLANCE; glance == GM_CUBIN_MORE && n <= part->size / 2; n *= 4) {
		void *bytes = malloc(n);
		if (!bytes || !gm_unpack_some(part->packing, code, bytes, n))
			glance = GM_CUBIN_LOOK;
		else
			glance = gm_cubin_glance(bytes, n, part);
		free(bytes);
	}
	return glance == GM_CUBIN_NONE;
}

static void judge_packed(const struct gm_view *code, struct gm_image_part *part,
			 struct gm_image_verdict *verdict)
{
	enum gm_image_why why;
	if (is_harmless(code, part))
		return;
	void *bytes = gm_unpack(part->packing, code, part->size, &why);
	if (!bytes) {
		gm_verdict_add(verdict, why);
		return;
	}
	struct gm_view plain = {.at = bytes, .size = part->size};
	judge_plain(&plain, part, verdict);
	free(bytes);
}

static void judge(struct walk *walk, struct gm_view *code, struct gm_image_part *part)
{
	struct gm_image_verdict verdict;
	gm_verdict_begin(&verdict);
	if (part->kind == GM_IMAGE_LTO)
		gm_verdict_add(&verdict, GM_IMAGE_WHY_LTO);
	else if (part->kind == GM_IMAGE_OTHER)
		gm_verdict_add(&verdict, GM_IMAGE_WHY_KIND);
	else if (part->packing == GM_IMAGE_PACKED)
		gm_verdict_add(&verdict, GM_IMAGE_WHY_PACKING);
	else if (part->packing == GM_IMAGE_RAW)
		judge_plain(code, part, &verdict);
	else
		judge_packed(code, part, &verdict);
	if (part->arch)
		gm_verdict_arch(&verdict, part->arch);
	part->container = walk->number;
	if (walk->see)
		walk->see(walk->arg, part, &verdict);
	gm_verdict_merge(walk->out, &verdict);
}

/* The best rank in a container, whose architectures are noted; 0: it has nothing for the device. */
static unsigned best_rank(struct walk *walk, struct gm_fatbin *fatbin)
{
	struct gm_image_part part;
	struct gm_view code;
	unsigned best = 0;
	enum gm_fatbin_step step;
	while ((step = gm_fatbin_next(fatbin, &part, &code)) == GM_FATBIN_ENTRY) {
		unsigned rank = gm_fatbin_rank(&part, walk->arch);
		best = rank > best ? rank : best;
		gm_verdict_arch(walk->out, part.arch);
	}
	if (step == GM_FATBIN_BROKEN)
		gm_verdict_add(walk->out, GM_IMAGE_WHY_DAMAGED);
	gm_fatbin_rewind(fatbin);
	return best;
}

/* What counts of one container. True: it has a cubin for the device. */
static bool walk_fatbin(struct walk *walk, struct gm_fatbin *fatbin)
{
	struct gm_image_part part;
	struct gm_view code;
	unsigned best = best_rank(walk, fatbin), n = 0;
	best = walk->arch == GM_IMAGE_ANY ? 0 : best;
	walk->number++;
	for (; !is_done(walk); n++) {
		if (gm_fatbin_next(fatbin, &part, &code) != GM_FATBIN_ENTRY)
			break;
		if (!best || gm_fatbin_rank(&part, walk->arch) == best)
			judge(walk, &code, &part);
	}
	if (n == 0)
		gm_verdict_add(walk->out, GM_IMAGE_WHY_NOTHING);
	return best > GM_IMAGE_NUMBER; /* a cubin */
}

/* Those that lie behind one another, where an end is known; else one. False: as above, of the last.
 */
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
	} while (!view->open && at < view->size && !is_done(walk));
	return found;
}

/* What the container was linked from counts where the driver may have to link again. */
static void walk_linked(struct walk *walk, const struct gm_wrapper *wrapper)
{
	struct gm_view list = gm_view_of(wrapper->containers, 0);
	for (uint64_t i = 0; i < CONTAINERS_MOST && !is_done(walk); i++) {
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
	if (wrapper.version == GM_WRAPPER_LINKED && wrapper.containers && !found && !is_done(walk))
		walk_linked(walk, &wrapper);
}

/* The sections of a host's ELF file in which nvcc and clang put containers. */
static void walk_host(struct walk *walk, const struct gm_sections *sections)
{
	static const char *const names[] = {".nv_fatbin", "__nv_relfatbin"};
	Elf64_Shdr section;
	struct gm_view content;
	bool found = false;
	for (uint64_t i = 0; gm_sections_get(sections, i, &section); i++) {
		bool named = gm_sections_named(sections, &section, names[0]) ||
			     gm_sections_named(sections, &section, names[1]);
		if (!named || section.sh_size == 0 || is_done(walk))
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

static void walk_elf(struct walk *walk, struct gm_view *view)
{
	struct gm_sections sections;
	struct gm_image_part part = {.kind = GM_IMAGE_CUBIN};
	if (gm_sections_open(&sections, view) && sections.head.e_machine != EM_CUDA) {
		walk_host(walk, &sections);
		return;
	}
	part.stored = part.size = view->open ? 0 : view->size;
	judge(walk, view, &part);
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
		judge(walk, view, &part);
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

void gm_image_walk(const void *image, size_t size, gm_image_see *see, void *arg,
		   struct gm_image_verdict *out)
{
	struct walk walk = {.see = see, .arg = arg, .out = out};
	struct gm_view view = {.at = image, .size = size};
	walk_image(&walk, &view);
}

/* The whole of a regular file; NULL: *why. A pipe could keep its reader waiting, and is none. */
static void *read_whole(int fd, size_t *size, enum gm_image_why *why)
{
	struct stat about;
	size_t got = 0;
	*why = GM_IMAGE_WHY_FILE;
	if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode) || about.st_size <= 0)
		return NULL;
	*size = (size_t)about.st_size;
	*why = GM_IMAGE_WHY_NO_MEMORY;
	char *bytes = malloc(*size);
	while (bytes && got < *size) {
		ssize_t n = read(fd, bytes + got, *size - got);
		if (n > 0)
			got += (size_t)n;
		else if (n == 0 || errno != EINTR)
			break;
	}
	if (!bytes || got == *size)
		return bytes;
	*why = GM_IMAGE_WHY_FILE;
	free(bytes);
	return NULL;
}

bool gm_image_file_allocates(const char *path, unsigned arch, struct gm_image_verdict *out)
{
	enum gm_image_why why = GM_IMAGE_WHY_FILE;
	size_t size;
	int saved = errno, fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	void *bytes = fd >= 0 ? read_whole(fd, &size, &why) : NULL;
	if (bytes) {
		struct walk walk = {.arch = arch, .out = out};
		struct gm_view view = {.at = bytes, .size = size};
		walk_image(&walk, &view);
		free(bytes);
	} else {
		gm_verdict_begin(out);
		gm_verdict_add(out, why);
	}
	if (fd >= 0)
		close(fd);
	errno = saved;
	return out->answer != GM_IMAGE_NO;
}
