// The tokens of a vocabulary: bytes by id, and ids by bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace picchio {

class Vocabulary {
 public:
  // No published vocabulary comes near it; ids beyond are refused before they size a table.
  static constexpr int64_t kMaxTokens = 1 << 22;
  static constexpr int32_t kNone = -1;

  // Adds a token. Refuses an id out of range or taken. `bytes` is not empty.
  Status Add(int64_t id, std::string_view bytes);
  // Makes a token that was added findable by its bytes. They are not yet those of another such
  // token.
  void MakeFindable(int32_t id);

  // The highest id and one: some ids below may be no token.
  int32_t size() const { return static_cast<int32_t>(places_.size()); }
  bool Has(int64_t id) const {
    return id >= 0 && id < size() && places_[static_cast<size_t>(id)].length > 0;
  }
  // Empty where the id is no token. Valid until the next Add.
  std::string_view Bytes(int64_t id) const;
  // kNone where no findable token has these bytes.
  int32_t Find(std::string_view bytes) const;

 private:
  struct Place {
    uint32_t offset = 0;
    uint32_t length = 0;
  };

  size_t SlotOf(std::string_view bytes) const;

  std::vector<char> bytes_;     // All tokens' bytes, one after the other.
  std::vector<Place> places_;   // [size()]
  std::vector<int32_t> slots_;  // Hash table of findable ids, kNone where free; a power of two.
  size_t num_findable_ = 0;
};

}  // namespace picchio
