// What a product takes: views of weight matrices as they lie in a record or a tensor, and of rows
// of F32. Nothing here owns memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace picchio {

// Rows [begin, end) of a weight matrix: the unit that a caller hands to one thread.
struct RowRange {
  size_t begin = 0;
  size_t end = 0;
};

// Rows of F32: row t starts at data + t * stride.
struct F32Rows {
  const float* data = nullptr;
  size_t num_rows = 0;
  size_t stride = 0;
};

// Where results go: element i of row t is data[t * stride + i].
struct F32Output {
  float* data = nullptr;
  size_t stride = 0;
};

// INT4 in groups of 64 along cols, the last one shorter where cols is no multiple of 64.
// Element c of row r is (nibble - 8) * scales[r, c / 64]; element 2i is the low, 2i + 1 the high
// nibble of byte i of the row. cols is even.
struct Int4Matrix {
  const uint8_t* codes = nullptr;  // [rows, cols / 2]
  const float* scales = nullptr;   // [rows, ceil(cols / 64)], 4-byte aligned
  size_t rows = 0;
  size_t cols = 0;
};

// INT8 with one scale per row: element c of row r is codes[r, c] * scales[r].
struct Int8Matrix {
  const int8_t* codes = nullptr;  // [rows, cols], -127..127
  const float* scales = nullptr;  // [rows]
  size_t rows = 0;
  size_t cols = 0;
};

// MXFP4 (OCP Microscaling Formats 1.0): 32 E2M1 values share an E8M0 exponent byte, 255 is NaN.
// Element 2i is the low, 2i + 1 the high nibble of byte i of a block. cols is a multiple of 32.
struct Mxfp4Matrix {
  const uint8_t* blocks = nullptr;     // [rows, cols / 32, 16]
  const uint8_t* exponents = nullptr;  // [rows, cols / 32]
  size_t rows = 0;
  size_t cols = 0;
};

// BF16 bits: the upper half of a binary32.
struct Bf16Matrix {
  const uint16_t* data = nullptr;  // [rows, cols], 2-byte aligned
  size_t rows = 0;
  size_t cols = 0;
};

struct F32Matrix {
  const float* data = nullptr;  // [rows, cols], 4-byte aligned
  size_t rows = 0;
  size_t cols = 0;
};

}  // namespace picchio
