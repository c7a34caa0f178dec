#include "format/npy.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <limits>
#include <optional>

#include "base/check.h"
#include "base/printable.h"
#include "base/units.h"

namespace picchio {
namespace {

constexpr std::string_view kMagic("\x93NUMPY\x01\x00", 8);
constexpr size_t kPrefixBytes = 10;  // Magic, version, u16 header length.
constexpr size_t kMaxNpyDimensions = 32;

struct TypeFacts {
  std::string_view name;
  size_t bytes;
};
constexpr std::array<TypeFacts, 8> kTypes = {{{"<f4", 4},
                                              {"<f8", 8},
                                              {"|i1", 1},
                                              {"|u1", 1},
                                              {"<u2", 2},
                                              {"<i4", 4},
                                              {"<u4", 4},
                                              {"<i8", 8}}};

size_t TypeBytes(NpyType type) { return kTypes[static_cast<size_t>(type)].bytes; }

struct Header {
  std::optional<NpyType> type;
  std::optional<bool> fortran_order;
  std::optional<std::vector<uint64_t>> shape;
};

// Reads the header: a Python dict literal with the keys 'descr', 'fortran_order' and 'shape'.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, std::string_view where) : text_(text), where_(where) {}

  Result<Header> Parse() {
    Header header;
    if (!Take('{')) return Malformed();
    while (!Take('}')) {
      const std::optional<std::string_view> key = String();
      if (!key || !Take(':')) return Malformed();
      PICCHIO_RETURN_IF_ERROR(Value(*key, header));
      if (Take(',')) continue;
      if (!Take('}')) return Malformed();
      break;
    }
    SkipSpace();
    if (at_ != text_.size() || !header.type || !header.fortran_order || !header.shape) {
      return Malformed();
    }
    return header;
  }

 private:
  Status Malformed() const {
    return Error(Code::kCorrupt, "{}: the .npy header is malformed at its byte {}", where_, at_);
  }

  Status Value(std::string_view key, Header& header) {
    if (key == "descr" && !header.type) return Descr(header);
    if (key == "shape" && !header.shape) return Shape(header.shape.emplace());
    if (key == "fortran_order" && !header.fortran_order) {
      header.fortran_order = TakeWord("True");
      return *header.fortran_order || TakeWord("False") ? Status::Ok() : Malformed();
    }
    return Malformed();
  }

  Status Descr(Header& header) {
    const std::optional<std::string_view> name = String();
    if (!name) return Malformed();
    for (size_t i = 0; i < kTypes.size(); ++i) {
      if (kTypes[i].name == *name) header.type = static_cast<NpyType>(i);
    }
    if (header.type) return Status::Ok();
    return Error(Code::kUnsupported, "{}: the element type {} is not one of {}", where_,
                 Quoted(*name), "<f4, <f8, |i1, |u1, <u2, <i4, <u4, <i8");
  }

  Status Shape(std::vector<uint64_t>& shape) {
    if (!Take('(')) return Malformed();
    while (!Take(')')) {
      SkipSpace();
      uint64_t size = 0;
      const char* begin = text_.data() + at_;
      const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), size);
      if (error != std::errc() || shape.size() == kMaxNpyDimensions) return Malformed();
      at_ += static_cast<size_t>(end - begin);
      shape.push_back(size);
      if (Take(',')) continue;
      // "(5)" is a number in Python, not a shape.
      if (shape.size() == 1 || !Take(')')) return Malformed();
      break;
    }
    return Status::Ok();
  }

  void SkipSpace() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }

  bool Take(char c) {
    SkipSpace();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  bool TakeWord(std::string_view word) {
    SkipSpace();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  std::optional<std::string_view> String() {
    SkipSpace();
    if (at_ == text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) return std::nullopt;
    const size_t end = text_.find(text_[at_], at_ + 1);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view content = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return content;
  }

  std::string_view text_;
  std::string_view where_;
  size_t at_ = 0;
};

// Fails where the array does not fill exactly the `available` bytes.
Status CheckSize(const Header& header, uint64_t available, std::string_view where) {
  uint64_t bytes = TypeBytes(*header.type);
  bool overflows = false;
  for (const uint64_t size : *header.shape)
    overflows |= __builtin_mul_overflow(bytes, size, &bytes);
  if (overflows || bytes != available) {
    return Error(Code::kCorrupt, "{}: has {} bytes of data, not what shape ({}) of {} asks for",
                 where, available, fmt::join(*header.shape, ", "), NpyTypeName(*header.type));
  }
  return Status::Ok();
}

// As numpy.lib.format writes it: data starts at a multiple of 64. At least `min_bytes` long.
std::string HeaderBytes(NpyType type, std::span<const uint64_t> shape, size_t min_bytes = 0) {
  std::string header(kMagic);
  header.resize(kPrefixBytes);  // Two bytes for the length, set below.
  header +=
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", NpyTypeName(type),
                  fmt::join(shape.begin(), shape.end(), ", "), shape.size() == 1 ? "," : "");
  header.resize(std::max(RoundUp(header.size() + 1, 64), uint64_t{min_bytes}) - 1, ' ');
  header += '\n';
  const size_t length = header.size() - kPrefixBytes;
  PICCHIO_CHECK(length <= 0xffff);
  header[8] = static_cast<char>(length & 0xff);
  header[9] = static_cast<char>(length >> 8);
  return header;
}

}  // namespace

std::string_view NpyTypeName(NpyType type) { return kTypes[static_cast<size_t>(type)].name; }

Result<NpyArray> NpyArray::Read(const RandomAccessFile& file) {
  const std::string& where = file.name();
  std::string prefix(kPrefixBytes, '\0');
  if (file.size() < kPrefixBytes) {
    return Error(Code::kCorrupt, "{}: {} bytes are too few for an .npy file", where, file.size());
  }
  PICCHIO_RETURN_IF_ERROR(file.ReadAt(0, std::as_writable_bytes(std::span(prefix))));
  if (!prefix.starts_with(kMagic.substr(0, 6))) {
    return Error(Code::kCorrupt, "{}: not an .npy file: it does not begin with its magic", where);
  }
  if (!prefix.starts_with(kMagic)) {
    return Error(Code::kUnsupported, "{}: .npy format version {}.{}, only 1.0 is supported", where,
                 static_cast<unsigned char>(prefix[6]), static_cast<unsigned char>(prefix[7]));
  }
  const uint64_t header_bytes =
      static_cast<unsigned char>(prefix[8]) + 256U * static_cast<unsigned char>(prefix[9]);
  if (header_bytes > file.size() - kPrefixBytes) {
    return Error(Code::kCorrupt, "{}: a header of {} bytes does not fit the file's {}", where,
                 header_bytes, file.size());
  }
  std::string text(header_bytes, '\0');
  PICCHIO_RETURN_IF_ERROR(file.ReadAt(kPrefixBytes, std::as_writable_bytes(std::span(text))));
  PICCHIO_ASSIGN_OR_RETURN(Header header, HeaderParser(text, where).Parse());
  if (*header.fortran_order) {
    return Error(Code::kUnsupported, "{}: is in Fortran order; save it in C order", where);
  }
  const uint64_t data_start = kPrefixBytes + header_bytes;
  PICCHIO_RETURN_IF_ERROR(CheckSize(header, file.size() - data_start, where));
  NpyArray array;
  array.name_ = where;
  array.type_ = *header.type;
  array.shape_ = *std::move(header.shape);
  array.data_.resize(file.size() - data_start);
  PICCHIO_RETURN_IF_ERROR(file.ReadAt(data_start, array.data_));
  return array;
}

Result<NpyArray> NpyArray::Load(const Path& path) {
  PICCHIO_ASSIGN_OR_RETURN(const File file, File::OpenForRead(path));
  return Read(file);
}

Status NpyArray::WrongType(NpyType wanted) const {
  return Error(Code::kInvalidArgument, "{}: has elements of {}, expected {}", name_,
               NpyTypeName(type_), NpyTypeName(wanted));
}

NpyRowWriter::NpyRowWriter(AtomicFile file, std::vector<uint64_t> row_shape)
    : file_(std::move(file)), shape_(std::move(row_shape)), row_elements_(1) {
  for (const uint64_t size : shape_) row_elements_ *= size;
  PICCHIO_CHECK(row_elements_ > 0);
  // Room for the longest number of rows.
  shape_.insert(shape_.begin(), std::numeric_limits<uint64_t>::max());
  header_bytes_ = HeaderBytes(NpyType::kF32, shape_).size();
  shape_[0] = 0;
}

Status NpyRowWriter::Append(std::span<const float> rows) {
  PICCHIO_CHECK(rows.size() % row_elements_ == 0);
  const uint64_t offset = header_bytes_ + shape_[0] * row_elements_ * sizeof(float);
  PICCHIO_RETURN_IF_ERROR(file_.file().WriteAt(offset, std::as_bytes(rows)));
  shape_[0] += rows.size() / row_elements_;
  return Status::Ok();
}

Status NpyRowWriter::Finish() {
  const std::string header = HeaderBytes(NpyType::kF32, shape_, header_bytes_);
  PICCHIO_RETURN_IF_ERROR(file_.file().WriteAt(0, std::as_bytes(std::span(header))));
  return file_.Commit();
}

}  // namespace picchio
