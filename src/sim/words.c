/* SPDX-License-Identifier: BSD-3-Clause */
/* Words of memory that a stream writes, or waits for. A wait reads its word whenever streams run:
 * at each submission and release. */
#include "sim/copy.h"
#include "sim/internal.h"

struct word {
	void *at;
	uint64_t value;
	unsigned bytes, flags;
};

static uint64_t word_read(const struct word *w)
{
	return w->bytes == 4 ? __atomic_load_n((uint32_t *)w->at, __ATOMIC_ACQUIRE)
			     : __atomic_load_n((uint64_t *)w->at, __ATOMIC_ACQUIRE);
}

static void word_run(void *data)
{
	const struct word *w = data;
	if (w->bytes == 4)
		__atomic_store_n((uint32_t *)w->at, (uint32_t)w->value, __ATOMIC_RELEASE);
	else
		__atomic_store_n((uint64_t *)w->at, w->value, __ATOMIC_RELEASE);
}

static bool word_is_ready(const void *data)
{
	const struct word *w = data;
	uint64_t now = word_read(w);
	uint64_t half = (uint64_t)1 << (8 * w->bytes - 1), mask = half | (half - 1);
	switch (w->flags) {
	case CU_STREAM_WAIT_VALUE_GEQ:
		return ((now - w->value) & mask) < half;
	case CU_STREAM_WAIT_VALUE_EQ:
		return now == w->value;
	case CU_STREAM_WAIT_VALUE_AND:
		return (now & w->value) != 0;
	default:
		return (~(now | w->value) & mask) != 0;
	}
}

static void word_waited(void *data)
{
	(void)data;
}

static CUresult word_submit(CUstream stream, struct word w, bool waits)
{
	struct sim_stream *s;
	struct sim_reach reach;
	struct sim_end end = {SIM_END_DEVICE, w.at, 0, 0, NULL};
	CUresult result = sim_stream_of(stream, &s);
	if (result == CUDA_SUCCESS && ((uintptr_t)w.at % w.bytes || w.flags > (waits ? 3 : 1)))
		result = CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		result = sim_check_end(&end, w.bytes, 1, 1, &reach);
	if (result != CUDA_SUCCESS)
		return result;
	struct sim_work *work = sim_work_make(waits ? word_waited : word_run, NULL, sizeof w);
	if (!work)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*(struct word *)work->data = w;
	if (waits)
		work->is_ready = word_is_ready;
	return sim_enqueue(s, work);
}

#define WORDS(bits)                                                                             \
	CUresult sim_cuStreamWriteValue##bits##_v2(CUstream stream, CUdeviceptr at,             \
						   cuuint##bits##_t value, unsigned flags)      \
	{                                                                                       \
		return word_submit(stream, (struct word){(void *)at, value, (bits) / 8, flags}, \
				   false);                                                      \
	}                                                                                       \
	CUresult sim_cuStreamWaitValue##bits##_v2(CUstream stream, CUdeviceptr at,              \
						  cuuint##bits##_t value, unsigned flags)       \
	{                                                                                       \
		return word_submit(stream, (struct word){(void *)at, value, (bits) / 8, flags}, \
				   true);                                                       \
	}                                                                                       \
	CUresult sim_cuStreamWriteValue##bits(CUstream stream, CUdeviceptr at,                  \
					      cuuint##bits##_t value, unsigned flags)           \
	{                                                                                       \
		return sim_cuStreamWriteValue##bits##_v2(stream, at, value, flags);             \
	}                                                                                       \
	CUresult sim_cuStreamWaitValue##bits(CUstream stream, CUdeviceptr at,                   \
					     cuuint##bits##_t value, unsigned flags)            \
	{                                                                                       \
		return sim_cuStreamWaitValue##bits##_v2(stream, at, value, flags);              \
	}
WORDS(32)
WORDS(64)

static CUresult op_submit(CUstream stream, const CUstreamBatchMemOpParams *p)
{
	bool wide = p->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ||
		    p->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
	switch (p->operation) {
	case CU_STREAM_MEM_OP_WAIT_VALUE_32:
	case CU_STREAM_MEM_OP_WAIT_VALUE_64:
		return word_submit(stream,
				   (struct word){(void *)p->waitValue.address,
						 wide ? p->waitValue.value64 : p->waitValue.value,
						 wide ? 8 : 4, p->waitValue.flags},
				   true);
	case CU_STREAM_MEM_OP_WRITE_VALUE_32:
	case CU_STREAM_MEM_OP_WRITE_VALUE_64:
		return word_submit(stream,
				   (struct word){(void *)p->writeValue.address,
						 wide ? p->writeValue.value64 : p->writeValue.value,
						 wide ? 8 : 4, p->writeValue.flags},
				   false);
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}

CUresult sim_cuStreamBatchMemOp_v2(CUstream stream, unsigned n, CUstreamBatchMemOpParams *list,
				   unsigned flags)
{
	CUresult result = list && n && n <= 256 && !flags ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < n && result == CUDA_SUCCESS; i++)
		result = op_submit(stream, &list[i]);
	return result;
}

CUresult sim_cuStreamBatchMemOp(CUstream stream, unsigned n, CUstreamBatchMemOpParams *list,
				unsigned flags)
{
	return sim_cuStreamBatchMemOp_v2(stream, n, list, flags);
}
