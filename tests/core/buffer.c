/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Growable buffers of gpumem.h on the simulated pair, whose device memory the host can read. Alone
 * and preloaded it must print the same. Usage: buffer CASE.
 */
#include "../preload/program.h"

#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../preload/steer.h"
#include "api/gpumem.h"

static struct gpumem_buffer *make(enum gpumem_memory memory, size_t most)
{
	struct gpumem_buffer *b = NULL;
	int result = gpumem_buffer_create(0, memory, most, &b);
	if (result != 0) {
		printf("made: %d\n", result);
		exit(1);
	}
	return b;
}

static void yes(const char *what, bool is)
{
	printf("%s: %s\n", what, is ? "yes" : "no");
}

static void show(const char *when, const struct gpumem_buffer *b)
{
	printf("%s: size %zu, capacity %zu MiB\n", when, gpumem_buffer_size(b),
	       gpumem_buffer_capacity(b) / MIB);
}

static CUstream held_stream(void)
{
	CUstream stream;
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	gm_sim_hold(stream);
	return stream;
}

static unsigned checksum(const unsigned char *bytes, size_t n)
{
	unsigned sum = 0;
	for (size_t i = 0; i < n; i++)
		sum = sum * 31 + bytes[i];
	return sum;
}

/* --- growth --- */

static struct {
	const unsigned char *bytes;
	unsigned sum;
} reader;

/* A kernel that reads the contents of the buffer at its launch. */
static void read_bytes(void *unused)
{
	(void)unused;
	reader.sum = checksum(reader.bytes, 2 * MIB);
}

static void grow_memory(enum gpumem_memory memory)
{
	struct gpumem_buffer *b = make(memory, 256 * MIB);
	unsigned char *data = gpumem_buffer_data(b);
	show("empty", b);
	printf("resized: %d\n", gpumem_buffer_resize(b, 2 * MIB));
	for (size_t i = 0; i < 2 * MIB; i++)
		data[i] = (unsigned char)(i * 7);
	unsigned sum = checksum(data, 2 * MIB);
	CUstream stream = held_stream();
	reader.bytes = data;
	MUST(gm_sim_launch(stream, read_bytes, NULL));
	unsigned copies = gm_sim_calls("cuMemcpyAsync"), made = gm_sim_calls("cuMemCreate"),
		 waits = gm_sim_calls("cuEventSynchronize");
	for (size_t size = 3; size <= 200; size *= 2)
		if (gpumem_buffer_resize(b, size * MIB + 1) != 0)
			printf("no %zu MiB\n", size);
	show("grown while a kernel waits", b);
	data[192 * MIB] = 1; /* mapped */
	printf("copies %u, new parts %u, waits %u\n", gm_sim_calls("cuMemcpyAsync") - copies,
	       gm_sim_calls("cuMemCreate") - made, gm_sim_calls("cuEventSynchronize") - waits);
	gm_sim_release(stream, -1u);
	yes("same address", gpumem_buffer_data(b) == data);
	yes("the kernel read its bytes", reader.sum == sum && checksum(data, 2 * MIB) == sum);
	printf("reserved: %d", gpumem_buffer_reserve(b, 1));
	printf(", %d", gpumem_buffer_reserve(b, 256 * MIB));
	printf(", %d\n", gpumem_buffer_reserve(b, 256 * MIB + 1));
	show("reserved", b);
	printf("smaller: %d\n", gpumem_buffer_resize(b, 10));
	show("smaller", b);
	printf("destroyed: %d\n", gpumem_buffer_destroy(b));
}

static void grow(void)
{
	grow_memory(GPUMEM_MEMORY_DEVICE);
}

static void host(void)
{
	grow_memory(GPUMEM_MEMORY_HOST);
}

/* An eighth at a time, as long as enough memory is free. */
static void step(void)
{
	struct gpumem_buffer *b = make(GPUMEM_MEMORY_DEVICE, 0);
	void *other = gpumem_cupy_malloc(NULL, 6 * MIB, 0);
	gpumem_buffer_reserve(b, 160 * MIB);
	gpumem_buffer_resize(b, 160 * MIB + 1);
	show("an eighth more", b);
	gpumem_buffer_resize(b, 225 * MIB);
	show("more than an eighth", b);
	gpumem_buffer_resize(b, 240 * MIB);
	show("less than an eighth is there", b);
	gpumem_buffer_destroy(b);
	gpumem_cupy_free(NULL, other, 0);
}

/* --- content --- */

static unsigned random_next(unsigned *state)
{
	*state = *state * 1664525 + 1013904223;
	return *state >> 8;
}

static bool is_same(const struct gpumem_buffer *b, const unsigned char *model, size_t size)
{
	return gpumem_buffer_size(b) == size && memcmp(gpumem_buffer_data(b), model, size) == 0;
}

/* Random operations, repeated on plain memory. */
static void edit(enum gpumem_memory memory, size_t longest, size_t room, unsigned turns)
{
	struct gpumem_buffer *b = make(memory, room);
	unsigned char *model = malloc(room), *piece = malloc(longest);
	unsigned state = 7, wrong = 0;
	size_t size = 0;
	for (unsigned i = 0; i < turns && model && piece; i++) {
		size_t n = random_next(&state) % longest,
		       at = size ? random_next(&state) % size : 0;
		unsigned kind = random_next(&state) % 4;
		memset(piece, (int)i, longest);
		if (kind == 3) {
			n = n < size - at ? n : size - at;
			wrong += gpumem_buffer_erase(b, at, n, NULL) != 0;
			memmove(model + at, model + at + n, size - at - n);
			size -= n;
		} else if (size + n <= room) {
			at = kind ? at : size;
			wrong += (kind ? gpumem_buffer_insert(b, at, piece, n, NULL)
				       : gpumem_buffer_append(b, piece, n, NULL)) != 0;
			memmove(model + at + n, model + at, size - at);
			memcpy(model + at, piece, n);
			size += n;
		}
		wrong += !is_same(b, model, size);
	}
	printf("%u wrong; destroyed: %d\n", wrong, gpumem_buffer_destroy(b));
	free(model);
	free(piece);
}

static void content(void)
{
	edit(GPUMEM_MEMORY_DEVICE, 3 * MIB, 12 * MIB, 60);
	edit(GPUMEM_MEMORY_DEVICE, 1000, 12 * MIB, 400);
	edit(GPUMEM_MEMORY_HOST, 3 * MIB, 12 * MIB, 60);
}

/* A tail moves by few copies, whatever the length of the insertion. */
static void tail(void)
{
	struct gpumem_buffer *b = make(GPUMEM_MEMORY_DEVICE, 256 * MIB);
	unsigned char byte = 9, *data = gpumem_buffer_data(b);
	gpumem_buffer_resize(b, 64 * MIB);
	for (size_t i = 0; i < 64 * MIB; i++)
		data[i] = (unsigned char)(i >> 9);
	unsigned copies = gm_sim_calls("cuMemcpyAsync");
	printf("inserted: %d\n", gpumem_buffer_insert(b, 1, &byte, 1, NULL));
	printf("copies: %u\n", gm_sim_calls("cuMemcpyAsync") - copies);
	unsigned wrong = data[1] != 9;
	for (size_t i = 1; i < 64 * MIB; i++)
		wrong += data[i + 1] != (unsigned char)(i >> 9);
	printf("erased: %d\n", gpumem_buffer_erase(b, 0, 2, NULL));
	for (size_t i = 1; i < 64 * MIB; i++)
		wrong += data[i - 1] != (unsigned char)(i >> 9);
	printf("%u bytes wrong\n", wrong);
	gpumem_buffer_destroy(b);
	/* Without free addresses for the move, by steps of the insertion's length. */
	b = make(GPUMEM_MEMORY_DEVICE, 2 * MIB);
	data = gpumem_buffer_data(b);
	gpumem_buffer_resize(b, 2 * MIB - 64 * 1024);
	memset(data, 1, 2 * MIB - 64 * 1024);
	printf("inserted: %d\n", gpumem_buffer_insert(b, 0, NULL, 64 * 1024, NULL));
	yes("moved", checksum(data + 2 * MIB - 100, 100) == checksum(data + 64 * 1024, 100));
	gpumem_buffer_destroy(b);
}

/* --- release --- */

static void *shrink_on_thread(void *b)
{
	printf("shrunk: %d\n", gpumem_buffer_shrink(b));
	return NULL;
}

static void *destroy_on_thread(void *b)
{
	printf("destroyed: %d\n", gpumem_buffer_destroy(b));
	return NULL;
}

/* A kernel still uses the bytes; only a wait keeps them. */
static void destroy(void)
{
	struct gpumem_buffer *b = make(GPUMEM_MEMORY_DEVICE, 0);
	pthread_t thread;
	gpumem_buffer_resize(b, 2 * MIB);
	memset(gpumem_buffer_data(b), 3, 2 * MIB);
	CUstream stream = held_stream();
	reader.bytes = gpumem_buffer_data(b);
	unsigned sum = checksum(reader.bytes, 2 * MIB);
	MUST(gm_sim_launch(stream, read_bytes, NULL));
	pthread_create(&thread, NULL, destroy_on_thread, b);
	while (gm_sim_waiters() == 0)
		sched_yield();
	gm_sim_release(stream, -1u);
	pthread_join(thread, NULL);
	yes("the kernel read its bytes", reader.sum == sum);
}

static size_t mapped(void)
{
	struct gpumem_stats s = {.size = sizeof s};
	gpumem_trim();
	gpumem_stats(0, &s);
	return s.mapped;
}

static void nothing(void *unused)
{
	(void)unused;
}

static void shrink(void)
{
	struct gpumem_buffer *b = make(GPUMEM_MEMORY_DEVICE, 0);
	pthread_t thread;
	for (size_t size = 8; size <= 64; size += 8)
		gpumem_buffer_reserve(b, size * MIB);
	gpumem_buffer_resize(b, 20 * MIB);
	CUstream stream = held_stream();
	MUST(gm_sim_launch(stream, nothing, NULL));
	pthread_create(&thread, NULL, shrink_on_thread, b);
	while (gm_sim_waiters() == 0)
		sched_yield();
	show("while a kernel runs", b);
	gm_sim_release(stream, -1u);
	pthread_join(thread, NULL);
	show("after", b);
	printf("again: %d\n", gpumem_buffer_shrink(b));
	memset(gpumem_buffer_data(b), 1, 20 * MIB);
	gpumem_buffer_resize(b, 0);
	printf("to nothing: %d\n", gpumem_buffer_shrink(b));
	show("to nothing", b);
	printf("destroyed: %d; the pool keeps %zu bytes\n", gpumem_buffer_destroy(b), mapped());
}

static void capture(void)
{
	struct gpumem_buffer *b = make(GPUMEM_MEMORY_DEVICE, 0);
	CUstream stream;
	CUgraph graph;
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	gpumem_buffer_resize(b, 4 * MIB);
	MUST(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	printf("grown in a capture: %d\n", gpumem_buffer_resize(b, 9 * MIB));
	printf("ended: %s\n", result_name(cuStreamEndCapture(stream, &graph)));
	printf("destroyed: %d\n", gpumem_buffer_destroy(b));
}

/* --- failures --- */

static void fault(enum gpumem_memory memory, const char *call, CUresult code)
{
	struct gpumem_buffer *b = make(memory, 64 * MIB);
	gpumem_buffer_resize(b, 2 * MIB);
	memset(gpumem_buffer_data(b), 5, 2 * MIB);
	gm_sim_fail(call, 0, 0);
	gm_sim_fail(call, 1, code);
	int result = gpumem_buffer_reserve(b, 8 * MIB);
	gm_sim_fail(call, 0, 0);
	printf("%s: %d, size %zu, capacity %zu MiB", call, result, gpumem_buffer_size(b) / MIB,
	       gpumem_buffer_capacity(b) / MIB);
	printf("; again: %d; %s", gpumem_buffer_reserve(b, 8 * MIB),
	       ((char *)gpumem_buffer_data(b))[2 * MIB - 1] == 5 ? "its bytes are there\n"
								 : "lost\n");
	memset(gpumem_buffer_data(b), 6, 8 * MIB);
	if (gpumem_buffer_destroy(b) != 0)
		printf("not destroyed\n");
}

static void faults(void)
{
	static const char *const calls[] = {"cuMemCreate", "cuMemMap", "cuMemSetAccess"};
	for (int memory = 0; memory < 2; memory++)
		for (int i = 0; i < 3; i++)
			fault((enum gpumem_memory)memory, calls[i], CUDA_ERROR_NOT_PERMITTED);
	struct gpumem_buffer *b = NULL;
	gm_sim_fail("cuMemAddressReserve", 1, CUDA_ERROR_OUT_OF_MEMORY);
	printf("no addresses: %d", gpumem_buffer_create(0, GPUMEM_MEMORY_HOST, MIB, &b));
	printf(", %d\n", b == NULL);
	b = make(GPUMEM_MEMORY_DEVICE, 64 * MIB);
	gpumem_buffer_resize(b, 4 * MIB);
	gm_sim_fail("cuMemcpyAsync", 1, CUDA_ERROR_INVALID_VALUE);
	int result = gpumem_buffer_insert(b, 0, NULL, 2 * MIB, NULL);
	printf("a copy fails: %d, size %zu\n", result, gpumem_buffer_size(b) / MIB);
	gm_sim_fail("cuMemUnmap", 1, CUDA_ERROR_UNKNOWN);
	result = gpumem_buffer_destroy(b);
	printf("the driver keeps it: %d, %zu MiB\n", result, gpumem_buffer_capacity(b) / MIB);
	printf("destroyed: %d\n", gpumem_buffer_destroy(b));
}

/* Kept memory is available to the buffer, too. */
static void lack(void)
{
	struct gpumem_buffer *b = make(GPUMEM_MEMORY_DEVICE, 0);
	CUstream stream;
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	void *kept = gpumem_cupy_malloc(stream, 24 * MIB, 0);
	gpumem_cupy_free(stream, kept, 0);
	printf("all but a little: %d\n", gpumem_buffer_resize(b, 250 * MIB));
	show("that", b);
	printf("more than there is: %d\n", gpumem_buffer_resize(b, 257 * MIB));
	show("still", b);
	printf("destroyed: %d\n", gpumem_buffer_destroy(b));
}

static void wrong(void)
{
	struct gpumem_buffer *b = NULL;
	printf("no place: %d\n", gpumem_buffer_create(0, GPUMEM_MEMORY_DEVICE, 1, NULL));
	printf("no device: %d\n", gpumem_buffer_create(77, GPUMEM_MEMORY_DEVICE, 1, &b));
	printf("no such memory: %d, %d\n", gpumem_buffer_create(0, (enum gpumem_memory)2, 1, &b),
	       b == NULL);
	printf("no buffer: %d %d %d %d %zu\n", gpumem_buffer_destroy(NULL),
	       gpumem_buffer_reserve(NULL, 1), gpumem_buffer_append(NULL, NULL, 1, NULL),
	       gpumem_buffer_shrink(NULL), gpumem_buffer_size(NULL));
	printf("too much: %d\n", gpumem_buffer_create(0, GPUMEM_MEMORY_DEVICE, SIZE_MAX, &b));
	b = make(GPUMEM_MEMORY_DEVICE, 4 * MIB);
	gpumem_buffer_resize(b, 100);
	printf("behind the end: %d %d %d\n", gpumem_buffer_insert(b, 101, NULL, 1, NULL),
	       gpumem_buffer_erase(b, 101, 0, NULL), gpumem_buffer_erase(b, 99, 2, NULL));
	printf("overflow: %d %d\n", gpumem_buffer_append(b, NULL, SIZE_MAX, NULL),
	       gpumem_buffer_resize(b, SIZE_MAX));
	show("as it was", b);
	gpumem_buffer_destroy(b);
}

static void forked(void)
{
	struct gpumem_buffer *b = make(GPUMEM_MEMORY_DEVICE, 0);
	int status = -1;
	gpumem_buffer_resize(b, MIB);
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		printf("child: %d %d %d, destroyed: ", gpumem_buffer_resize(b, 4 * MIB),
		       gpumem_buffer_erase(b, 0, 1, NULL), gpumem_buffer_shrink(b));
		printf("%d\n", gpumem_buffer_destroy(b));
		exit(0);
	}
	waitpid(child, &status, 0);
	printf("child: status %d\n", status);
	printf("parent: %d", gpumem_buffer_resize(b, 4 * MIB));
	printf(", destroyed: %d\n", gpumem_buffer_destroy(b));
}

static void reset(void)
{
	struct gpumem_buffer *b = make(GPUMEM_MEMORY_DEVICE, 0);
	gpumem_buffer_resize(b, 4 * MIB);
	MUST(cuDevicePrimaryCtxReset(0));
	printf("after a reset: %d, destroyed: ", gpumem_buffer_resize(b, 9 * MIB));
	printf("%d\n", gpumem_buffer_destroy(b));
}

static void left(void)
{
	struct gpumem_buffer *b[2] = {make(GPUMEM_MEMORY_DEVICE, 0), make(GPUMEM_MEMORY_HOST, 0)};
	for (int i = 0; i < 2; i++)
		for (size_t size = 1; size <= 64; size *= 2)
			gpumem_buffer_append(b[i], NULL, size * MIB, NULL);
	int first = gpumem_buffer_destroy(b[0]), second = gpumem_buffer_destroy(b[1]);
	printf("destroyed: %d %d\n", first, second);
	gpumem_trim();
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {{"grow", grow},	   {"host", host},	{"step", step},
		     {"content", content}, {"tail", tail},	{"shrink", shrink},
		     {"faults", faults},   {"lack", lack},	{"capture", capture},
		     {"wrong", wrong},	   {"fork", forked},	{"reset", reset},
		     {"left", left},	   {"destroy", destroy}};
	MUST(cuInit(0));
	use_device(0);
	for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof *cases; i++)
		if (strcmp(argv[1], cases[i].name) == 0)
			return cases[i].run(), 0;
	return 2;
}
