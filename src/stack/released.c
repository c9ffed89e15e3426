/* SPDX-License-Identifier: BSD-3-Clause */
#include "stack/released.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/debug.h"
#include "base/thread.h"
#include "log/log.h"

enum { NONE = -1, SETS = 1024, WAYS = 4, ON_C_STACK = 3 };

/* Offsets in bytes, in 64-bit builds with the lock. */
struct layout {
	unsigned version; /* as Py_Version >> 16 */
	int current;	  /* in a thread's state: its innermost frame, or a pointer to it */
	int within;	  /* offset there of the frame's address; NONE: no pointer */
	int code, back;	  /* in a frame */
	int at;		  /* in a frame: the position in its code */
	int unit;	  /* the position is an int in so many bytes; 0: an address */
	int owner;	  /* in a frame: ON_C_STACK: a frame of no function; NONE: no member */
	int characters;	  /* in an ASCII text */
};
static const struct layout layouts[] = {
	{0x0309, 24, NONE, 32, 24, 104, 1, NONE, 48}, {0x030a, 24, NONE, 32, 24, 96, 2, NONE, 48},
	{0x030b, 56, 8, 32, 48, 56, 0, NONE, 48},     {0x030c, 56, 0, 0, 8, 56, 0, 70, 40},
	{0x030d, 72, NONE, 0, 8, 56, 0, 70, 40},
};

/* Offsets in all releases: in an object, in its type, in a row of the type's members, in a text or
 * a row of bytes, in a text, in a row of bytes. */
enum { TYPE = 8, SIZE = 32, MEMBERS = 240, MEMBER_OFFSET = 16, MEMBER = 40 };
enum { LENGTH = 16, HASH = 24, TEXT_STATE = 32, BYTES = 32 };
enum { COMPACT = 1 << 5, ASCII = 1 << 6 };

/* Written by the thread that searches for the interpreter; later by the main thread alone. */
static struct {
	const struct layout *layout; /* NULL: unknown, or refused */
	const void *code_type, *text_type;
	int (*line)(void *code, int at);
	int file, name, lines, first; /* in a code object */
	uint64_t begin;		      /* in a code object: its instructions */
	bool confirmed;
} python;
static uint32_t main_thread;

/* Cached data of a place in a code object; the main thread's. */
struct kept {
	const void *code, *file, *name, *lines;
	uint64_t print; /* checksum of the texts and lines */
	int at, first;
	struct gm_frame frame;
};
static struct kept (*cache)[WAYS]; /* SETS of them */
static unsigned replaced;

/* --- reading --- */

static __attribute__((noinline)) bool bytes_ask(const char *from, void *out, size_t n)
{
	const struct iovec mine = {out, n};
	const struct iovec theirs = {(void *)(uintptr_t)from, n};
	return process_vm_readv(getpid(), &mine, 1, &theirs, 1, 0) == (ssize_t)n;
}

/* False: the address is unreadable. */
static inline __attribute__((always_inline)) bool bytes_read(const void *from, int64_t offset,
							     void *out, size_t n)
{
	if (GM_UNLIKELY(!python.confirmed))
		return bytes_ask((const char *)from + offset, out, n);
	memcpy(out, (const char *)from + offset, n);
	return true;
}

static inline bool pointer_read(const void *from, int offset, const void **out)
{
	return bytes_read(from, offset, out, sizeof *out);
}

static inline bool object_is(const void *object, const void *type)
{
	const void *its;
	return object && pointer_read(object, TYPE, &its) && its == type;
}

/* The string number of a text in the log; 0: it has characters beyond ASCII, for which the
 * interpreter would have to make the bytes. */
static uint32_t text_number(const void *object)
{
	uint32_t state;
	if (!bytes_read(object, TEXT_STATE, &state, sizeof state) ||
	    (state & (COMPACT | ASCII)) != (COMPACT | ASCII))
		return 0;
	return gm_log_string((const char *)object + python.layout->characters);
}

/* --- a frame --- */

/* The frame's position in its code, in bytes. */
static inline bool at_read(const struct layout *l, const void *frame, const void *code, int *out)
{
	const void *address;
	if (l->unit) {
		if (!bytes_read(frame, l->at, out, sizeof *out))
			return false;
		*out *= l->unit;
		return true;
	}
	if (!pointer_read(frame, l->at, &address))
		return false;
	*out = (int)((uintptr_t)address - (uintptr_t)code - python.begin);
	return true;
}

/* The eight bytes before `end` of an object. All are in the object, for it has a header. */
static inline bool tail_read(const void *object, int64_t end, uint64_t *tail)
{
	return bytes_read(object, end - (int64_t)sizeof *tail, tail, sizeof *tail);
}

/* A checksum of the file's length and end, of the name's hash, which exists because all names are
 * interned, and of the lines' length and end. A sum of products that do not depend on one
 * another. */
static inline bool print_read(const struct layout *l, struct kept *out)
{
	uint64_t length, hash, lines, tail = 0, end;
	uint32_t state;
	if (!bytes_read(out->file, LENGTH, &length, sizeof length) ||
	    !bytes_read(out->file, TEXT_STATE, &state, sizeof state) ||
	    !bytes_read(out->name, HASH, &hash, sizeof hash) ||
	    !bytes_read(out->lines, LENGTH, &lines, sizeof lines) ||
	    !tail_read(out->lines, BYTES + (int64_t)lines, &end))
		return false;
	if (state & COMPACT && !tail_read(out->file, l->characters + (int64_t)length, &tail))
		return false;
	out->print = (hash ^ length << 40) * 0x9e3779b97f4a7c15u +
		     (end ^ lines << 40) * 0xc2b2ae3d27d4eb4fu + tail * 0xff51afd7ed558ccdu;
	return true;
}

static inline bool code_read(const struct layout *l, const void *frame, struct kept *out)
{
	return pointer_read(frame, l->code, &out->code) && object_is(out->code, python.code_type) &&
	       at_read(l, frame, out->code, &out->at) &&
	       pointer_read(out->code, python.file, &out->file) &&
	       pointer_read(out->code, python.name, &out->name) &&
	       pointer_read(out->code, python.lines, &out->lines) &&
	       bytes_read(out->code, python.first, &out->first, sizeof out->first) &&
	       print_read(l, out);
}

/* A new code object may be at the address of an old one, and its texts at those of the old
 * texts. */
static inline bool kept_is(const struct kept *entry, const struct kept *now)
{
	return entry->code == now->code && entry->at == now->at && entry->print == now->print &&
	       entry->file == now->file && entry->name == now->name && entry->lines == now->lines &&
	       entry->first == now->first;
}

static struct kept *set_of(const struct kept *now)
{
	const uint64_t key = (uintptr_t)now->code / 16 + (unsigned)now->at;
	return cache ? cache[(key * 0x9e3779b97f4a7c15u) >> 54] : NULL;
}
_Static_assert(SETS == 1 << 10, "ten bits of the hash");

/* False: an object has a wrong type. */
static __attribute__((noinline)) bool frame_make(struct kept *now, struct kept *set)
{
	if (!object_is(now->file, python.text_type) || !object_is(now->name, python.text_type))
		return false;
	const int line = python.line((void *)(uintptr_t)now->code, now->at);
	const uint64_t file = text_number(now->file), name = text_number(now->name);
	now->frame = (struct gm_frame){.object = GM_FRAME_PYTHON,
				       .line = line > 0 ? (uint32_t)line : 0,
				       .place = name << 32 | file};
	if (set)
		set[replaced++ % WAYS] = *now;
	return true;
}

static bool frame_find(const struct layout *l, const void *frame, struct gm_frame *out)
{
	struct kept now;
	if (!code_read(l, frame, &now))
		return false;
	struct kept *set = set_of(&now);
	for (unsigned way = 0; set && way < WAYS; way++)
		if (kept_is(&set[way], &now)) {
			*out = set[way].frame;
			return true;
		}
	if (!frame_make(&now, set))
		return false;
	*out = now.frame;
	return true;
}

/* --- the walk --- */

static bool innermost_read(const struct layout *l, const void *state, const void **frame)
{
	if (!pointer_read(state, l->current, frame))
		return false;
	return l->within == NONE || !*frame || pointer_read(*frame, l->within, frame);
}

static inline bool frame_is_of_none(const struct layout *l, const void *frame)
{
	char owner = 0;
	return l->owner != NONE && bytes_read(frame, l->owner, &owner, sizeof owner) &&
	       owner == ON_C_STACK;
}

/* False: unreadable memory, or a wrong type. */
static bool frames_walk(const struct layout *l, const void *state, struct gm_frame *out,
			uint32_t most, uint32_t *n, bool *cut)
{
	const void *frame;
	if (!innermost_read(l, state, &frame))
		return false;
	while (frame && *n < most) {
		if (!frame_is_of_none(l, frame) && !frame_find(l, frame, &out[(*n)++]))
			return false;
		if (!pointer_read(frame, l->back, &frame))
			return false;
	}
	*cut = frame;
	return true;
}

uint32_t gm_released_frames(const void *state, struct gm_frame *out, uint32_t most, bool *cut)
{
	uint32_t n = 0;
	*cut = false;
	if (gm_thread_id() != main_thread || !python.layout)
		return 0;
	if (!cache)
		cache = calloc(SETS, sizeof *cache);
	if (!frames_walk(python.layout, state, out, most, &n, cut)) {
		python.layout = NULL;
		return 0;
	}
	python.confirmed |= n > 0;
	return n;
}

void gm_released_forget(void)
{
	cache = NULL;
	main_thread = (uint32_t)getpid();
}

/* --- the layout --- */

/* The offset of a member of code objects, from their type; NONE: no such member. */
static int member_find(const char *wished)
{
	const char *members, *name;
	memcpy(&members, (const char *)python.code_type + MEMBERS, sizeof members);
	for (; members; members += MEMBER) {
		int64_t offset;
		memcpy(&name, members, sizeof name);
		if (!name)
			break;
		memcpy(&offset, members + MEMBER_OFFSET, sizeof offset);
		if (!strcmp(name, wished))
			return (int)offset;
	}
	return NONE;
}

static int member_find_either(const char *wished, const char *else_wished)
{
	const int found = member_find(wished);
	return found == NONE ? member_find(else_wished) : found;
}

/* "3.12.1 ..." as 0x030c; 0: another form. */
static unsigned version_parse(const char *text)
{
	char *end;
	const unsigned long major = strtoul(text, &end, 10);
	return *end == '.' ? (unsigned)(major << 8 | strtoul(end + 1, NULL, 10)) : 0;
}

static const struct layout *layout_find(const char *version)
{
	for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
		if (layouts[i].version == version_parse(version))
			return &layouts[i];
	return NULL;
}

void gm_released_find(bool allowed)
{
	const char *(*version)(void);
	const struct {
		const char *name;
		void *at;
	} wanted[] = {{"Py_GetVersion", &version},
		      {"PyCode_Type", &python.code_type},
		      {"PyUnicode_Type", &python.text_type},
		      {"PyCode_Addr2Line", &python.line}};
	main_thread = (uint32_t)getpid();
	if (!allowed || sizeof(void *) != 8 || dlsym(RTLD_DEFAULT, "_Py_MergeZeroLocalRefcount"))
		return; /* a build without the lock */
	dlerror();
	for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
		void *found = dlsym(RTLD_DEFAULT, wanted[i].name);
		if (!found) {
			dlerror();
			return;
		}
		memcpy(wanted[i].at, &found, sizeof found);
	}
	memcpy(&python.begin, (const char *)python.code_type + SIZE, sizeof python.begin);
	python.file = member_find("co_filename");
	python.name = member_find_either("co_qualname", "co_name");
	python.lines = member_find_either("co_linetable", "co_lnotab");
	python.first = member_find("co_firstlineno");
	if (python.file != NONE && python.name != NONE && python.lines != NONE &&
	    python.first != NONE)
		python.layout = layout_find(version());
}
