/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The live counters in memory (gpumem-log(5), Counters): mapped from the log where its file can be
 * mapped, so that even kill -9 leaves exact numbers; else from a memfd named "gpumem".
 *
 *     page:  a row for the process, a row for each device
 *     parts: GM_PART_ROWS rows, each owned by one thread and added to one row of the page
 *
 * The value of a counter of split.def is the page's value plus the counter's part in every row of
 * parts of that device (or of the process), modulo 2^64. Only the owner writes to a row of parts:
 * it needs neither a lock nor an atomic addition.
 */
#ifndef GM_LOG_PAGE_H
#define GM_LOG_PAGE_H

#include <stdatomic.h>
#include <stddef.h>

#include "base/size.h"
#include "log/counters.h"

#define GM_PAGE_MAGIC "GPUMEMCT"
#define GM_PAGE_WHOLE 1 /* version of a page that no parts follow: its values are sums */
#define GM_PAGE_SPLIT 2 /* version of a page with parts, GM_PAGE_ROOM after its beginning */
#define GM_PAGE_ROOM (96 * GM_KIB)
#define GM_PAGE_ROWS (1 + GM_COUNTER_DEVICES)			/* the process, then each device */
#define GM_PAGE_STRIDE (((unsigned)GM_COUNTER_COUNT + 7) & ~7u) /* rows begin on cache lines */

/* What the page says about the end of its log. */
enum gm_page_end {
	GM_PAGE_OPEN,
	GM_PAGE_CLOSED, /* cleanly, as the process ended */
	GM_PAGE_ENDED,	/* a recording was ended, the process went on: calls may be half counted */
};

struct gm_page_head {
	char magic[8];
	uint32_t version;
	uint32_t counters; /* values used in each row, in the order of counters.def */
	uint32_t stride;   /* values from one row to the next */
	uint32_t rows;
	uint32_t pid;
	uint32_t closed;   /* enum gm_page_end */
	uint64_t start;	   /* CLOCK_MONOTONIC, ns */
	uint64_t last;	   /* last sign of life: CLOCK_MONOTONIC, ns */
	uint64_t sequence; /* newest segment of the log */
	uint64_t length;   /* of the log, bytes */
};

struct gm_counter_page {
	struct gm_page_head head;
	_Atomic uint64_t value[GM_PAGE_ROWS][GM_PAGE_STRIDE];
};
_Static_assert(offsetof(struct gm_counter_page, value) == 64, "values begin on a cache line");
_Static_assert(sizeof(struct gm_counter_page) <= GM_PAGE_ROOM, "a page of counters fits its room");

#define GM_PART_ROWS 511
#define GM_PART_PLACES 15

struct gm_part_row {
	_Alignas(128) _Atomic uint64_t row; /* 1 + the page's row; 0: not in use */
	_Atomic uint64_t part[GM_PART_PLACES];
};

/*
 * Requests of other processes, which recording.h obeys. One who asks raises the number of `asked`
 * by compare and exchange once the request of that number has its answer, then sets `wake`.
 */
enum gm_request { GM_REQUEST_NONE, GM_REQUEST_EVENTS, GM_REQUEST_SMALL };
enum gm_answer {
	GM_ANSWER_NONE,
	GM_ANSWER_BEGUN,
	GM_ANSWER_ENDED,
	GM_ANSWER_GOES_ON, /* events are recorded already */
	GM_ANSWER_IDLE,	   /* there is no recording to end */
	GM_ANSWER_OWN,	   /* the log of the process itself is one of events */
	GM_ANSWER_FAILED,  /* the error says why there is no file */
	GM_ANSWER_UNKNOWN, /* a request of another version */
};
#define GM_REQUEST_SHIFT 24
#define GM_ANSWERS 6

struct gm_page_request {
	_Atomic uint32_t able;	/* 1: the process obeys requests */
	_Atomic uint32_t wake;	/* 1: there may be one */
	_Atomic uint64_t asked; /* number << GM_REQUEST_SHIFT | enum gm_request */
	/* The newest answers, each at its number % GM_ANSWERS: number << GM_REQUEST_SHIFT |
	 * error << 8 | enum gm_answer. One who asks may be slow to look. */
	_Atomic uint64_t answer[GM_ANSWERS];
};

/* The number of a request or an answer. */
static inline uint64_t gm_request_number(uint64_t word)
{
	return word >> GM_REQUEST_SHIFT;
}

/* The answer at the place of a request's number; 0: none yet. */
static inline _Atomic uint64_t *gm_request_answer(struct gm_page_request *request, uint64_t number)
{
	return &request->answer[number % GM_ANSWERS];
}

struct gm_parts {
	uint32_t rows;
	/* 1 + the counter at each place, 0: none; [0] in rows of the process, [1] of devices */
	uint16_t counter[2][GM_PART_PLACES];
	_Alignas(64) struct gm_page_request request;
	struct gm_part_row of[GM_PART_ROWS];
};
_Static_assert(offsetof(struct gm_parts, request) == 64, "gpumem-log(5) gives the offsets");
_Static_assert(sizeof(struct gm_page_request) == 64, "gpumem-log(5) gives the offsets");
_Static_assert(offsetof(struct gm_parts, of) == 128, "gpumem-log(5) gives the offsets");
_Static_assert(sizeof(struct gm_parts) == 64 * GM_KIB, "gpumem-log(5) gives the offsets");

struct gm_counter_live {
	union {
		struct gm_counter_page page;
		char room[GM_PAGE_ROOM];
	};
	struct gm_parts parts;
};
_Static_assert(offsetof(struct gm_counter_live, parts) == GM_PAGE_ROOM, "parts follow the page");

/* Fill in the head of a page. `version`: GM_PAGE_WHOLE or GM_PAGE_SPLIT. */
void gm_counters_describe(struct gm_page_head *head, uint32_t version);

/*
 * Move the live counters into `live`, or back into private memory (NULL; the old place keeps its
 * values and is no longer written). A count in progress in another thread may still be added at the
 * old place.
 */
void gm_counters_move(struct gm_counter_live *live);

/* Copy the live values, without the head, while other threads count: each value is one that the
 * counter had. Parts are added up, so `to` is a GM_PAGE_WHOLE page. */
void gm_counters_copy(struct gm_counter_page *to);

/* The head of the page that is in use. */
struct gm_page_head *gm_counters_head(void);

#endif
