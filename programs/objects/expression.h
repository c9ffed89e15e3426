/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The classes of expressions, for kernels, and for the host in tests. Memory is that of the class
 * Space: global new and delete, or a counter. Objects own their operands.
 */
#ifndef EXPRESSION_H
#define EXPRESSION_H

#include "programs/common/lane.h"
#include "programs/objects/objects.h"

#ifdef __CUDACC__
#define OB_CODE __device__
#define OB_STATE static __device__
#define ob_end() __trap()
#else
#define OB_CODE
#define OB_STATE static
#define ob_end() abort()
#endif

/* Of the run: kernels set it. */
OB_STATE struct objects_work *objects_now;

struct HeapSpace {
	template <class T> OB_CODE static T *array(uint32_t count)
	{
		return new T[count];
	}
	template <class T> OB_CODE static void array_free(T *array)
	{
		delete[] array;
	}
};

struct BumpSpace {
	OB_CODE static void *take(size_t bytes)
	{
		struct objects_work *w = objects_now;
		objects_word from = pr_add(&w->used, (bytes + 15) / 16 * 16);
		if (from + bytes > w->space_bytes)
			ob_end();
		return w->space + from;
	}
	OB_CODE static void *operator new(size_t bytes)
	{
		return take(bytes);
	}
	OB_CODE static void operator delete(void *)
	{
	}
	template <class T> OB_CODE static T *array(uint32_t count)
	{
		return static_cast<T *>(take(count * sizeof(T)));
	}
	template <class T> OB_CODE static void array_free(T *)
	{
	}
};

template <class Space> class Expression : public Space
{
	/* Which counter has this object. */
	OB_CODE uint32_t tally() const
	{
		return (uint32_t)((objects_word)this / 16 % OBJECTS_TALLIES);
	}

      public:
	OB_CODE Expression()
	{
		pr_add(&objects_now->made[tally()], 1);
	}
	OB_CODE virtual ~Expression()
	{
		pr_add(&objects_now->deleted[tally()], 1);
	}
	OB_CODE virtual uint32_t value(uint32_t x) const = 0;
	/* New objects. */
	OB_CODE virtual Expression *copy() const = 0;
	OB_CODE virtual Expression *derive() const = 0;
	/* The same value by fewer objects; whoever called has this in place of the old one. */
	OB_CODE virtual Expression *simplify()
	{
		return this;
	}
	OB_CODE virtual bool is_zero() const
	{
		return false;
	}
};

template <class Space> class Number : public Expression<Space>
{
	uint32_t number;

      public:
	OB_CODE explicit Number(uint32_t n) : number(n)
	{
	}
	OB_CODE uint32_t value(uint32_t) const override
	{
		return number;
	}
	OB_CODE Expression<Space> *copy() const override
	{
		return new Number(number);
	}
	OB_CODE Expression<Space> *derive() const override
	{
		return new Number(0);
	}
	OB_CODE bool is_zero() const override
	{
		return number == 0;
	}
};

template <class Space> class Variable : public Expression<Space>
{
      public:
	OB_CODE uint32_t value(uint32_t x) const override
	{
		return x;
	}
	OB_CODE Expression<Space> *copy() const override
	{
		return new Variable;
	}
	OB_CODE Expression<Space> *derive() const override
	{
		return new Number<Space>(1);
	}
};

template <class Space> class Sum : public Expression<Space>
{
	Expression<Space> **operand;
	uint32_t count;

      public:
	OB_CODE explicit Sum(uint32_t operands)
	    : operand(Space::template array<Expression<Space> *>(operands)), count(operands)
	{
	}
	OB_CODE ~Sum() override
	{
		for (uint32_t k = 0; k < count; k++)
			delete operand[k];
		Space::array_free(operand);
	}
	OB_CODE void put(uint32_t k, Expression<Space> *own)
	{
		operand[k] = own;
	}
	OB_CODE uint32_t value(uint32_t x) const override
	{
		uint32_t sum = 0;
		for (uint32_t k = 0; k < count; k++)
			sum += operand[k]->value(x);
		return sum;
	}
	OB_CODE Expression<Space> *copy() const override
	{
		Sum *sum = new Sum(count);
		for (uint32_t k = 0; k < count; k++)
			sum->put(k, operand[k]->copy());
		return sum;
	}
	OB_CODE Expression<Space> *derive() const override
	{
		Sum *sum = new Sum(count);
		for (uint32_t k = 0; k < count; k++)
			sum->put(k, operand[k]->derive());
		return sum;
	}
	/* Without operands that are 0; the only operand that stays takes the sum's place. */
	OB_CODE Expression<Space> *simplify() override
	{
		uint32_t kept = 0;
		for (uint32_t k = 0; k < count; k++) {
			Expression<Space> *simple = operand[k]->simplify();
			if (simple->is_zero())
				delete simple;
			else
				operand[kept++] = simple;
		}
		count = kept;
		if (kept > 1)
			return this;
		Expression<Space> *only = kept ? operand[0] : new Number<Space>(0);
		count = 0;
		delete this;
		return only;
	}
};

template <class Space> class Product : public Expression<Space>
{
	Expression<Space> *one, *other;

      public:
	OB_CODE Product(Expression<Space> *a, Expression<Space> *b) : one(a), other(b)
	{
	}
	OB_CODE ~Product() override
	{
		delete one;
		delete other;
	}
	OB_CODE uint32_t value(uint32_t x) const override
	{
		return one->value(x) * other->value(x);
	}
	OB_CODE Expression<Space> *copy() const override
	{
		return new Product(one->copy(), other->copy());
	}
	OB_CODE Expression<Space> *derive() const override
	{
		Sum<Space> *sum = new Sum<Space>(2);
		sum->put(0, new Product(one->derive(), other->copy()));
		sum->put(1, new Product(one->copy(), other->derive()));
		return sum;
	}
	OB_CODE Expression<Space> *simplify() override
	{
		one = one->simplify();
		other = other->simplify();
		if (!one->is_zero() && !other->is_zero())
			return this;
		delete this;
		return new Number<Space>(0);
	}
};

template <class Space> OB_CODE Expression<Space> *expression_make(uint64_t seed, uint32_t depth)
{
	switch (objects_kind(seed, depth)) {
	case OBJECTS_NUMBER:
		return new Number<Space>(objects_number(seed));
	case OBJECTS_X:
		return new Variable<Space>;
	case OBJECTS_SUM: {
		Sum<Space> *sum = new Sum<Space>(objects_operands(seed));
		for (uint32_t k = 0; k < objects_operands(seed); k++)
			sum->put(k, expression_make<Space>(objects_operand(seed, k), depth - 1));
		return sum;
	}
	default:
		return new Product<Space>(
			expression_make<Space>(objects_operand(seed, 0), depth - 1),
			expression_make<Space>(objects_operand(seed, 1), depth - 1));
	}
}

template <class Space>
OB_CODE void expression_stage(struct objects_work *w, enum objects_stage stage, uint32_t i)
{
	Expression<Space> *tree = (Expression<Space> *)w->tree[i];
	Expression<Space> *slope = (Expression<Space> *)w->slope[i];
	switch (stage) {
	case OBJECTS_MAKE:
		w->tree[i] = (objects_word)expression_make<Space>(objects_mix(i, 0), w->depth);
		break;
	case OBJECTS_VALUE:
		pr_add(&w->value, objects_mix(tree->value(w->x), i));
		break;
	case OBJECTS_DERIVE:
		w->slope[i] = (objects_word)tree->derive();
		break;
	case OBJECTS_SIMPLIFY:
		w->slope[i] = (objects_word)slope->simplify();
		break;
	case OBJECTS_SLOPE:
		pr_add(&w->slope_value, objects_mix(slope->value(w->x), i));
		break;
	default:
		delete tree;
		delete slope;
	}
}

#endif
