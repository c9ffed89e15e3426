/* SPDX-License-Identifier: BSD-3-Clause */
/* The handles of modules and kernels (shim/kernel/handle.c): many of them, names, unread images. */
#include "../../shim/kernel/handle.h"

#include "../tap.h"

#define MANY 5000u

static const void *handle_of(size_t i)
{
	return (const void *)(uintptr_t)(0x7f0000001000 + i * 64);
}

static enum gm_handle_kind kind_of(size_t i)
{
	return i % 2 ? GM_HANDLE_ALLOCATES : GM_HANDLE_HARMLESS;
}

static size_t tables;

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);

void *__wrap_calloc(size_t n, size_t size)
{
	void *memory = __real_calloc(n, size);
	if (n * size >= 1024) {
		tables++;
	}
	return memory;
}

static void many(void)
{
	size_t wrong = 0;
	for (size_t i = 0; i < MANY; i++)
		gm_handle_remember(handle_of(i), kind_of(i));
	for (size_t i = 0; i < MANY; i++)
		wrong += gm_handle_kind(handle_of(i)) != kind_of(i);
	TAP_IS(wrong, 0, "each of %u handles is known", MANY);
	TAP_IS(gm_handle_kind(handle_of(MANY)), GM_HANDLE_UNKNOWN, "another handle is unknown");
	TAP_IS(tables, 5, "a table for 512 handles was doubled until it had room for them");
	tables = 0;
	for (size_t i = 0; i < MANY; i++)
		gm_handle_remember(handle_of(i), kind_of(i + 1));
	TAP_IS(gm_handle_kind(handle_of(1)), kind_of(2),
	       "a handle that comes again is the new one");
	TAP_IS(tables, 0, "a reused handle takes no further table");
}

static void names(void)
{
	char text[] = "kernel";
	gm_handle_put_name(handle_of(1), text);
	text[0] = 'x';
	TAP_STR(gm_handle_name(handle_of(1)), "kernel", "a name is kept");
	TAP_OK(!gm_handle_name(handle_of(2)), "a kernel without one has none");
	gm_handle_put_name(handle_of(2), "kernel");
	TAP_PTR(gm_handle_name(handle_of(2)), gm_handle_name(handle_of(1)),
		"equal names are stored once");
}

static void unread(void)
{
	static const char image[] = "image", other[] = "other";
	const void *handle = handle_of(MANY + 1);
	gm_handle_remember_unread(handle, image);
	TAP_PTR(gm_handle_unread(handle), image, "the image of an unread handle");
	gm_handle_read(handle, other, GM_HANDLE_ALLOCATES);
	TAP_PTR(gm_handle_unread(handle), image, "the image stays when another one is read");
	gm_handle_read(handle, image, GM_HANDLE_ALLOCATES);
	TAP_IS(gm_handle_kind(handle), GM_HANDLE_ALLOCATES,
	       "the read of its own image sets the kind");
	TAP_OK(!gm_handle_unread(handle), "a read image is not read again");
}

int main(void)
{
	TAP_IS(gm_handle_kind(handle_of(0)), GM_HANDLE_UNKNOWN, "no handle is known");
	TAP_OK(!gm_handle_name(handle_of(0)) && !gm_handle_unread(handle_of(0)),
	       "the name and image of an unknown handle are unknown");
	many();
	names();
	unread();
	gm_handle_forget_all();
	TAP_IS(gm_handle_kind(handle_of(1)), GM_HANDLE_UNKNOWN, "all handles are forgotten");
	return tap_done();
}
