/* SPDX-License-Identifier: BSD-3-Clause */
#include "stack/cfi.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/debug.h"
#include "base/thread.h"
#include "stack/cfi_value.h"

enum { PAGE = 4096 };

/* gm_cfi_row.how */
enum { SAME, UNDEFINED, OFFSET, VALUE_OFFSET, REGISTER, EXPRESSION, VALUE_EXPRESSION };

/* As libgcc declares them, in a header that is not installed. */
struct bases {
	void *text, *data, *function;
};
struct fde {
	uint32_t length;
	int32_t to_cie;
	uint8_t rest[];
};
static const struct fde *(*fde_find)(void *address, struct bases *out);

bool gm_cfi_open(void)
{
	if (fde_find)
		return true;
	gm_thread_hold_cancel();
	void *library = dlopen("libgcc_s.so.1", RTLD_LAZY | RTLD_LOCAL);
	if (library)
		*(void **)&fde_find = dlsym(library, "_Unwind_Find_FDE");
	if (!fde_find)
		dlerror();
	gm_thread_let_cancel();
	return fde_find != NULL;
}

/* --- memory of the stack --- */

/* A wait for a word that has another value returns at once; and after no time if it has this one.
 * Filters of system calls that refuse process_vm_readv let this one pass. */
bool gm_cfi_page_is_readable(uintptr_t page)
{
	static const struct timespec none;
	return syscall(SYS_futex, page, FUTEX_WAIT_PRIVATE, 0x5bd1e995, &none, NULL, 0) == 0 ||
	       errno != EFAULT;
}

static bool page_check(struct gm_cfi *cfi, uintptr_t page)
{
	if (page >= cfi->low && page < cfi->high)
		return true;
	if (!gm_cfi_page_is_readable(page))
		return false;
	if (page == cfi->high)
		cfi->high += PAGE;
	else if (page + PAGE == cfi->low)
		cfi->low = page;
	else
		cfi->low = page, cfi->high = page + PAGE;
	return true;
}

GM_EARLY bool gm_cfi_read(struct gm_cfi *cfi, uintptr_t place, uintptr_t *out)
{
	const uintptr_t first = place & ~(uintptr_t)(PAGE - 1);
	const uintptr_t last = (place + sizeof *out - 1) & ~(uintptr_t)(PAGE - 1);
	if (!page_check(cfi, first) || (last != first && !page_check(cfi, last)))
		return false;
	*out = *(const volatile uintptr_t *)place;
	return true;
}

/* --- instructions --- */

/* DWARF 5, section 7.24; the last three are of GNU and of AArch64. */
enum {
	DW_CFA_nop = 0x00,
	DW_CFA_advance_loc1 = 0x02,
	DW_CFA_advance_loc4 = 0x04,
	DW_CFA_offset_extended = 0x05,
	DW_CFA_restore_extended = 0x06,
	DW_CFA_undefined = 0x07,
	DW_CFA_same_value = 0x08,
	DW_CFA_register = 0x09,
	DW_CFA_remember_state = 0x0a,
	DW_CFA_restore_state = 0x0b,
	DW_CFA_def_cfa = 0x0c,
	DW_CFA_def_cfa_register = 0x0d,
	DW_CFA_def_cfa_offset = 0x0e,
	DW_CFA_def_cfa_expression = 0x0f,
	DW_CFA_expression = 0x10,
	DW_CFA_offset_extended_sf = 0x11,
	DW_CFA_def_cfa_sf = 0x12,
	DW_CFA_def_cfa_offset_sf = 0x13,
	DW_CFA_val_offset = 0x14,
	DW_CFA_val_offset_sf = 0x15,
	DW_CFA_val_expression = 0x16,
	DW_CFA_AARCH64_negate_ra_state_with_pc = 0x2c,
	DW_CFA_AARCH64_negate_ra_state = 0x2d,
	DW_CFA_GNU_args_size = 0x2e,
	DW_CFA_advance_loc = 0x40,
	DW_CFA_offset = 0x80,
	DW_CFA_restore = 0xc0,
};

/* What a function's information has beside instructions. */
struct function {
	uint64_t code_unit;
	int64_t data_unit;
	uint64_t return_column;
	const uint8_t *common, *common_end, *own, *own_end; /* instructions */
	bool is_signal;
};

static void rule_set(struct gm_cfi_row *row, uint64_t column, uint8_t how, int64_t value)
{
	if (column >= GM_CFI_REGISTERS)
		return; /* a vector register, say */
	row->how[column] = how;
	row->value[column] = value;
	row->ruled = (row->ruled & ~(1u << column)) | (uint32_t)(how != SAME) << column;
}

static void block_skip(const uint8_t **at)
{
	const uint64_t length = gm_cfi_uleb_take(at);
	*at += length;
}

/* Instructions for the canonical frame address; false: another one. */
static bool cfa_instruction(struct gm_cfi_row *row, const struct function *f, uint8_t instruction,
			    const uint8_t **at)
{
	switch (instruction) {
	case DW_CFA_def_cfa:
	case DW_CFA_def_cfa_sf:
	case DW_CFA_def_cfa_register:
		row->cfa_register = (uint32_t)gm_cfi_uleb_take(at);
		row->cfa_expression = NULL;
		if (instruction != DW_CFA_def_cfa_register)
			row->cfa_offset = instruction == DW_CFA_def_cfa_sf
						  ? gm_cfi_sleb_take(at) * f->data_unit
						  : (int64_t)gm_cfi_uleb_take(at);
		return true;
	case DW_CFA_def_cfa_offset:
		row->cfa_offset = (int64_t)gm_cfi_uleb_take(at);
		return true;
	case DW_CFA_def_cfa_offset_sf:
		row->cfa_offset = gm_cfi_sleb_take(at) * f->data_unit;
		return true;
	case DW_CFA_def_cfa_expression:
		row->cfa_expression = *at;
		block_skip(at);
		return true;
	default:
		return false;
	}
}

/* Instructions for a register; false: another one. */
static bool register_instruction(struct gm_cfi_row *row, const struct function *f,
				 uint8_t instruction, const uint8_t **at)
{
	static const uint8_t hows[] = {
		[DW_CFA_offset_extended] = OFFSET,     [DW_CFA_restore_extended] = SAME,
		[DW_CFA_undefined] = UNDEFINED,	       [DW_CFA_same_value] = SAME,
		[DW_CFA_register] = REGISTER,	       [DW_CFA_expression] = EXPRESSION,
		[DW_CFA_offset_extended_sf] = OFFSET,  [DW_CFA_val_offset] = VALUE_OFFSET,
		[DW_CFA_val_offset_sf] = VALUE_OFFSET, [DW_CFA_val_expression] = VALUE_EXPRESSION};
	int64_t value = 0;
	if (instruction < DW_CFA_offset_extended || instruction > DW_CFA_val_expression ||
	    instruction == DW_CFA_remember_state || instruction == DW_CFA_restore_state)
		return false;
	const uint64_t column = gm_cfi_uleb_take(at);
	switch (instruction) {
	case DW_CFA_offset_extended:
	case DW_CFA_val_offset:
		value = (int64_t)gm_cfi_uleb_take(at) * f->data_unit;
		break;
	case DW_CFA_offset_extended_sf:
	case DW_CFA_val_offset_sf:
		value = gm_cfi_sleb_take(at) * f->data_unit;
		break;
	case DW_CFA_register:
		value = (int64_t)gm_cfi_uleb_take(at);
		break;
	case DW_CFA_expression:
	case DW_CFA_val_expression:
		value = (int64_t)(uintptr_t)*at;
		block_skip(at);
		break;
	default:
		break;
	}
	rule_set(row, column, hows[instruction], value);
	return true;
}

static bool other_instruction(struct gm_cfi *cfi, uint8_t instruction, const uint8_t **at)
{
	switch (instruction) {
	case DW_CFA_nop:
		return true;
	case DW_CFA_remember_state:
		if (cfi->n_remembered == GM_CFI_REMEMBERED)
			return false;
		cfi->remembered[cfi->n_remembered++] = cfi->row;
		return true;
	case DW_CFA_restore_state:
		if (!cfi->n_remembered)
			return false;
		cfi->row = cfi->remembered[--cfi->n_remembered];
		return true;
	case DW_CFA_AARCH64_negate_ra_state_with_pc:
	case DW_CFA_AARCH64_negate_ra_state:
		cfi->row.is_signed = !cfi->row.is_signed;
		return true;
	case DW_CFA_GNU_args_size:
		gm_cfi_uleb_take(at);
		return true;
	default:
		return false;
	}
}

/* Follow instructions up to those for `address`. False: an unknown instruction. */
static bool instructions_follow(struct gm_cfi *cfi, const struct function *f, const uint8_t *at,
				const uint8_t *end, uintptr_t location, uintptr_t address)
{
	while (at < end && location <= address) {
		const uint8_t instruction = *at++, low = instruction & 0x3f;
		switch (instruction & 0xc0) {
		case DW_CFA_advance_loc:
			location += low * f->code_unit;
			continue;
		case DW_CFA_offset:
			rule_set(&cfi->row, low, OFFSET,
				 (int64_t)gm_cfi_uleb_take(&at) * f->data_unit);
			continue;
		case DW_CFA_restore: /* the rule of the CIE, which has none for such registers */
			rule_set(&cfi->row, low, SAME, 0);
			continue;
		default:
			break;
		}
		if (instruction >= DW_CFA_advance_loc1 && instruction <= DW_CFA_advance_loc4)
			location += gm_cfi_bytes_take(&at, 1u << (instruction - 2)) * f->code_unit;
		else if (!cfa_instruction(&cfi->row, f, instruction, &at) &&
			 !register_instruction(&cfi->row, f, instruction, &at) &&
			 !other_instruction(cfi, instruction, &at))
			return false;
	}
	return true;
}

/* --- the information of a function --- */

/* Bytes of a pointer with this encoding; 0: another one. */
static unsigned pointer_size(uint8_t encoding)
{
	static const uint8_t sizes[8] = {sizeof(void *), 0, 2, 4, 8};
	return encoding == 0x50 ? 0 : sizes[encoding & 7];
}

/* Read the augmentation "z..."; false: one that is not known. *encoding: of the function's
 * addresses. */
static bool augmentation_read(const char *letters, const uint8_t *at, uint8_t *encoding,
			      bool *is_signal)
{
	for (letters++; *letters; letters++) {
		uint8_t personality;
		switch (*letters) {
		case 'R':
			*encoding = *at++;
			break;
		case 'L':
			at++;
			break;
		case 'P':
			personality = *at++;
			if (!pointer_size(personality))
				return false;
			at += pointer_size(personality);
			break;
		case 'S':
			*is_signal = true;
			break;
		case 'B':
		case 'G':
			break;
		default:
			return false;
		}
	}
	return true;
}

static bool function_read(const struct fde *fde, struct function *out)
{
	const uint8_t *cie = (const uint8_t *)((uintptr_t)&fde->to_cie - (uintptr_t)fde->to_cie);
	const uint8_t *at = cie + 8;
	uint8_t encoding = 0;
	uint32_t length;
	memcpy(&length, cie, sizeof length);
	const uint8_t version = *at++;
	const char *letters = (const char *)at;
	at += strlen(letters) + 1;
	if ((*letters && *letters != 'z') || version > 4)
		return false;
	at += version == 4 ? 2 : 0;
	out->code_unit = gm_cfi_uleb_take(&at);
	out->data_unit = gm_cfi_sleb_take(&at);
	out->return_column = version == 1 ? *at++ : gm_cfi_uleb_take(&at);
	out->is_signal = false;
	out->common_end = cie + sizeof length + length;
	if (*letters) {
		const uint64_t n = gm_cfi_uleb_take(&at);
		if (!augmentation_read(letters, at, &encoding, &out->is_signal))
			return false;
		at += n;
	}
	out->common = at;
	at = fde->rest + (size_t)2 * pointer_size(encoding);
	if (*letters)
		block_skip(&at);
	out->own = at;
	out->own_end = (const uint8_t *)&fde->to_cie + fde->length;
	return pointer_size(encoding) && out->return_column < GM_CFI_REGISTERS;
}

/* --- a step --- */

static bool cfa_find(struct gm_cfi *cfi, uintptr_t *out)
{
	const struct gm_cfi_row *row = &cfi->row;
	if (row->cfa_expression)
		return gm_cfi_evaluate(cfi, row->cfa_expression, NULL, out);
	if (row->cfa_register >= GM_CFI_REGISTERS || !(cfi->known >> row->cfa_register & 1))
		return false;
	*out = cfi->registers[row->cfa_register] + (uintptr_t)row->cfa_offset;
	return true;
}

/* How the canonical frame address was found: gm_cfi.link. */
static void cfa_trace(struct gm_cfi *cfi)
{
	const struct gm_cfi_row *row = &cfi->row;
	const bool by_frame = !row->cfa_expression && row->cfa_register == GM_CFI_FRAME;
	const bool by_stack = !row->cfa_expression && row->cfa_register == GM_CFI_STACK;
	cfi->link = by_frame ? cfi->saved : 0;
	cfi->base = cfi->registers[GM_CFI_FRAME];
	cfi->loose = !by_stack && !cfi->link;
}

/* The caller's value of a register. *place: where it is in memory. False: unreadable memory. */
static bool register_find(struct gm_cfi *cfi, unsigned column, uintptr_t cfa, uintptr_t *place)
{
	const int64_t value = cfi->row.value[column];
	const uint8_t *expression = (const uint8_t *)(uintptr_t)value;
	uintptr_t *out = &cfi->caller[column];
	*place = 0;
	switch (cfi->row.how[column]) {
	case OFFSET:
		*place = cfa + (uintptr_t)value;
		break;
	case VALUE_OFFSET:
		*out = cfa + (uintptr_t)value;
		return true;
	case REGISTER:
		*out = value < GM_CFI_REGISTERS ? cfi->registers[value] : 0;
		return value < GM_CFI_REGISTERS && (cfi->known >> value & 1);
	case EXPRESSION:
		if (!gm_cfi_evaluate(cfi, expression, &cfa, place))
			return false;
		break;
	case VALUE_EXPRESSION:
		return gm_cfi_evaluate(cfi, expression, &cfa, out);
	default:
		return false;
	}
	return gm_cfi_read(cfi, *place, out);
}

/* Without the bits that sign it. */
static uintptr_t return_strip(uintptr_t address, bool is_signed)
{
#if defined(__aarch64__)
	if (is_signed) {
		register uintptr_t x30 __asm__("x30") = address;
		__asm__("hint #7" : "+r"(x30)); /* xpaclri */
		return x30;
	}
#endif
	(void)is_signed;
	return address;
}

static bool caller_find(struct gm_cfi *cfi, const struct function *f)
{
	uintptr_t cfa, place = 0, saved = cfi->saved;
	uint32_t known = cfi->known | cfi->row.ruled | 1u << GM_CFI_STACK;
	if (!cfa_find(cfi, &cfa))
		return false;
	cfa_trace(cfi);
	cfi->place = 0;
	for (uint32_t rest = cfi->row.ruled; rest; rest &= rest - 1) {
		const unsigned column = (unsigned)__builtin_ctz(rest);
		if (cfi->row.how[column] == UNDEFINED)
			known &= ~(1u << column);
		else if (!register_find(cfi, column, cfa, &place))
			return false;
		if (column == f->return_column)
			cfi->place = place;
		if (column == GM_CFI_FRAME)
			saved = cfi->row.how[column] == UNDEFINED ? 0 : place;
	}
	for (uint32_t rest = cfi->row.ruled; rest; rest &= rest - 1)
		cfi->registers[__builtin_ctz(rest)] = cfi->caller[__builtin_ctz(rest)];
	if (!(cfi->row.ruled >> GM_CFI_STACK & 1))
		cfi->registers[GM_CFI_STACK] = cfa;
	cfi->known = known;
	cfi->saved = saved;
	cfi->certain = cfi->row.how[f->return_column] == UNDEFINED &&
		       (cfi->row.ruled >> f->return_column & 1);
	cfi->exact = f->is_signal;
	cfi->at = known >> f->return_column & 1
			  ? return_strip(cfi->registers[f->return_column], cfi->row.is_signed)
			  : 0;
	return true;
}

/* The end of a signal handler, where its maker gave it no information: the kernel's on AArch64, a
 * program's own on x86-64. The registers that the signal interrupted are on the stack. */
static bool trampoline_leave(struct gm_cfi *cfi)
{
#if defined(__x86_64__)
	static const uint8_t code[16] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
	static const uint8_t from[GM_CFI_REGISTERS] = {
		REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8,
		REG_R9,	 REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
	const size_t code_size = 9, context = offsetof(ucontext_t, uc_mcontext.gregs);
#else
	static const uint8_t code[16] = {0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4};
	static const uint8_t from[GM_CFI_REGISTERS] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
						       11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
						       22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
	const size_t code_size = 8,
		     context = sizeof(siginfo_t) + offsetof(ucontext_t, uc_mcontext.regs);
#endif
	const uintptr_t stack = cfi->registers[GM_CFI_STACK];
	uintptr_t words[2] = {0};
	for (size_t i = 0; i * sizeof *words < code_size; i++)
		if (!gm_cfi_read(cfi, cfi->at + i * sizeof *words, &words[i]))
			return false;
	if (memcmp(words, code, code_size) != 0)
		return false;
	for (unsigned i = 0; i < GM_CFI_REGISTERS; i++)
		if (!gm_cfi_read(cfi, stack + context + from[i] * sizeof *words, &cfi->caller[i]))
			return false;
#if defined(__x86_64__)
	cfi->at = cfi->caller[GM_CFI_RETURN];
#else
	if (!gm_cfi_read(cfi, stack + context + GM_CFI_REGISTERS * sizeof *words, &cfi->at))
		return false;
#endif
	memcpy(cfi->registers, cfi->caller, sizeof cfi->registers);
	cfi->known = (uint32_t)(((uint64_t)1 << GM_CFI_REGISTERS) - 1);
	cfi->exact = true;
	cfi->place = 0;
	return true;
}

bool gm_cfi_up(struct gm_cfi *cfi)
{
	const uintptr_t address = cfi->at - (!cfi->exact && cfi->at);
	struct bases bases;
	struct function f;
	if (!fde_find || !address)
		return false;
	const struct fde *fde = fde_find((void *)address, &bases);
	cfi->certain = false;
	if (!fde) {
		if (trampoline_leave(cfi))
			return cfi->at;
		cfi->certain = !cfi->exact;
		return false;
	}
	const uintptr_t location = (uintptr_t)bases.function;
	cfi->row.ruled = 0;
	cfi->row.cfa_expression = NULL;
	cfi->row.cfa_register = GM_CFI_REGISTERS;
	cfi->row.is_signed = false;
	cfi->n_remembered = 0;
	return function_read(fde, &f) &&
	       instructions_follow(cfi, &f, f.common, f.common_end, location, address) &&
	       instructions_follow(cfi, &f, f.own, f.own_end, location, address) &&
	       caller_find(cfi, &f) && cfi->at;
}
