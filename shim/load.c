/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Images are loaded, and kernels looked up in them. Of each image it is asked once whether it may
 * call malloc (image/image.h), and the answer is remembered of what the driver makes of it
 * (handle.h): a context is taken over before the first module that may is loaded there. A library
 * belongs to no context; one is taken over before the first of its kernels is. Who loads
 * libraries by the thousand uses few of them: where the image stays in its place, it is looked at
 * when the first of its kernels, or its module, is asked for.
 */
#include "foreign.h"
#include "handle.h"
#include "image/image.h"
#include "inkernel.h"
#include "object.h"

static struct gm_context *here(void)
{
	CUresult ignored;
	return gm_context_current(&gm_shim_driver, &ignored);
}

/* As image.h counts it: of the current context's device, if there is one. */
static unsigned architecture(const struct gm_context *context)
{
	int major = 0, minor = 0;
	if (!context)
		return GM_IMAGE_ANY;
	gm_shim_driver.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
					    context->device);
	gm_shim_driver.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
					    context->device);
	return (unsigned)(10 * major + minor);
}

/* What is about to be loaded: an image, or else a file. */
static enum gm_handle_kind judge(const void *image, const char *path)
{
	struct gm_image_verdict verdict;
	if (!gm_inkernel_wanted() || (!image && !path))
		return GM_HANDLE_UNKNOWN;
	unsigned arch = architecture(here());
	bool may = image ? gm_image_allocates(image, 0, arch, &verdict)
			 : gm_image_file_allocates(path, arch, &verdict);
	gm_inkernel_log_image(here(), image, path, &verdict);
	return may ? GM_HANDLE_ALLOCATES : GM_HANDLE_HARMLESS;
}

static void watch(enum gm_handle_kind kind)
{
	if (kind == GM_HANDLE_ALLOCATES)
		atomic_fetch_or(&gm_launch_watched, GM_LAUNCH_HEAP);
}

/* Of what the driver handed out before. Threads that ask for what is unread at the same time may
 * each look: a lock could not be held, for that may open a library, and others wait for it in
 * constructors of theirs. */
static enum gm_handle_kind kind_of(const void *handle)
{
	const void *image;
	enum gm_handle_kind kind = gm_handle_kind(handle);
	if (kind != GM_HANDLE_UNREAD)
		return kind;
	image = gm_handle_unread(handle);
	if (!image)
		return gm_handle_kind(handle);
	kind = judge(image, NULL);
	gm_handle_read(handle, image, kind);
	watch(kind);
	return kind;
}

/* It is about to be used in the current context. */
static void use(enum gm_handle_kind kind)
{
	struct gm_context *context = kind == GM_HANDLE_ALLOCATES ? here() : NULL;
	if (context)
		gm_inkernel_use(context);
}

/* The driver has handed `handle` out. */
static void note(const void *handle, enum gm_handle_kind kind)
{
	if (kind == GM_HANDLE_UNKNOWN)
		return;
	gm_handle_note(handle, kind);
	watch(kind);
}

/* A handler of a call that makes *out of something whose kind is `what`. `before`: it comes into
 * the current context with that. */
#define GIVES(symbol, parameters, arguments, what, before)        \
	CUresult on_##symbol parameters                           \
	{                                                         \
		if (!gm_shim_enter())                             \
			return real.symbol arguments;             \
		enum gm_handle_kind kind = what;                  \
		before;                                           \
		CUresult result = GM_PASS(real.symbol arguments); \
		if (gm_retry(result))                             \
			result = GM_PASS(real.symbol arguments);  \
		if (result == CUDA_SUCCESS && out)                \
			note(*out, kind);                         \
		gm_shim_leave();                                  \
		return result;                                    \
	}

GIVES(cuModuleLoad, (CUmodule * out, const char *path), (out, path), judge(NULL, path), use(kind))
GIVES(cuModuleLoadData, (CUmodule * out, const void *image), (out, image), judge(image, NULL),
      use(kind))
GIVES(cuModuleLoadDataEx,
      (CUmodule * out, const void *image, unsigned n, CUjit_option *options, void **values),
      (out, image, n, options, values), judge(image, NULL), use(kind))
GIVES(cuModuleLoadFatBinary, (CUmodule * out, const void *image), (out, image), judge(image, NULL),
      use(kind))
GIVES(cuModuleGetFunction, (CUfunction * out, CUmodule module, const char *name),
      (out, module, name), kind_of(module), use(kind))

GIVES(cuLibraryLoadFromFile,
      (CUlibrary * out, const char *path, CUjit_option *options, void **values, unsigned n,
       CUlibraryOption *library_options, void **library_values, unsigned library_n),
      (out, path, options, values, n, library_options, library_values, library_n),
      judge(NULL, path), )
GIVES(cuLibraryGetModule, (CUmodule * out, CUlibrary library), (out, library), kind_of(library),
      use(kind))
GIVES(cuKernelGetFunction, (CUfunction * out, CUkernel kernel), (out, kernel), kind_of(kernel),
      use(kind))

/* --- a library whose image stays may be left unread --- */

/* Will the bytes of the image be there, and the same, as long as the library? The program says so,
 * or they are part of an object; else the driver has copied them, and they may go at once. */
static bool stays(const void *image, const CUlibraryOption *options, void *const *values,
		  unsigned n)
{
	for (unsigned i = 0; i < n && options && values; i++)
		if (options[i] == CU_LIBRARY_BINARY_IS_PRESERVED && values[i])
			return true;
	const void *code = gm_image_code(image);
	return code && gm_object_holds(code);
}

CUresult on_cuLibraryLoadData(CUlibrary *out, const void *image, CUjit_option *options,
			      void **values, unsigned n, CUlibraryOption *library_options,
			      void **library_values, unsigned library_n)
{
#define ARGUMENTS out, image, options, values, n, library_options, library_values, library_n
	if (!gm_shim_enter())
		return real.cuLibraryLoadData(ARGUMENTS);
	bool later = image && gm_inkernel_wanted() &&
		     stays(image, library_options, library_values, library_n);
	enum gm_handle_kind kind = later ? GM_HANDLE_UNREAD : judge(image, NULL);
	CUresult result = GM_PASS(real.cuLibraryLoadData(ARGUMENTS));
	if (gm_retry(result))
		result = GM_PASS(real.cuLibraryLoadData(ARGUMENTS));
	if (result == CUDA_SUCCESS && out && later)
		gm_handle_note_unread(*out, image);
	else if (result == CUDA_SUCCESS && out)
		note(*out, kind);
	gm_shim_leave();
	return result;
#undef ARGUMENTS
}

/* --- kernels of a library take no memory before they are in a context --- */

CUresult on_cuLibraryGetKernel(CUkernel *out, CUlibrary library, const char *name)
{
	if (!gm_shim_enter())
		return real.cuLibraryGetKernel(out, library, name);
	CUresult result = GM_PASS(real.cuLibraryGetKernel(out, library, name));
	if (result == CUDA_SUCCESS && out)
		note(*out, kind_of(library));
	gm_shim_leave();
	return result;
}

#define LISTS(symbol, type, from)                                                 \
	CUresult on_##symbol(type *out, unsigned n, from owner)                   \
	{                                                                         \
		if (!gm_shim_enter())                                             \
			return real.symbol(out, n, owner);                        \
		CUresult result = GM_PASS(real.symbol(out, n, owner));            \
		for (unsigned i = 0; result == CUDA_SUCCESS && out && i < n; i++) \
			if (out[i]) /* there may be fewer */                      \
				note(out[i], kind_of(owner));                     \
		gm_shim_leave();                                                  \
		return result;                                                    \
	}

LISTS(cuLibraryEnumerateKernels, CUkernel, CUlibrary)
LISTS(cuModuleEnumerateFunctions, CUfunction, CUmodule)
