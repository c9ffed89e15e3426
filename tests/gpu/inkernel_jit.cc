/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Images that call malloc and are compiled at run time: PTX and code by NVRTC; code that nvJitLink
 * or the driver's linker links from relocatable objects and PTX; PTX text in a library.
 * Usage: inkernel_jit FOLDER nvrtc|nvjitlink|driver
 * Exit status 77: the library is missing here.
 */
#include "inkernel_load.h"

#include <dlfcn.h>

/* A library of NVIDIA's, found by its name in any of its versions. */
struct Tool {
	void *library = NULL;

	explicit Tool(const std::string &name)
	{
		for (const char *version : {".13", ".12"})
			if (!library)
				library = dlopen((name + version).c_str(), RTLD_NOW);
		if (!library) {
			printf("no %s here\n", name.c_str());
			exit(77);
		}
	}
	template <typename Function> Function *call(const std::string &name)
	{
		void *at = dlsym(library, name.c_str());
		if (!at) {
			printf("no %s\n", name.c_str());
			exit(1);
		}
		return (Function *)at;
	}
};

static std::string architecture(const char *prefix)
{
	int major, minor;
	MUST(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
	MUST(cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0));
	return prefix + std::to_string(10 * major + minor);
}

/* Loads the image as a module and as a library, and exchanges blocks with a module of nvcc's, both
 * ways. */
static void use(const std::string &what, const void *image)
{
	CUmodule module, of_library, compiled = from_data("plain.cubin");
	CUlibrary library;
	MUST(cuModuleLoadData(&module, image));
	exchange(what, module, module);
	MUST(cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
	MUST(cuLibraryGetModule(&of_library, library));
	exchange(what + ", a library", of_library, module);
	exchange(what + " to nvcc's", module, compiled);
	exchange("nvcc's to " + what, compiled, module);
	MUST(cuLibraryUnload(library));
	MUST(cuModuleUnload(module));
	MUST(cuModuleUnload(compiled));
}

/* --- NVRTC --- */

typedef struct program *Program;
typedef int Create(Program *, const char *, const char *, int, const char *const *,
		   const char *const *);
typedef int Compile(Program, int, const char *const *);
typedef int Size(Program, size_t *);
typedef int Result(Program, char *);

static void nvrtc()
{
	Tool tool("libnvrtc.so");
	std::string source = contents("inkernel_module.cu").data();
	source = source.substr(source.find("extern")); /* compile without headers */
	for (std::string form : {"PTX", "CUBIN"}) {
		Program program;
		size_t n = 0;
		std::string target = architecture(form == "PTX" ? "-arch=compute_" : "-arch=sm_");
		const char *options[] = {target.c_str()};
		MUST(tool.call<Create>("nvrtcCreateProgram")(&program, source.c_str(), "module.cu",
							     0, NULL, NULL));
		MUST(tool.call<Compile>("nvrtcCompileProgram")(program, 1, options));
		MUST(tool.call<Size>("nvrtcGet" + form + "Size")(program, &n));
		std::vector<char> image(n);
		MUST(tool.call<Result>("nvrtcGet" + form)(program, image.data()));
		use("NVRTC's " + form, image.data());
	}
}

/* --- linkers --- */

typedef struct linker *Linker;
enum { LINK_CUBIN = 1, LINK_PTX = 2 }; /* values of nvJitLinkInputType */
typedef int LinkCreate(Linker *, uint32_t, const char **);
typedef int LinkAdd(Linker, int, const void *, size_t, const char *);
typedef int LinkComplete(Linker);
typedef int LinkSize(Linker, size_t *);
typedef int LinkResult(Linker, void *);

static void nvjitlink()
{
	Tool tool("libnvJitLink.so");
	static const struct {
		const char *what, *file;
		int type;
	} inputs[] = {{"nvJitLink of an object", "rdc.o", LINK_CUBIN},
		      {"nvJitLink of PTX", "text.ptx", LINK_PTX}};
	for (const auto &input : inputs) {
		Linker linker;
		size_t n = 0;
		std::string target = architecture("-arch=sm_");
		const char *options[] = {target.c_str()};
		std::vector<char> data = contents(input.file);
		MUST(tool.call<LinkCreate>("nvJitLinkCreate")(&linker, 1, options));
		MUST(tool.call<LinkAdd>("nvJitLinkAddData")(linker, input.type, data.data(),
							    data.size() - 1, input.file));
		MUST(tool.call<LinkComplete>("nvJitLinkComplete")(linker));
		MUST(tool.call<LinkSize>("nvJitLinkGetLinkedCubinSize")(linker, &n));
		std::vector<char> image(n);
		MUST(tool.call<LinkResult>("nvJitLinkGetLinkedCubin")(linker, image.data()));
		use(input.what, image.data());
	}
}

static void driver()
{
	static const struct {
		const char *what, *file;
		CUjitInputType type;
	} inputs[] = {{"cuLink of an object", "rdc.o", CU_JIT_INPUT_CUBIN},
		      {"cuLink of PTX", "text.ptx", CU_JIT_INPUT_PTX}};
	use("PTX text", contents("text.ptx").data());
	for (const auto &input : inputs) {
		CUlinkState state;
		void *image;
		size_t size;
		std::vector<char> data = contents(input.file);
		size_t n = data.size() - (input.type == CU_JIT_INPUT_CUBIN);
		MUST(cuLinkCreate(0, NULL, NULL, &state));
		MUST(cuLinkAddData(state, input.type, data.data(), n, input.file, 0, NULL, NULL));
		MUST(cuLinkComplete(state, &image, &size));
		use(input.what, image);
		MUST(cuLinkDestroy(state));
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)();
	} parts[] = {{"nvrtc", nvrtc}, {"nvjitlink", nvjitlink}, {"driver", driver}};
	for (const auto &part : parts)
		if (argc == 3 && !strcmp(argv[2], part.name)) {
			folder = argv[1];
			MUST(cuInit(0));
			start();
			part.run();
			return 0;
		}
	fprintf(stderr, "usage: inkernel_jit FOLDER nvrtc|nvjitlink|driver\n");
	return 2;
}
