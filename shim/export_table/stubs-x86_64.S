/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions of copied tables (wrap.h), for x86-64, System V. */
#if defined __CET__ && __has_include(<cet.h>)
#include <cet.h>
#else
#define _CET_ENDBR endbr64
#endif
#include "shim/export_table/wrap.h"

	.text

/* 16 bytes each: r11 is neither an argument nor preserved. */
	.globl	gm_wrap_stubs
	.hidden	gm_wrap_stubs
	.type	gm_wrap_stubs, @function
	.p2align 4
gm_wrap_stubs:
	.cfi_startproc
	.set	stub, 0
	.rept	GM_WRAP_STUBS
	.p2align 4
	_CET_ENDBR
	movl	$stub, %r11d
	jmp	gm_wrap_call
	.set	stub, stub + 1
	.endr
	.cfi_endproc
	.size	gm_wrap_stubs, . - gm_wrap_stubs

/* Vector registers 0 to `last` to or from 64(%rsp), 64 bytes each. Upper halves are then cleared:
 * code for SSE is slow, or waits, while they are not. */
	.macro	each_vector	last, one:req
	.irp	n, 0, 1, 2, 3, 4, 5, 6, 7
	.if	\n <= \last
	\one	\n
	.endif
	.endr
	.endm
	.macro	save_sse	n
	movaps	%xmm\n, (64 + 64 * \n)(%rsp)
	.endm
	.macro	save_avx	n
	vmovaps	%ymm\n, (64 + 64 * \n)(%rsp)
	.endm
	.macro	save_avx512	n
	vmovaps	%zmm\n, (64 + 64 * \n)(%rsp)
	.endm
	.macro	load_sse	n
	movaps	(64 + 64 * \n)(%rsp), %xmm\n
	.endm
	.macro	load_avx	n
	vmovaps	(64 + 64 * \n)(%rsp), %ymm\n
	.endm
	.macro	load_avx512	n
	vmovaps	(64 + 64 * \n)(%rsp), %zmm\n
	.endm
	.macro	vectors	way, last
	cmpb	$1, gm_wrap_vectors(%rip)
	je	1f
	ja	2f
	each_vector	\last, \way\()_sse
	jmp	3f
1:	each_vector	\last, \way\()_avx
	jmp	4f
2:	each_vector	\last, \way\()_avx512
4:
	.ifc	\way, save
	vzeroupper
	.endif
3:
	.endm

/*
 *     8(%rbp)    the return address
 *     -8(%rbp)   rbx, which has the stub's slot
 *     -16(%rbp)  what gm_wrap_begin returned
 *     (%rsp)     registers: 64 bytes of general ones, then vectors
 */
	.hidden	gm_wrap_begin
	.hidden	gm_wrap_end
	.hidden	gm_wrap_peek
	.hidden	gm_wrap_slots
	.hidden	gm_wrap_vectors
	.type	gm_wrap_call, @function
	.p2align 4
gm_wrap_call:
	.cfi_startproc
	pushq	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	movq	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	pushq	%rbx
	.cfi_offset %rbx, -24
	subq	$(GM_WRAP_REGISTERS + 8), %rsp
	andq	$-64, %rsp
	movq	%rdi, 0(%rsp)
	movq	%rsi, 8(%rsp)
	movq	%rdx, 16(%rsp)
	movq	%rcx, 24(%rsp)
	movq	%r8, 32(%rsp)
	movq	%r9, 40(%rsp)
	movq	%rax, 48(%rsp)
	movq	%r10, 56(%rsp)
	leaq	gm_wrap_slots(%rip), %rbx
	shlq	$5, %r11
	addq	%r11, %rbx
	movl	$0, -16(%rbp)
	movq	%rbx, %rdi
	leaq	8(%rbp), %rsi
	call	gm_wrap_peek
	testb	%al, %al
	jz	.Lcall
	vectors	save, 7
	movq	%rbx, %rdi
	leaq	8(%rbp), %rsi
	call	gm_wrap_begin
	movl	%eax, -16(%rbp)
	vectors	load, 7
	cmpl	$1, -16(%rbp)
	ja	.Lrefused
.Lcall:
	movq	0(%rsp), %rdi
	movq	8(%rsp), %rsi
	movq	16(%rsp), %rdx
	movq	24(%rsp), %rcx
	movq	32(%rsp), %r8
	movq	40(%rsp), %r9
	movq	48(%rsp), %rax
	movq	56(%rsp), %r10
	subq	$GM_WRAP_COPIED, %rsp
	.set	at, 0
	.rept	GM_WRAP_COPIED / 8
	movq	(16 + at)(%rbp), %r11
	movq	%r11, at(%rsp)
	.set	at, at + 8
	.endr
	call	*(%rbx)
	addq	$GM_WRAP_COPIED, %rsp
	cmpl	$0, -16(%rbp)
	je	.Lreturn
	movq	%rax, 0(%rsp)
	movq	%rdx, 8(%rsp)
	vectors	save, 1
	leaq	8(%rbp), %rdi
	call	gm_wrap_end
	vectors	load, 1
	movq	0(%rsp), %rax
	movq	8(%rsp), %rdx
.Lreturn:
	movq	-8(%rbp), %rbx
	leave
	.cfi_remember_state
	.cfi_def_cfa %rsp, 8
	ret
	.cfi_restore_state
.Lrefused:
	movl	-16(%rbp), %eax
	decl	%eax
	jmp	.Lreturn
	.cfi_endproc
	.size	gm_wrap_call, . - gm_wrap_call

	.section .note.GNU-stack, "", @progbits
