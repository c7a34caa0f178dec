#include "base/foreign_content.h"

#include <algorithm>
#include <array>
#include <span>

namespace picchio {
namespace {

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool BeginsLike(std::string_view text, std::string_view lower_case) {
  return text.size() >= lower_case.size() &&
         std::equal(lower_case.begin(), lower_case.end(), text.begin(),
                    [](char expected, char found) { return expected == Lower(found); });
}

}  // namespace

Status CheckNotForeign(std::string_view first_bytes, std::string_view where) {
  if (first_bytes.starts_with("version https://git-lfs") ||
      first_bytes.starts_with("version http://git-media")) {
    return Error(Code::kUnsupported,
                 "{} is a Git LFS pointer, not the file itself: run `git lfs pull` in its folder",
                 where);
  }
  std::string_view text = first_bytes;
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  text.remove_prefix(std::min(text.size(), text.find_first_not_of(" \t\r\n")));
  constexpr std::array<std::string_view, 4> kPages = {"<!doctype", "<html", "<head", "<?xml"};
  if (std::ranges::any_of(kPages, [text](auto start) { return BeginsLike(text, start); })) {
    return Error(Code::kUnsupported,
                 "{} is a web page, not the file itself: the download went to the wrong address or "
                 "needs a login; fetch it again",
                 where);
  }
  return Status::Ok();
}

Status CheckNotForeign(const RandomAccessFile& file) {
  std::array<char, 64> first{};
  const size_t available = std::min<uint64_t>(file.size(), first.size());
  PICCHIO_RETURN_IF_ERROR(
      file.ReadAt(0, std::as_writable_bytes(std::span(first)).first(available)));
  return CheckNotForeign({first.data(), available}, file.name());
}

}  // namespace picchio
