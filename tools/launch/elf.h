/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads from an ELF file whether a preload can be loaded into it, and which driver it finds. */
#ifndef GM_TOOLS_LAUNCH_ELF_H
#define GM_TOOLS_LAUNCH_ELF_H

#include <stdbool.h>

#include "base/array.h"

struct gm_elf {
	unsigned bits, machine; /* 32 or 64; EM_X86_64, ... */
	bool ours;		/* for this machine; else the members below are not set */
	char *interpreter;	/* NULL: statically linked */
	char *strings;		/* the following point into it */
	GM_ARRAY(const char *) needed;
	const char *rpath, *runpath; /* NULL: none; a runpath disables the rpath */
	bool device_code;	     /* it has a section of CUDA's device code */
};

/* Read an open file. False: it is no ELF file, or damaged; nothing is to be freed. True: the caller
 * frees *out. */
bool gm_elf_read(int fd, struct gm_elf *out);
void gm_elf_free(struct gm_elf *elf);

#endif
