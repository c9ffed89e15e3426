/* SPDX-License-Identifier: BSD-3-Clause */
/* What of an ELF file decides whether a preload gets into it, and which driver it finds. */
#ifndef GM_TOOLS_ELF_H
#define GM_TOOLS_ELF_H

#include <stdbool.h>

#include "base/array.h"

struct gm_elf {
	unsigned bits, machine; /* 32 or 64; EM_X86_64, ... */
	bool ours;		/* of the machine that this program is for; else nothing below */
	char *interpreter;	/* NULL: statically linked */
	char *strings;		/* what the following point into */
	GM_ARRAY(const char *) needed;
	const char *rpath, *runpath; /* NULL: none; rpath does not count beside a runpath */
	bool device_code;	     /* it has a section of CUDA's device code */
};

/* Read an open file. False: it is no ELF file, or damaged; nothing is to be freed then. */
bool gm_elf_read(int fd, struct gm_elf *out);
void gm_elf_free(struct gm_elf *elf);

#endif
