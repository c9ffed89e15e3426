/* SPDX-License-Identifier: BSD-3-Clause */
/* The words of mklog about PyTorch: its tensors, and stacks like its own. This program has
 * functions with the names of PyTorch 2.11, so that addr2line finds them in it. */
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "log/count.h"
#include "mklog.h"

/* --- tensors --- */

enum { TENSORS = 64 };
static struct gm_record tensors[TENSORS];
static unsigned n_tensors;

static void tensor_count(unsigned device, uint64_t more)
{
	const uint64_t bytes = gm_counter_get(device, GM_C_tensor_bytes) + more;
	gm_counter_set(device, GM_C_tensor_bytes, bytes);
	gm_counter_raise(device, GM_C_tensor_peak, bytes);
}

void do_tensor(const uint64_t v[WORDS])
{
	struct gm_record *tensor = &tensors[n_tensors++ % TENSORS];
	*tensor = (struct gm_record){.address = address_take(512 * n_tensors),
				     .size = v[1],
				     .held = v[1],
				     .id = n_tensors,
				     .stack = stack_now,
				     .device = (uint8_t)v[0],
				     .kind = GM_RECORD_TENSOR};
	gm_counter_add((unsigned)v[0], GM_C_tensor_calls, 1);
	tensor_count((unsigned)v[0], v[1]);
	put(*tensor);
}

void do_back(const uint64_t v[WORDS])
{
	struct gm_record tensor = tensors[(v[0] - 1) % TENSORS];
	tensor.stack = 0;
	tensor.kind = GM_RECORD_TENSOR_FREE;
	gm_counter_add(tensor.device, GM_C_tensor_frees, 1);
	tensor_count(tensor.device, -tensor.size);
	put(tensor);
}

void do_refuse(const uint64_t v[WORDS])
{
	const struct gm_record record = {.size = v[1],
					 .held = v[2],
					 .id = gm_counter_get((unsigned)v[0], GM_C_tensor_bytes),
					 .stack = stack_now,
					 .device = (uint8_t)v[0],
					 .kind = GM_RECORD_TENSOR_REFUSED};
	put(record);
}

/* --- stacks --- */

/* NAME(word, name of C++) */
#define NAMES(NAME)                                                                             \
	NAME(found, "_ZN3c104cuda20CUDACachingAllocator6Native22DeviceCachingAllocator17alloc_" \
		    "found_blockEv")                                                            \
	NAME(cache,                                                                             \
	     "_ZN3c104cuda20CUDACachingAllocator6Native22NativeCachingAllocator8allocateEm")    \
	NAME(empty, "_ZN2at6detail10empty_cudaEv")                                              \
	NAME(out, "_ZN2at12_GLOBAL__N_110create_outEv")                                         \
	NAME(addmm_cuda, "_ZN2at12_GLOBAL__N_118wrapper_CUDA_addmmERKi")                        \
	NAME(addmm_again, "_ZN2at4_ops5addmm10redispatchEii")                                   \
	NAME(addmm_grad, "_ZN5torch8autograd12VariableType12_GLOBAL__N_15addmmEii")             \
	NAME(addmm, "_ZN2at4_ops5addmm4callEii")                                                \
	NAME(native_linear, "_ZN2at6native6linearEii")                                          \
	NAME(linear, "_ZN2at4_ops6linear4callEii")                                              \
	NAME(python_linear, "_ZN5torch8autogradL18THPVariable_linearEP7_object")                \
	NAME(mm, "_ZN2at4_ops2mm4callEii")                                                      \
	NAME(add_tensor, "_ZN2at4_ops11add__Tensor4callEii")                                    \
	NAME(addmm_back, "_ZN5torch8autograd9generated14AddmmBackward05applyEv")                \
	NAME(mm_back, "_ZN5torch8autograd9generated11MmBackward05applyEv")                      \
	NAME(accumulate, "_ZN5torch8autograd14AccumulateGrad5applyEv")                          \
	NAME(softmax_back, "_ZN5torch8autograd9generated19LogSoftmaxBackward05applyEv")         \
	NAME(node, "_ZN5torch8autograd4NodeclEv")                                               \
	NAME(engine, "_ZN5torch8autograd6Engine11thread_mainEv")                                \
	NAME(thread, "execute_native_thread_routine")

enum name {
#define NAME(word, name) N_##word,
	NAMES(NAME)
#undef NAME
};

/* Without a body of their own the compiler would make them one function. */
#define NAME(word, name)                                              \
	void torch_##word(volatile int *at) __asm__(name);            \
	__attribute__((noinline)) void torch_##word(volatile int *at) \
	{                                                             \
		*at = N_##word;                                       \
	}
NAMES(NAME)
#undef NAME

static void (*const functions[])(volatile int *at) = {
#define NAME(word, name) torch_##word,
	NAMES(NAME)
#undef NAME
};

enum { OBJECT = 2, PYTHON = 100, FORWARD = 200, END = 255 };

/* The stacks from TORCH_STACKS on: functions; PYTHON + line; FORWARD + stack - TORCH_STACKS. */
static const unsigned char stacks[][16] = {
	/* 300: a layer */
	{N_found, N_cache, N_empty, N_out, N_addmm_cuda, N_addmm_again, N_addmm_grad, N_addmm,
	 N_native_linear, N_linear, N_python_linear, PYTHON + 34, PYTHON + 0, PYTHON + 55, END},
	/* 301: its backward pass */
	{N_found, N_cache, N_empty, N_mm, N_addmm_back, N_node, N_engine, N_thread, FORWARD + 0,
	 END},
	/* 302: the backward pass of that */
	{N_found, N_cache, N_mm, N_mm_back, N_node, N_engine, N_thread, FORWARD + 1, END},
	/* 303: the forward call is not in the log */
	{N_cache, N_softmax_back, N_node, N_engine, FORWARD + 50, END},
	/* 304: nothing to act on */
	{N_found, N_cache, N_thread, END},
	/* 305: a damaged log's circle */
	{N_cache, N_mm, FORWARD + 5, END},
	/* 306: gradients, without a forward call */
	{N_cache, N_add_tensor, N_accumulate, N_node, N_engine, N_thread, END},
	/* 307: another line */
	{N_found, N_cache, N_empty, N_mm, PYTHON + 12, END},
};

static int base_find(struct dl_phdr_info *info, size_t size, void *base)
{
	(void)size;
	*(uint64_t *)base = info->dlpi_addr; /* the program is the first object */
	return 1;
}

static int id_find(struct dl_phdr_info *info, size_t size, void *out)
{
	struct gm_record *object = ((void **)out)[0];
	(void)size;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		const char *at = (const char *)(info->dlpi_addr + part->p_vaddr);
		const char *end = at + part->p_memsz;
		while (part->p_type == PT_NOTE && at + sizeof(ElfW(Nhdr)) < end) {
			const ElfW(Nhdr) *note = (const void *)at;
			const char *body = at + sizeof *note + ((note->n_namesz + 3) & ~3u);
			if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4) {
				object->held = note->n_descsz;
				((void **)out)[1] = (void *)(uintptr_t)body;
				return 1;
			}
			at = body + ((note->n_descsz + 3) & ~3u);
		}
	}
	return 1;
}

static void program_put(void)
{
	char path[4096] = "";
	struct gm_record object = {
		.address = 0x7000, .size = 0x1000, .id = OBJECT, .kind = GM_RECORD_OBJECT};
	void *out[2] = {&object, ""};
	const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
	path[n > 0 ? n : 0] = '\0';
	object.string = gm_log_string(path);
	dl_iterate_phdr(id_find, out);
	gm_log_put_body(&object, out[1], object.held);
}

static struct gm_frame frame_of(unsigned code)
{
	uint64_t base = 0;
	if (code >= FORWARD)
		return (struct gm_frame){GM_FRAME_FORWARD, 0, TORCH_STACKS + code - FORWARD};
	if (code == PYTHON)
		return python_frame("/opt/lib/torch/nn/modules/module.py", "Module._call_impl",
				    1790);
	if (code >= PYTHON)
		return python_frame("/home/me/project/model.py",
				    code == PYTHON + 55 ? "train" : "Block.forward", code - PYTHON);
	dl_iterate_phdr(base_find, &base);
	return (struct gm_frame){OBJECT, 0, (uint64_t)(uintptr_t)functions[code] - base};
}

static void one_put(unsigned number)
{
	struct gm_frame frames[16];
	struct gm_record record = {.id = number, .kind = GM_RECORD_STACK};
	const unsigned char *codes = stacks[number - TORCH_STACKS];
	while (codes[record.size] != END) {
		frames[record.size] = frame_of(codes[record.size]);
		record.size++;
	}
	gm_log_put_body(&record, frames, record.size * sizeof *frames);
}

/* A stack and, as gpumem does, before it that of its forward call. */
void torch_stack_put(unsigned number)
{
	static bool begun;
	if (!begun)
		program_put();
	begun = true;
	if (number == 301 || number == 302)
		one_put(300);
	if (number == 302)
		one_put(301);
	one_put(number);
}
