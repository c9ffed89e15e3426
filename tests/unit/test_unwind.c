/* SPDX-License-Identifier: BSD-3-Clause */
/* The walk up the stack finds the frames that libgcc finds, at each instruction of functions of
 * several libraries. */
#include <dlfcn.h>
#include <signal.h>
#include <unwind.h>

#include "stack/cfi_value.h"
#include "stack/unwind.h"
#include "tests/tap.h"

static struct gm_unwound unwound;
static uintptr_t expected[GM_UNWIND_MOST];
static uint32_t n_expected;
static unsigned compared, wrong;
static bool traced;

static _Unwind_Reason_Code frame_visit(struct _Unwind_Context *context, void *arg)
{
	int before = 0;
	const uintptr_t at = _Unwind_GetIPInfo(context, &before);
	(void)arg;
	if (!at || n_expected == GM_UNWIND_MOST)
		return _URC_END_OF_STACK;
	expected[n_expected++] = at - !before;
	return _URC_NO_REASON;
}

/* The first frame of libgcc's walk is this function; before it ours has gm_unwind. */
static __attribute__((noinline)) void walks_compare(void)
{
	n_expected = 0;
	_Unwind_Backtrace(frame_visit, NULL);
	gm_unwind(&unwound, GM_UNWIND_MOST, (struct gm_span){0}, (struct gm_span){0});
	compared++;
	bool same = n_expected > 1 && unwound.n == n_expected + (n_expected < GM_UNWIND_MOST);
	for (uint32_t i = 1; same && i + 1 < unwound.n; i++)
		same = unwound.addresses[i + 1] == expected[i];
	wrong += !same;
}

static int element_compare(const void *a, const void *b)
{
	if (!traced)
		walks_compare();
	return *(const int *)a - *(const int *)b;
}

static void signal_handle(int number)
{
	if (!traced || number == SIGTRAP)
		walks_compare();
}

static __attribute__((noinline)) void deep(unsigned depth)
{
	if (depth)
		deep(depth - 1);
	else if (!traced)
		walks_compare();
	__asm__ volatile("" ::: "memory");
}

#if defined(__x86_64__)
/* Calls its argument. DW_CFA_offset_extended_sf: the return address is one unit below the frame. */
void offset_is_signed(void (*call)(void));
__asm__(".text\n"
	".type offset_is_signed, @function\n"
	"offset_is_signed:\n"
	"	.cfi_startproc\n"
	"	.cfi_escape 0x11, 16, 1\n"
	"	subq $8, %rsp\n"
	"	.cfi_def_cfa_offset 16\n"
	"	call *%rdi\n"
	"	addq $8, %rsp\n"
	"	.cfi_def_cfa_offset 8\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size offset_is_signed, . - offset_is_signed\n");

static void compare_untraced(void)
{
	if (!traced)
		walks_compare();
}
#endif

static void work(void)
{
	int numbers[] = {5, 3, 9, 1};
	char text[64];
	qsort(numbers, 4, sizeof *numbers, element_compare);
	raise(SIGUSR1);
	snprintf(text, sizeof text, "%s %f", "a", numbers[0] / 3.0);
	deep(100);
	deep(3);
#if defined(__x86_64__)
	offset_is_signed(compare_untraced);
#endif
	dlsym(RTLD_DEFAULT, "qsort");
}

/* Trap after each instruction of work(). */
static void test_steps(void)
{
#if defined(__x86_64__)
	compared = wrong = 0;
	traced = true;
	signal(SIGTRAP, signal_handle);
	__asm__ volatile("pushfq\n\torq $0x100, (%%rsp)\n\tpopfq" ::: "memory", "cc");
	work();
	__asm__ volatile("pushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq" ::: "memory", "cc");
	TAP_OK(compared > 1000, "%u walks were compared while each instruction trapped", compared);
	TAP_IS(wrong, 0, "the frames are libgcc's at each instruction");
#endif
}

/* DW_OP_consts A, DW_OP_consts B, OPERATION: each number is a byte, from -64 to 63. */
static void expressions_evaluate(void)
{
	static const struct {
		const char *name;
		uint8_t operation;
		int8_t a, b;
		int64_t value;
	} table[] = {
		{"and", 0x1a, 13, 7, 5},   {"minus", 0x1c, 9, 4, 5},	{"mul", 0x1e, 6, 7, 42},
		{"or", 0x21, 12, 3, 15},   {"plus", 0x22, 20, -1, 19},	{"shl", 0x24, 5, 3, 40},
		{"shr", 0x25, 40, 3, 5},   {"shra", 0x26, -40, 3, -5},	{"xor", 0x27, 6, 3, 5},
		{"eq", 0x29, 8, 8, 1},	   {"not eq", 0x29, 8, 9, 0},	{"ge", 0x2a, 5, 5, 1},
		{"not ge", 0x2a, 5, 6, 0}, {"gt", 0x2b, -5, -6, 1},	{"not gt", 0x2b, 5, 5, 0},
		{"le", 0x2c, 5, 5, 1},	   {"not le", 0x2c, -5, -6, 0}, {"lt", 0x2d, 5, 6, 1},
		{"not lt", 0x2d, 5, 5, 0}, {"ne", 0x2e, 8, 9, 1},	{"not ne", 0x2e, 8, 8, 0},
	};
	struct gm_cfi cfi = {.known = 0};
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		const uint8_t expression[] = {5,
					      0x11,
					      (uint8_t)(table[i].a & 0x7f),
					      0x11,
					      (uint8_t)(table[i].b & 0x7f),
					      table[i].operation};
		uintptr_t value = 99;
		TAP_OK(gm_cfi_evaluate(&cfi, expression, NULL, &value) &&
			       (int64_t)value == table[i].value,
		       "expression %s of two operands has value %lld", table[i].name,
		       (long long)table[i].value);
	}
}

int main(void)
{
	expressions_evaluate();
	TAP_OK(gm_cfi_open(), "libgcc's unwinder is found");
	signal(SIGUSR1, signal_handle);
	work();
	TAP_OK(compared > 5, "some walks were compared");
	TAP_IS(wrong, 0, "the frames are libgcc's, also of a signal handler");
	if (!getenv("TEST_UNDER")) /* memcheck does not stop after each instruction */
		test_steps();
	return tap_done();
}
