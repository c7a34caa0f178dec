#include "format/checkpoint_index.h"

#include <algorithm>

#include "base/json.h"
#include "base/printable.h"

namespace picchio {

Result<CheckpointIndex> ParseCheckpointIndex(std::string_view json, std::string_view where) {
  PICCHIO_ASSIGN_OR_RETURN(const Json root, ParseJson(json, where));
  const auto map = root.is_object() ? root.find("weight_map") : root.end();
  if (map == root.end() || !map->is_object()) {
    return Error(Code::kCorrupt, "{}: has no object \"weight_map\" that names the tensors' files",
                 where);
  }
  CheckpointIndex index;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string() || !IsPlainFileName(file.get_ref<const std::string&>())) {
      return Error(
          Code::kCorrupt, "{}: tensor {} lies in {}, expected the name of a file in this folder",
          where, Quoted(tensor),
          file.is_string() ? Quoted(file.get_ref<const std::string&>()) : JsonTypeName(file));
    }
    index.tensors.emplace_back(tensor, file.get<std::string>());
    index.files.push_back(index.tensors.back().second);
  }
  std::sort(index.files.begin(), index.files.end());
  index.files.erase(std::unique(index.files.begin(), index.files.end()), index.files.end());
  if (index.files.empty()) return Error(Code::kCorrupt, "{}: \"weight_map\" is empty", where);
  return index;
}

}  // namespace picchio
