// Which chat format a model's template is.
//
// Recognised is the published text itself, not its looks: one changed line of a template can change
// every prompt, and a model that is prompted otherwise than it was trained answers worse without
// any error. docs/chat-formats.md lists what is recognised and why.
#pragma once

#include <string>
#include <string_view>

#include "base/file.h"
#include "base/status.h"
#include "tokenizer/chat/chat_format.h"

namespace picchio {

// The template of a model's folder: chat_template.jinja, or else the member "chat_template" of
// tokenizer_config.json, where that is a list its template "default". kNotFound where the folder
// has none.
Result<std::string> ReadChatTemplate(const Path& folder);

// Refuses every template but the known ones. `where` names it in messages. Line ends (LF, CRLF) and
// those at the end do not count: they change nothing in what a template prints.
Result<const ChatFormat*> ChatFormatOfTemplate(std::string_view text, std::string_view where);

}  // namespace picchio
