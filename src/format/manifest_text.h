// The spelling of manifest.json, for format/manifest.cc: its fields, one by one. The reader takes
// exactly what the writer writes; that is less than JSON, and what makes the text canonical.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/status.h"

namespace picchio {

// Walks over the text, field by field in the order of the caller's calls. Every fault is kCorrupt
// with the byte where it stands, counted from the start of `text`.
class ManifestReader {
 public:
  explicit ManifestReader(std::string_view text) : text_(text) {}

  // "name": value, and the separator before or after it.
  Status StringField(std::string_view name, std::string& value);
  Status NumberField(std::string_view name, uint64_t& value);
  Status HashField(std::string_view name, Sha256Digest& value);
  Status ShapeField(std::string_view name, std::vector<uint64_t>& value);

  // A list of objects: BeginList, then while not EndOfList fields and EndEntry.
  Status BeginList(std::string_view name);
  bool EndOfList();
  Status EndEntry();

 private:
  Status Field(std::string_view name);
  Status String(std::string& value);
  Status Number(uint64_t& value);
  bool Take(std::string_view token);
  Status Expected(std::string_view what) const;

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace picchio
