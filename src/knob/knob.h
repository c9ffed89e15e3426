/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knobs of the environment, and below it of /etc/gpumem.conf (conf.h), read once into a struct that
 * is constant afterwards. By secure_getenv, so a set-uid program ignores them. A bad value is
 * ignored and reported once, in one line with the knob, the value and the expected form. An unknown
 * GPUMEM_* name is reported with the nearest known one.
 */
#ifndef GM_KNOB_KNOB_H
#define GM_KNOB_KNOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/debug.h"

enum gm_knob_type {
	GM_KNOB_BOOL,
	GM_KNOB_CHOICE,
	GM_KNOB_SIZE,
	GM_KNOB_SIZE_OR_PERCENT,
	GM_KNOB_SIZE_OR_FOLDER,
	GM_KNOB_TIME,
	GM_KNOB_TRIM,
	GM_KNOB_LEVEL,
	GM_KNOB_SWITCH,
	GM_KNOB_TEXT,
	GM_KNOB_NAME,
	GM_KNOB_BYTE,
	GM_KNOB_THREADS,
	GM_KNOB_LIST
};

struct gm_knob_share {
	uint64_t bytes;	    /* when ppm is 0 */
	uint32_t ppm;	    /* of the device's memory, parts per million */
	const char *folder; /* SIZE_OR_FOLDER: as TEXT; NULL: a size */
};

/* One value; its type selects the member. */
union gm_knob_value {
	bool flag;	 /* BOOL */
	unsigned choice; /* CHOICE: index into the words; BYTE: the byte, or 256 + that */
	uint64_t bytes;	 /* SIZE */
	struct gm_knob_share share; /* SIZE_OR_PERCENT, SIZE_OR_FOLDER */
	uint64_t ns;		    /* TIME; UINT64_MAX: never */
	const char *text;	    /* TEXT, NAME: lives as long as the process */
	unsigned threads;	    /* THREADS: 0: off; GM_THREADS_AUTO */
	uint32_t set;		    /* LIST: bit i = word i */
	struct {
		uint64_t after; /* ns; UINT64_MAX: never */
		struct gm_knob_share keep;
	} trim; /* TRIM */
	struct {
		unsigned choice;
		uint64_t sample; /* ns */
	} level;		 /* LEVEL */
	struct {
		bool on;
		uint64_t after; /* ns; UINT64_MAX: never by itself */
	} sleep;		/* SWITCH */
};

enum gm_knob_id {
#define GM_KNOB(member, type, name, value, argument, help) GM_KNOB_ID_##member,
#include "knob/knob.def"
#undef GM_KNOB
	GM_KNOB_COUNT
};

struct gm_knobs {
#define GM_KNOB(member, type, name, value, argument, help) union gm_knob_value member;
#include "knob/knob.def"
#undef GM_KNOB
};

/* Words of CHOICE and BYTE knobs, in the order of knob.def. */
enum { GM_FILL_OFF = 256, GM_FILL_ZERO };
enum { GM_FREE_SYNC, GM_FREE_DEFER, GM_FREE_ORDERED };
enum { GM_HEAP_AUTO, GM_HEAP_OFF }; /* then the policies, in the order of policy.def */
enum { GM_LOG_OFF, GM_LOG_SMALL, GM_LOG_EVENTS };
enum { GM_MODE_POOL, GM_MODE_TRACE };
enum { GM_IPC_SHARE, GM_IPC_NATIVE };
enum { GM_LEND_OFF, GM_LEND_SHORT, GM_LEND_ALWAYS };
enum { GM_THREADS_AUTO = 1 << 16 }; /* a THREADS knob set to auto */
enum { GM_STACKS_OFF, GM_STACKS_LARGE, GM_STACKS_ALL, GM_STACKS_HELD };
enum { GM_REMAP_AUTO, GM_REMAP_OFF };

struct gm_knob_info {
	const char *name, *fallback, *argument, *help;
	enum gm_knob_type type;
};

extern GM_HIDDEN const struct gm_knob_info gm_knob_table[GM_KNOB_COUNT];

/* The origin of a value. */
enum gm_knob_source { GM_KNOB_DEFAULT, GM_KNOB_FILE, GM_KNOB_ENVIRONMENT };
struct gm_knob_origin {
	enum gm_knob_source source;
	const char *text;    /* as given; the default's otherwise */
	const char *refused; /* the bad text that had precedence; NULL: none */
};

enum { GM_KNOB_LONGEST = 4095 }; /* bytes of a value: the length of the longest path */

/*
 * Parse one value. True: *out is set (TEXT and NAME point into `text`). False: `why`, of `n` bytes,
 * gets the expected form ("expected one of pool, trace"), and *out is unchanged. Any thread.
 */
bool gm_knob_parse(enum gm_knob_id id, const char *text, union gm_knob_value *out, char *why,
		   size_t n);

/*
 * Read all knobs. The first call parses, later ones return the same struct.
 * Bad values and unknown names are reported through gm_msg, once. Never NULL; no allocation. Any
 * thread.
 */
const struct gm_knobs *gm_knob_get(void);

/* The origin of a value. pre: gm_knob_get. */
struct gm_knob_origin gm_knob_origin(enum gm_knob_id id);
/* The same for an environment in which the knob is `given` (NULL: not set), in this process or not.
 * *out gets the effective value; `why`, of `n` bytes, is empty unless `given` is refused. */
struct gm_knob_origin gm_knob_judge(enum gm_knob_id id, const char *given, union gm_knob_value *out,
				    char *why, size_t n);
/* "default", "file", "environment". */
const char *gm_knob_source_name(enum gm_knob_source source);

/* True for a knob, and for the other correct names that begin with GPUMEM_. */
bool gm_knob_is_known(const char *name);

/* Why the name is none of a knob: " is not a knob; did you mean GPUMEM_LIMIT?", " is not a knob any
 * more; ... replaces it". `out` has `n` bytes; returns it. */
char *gm_knob_unknown(const char *name, char *out, size_t n);

/* The known knob nearest to `name`: at an edit distance of at most 3, and of at most half the
 * letters behind "GPUMEM_". NULL: no knob is that near. */
const char *gm_knob_nearest(const char *name);

#endif
