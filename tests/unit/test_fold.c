/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames that a user cannot act on, and the names of operators: tools/stack/fold.def with functions
 * of PyTorch 2.11, as c++filt has them. */
#include "tools/stack/fold.h"

#include "../tap.h"

#define TORCH "/opt/torch/lib/libtorch_cuda.so"

static const struct {
	bool python;
	const char *function, *file, *fold;
} calls[] = {
	{false, "cudaMalloc", "/opt/bin/static", "cuda"},
	{false, NULL, "/usr/lib/libcudart.so.13", "cuda"},
	{false, "cuMemAlloc_v2", "/usr/lib/libcuda.so.1", "cuda"},
	{false, "cutlass_run", "/opt/bin/app", NULL},
	{false, "keep", "/opt/lib/libgpumem.so.0", "gpumem"},
	{false,
	 "c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::malloc(int, unsigned "
	 "long, CUstream_st*)",
	 "libc10_cuda.so", "cache"},
	{false, NULL, "/opt/torch/lib/libc10_cuda.so", "cache"},
	{false, "at::TensorBase at::detail::_empty_generic<long>(c10::ArrayRef<long>)", TORCH,
	 "cache"},
	{false, "at::_ops::empty_memory_format::call(c10::ArrayRef<c10::SymInt>)", TORCH, "cache"},
	{false,
	 "c10::impl::wrap_kernel_functor_unboxed_<c10::impl::detail::WrapFunctionIntoFunctor_<c10::"
	 "CompileTimeFunctionPointer<at::Tensor (at::Tensor const&), &(at::(anonymous "
	 "namespace)::wrapper_CUDA_mm(at::Tensor const&))> > >::call(c10::OperatorKernel*)",
	 TORCH, "dispatch"},
	{false, "at::(anonymous namespace)::wrapper_CUDA_mm(at::Tensor const&, at::Tensor const&)",
	 TORCH, "dispatch"},
	{false, "at::(anonymous namespace)::structured_mm_out_cuda_functional::set_output(long)",
	 TORCH, "operator"},
	{false, "at::native::linear(at::Tensor const&, at::Tensor const&)", TORCH, "operator"},
	{false, "torch::autograd::VariableType::(anonymous namespace)::mm(at::Tensor const&)",
	 TORCH, "dispatch"},
	{false, "torch::autograd::THPVariable_mm(_object*, _object*, _object*)", TORCH, "dispatch"},
	{false, "torch::autograd::Engine::thread_main(std::shared_ptr<GraphTask> const&)", TORCH,
	 "autograd"},
	{false, "torch::autograd::PyNode::apply(std::vector<at::Tensor>&&)", TORCH, "autograd"},
	{false, "std::_Function_handler<void ()>::_M_invoke(std::_Any_data const&)", TORCH,
	 "dispatch"},
	{false, "std::sort<int*>(int*, int*)", "/opt/bin/app", NULL},
	{false, "_PyEval_EvalFrameDefault", "/usr/lib/libpython3.12.so.1.0", "interpreter"},
	{false, "main", "/usr/bin/python3.12", "interpreter"},
	{false, "start_thread", "/usr/lib/libc.so.6", "start"},
	{false, NULL, "/usr/lib/libc.so.6", "start"},
	{false, "qsort", "/usr/lib/libc.so.6", NULL},
	{false, NULL, NULL, NULL},
	{false, "my::layer(at::Tensor)", "/home/me/my.so", NULL},
	{true, "Module._call_impl", "/opt/torch/nn/modules/module.py", "dispatch"},
	{true, "_wrapped_call_impl", "/opt/torch/nn/modules/module.py", "dispatch"},
	{true, "Module._call_impl", "/home/me/module.py", NULL},
	{true, "Module._apply", "/opt/torch/nn/modules/module.py", "wrapper"},
	{true, "Module.cuda", "/opt/torch/nn/modules/module.py", NULL},
	{true, "Context.memalloc", "/v/numba_cuda/numba/cuda/cudadrv/driver.py", "wrapper"},
	{true, "device_array", "/v/numba_cuda/numba/cuda/api.py", NULL},
	{true, "_cpp_pjit.<locals>.cache_miss", "/v/jax/_src/pjit.py", "wrapper"},
	{false, "__pyx_pw_4cupy_4cuda_6memory_6Memory_1__init__", "/v/memory.cpython-312.so",
	 "wrapper"},
	{false, NULL, "/v/cydriver.cpython-312-x86_64-linux-gnu.so", "wrapper"},
	{true, "_run_code", "<frozen runpy>", "start"},
	{true, "train", NULL, NULL},
	{true, NULL, NULL, NULL},
};

static const struct {
	const char *function, *object, *name;
} names[] = {
	{"at::_ops::mm::call(at::Tensor const&, at::Tensor const&)", TORCH, "aten::mm"},
	{"at::_ops::mm::redispatch(c10::DispatchKeySet, at::Tensor const&)", TORCH, "aten::mm"},
	{"at::_ops::add_Tensor::call(at::Tensor const&)", TORCH, "aten::add"},
	{"at::_ops::add__Tensor::call(at::Tensor&)", TORCH, "aten::add_"},
	{"at::_ops::_foreach_add__List::call(c10::ArrayRef<at::Tensor>)", TORCH,
	 "aten::_foreach_add_"},
	{"at::_ops::sum_dim_IntList::call(at::Tensor const&)", TORCH, "aten::sum"},
	{"at::_ops::mm_out::call(at::Tensor const&)", TORCH, "aten::mm"},
	{"at::_ops::t::call(at::Tensor const&)", TORCH, "aten::t"},
	{"at::native::mm(at::Tensor const&)", TORCH, ""},
	{"torch::autograd::generated::MmBackward0::apply(std::vector<at::Tensor>&&)", TORCH,
	 "backward of mm"},
	{"torch::autograd::generated::LogSoftmaxBackward0::apply(std::vector<at::Tensor>&&)", TORCH,
	 "backward of log_softmax"},
	{"torch::autograd::generated::SumBackward1::apply(std::vector<at::Tensor>&&)", TORCH,
	 "backward of sum"},
	{"torch::autograd::CopyBackwards::apply(std::vector<at::Tensor>&&)", TORCH,
	 "backward of copy"},
	{"torch::autograd::AccumulateGrad::apply(std::vector<at::Tensor>&&)", TORCH,
	 "AccumulateGrad"},
	{"torch::autograd::PyNode::apply(std::vector<at::Tensor>&&)", TORCH, ""},
	{"torch::autograd::Engine::thread_main(std::shared_ptr<GraphTask> const&)", TORCH, ""},
	{NULL, "/opt/lib/libcublas.so.13", "libcublas.so.13"},
	{"cublasCreate_v2", "/opt/lib/libcublas.so.13", ""},
	{NULL, "/opt/lib/libmine.so", ""},
	{NULL, NULL, ""},
};

int main(void)
{
	char buf[GM_FOLD_NAME], little[8];
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
		TAP_STR(gm_fold_word(gm_fold_of(calls[i].python, calls[i].function, calls[i].file)),
			calls[i].fold, "%s of %s",
			calls[i].function ? calls[i].function : "no name",
			calls[i].file ? calls[i].file : "no file");
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		TAP_STR(gm_fold_name(names[i].function, names[i].object, buf, sizeof buf),
			names[i].name, "%s", names[i].function ? names[i].function : "no name");
	TAP_STR(gm_fold_name(names[9].function, TORCH, little, sizeof little), "backwar",
		"a name is cut");
	TAP_OK(gm_fold_is_backward("backward of mm") && !gm_fold_is_backward("AccumulateGrad"),
	       "a node with its operator");
	return tap_done();
}
