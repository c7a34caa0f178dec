// A model's tensors over all of its safetensors files, found by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "format/safetensors.h"

namespace picchio {

struct TensorEntry : TensorInfo {
  size_t file_idx = 0;
};

// Holds the files open. After Open, const and safe to use from any thread. Move-only.
class TensorDirectory {
 public:
  // A checkpoint as it is published: model.safetensors, or the shards that
  // model.safetensors.index.json lists, which must hold exactly the tensors that it says. Links are
  // followed (a download cache keeps the files elsewhere). Fails with kNotFound where a file is
  // missing, with kUnsupported where the folder holds another format, with kCorrupt where the files
  // contradict each other or themselves; every message says what to do or which tensor is at fault.
  static Result<TensorDirectory> OpenCheckpoint(const Path& folder);

  // These files of `folder`, by their plain names.
  static Result<TensorDirectory> OpenFiles(const Path& folder,
                                           std::span<const std::string> file_names);

  // Files that are already open.
  struct NamedFile {
    std::string name;  // As tensors are said to be in it; file->name() is for messages.
    std::unique_ptr<RandomAccessFile> file;
  };
  static Result<TensorDirectory> FromFiles(std::vector<NamedFile> files);

  std::span<const TensorEntry> tensors() const { return tensors_; }  // By name bytes.
  const TensorEntry* Find(std::string_view name) const;              // Null where there is none.
  Result<const TensorEntry*> Get(std::string_view name) const;  // kNotFound where there is none.

  size_t num_files() const { return files_.size(); }
  const std::string& file_name(size_t file_idx) const { return files_[file_idx].name; }
  uint64_t file_bytes(size_t file_idx) const { return files_[file_idx].file->size(); }

  // Bytes [offset, offset + out.size()) of the tensor. Reaching past its end is kInvalidArgument.
  Status ReadAt(const TensorEntry& tensor, uint64_t offset, std::span<std::byte> out) const;
  // A hint that these bytes of the tensor will be read soon; best effort.
  void WillNeed(const TensorEntry& tensor, uint64_t offset, uint64_t bytes) const {
    files_[tensor.file_idx].file->WillNeed(tensor.offset + offset, bytes);
  }
  // A hint that they will not be read again soon; best effort.
  void DropCache(const TensorEntry& tensor, uint64_t offset, uint64_t bytes) const {
    files_[tensor.file_idx].file->DropCache(tensor.offset + offset, bytes);
  }
  // The whole tensor; out has tensor.bytes bytes.
  Status Read(const TensorEntry& tensor, std::span<std::byte> out) const;

 private:
  std::vector<NamedFile> files_;
  std::vector<TensorEntry> tensors_;
};

}  // namespace picchio
