#include "experts/access_trace.h"

#include <array>
#include <charconv>
#include <optional>

#include "base/printable.h"
#include "base/units.h"

namespace picchio {
namespace {

constexpr std::string_view kMagic = "picchio-trace";
constexpr uint64_t kVersion = 1;
constexpr uint64_t kMaxTraceBytes = 4_GiB;
constexpr size_t kBufferBytes = 1 << 20;
// A record's number must fit its type; dimensions beyond are nobody's.
constexpr uint64_t kMaxDimension = uint64_t{1} << 24;

// Fields of the first line behind magic and version, in order.
struct HeaderField {
  std::string_view name;
  uint64_t TraceHeader::*value;
  uint64_t max;
};
constexpr std::array kHeaderFields = {
    HeaderField{"layers", &TraceHeader::num_layers, kMaxDimension},
    HeaderField{"experts", &TraceHeader::num_experts, kMaxDimension},
    HeaderField{"top_k", &TraceHeader::experts_per_token, kMaxDimension},
    HeaderField{"records", &TraceHeader::num_records, UINT32_MAX - 1},
    HeaderField{"record_bytes", &TraceHeader::record_bytes, UINT64_MAX}};

// The word up to the next space, cut off the line with it.
std::string_view TakeWord(std::string_view& line) {
  const size_t end = std::min(line.find(' '), line.size());
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(std::min(end + 1, line.size()));
  return word;
}

// A whole word of digits.
std::optional<uint64_t> Number(std::string_view word) {
  uint64_t value = 0;
  const char* end = word.data() + word.size();
  const auto [at, error] = std::from_chars(word.data(), end, value);
  if (word.empty() || error != std::errc() || at != end) return std::nullopt;
  return value;
}

void AppendHeader(std::string& out, const TraceHeader& header) {
  fmt::format_to(std::back_inserter(out), "{} {}", kMagic, kVersion);
  for (const HeaderField& field : kHeaderFields) {
    fmt::format_to(std::back_inserter(out), " {} {}", field.name, header.*field.value);
  }
  out += '\n';
}

void AppendList(std::string& out, int layer, std::span<const int32_t> experts) {
  const auto append = [&out](int32_t number) {
    std::array<char, 12> digits;
    out.append(digits.data(), std::to_chars(digits.begin(), digits.end(), number).ptr);
  };
  append(layer);
  for (const int32_t expert : experts) {
    out += ' ';
    append(expert);
  }
  out += '\n';
}

Result<TraceHeader> ParseHeader(std::string_view line, std::string_view where) {
  if (TakeWord(line) != kMagic) {
    return Error(Code::kCorrupt, "{} is no trace: expected a first line that begins with \"{}\"",
                 where, kMagic);
  }
  const std::string_view version = TakeWord(line);
  if (version != "1") {
    return Error(Code::kUnsupported, "{}: a trace of version {}, this program reads {}", where,
                 Quoted(version), kVersion);
  }
  TraceHeader header;
  for (const HeaderField& field : kHeaderFields) {
    const std::string_view name = TakeWord(line);
    const std::string_view word = TakeWord(line);
    const std::optional<uint64_t> value = Number(word);
    if (name != field.name || !value.has_value() || *value == 0 || *value > field.max) {
      return Error(Code::kCorrupt, "{}, line 1: found {} {}, expected \"{}\" and 1 to {}", where,
                   Quoted(name), Quoted(word), field.name, field.max);
    }
    header.*field.value = *value;
  }
  if (!line.empty()) {
    return Error(Code::kCorrupt, "{}, line 1: {} after the last field", where, Quoted(line));
  }
  if (header.num_records > header.num_layers * header.num_experts) {
    return Error(Code::kCorrupt, "{}, line 1: {} records, more than {} layers of {} experts have",
                 where, header.num_records, header.num_layers, header.num_experts);
  }
  return header;
}

}  // namespace

uint64_t AccessTrace::num_passes() const {
  uint64_t passes = 0;
  int before = INT32_MAX;
  for (const List& list : lists) {
    passes += list.layer <= before ? 1 : 0;
    before = list.layer;
  }
  return passes;
}

uint64_t AccessTrace::num_demands() const {
  uint64_t demands = 0;
  for (const List& list : lists) demands += list.experts.size();
  return demands;
}

std::string SerializeTrace(const AccessTrace& trace) {
  std::string out;
  AppendHeader(out, trace.header);
  for (const AccessTrace::List& list : trace.lists) AppendList(out, list.layer, list.experts);
  return out;
}

Result<AccessTrace> ParseTrace(std::string_view text, std::string_view where) {
  AccessTrace trace;
  for (uint64_t number = 1; !text.empty() || number == 1; ++number) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos && number > 1) {
      return Error(Code::kCorrupt, "{}, line {}: cut short, it has no end", where, number);
    }
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (number == 1) {
      PICCHIO_ASSIGN_OR_RETURN(trace.header, ParseHeader(line, where));
      continue;
    }
    AccessTrace::List& list = trace.lists.emplace_back();
    const auto take = [&](std::string_view what, uint64_t count) -> Result<int32_t> {
      const std::string_view word = TakeWord(line);
      const std::optional<uint64_t> value = Number(word);
      if (value.has_value() && *value < count) return static_cast<int32_t>(*value);
      return Error(Code::kCorrupt, "{}, line {}: {} {}, expected 0 to {}", where, number, what,
                   Quoted(word), count - 1);
    };
    PICCHIO_ASSIGN_OR_RETURN(list.layer, take("layer", trace.header.num_layers));
    while (!line.empty()) {
      PICCHIO_ASSIGN_OR_RETURN(const int32_t expert, take("expert", trace.header.num_experts));
      list.experts.push_back(expert);
    }
  }
  return trace;
}

Result<AccessTrace> LoadTrace(const Path& path) {
  PICCHIO_ASSIGN_OR_RETURN(const std::string text, ReadFileToString(path, kMaxTraceBytes));
  return ParseTrace(text, PathText(path));
}

Result<TraceWriter> TraceWriter::Create(const Path& path, const TraceHeader& header) {
  PICCHIO_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  TraceWriter writer(std::move(file));
  AppendHeader(writer.buffer_, header);
  return writer;
}

void TraceWriter::Add(int layer, std::span<const int32_t> experts) {
  if (!status_.ok()) return;
  AppendList(buffer_, layer, experts);
  if (buffer_.size() >= kBufferBytes) Flush();
}

void TraceWriter::Flush() {
  if (!status_.ok()) return;
  status_ = file_.file().WriteAt(bytes_, std::as_bytes(std::span(buffer_)));
  bytes_ += buffer_.size();
  buffer_.clear();
}

Status TraceWriter::Finish() {
  Flush();
  PICCHIO_RETURN_IF_ERROR(status_);
  return file_.Commit();
}

}  // namespace picchio
