#include "apps/convert/journal.h"

#include "base/json.h"
#include "base/units.h"

namespace picchio {
namespace {

// A tensor's line is below 1 KiB; models have some 10^5 tensors.
constexpr uint64_t kMaxJournalBytes = 1_GiB;

constexpr std::string_view kHeaderStart = R"({"picchio_conversion":)";

std::string HeaderLine(std::string_view fingerprint) {
  return Json{{"picchio_conversion", fingerprint}}.dump() + "\n";
}

// The entry of one line, or nothing where the line is not a whole one.
bool ParseLine(std::string_view line, std::string& tensor, Journal::Entry& entry) {
  const Result<Json> json = ParseJson(line, "journal");
  if (!json || !json->is_object()) return false;
  const auto name = json->find("tensor");
  const auto sha256 = json->find("sha256");
  const auto error = json->find("error");
  if (name == json->end() || !name->is_string() || sha256 == json->end() || !sha256->is_string() ||
      error == json->end() || !error->is_array() || error->size() != 2 ||
      !(*error)[0].is_number() || !(*error)[1].is_number()) {
    return false;
  }
  const Result<Sha256Digest> digest = Sha256Digest::FromHex(sha256->get_ref<const std::string&>());
  if (!digest) return false;
  tensor = name->get<std::string>();
  entry = {*digest, {(*error)[0].get<double>(), (*error)[1].get<double>()}};
  return true;
}

}  // namespace

Result<Journal> Journal::Open(const Path& path, std::string_view fingerprint) {
  PICCHIO_ASSIGN_OR_RETURN(File file, File::OpenForWrite(path));
  PICCHIO_ASSIGN_OR_RETURN(const bool locked, file.TryLock());
  if (!locked) {
    return Error(Code::kUnavailable,
                 "another conversion is writing to {}: wait for it, or choose another folder",
                 PathText(ParentOf(path)));
  }
  // Only now that it is ours do its bytes stand still.
  PICCHIO_ASSIGN_OR_RETURN(const uint64_t bytes, file.CurrentSize());
  std::string text;
  if (bytes <= kMaxJournalBytes) {
    text.resize(bytes);
    PICCHIO_RETURN_IF_ERROR(file.ReadAt(0, std::as_writable_bytes(std::span(text))));
  }
  const std::string header = HeaderLine(fingerprint);
  if (!text.starts_with(header)) {
    if (text.starts_with(kHeaderStart) && text.find('\n') != std::string::npos) {
      return Error(
          Code::kInvalidArgument,
          "{} holds an unfinished conversion of another checkpoint, or with other options: "
          "finish it with those, or remove the folder to begin anew",
          PathText(ParentOf(path)));
    }
    PICCHIO_RETURN_IF_ERROR(file.Resize(0));
    PICCHIO_RETURN_IF_ERROR(file.WriteAt(0, std::as_bytes(std::span(header))));
    return Journal(std::move(file), header.size());
  }
  Journal journal(std::move(file), header.size());
  while (true) {
    const size_t newline = text.find('\n', journal.end_);
    std::string tensor;
    Entry entry;
    if (newline == std::string::npos ||
        !ParseLine(std::string_view(text).substr(journal.end_, newline - journal.end_), tensor,
                   entry)) {
      break;
    }
    journal.entries_.insert_or_assign(std::move(tensor), entry);
    journal.end_ = newline + 1;
  }
  // Whatever a crash left of a last line goes, so that the next one starts on a line of its own.
  PICCHIO_RETURN_IF_ERROR(journal.file_.Resize(journal.end_));
  return journal;
}

Status Journal::Record(std::string_view tensor, const Entry& entry) {
  const std::string line = Json{{"tensor", tensor},
                                {"sha256", entry.sha256.Hex()},
                                {"error", {entry.error.squared_error, entry.error.squared_sum}}}
                               .dump() +
                           "\n";
  PICCHIO_RETURN_IF_ERROR(file_.WriteAt(end_, std::as_bytes(std::span(line))));
  end_ += line.size();
  return Status::Ok();
}

}  // namespace picchio
