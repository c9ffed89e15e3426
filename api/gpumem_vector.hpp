/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * C++ over gpumem.h: a vector of device memory that grows without a copy, and an allocator for
 * thrust::device_vector. C++14; link with -lgpumem-core. Thrust is needed only for Thrust pointers:
 * then include this header after Thrust's.
 *
 *     gpumem::vector<float> v(n);                          // undefined bytes
 *     cub::DeviceReduce::Sum(temp, size, v.data(), out, n);
 *     thrust::sort(thrust::device, v.begin(), v.end());    // iterators are raw pointers
 *     thrust::device_vector<float, gpumem::allocator<float>> w(n);
 *
 * Elements are trivially copyable: they are moved as bytes and never constructed. Errors are
 * thrown: std::bad_alloc if memory is lacking, else gpumem::error. A vector is moved, not copied.
 * Calls on one vector must not overlap.
 */
#ifndef GPUMEM_VECTOR_HPP
#define GPUMEM_VECTOR_HPP

#include <gpumem.h>

#include <cstddef>
#include <limits>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#if defined(__has_include)
#if __has_include(<thrust/device_ptr.h>) && defined(__CUDACC__)
#include <thrust/device_ptr.h>
#define GPUMEM_HAS_THRUST 1
#endif
#endif

namespace gpumem
{

/* A call of gpumem.h failed; `code` is its CUresult. */
class error : public std::runtime_error
{
      public:
	explicit error(int code)
	    : std::runtime_error("gpumem: CUresult " + std::to_string(code)), code(code)
	{
	}
	const int code;
};

namespace detail
{
inline void check(int code)
{
	if (code == 2)
		throw std::bad_alloc();
	if (code != 0)
		throw error(code);
}

template <class T> std::size_t bytes(std::size_t n)
{
	if (n > std::numeric_limits<std::size_t>::max() / sizeof(T))
		throw std::bad_alloc();
	return n * sizeof(T);
}
} // namespace detail

/* Elements in a growable buffer: at most `most`; 0: as many as fit into the device's memory.
 * begin() never changes. */
template <class T> class vector
{
	static_assert(std::is_trivially_copyable<T>::value, "elements move as bytes");

      public:
	using value_type = T;
	using size_type = std::size_t;
	using difference_type = std::ptrdiff_t;
	using pointer = T *;
	using const_pointer = const T *;
	using iterator = T *;
	using const_iterator = const T *;

	explicit vector(size_type n = 0, int device = 0,
			gpumem_memory memory = GPUMEM_MEMORY_DEVICE, size_type most = 0)
	{
		detail::check(
			gpumem_buffer_create(device, memory, detail::bytes<T>(most), &buffer));
		start = static_cast<T *>(gpumem_buffer_data(buffer));
		const int code = gpumem_buffer_resize(buffer, detail::bytes<T>(n));
		if (code != 0)
			gpumem_buffer_destroy(buffer);
		detail::check(code);
	}
	~vector()
	{
		gpumem_buffer_destroy(buffer);
	}
	vector(const vector &) = delete;
	vector &operator=(const vector &) = delete;
	vector(vector &&other) noexcept
	{
		swap(other);
	}
	vector &operator=(vector &&other) noexcept
	{
		swap(other);
		return *this;
	}
	void swap(vector &other) noexcept
	{
		std::swap(buffer, other.buffer);
		std::swap(start, other.start);
	}

	T *data() noexcept
	{
		return start;
	}
	const T *data() const noexcept
	{
		return start;
	}
	iterator begin() noexcept
	{
		return start;
	}
	const_iterator begin() const noexcept
	{
		return start;
	}
	iterator end() noexcept
	{
		return start + size();
	}
	const_iterator end() const noexcept
	{
		return start + size();
	}
#ifdef GPUMEM_HAS_THRUST
	/* For algorithms of Thrust without an execution policy. */
	thrust::device_ptr<T> device_begin()
	{
		return thrust::device_pointer_cast(begin());
	}
	thrust::device_ptr<T> device_end()
	{
		return thrust::device_pointer_cast(end());
	}
#endif
	size_type size() const noexcept
	{
		return gpumem_buffer_size(buffer) / sizeof(T);
	}
	size_type capacity() const noexcept
	{
		return gpumem_buffer_capacity(buffer) / sizeof(T);
	}
	bool empty() const noexcept
	{
		return size() == 0;
	}

	void reserve(size_type n)
	{
		detail::check(gpumem_buffer_reserve(buffer, detail::bytes<T>(n)));
	}
	/* New elements are undefined. */
	void resize(size_type n)
	{
		detail::check(gpumem_buffer_resize(buffer, detail::bytes<T>(n)));
	}
	void clear()
	{
		resize(0);
	}
	void shrink_to_fit()
	{
		detail::check(gpumem_buffer_shrink(buffer));
	}

	/* Copies are queued on `stream`; `from` must stay until they are done. */
	void append(const T *from, size_type n, CUstream_st *stream = nullptr)
	{
		detail::check(gpumem_buffer_append(buffer, from, detail::bytes<T>(n), stream));
	}
	iterator insert(const_iterator at, const T *from, size_type n,
			CUstream_st *stream = nullptr)
	{
		detail::check(gpumem_buffer_insert(buffer, offset(at), from, detail::bytes<T>(n),
						   stream));
		return start + (at - start);
	}
	iterator erase(const_iterator first, const_iterator last, CUstream_st *stream = nullptr)
	{
		detail::check(gpumem_buffer_erase(buffer, offset(first),
						  offset(last) - offset(first), stream));
		return start + (first - start);
	}

      private:
	size_type offset(const_iterator at) const
	{
		return static_cast<size_type>(at - start) * sizeof(T);
	}

	gpumem_buffer *buffer = nullptr;
	T *start = nullptr;
};

#ifdef GPUMEM_HAS_THRUST
/* Blocks of the device's pool for thrust::device_vector, on one device. A free waits for the work
 * of its context, like cudaFree. */
template <class T> class allocator
{
      public:
	using value_type = T;
	using pointer = thrust::device_ptr<T>;
	using const_pointer = thrust::device_ptr<const T>;
	using reference = thrust::device_reference<T>;
	using const_reference = thrust::device_reference<const T>;
	using size_type = std::size_t;
	using difference_type = std::ptrdiff_t;
	template <class U> struct rebind {
		using other = allocator<U>;
	};

	explicit allocator(int device = 0) : device(device)
	{
	}
	template <class U> allocator(const allocator<U> &other) : device(other.device)
	{
	}

	pointer allocate(size_type n)
	{
		void *block = gpumem_cupy_malloc(nullptr, detail::bytes<T>(n ? n : 1), device);
		if (!block)
			throw std::bad_alloc();
		return thrust::device_pointer_cast(static_cast<T *>(block));
	}
	void deallocate(pointer block, size_type)
	{
		gpumem_cupy_free(nullptr, thrust::raw_pointer_cast(block), device);
	}

	template <class U> bool operator==(const allocator<U> &other) const
	{
		return device == other.device;
	}
	template <class U> bool operator!=(const allocator<U> &other) const
	{
		return device != other.device;
	}

	int device;
};
#endif

} // namespace gpumem

#endif
