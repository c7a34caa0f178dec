// exp and the logistic function on vectors of class V: the operations of exp.cc, lane by lane.
#pragma once

#include "kernels/exp.h"
#include "kernels/float_bits.h"

namespace picchio::vector {

template <typename V>
typename V::F Exp(typename V::F x) {
  using F = typename V::F;
  using I = typename V::I;
  namespace c = exp_constants;
  x = V::Select(V::Less(x, V::Set(c::kMin)), V::Set(c::kMin), x);  // A NaN is not less.
  x = V::Select(V::Less(V::Set(c::kMax), x), V::Set(c::kMax), x);
  const F shift = V::Set(c::kShift);
  const F shifted = V::Fma(x, V::Set(c::kLog2E), shift);
  const F n = V::Sub(shifted, shift);
  const I k = V::SubI(V::BitsOf(shifted), V::BitsOf(shift));
  F r = V::Fma(n, V::Set(c::kMinusLn2High), x);
  r = V::Fma(n, V::Set(c::kMinusLn2Low), r);

  F q = V::Fma(V::Set(c::kC6), r, V::Set(c::kC5));
  q = V::Fma(q, r, V::Set(c::kC4));
  q = V::Fma(q, r, V::Set(c::kC3));
  q = V::Fma(q, r, V::Set(c::kC2));
  const F p = V::Add(V::Fma(V::Mul(r, r), q, r), V::Set(1));

  const I half = V::Halve(k);
  const I bias = V::SetI(127);
  const F power0 = V::FloatsOf(V::template ShiftLeft<23>(V::AddI(half, bias)));
  const F power1 = V::FloatsOf(V::template ShiftLeft<23>(V::AddI(V::SubI(k, half), bias)));
  return V::Mul(V::Mul(p, power0), power1);
}

template <typename V>
typename V::F Sigmoid(typename V::F x) {
  using F = typename V::F;
  const F one = V::Set(1);
  const F e = Exp<V>(V::Negate(V::Abs(x)));
  return V::Div(V::Select(V::Less(x, V::Set(0)), e, one), V::Add(one, e));
}

}  // namespace picchio::vector
