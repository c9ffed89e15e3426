/* SPDX-License-Identifier: BSD-3-Clause */
/* Links files of device code (.cubin, .ptx, .ltoir) for sm_90 by nvJitLink, as the driver
 * does for cuLinkComplete, and writes the cubin: image_link OUT FILE... */
#include <nvJitLink.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(nvJitLinkResult result, const char *what)
{
	if (result == NVJITLINK_SUCCESS)
		return;
	fprintf(stderr, "%s: %d\n", what, (int)result);
	exit(1);
}

static nvJitLinkInputType type_of(const char *file)
{
	const char *dot = strrchr(file, '.');
	if (strcmp(dot, ".ptx") == 0)
		return NVJITLINK_INPUT_PTX;
	return strcmp(dot, ".ltoir") == 0 ? NVJITLINK_INPUT_LTOIR : NVJITLINK_INPUT_CUBIN;
}

int main(int argc, char **argv)
{
	static const char *options[] = {"-arch=sm_90", "-lto"};
	nvJitLinkHandle link;
	int lto = argc > 2 && type_of(argv[2]) == NVJITLINK_INPUT_LTOIR;
	check(nvJitLinkCreate(&link, 1 + (unsigned)lto, options), "nvJitLinkCreate");
	for (int i = 2; i < argc; i++)
		check(nvJitLinkAddFile(link, type_of(argv[i]), argv[i]), argv[i]);
	check(nvJitLinkComplete(link), "nvJitLinkComplete");
	size_t size = 0;
	check(nvJitLinkGetLinkedCubinSize(link, &size), "nvJitLinkGetLinkedCubinSize");
	void *cubin = malloc(size);
	FILE *out = fopen(argv[1], "we");
	if (!cubin || !out)
		return 1;
	check(nvJitLinkGetLinkedCubin(link, cubin), "nvJitLinkGetLinkedCubin");
	size_t written = fwrite(cubin, 1, size, out);
	return fclose(out) != 0 || written != size;
}
