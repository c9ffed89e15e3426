/* SPDX-License-Identifier: BSD-3-Clause */
/* A library that asks for private tables, by the name of its file. */
#include <cuda.h>
#include <dlfcn.h>

CUresult private_get(const void **table, const CUuuid *id);
CUresult private_get(const void **table, const CUuuid *id)
{
	CUresult (*get)(const void **, const CUuuid *);
	*(void **)&get = dlsym(RTLD_DEFAULT, "cuGetExportTable");
	volatile CUresult result = get(table, id); /* no tail call: it is the caller */
	return result;
}
