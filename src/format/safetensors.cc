#include "format/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <tuple>

#include "base/check.h"
#include "base/foreign_content.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "format/safetensors_json.h"

namespace picchio {
namespace {

constexpr uint64_t kLengthBytes = 8;

// Sentences for files that people take for safetensors. A length is any eight bytes, so this is
// asked only of files whose length cannot be one: the first two bytes of a PyTorch file are those
// of any length that is 640 more than a multiple of 65536.
Status CheckMagic(std::string_view first_bytes, std::string_view where) {
  if (first_bytes.starts_with("GGUF")) {
    return Error(Code::kUnsupported,
                 "{} is a GGUF file, which is not supported; use the model's safetensors release",
                 where);
  }
  if (first_bytes.starts_with("PK\x03\x04") || first_bytes.starts_with("\x80\x02")) {
    return Error(
        Code::kUnsupported,
        "{} is a PyTorch file, which is not supported; use the model's safetensors release", where);
  }
  return Status::Ok();
}

// Fails unless the tensors, sorted by offset, cover [data_start, data_end) once.
Status CheckCoverage(const std::vector<TensorInfo>& tensors, uint64_t data_start, uint64_t data_end,
                     std::string_view where) {
  uint64_t covered = data_start;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.offset != covered) {
      return Error(Code::kCorrupt, "{}: tensor {} begins at byte {} of the file, {} at {}", where,
                   Quoted(tensor.name), tensor.offset,
                   tensor.offset < covered ? "inside the one that ends" : "after a gap that begins",
                   covered);
    }
    covered += tensor.bytes;
  }
  if (covered > data_end) {
    return Error(
        Code::kCorrupt,
        "{} has {} bytes, but its header asks for {}: the download is incomplete: {} bytes "
        "missing, fetch it again",
        where, data_end, covered, covered - data_end);
  }
  if (covered < data_end) {
    return Error(Code::kCorrupt, "{} has {} bytes after its last tensor, which ends at byte {}",
                 where, data_end - covered, covered);
  }
  return Status::Ok();
}

// The first name that stands twice, or null.
const std::string* FindDuplicate(std::span<const TensorInfo> tensors) {
  std::vector<const std::string*> names;
  names.reserve(tensors.size());
  for (const TensorInfo& tensor : tensors) names.push_back(&tensor.name);
  std::sort(names.begin(), names.end(), [](auto* a, auto* b) { return *a < *b; });
  const auto twice =
      std::adjacent_find(names.begin(), names.end(), [](auto* a, auto* b) { return *a == *b; });
  return twice == names.end() ? nullptr : *twice;
}

}  // namespace

Result<SafetensorsHeader> ParseSafetensorsHeader(std::string_view json, uint64_t data_start,
                                                 uint64_t data_bytes, std::string_view where) {
  SafetensorsHeader header;
  header.data_start = data_start;
  PICCHIO_ASSIGN_OR_RETURN(header.tensors, ParseSafetensorsJson(json, where));
  if (const std::string* name = FindDuplicate(header.tensors)) {
    return Error(Code::kCorrupt, "{}: tensor {} stands twice in the header", where, Quoted(*name));
  }
  for (TensorInfo& tensor : header.tensors) {
    // Offsets so far count from the data; none is near 2^64, for the checks below add to them.
    if (tensor.offset > (uint64_t{1} << 62)) {
      return Error(Code::kCorrupt,
                   "{}: tensor {} begins at byte {} of the data, past any file's end", where,
                   Quoted(tensor.name), tensor.offset);
    }
    tensor.offset += data_start;
  }
  std::sort(header.tensors.begin(), header.tensors.end(), [](const auto& a, const auto& b) {
    return std::tie(a.offset, a.bytes, a.name) < std::tie(b.offset, b.bytes, b.name);
  });
  PICCHIO_RETURN_IF_ERROR(
      CheckCoverage(header.tensors, data_start, data_start + data_bytes, where));
  return header;
}

Result<SafetensorsHeader> ReadSafetensorsHeader(const RandomAccessFile& file) {
  const std::string& where = file.name();
  PICCHIO_RETURN_IF_ERROR(CheckNotForeign(file));
  std::array<char, kLengthBytes> first{};
  const size_t available = std::min<uint64_t>(file.size(), first.size());
  PICCHIO_RETURN_IF_ERROR(
      file.ReadAt(0, std::as_writable_bytes(std::span(first)).first(available)));
  uint64_t length = 0;
  std::memcpy(&length, first.data(), sizeof(length));
  if (available < kLengthBytes || length == 0 || length > kMaxSafetensorsHeader) {
    PICCHIO_RETURN_IF_ERROR(CheckMagic({first.data(), available}, where));
  }
  if (available < kLengthBytes) {
    return Error(Code::kCorrupt, "{} has {} bytes, too few for a safetensors file; fetch it again",
                 where, file.size());
  }
  if (length == 0 || length > kMaxSafetensorsHeader) {
    return Error(Code::kCorrupt,
                 "{} is not a safetensors file: it gives its header {} bytes, expected 1 to {}",
                 where, length, kMaxSafetensorsHeader);
  }
  if (length > file.size() - kLengthBytes) {
    return Error(
        Code::kCorrupt,
        "{} has {} bytes, fewer than its header of {}: the download is incomplete, fetch it "
        "again",
        where, file.size(), length);
  }
  std::string json(length, '\0');
  PICCHIO_RETURN_IF_ERROR(file.ReadAt(kLengthBytes, std::as_writable_bytes(std::span(json))));
  const uint64_t data_start = kLengthBytes + length;
  return ParseSafetensorsHeader(json, data_start, file.size() - data_start, where);
}

Result<std::string> MakeSafetensorsHeader(std::span<TensorInfo> tensors, uint64_t alignment) {
  PICCHIO_CHECK(alignment >= 8 && (alignment & (alignment - 1)) == 0);
  std::string header(kLengthBytes, '\0');
  header += '{';
  uint64_t end = 0;
  for (TensorInfo& tensor : tensors) {
    if (tensor.name.empty() || tensor.name == kSafetensorsMetadata ||
        HasControlBytes(tensor.name) || !IsValidUtf8(tensor.name)) {
      return Error(Code::kInvalidArgument, "{} cannot be the name of a tensor",
                   Quoted(tensor.name));
    }
    auto elements = CountElements(tensor.shape, tensor.dtype);
    if (!elements.has_value()) {
      return Error(Code::kInvalidArgument, "tensor {}: {}", Quoted(tensor.name),
                   elements.error().message());
    }
    tensor.bytes = *elements * DtypeBytes(tensor.dtype);
    tensor.offset = end;
    if (__builtin_add_overflow(end, tensor.bytes, &end) || end > (uint64_t{1} << 62)) {
      return Error(Code::kInvalidArgument, "the tensors up to {} are larger than any file",
                   Quoted(tensor.name));
    }
    fmt::format_to(std::back_inserter(header),
                   R"({}{}:{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})",
                   header.ends_with('{') ? "" : ",", JsonString(tensor.name),
                   DtypeName(tensor.dtype), ShapeText(tensor.shape), tensor.offset, end);
  }
  if (const std::string* name = FindDuplicate(tensors)) {
    return Error(Code::kInvalidArgument, "tensor {} stands twice", Quoted(*name));
  }
  header += '}';
  header.resize(RoundUp(header.size(), alignment), ' ');
  const uint64_t length = header.size() - kLengthBytes;
  if (length > kMaxSafetensorsHeader) {
    return Error(Code::kInvalidArgument, "{} tensors need a header of {} bytes, more than {}",
                 tensors.size(), length, kMaxSafetensorsHeader);
  }
  std::memcpy(header.data(), &length, sizeof(length));
  for (TensorInfo& tensor : tensors) tensor.offset += header.size();
  return header;
}

}  // namespace picchio
