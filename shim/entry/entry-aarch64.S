/* SPDX-License-Identifier: BSD-3-Clause */
/* Every function that the preload exports, for AArch64; entry-x86_64.S has more comments. */
#define BTI_C hint 34

	.text

/* void *dlsym(void *handle, const char *name); x30: the return address. */
	.globl	dlsym
	.type	dlsym, %function
	.p2align 4
dlsym:
	.cfi_startproc
	BTI_C
	cbz	x1, .Lnative
	ldrb	w2, [x1]
	cmp	w2, #'c'
	b.ne	.Lnative
	ldrb	w2, [x1, #1]
	cmp	w2, #'u'
	b.ne	.Lnative
	ldrb	w2, [x1, #2]
	sub	w2, w2, #'A'
	cmp	w2, #25
	b.ls	.Lours
.Lnative:
	adrp	x16, gm_dlsym_real
	ldr	x16, [x16, #:lo12:gm_dlsym_real]
	cbz	x16, .Lfirst
	br	x16
.Lfirst:
	stp	x29, x30, [sp, #-32]!
	.cfi_def_cfa_offset 32
	.cfi_offset x29, -32
	.cfi_offset x30, -24
	stp	x0, x1, [sp, #16]
	mov	x29, sp
	bl	gm_dlsym_find
	mov	x16, x0
	ldp	x0, x1, [sp, #16]
	ldp	x29, x30, [sp], #32
	.cfi_def_cfa_offset 0
	.cfi_restore x29
	.cfi_restore x30
	br	x16
.Lours:
	mov	x2, x30
	stp	x29, x30, [sp, #-32]!
	.cfi_def_cfa_offset 32
	.cfi_offset x29, -32
	.cfi_offset x30, -24
	stp	x0, x1, [sp, #16]
	mov	x29, sp
	bl	gm_dlsym
	cbz	x1, .Lundecided
	ldp	x29, x30, [sp], #32
	.cfi_remember_state
	.cfi_def_cfa_offset 0
	.cfi_restore x29
	.cfi_restore x30
	ret
.Lundecided:
	.cfi_restore_state
	ldp	x0, x1, [sp, #16]
	ldp	x29, x30, [sp], #32
	.cfi_def_cfa_offset 0
	.cfi_restore x29
	.cfi_restore x30
	b	.Lnative
	.cfi_endproc
	.size	dlsym, . - dlsym

	.macro	entry symbol
	.globl	\symbol
	.globl	gm_entry_\symbol
	.hidden	gm_entry_\symbol
	.hidden	on_\symbol
	.type	\symbol, %function
	.type	gm_entry_\symbol, %function
	.p2align 4
\symbol:
gm_entry_\symbol:
	.cfi_startproc
	BTI_C
	adrp	x16, gm_resolve_done
	add	x16, x16, #:lo12:gm_resolve_done
	ldarb	w16, [x16]
	cbz	w16, 1f
	b	on_\symbol
1:	adrp	x16, on_\symbol
	add	x16, x16, #:lo12:on_\symbol
	b	gm_entry_first
	.cfi_endproc
	.size	\symbol, . - \symbol
	.endm

#define GM_HOOK(symbol, type, flags, help) entry symbol
#include "driver/hooks.def"
#undef GM_HOOK

	.type	gm_entry_first, %function
gm_entry_first:
	.cfi_startproc
	stp	x29, x30, [sp, #-96]!
	.cfi_def_cfa_offset 96
	.cfi_offset x29, -96
	.cfi_offset x30, -88
	stp	x0, x1, [sp, #16]
	stp	x2, x3, [sp, #32]
	stp	x4, x5, [sp, #48]
	stp	x6, x7, [sp, #64]
	str	x16, [sp, #80]
	mov	x29, sp
	bl	gm_resolve_ready
	ldr	x16, [sp, #80]
	ldp	x6, x7, [sp, #64]
	ldp	x4, x5, [sp, #48]
	ldp	x2, x3, [sp, #32]
	ldp	x0, x1, [sp, #16]
	ldp	x29, x30, [sp], #96
	.cfi_def_cfa_offset 0
	.cfi_restore x29
	.cfi_restore x30
	br	x16
	.cfi_endproc
	.size	gm_entry_first, . - gm_entry_first

	.hidden	gm_dlsym
	.hidden	gm_dlsym_find
	.hidden	gm_dlsym_real
	.hidden	gm_resolve_done
	.hidden	gm_resolve_ready
	.section .note.GNU-stack, "", %progbits

/* This object may be mapped with branch target identification. */
	.section .note.gnu.property, "a"
	.p2align 3
	.word	4, 16, 5
	.asciz	"GNU"
	.word	0xc0000000, 4, 1, 0
