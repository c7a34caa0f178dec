#include "tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "base/units.h"
#include "tokenizer/regex_syntax.h"

namespace picchio {
namespace {

template <auto kFree>
struct Deleter {
  template <typename T>
  void operator()(T* pointer) const {
    kFree(pointer);
  }
};
using PcreCode = std::unique_ptr<pcre2_code, Deleter<pcre2_code_free>>;
using PcreMatchData = std::unique_ptr<pcre2_match_data, Deleter<pcre2_match_data_free>>;
using PcreMatchContext = std::unique_ptr<pcre2_match_context, Deleter<pcre2_match_context_free>>;
using PcreCompileContext =
    std::unique_ptr<pcre2_compile_context, Deleter<pcre2_compile_context_free>>;

// Published patterns have a few hundred bytes.
constexpr size_t kMaxPatternBytes = 16384;

// One match of the patterns in use takes a few steps per character; what takes this many more
// backtracks without end.
constexpr size_t kStepsPerMatch = 1'000'000;
constexpr size_t kStepsPerByte = 16;

constexpr uint32_t kHeapKiB = 256_MiB / 1_KiB;

std::string MessageOf(int error) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2_get_error_message(error, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

}  // namespace

struct Regex::Compiled {
  std::shared_ptr<pcre2_code> pcre;
};

Regex::Regex(std::unique_ptr<Compiled> compiled) : compiled_(std::move(compiled)) {}
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

Result<Regex> Regex::Compile(std::string_view pattern) {
  if (pattern.size() > kMaxPatternBytes) {
    return Error(Code::kUnsupported,
                 "a regular expression of {} bytes, more than the {} that are allowed",
                 pattern.size(), kMaxPatternBytes);
  }
  PICCHIO_ASSIGN_OR_RETURN(const std::string translated, TranslateRegex(pattern));
  const PcreCompileContext context(pcre2_compile_context_create(nullptr));
  PICCHIO_CHECK(context != nullptr);
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);  // What '.' leaves out.
  int error = 0;
  PCRE2_SIZE error_at = 0;
  PcreCode pcre(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                              PCRE2_UTF | PCRE2_UCP, &error, &error_at, context.get()));
  if (pcre == nullptr) {
    return Error(Code::kCorrupt, "the regular expression does not compile: {}", MessageOf(error));
  }
  uint32_t matches_empty = 0;
  pcre2_pattern_info(pcre.get(), PCRE2_INFO_MATCHEMPTY, &matches_empty);
  if (matches_empty != 0) {
    return Error(Code::kUnsupported,
                 "the regular expression can match the empty string, which does not split a text");
  }
  // On failure pcre2_match interprets.
  pcre2_jit_compile(pcre.get(), PCRE2_JIT_COMPLETE);
  return Regex(std::make_unique<Compiled>(Compiled{std::move(pcre)}));
}

Status Regex::ForEachMatch(std::string_view text,
                           FunctionRef<void(size_t, size_t)> on_match) const {
  const pcre2_code* pcre = compiled_->pcre.get();
  const PcreMatchData match(pcre2_match_data_create_from_pattern(pcre, nullptr));
  const PcreMatchContext context(pcre2_match_context_create(nullptr));
  PICCHIO_CHECK(match != nullptr && context != nullptr);
  const size_t steps = kStepsPerMatch + kStepsPerByte * text.size();
  pcre2_set_match_limit(context.get(), static_cast<uint32_t>(std::min<size_t>(steps, UINT32_MAX)));
  pcre2_set_heap_limit(context.get(), kHeapKiB);

  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(match.get());
  for (size_t from = 0; from < text.size(); from = bounds[1]) {
    // The caller vouches for the encoding: a check per match would make the loop quadratic.
    const auto find = [&](uint32_t options) {
      return pcre2_match(pcre, subject, text.size(), from, PCRE2_NO_UTF_CHECK | options,
                         match.get(), context.get());
    };
    int result = find(0);
    // Machine code has a small fixed stack; the interpreter backtracks on the heap.
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = find(PCRE2_NO_JIT);
    if (result == PCRE2_ERROR_NOMATCH) break;
    if (result < 0) {
      return Error(Code::kUnsupported,
                   "the tokenizer's regular expression gave up after byte {} of the text: {}", from,
                   MessageOf(result));
    }
    on_match(bounds[0], bounds[1]);
  }
  return Status::Ok();
}

bool Regex::is_compiled_to_machine_code() const {
  size_t bytes = 0;
  pcre2_pattern_info(compiled_->pcre.get(), PCRE2_INFO_JITSIZE, &bytes);
  return bytes > 0;
}

}  // namespace picchio
