// The header of a Harmony message, as models write it: what comes between <|start|> and
// <|message|>.
#pragma once

#include <string>
#include <string_view>

namespace picchio {

struct HarmonyHeader {
  // Each empty where the header does not say it.
  std::string author;
  std::string recipient;
  std::string channel;
  std::string content_type;
};

// Reads the parts that begin `header`, in any order and with or without spaces between them:
//   AUTHOR   to=RECIPIENT   <|channel|>CHANNEL   <|constrain|>TYPE
// The control tokens stand in the text as they are written. Of a part that comes twice the last one
// counts. `after_start`: a <|start|> came before, so the first word should be the author.
// `is_whole`: a <|message|> came behind, so all of it is a header. `rest` gets what comes behind
// the last part that was understood: where <|message|> is missing, that is content.
HarmonyHeader ParseHarmonyHeader(std::string_view header, bool after_start, bool is_whole,
                                 std::string_view& rest);

}  // namespace picchio
