#include "format/tensor_directory.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/printable.h"
#include "format/checkpoint_index.h"

namespace picchio {
namespace {

constexpr std::string_view kSingleName = "model.safetensors";
constexpr std::string_view kIndexName = "model.safetensors.index.json";
// The largest published models have indexes of 10 MB; as a tree, JSON takes many times its size.
constexpr uint64_t kMaxIndexBytes = 32_MiB;

// What a folder without safetensors weights has instead, as a sentence.
Status NoCheckpoint(const Path& folder) {
  PICCHIO_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListFiles(folder));
  const std::string where = PathText(folder);
  const auto find = [&names](auto matches) {
    const auto at = std::find_if(names.begin(), names.end(), matches);
    return at == names.end() ? nullptr : &*at;
  };
  if (const auto* shard = find([](const std::string& n) { return n.ends_with(".safetensors"); })) {
    return Error(
        Code::kNotFound,
        "{} has {} but neither {} nor {}: the download is incomplete, fetch what is missing", where,
        Quoted(*shard), kSingleName, kIndexName);
  }
  if (const auto* gguf = find([](const std::string& n) { return n.ends_with(".gguf"); })) {
    return Error(Code::kUnsupported,
                 "{} holds {}: GGUF is not supported; use the model's safetensors release", where,
                 Quoted(*gguf));
  }
  const auto is_torch = [](const std::string& n) {
    return n.ends_with(".bin") || n.ends_with(".pt") || n.ends_with(".pth");
  };
  if (const auto* torch = find(is_torch)) {
    return Error(
        Code::kUnsupported,
        "{} holds {}: PyTorch files are not supported; use the model's safetensors release", where,
        Quoted(*torch));
  }
  return Error(Code::kNotFound, "{} is no checkpoint: it has neither {} nor {}", where, kSingleName,
               kIndexName);
}

// Fails unless the shards hold the tensors that the index lists, each where it says, and no others.
Status CheckAgainstIndex(const TensorDirectory& directory, const CheckpointIndex& index,
                         std::string_view where) {
  for (const auto& [name, file] : index.tensors) {
    const TensorEntry* tensor = directory.Find(name);
    if (tensor == nullptr || directory.file_name(tensor->file_idx) != file) {
      return Error(Code::kCorrupt, "{}: tensor {} should be in {}, but is {}{}", where,
                   Quoted(name), Quoted(file), tensor == nullptr ? "in no shard" : "in ",
                   tensor == nullptr ? "" : Quoted(directory.file_name(tensor->file_idx)));
    }
  }
  // Both are sorted by name, and all of the index is there: the first difference is one too many.
  for (size_t i = 0; i < directory.tensors().size(); ++i) {
    const TensorEntry& tensor = directory.tensors()[i];
    if (i == index.tensors.size() || index.tensors[i].first != tensor.name) {
      return Error(Code::kCorrupt, "{}: tensor {} of {} is not listed", where, Quoted(tensor.name),
                   Quoted(directory.file_name(tensor.file_idx)));
    }
  }
  return Status::Ok();
}

}  // namespace

Result<TensorDirectory> TensorDirectory::FromFiles(std::vector<NamedFile> files) {
  TensorDirectory directory;
  directory.files_ = std::move(files);
  for (size_t i = 0; i < directory.files_.size(); ++i) {
    PICCHIO_ASSIGN_OR_RETURN(SafetensorsHeader header,
                             ReadSafetensorsHeader(*directory.files_[i].file));
    for (TensorInfo& tensor : header.tensors) {
      directory.tensors_.push_back({std::move(tensor), i});
    }
  }
  auto& tensors = directory.tensors_;
  std::sort(tensors.begin(), tensors.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  const auto twice =
      std::adjacent_find(tensors.begin(), tensors.end(),
                         [](const auto& a, const auto& b) { return a.name == b.name; });
  if (twice != tensors.end()) {
    return Error(Code::kCorrupt, "tensor {} stands twice: in {} and in {}", Quoted(twice->name),
                 directory.files_[twice->file_idx].file->name(),
                 directory.files_[(twice + 1)->file_idx].file->name());
  }
  return directory;
}

Result<TensorDirectory> TensorDirectory::OpenFiles(const Path& folder,
                                                   std::span<const std::string> file_names) {
  std::vector<NamedFile> files;
  for (const std::string& name : file_names) {
    if (!IsPlainFileName(name)) {
      return Error(Code::kInvalidArgument, "{} is not the name of a file in {}", Quoted(name),
                   PathText(folder));
    }
    auto file = File::OpenForRead(folder / Path(reinterpret_cast<const char8_t*>(name.c_str())));
    if (!file.has_value()) {
      if (file.error().code() != Code::kNotFound) return file.error();
      return Error(Code::kNotFound, "{} of {} is missing; fetch it", Quoted(name),
                   PathText(folder));
    }
    files.push_back({name, std::make_unique<File>(std::move(*file))});
  }
  return FromFiles(std::move(files));
}

Result<TensorDirectory> TensorDirectory::OpenCheckpoint(const Path& folder) {
  const Path index_path = folder / kIndexName;
  const bool has_single = SomethingExists(folder / kSingleName);
  if (!SomethingExists(index_path)) {
    if (!has_single) return NoCheckpoint(folder);
    const std::string single(kSingleName);
    return OpenFiles(folder, {&single, 1});
  }
  const std::string where = PathText(index_path);
  PICCHIO_ASSIGN_OR_RETURN(const std::string json, ReadFileToString(index_path, kMaxIndexBytes));
  PICCHIO_ASSIGN_OR_RETURN(const CheckpointIndex index, ParseCheckpointIndex(json, where));
  if (has_single && !std::binary_search(index.files.begin(), index.files.end(), kSingleName)) {
    return Error(Code::kCorrupt,
                 "{} has both {} and shards listed in {}; remove what is not the model",
                 PathText(folder), kSingleName, kIndexName);
  }
  PICCHIO_ASSIGN_OR_RETURN(TensorDirectory directory, OpenFiles(folder, index.files));
  PICCHIO_RETURN_IF_ERROR(CheckAgainstIndex(directory, index, where));
  return directory;
}

const TensorEntry* TensorDirectory::Find(std::string_view name) const {
  const auto at =
      std::lower_bound(tensors_.begin(), tensors_.end(), name,
                       [](const TensorEntry& t, std::string_view n) { return t.name < n; });
  return at != tensors_.end() && at->name == name ? &*at : nullptr;
}

Result<const TensorEntry*> TensorDirectory::Get(std::string_view name) const {
  if (const TensorEntry* tensor = Find(name)) return tensor;
  return Error(Code::kNotFound, "tensor {} is in none of the model's {} safetensors files",
               Quoted(name), files_.size());
}

Status TensorDirectory::ReadAt(const TensorEntry& tensor, uint64_t offset,
                               std::span<std::byte> out) const {
  if (offset > tensor.bytes || out.size() > tensor.bytes - offset) {
    return Error(Code::kInvalidArgument, "tensor {} has {} bytes; asked for {} from {}",
                 Quoted(tensor.name), tensor.bytes, out.size(), offset);
  }
  return files_[tensor.file_idx].file->ReadAt(tensor.offset + offset, out);
}

Status TensorDirectory::Read(const TensorEntry& tensor, std::span<std::byte> out) const {
  if (out.size() != tensor.bytes) {
    return Error(Code::kInvalidArgument, "tensor {} has {} bytes; asked for {}",
                 Quoted(tensor.name), tensor.bytes, out.size());
  }
  return ReadAt(tensor, 0, out);
}

}  // namespace picchio
