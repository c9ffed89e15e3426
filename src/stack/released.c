/* SPDX-License-Identifier: BSD-3-Clause */
#include "stack/released.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/debug.h"
#include "base/msg.h"
#include "base/thread.h"
#include "log/log.h"
#include "stack/cfi.h"
#include "stack/layout.h"
#include "stack/pyapi.h"

static struct {
	const struct gm_layout *layout;
	struct gm_layout_code code;
} python;
static _Atomic enum gm_released_state state;
static _Atomic uint32_t walks; /* under way, of threads other than the main one */
static uint32_t main_thread;

enum { PAGE = 4096, NAME_MOST = 1 << 20, TABLE_MOST = 1 << 24 };
enum { OWNED_BY_GENERATOR = 1 };

/* One walk. */
struct walk {
	const struct gm_layout *l;
	struct gm_released_memory *memory;
	bool asks; /* the layout is unconfirmed */
};

/* --- reading --- */

static __attribute__((noinline)) bool memory_ask(const char *from, size_t n)
{
	const uintptr_t last = ((uintptr_t)from + n - 1) & ~(uintptr_t)(PAGE - 1);
	for (uintptr_t page = (uintptr_t)from & ~(uintptr_t)(PAGE - 1); page <= last; page += PAGE)
		if (!page || !gm_cfi_page_is_readable(page))
			return false;
	return true;
}

/* May these bytes be read? */
static inline bool readable(const struct walk *walk, const void *from, int64_t offset, size_t n)
{
	return GM_LIKELY(!walk->asks) || !n || memory_ask((const char *)from + offset, n);
}

/* False: the address is unreadable. */
static inline __attribute__((always_inline)) bool
bytes_read(const struct walk *walk, const void *from, int64_t offset, void *out, size_t n)
{
	if (!readable(walk, from, offset, n))
		return false;
	memcpy(out, (const char *)from + offset, n);
	return true;
}

static inline bool pointer_read(const struct walk *walk, const void *from, int offset,
				const void **out)
{
	return bytes_read(walk, from, offset, out, sizeof *out);
}

static inline bool object_is(const struct walk *walk, const void *object, const void *type)
{
	const void *its;
	return object && pointer_read(walk, object, GM_LAYOUT_TYPE, &its) && its == type;
}

/* --- texts --- */

enum { COMPACT = 1 << 5, ASCII = 1 << 6, KIND_SHIFT = 2, KIND = 7 };

static size_t utf8_put(char *to, uint32_t c)
{
	static const uint8_t mark[] = {0, 0, 0xc0, 0xe0, 0xf0};
	const size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	for (size_t i = n; i-- > 1; c >>= 6)
		to[i] = (char)(0x80 | (c & 63));
	to[0] = (char)(mark[n] | c);
	return n;
}

static uint32_t character_at(const char *characters, unsigned width, uint64_t i)
{
	uint32_t wide;
	uint16_t middle;
	switch (width) {
	case 1:
		return (uint8_t)characters[i];
	case 2:
		memcpy(&middle, characters + 2 * i, sizeof middle);
		return middle;
	default:
		memcpy(&wide, characters + 4 * i, sizeof wide);
		return wide;
	}
}

/* Half of a surrogate pair has no form in UTF-8. */
static const char *utf8_make(char *to, const char *characters, unsigned width, uint64_t length)
{
	size_t n = 0;
	for (uint64_t i = 0; i < length && n + 5 < GM_RELEASED_TEXT; i++) {
		const uint32_t c = character_at(characters, width, i);
		n += utf8_put(to + n, (c >= 0xd800 && c < 0xe000) || c > 0x10ffff ? 0xfffd : c);
	}
	to[n] = '\0';
	return to;
}

/* The number of a text in the log; 0: it is of a class derived from text, or too long. False: it is
 * unreadable. */
static bool text_read(const struct walk *walk, const void *object, uint64_t *number)
{
	uint32_t bits = 0;
	uint64_t length = 0;
	const void *type;
	*number = 0;
	if (!object || !pointer_read(walk, object, GM_LAYOUT_TYPE, &type) ||
	    !bytes_read(walk, object, GM_LAYOUT_TEXT_STATE, &bits, sizeof bits) ||
	    !bytes_read(walk, object, GM_LAYOUT_LENGTH, &length, sizeof length))
		return false;
	const bool ascii = bits & ASCII;
	const unsigned width = bits >> KIND_SHIFT & KIND;
	const int begin = ascii ? walk->l->ascii : walk->l->wide;
	if (type != gm_python.PyUnicode_Type || !(bits & COMPACT) ||
	    (width != 1 && width != 2 && width != 4) || length > NAME_MOST)
		return true;
	if (!readable(walk, object, begin, (length + 1) * width))
		return false;
	const char *characters = (const char *)object + begin;
	if (character_at(characters, width, length) == 0)
		*number = gm_log_string(
			ascii ? characters
			      : utf8_make(walk->memory->text, characters, width, length));
	return true;
}

/* --- a frame --- */

/* The frame's position in its code, in bytes. */
static inline bool at_read(const struct walk *walk, const void *frame, const void *code, int *out)
{
	const void *address;
	if (walk->l->unit) {
		if (!bytes_read(walk, frame, walk->l->at, out, sizeof *out))
			return false;
		*out *= walk->l->unit;
		return true;
	}
	if (!pointer_read(walk, frame, walk->l->at, &address))
		return false;
	*out = (int)((intptr_t)address - (intptr_t)code - python.code.begin);
	return true;
}

enum { WORD = sizeof(uint64_t), FILE_WORDS = 512, TABLE_WORDS = 512 };

/* A checksum of n bytes, or of so many words of them, the first and the last among them. A sum of
 * products that do not depend on one another. Fewer bytes than a word begin in the object's
 * header. */
static inline uint64_t bytes_sum(const char *bytes, uint64_t n, unsigned words)
{
	const uint64_t last = n > WORD ? n - WORD : 0, covers = (uint64_t)words * WORD;
	const uint64_t step = n <= covers ? WORD : last / (words - 1);
	uint64_t sum = n, factor = 0x9e3779b97f4a7c15u, word;
	if (n < WORD)
		bytes -= WORD - n;
	for (unsigned i = 0; i + 1 < words && i * step < last;
	     i++, factor += 0xff51afd7ed558ccdu * 2) {
		memcpy(&word, bytes + i * step, WORD);
		sum += (word ^ word >> 32) * factor;
	}
	memcpy(&word, bytes + last, WORD);
	return sum + (word ^ word >> 32) * (factor ^ 0xc2b2ae3d27d4eb4eu);
}

/* A checksum of the file's name, of the function's hash, which exists because all such names are
 * interned, and of the lines. */
static inline bool print_read(const struct walk *walk, struct gm_released_kept *out)
{
	uint64_t length, hash, lines;
	if (!bytes_read(walk, out->file, GM_LAYOUT_LENGTH, &length, sizeof length) ||
	    !bytes_read(walk, out->name, GM_LAYOUT_HASH, &hash, sizeof hash) ||
	    !bytes_read(walk, out->lines, GM_LAYOUT_LENGTH, &lines, sizeof lines) ||
	    lines > TABLE_MOST)
		return false;
	if (length > NAME_MOST || !object_is(walk, out->file, gm_python.PyUnicode_Type))
		length = 0;
	if (!readable(walk, out->file, walk->l->ascii, length) ||
	    !readable(walk, out->lines, GM_LAYOUT_BYTES, lines))
		return false;
	out->print = hash +
		     bytes_sum((const char *)out->file + walk->l->ascii, length, FILE_WORDS) * 31 +
		     bytes_sum((const char *)out->lines + GM_LAYOUT_BYTES, lines, TABLE_WORDS);
	return true;
}

static inline bool code_read(const struct walk *walk, const void *code,
			     struct gm_released_kept *out)
{
	out->code = code;
	return pointer_read(walk, code, python.code.file, &out->file) &&
	       pointer_read(walk, code, python.code.name, &out->name) &&
	       pointer_read(walk, code, python.code.lines, &out->lines) &&
	       bytes_read(walk, code, python.code.first, &out->first, sizeof out->first) &&
	       print_read(walk, out);
}

/* A new code object may be at the address of an old one, and its texts at those of the old
 * texts. */
static inline bool kept_is(const struct gm_released_kept *entry, const struct gm_released_kept *now)
{
	return entry->code == now->code && entry->at == now->at && entry->print == now->print &&
	       entry->file == now->file && entry->name == now->name && entry->lines == now->lines &&
	       entry->first == now->first;
}

static struct gm_released_kept *set_of(struct gm_released_memory *memory,
				       const struct gm_released_kept *now)
{
	const uint64_t key = (uintptr_t)now->code / 16 + (unsigned)now->at;
	return memory->kept[(key * 0x9e3779b97f4a7c15u) >> 55];
}
_Static_assert(GM_RELEASED_SETS == 1 << 9, "nine bits of the hash");

/* False: an object has a wrong type. */
static __attribute__((noinline)) bool frame_make(const struct walk *walk,
						 struct gm_released_kept *now)
{
	uint64_t n, file, name;
	if (!text_read(walk, now->file, &file) || !text_read(walk, now->name, &name) ||
	    !bytes_read(walk, now->lines, GM_LAYOUT_LENGTH, &n, sizeof n) ||
	    !readable(walk, now->lines, GM_LAYOUT_BYTES, n))
		return false;
	const int line =
		gm_lines_find(walk->l->lines, (const uint8_t *)now->lines + GM_LAYOUT_BYTES, n,
			      now->first, now->at);
	now->frame = (struct gm_frame){.object = GM_FRAME_PYTHON,
				       .line = line > 0 ? (uint32_t)line : 0,
				       .place = name << 32 | file};
	return true;
}

static bool frame_find(const struct walk *walk, struct gm_released_kept *now, struct gm_frame *out)
{
	struct gm_released_kept *set = set_of(walk->memory, now);
	for (unsigned way = 0; way < GM_RELEASED_WAYS; way++)
		if (kept_is(&set[way], now)) {
			*out = set[way].frame;
			return true;
		}
	if (!frame_make(walk, now))
		return false;
	set[walk->memory->replaced++ % GM_RELEASED_WAYS] = *now;
	*out = now->frame;
	return true;
}

/* --- the walk --- */

enum found { WRONG, HIDDEN, SHOWN };

/* Frames of no function, and of functions that have not begun, are hidden. */
static inline enum found frame_read(const struct walk *walk, const void *frame,
				    struct gm_frame *out)
{
	const struct gm_layout *l = walk->l;
	const void *code;
	struct gm_released_kept now;
	uint8_t owner = 0;
	int first_real = 0;
	if (l->owner != GM_LAYOUT_NONE && !bytes_read(walk, frame, l->owner, &owner, sizeof owner))
		return WRONG;
	if (l->owner_none && owner >= l->owner_none)
		return HIDDEN;
	if (!pointer_read(walk, frame, l->code, &code))
		return WRONG;
	code = (const void *)((uintptr_t)code & ~(uintptr_t)7); /* 3.14: bits of a tag */
	if (!object_is(walk, code, gm_python.PyCode_Type) || !at_read(walk, frame, code, &now.at))
		return WRONG;
	if (python.code.first_real != GM_LAYOUT_NONE) {
		if (!bytes_read(walk, code, python.code.first_real, &first_real, sizeof first_real))
			return WRONG;
		if (owner != OWNED_BY_GENERATOR && now.at / 2 < first_real)
			return HIDDEN;
	}
	return code_read(walk, code, &now) && frame_find(walk, &now, out) ? SHOWN : WRONG;
}

static bool innermost_read(const struct walk *walk, const void *thread, const void **frame)
{
	const struct gm_layout *l = walk->l;
	if (!pointer_read(walk, thread, l->current, frame))
		return false;
	return l->within == GM_LAYOUT_NONE || !*frame ||
	       pointer_read(walk, *frame, l->within, frame);
}

/* False: unreadable memory, or a wrong type. */
static bool frames_walk(const struct walk *walk, const void *thread, struct gm_frame *out,
			uint32_t most, uint32_t *n, bool *cut)
{
	const void *frame;
	struct gm_frame beyond;
	if (!innermost_read(walk, thread, &frame))
		return false;
	while (frame && !*cut) {
		const bool room = *n < most;
		const enum found found = frame_read(walk, frame, room ? &out[*n] : &beyond);
		if (found == WRONG)
			return false;
		*n += room && found == SHOWN;
		*cut = !room && found == SHOWN;
		if (!pointer_read(walk, frame, walk->l->back, &frame))
			return false;
	}
	return true;
}

static void refuse(enum gm_released_state from)
{
	if (atomic_compare_exchange_strong(&state, &from, GM_RELEASED_REFUSED))
		gm_msg(GM_MSG_WARN, "stacks: this Python is not laid out as its version says, so "
				    "threads that released its lock have C frames only");
}

/* Before 3.12 the state found is the main interpreter's, in a sub-interpreter, too. */
bool gm_released_is_alone(void)
{
	if (python.layout->version >= 0x030c)
		return true;
	void *head = gm_python.PyInterpreterState_Head();
	return head && !gm_python.PyInterpreterState_Next(head);
}

static bool thread_walk(const struct walk *walk, const void *thread, struct gm_frame *out,
			uint32_t most, uint32_t *n, bool *cut)
{
	*n = 0;
	*cut = false;
	if (!thread)
		return true;
	if (frames_walk(walk, thread, out, most, n, cut))
		return *n || !walk->asks; /* in another layout there may be a zero there */
	refuse(atomic_load(&state));
	*n = 0;
	*cut = false;
	return false;
}

bool gm_released_frames(struct gm_released_memory *memory, struct gm_frame *out, uint32_t most,
			uint32_t *n, bool *cut)
{
	bool known = false;
	*n = 0;
	*cut = false;
	/* gm_released_close waits for us. */
	atomic_fetch_add(&walks, 1);
	const enum gm_released_state now = atomic_load(&state);
	const bool ends = now == GM_RELEASED_CLOSED && gm_thread_id() != main_thread;
	if (now >= GM_RELEASED_WAITING && !ends && gm_python.Py_IsInitialized() &&
	    gm_released_is_alone()) {
		const struct walk walk = {python.layout, memory, now == GM_RELEASED_WAITING};
		known = thread_walk(&walk, gm_python.PyGILState_GetThisThreadState(), out, most, n,
				    cut);
	}
	atomic_fetch_sub(&walks, 1);
	return known;
}

bool gm_released_thread_frames(struct gm_released_memory *memory, const void *thread,
			       struct gm_frame *out, uint32_t most, uint32_t *n, bool *cut)
{
	const struct walk walk = {python.layout, memory, true};
	*n = 0;
	*cut = false;
	return frames_walk(&walk, thread, out, most, n, cut);
}

bool gm_released_text(struct gm_released_memory *memory, const void *text, uint64_t *number)
{
	const struct walk walk = {python.layout, memory, true};
	return text_read(&walk, text, number);
}

/* --- states --- */

enum gm_released_state gm_released_state(void)
{
	return atomic_load_explicit(&state, memory_order_acquire);
}

void gm_released_decide(bool equal)
{
	enum gm_released_state waiting = GM_RELEASED_WAITING;
	if (equal)
		atomic_compare_exchange_strong(&state, &waiting, GM_RELEASED_READY);
	else
		refuse(waiting);
}

void gm_released_close(void)
{
	enum gm_released_state ready = GM_RELEASED_READY;
	atomic_compare_exchange_strong(&state, &ready, GM_RELEASED_CLOSED);
	while (atomic_load(&walks))
		sched_yield();
}

void gm_released_reopen(void)
{
	enum gm_released_state closed = GM_RELEASED_CLOSED;
	atomic_compare_exchange_strong(&state, &closed, GM_RELEASED_UNKNOWN);
}

void gm_released_forget(void)
{
	atomic_store(&walks, 0);
	main_thread = (uint32_t)getpid();
	if (atomic_load(&state) != GM_RELEASED_READY)
		atomic_store(&state, GM_RELEASED_UNKNOWN);
}

const char *gm_released_find(bool allowed)
{
	main_thread = (uint32_t)getpid();
	atomic_store(&state, GM_RELEASED_REFUSED);
	if (!allowed)
		return NULL;
	if (gm_python._Py_MergeZeroLocalRefcount)
		return "it has no global lock";
	if (!gm_python_is_readable())
		return "it lacks functions";
	python.layout = gm_layout_find(gm_python.Py_GetVersion());
	if (!python.layout ||
	    !gm_layout_find_code(python.layout, gm_python.PyCode_Type, &python.code))
		return "this version is unknown";
	atomic_store_explicit(&state, GM_RELEASED_WAITING, memory_order_release);
	return NULL;
}
