#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include "base/units.h"
#include "base/utf8.h"
#include "tokenizer/nfc.h"
#include "tokenizer/stream_decoder.h"
#include "tokenizer/tokenizer_file.h"

namespace picchio {
namespace {

constexpr uint64_t kMaxFileBytes = 512_MiB;
// Far beyond any context. NFC can triple a text and prefixed spaces double that: offsets into it
// still fit 32 bits.
constexpr size_t kMaxTextBytes = 256_MiB;

}  // namespace

// One call of Encode.
class Tokenizer::Encoding {
 public:
  explicit Encoding(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // `text` with added tokens recognised.
  Status EncodeRecognising(std::string_view text) {
    return Between(tokenizer_.added_, text, [this](std::string_view raw) {
      return Normalized(raw, [this](std::string_view normalized) {
        return Between(tokenizer_.added_normalized_, normalized,
                       [this](std::string_view plain) { return EncodePlain(plain); });
      });
    });
  }

  Status EncodeAsText(std::string_view text) {
    return Normalized(text,
                      [this](std::string_view normalized) { return EncodePlain(normalized); });
  }

  std::vector<int32_t> Take() { return std::move(out_); }

 private:
  // Where a piece was last seen, and what became of it. Most pieces of real text come again and
  // again; looking one up is several times cheaper than merging it.
  struct Seen {
    size_t hash = 0;
    uint32_t begin = 0;  // In the text at hand.
    uint32_t length = 0;
    size_t out_begin = 0;
    size_t out_end = 0;
  };
  static constexpr size_t kMaxSeenLength = 32;
  static constexpr size_t kMaxSeen = 1 << 14;

  // Hands what lies between the tokens found in `text` to `encode`, in order with their ids.
  template <typename Encode>
  Status Between(const AddedTokens& added, std::string_view text, Encode encode) {
    if (added.empty()) return encode(text);
    for (size_t at = 0; at < text.size();) {
      const AddedTokens::Match match = added.Find(text, at);
      if (match.begin > at) PICCHIO_RETURN_IF_ERROR(encode(text.substr(at, match.begin - at)));
      if (match.id >= 0) out_.push_back(match.id);
      at = match.end;
    }
    return Status::Ok();
  }

  template <typename Encode>
  Status Normalized(std::string_view text, Encode encode) {
    if (!tokenizer_.nfc_ || IsTriviallyNfc(text)) return encode(text);
    return encode(ToNfc(text));
  }

  Status EncodePlain(std::string_view text) {
    PICCHIO_ASSIGN_OR_RETURN(const PreTokens tokens, tokenizer_.pre_tokenizer_.Split(text));
    seen_.assign(std::bit_ceil(std::min(kMaxSeen, tokens.ends.size() + 1)), {});
    size_t begin = 0;
    for (const size_t end : tokens.ends) {
      EncodePiece(tokens.text, begin, end - begin);
      begin = end;
    }
    return Status::Ok();
  }

  void EncodePiece(std::string_view text, size_t begin, size_t length) {
    const std::string_view piece = text.substr(begin, length);
    if (length > kMaxSeenLength) return EncodeNewPiece(piece);
    const size_t hash = std::hash<std::string_view>()(piece);
    Seen& seen = seen_[hash & (seen_.size() - 1)];
    if (seen.hash == hash && text.substr(seen.begin, seen.length) == piece) {
      for (size_t i = seen.out_begin; i < seen.out_end; ++i) out_.push_back(out_[i]);
      return;
    }
    seen = {hash, static_cast<uint32_t>(begin), static_cast<uint32_t>(length), out_.size(), 0};
    EncodeNewPiece(piece);
    seen.out_end = out_.size();
  }

  void EncodeNewPiece(std::string_view piece) {
    if (tokenizer_.ignore_merges_) {
      const int32_t whole = tokenizer_.vocabulary_.Find(piece);
      if (whole != Vocabulary::kNone) return out_.push_back(whole);
    }
    tokenizer_.merges_.Encode(piece, scratch_, out_);
  }

  const Tokenizer& tokenizer_;
  std::vector<int32_t> out_;
  std::vector<Seen> seen_;  // By hash; a newer piece takes an older one's place.
  Merges::Scratch scratch_;
};

Result<Tokenizer> Tokenizer::Load(const Path& path) {
  PICCHIO_ASSIGN_OR_RETURN(const std::string json, ReadFileToString(path, kMaxFileBytes));
  return Parse(json, PathText(path));
}

Result<Tokenizer> Tokenizer::Parse(std::string_view json, std::string_view where) {
  return TokenizerFile::Parse(json, where);
}

Result<std::vector<int32_t>> Tokenizer::Encode(std::string_view text, SpecialTokens special) const {
  if (text.size() > kMaxTextBytes) {
    return Error(Code::kInvalidArgument, "a text of {} bytes; at most {} can be tokenised at once",
                 text.size(), kMaxTextBytes);
  }
  if (const size_t valid = ValidUtf8Prefix(text); valid < text.size()) {
    return Error(Code::kInvalidArgument,
                 "the text is not UTF-8: byte {} (0x{:02x}) begins no valid character", valid,
                 static_cast<uint8_t>(text[valid]));
  }
  Encoding encoding(*this);
  PICCHIO_RETURN_IF_ERROR(special == SpecialTokens::kRecognise ? encoding.EncodeRecognising(text)
                                                               : encoding.EncodeAsText(text));
  return encoding.Take();
}

std::string Tokenizer::Decode(std::span<const int32_t> ids) const {
  StreamDecoder decoder(*this);
  std::string text;
  for (const int32_t id : ids) text += decoder.Push(id);
  return text + decoder.Finish();
}

Status Tokenizer::CheckFitsVocabulary(int64_t model_vocab_size) const {
  if (vocab_size() <= model_vocab_size) return Status::Ok();
  return Error(Code::kCorrupt,
               "{}: token ids reach {}, but the model's vocabulary has {} entries: the tokenizer "
               "belongs to another model",
               where_, vocab_size() - 1, model_vocab_size);
}

std::optional<int32_t> Tokenizer::AddedTokenId(std::string_view content) const {
  for (const int32_t id : added_ids_) {
    if (vocabulary_.Bytes(id) == content) return id;
  }
  return std::nullopt;
}

bool Tokenizer::IsSpecial(int32_t id) const {
  return std::binary_search(special_ids_.begin(), special_ids_.end(), id);
}

}  // namespace picchio
