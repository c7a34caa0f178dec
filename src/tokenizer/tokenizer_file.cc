#include "tokenizer/tokenizer_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/function_ref.h"
#include "base/json.h"
#include "base/printable.h"
#include "tokenizer/bpe_model.h"
#include "tokenizer/json_fields.h"
#include "tokenizer/nfc.h"

namespace picchio {
namespace {

// Calls `visit(fields, type)` for `part`, or, where it is a "Sequence", for each of the parts that
// it holds under `list_name`, at any depth.
using Visit = FunctionRef<Status(JsonFields&, const std::string&)>;
Status ForEachPart(const Json& part, std::string where, std::string_view list_name, Visit visit) {
  PICCHIO_ASSIGN_OR_RETURN(JsonFields fields, JsonFields::Of(part, std::move(where)));
  PICCHIO_ASSIGN_OR_RETURN(const std::string type, fields.String("type"));
  if (type != "Sequence") {
    PICCHIO_RETURN_IF_ERROR(visit(fields, type));
    return fields.Finish();
  }
  PICCHIO_ASSIGN_OR_RETURN(const Json* list, fields.Array(list_name));
  for (size_t i = 0; i < list->size(); ++i) {
    PICCHIO_RETURN_IF_ERROR(ForEachPart(
        (*list)[i], fmt::format("{}.{}[{}]", fields.where(), list_name, i), list_name, visit));
  }
  return fields.Finish();
}

// ---- What happens to the text before.

// Whether texts are brought into NFC.
Result<bool> ReadNormalizer(const Json* part, const std::string& where) {
  bool nfc = false;
  if (part == nullptr) return nfc;
  PICCHIO_RETURN_IF_ERROR(ForEachPart(
      *part, where, "normalizers", [&nfc](const JsonFields& fields, const std::string& type) {
        if (type != "NFC") {
          return fields.Unsupported(fmt::format("the normalizer {} is", Quoted(type)));
        }
        nfc = true;
        return Status::Ok();
      }));
  return nfc;
}

Result<Regex> ReadSplit(JsonFields& fields) {
  PICCHIO_ASSIGN_OR_RETURN(const std::string behavior, fields.String("behavior"));
  PICCHIO_ASSIGN_OR_RETURN(const bool invert, fields.Bool("invert", false));
  if (behavior != "Isolated" || invert) {
    return fields.Unsupported(
        fmt::format("the behavior {}{} is", Quoted(behavior), invert ? ", inverted," : ""));
  }
  PICCHIO_ASSIGN_OR_RETURN(JsonFields pattern, fields.Object("pattern"));
  PICCHIO_ASSIGN_OR_RETURN(const std::string regex, pattern.String("Regex"));
  PICCHIO_RETURN_IF_ERROR(pattern.Finish());
  auto compiled = Regex::Compile(regex);
  if (!compiled.has_value()) return compiled.error().WithContext(pattern.where());
  return compiled;
}

// One stage. The ByteLevel one ends the list: what came after would see stand-ins, not text.
Status ReadStage(JsonFields& fields, const std::string& type, bool& ended, PreTokenizer& out) {
  if (ended) return fields.Unsupported(fmt::format("{} after ByteLevel is", Quoted(type)));
  if (type == "Split") {
    PICCHIO_ASSIGN_OR_RETURN(Regex regex, ReadSplit(fields));
    out.AddSplit(std::move(regex));
    return Status::Ok();
  }
  if (type != "ByteLevel") {
    return fields.Unsupported(fmt::format("the pre-tokenizer {} is", Quoted(type)));
  }
  ended = true;
  fields.Ignore("trim_offsets");
  PICCHIO_ASSIGN_OR_RETURN(const bool prefix, fields.Bool("add_prefix_space", true));
  if (prefix) out.AddPrefixSpace();
  PICCHIO_ASSIGN_OR_RETURN(const bool use_regex, fields.Bool("use_regex", true));
  if (!use_regex) return Status::Ok();
  PICCHIO_ASSIGN_OR_RETURN(Regex regex, Regex::Compile(kByteLevelRegex));
  out.AddSplit(std::move(regex));
  return Status::Ok();
}

Result<PreTokenizer> ReadPreTokenizer(const Json& part, const std::string& where) {
  PreTokenizer pre_tokenizer;
  bool ended = false;
  PICCHIO_RETURN_IF_ERROR(
      ForEachPart(part, where, "pretokenizers", [&](JsonFields& fields, const std::string& type) {
        return ReadStage(fields, type, ended, pre_tokenizer);
      }));
  if (!ended) {
    return Error(Code::kUnsupported,
                 "{}: no ByteLevel stage; only byte-level tokenizers are "
                 "supported",
                 where);
  }
  return pre_tokenizer;
}

// ---- What happens to the ids afterwards: nothing that we must do, but that has to be seen.

// A template without its special tokens must be the text, once.
Status CheckTemplate(JsonFields& fields) {
  for (const std::string_view name : {"pair", "special_tokens"}) fields.Ignore(name);
  PICCHIO_ASSIGN_OR_RETURN(const Json* single, fields.Array("single"));
  size_t texts = 0;
  for (const Json& piece : *single) {
    PICCHIO_ASSIGN_OR_RETURN(JsonFields what, JsonFields::Of(piece, fields.where() + ".single"));
    what.Ignore("SpecialToken");
    if (what.Optional("Sequence") != nullptr) ++texts;
    PICCHIO_RETURN_IF_ERROR(what.Finish());
  }
  if (texts != 1) return fields.Unsupported(fmt::format("a template with {} texts is", texts));
  return Status::Ok();
}

Status CheckPostProcessor(const Json* part, const std::string& where) {
  if (part == nullptr) return Status::Ok();
  return ForEachPart(*part, where, "processors", [](JsonFields& fields, const std::string& type) {
    if (type == "TemplateProcessing") return CheckTemplate(fields);
    if (type != "ByteLevel") {
      return fields.Unsupported(fmt::format("the post-processor {} is", Quoted(type)));
    }
    // All of them concern offsets.
    for (const std::string_view name : {"add_prefix_space", "trim_offsets", "use_regex"}) {
      fields.Ignore(name);
    }
    return Status::Ok();
  });
}

Status CheckDecoder(JsonFields fields) {
  PICCHIO_ASSIGN_OR_RETURN(const std::string type, fields.String("type"));
  if (type != "ByteLevel")
    return fields.Unsupported(fmt::format("the decoder {} is", Quoted(type)));
  for (const std::string_view name : {"add_prefix_space", "trim_offsets", "use_regex"}) {
    fields.Ignore(name);
  }
  return fields.Finish();
}

// ---- Added tokens.

struct AddedToken {
  std::string content;
  std::string searched;  // The content as it stands in the text that is searched for it.
  int64_t id;
  bool normalized;
  bool special;
};

Result<AddedToken> ReadAddedToken(const Json& token, bool nfc, const std::string& where) {
  PICCHIO_ASSIGN_OR_RETURN(JsonFields fields, JsonFields::Of(token, where));
  AddedToken added{};
  PICCHIO_ASSIGN_OR_RETURN(added.content, fields.String("content"));
  PICCHIO_ASSIGN_OR_RETURN(added.id, fields.Integer("id"));
  PICCHIO_ASSIGN_OR_RETURN(added.special, fields.Bool("special", false));
  PICCHIO_ASSIGN_OR_RETURN(added.normalized, fields.Bool("normalized", !added.special));
  if (added.content.empty()) return Error(Code::kCorrupt, "{}: an empty token", where);
  for (const std::string_view name : {"lstrip", "rstrip", "single_word"}) {
    PICCHIO_ASSIGN_OR_RETURN(const bool set, fields.Bool(name, false));
    if (set) return fields.Unsupported(fmt::format("{} of {} is", name, Quoted(added.content)));
  }
  PICCHIO_RETURN_IF_ERROR(fields.Finish());
  added.searched = nfc && added.normalized ? ToNfc(added.content) : added.content;
  return added;
}

Result<std::vector<AddedToken>> ReadAddedTokens(const Json* list, bool nfc,
                                                const std::string& where) {
  std::vector<AddedToken> tokens;
  if (list == nullptr) return tokens;
  if (!list->is_array()) {
    return Error(Code::kCorrupt, "{}: {} where an array is expected", where, JsonTypeName(*list));
  }
  std::unordered_set<std::string> seen;
  for (size_t i = 0; i < list->size(); ++i) {
    PICCHIO_ASSIGN_OR_RETURN(AddedToken token,
                             ReadAddedToken((*list)[i], nfc, fmt::format("{}[{}]", where, i)));
    if (!seen.insert(token.searched).second) {
      return Error(Code::kCorrupt, "{}[{}]: {} is added twice", where, i, Quoted(token.content));
    }
    tokens.push_back(std::move(token));
  }
  return tokens;
}

// Gives the added tokens their place in the vocabulary. One that the model's vocabulary already has
// (`vocab`) must have its id there.
Status PlaceAddedTokens(const std::vector<AddedToken>& tokens, const Json& vocab,
                        const std::string& where, Vocabulary& vocabulary) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    const AddedToken& token = tokens[i];
    const auto known = vocab.find(token.content);
    Status status;
    if (known == vocab.end()) {
      status = vocabulary.Add(token.id, token.content);
    } else if (*known != token.id) {
      status = Error(Code::kCorrupt, "id {}, but the model's vocabulary gives it {}", token.id,
                     known->get<int64_t>());
    }
    if (!status.ok()) {
      return status.WithContext(fmt::format("{}[{}]: {}", where, i, Quoted(token.content)));
    }
  }
  return Status::Ok();
}

}  // namespace

Result<Tokenizer> TokenizerFile::Parse(std::string_view json, std::string_view where) {
  PICCHIO_ASSIGN_OR_RETURN(const Json root, ParseJson(json, where));
  PICCHIO_ASSIGN_OR_RETURN(JsonFields fields, JsonFields::Of(root, std::string(where)));
  const auto at = [&where](std::string_view name) { return fmt::format("{}: {}", where, name); };

  PICCHIO_ASSIGN_OR_RETURN(const std::string version, fields.String("version"));
  if (version != "1.0")
    return fields.Unsupported(fmt::format("the version {} is", Quoted(version)));
  for (const std::string_view name : {"truncation", "padding"}) {
    if (fields.Optional(name) != nullptr) return fields.Unsupported(fmt::format("{} is", name));
  }
  PICCHIO_ASSIGN_OR_RETURN(const bool nfc,
                           ReadNormalizer(fields.Optional("normalizer"), at("normalizer")));
  PICCHIO_ASSIGN_OR_RETURN(
      const std::vector<AddedToken> added,
      ReadAddedTokens(fields.Optional("added_tokens"), nfc, at("added_tokens")));
  PICCHIO_ASSIGN_OR_RETURN(const Json* pre, fields.Required("pre_tokenizer"));
  PICCHIO_ASSIGN_OR_RETURN(PreTokenizer pre_tokenizer, ReadPreTokenizer(*pre, at("pre_tokenizer")));
  PICCHIO_RETURN_IF_ERROR(
      CheckPostProcessor(fields.Optional("post_processor"), at("post_processor")));
  PICCHIO_ASSIGN_OR_RETURN(const Json* decoder, fields.Required("decoder"));
  PICCHIO_ASSIGN_OR_RETURN(JsonFields decoder_fields, JsonFields::Of(*decoder, at("decoder")));
  PICCHIO_RETURN_IF_ERROR(CheckDecoder(std::move(decoder_fields)));
  PICCHIO_ASSIGN_OR_RETURN(const Json* model_json, fields.Required("model"));
  PICCHIO_ASSIGN_OR_RETURN(JsonFields model_fields, JsonFields::Of(*model_json, at("model")));
  PICCHIO_RETURN_IF_ERROR(fields.Finish());

  std::unordered_set<std::string> special;
  for (const AddedToken& token : added) {
    if (token.special) special.insert(token.content);
  }
  PICCHIO_ASSIGN_OR_RETURN(BpeModel model, ReadBpeModel(std::move(model_fields), special));
  PICCHIO_RETURN_IF_ERROR(
      PlaceAddedTokens(added, model_json->at("vocab"), at("added_tokens"), model.vocabulary));

  Tokenizer tokenizer(std::string(where), std::move(model.vocabulary), std::move(model.merges));
  tokenizer.ignore_merges_ = model.ignore_merges;
  tokenizer.nfc_ = nfc;
  tokenizer.pre_tokenizer_ = std::move(pre_tokenizer);
  std::vector<std::pair<std::string, int32_t>> raw;
  std::vector<std::pair<std::string, int32_t>> normalized;
  for (const AddedToken& token : added) {
    const auto id = static_cast<int32_t>(token.id);
    tokenizer.added_ids_.push_back(id);
    if (token.special) tokenizer.special_ids_.push_back(id);
    (token.normalized ? normalized : raw).emplace_back(token.searched, id);
  }
  std::sort(tokenizer.special_ids_.begin(), tokenizer.special_ids_.end());
  tokenizer.added_ = AddedTokens(std::move(raw));
  tokenizer.added_normalized_ = AddedTokens(std::move(normalized));
  return tokenizer;
}

}  // namespace picchio
