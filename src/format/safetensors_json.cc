#include "format/safetensors_json.h"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/printable.h"

namespace picchio {
namespace {

// More dimensions than any framework has; keeps a header of one endless shape small.
constexpr size_t kMaxDimensions = 64;

enum class State { kStart, kTop, kMetadata, kTensor, kShape, kOffsets, kDone };
enum class Field { kNone, kDtype, kShape, kOffsets };

class Handler final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Handler(std::string_view where) : where_(where) {}

  bool null() override { return Unexpected("null"); }
  bool boolean(bool) override { return Unexpected("a boolean"); }
  bool number_integer(number_integer_t) override { return Unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override {
    return Unexpected("a number that is not a whole one below 2^64");
  }
  bool binary(binary_t&) override { return Unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (state_ == State::kShape) {
      if (tensor_.shape.size() == kMaxDimensions) {
        return Fail(Code::kCorrupt, fmt::format("has more than {} dimensions", kMaxDimensions));
      }
      tensor_.shape.push_back(value);
      return true;
    }
    if (state_ == State::kOffsets) {
      if (num_offsets_ == offsets_.size())
        return Fail(Code::kCorrupt, "has more than two data_offsets");
      offsets_[num_offsets_++] = value;
      return true;
    }
    return Unexpected("a number");
  }

  bool string(string_t& value) override {
    if (state_ == State::kMetadata) return true;
    if (state_ != State::kTensor || field_ != Field::kDtype) return Unexpected("a string");
    auto dtype = ParseDtype(value, Here());
    if (!dtype.has_value()) {
      status_ = dtype.error();
      return false;
    }
    tensor_.dtype = *dtype;
    return true;
  }

  bool start_object(size_t) override {
    if (state_ == State::kStart) {
      state_ = State::kTop;
    } else if (state_ == State::kTop) {
      state_ = in_metadata_ ? State::kMetadata : State::kTensor;
    } else {
      return Unexpected("an object");
    }
    return true;
  }

  bool key(string_t& name) override {
    if (state_ == State::kMetadata) return true;
    if (state_ == State::kTop) return TopKey(name);
    return TensorKey(name);
  }

  bool end_object() override {
    if (state_ == State::kTop) {
      state_ = State::kDone;
      return true;
    }
    const bool complete = state_ == State::kMetadata || FinishTensor();
    state_ = State::kTop;
    in_metadata_ = false;
    return complete;
  }

  bool start_array(size_t) override {
    if (state_ == State::kTensor && field_ == Field::kShape) {
      state_ = State::kShape;
    } else if (state_ == State::kTensor && field_ == Field::kOffsets) {
      state_ = State::kOffsets;
    } else {
      return Unexpected("an array");
    }
    return true;
  }

  bool end_array() override {
    state_ = State::kTensor;
    return true;
  }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    status_ =
        Error(Code::kCorrupt, "{}: the header is not valid JSON at its byte {}", where_, position);
    return false;
  }

  Result<std::vector<TensorInfo>> Take() {
    if (!status_.ok()) return status_;
    return std::move(tensors_);
  }

 private:
  bool TopKey(const std::string& name) {
    in_metadata_ = name == kSafetensorsMetadata;
    if (in_metadata_) {
      return !std::exchange(seen_metadata_, true) || Fail(Code::kCorrupt, "stands twice");
    }
    tensor_ = {};
    tensor_.name = name;
    seen_ = {};
    num_offsets_ = 0;
    if (name.empty() || HasControlBytes(name)) {
      return Fail(Code::kUnsupported, "has a name that is empty or has control characters");
    }
    return true;
  }

  bool TensorKey(const std::string& name) {
    field_ = name == "dtype"          ? Field::kDtype
             : name == "shape"        ? Field::kShape
             : name == "data_offsets" ? Field::kOffsets
                                      : Field::kNone;
    if (field_ == Field::kNone) {
      return Fail(Code::kUnsupported, fmt::format("has the unknown field {}", Quoted(name)));
    }
    if (std::exchange(seen_[static_cast<size_t>(field_)], true)) {
      return Fail(Code::kCorrupt, fmt::format("has the field {} twice", Quoted(name)));
    }
    return true;
  }

  bool FinishTensor() {
    if (!seen_[1] || !seen_[2] || !seen_[3]) {
      return Fail(Code::kCorrupt, "lacks one of dtype, shape and data_offsets");
    }
    if (num_offsets_ != 2) return Fail(Code::kCorrupt, "has fewer than two data_offsets");
    auto elements = CountElements(tensor_.shape, tensor_.dtype);
    if (!elements.has_value()) {
      status_ = elements.error().WithContext(Here());
      return false;
    }
    tensor_.bytes = *elements * DtypeBytes(tensor_.dtype);
    tensor_.offset = offsets_[0];
    if (offsets_[1] < offsets_[0] || offsets_[1] - offsets_[0] != tensor_.bytes) {
      return Fail(Code::kCorrupt,
                  fmt::format("has data_offsets [{},{}], but its shape {} of {} takes {} bytes",
                              offsets_[0], offsets_[1], ShapeText(tensor_.shape),
                              DtypeName(tensor_.dtype), tensor_.bytes));
    }
    tensors_.push_back(std::move(tensor_));
    return true;
  }

  // "tensor "a" of model.safetensors", or the header where no tensor is open.
  std::string Here() const {
    if (in_metadata_) return fmt::format("{} of {}", kSafetensorsMetadata, where_);
    if (state_ == State::kStart) return fmt::format("the header of {}", where_);
    return fmt::format("tensor {} of {}", Quoted(tensor_.name), where_);
  }

  bool Fail(Code code, std::string_view what) {
    status_ = Error(code, "{} {}", Here(), what);
    return false;
  }

  bool Unexpected(std::string_view what) {
    return Fail(Code::kCorrupt, fmt::format("has {} where none belongs", what));
  }

  std::string_view where_;
  State state_ = State::kStart;
  bool in_metadata_ = false;
  bool seen_metadata_ = false;
  Field field_ = Field::kNone;
  std::array<bool, 4> seen_{};  // By Field.
  TensorInfo tensor_;
  std::array<uint64_t, 2> offsets_{};
  size_t num_offsets_ = 0;
  std::vector<TensorInfo> tensors_;
  Status status_;
};

}  // namespace

Result<std::vector<TensorInfo>> ParseSafetensorsJson(std::string_view json,
                                                     std::string_view where) {
  // The parser would pass over a byte-order mark and leading space; the format has neither.
  if (!json.starts_with('{')) {
    return Error(Code::kCorrupt, "{}: the header does not begin with '{{'", where);
  }
  // It would also take a NUL for the end of the text.
  if (const size_t nul = json.find('\0'); nul != std::string_view::npos) {
    return Error(Code::kCorrupt, "{}: the header is not valid JSON: a NUL at byte {}", where, nul);
  }
  Handler handler(where);
  nlohmann::json::sax_parse(json, &handler);
  return handler.Take();
}

}  // namespace picchio
