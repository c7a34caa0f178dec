// Any bytes as a model's answer, control tokens where they are spelled: every parser takes it apart
// into whole characters, the same way however it is cut, and Qwen3's loses nothing of it.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"
#include "tokenizer/chat/chat_format.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_test_support.h"

namespace {

using picchio::ChatEvent;
using picchio::ChatFormat;
using picchio::ChatParser;

constexpr std::string_view kSpelled[] = {
    "<|start|>",   "<|channel|>",  "<|message|>",  "<|constrain|>", "<|end|>",
    "<|call|>",    "<|return|>",   "<|im_start|>", "<|im_end|>",    "<|endoftext|>",
    "<tool_call>", "</tool_call>", "<think>",      "</think>",      "<|other|>"};

// Ids 0 to 255 are the bytes.
const picchio::Tokenizer& Bytes() {
  static const picchio::Tokenizer tokenizer = [] {
    picchio::Json json = picchio::TinyTokenizer();
    picchio::Json& added = json["added_tokens"];
    picchio::Json entry = added[0];
    added.clear();
    int id = 265;
    for (const std::string_view token : kSpelled) {
      entry["content"] = token;
      entry["special"] = token.starts_with("<|");
      entry["id"] = id++;
      added.push_back(entry);
    }
    auto parsed = picchio::Tokenizer::Parse(json.dump(), "bytes");
    PICCHIO_CHECK(parsed.has_value());
    return std::move(parsed).value();
  }();
  return tokenizer;
}

std::vector<int32_t> IdsOf(std::string_view answer) {
  std::vector<int32_t> ids;
  while (!answer.empty()) {
    int32_t id = static_cast<unsigned char>(answer.front());
    size_t length = 1;
    for (const std::string_view token : kSpelled) {
      if (!answer.starts_with(token)) continue;
      id = *Bytes().AddedTokenId(token);
      length = token.size();
    }
    ids.push_back(id);
    answer.remove_prefix(length);
  }
  return ids;
}

std::vector<ChatEvent> TokenByToken(const std::vector<int32_t>& ids, const ChatFormat& format) {
  picchio::ChatTokenStream stream(Bytes(), format.NewParser({}));
  std::vector<ChatEvent> events;
  for (const int32_t id : ids) {
    for (ChatEvent& event : stream.Push(id)) events.push_back(std::move(event));
  }
  for (ChatEvent& event : stream.Finish()) events.push_back(std::move(event));
  return events;
}

std::vector<ChatEvent> RunByRun(const std::vector<int32_t>& ids, const ChatFormat& format) {
  const std::unique_ptr<ChatParser> parser = format.NewParser({});
  std::vector<ChatEvent> events;
  std::vector<int32_t> run;
  const auto end_run = [&] {
    const std::string text = Bytes().Decode(run);
    if (!text.empty()) parser->PushText(text, events);
    run.clear();
  };
  for (const int32_t id : ids) {
    const std::string_view token = Bytes().TokenBytes(id);
    bool is_control = Bytes().IsSpecial(id);
    for (const std::string_view control : parser->control_tokens()) is_control |= control == token;
    if (is_control) {
      end_run();
      parser->PushControl(token, events);
    } else {
      run.push_back(id);
    }
  }
  end_run();
  parser->Finish(events);
  return events;
}

// Neighbours of a kind in one.
std::vector<ChatEvent> Together(const std::vector<ChatEvent>& events) {
  std::vector<ChatEvent> out;
  for (const ChatEvent& event : events) {
    PICCHIO_CHECK(picchio::IsValidUtf8(event.text) && picchio::IsValidUtf8(event.name));
    PICCHIO_CHECK(event.kind != ChatEvent::Kind::kToolCall || !event.name.empty());
    if (!out.empty() && out.back().kind == event.kind && event.kind != ChatEvent::Kind::kToolCall) {
      out.back().text += event.text;
    } else {
      out.push_back(event);
    }
  }
  PICCHIO_CHECK(!out.empty() && out.back().kind == ChatEvent::Kind::kEnd);
  return out;
}

void AppendWithoutLineEnds(std::string_view text, std::string& out) {
  for (const char c : text) {
    if (c != '\n') out += c;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view answer(reinterpret_cast<const char*>(data), size);
  const std::vector<int32_t> ids = IdsOf(answer);
  for (const ChatFormat* format : picchio::ChatFormats()) {
    const std::vector<ChatEvent> events = Together(TokenByToken(ids, *format));
    PICCHIO_CHECK(events == Together(RunByRun(ids, *format)));
    if (format->name() == "harmony" || answer.find("<tool_call>") != answer.npos) continue;
    std::string said;
    std::string heard;
    for (const ChatEvent& event : events) AppendWithoutLineEnds(event.text, heard);
    // Decoded in runs, as broken characters end at a control token.
    std::vector<int32_t> run;
    for (const int32_t id : ids) {
      if (id < 256) {
        run.push_back(id);
        continue;
      }
      AppendWithoutLineEnds(Bytes().Decode(run), said);
      run.clear();
    }
    AppendWithoutLineEnds(Bytes().Decode(run), said);
    PICCHIO_CHECK(said == heard);
  }
  return 0;
}
