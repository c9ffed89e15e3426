/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a program says of itself to the main that all share: its options as a table, what it checks
 * of them, and its runs, each of which prints a line. Exit status: 0; 1 if a result differs or a
 * call fails; 2 for wrong options.
 */
#ifndef PR_PROGRAM_H
#define PR_PROGRAM_H

#include "programs/common/args.h"

struct pr_option {
	const char *name;
	char letter; /* 0: none */
	/* `out` is a uint64_t, a struct pr_list, the place of a name as uint64_t, a struct pr_list
	 * of such, a const char *, a bool. */
	enum { PR_NUMBER, PR_NUMBERS, PR_NAME, PR_NAMES, PR_TEXT, PR_FLAG } kind;
	const char *value; /* its word in --help */
	/* What it is where it is not given. --help shows it; "all" names can be given, too; what
	 * is no value is 0 until `check` sets it. */
	const char *standard;
	void *out;
	uint64_t least, most; /* numbers */
	/* `most` names that can be given; of numbers NULL, or the word for 0. */
	const char *const *names;
	const char *help;
};

#define PR_HEAP(out, standard)                                                     \
	{                                                                          \
		"heap", 0, PR_NUMBER, "BYTES", standard, out, 1, UINT64_MAX, NULL, \
			"the driver's heap for malloc in kernels"                  \
	}

struct pr_program {
	const char *name, *about;
	/* The last row has no name. --repeat, --verify, --untimed and --help are main's. */
	const struct pr_option *options;
	const char *numbers;   /* behind "not a number"; NULL: nothing */
	bool verifies;	       /* always: it has no --verify */
	void (*help)(void);    /* more of --help; NULL: nothing */
	void (*check)(void);   /* what no bounds of one option say; NULL: nothing */
	unsigned (*run)(void); /* returns how many results are wrong */
};

/* Each program has one. */
extern const struct pr_program pr_program;

/* As main has read them. */
extern struct pr_asked {
	uint64_t repeat;
	bool verify, untimed;
} pr_asked;

/* `run` for each value, --repeat times. Returns the sum. */
unsigned pr_each(const struct pr_list *values, unsigned (*run)(void *arg, uint64_t value),
		 void *arg);

/* --- of a run's line --- */

/* With --verify: " verified=yes". */
void pr_line_verified(bool right);
/* Its end. With --verify, what is wrong is said; returns 1 then, else 0. */
unsigned pr_line_end(bool right, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
