// SPDX-License-Identifier: BSD-3-Clause
// For README's walk to the source line that holds the memory: counts the occurrences of each word.

#include <thrust/device_vector.h>
#include <thrust/reduce.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/transform.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <vector>

using Words = thrust::device_vector<uint32_t>;

struct Scramble {
	uint32_t distinct;
	__host__ __device__ uint32_t operator()(uint32_t x) const
	{
		x *= 0x9e3779b9u;
		return (x ^ x >> 15) % distinct;
	}
};

struct Counts {
	Words word, times;
};

static Words text_read(size_t words, uint32_t distinct)
{
	Words text(words);
	thrust::sequence(text.begin(), text.end());
	thrust::transform(text.begin(), text.end(), text.begin(), Scramble{distinct});
	return text;
}

static Counts words_count(const Words &text)
{
	Words sorted = text, ones(text.size(), 1);
	thrust::sort(sorted.begin(), sorted.end());
	Counts counts{Words(text.size()), Words(text.size())};
	auto end = thrust::reduce_by_key(sorted.begin(), sorted.end(), ones.begin(),
					 counts.word.begin(), counts.times.begin());
	size_t n = end.first - counts.word.begin();
	counts.word.resize(n); // the capacity stays allocated
	counts.times.resize(n);
	return counts;
}

int main()
{
	std::vector<std::unique_ptr<Counts>> chapters;
	size_t words = 0;
	for (int chapter = 0; chapter < 12; chapter++) {
		Words text = text_read(1u << 20, 1000 + 100 * chapter);
		chapters.push_back(std::make_unique<Counts>(words_count(text)));
		words += chapters.back()->word.size();
	}
	std::printf("%zu words in %zu chapters\n", words, chapters.size());
	return 0;
}
