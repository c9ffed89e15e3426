/* SPDX-License-Identifier: BSD-3-Clause */
/* For lint.sh: locked.awk prints the functions of locked.sample.c that are named found_. */

/* --- the pool's lock is held --- */

int found_one(void);
int asserts(void);

/* --- no lock is held --- */

int needs_none(void);
