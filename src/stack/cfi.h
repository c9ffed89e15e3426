/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From a frame of the calling thread to its caller, by call frame information: .eh_frame (DWARF 5,
 * section 6.4). libgcc finds a function's information, also that of code made at run time
 * (__register_frame), and is asked for nothing else. Its own walk reads the instructions at an
 * address without information, and memory at whatever a register holds. Both can be anything: a
 * coroutine's first frame returns to a number that is no address, and pages of code may be
 * unreadable. Here memory is read only if the kernel can read it, and the walk ends otherwise.
 */
#ifndef GM_STACK_CFI_H
#define GM_STACK_CFI_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__x86_64__)
enum { GM_CFI_FRAME = 6, GM_CFI_STACK = 7, GM_CFI_RETURN = 16, GM_CFI_REGISTERS = 17 };
#else /* AArch64 */
enum { GM_CFI_FRAME = 29, GM_CFI_RETURN = 30, GM_CFI_STACK = 31, GM_CFI_REGISTERS = 32 };
#endif
enum { GM_CFI_REMEMBERED = 4 };

/* How to find the caller's registers. */
struct gm_cfi_row {
	uint32_t ruled;		       /* bits of the registers that are not the caller's already */
	uint8_t how[GM_CFI_REGISTERS]; /* of these */
	int64_t value[GM_CFI_REGISTERS]; /* an offset, a register, or the address of an expression
					  */
	const uint8_t *cfa_expression;	 /* NULL: the register and the offset */
	int64_t cfa_offset;
	uint32_t cfa_register;
	bool is_signed; /* the return address is, on AArch64 */
};

/* A frame, and memory for the step to the next. */
struct gm_cfi {
	uintptr_t at; /* its next instruction; 0: the walk is over */
	bool exact;   /* the frame was interrupted before this instruction; else this follows a call
		       */
	uintptr_t place; /* where `at` is on the stack; 0: nowhere */
	uint32_t known;	 /* bits of the registers that are known */
	uintptr_t registers[GM_CFI_REGISTERS], caller[GM_CFI_REGISTERS];
	/* The last step found the caller's frame at a constant distance from the one before, or, if
	 * `link` is not 0, by the frame register, whose value `base` is in memory at `link`.
	 * `loose`: in another way. */
	uintptr_t link, base;
	bool loose;
	bool certain; /* at the end: the address of the last frame alone says that it is the last */
	uintptr_t saved;     /* where the frame register's value is in memory; 0: nowhere */
	uintptr_t low, high; /* [low, high): pages of the stack that can be read */
	struct gm_cfi_row row, remembered[GM_CFI_REMEMBERED];
	unsigned n_remembered;
};

/* Load libgcc. False: there is none; later steps find no frame. Not thread-safe. */
bool gm_cfi_open(void);

/* Begin with the frame of the calling function, which must not return before the last step. */
static inline __attribute__((always_inline)) void gm_cfi_here(struct gm_cfi *cfi)
{
	cfi->exact = true;
	cfi->place = cfi->saved = cfi->low = cfi->high = 0;
	cfi->certain = false;
#if defined(__x86_64__)
	__asm__ volatile("movq %%rbx, 24(%1)\n\tmovq %%rbp, 48(%1)\n\tmovq %%rsp, 56(%1)\n\t"
			 "movq %%r12, 96(%1)\n\tmovq %%r13, 104(%1)\n\t"
			 "movq %%r14, 112(%1)\n\tmovq %%r15, 120(%1)\n\tleaq 0(%%rip), %0"
			 : "=&r"(cfi->at)
			 : "r"(cfi->registers)
			 : "memory");
	cfi->known = 1u << 3 | 1u << 6 | 1u << GM_CFI_STACK | 0xfu << 12;
#else
	__asm__ volatile("stp x19, x20, [%1, #152]\n\tstp x21, x22, [%1, #168]\n\t"
			 "stp x23, x24, [%1, #184]\n\tstp x25, x26, [%1, #200]\n\t"
			 "stp x27, x28, [%1, #216]\n\tstp x29, x30, [%1, #232]\n\t"
			 "mov %0, sp\n\tstr %0, [%1, #248]\n\tadr %0, ."
			 : "=&r"(cfi->at)
			 : "r"(cfi->registers)
			 : "memory");
	cfi->known = 0xfff80000u;
#endif
}

/* Step to the caller's frame. False: this was the last one; `at` is 0, or, if no more can be found,
 * its own. No lock may be held: libgcc may call the dynamic linker. */
bool gm_cfi_up(struct gm_cfi *cfi);

/* May the page that begins here be read? By a system call; no fault. */
bool gm_cfi_page_is_readable(uintptr_t page);

#endif
