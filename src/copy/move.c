/* SPDX-License-Identifier: BSD-3-Clause */
#include "copy/move.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/sys.h"

#ifdef __x86_64__
#include <emmintrin.h>

#define LINE ((size_t)64)

/* pre: `to` is a multiple of LINE. */
static void lines_move(char *to, const char *from, size_t lines)
{
	for (; lines; lines--, to += LINE, from += LINE) {
		__m128i a = _mm_loadu_si128((const __m128i *)from);
		__m128i b = _mm_loadu_si128((const __m128i *)from + 1);
		__m128i c = _mm_loadu_si128((const __m128i *)from + 2);
		__m128i d = _mm_loadu_si128((const __m128i *)from + 3);
		_mm_stream_si128((__m128i *)to, a);
		_mm_stream_si128((__m128i *)to + 1, b);
		_mm_stream_si128((__m128i *)to + 2, c);
		_mm_stream_si128((__m128i *)to + 3, d);
	}
}

void gm_move_past_caches(void *to, const void *from, size_t size)
{
	size_t head = (LINE - (uintptr_t)to % LINE) % LINE;
	char *out = to;
	const char *in = from;
	if (size < head + LINE) {
		memcpy(to, from, size);
		return;
	}
	memcpy(out, in, head);
	size_t lines = (size - head) / LINE, end = head + lines * LINE;
	lines_move(out + head, in + head, lines);
	memcpy(out + end, in + end, size - end);
	_mm_sfence();
}
#else
void gm_move_past_caches(void *to, const void *from, size_t size)
{
	memcpy(to, from, size);
}
#endif

bool gm_move_must_check(void)
{
	return gm_sys_is_handled(SIGSEGV) || gm_sys_is_handled(SIGBUS);
}

/* The program's memory is the local side: only that one is accessed with the thread's own rights,
 * and without a reference to each page. */
int gm_move_checked(bool in, const struct iovec *parts, size_t n, void *own)
{
	struct iovec ours = {.iov_base = own};
	for (size_t i = 0; i < n; i++)
		ours.iov_len += parts[i].iov_len;
	long moved = syscall(in ? SYS_process_vm_writev : SYS_process_vm_readv, getpid(), parts, n,
			     &ours, 1UL, 0UL);
	if (moved < 0)
		return errno;
	return (size_t)moved == ours.iov_len ? 0 : EFAULT;
}
