/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loads and unloads of images, and look-ups of kernels in them. Each image is read once: may it
 * call malloc (image/image.h)? The answer is stored for the handles that the driver makes from the
 * image (handle.h). A context is taken over before the first module that may call malloc is loaded
 * there. A library belongs to no context: a context is taken over before the first kernel of the
 * library is used in it. Programs that load thousands of libraries use few of them, so an image
 * that stays in place is read only at the first look-up of a kernel or module in it.
 */
#include "image/image.h"
#include "image/places.h"
#include "knob/knob.h"
#include "shim/entry/object.h"
#include "shim/kernel/handle.h"
#include "shim/kernel/inkernel.h"
#include "shim/kernel/inkernel_log.h"
#include "shim/kernel/launch.h"
#include "shim/memory/retry.h"
#include "shim/sleep/refusal.h"

static struct gm_context *context_here(void)
{
	CUresult ignored;
	return gm_context_current(&gm_shim_driver, &ignored);
}

/* The architecture of the context's device, in the numbers of image.h. */
static unsigned device_architecture(const struct gm_context *context)
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

/* What was found in an image, or else a file; neither: it was not read now. */
struct judged {
	enum gm_handle_kind kind;
	const void *image;
	const char *path;
	struct gm_image_verdict verdict;
};

static struct judged judged_before(enum gm_handle_kind kind)
{
	return (struct judged){.kind = kind};
}

/* Read an image, or else a file, before it is loaded. */
static struct judged image_judge(const void *image, const char *path)
{
	struct judged j = {.kind = GM_HANDLE_UNKNOWN};
	if (!gm_inkernel_wanted() || (!image && !path))
		return j;
	unsigned arch = device_architecture(context_here());
	bool may = image ? gm_image_allocates(image, 0, arch, &j.verdict)
			 : gm_image_file_allocates(path, arch, &j.verdict);
	if (may && gm_image_uses_runtime(&j.verdict))
		gm_inkernel_want_second();
	if (may && gm_knob_get()->heap_sites.flag)
		gm_places_keep(image, path, arch);
	j.kind = may ? GM_HANDLE_ALLOCATES : GM_HANDLE_HARMLESS;
	j.image = image;
	j.path = path;
	return j;
}

/* The driver has loaded it. */
static void image_loaded(const struct judged *j)
{
	if (j->image || j->path)
		gm_inkernel_log_image(context_here(), j->image, j->path, &j->verdict);
}

static void launches_watch(enum gm_handle_kind kind)
{
	if (kind == GM_HANDLE_ALLOCATES)
		atomic_fetch_or(&gm_launch_watched, GM_LAUNCH_HEAP);
}

/* The kind of an existing handle; reads its image if it is unread. Several threads may each read
 * it: no lock can be held meanwhile, for reading may open a library, and threads in constructors of
 * libraries may wait for us. */
static enum gm_handle_kind handle_read_kind(const void *handle)
{
	const void *image;
	enum gm_handle_kind kind = gm_handle_kind(handle);
	if (kind != GM_HANDLE_UNREAD)
		return kind;
	image = gm_handle_unread(handle);
	if (!image)
		return gm_handle_kind(handle);
	const struct judged j = image_judge(image, NULL);
	image_loaded(&j);
	kind = j.kind;
	gm_handle_read(handle, image, kind);
	launches_watch(kind);
	return kind;
}

/* Before a handle of this kind is used in the current context. */
static void kind_use(enum gm_handle_kind kind)
{
	struct gm_context *context = kind == GM_HANDLE_ALLOCATES ? context_here() : NULL;
	if (context)
		gm_inkernel_use(context);
}

/* Store a new `handle` of the driver. `name`: of a kernel, or NULL if unknown. */
static void handle_given(const void *handle, enum gm_handle_kind kind, const char *name)
{
	if (kind == GM_HANDLE_UNKNOWN)
		return;
	gm_handle_remember(handle, kind);
	if (kind == GM_HANDLE_ALLOCATES && name)
		gm_handle_put_name(handle, name);
	launches_watch(kind);
}

/* A handler of a call that returns *out, a handle of the kind that `judged_` finds; `name_`: of a
 * kernel, or NULL. `before` is evaluated before the call, with `kind`. */
#define GIVES(symbol, parameters, arguments, judged_, name_, before)                              \
	GM_HANDLER(symbol, parameters, arguments, ({                                              \
			   const struct judged judged = judged_;                                  \
			   const enum gm_handle_kind kind = judged.kind;                          \
			   before;                                                                \
			   CUresult done =                                                        \
				   GM_PASS_RETRY(symbol, GM_LACK_HERE, 0, real.symbol arguments); \
			   if (done == CUDA_SUCCESS)                                              \
				   image_loaded(&judged);                                         \
			   if (done == CUDA_SUCCESS && out)                                       \
				   handle_given(*out, kind, name_);                               \
			   done;                                                                  \
		   }))

GIVES(cuModuleLoad, (CUmodule * out, const char *path), (out, path), image_judge(NULL, path), NULL,
      kind_use(kind))
GIVES(cuModuleLoadData, (CUmodule * out, const void *image), (out, image), image_judge(image, NULL),
      NULL, kind_use(kind))
GIVES(cuModuleLoadDataEx,
      (CUmodule * out, const void *image, unsigned n, CUjit_option *options, void **values),
      (out, image, n, options, values), image_judge(image, NULL), NULL, kind_use(kind))
GIVES(cuModuleLoadFatBinary, (CUmodule * out, const void *image), (out, image),
      image_judge(image, NULL), NULL, kind_use(kind))
GIVES(cuModuleGetFunction, (CUfunction * out, CUmodule module, const char *name),
      (out, module, name), judged_before(handle_read_kind(module)), name, kind_use(kind);
      gm_refusal_kernel_asked(name))

GIVES(cuLibraryLoadFromFile,
      (CUlibrary * out, const char *path, CUjit_option *options, void **values, unsigned n,
       CUlibraryOption *library_options, void **library_values, unsigned library_n),
      (out, path, options, values, n, library_options, library_values, library_n),
      image_judge(NULL, path), NULL, )
GIVES(cuLibraryGetModule, (CUmodule * out, CUlibrary library), (out, library),
      judged_before(handle_read_kind(library)), NULL, kind_use(kind))
GIVES(cuKernelGetFunction, (CUfunction * out, CUkernel kernel), (out, kernel),
      judged_before(handle_read_kind(kernel)), gm_handle_name(kernel), kind_use(kind))

/* --- unloads --- */

static void code_ends(const void *handle)
{
	if (!gm_knob_get()->heap_sites.flag)
		return;
	const enum gm_handle_kind kind = gm_handle_kind(handle);
	if (kind == GM_HANDLE_ALLOCATES || kind == GM_HANDLE_UNKNOWN)
		gm_inkernel_code_ends(context_here());
}

GM_HANDLER(cuModuleUnload, (CUmodule module), (module), ({
		   code_ends(module);
		   GM_PASS(real.cuModuleUnload(module));
	   }))
GM_HANDLER(cuLibraryUnload, (CUlibrary library), (library), ({
		   code_ends(library);
		   GM_PASS(real.cuLibraryUnload(library));
	   }))

/* --- a library with an image that stays is not read yet --- */

/* Does the image stay unchanged as long as the library? The program can promise it, or the image is
 * part of an object. Else the driver has copied the image, and the program may free it. */
static bool image_stays(const void *image, const CUlibraryOption *options, void *const *values,
			unsigned n)
{
	for (unsigned i = 0; i < n && options && values; i++)
		if (options[i] == CU_LIBRARY_BINARY_IS_PRESERVED && values[i])
			return true;
	const void *code = gm_image_code(image);
	return code && gm_object_holds(code);
}

static CUresult library_load(CUlibrary *out, const void *image, CUjit_option *options,
			     void **values, unsigned n, CUlibraryOption *library_options,
			     void **library_values, unsigned library_n)
{
	bool unread = image && gm_inkernel_wanted() &&
		      image_stays(image, library_options, library_values, library_n);
	const struct judged judged =
		unread ? judged_before(GM_HANDLE_UNREAD) : image_judge(image, NULL);
	CUresult result =
		GM_PASS_RETRY(cuLibraryLoadData, GM_LACK_HERE, 0,
			      real.cuLibraryLoadData(out, image, options, values, n,
						     library_options, library_values, library_n));
	if (result == CUDA_SUCCESS && out && unread)
		gm_handle_remember_unread(*out, image);
	else if (result == CUDA_SUCCESS && out)
		handle_given(*out, judged.kind, NULL);
	if (result == CUDA_SUCCESS)
		image_loaded(&judged);
	return result;
}

GM_HANDLER(cuLibraryLoadData,
	   (CUlibrary * out, const void *image, CUjit_option *options, void **values, unsigned n,
	    CUlibraryOption *library_options, void **library_values, unsigned library_n),
	   (out, image, options, values, n, library_options, library_values, library_n),
	   library_load(out, image, options, values, n, library_options, library_values, library_n))

/* --- kernels of a library take no memory before they are in a context --- */

static CUresult library_get_kernel(CUkernel *out, CUlibrary library, const char *name)
{
	CUresult result = GM_PASS(real.cuLibraryGetKernel(out, library, name));
	gm_refusal_kernel_asked(name);
	if (result == CUDA_SUCCESS && out)
		handle_given(*out, handle_read_kind(library), name);
	return result;
}

GM_HANDLER(cuLibraryGetKernel, (CUkernel * out, CUlibrary library, const char *name),
	   (out, library, name), library_get_kernel(out, library, name))

#define LISTS(symbol, type, from)                                                               \
	GM_HANDLER(symbol, (type * out, unsigned n, from owner), (out, n, owner), ({            \
			   CUresult done = GM_PASS(real.symbol(out, n, owner));                 \
			   for (unsigned i = 0; done == CUDA_SUCCESS && out && i < n; i++)      \
				   if (out[i]) /* there may be fewer */                         \
					   handle_given(out[i], handle_read_kind(owner), NULL); \
			   done;                                                                \
		   }))

LISTS(cuLibraryEnumerateKernels, CUkernel, CUlibrary)
LISTS(cuModuleEnumerateFunctions, CUfunction, CUmodule)
