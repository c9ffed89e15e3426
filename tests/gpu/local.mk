# SPDX-License-Identifier: BSD-3-Clause
# The programs that run on a GPU. `make gpu-bundle` puts everything they need into one folder, gpu-bundle/, that can be
# carried to a machine with a GPU and without a compiler; `make check-gpu` runs it here.
EXTRA_DIST += %D%/gpu.h %D%/runtime.cu %D%/limits.cu %D%/idle.cu %D%/capture.cu %D%/peer.cu %D%/driver.cc %D%/kernels.cu \
	%D%/pair.cu %D%/train.py %D%/run.sh
GPU_ARCH = sm_90
GPU_NVCC = $(NVCC) -arch=$(GPU_ARCH) -O2 -std=c++17 -Wno-deprecated-gpu-targets
GPU_SRC = $(top_srcdir)/tests/gpu

.PHONY: gpu-bundle check-gpu
gpu-bundle: all
	@test -n "$(NVCC)" || { echo 'gpu-bundle: nvcc was not found by configure' >&2; exit 1; }
	rm -rf gpu-bundle && mkdir gpu-bundle
	for p in runtime limits idle capture peer pair; do \
		$(GPU_NVCC) $(GPU_SRC)/$$p.cu -o gpu-bundle/$$p -lcuda || exit 1; done
	$(GPU_NVCC) -cudart shared $(GPU_SRC)/runtime.cu -o gpu-bundle/runtime_shared -lcuda
	$(GPU_NVCC) -default-stream per-thread $(GPU_SRC)/runtime.cu -o gpu-bundle/runtime_ptds -lcuda
	$(GPU_NVCC) -cubin $(GPU_SRC)/kernels.cu -o gpu-bundle/kernels.cubin
	g++ -O2 $(CUDA_CPPFLAGS) $(GPU_SRC)/driver.cc -o gpu-bundle/driver -L$(CUDA_HOME)/lib64/stubs -lcuda
	cp $(GPU_SRC)/train.py $(GPU_SRC)/run.sh gpu-bundle/
	cp -L $(CUDA_HOME)/lib64/libcudart.so.1[23] gpu-bundle/
	cp .libs/libgpumem.so gpumemstat gpu-bundle/
	cd $(top_srcdir) && { git rev-parse HEAD 2>/dev/null || echo unknown; } >$(abs_builddir)/gpu-bundle/COMMIT

check-gpu: gpu-bundle
	$(SHELL) gpu-bundle/run.sh gpu-results
