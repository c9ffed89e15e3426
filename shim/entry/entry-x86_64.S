/* SPDX-License-Identifier: BSD-3-Clause */
/* Every function that the preload exports, for x86-64. */
#if defined __CET__ && __has_include(<cet.h>)
#include <cet.h>
#else
#define _CET_ENDBR endbr64
#endif

	.text

/*
 * void *dlsym(void *handle, const char *name). glibc takes the return address as the caller's, and
 * RTLD_NEXT starts at the caller's object. So a name that is not cu[A-Z]* is passed on by a jump,
 * and so is a request that gm_dlsym leaves undecided.
 */
	.globl	dlsym
	.type	dlsym, @function
	.p2align 4
dlsym:
	.cfi_startproc
	_CET_ENDBR
	testq	%rsi, %rsi
	jz	.Lnative
	cmpb	$'c', (%rsi)
	jne	.Lnative
	cmpb	$'u', 1(%rsi)
	jne	.Lnative
	movzbl	2(%rsi), %eax
	subl	$'A', %eax
	cmpl	$25, %eax
	jbe	.Lours
.Lnative:
	movq	gm_dlsym_real(%rip), %rax
	testq	%rax, %rax
	jz	.Lfirst
	jmp	*%rax
.Lfirst:
	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	pushq	%rsi
	.cfi_adjust_cfa_offset 8
	subq	$8, %rsp
	.cfi_adjust_cfa_offset 8
	call	gm_dlsym_find
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	popq	%rsi
	.cfi_adjust_cfa_offset -8
	popq	%rdi
	.cfi_adjust_cfa_offset -8
	jmp	*%rax
.Lours:
	movq	(%rsp), %rdx
	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	pushq	%rsi
	.cfi_adjust_cfa_offset 8
	subq	$8, %rsp
	.cfi_adjust_cfa_offset 8
	call	gm_dlsym
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	popq	%rsi
	.cfi_adjust_cfa_offset -8
	popq	%rdi
	.cfi_adjust_cfa_offset -8
	testq	%rdx, %rdx
	jz	.Lnative
	ret
	.cfi_endproc
	.size	dlsym, . - dlsym

/*
 * A hooked call: a jump to on_<symbol>. If the driver was not found yet, search it first: a program
 * linked with libcuda gets here without any look-up. No hooked call has floating-point arguments.
 */
	.macro	entry symbol
	.globl	\symbol
	.globl	gm_entry_\symbol
	.hidden	gm_entry_\symbol
	.hidden	on_\symbol
	.type	\symbol, @function
	.type	gm_entry_\symbol, @function
	.p2align 4
\symbol:
gm_entry_\symbol:
	.cfi_startproc
	_CET_ENDBR
	cmpb	$0, gm_resolve_done(%rip)
	je	1f
	jmp	on_\symbol
1:	leaq	on_\symbol(%rip), %rax
	jmp	gm_entry_first
	.cfi_endproc
	.size	\symbol, . - \symbol
	.endm

#define GM_HOOK(symbol, type, flags, help) entry symbol
#include "driver/hooks.def"
#undef GM_HOOK

	.type	gm_entry_first, @function
gm_entry_first:
	.cfi_startproc
	.irp	register, rax, rdi, rsi, rdx, rcx, r8, r9
	pushq	%\register
	.cfi_adjust_cfa_offset 8
	.endr
	call	gm_resolve_ready
	.irp	register, r9, r8, rcx, rdx, rsi, rdi, rax
	popq	%\register
	.cfi_adjust_cfa_offset -8
	.endr
	jmp	*%rax
	.cfi_endproc
	.size	gm_entry_first, . - gm_entry_first

	.hidden	gm_dlsym
	.hidden	gm_dlsym_find
	.hidden	gm_dlsym_real
	.hidden	gm_resolve_done
	.hidden	gm_resolve_ready
	.section .note.GNU-stack, "", @progbits
