/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the parts of an ELF file that decide about preloading and about the driver it finds. */
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
	bool device_code;	     /* has a section of CUDA device code */
};

/* Read an open file. True: the caller frees *out. False: no valid ELF file; nothing to free. */
bool gm_elf_read(int fd, struct gm_elf *out);
void gm_elf_free(struct gm_elf *elf);

#endif
