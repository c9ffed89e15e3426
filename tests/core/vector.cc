// SPDX-License-Identifier: BSD-3-Clause
// gpumem_vector.hpp on the simulated driver, whose device memory the host can read. Prints a line
// for each fault, and at the end the number of checks.
#include <gpumem_vector.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>

static int checks, wrong;

static void check(const char *title, bool holds)
{
	checks++;
	if (!holds) {
		wrong++;
		std::printf("wrong: %s\n", title);
	}
}

template <class Exception, class Call> static bool throws(Call call)
{
	try {
		call();
	} catch (const Exception &) {
		return true;
	}
	return false;
}

static gpumem::vector<int> numbers(int n)
{
	gpumem::vector<int> v(static_cast<std::size_t>(n));
	std::iota(v.begin(), v.end(), 0);
	return v;
}

int main()
{
	gpumem::vector<int> v = numbers(1000);
	const int more[] = {-1, -2, -3};
	int *start = v.data();
	check("a vector that is returned keeps its elements",
	      v.size() == 1000 && v.begin()[999] == 999);
	v.resize(10000000);
	check("growth keeps address and elements",
	      v.data() == start && v.begin()[999] == 999 && v.capacity() >= 10000000);
	v.resize(1000);
	check("a smaller size keeps the capacity", v.size() == 1000 && v.capacity() >= 10000000);
	v.shrink_to_fit();
	check("shrink_to_fit gives it back", v.capacity() < 10000000);
	v.append(more, 3);
	check("append adds at the end",
	      v.size() == 1003 && v.begin()[1002] == -3 && v.end()[-4] == 999);
	int *at = v.insert(v.begin() + 5, more, 2);
	check("insert moves the tail",
	      at == start + 5 && at[0] == -1 && at[1] == -2 && at[2] == 5 && v.size() == 1005);
	at = v.erase(at, at + 3);
	check("erase moves it back", at == start + 5 && at[0] == 6 && v.size() == 1002);
	std::sort(v.begin(), v.end());
	check("iterators are random access", *v.begin() == -3 && v.end()[-1] == 999);
	gpumem::vector<int> other(7, 0, GPUMEM_MEMORY_HOST, 100);
	other.swap(v);
	check("swap", v.size() == 7 && other.data() == start);
	v = std::move(other);
	check("assignment moves", v.data() == start && v.size() == 1002);
	v.clear();
	check("clear", v.empty() && v.data() == start);
	check("more than `most` is a bad_alloc", throws<std::bad_alloc>([&] {
		      gpumem::vector<char> few(1, 0, GPUMEM_MEMORY_DEVICE, 1);
		      few.resize(5 << 20);
	      }));
	check("an overflow is a bad_alloc",
	      throws<std::bad_alloc>([&] { v.resize(static_cast<std::size_t>(-1)); }));
	check("a missing device is an error",
	      throws<gpumem::error>([] { gpumem::vector<int> none(1, 77); }));
	check("a wrong place is an error",
	      throws<gpumem::error>([&] { v.insert(v.begin() + 1, more, 1); }));
	check("after all that it is as it was", v.empty() && v.data() == start);
	std::printf("%d checks, %d wrong\n", checks, wrong);
	return wrong != 0;
}
