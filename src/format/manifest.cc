#include "format/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/foreign_content.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "format/manifest_text.h"

namespace picchio {
namespace {

struct SchemeFacts {
  std::string_view name;
  uint32_t group_size;
};
constexpr std::array<SchemeFacts, 5> kSchemes = {
    {{"none", 0}, {"int4_absmax", 64}, {"int4_mse", 64}, {"int8_row", 0}, {"mxfp4", 32}}};

// The text begins with kHead, the version and "," and ends with kChecksum, 64 digits and kEnd.
constexpr std::string_view kHead = "{\n\"format\": \"picchio-model\",\n\"version\": ";
constexpr std::string_view kChecksum = "\"checksum\": \"";
constexpr std::string_view kEnd = "\"\n}\n";
constexpr size_t kTailBytes = kChecksum.size() + 64 + kEnd.size();

template <typename Entry>
void SortByName(std::vector<Entry>& entries) {
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
}

// The names of everything beside the manifest itself, sorted.
std::vector<std::string_view> FileNames(const Manifest& manifest, bool with_companions) {
  std::vector<std::string_view> names;
  for (const auto& container : manifest.containers) names.push_back(container.name);
  for (const auto& store : manifest.stores) names.push_back(store.name);
  if (with_companions) {
    for (const auto& file : manifest.files) names.push_back(file.name);
    names.push_back(kManifestName);
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool IsText(std::string_view text) {
  return !text.empty() && !HasControlBytes(text) && IsValidUtf8(text);
}

// What sorting does not show: bad and repeated names. Lists are sorted.
Status CheckNames(const Manifest& manifest) {
  if (!IsText(manifest.architecture)) {
    return Error(Code::kInvalidArgument, "{} cannot be an architecture",
                 Quoted(manifest.architecture));
  }
  const auto files = FileNames(manifest, true);
  for (size_t i = 0; i < files.size(); ++i) {
    if (!IsPlainFileName(files[i]) || !IsValidUtf8(files[i])) {
      return Error(Code::kInvalidArgument, "{} is not the name of a file in the model's folder",
                   Quoted(files[i]));
    }
    if (i > 0 && files[i] == files[i - 1]) {
      return Error(Code::kInvalidArgument, "file {} stands twice in the manifest",
                   Quoted(files[i]));
    }
  }
  const auto holders = FileNames(manifest, false);
  for (size_t i = 0; i < manifest.tensors.size(); ++i) {
    const ManifestTensor& tensor = manifest.tensors[i];
    if (!IsText(tensor.name)) {
      return Error(Code::kInvalidArgument, "{} cannot be the name of a tensor",
                   Quoted(tensor.name));
    }
    if (i > 0 && tensor.name == manifest.tensors[i - 1].name) {
      return Error(Code::kInvalidArgument, "tensor {} stands twice in the manifest",
                   Quoted(tensor.name));
    }
    if (!std::binary_search(holders.begin(), holders.end(), tensor.file)) {
      return Error(Code::kInvalidArgument,
                   "tensor {} lies in {}, which is no container or store of the "
                   "manifest",
                   Quoted(tensor.name), Quoted(tensor.file));
    }
    auto elements = CountElements(tensor.shape, tensor.dtype);
    if (!elements.has_value()) {
      return Error(Code::kInvalidArgument, "tensor {}: {}", Quoted(tensor.name),
                   elements.error().message());
    }
  }
  return Status::Ok();
}

std::string TensorLine(const ManifestTensor& tensor) {
  uint64_t bytes = DtypeBytes(tensor.dtype);
  for (const uint64_t size : tensor.shape) bytes *= size;  // Checked before.
  return fmt::format(
      R"({{"name": {}, "dtype": "{}", "shape": {}, "bytes": {}, "scheme": "{}", "group_size": {}, )"
      R"("sha256": "{}", "file": {}}})",
      JsonString(tensor.name), DtypeName(tensor.dtype), ShapeText(tensor.shape), bytes,
      SchemeName(tensor.scheme), SchemeGroupSize(tensor.scheme), tensor.sha256.Hex(),
      JsonString(tensor.file));
}

std::string FileLine(std::string_view name, uint64_t bytes, std::string_view hash_field,
                     const Sha256Digest& hash) {
  return fmt::format(R"({{"name": {}, "bytes": {}, "{}": "{}"}})", JsonString(name), bytes,
                     hash_field, hash.Hex());
}

template <typename Entry, typename Line>
void AppendList(std::string_view field, const std::vector<Entry>& entries, Line line,
                std::string& out) {
  fmt::format_to(std::back_inserter(out), "\"{}\": [\n", field);
  for (size_t i = 0; i < entries.size(); ++i) {
    out += line(entries[i]);
    out += i + 1 < entries.size() ? ",\n" : "\n";
  }
  out += "],\n";
}

// Reads one entry of a list, up to its closing brace.
Status ReadEntry(ManifestReader& in, ManifestTensor& tensor) {
  std::string dtype;
  std::string scheme;
  uint64_t bytes = 0;
  uint64_t group_size = 0;
  PICCHIO_RETURN_IF_ERROR(in.StringField("name", tensor.name));
  PICCHIO_RETURN_IF_ERROR(in.StringField("dtype", dtype));
  PICCHIO_RETURN_IF_ERROR(in.ShapeField("shape", tensor.shape));
  PICCHIO_RETURN_IF_ERROR(in.NumberField("bytes", bytes));
  PICCHIO_RETURN_IF_ERROR(in.StringField("scheme", scheme));
  PICCHIO_RETURN_IF_ERROR(in.NumberField("group_size", group_size));
  PICCHIO_RETURN_IF_ERROR(in.HashField("sha256", tensor.sha256));
  PICCHIO_RETURN_IF_ERROR(in.StringField("file", tensor.file));
  PICCHIO_ASSIGN_OR_RETURN(tensor.dtype, ParseDtype(dtype, "tensor " + Quoted(tensor.name)));
  const auto facts = std::find_if(kSchemes.begin(), kSchemes.end(),
                                  [&](const SchemeFacts& f) { return f.name == scheme; });
  if (facts == kSchemes.end()) {
    return Error(Code::kUnsupported, "tensor {} has the unknown scheme {}", Quoted(tensor.name),
                 Quoted(scheme));
  }
  tensor.scheme = static_cast<TensorScheme>(facts - kSchemes.begin());
  return Status::Ok();
}

Status ReadEntry(ManifestReader& in, ManifestFile& file) {
  PICCHIO_RETURN_IF_ERROR(in.StringField("name", file.name));
  PICCHIO_RETURN_IF_ERROR(in.NumberField("bytes", file.bytes));
  return in.HashField("sha256", file.sha256);
}

Status ReadEntry(ManifestReader& in, ManifestContainer& container) {
  PICCHIO_RETURN_IF_ERROR(in.StringField("name", container.name));
  PICCHIO_RETURN_IF_ERROR(in.NumberField("bytes", container.bytes));
  return in.HashField("header_sha256", container.header_sha256);
}

Status ReadEntry(ManifestReader& in, ManifestStore& store) {
  PICCHIO_RETURN_IF_ERROR(in.StringField("name", store.name));
  PICCHIO_RETURN_IF_ERROR(in.NumberField("bytes", store.bytes));
  return in.HashField("index_sha256", store.index_sha256);
}

template <typename Entry>
Status ReadList(ManifestReader& in, std::string_view field, std::vector<Entry>& entries) {
  PICCHIO_RETURN_IF_ERROR(in.BeginList(field));
  while (!in.EndOfList()) {
    PICCHIO_RETURN_IF_ERROR(ReadEntry(in, entries.emplace_back()));
    PICCHIO_RETURN_IF_ERROR(in.EndEntry());
  }
  return Status::Ok();
}

Result<Manifest> ReadBody(ManifestReader in) {
  Manifest manifest;
  std::string model_id;
  PICCHIO_RETURN_IF_ERROR(in.StringField("architecture", manifest.architecture));
  PICCHIO_RETURN_IF_ERROR(in.StringField("model_id", model_id));
  PICCHIO_RETURN_IF_ERROR(ReadList(in, "tensors", manifest.tensors));
  PICCHIO_RETURN_IF_ERROR(ReadList(in, "files", manifest.files));
  PICCHIO_RETURN_IF_ERROR(ReadList(in, "containers", manifest.containers));
  PICCHIO_RETURN_IF_ERROR(ReadList(in, "stores", manifest.stores));
  return manifest;
}

// Fails unless the text is whole and of this version; sets `body` to what lies between.
Status CheckFrame(std::string_view text, std::string_view& body) {
  if (!text.starts_with(kHead)) {
    return Error(Code::kCorrupt,
                 "is not the manifest of a converted model; convert the model again");
  }
  const std::string_view rest = text.substr(kHead.size());
  const std::string_view version = rest.substr(0, rest.find(','));
  const std::string ours = std::to_string(kManifestVersion);
  if (version != ours) {
    return Error(Code::kUnsupported,
                 "has version {}, this program reads {}; convert the model again", Quoted(version),
                 ours);
  }
  const size_t head_bytes = kHead.size() + ours.size() + 2;
  const size_t tail_at = text.size() - std::min(text.size(), kTailBytes);
  const std::string_view tail = text.substr(tail_at);
  if (tail_at < head_bytes || !tail.starts_with(kChecksum) || !tail.ends_with(kEnd)) {
    return Error(Code::kCorrupt, "does not end with its checksum: it was cut short or changed");
  }
  const std::string_view stated = tail.substr(kChecksum.size(), 64);
  const std::string found = Sha256Of(text.substr(0, tail_at)).Hex();
  if (stated != found) {
    return Error(Code::kCorrupt, "is damaged: its bytes have the checksum {}, expected {}", found,
                 Quoted(stated));
  }
  body = text.substr(head_bytes, tail_at - head_bytes);
  return Status::Ok();
}

}  // namespace

std::string_view SchemeName(TensorScheme scheme) {
  return kSchemes[static_cast<size_t>(scheme)].name;
}
uint32_t SchemeGroupSize(TensorScheme scheme) {
  return kSchemes[static_cast<size_t>(scheme)].group_size;
}

std::string ModelId::Hex() const { return fmt::format("{:02x}", fmt::join(bytes, "")); }

ModelId ComputeModelId(std::span<const ManifestTensor> tensors) {
  std::vector<const ManifestTensor*> sorted;
  for (const ManifestTensor& tensor : tensors) sorted.push_back(&tensor);
  std::sort(sorted.begin(), sorted.end(), [](auto* a, auto* b) { return a->name < b->name; });
  Sha256 hash;
  for (const ManifestTensor* tensor : sorted) {
    hash.Update(fmt::format("{}\t{}\t{}\t{}\t{}\n", tensor->name, DtypeName(tensor->dtype),
                            ShapeText(tensor->shape), SchemeName(tensor->scheme),
                            tensor->sha256.Hex()));
  }
  const Sha256Digest digest = hash.Finish();
  ModelId id;
  std::copy_n(digest.bytes.begin(), id.bytes.size(), id.bytes.begin());
  return id;
}

Result<std::string> SerializeManifest(Manifest manifest) {
  SortByName(manifest.tensors);
  SortByName(manifest.files);
  SortByName(manifest.containers);
  SortByName(manifest.stores);
  PICCHIO_RETURN_IF_ERROR(CheckNames(manifest));
  std::string text =
      fmt::format("{}{},\n\"architecture\": {},\n\"model_id\": \"{}\",\n", kHead, kManifestVersion,
                  JsonString(manifest.architecture), manifest.model_id().Hex());
  AppendList("tensors", manifest.tensors, TensorLine, text);
  AppendList(
      "files", manifest.files,
      [](const auto& f) { return FileLine(f.name, f.bytes, "sha256", f.sha256); }, text);
  AppendList(
      "containers", manifest.containers,
      [](const auto& c) { return FileLine(c.name, c.bytes, "header_sha256", c.header_sha256); },
      text);
  AppendList(
      "stores", manifest.stores,
      [](const auto& s) { return FileLine(s.name, s.bytes, "index_sha256", s.index_sha256); },
      text);
  const std::string checksum = Sha256Of(text).Hex();
  text += kChecksum;
  text += checksum;
  text += kEnd;
  return text;
}

Result<Manifest> ParseManifest(std::string_view text, std::string_view where) {
  std::string_view body;
  if (Status status = CheckFrame(text, body); !status.ok()) {
    return Error(status.code(), "{} {}", where, status.message());
  }
  auto manifest = ReadBody(ManifestReader(body));
  if (!manifest.has_value()) return manifest.error().WithContext(where);
  // Order, names, sizes, the model's id and the last space: all right exactly if it reads the same.
  auto again = SerializeManifest(*manifest);
  if (!again.has_value()) return Status(Code::kCorrupt, again.error().message()).WithContext(where);
  if (*again != text) {
    const auto at = std::mismatch(again->begin(), again->end(), text.begin(), text.end());
    return Error(Code::kCorrupt,
                 "{} contradicts itself at byte {}: it is not as this program writes it", where,
                 at.first - again->begin());
  }
  return manifest;
}

Result<Manifest> LoadManifest(const Path& folder) {
  const Path path = folder / kManifestName;
  PICCHIO_ASSIGN_OR_RETURN(const std::string text, ReadFileToString(path, kMaxManifestBytes));
  PICCHIO_RETURN_IF_ERROR(CheckNotForeign(text.substr(0, 64), PathText(path)));
  return ParseManifest(text, PathText(path));
}

}  // namespace picchio
