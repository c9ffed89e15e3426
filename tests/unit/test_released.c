/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Python frames read from the memory of a made-up interpreter, with objects laid out as in CPython
 * 3.12, or slightly different.
 */
#include "stack/released.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/thread.h"
#include "stack/pyapi.h"

#include "../tap.h"

/* --- the interpreter; 8 bytes a word --- */

enum { FILE_AT = 14, NAME_AT, LINES_AT, FIRST_AT, FIRST_REAL, INSTRUCTIONS = 20 };

static const char *version = "3.12.1 (made up)";
struct member {
	const char *name;
	uint64_t type, offset, rest[2];
};
static const struct member members[] = {{.name = "co_filename", .offset = 8 * FILE_AT},
					{.name = "co_qualname", .offset = 8 * NAME_AT},
					{.name = "co_linetable", .offset = 8 * LINES_AT},
					{.name = "co_firstlineno", .offset = 8 * FIRST_AT},
					{0}};

static uint64_t code_type[64], text_type[64], state[16], c_frame[2];

static const char *get_version(void)
{
	return version;
}

static int is_initialized(void)
{
	return 1;
}

static void *get_state(void)
{
	return state;
}

/* One interpreter. */
static void *get_head(void)
{
	return state;
}

static void *get_next(void *interpreter)
{
	(void)interpreter;
	return NULL;
}

static void interpreter_forget(void *object)
{
	(void)object;
}

static void interpreter_open(void)
{
	void *const other = (void *)get_state; /* never used */
	gm_python = (struct gm_python){
#define GM_PYTHON(need, result, name, parameters) .name = (__typeof__(gm_python.name))other,
#define GM_PYTHON_OBJECT(need, name) .name = other,
#include "stack/pyapi.def"
#undef GM_PYTHON
#undef GM_PYTHON_OBJECT
	};
	gm_python._Py_MergeZeroLocalRefcount = NULL;
	gm_python.Py_GetVersion = get_version;
	gm_python.Py_IsInitialized = is_initialized;
	gm_python.PyGILState_GetThisThreadState = get_state;
	gm_python.PyInterpreterState_Head = get_head;
	gm_python.PyInterpreterState_Next = get_next;
	gm_python.PyCode_Type = code_type;
	gm_python.PyUnicode_Type = text_type;
}

struct text {
	uint64_t count, type, length, hash, state;
	char characters[64];
};
struct bytes {
	uint64_t count, type, length, hash;
	char characters[32];
};
struct code {
	uint64_t word[INSTRUCTIONS];
	char instructions[64];
};
struct frame {
	uint64_t code, back, rest[5], at;
	char owner[8]; /* the owner is the seventh byte */
};

static struct text file, names[2];
static struct bytes lines;
static struct code codes[2];
static struct frame frames[3];
static void text_make(struct text *out, const char *text, unsigned bits)
{
	*out = (struct text){.type = (uintptr_t)text_type,
			     .length = strlen(text),
			     .hash = strlen(text) + (uint64_t)text[0] * 31,
			     .state = bits};
	snprintf(out->characters, sizeof out->characters, "%s", text);
}

static void code_make(struct code *out, const struct text *name, uint64_t first)
{
	out->word[1] = (uintptr_t)code_type;
	out->word[FILE_AT] = (uintptr_t)&file;
	out->word[NAME_AT] = (uintptr_t)name;
	out->word[LINES_AT] = (uintptr_t)&lines;
	out->word[FIRST_AT] = first;
}

static void frame_make(struct frame *out, const struct code *code, int at, const struct frame *back)
{
	out->code = (uintptr_t)code;
	out->back = (uintptr_t)back;
	out->at = (uintptr_t)code->instructions + (unsigned)at;
}

enum {
	COMPACT = 1 << 5,
	ONE_BYTE = 1 << 2,
	TWO_BYTES = 2 << 2,
	PLAIN = COMPACT | 1 << 6 | ONE_BYTE
};

static struct gm_released_memory memory;

/* Calls: outer (line 24) -> the frame of a C function -> inner (line 12). */
static void interpreter_make(void)
{
	code_type[4] = 8 * INSTRUCTIONS;
	code_type[30] = (uintptr_t)members;
	text_make(&file, "/a/file.py", PLAIN);
	text_make(&names[0], "inner", PLAIN);
	text_make(&names[1], "outer", PLAIN);
	lines = (struct bytes){.length = 27};
	for (int i = 0; i < 9; i++) /* a unit of code, a line further than the one before */
		memcpy(lines.characters + 3 * i, i ? "\xd8\1\2" : "\xd0\1\2", 3);
	code_make(&codes[0], &names[0], 10);
	code_make(&codes[1], &names[1], 20);
	frame_make(&frames[0], &codes[0], 4, &frames[1]);
	frames[1].back = (uintptr_t)&frames[2];
	frames[1].owner[6] = 3;
	frame_make(&frames[2], &codes[1], 8, NULL);
	c_frame[0] = (uintptr_t)frames;
	state[7] = (uintptr_t)c_frame;
}

/* --- frames read --- */

static char texts[64][64];
static uint32_t n_texts;

uint32_t __wrap_gm_log_string(const char *text);
uint32_t __wrap_gm_log_string(const char *text)
{
	snprintf(texts[n_texts % 64], sizeof texts[0], "%s", text);
	return ++n_texts;
}

static const char *text_of(uint64_t number)
{
	return number ? texts[(number - 1) % 64] : "?";
}

/* The frames as "inner file.py:12 ...", in a static text; "" for none; or "unknown". */
static const char *read_frames(uint32_t most)
{
	static char out[512];
	struct gm_frame found[8];
	bool cut;
	size_t at = 0;
	uint32_t n;
	bool known = gm_released_frames(&memory, found, most, &n, &cut);
	*out = '\0';
	for (uint32_t i = 0; i < n; i++)
		at += (size_t)snprintf(out + at, sizeof out - at, "%s%s %s:%u", i ? ", " : "",
				       text_of(found[i].place >> 32),
				       text_of((uint32_t)found[i].place), found[i].line);
	snprintf(out + at, sizeof out - at, "%s", cut ? ", ..." : "");
	return known ? out : "unknown";
}

#define WHOLE "inner /a/file.py:12, outer /a/file.py:24"

static bool reads(const char *wished)
{
	const char *got = read_frames(8);
	if (strcmp(got, wished) != 0)
		printf("# \"%s\", not \"%s\"\n", got, wished);
	return !strcmp(got, wished);
}

/* Run in a child, which finds the interpreter: the found layout is kept for the process. */
static void in_child(bool (*what)(void), const char *title)
{
	int status = -1;
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		gm_thread_forget();
		gm_released_forget();
		interpreter_open();
		interpreter_make();
		bool ok = what();
		fflush(stdout);
		_exit(!ok);
	}
	if (pid > 0)
		waitpid(pid, &status, 0);
	TAP_IS(status, 0, "%s", title);
}

/* Find the interpreter, and let the self-check pass. */
static void find_ready(void)
{
	gm_released_find(true);
	gm_released_decide(true);
}

static bool all_as_they_are(void)
{
	gm_released_find(true);
	bool ok = reads(WHOLE) && reads(WHOLE);
	gm_released_decide(true);
	return ok && reads(WHOLE) && !strcmp(read_frames(1), "inner /a/file.py:12, ...");
}

static bool not_allowed(void)
{
	gm_released_find(false);
	return reads("unknown");
}

/* No frames are read with these versions; the last one is NULL. */
static bool nothing_of(const char *const *versions)
{
	bool ok = true;
	for (; *versions; versions++) {
		version = *versions;
		gm_released_find(true);
		ok &= reads("unknown");
	}
	return ok;
}

static bool other_versions(void)
{
	static const char *const others[] = {"3.8.1",  "3.15.0", "4.0",	   "3", "",
					     "python", "3.99",	 "2.12.1", NULL};
	return nothing_of(others);
}

/* The other layouts have other fields at the places they read. */
static bool layouts_of_others(void)
{
	static const char *const others[] = {"3.9.1", "3.10.1", "3.11.1", "3.13.1", "3.14.1", NULL};
	return nothing_of(others);
}

static bool without_the_lock(void)
{
	gm_python._Py_MergeZeroLocalRefcount = interpreter_forget;
	const char *why = gm_released_find(true);
	return why && !strcmp(why, "it has no global lock") && reads("unknown");
}

static bool nowhere(void)
{
	void *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t *const places[] = {&state[7],
				    &c_frame[0],
				    &frames[0].code,
				    &codes[0].word[1],
				    &frames[0].back,
				    &codes[0].word[FILE_AT],
				    &frames[2].code,
				    &codes[1].word[NAME_AT],
				    &codes[1].word[LINES_AT]};
	bool ok = true;
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		interpreter_make();
		gm_released_find(true);
		*places[i] = (uintptr_t)page;
		ok &= reads("unknown");
		interpreter_make(); /* the memory is correct again, but reading stays off */
		ok &= reads("unknown");
	}
	return ok;
}

static bool not_code(void)
{
	find_ready();
	bool ok = reads(WHOLE);
	codes[1].word[1] = (uintptr_t)text_type;
	return ok && reads("unknown");
}

static bool not_texts(void)
{
	gm_released_find(true);
	names[1].type = 0;
	return reads("inner /a/file.py:12, ? /a/file.py:24");
}

static bool other_texts(void)
{
	gm_released_find(true);
	names[1].state = ONE_BYTE; /* its characters are elsewhere */
	return reads("inner /a/file.py:12, ? /a/file.py:24");
}

static bool no_frames(void)
{
	gm_released_find(true);
	c_frame[0] = 0;
	bool ok = reads("unknown");
	gm_released_decide(true);
	ok &= reads("");
	interpreter_make();
	return ok && reads(WHOLE); /* this error did not turn reading off */
}

/* Latin 1, and two bytes a character with half of a pair. */
static bool not_ascii(void)
{
	static const uint16_t wide[] = {0x51fd, 0xd800, 'x'};
	gm_released_find(true);
	names[0].state = COMPACT | ONE_BYTE;
	names[0].length = 2;
	memcpy(names[0].characters + 16, "\xe9t", 3);
	names[1].state = COMPACT | TWO_BYTES;
	names[1].length = 3;
	memcpy(names[1].characters + 16, wide, sizeof wide);
	return reads("\xc3\xa9t /a/file.py:12, \xe5\x87\xbd\xef\xbf\xbdx /a/file.py:24");
}

static bool function_that_has_not_begun(void)
{
	gm_released_find(true);
	codes[0].word[FIRST_REAL] = 3; /* units of two bytes */
	return reads("outer /a/file.py:24");
}

/* Another code object with its texts, at the addresses of ended ones. */
static bool other_code(void)
{
	gm_released_find(true);
	bool ok = reads(WHOLE);
	text_make(&names[0], "other", PLAIN);
	ok &= reads("other /a/file.py:12, outer /a/file.py:24");
	text_make(&file, "/a/fileX.py", PLAIN);
	ok &= reads("other /a/fileX.py:12, outer /a/fileX.py:24");
	text_make(&file, "/a/fileY.py", PLAIN);
	ok &= reads("other /a/fileY.py:12, outer /a/fileY.py:24");
	codes[1].word[FIRST_AT] = 30;
	ok &= reads("other /a/fileY.py:12, outer /a/fileY.py:34");
	const uint32_t before = n_texts;
	ok &= reads("other /a/fileY.py:12, outer /a/fileY.py:34") && n_texts == before;
	lines.characters[26]++;
	return ok && reads("other /a/fileY.py:12, outer /a/fileY.py:34") && n_texts == before + 4;
}

static void *thread_read(void *wished)
{
	return reads(wished) ? wished : NULL;
}

static bool thread_reads(const char *wished)
{
	pthread_t thread;
	void *result = NULL;
	if (pthread_create(&thread, NULL, thread_read, (void *)(uintptr_t)wished))
		return false;
	pthread_join(thread, &result);
	return result;
}

static bool of_another_thread(void)
{
	gm_released_find(true);
	bool ok = thread_reads(WHOLE) && reads(WHOLE);
	gm_released_decide(true);
	return ok && thread_reads(WHOLE) && reads(WHOLE);
}

static bool after_the_end(void)
{
	find_ready();
	gm_released_close();
	return thread_reads("unknown") && reads(WHOLE);
}

static bool another_interpreter(void)
{
	find_ready();
	gm_released_close();
	gm_released_reopen();
	bool ok = reads("unknown");
	find_ready();
	return ok && thread_reads(WHOLE);
}

static bool self_check_fails(void)
{
	gm_released_find(true);
	gm_released_decide(false);
	gm_released_decide(true); /* too late */
	return reads("unknown");
}

int main(void)
{
	in_child(all_as_they_are, "functions, files and lines, up to so many");
	in_child(not_allowed, "none where it is not allowed");
	in_child(other_versions, "of an interpreter of another version nothing is read");
	in_child(without_the_lock, "of one without a global lock neither, and the reason is given");
	in_child(layouts_of_others, "of one that lies otherwise than its version does, neither");
	in_child(nowhere, "an address where nothing is ends the first walk, and all later ones");
	in_child(not_code, "memory that is no code object ends a later walk");
	in_child(not_texts, "a text of another class has no name");
	in_child(no_frames,
		 "a thread without frames has none, which is certain after the self-check");
	in_child(other_texts, "nor has a text of another form");
	in_child(not_ascii, "names beyond ASCII are UTF-8, half of a surrogate pair is U+FFFD");
	in_child(function_that_has_not_begun, "a function that has not begun is left out");
	in_child(other_code, "an object in the place of another one is not taken for it");
	in_child(of_another_thread,
		 "frames of other threads are read, too, before and after the self-check");
	in_child(after_the_end, "after the interpreter's end only those of the main thread");
	in_child(another_interpreter, "the next interpreter is searched, and read");
	in_child(self_check_fails, "after a self-check that failed nothing is read");
	return tap_done();
}
