#include "experts/use_counters.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <set>
#include <system_error>

#include "base/atomic_file.h"
#include "base/crc32c.h"
#include "base/printable.h"
#include "base/units.h"

namespace picchio {
namespace {

constexpr std::string_view kMagic = "picchio-uses 1 model ";
constexpr std::string_view kSumName = "crc32c ";
// Some 20 bytes a record: room for a million of them.
constexpr uint64_t kMaxBytes = 32_MiB;
// More uses than that are as good as that.
constexpr double kMaxThousandths = 1e15;

std::string SumLine(std::string_view text) {
  return fmt::format("{}{:08x}\n", kSumName, Crc32c(std::as_bytes(std::span(text))));
}

// A number, and the character behind it, cut off the text.
std::optional<uint64_t> TakeNumber(std::string_view& text, char end) {
  uint64_t value = 0;
  const char* last = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc() || at == last || *at != end) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(at - text.data()) + 1);
  return value;
}

}  // namespace

std::string SerializeUseCounters(std::span<const CacheDirectory::Uses> uses,
                                 const CountedModel& model) {
  std::string text = fmt::format("{}{}\n", kMagic, model.id);
  for (const CacheDirectory::Uses& record : uses) {
    const double thousandths = std::round(std::min(record.uses * 1000, kMaxThousandths));
    if (!(thousandths >= 1)) continue;
    fmt::format_to(std::back_inserter(text), "{} {} {}\n", record.key.layer, record.key.expert,
                   static_cast<uint64_t>(thousandths));
  }
  return text + SumLine(text);
}

Result<std::vector<CacheDirectory::Uses>> ParseUseCounters(std::string_view text,
                                                           const CountedModel& model,
                                                           std::string_view where) {
  const auto damaged = [&](std::string_view what) {
    return Error(Code::kCorrupt, "{}: {}", where, what);
  };
  const size_t sum_at = text.rfind(kSumName);
  if (!text.starts_with("picchio-uses ")) return damaged("no counters of a model's experts");
  if (!text.starts_with(kMagic)) {
    return Error(Code::kUnsupported, "{}: counters of another version than 1", where);
  }
  if (sum_at == std::string_view::npos || text.substr(sum_at) != SumLine(text.substr(0, sum_at))) {
    return damaged("its checksum does not fit: the file is damaged");
  }
  std::string_view rest = text.substr(0, sum_at);
  rest.remove_prefix(kMagic.size());
  const size_t line_end = rest.find('\n');
  if (line_end == std::string_view::npos) return damaged("no first line");
  if (rest.substr(0, line_end) != model.id) {
    return Error(Code::kInvalidArgument, "{}: counters of another model ({}, this one is {})",
                 where, Quoted(rest.substr(0, line_end)), model.id);
  }
  rest.remove_prefix(line_end + 1);
  std::vector<CacheDirectory::Uses> uses;
  std::set<ExpertKey> seen;
  while (!rest.empty()) {
    const auto layer = TakeNumber(rest, ' ');
    const auto expert = TakeNumber(rest, ' ');
    const auto thousandths = TakeNumber(rest, '\n');
    if (!layer || !expert || !thousandths || *layer >= model.num_layers ||
        *expert >= model.num_experts || *thousandths == 0 ||
        static_cast<double>(*thousandths) > kMaxThousandths) {
      return damaged(
          fmt::format("line {} is no layer, expert and count of this model", uses.size() + 2));
    }
    const ExpertKey key{static_cast<int32_t>(*layer), static_cast<int32_t>(*expert)};
    if (!seen.insert(key).second) return damaged(fmt::format("{} stands twice", ToString(key)));
    uses.push_back({key, static_cast<double>(*thousandths) / 1000});
  }
  return uses;
}

std::vector<Path> UseCounterPlaces(const Path& folder, const CountedModel& model) {
  std::vector<Path> places = {folder / kUseCountersName};
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  Path own;
  if (cache != nullptr && *cache == '/') {
    own = cache;
  } else if (home != nullptr && *home == '/') {
    own = Path(home) / ".cache";
  }
  if (!own.empty()) {
    places.push_back(own / "picchio" / fmt::format("{}-{}", model.id, kUseCountersName));
  }
  return places;
}

Result<std::vector<CacheDirectory::Uses>> LoadUseCounters(std::span<const Path> places,
                                                          const CountedModel& model) {
  for (const Path& place : places) {
    if (!FileExists(place)) continue;
    PICCHIO_ASSIGN_OR_RETURN(const std::string text, ReadFileToString(place, kMaxBytes));
    return ParseUseCounters(text, model, PathText(place));
  }
  return std::vector<CacheDirectory::Uses>();
}

Status SaveUseCounters(std::span<const CacheDirectory::Uses> uses, std::span<const Path> places,
                       const CountedModel& model) {
  const std::string text = SerializeUseCounters(uses, model);
  Status status = Status::Ok();
  for (const Path& place : places) {
    // The model's folder is there; the user's own may have to be made.
    std::error_code error;
    if (&place != &places.front()) std::filesystem::create_directories(place.parent_path(), error);
    status = WriteFileAtomically(place, text);
    if (status.ok()) return status;
  }
  return status;
}

}  // namespace picchio
