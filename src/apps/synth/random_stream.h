// Random numbers for synthetic weights: fast, and for every place of a model a stream of its own,
// so that any thread may make any part and the bytes depend on the seed alone.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace picchio {

// xoshiro256++ 1.0 (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2021),
// its state set by SplitMix64 from the seed and up to three numbers that name the place.
class RandomStream {
 public:
  RandomStream(uint64_t seed, uint64_t a, uint64_t b = 0, uint64_t c = 0) {
    uint64_t state = seed;
    for (const uint64_t part : {a, b, c}) state = SplitMix(state) ^ part;
    for (uint64_t& word : state_) word = SplitMix(state);
  }

  uint64_t Next() {
    const uint64_t result = std::rotl(state_[0] + state_[3], 23) + state_[0];
    const uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  // Mean 0, variance rms^2, nearly normal: sums of four random bytes, at most 3.5 rms. Integers and
  // one product, and so the same on every machine.
  void FillNormal(std::span<float> out, float rms) {
    constexpr float kDeviation = 147.8F;  // Of such a sum: sqrt(4 (256^2 - 1) / 12).
    const float unit = rms / kDeviation;
    for (size_t i = 0; i < out.size(); i += 2) {
      const uint64_t word = Next();
      out[i] = SumOfBytes(word) * unit;
      if (i + 1 < out.size()) out[i + 1] = SumOfBytes(word >> 8) * unit;
    }
  }

  // Below `n`, which is small: the bias is n / 2^64.
  uint64_t Below(uint64_t n) { return Next() % n; }

 private:
  // Bytes 0, 2, 4 and 6, less the mean of the sum.
  static float SumOfBytes(uint64_t word) {
    const uint64_t sum = (word & 0x00ff00ff00ff00ffU) * 0x0001000100010001U >> 48;
    return static_cast<float>(static_cast<int32_t>(sum) - 510);
  }

  static uint64_t SplitMix(uint64_t& state) {
    uint64_t z = state += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }

  uint64_t state_[4];
};

}  // namespace picchio
