/* SPDX-License-Identifier: BSD-3-Clause */
/* Call stacks as text and as JSON. Single-threaded. */
#ifndef GM_TOOLS_STACK_FRAMES_H
#define GM_TOOLS_STACK_FRAMES_H

#include "tools/output/emit.h"
#include "tools/stack/fold.h"
#include "tools/stack/symbols.h"

/* Request the symbols of a stack's frames. `number`: any number of a log, 0 included. */
void gm_frames_want(struct gm_symbols *symbols, uint32_t number);

/* A function of a frame; a frame with inlined functions has several. Or the words between the
 * frames of a backward pass and those of its forward call; or those in place of a stack. */
struct gm_frames_call {
	const char *function, *file; /* NULL: not known */
	const char *object;	     /* path of the ELF file; "": none, or unknown */
	uint64_t place;		     /* in the object; of `forward` the number of its stack */
	unsigned line;
	bool python, inlined, forward, in_object, before;
	enum gm_fold fold;	 /* why a user cannot act on it */
	char name[GM_FOLD_NAME]; /* gm_fold_name; of `forward` "backward of mm", or "" */
};

/*
 * The frames of a stack, the innermost first. Behind a frame GM_FRAME_FORWARD are those of the
 * stack of its forward call, at most eight stacks in total. _walk calls `each` with the frames,
 * _each with their calls; never, if the log lacks the stack.
 */
void gm_frames_walk(const struct gm_symbols *symbols, uint32_t number,
		    void (*each)(void *arg, const struct gm_frame *frame), void *arg);
void gm_frames_each(const struct gm_symbols *symbols, uint32_t number,
		    void (*each)(void *arg, const struct gm_frames_call *call), void *arg);

/* _calls: the number of functions of a frame, at least 1. _call: function i, the innermost first.
 */
size_t gm_frames_calls(const struct gm_symbols *symbols, const struct gm_frame *frame);
struct gm_frames_call gm_frames_call(const struct gm_symbols *symbols, const struct gm_frame *frame,
				     size_t i);

/* "c", "python", "forward" or "before", as JSON has it. */
const char *gm_frames_language(const struct gm_frames_call *call);

/* Text: some frames of C up to main, then of Python, the innermost first, without folded ones; ends
 * the program when memory is short. JSON: the list "frames" with all frames, and "stack", "cut" and
 * "c_only". */
void gm_frames_show(struct gm_emit *emit, const struct gm_symbols *symbols, uint32_t number);

/* lines.c: the text of a stack, as above. `stack`: that of `number`. */
void gm_frames_text(struct gm_emit *emit, const struct gm_symbols *symbols, uint32_t number,
		    const struct gm_log_stack *stack);
/*
 * lines.c: one line for a stack: its innermost call of Python, "train (project/train.py:7)", or
 * else the innermost one that is not folded, or "backward of mm at project/train.py:7" if only the
 * forward call has a line of Python. Cut to `n`. Returns buf; "": the log lacks the stack. Ends the
 * program when memory is short.
 */
const char *gm_frames_place(const struct gm_symbols *symbols, uint32_t number, char *buf, size_t n);

/*
 * lines.c: the call site of a stack, by names that other runs of the program share: `name` is its
 * place as above, but an address in no file is "code in no file"; `file` is the name without the
 * folder of the file, `stem` also without the number of the line; both are "" without a line.
 */
enum { GM_FRAMES_SITE = 512 };
struct gm_frames_site {
	char name[GM_FRAMES_SITE], file[GM_FRAMES_SITE], stem[GM_FRAMES_SITE];
	unsigned line; /* 0: none */
};
void gm_frames_site(const struct gm_symbols *symbols, uint32_t number, struct gm_frames_site *out);

/* lines.c: a call as one line, cut to `n`. Returns buf. */
const char *gm_frames_call_text(const struct gm_frames_call *call, char *buf, size_t n);

/* short_name.c: a name of C++ without parameters, template arguments and return type, cut to the
 * size of `buf`. Returns buf. */
const char *gm_frames_short_name(const char *name, char *buf, size_t n);

/* One line for each file with missing symbols; JSON: the list "objects". */
void gm_frames_show_objects(struct gm_emit *emit, const struct gm_symbols *symbols);

#endif
