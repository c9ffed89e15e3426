/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reader of Python's frames as a library for ctypes, beside the interpreter's own account. CDLL
 * calls it without the interpreter's lock, PyDLL with it. What the reader needs of gpumem is made
 * up here.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* FRAMES_WRONG=MEMBER:BYTES: this member of the layout is wrong by so much. */
#define gm_layout_find layout_find_right
#include "stack/layout.c"
#undef gm_layout_find

#include "base/msg.h"
#include "base/sys.h"
#include "base/thread.h"
#include "knob/knob.h"
#include "log/log.h"
#include "stack/cfi.h"
#include "stack/objects.h"
#include "stack/python.h"
#include "stack/released.h"

const struct gm_layout *gm_layout_find(const char *version);
const struct gm_layout *gm_layout_find(const char *version)
{
	static struct gm_layout layout;
	const struct gm_layout *right = layout_find_right(version);
	const char *wrong = getenv("FRAMES_WRONG");
	int member, by;
	if (!right || !wrong || sscanf(wrong, "%d:%d", &member, &by) != 2)
		return right;
	layout = *right;
	((int *)&layout)[member] += by;
	return &layout;
}

/* --- of gpumem --- */

enum { TEXTS = 1 << 16 };
static char *texts[TEXTS];
static uint32_t n_texts;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

uint32_t gm_log_string(const char *text)
{
	uint32_t hash = 5381, at;
	for (const char *c = text; *c; c++)
		hash = hash * 33 ^ (uint8_t)*c;
	pthread_mutex_lock(&lock);
	for (at = hash % (TEXTS - 1) + 1; texts[at] && strcmp(texts[at], text) != 0;)
		at = at % (TEXTS - 1) + 1;
	if (!texts[at] && n_texts++ < TEXTS / 2)
		texts[at] = strdup(text);
	pthread_mutex_unlock(&lock);
	return texts[at] ? at : 0;
}

GM_TLS uint32_t gm_thread_id_kept;

uint32_t gm_thread_id_read(void)
{
	return gm_thread_id_kept = (uint32_t)syscall(SYS_gettid);
}

static void *thread_body(void *arg)
{
	const struct gm_thread_start *start = arg;
	start->body(start->arg);
	return NULL;
}

int gm_thread_start(struct gm_thread_start *start, void (*body)(void *arg), void *arg)
{
	pthread_t thread;
	start->body = body;
	start->arg = arg;
	return pthread_create(&thread, NULL, thread_body, start) || pthread_detach(thread);
}

void gm_sys_nap(uint64_t ns)
{
	nanosleep(&(struct timespec){.tv_nsec = (long)ns % 1000000000}, NULL);
}

bool gm_thread_keeps_process(void)
{
	return false;
}

bool gm_thread_is_last(void)
{
	return false;
}

bool gm_cfi_page_is_readable(uintptr_t page)
{
	return msync((void *)page, 1, MS_ASYNC) == 0;
}

void gm_msg(enum gm_msg_level level, const char *format, ...)
{
	va_list arguments;
	(void)level;
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
}

const struct gm_knobs *gm_knob_get(void)
{
	static struct gm_knobs knobs;
	knobs.stacks.choice = GM_STACKS_ALL;
	return &knobs;
}

uint64_t gm_objects_generation(void)
{
	return 1;
}

void gm_objects_range(const void *address, uintptr_t *low, uintptr_t *high)
{
	*low = *high = (uintptr_t)address;
}

/* --- for ctypes --- */

enum { MOST = 2000 };

/* Of a thread; never freed. */
struct reading {
	struct gm_released_memory memory;
	struct gm_frame frames[MOST], first[MOST];
	uint32_t n;
};

/* The calling thread's frames; NULL: they are unknown. */
static struct reading *frames_read(void)
{
	static __thread struct reading *mine;
	unsigned guard = 1;
	bool cut;
	if (!mine)
		mine = calloc(1, sizeof *mine);
	gm_python_find();
	return gm_python_frames(&mine->memory, mine->frames, MOST, &guard, &mine->n, &cut) ==
			       GM_PYTHON_HERE
		       ? mine
		       : NULL;
}

static void in_child(void)
{
	gm_thread_id_kept = 0;
	gm_python_forget();
}

/* enum gm_released_state */
int frames_open(void);
int frames_open(void)
{
	static bool forks;
	if (!forks)
		pthread_atfork(NULL, NULL, in_child);
	forks = true;
	gm_python_find();
	return gm_released_state();
}

/* "FILE\tFUNCTION\tLINE\n" of each frame; returns their number, -1 for unknown ones. */
int frames_text(char *out, size_t n);
int frames_text(char *out, size_t n)
{
	const struct reading *r = frames_read();
	*out = '\0';
	for (uint32_t i = 0; r && i < r->n; i++) {
		const struct gm_frame *frame = &r->frames[i];
		const int length = snprintf(out, n, "%s\t%s\t%u\n", texts[(uint32_t)frame->place],
					    texts[frame->place >> 32], frame->line);
		if (length < 0 || (size_t)length >= n)
			break;
		out += length;
		n -= (size_t)length;
	}
	return r ? (int)r->n : -1;
}

/* So many captures of one stack; returns how many differed from the first. */
int frames_repeat(int times);
int frames_repeat(int times)
{
	struct reading *r = frames_read();
	int different = 0;
	if (!r)
		return times;
	const uint32_t n = r->n;
	memcpy(r->first, r->frames, n * sizeof *r->first);
	for (int i = 1; i < times; i++)
		different += !frames_read() || r->n != n ||
			     memcmp(r->first, r->frames, n * sizeof *r->first) != 0;
	return different;
}

/* ns of one capture. */
double frames_time(int times);
double frames_time(int times)
{
	struct timespec begin, end;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (int i = 0; i < times; i++)
		frames_read();
	clock_gettime(CLOCK_MONOTONIC, &end);
	return ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) /
	       times;
}

void frames_forever(void);
void frames_forever(void)
{
	for (;;)
		frames_read();
}

/* A thread that C made, which has a state but no frame, as autograd's. Frames found; -1: unknown.
 */
static void *bare_run(void *found)
{
	int (*ensure)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "PyGILState_Ensure");
	void *(*save)(void) = (void *(*)(void))dlsym(RTLD_DEFAULT, "PyEval_SaveThread");
	void (*restore)(void *) = (void (*)(void *))dlsym(RTLD_DEFAULT, "PyEval_RestoreThread");
	void (*release)(int) = (void (*)(int))dlsym(RTLD_DEFAULT, "PyGILState_Release");
	const int held = ensure();
	void *state = save();
	const struct reading *r = frames_read();
	*(int *)found = r ? (int)r->n : -1;
	restore(state);
	release(held);
	return NULL;
}

int frames_bare(void);
int frames_bare(void)
{
	pthread_t thread;
	int found = -2;
	if (!pthread_create(&thread, NULL, bare_run, &found))
		pthread_join(thread, NULL);
	return found;
}
