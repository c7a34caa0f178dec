#include "tokenizer/bpe_model.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/json.h"
#include "base/printable.h"
#include "tokenizer/byte_level.h"

namespace picchio {
namespace {

// Adds the tokens of `vocab`. A token that cannot be written in byte stand-ins never comes out of
// the merges; it stays as it is written, as in the reference.
Status ReadVocabulary(const Json& vocab, const std::string& where,
                      const std::unordered_set<std::string>& special, Vocabulary& vocabulary) {
  for (const auto& [token, id] : vocab.items()) {
    if (token.empty()) return Error(Code::kCorrupt, "{}: an empty token", where);
    const std::optional<int64_t> number = WholeNumber(id);
    if (!number) {
      return Error(Code::kCorrupt, "{}: the id of {} is {} where an integer is expected", where,
                   Quoted(token), JsonTypeName(id));
    }
    const std::optional<std::string> bytes = BytesOfByteLevel(token);
    const bool is_special = special.contains(token);
    const Status added = vocabulary.Add(*number, bytes && !is_special ? *bytes : token);
    if (!added.ok()) return added.WithContext(fmt::format("{}: {}", where, Quoted(token)));
    // The text of a special token must not become one through the back door.
    if (bytes && !is_special) vocabulary.MakeFindable(static_cast<int32_t>(*number));
  }
  return Status::Ok();
}

Result<std::array<int32_t, 256>> ByteIds(const Vocabulary& vocabulary, const std::string& where) {
  std::array<int32_t, 256> ids{};
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    const int32_t id = vocabulary.Find({&c, 1});
    if (id == Vocabulary::kNone) {
      return Error(Code::kUnsupported,
                   "{}: no token for the byte 0x{:02x}; a byte-level vocabulary has all 256", where,
                   byte);
    }
    ids[static_cast<size_t>(byte)] = id;
  }
  return ids;
}

// The two sides of a merge, as "a b" or ["a", "b"].
std::optional<std::pair<std::string_view, std::string_view>> SidesOf(const Json& merge) {
  if (merge.is_string()) {
    const std::string_view text = merge.get_ref<const std::string&>();
    const size_t space = text.find(' ');
    if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) {
      return std::nullopt;
    }
    return std::pair(text.substr(0, space), text.substr(space + 1));
  }
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    return std::pair<std::string_view, std::string_view>(merge[0].get_ref<const std::string&>(),
                                                         merge[1].get_ref<const std::string&>());
  }
  return std::nullopt;
}

Status ReadMerge(const Json& merge, const Vocabulary& vocabulary, Merges& merges) {
  const auto sides = SidesOf(merge);
  if (!sides) {
    return {Code::kCorrupt, "neither two tokens with a space between nor an array of two tokens"};
  }
  std::array<std::string, 2> bytes;
  std::array<int32_t, 2> ids{};
  for (size_t i = 0; i < 2; ++i) {
    const std::string_view token = i == 0 ? sides->first : sides->second;
    std::optional<std::string> side = BytesOfByteLevel(token);
    ids[i] = side ? vocabulary.Find(*side) : Vocabulary::kNone;
    if (ids[i] == Vocabulary::kNone) {
      return Error(Code::kCorrupt, "{} is not in the vocabulary", Quoted(token));
    }
    bytes[i] = std::move(*side);
  }
  const int32_t merged = vocabulary.Find(bytes[0] + bytes[1]);
  if (merged == Vocabulary::kNone) {
    return Error(Code::kCorrupt, "{} and {} make a token that is not in the vocabulary",
                 Quoted(sides->first), Quoted(sides->second));
  }
  return merges.Add(ids[0], ids[1], merged);
}

}  // namespace

Result<BpeModel> ReadBpeModel(JsonFields fields, const std::unordered_set<std::string>& special) {
  PICCHIO_ASSIGN_OR_RETURN(const std::string type, fields.String("type"));
  if (type != "BPE") return fields.Unsupported(fmt::format("the model type {} is", Quoted(type)));
  if (const Json* dropout = fields.Optional("dropout"); dropout != nullptr && *dropout != 0.0) {
    return fields.Unsupported("dropout is");
  }
  for (const std::string_view name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (const Json* affix = fields.Optional(name); affix != nullptr && *affix != Json("")) {
      return fields.Unsupported(fmt::format("{} is", name));
    }
  }
  PICCHIO_ASSIGN_OR_RETURN(const bool byte_fallback, fields.Bool("byte_fallback", false));
  if (byte_fallback) return fields.Unsupported("byte_fallback is");
  // With a token for every byte nothing is ever unknown.
  fields.Ignore("unk_token");
  fields.Ignore("fuse_unk");
  PICCHIO_ASSIGN_OR_RETURN(const bool ignore_merges, fields.Bool("ignore_merges", false));

  PICCHIO_ASSIGN_OR_RETURN(const Json* vocab, fields.Required("vocab"));
  if (!vocab->is_object()) {
    return Error(Code::kCorrupt, "{}: \"vocab\" is {} where an object is expected", fields.where(),
                 JsonTypeName(*vocab));
  }
  PICCHIO_ASSIGN_OR_RETURN(const Json* merge_list, fields.Array("merges"));
  PICCHIO_RETURN_IF_ERROR(fields.Finish());

  const std::string vocab_where = fields.where() + ".vocab";
  Vocabulary vocabulary;
  PICCHIO_RETURN_IF_ERROR(ReadVocabulary(*vocab, vocab_where, special, vocabulary));
  PICCHIO_ASSIGN_OR_RETURN(const auto byte_ids, ByteIds(vocabulary, vocab_where));
  Merges merges(byte_ids, merge_list->size());
  for (size_t i = 0; i < merge_list->size(); ++i) {
    const Status read = ReadMerge((*merge_list)[i], vocabulary, merges);
    if (!read.ok()) return read.WithContext(fmt::format("{}.merges[{}]", fields.where(), i));
  }
  return BpeModel{std::move(vocabulary), std::move(merges), ignore_merges};
}

}  // namespace picchio
