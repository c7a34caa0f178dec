// Names from outside, made fit for a message, and our own made fit for a file.
#pragma once

#include <string>
#include <string_view>

namespace picchio {

// `text` in double quotes, control bytes, quotes and backslashes as \xNN, cut after 200 bytes, or
// before the character that they end in: a hostile name can neither break a line of output nor
// flood it.
std::string Quoted(std::string_view text);

// All of `bytes` in double quotes: control bytes and those that are no UTF-8 as \xNN, and \ before
// quotes and backslashes. Distinct bytes give distinct lines, each of them one line.
std::string QuotedBytes(std::string_view bytes);

// `text` as a string of JSON. It has no control bytes.
std::string JsonString(std::string_view text);

// Whether `text` holds a byte below 0x20 or 0x7f.
bool HasControlBytes(std::string_view text);

// Whether `name` can be a file directly in a folder: not empty, "." or "..", without a separator of
// any system ('/', '\\') and without control bytes.
bool IsPlainFileName(std::string_view name);

}  // namespace picchio
