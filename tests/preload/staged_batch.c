/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Batches of large copies between host memory and the device: staged_batch COMMAND. Each batch has
 * four copies: two large and one small copy of pageable memory, and one on the device.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "releases.h"

#define LARGE (9 * MIB)
#define SMALL (64 << 10)
#define ROW ((size_t)4608)
#define N 4
#define FORMS 4

/* The signatures of 12.8: cuda.h renames these calls to those of 13.0. */
CUresult lines_of_12_8(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
		       CUmemcpyAttributes *attributes, size_t *first, size_t n, size_t *failed,
		       CUstream stream) __asm__("cuMemcpyBatchAsync");
CUresult boxes_of_12_8(size_t count, CUDA_MEMCPY3D_BATCH_OP *ops, size_t *failed,
		       unsigned long long flags, CUstream stream) __asm__("cuMemcpy3DBatchAsync");

static const size_t sizes_of[N] = {LARGE, SMALL, LARGE, SMALL};
static CUcontext context;
static CUstream stream;
static CUdeviceptr device[N], other;
static unsigned char *host[N];

struct batch {
	CUdeviceptr dst[N], src[N];
	size_t sizes[N], first[2], n_attributes, failed;
	CUmemcpyAttributes attributes[2];
	unsigned flags;	    /* flags of each copy */
	CUmemLocation hint; /* for both sides of each copy */
	CUstream stream;
};

/* In words: bytes would take minutes under a sanitizer. */
static void paint(unsigned char *at, size_t n, unsigned seed)
{
	for (size_t i = 0; i < n; i += 8) {
		uint64_t word = (i + seed) * 0x9e3779b97f4a7c15u;
		memcpy(at + i, &word, sizeof word);
	}
}

static unsigned sum(const unsigned char *at, size_t n)
{
	uint64_t s = 0, word;
	for (size_t i = 0; i < n; i += 8) {
		memcpy(&word, at + i, sizeof word);
		s = (s ^ word) * 0x100000001b3u;
	}
	return (unsigned)(s >> 32);
}

static void set_up(void)
{
	MUST(cuInit(0));
	context = use_device(0);
	for (int i = 0; i < N; i++) {
		MUST(cuMemAlloc(&device[i], sizes_of[i]));
		host[i] = aligned_alloc(4096, sizes_of[i]);
		if (!host[i])
			exit(1);
	}
	MUST(cuMemAlloc(&other, SMALL));
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

/* The destinations are cleared. The last copy is on the device. */
static struct batch batch_of(bool to_device, CUmemcpySrcAccessOrder order)
{
	struct batch b = {.first = {0, 2}, .n_attributes = 2, .failed = 7, .stream = stream};
	b.attributes[0].srcAccessOrder = b.attributes[1].srcAccessOrder = order;
	MUST(cuMemsetD8(other, 5, SMALL));
	for (int i = 0; i < N; i++) {
		CUdeviceptr here = i == N - 1 ? other : (CUdeviceptr)host[i];
		b.dst[i] = to_device ? device[i] : here;
		b.src[i] = to_device ? here : device[i];
		b.sizes[i] = sizes_of[i];
		paint(host[i], sizes_of[i], to_device ? (unsigned)i + 1 : 99);
		MUST(cuMemsetD8(device[i], to_device ? 0 : (unsigned char)(i + 1), sizes_of[i]));
	}
	MUST(cuCtxSynchronize());
	return b;
}

static CUDA_MEMCPY3D_BATCH_OP box_of(const struct batch *b, int i)
{
	CUDA_MEMCPY3D_BATCH_OP op = {.srcAccessOrder = b->attributes[0].srcAccessOrder,
				     .flags = b->flags};
	op.extent = (CUextent3D){ROW, b->sizes[i] / ROW, 1};
	op.src.type = op.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
	op.src.op.ptr.ptr = b->src[i];
	op.dst.op.ptr.ptr = b->dst[i];
	op.src.op.ptr.locHint = op.dst.op.ptr.locHint = b->hint;
	return op;
}

static CUresult run(struct batch *b, unsigned form)
{
	CUDA_MEMCPY3D_BATCH_OP ops[N];
	for (int i = 0; i < N; i++)
		ops[i] = box_of(b, i);
	for (int i = 0; i < 2; i++) {
		b->attributes[i].flags = b->flags;
		b->attributes[i].srcLocHint = b->attributes[i].dstLocHint = b->hint;
	}
	switch (form) {
	case 0:
		return lines_of_12_8(b->dst, b->src, b->sizes, N, b->attributes, b->first,
				     b->n_attributes, &b->failed, b->stream);
	case 1:
		return cuMemcpyBatchAsync(b->dst, b->src, b->sizes, N, b->attributes, b->first,
					  b->n_attributes, b->stream);
	case 2:
		return boxes_of_12_8(N, ops, &b->failed, 0, b->stream);
	default:
		return cuMemcpy3DBatchAsync(N, ops, 0, b->stream);
	}
}

static void tell(const char *what, unsigned form, bool to_device, const struct batch *b,
		 CUresult result)
{
	static unsigned char got[LARGE];
	MUST(cuStreamSynchronize(stream));
	printf("%s, form %u, %s: %s, failed at %zd:", what, form,
	       to_device ? "to the device" : "back", result_name(result), (ssize_t)b->failed);
	for (int i = 0; i < N; i++) {
		if (!to_device && i < N - 1) {
			printf(" %08x", sum(host[i], sizes_of[i]));
			continue;
		}
		for (size_t at = 0; at < sizes_of[i]; at += SMALL) /* too small to be staged */
			MUST(cuMemcpyDtoH(got + at, (to_device ? device[i] : other) + at, SMALL));
		printf(" %08x", sum(got, sizes_of[i]));
	}
	printf("\n");
}

static void each(const char *what, void (*spoil)(struct batch *b, bool to_device))
{
	for (unsigned form = 0; form < FORMS; form++)
		for (int to_device = 1; to_device >= 0; to_device--) {
			struct batch b = batch_of(to_device, CU_MEMCPY_SRC_ACCESS_ORDER_ANY);
			spoil(&b, to_device);
			CUresult result = run(&b, form);
			tell(what, form, to_device, &b, result);
		}
}

/* --- commands --- */

static void orders(void)
{
	static const struct {
		const char *name;
		CUmemcpySrcAccessOrder order;
	} table[] = {
		{"stream", CU_MEMCPY_SRC_ACCESS_ORDER_STREAM},
		{"during the call", CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL},
		{"any", CU_MEMCPY_SRC_ACCESS_ORDER_ANY},
	};
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		for (unsigned form = 0; form < FORMS; form++)
			for (int to_device = 1; to_device >= 0; to_device--) {
				struct batch b = batch_of(to_device, table[i].order);
				CUresult result = run(&b, form);
				tell(table[i].name, form, to_device, &b, result);
			}
}

static CUdeviceptr *device_side(struct batch *b, bool to_device)
{
	return to_device ? b->dst : b->src;
}

static void first_bad(struct batch *b, bool to_device)
{
	device_side(b, to_device)[0] += 2048;
}

static void second_bad(struct batch *b, bool to_device)
{
	device_side(b, to_device)[1] += 2048;
}

static void third_bad(struct batch *b, bool to_device)
{
	device_side(b, to_device)[2] += 2048;
}

static void last_bad(struct batch *b, bool to_device)
{
	device_side(b, to_device)[3] += 2048;
}

static void no_order(struct batch *b, bool to_device)
{
	(void)to_device;
	b->attributes[0].srcAccessOrder = b->attributes[1].srcAccessOrder = 0;
}

static void order_unknown(struct batch *b, bool to_device)
{
	(void)to_device;
	b->attributes[1].srcAccessOrder = 4;
}

static void late_attribute(struct batch *b, bool to_device)
{
	(void)to_device;
	b->first[0] = 1;
}

static void unsorted_attributes(struct batch *b, bool to_device)
{
	(void)to_device;
	b->first[1] = 0;
}

static void attribute_beyond(struct batch *b, bool to_device)
{
	(void)to_device;
	b->first[1] = N;
}

static void an_empty_one(struct batch *b, bool to_device)
{
	(void)to_device;
	b->sizes[3] = 0;
}

static void to_null(struct batch *b, bool to_device)
{
	(void)to_device;
	b->dst[3] = 0;
}

static void wrong(void)
{
	each("the first is bad", first_bad);
	each("the second is bad", second_bad);
	each("the third is bad", third_bad);
	each("the last is bad", last_bad);
	each("no order", no_order);
	each("an unknown order", order_unknown);
	each("the first attribute is late", late_attribute);
	each("attributes are not sorted", unsorted_attributes);
	each("an attribute begins behind the last copy", attribute_beyond);
	each("the last is empty", an_empty_one);
	each("the last goes to NULL", to_null);
}

static void overlap(struct batch *b, bool to_device)
{
	(void)to_device;
	b->flags = CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE;
	b->hint = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
}

static void on_the_host(struct batch *b, bool to_device)
{
	(void)to_device;
	b->hint.type = CU_MEM_LOCATION_TYPE_HOST;
}

static void hints(void)
{
	each("on this device", overlap);
	each("on the host", on_the_host);
}

static void flags_unknown(struct batch *b, bool to_device)
{
	(void)to_device;
	b->flags = 2;
}

static void device_unknown(struct batch *b, bool to_device)
{
	(void)to_device;
	b->hint = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 99};
}

static void place_unknown(struct batch *b, bool to_device)
{
	(void)to_device;
	b->hint.type = 99;
}

/* The driver may accept or refuse these: unknown. */
static void strange(void)
{
	each("unknown flags", flags_unknown);
	each("an unknown device", device_unknown);
	each("an unknown place", place_unknown);
}

/* The stream `busy` has work before the batch in `b->stream`: a fill of the first destination. */
static void behind(const char *what, CUstream busy, CUstream mine)
{
	struct releases releases;
	struct batch b = batch_of(true, CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL);
	b.stream = mine;
	gm_sim_hold(busy);
	MUST(cuMemsetD8Async(device[0], 77, LARGE, busy));
	releases_begin(&releases, busy);
	CUresult result = run(&b, 1);
	MUST(cuStreamSynchronize(mine));
	releases_end(&releases);
	tell(what, 1, true, &b, result);
}

static void busy(void)
{
	CUstream blocking;
	MUST(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
	behind("its stream is busy", stream, stream);
	behind("the legacy stream is busy", CU_STREAM_LEGACY, blocking);
	MUST(cuStreamDestroy(blocking));
}

/* Idle streams. */
static void streams(void)
{
	CUstream blocking, own[2] = {CU_STREAM_PER_THREAD};
	MUST(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
	own[1] = blocking;
	for (int i = 0; i < 2; i++) {
		struct batch b = batch_of(true, CU_MEMCPY_SRC_ACCESS_ORDER_STREAM);
		b.stream = own[i];
		CUresult result = run(&b, 1);
		MUST(cuStreamSynchronize(own[i]));
		tell(i ? "blocking" : "the thread's", 1, true, &b, result);
	}
	MUST(cuStreamDestroy(blocking));
}

static void captures(void)
{
	static const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL,
						    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
						    CU_STREAM_CAPTURE_MODE_RELAXED};
	for (int i = 0; i < 3; i++)
		for (unsigned form = 0; form < FORMS; form++) {
			CUgraph graph = NULL;
			struct batch b = batch_of(true, CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL);
			MUST(cuStreamBeginCapture(stream, modes[i]));
			CUresult result = run(&b, form);
			SAY(cuStreamEndCapture(stream, &graph));
			tell("captured", form, true, &b, result);
			if (graph)
				MUST(cuGraphDestroy(graph));
		}
}

/* Memory known to the driver, which copies it without staging. */
static void pinned(void)
{
	for (int i = 0; i < N; i++)
		MUST(cuMemHostRegister(host[i], sizes_of[i], 0));
	orders();
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} table[] = {
		{"orders", orders},	{"wrong", wrong},   {"busy", busy},   {"streams", streams},
		{"captures", captures}, {"pinned", pinned}, {"hints", hints}, {"strange", strange},
	};
	set_up();
	for (size_t i = 0; argc > 1 && i < sizeof table / sizeof *table; i++)
		if (strcmp(table[i].name, argv[1]) == 0)
			return table[i].run(), 0;
	return 2;
}
