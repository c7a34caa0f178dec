#include "apps/synth/synth.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "apps/pack/record_runs.h"
#include "apps/pack/store_facts.h"
#include "apps/pack/store_file.h"
#include "apps/progress.h"
#include "apps/synth/dense_image.h"
#include "apps/synth/embedded_tokenizer.h"
#include "apps/synth/folder_in_the_making.h"
#include "apps/synth/shapes.h"
#include "apps/synth/synth_weights.h"
#include "apps/work_queue.h"
#include "base/atomic_file.h"
#include "base/crc32c.h"
#include "base/hash.h"
#include "base/human.h"
#include "base/json.h"
#include "base/units.h"
#include "format/expert_container.h"
#include "format/manifest.h"
#include "model/config.h"
#include "tokenizer/tokenizer.h"

namespace picchio {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kDenseName = "dense.safetensors";
// Of the dense weights, what a thread makes, hashes and writes at a time.
constexpr uint64_t kBlockBytes = 1_MiB;

constexpr std::string_view kEndOfText = "<|endoftext|>";
// Left over for the manifest (some 300 bytes a tensor) and the file system's own books.
constexpr uint64_t kSpareBytes = 128_MiB;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The hashes of an expert's tensors, and those of the record into the index. A record begins with
// its largest tensor, whose bytes are hashed once for both.
void HashRecord(FlatIndex& index, RecordPlace place, std::span<const std::byte> record,
                std::span<const ExpertTensor> tensors, std::span<Sha256Digest> hashes) {
  const uint64_t first_bytes = tensors.front().part.bytes;
  Sha256 hash;
  hash.Update(record.first(first_bytes));
  hashes.front() = hash.DigestSoFar();
  hash.Update(record.subspan(first_bytes));
  for (size_t i = 1; i < tensors.size(); ++i) {
    hashes[i] = Sha256Of(record.subspan(tensors[i].part.offset, tensors[i].part.bytes));
  }
  const bool v2 = index.superblock().version == RecordVersion::kV2;
  index.SetHashes(place.layer, place.expert, v2 ? 0 : Crc32c(record), hash.Finish());
}

// Everything about one model while it is made.
class Synthesis {
 public:
  static Result<std::unique_ptr<Synthesis>> Plan(const SynthOptions& options, ModelConfig config,
                                                 std::vector<int32_t> tokens) {
    const PayloadKind kind =
        config.checkpoint_experts_mxfp4 ? PayloadKind::kMxfp4 : PayloadKind::kInt4;
    PICCHIO_ASSIGN_OR_RETURN(FlatIndex index,
                             PlaceStore(config, kind, {.version = UsualStoreVersion(kind)}));
    std::unique_ptr<Synthesis> synthesis(
        new Synthesis(options, std::move(config), std::move(index), std::move(tokens)));
    PICCHIO_ASSIGN_OR_RETURN(
        synthesis->dense_,
        DenseImage::Create(synthesis->config_, options.int8_dense, synthesis->weights_));
    return synthesis;
  }

  uint64_t bytes() const { return index_.store_bytes() + dense_->size(); }

  Result<SynthReport> Write(const Path& folder, int num_threads, const std::atomic<bool>& stop) {
    const Clock::time_point start = Clock::now();
    PICCHIO_ASSIGN_OR_RETURN(StoreFile file,
                             StoreFile::Create(folder / kFlatStoreName, index_.store_bytes()));
    RecordRuns runs(index_, file, stop);
    Progress progress("making the model", dense_->size() + runs.bytes());
    PICCHIO_RETURN_IF_ERROR(WriteDense(folder, num_threads, progress, stop));

    const Clock::time_point store_start = Clock::now();
    const std::vector<RecordPlace> places = RecordsOf(index_);
    const size_t tensors_per_record = TensorsOf(places.front()).size();
    std::vector<Sha256Digest> hashes(places.size() * tensors_per_record);
    const auto make = [&](RecordPlace place, std::span<std::byte> record) {
      weights_.FillRecord(index_.layout(), place, record);
      const size_t nth = size_t{place.layer} * config_.num_experts + place.expert;
      HashRecord(index_, place, record, TensorsOf(place),
                 std::span(hashes).subspan(nth * tensors_per_record, tensors_per_record));
      return Status::Ok();
    };
    PICCHIO_RETURN_IF_ERROR(runs.Write(
        num_threads, [](RecordPlace) {}, make, progress));
    size_t next = 0;
    for (const RecordPlace& place : places) {
      for (ExpertTensor& tensor : TensorsOf(place)) {
        manifest_.tensors.push_back({.name = std::move(tensor.name),
                                     .dtype = tensor.dtype,
                                     .shape = std::move(tensor.shape),
                                     .scheme = index_.layout().kind == PayloadKind::kMxfp4
                                                   ? TensorScheme::kMxfp4
                                                   : TensorScheme::kInt4Absmax,
                                     .sha256 = hashes[next++],
                                     .file = std::string(kFlatStoreName)});
      }
    }
    index_.SetModelId(manifest_.model_id());
    PICCHIO_RETURN_IF_ERROR(runs.WriteHead(index_.SerializeHead()));
    PICCHIO_RETURN_IF_ERROR(file.Sync());
    PICCHIO_RETURN_IF_ERROR(file.Publish());
    manifest_.stores.push_back(
        {std::string(kFlatStoreName), index_.store_bytes(), index_.superblock().index_sha256});
    return SynthReport{.model_id = manifest_.model_id().Hex(),
                       .dense_bytes = dense_->size(),
                       .store_bytes = index_.store_bytes(),
                       .seconds = SecondsSince(start),
                       .store_seconds = SecondsSince(store_start),
                       .unbuffered = file.unbuffered()};
  }

  Status WriteCompanion(const Path& folder, std::string_view name, std::string_view text) {
    PICCHIO_RETURN_IF_ERROR(WriteFileAtomically(folder / name, text));
    manifest_.files.push_back({std::string(name), text.size(), Sha256Of(text)});
    return Status::Ok();
  }

  Status WriteManifest(const Path& folder) {
    manifest_.architecture = ArchitectureName(config_.architecture);
    PICCHIO_ASSIGN_OR_RETURN(const std::string text, SerializeManifest(manifest_));
    return WriteFileAtomically(folder / kManifestName, text);
  }

 private:
  Synthesis(const SynthOptions& options, ModelConfig config, FlatIndex index,
            std::vector<int32_t> tokens)
      : config_(std::move(config)),
        index_(std::move(index)),
        weights_(config_, std::move(tokens), options.skew, options.seed) {}

  Status WriteDense(const Path& folder, int num_threads, Progress& progress,
                    const std::atomic<bool>& stop) {
    PICCHIO_ASSIGN_OR_RETURN(File file, File::OpenForWrite(folder / kDenseName));
    PICCHIO_RETURN_IF_ERROR(file.Reserve(dense_->size()));
    PICCHIO_RETURN_IF_ERROR(file.Resize(dense_->size()));
    PICCHIO_RETURN_IF_ERROR(file.WriteAt(0, std::as_bytes(std::span(dense_->header()))));
    const std::span<const TensorInfo> tensors = dense_->tensors();
    // The largest first, so that no thread is left alone with one at the end.
    std::vector<size_t> todo(tensors.size());
    std::iota(todo.begin(), todo.end(), size_t{0});
    std::ranges::stable_sort(todo, std::ranges::greater(),
                             [&](size_t idx) { return tensors[idx].bytes; });
    std::vector<Sha256Digest> hashes(tensors.size());
    const auto write = [&](const TensorInfo& tensor) -> Result<Sha256Digest> {
      const uint64_t row_bytes = tensor.shape.back() * DtypeBytes(tensor.dtype);
      std::vector<std::byte> block(std::max<uint64_t>(1, kBlockBytes / row_bytes) * row_bytes);
      Sha256 hash;
      for (uint64_t done = 0; done < tensor.bytes; done += block.size()) {
        if (stop.load(std::memory_order_relaxed)) return Status(Code::kCancelled, "stopped");
        const auto part =
            std::span(block).first(std::min<uint64_t>(block.size(), tensor.bytes - done));
        PICCHIO_RETURN_IF_ERROR(dense_->ReadAt(tensor.offset + done, part));
        hash.Update(part);
        PICCHIO_RETURN_IF_ERROR(file.WriteAt(tensor.offset + done, part));
        file.StartWriteback(tensor.offset + done, part.size());
        progress.Add(part.size());
      }
      return hash.Finish();
    };
    PICCHIO_RETURN_IF_ERROR(RunOnThreads(num_threads, todo.size(), [&](size_t i, int) -> Status {
      PICCHIO_ASSIGN_OR_RETURN(hashes[todo[i]], write(tensors[todo[i]]));
      return Status::Ok();
    }));
    PICCHIO_RETURN_IF_ERROR(file.Sync());
    for (size_t idx = 0; idx < tensors.size(); ++idx) {
      manifest_.tensors.push_back(
          {.name = tensors[idx].name,
           .dtype = tensors[idx].dtype,
           .shape = tensors[idx].shape,
           .scheme = dense_->IsInt8(idx) ? TensorScheme::kInt8 : TensorScheme::kNone,
           .sha256 = hashes[idx],
           .file = std::string(kDenseName)});
    }
    manifest_.containers.push_back(
        {std::string(kDenseName), dense_->size(), Sha256Of(dense_->header())});
    return Status::Ok();
  }

  std::vector<ExpertTensor> TensorsOf(RecordPlace place) const {
    return ExpertTensors(index_.layout(), static_cast<int>(place.layer),
                         static_cast<int>(place.expert));
  }

  const ModelConfig config_;
  FlatIndex index_;
  const SynthWeights weights_;
  std::unique_ptr<DenseImage> dense_;
  Manifest manifest_;
};

// What the sampler may draw, but for control tokens.
std::vector<int32_t> TextTokens(const Tokenizer& tokenizer) {
  std::vector<int32_t> tokens;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (tokenizer.HasToken(id) && !tokenizer.IsSpecial(id)) tokens.push_back(id);
  }
  return tokens;
}

std::string Provenance(const SynthOptions& options, const ModelConfig& config) {
  const Json json{{"shape", options.shape},
                  {"num_hidden_layers", config.num_hidden_layers},
                  {"skew", options.skew},
                  {"dense", options.int8_dense ? "int8" : "bf16"},
                  {"seed", options.seed}};
  return json.dump(2) + "\n";
}

}  // namespace

Result<SynthReport> Synthesize(const Path& folder, const SynthOptions& options, int num_threads,
                               const std::atomic<bool>& stop) {
  if (!(options.skew >= 0 && options.skew <= kMaxSkew)) {
    return Error(Code::kInvalidArgument, "the skew is {}, expected 0 to {}", options.skew,
                 kMaxSkew);
  }
  PICCHIO_ASSIGN_OR_RETURN(const Tokenizer tokenizer,
                           Tokenizer::Parse(EmbeddedTokenizer(), "the program's own tokenizer"));
  const int32_t end_of_text = tokenizer.AddedTokenId(kEndOfText).value_or(-1);
  PICCHIO_ASSIGN_OR_RETURN(const std::string config_text,
                           ShapeConfig(options.shape, options.num_layers, end_of_text));
  PICCHIO_ASSIGN_OR_RETURN(ModelConfig config,
                           ModelConfig::Parse(config_text, "the shape's config.json"));
  PICCHIO_RETURN_IF_ERROR(tokenizer.CheckFitsVocabulary(config.vocab_size));
  const std::string provenance = Provenance(options, config);
  PICCHIO_ASSIGN_OR_RETURN(const std::unique_ptr<Synthesis> synthesis,
                           Synthesis::Plan(options, std::move(config), TextTokens(tokenizer)));
  PICCHIO_ASSIGN_OR_RETURN(FolderInTheMaking made, FolderInTheMaking::Create(folder));
  PICCHIO_ASSIGN_OR_RETURN(const uint64_t free, FreeBytes(made.path()));
  if (synthesis->bytes() + kSpareBytes > free) {
    return Error(Code::kResourceExhausted,
                 "{} needs {} of disk, and {} has {} free: make room, choose a folder on another "
                 "disk, or fewer --layers",
                 options.shape, FormatBytes(synthesis->bytes() + kSpareBytes), PathText(folder),
                 FormatBytes(free));
  }
  if (options.on_plan) options.on_plan(synthesis->bytes());
  PICCHIO_ASSIGN_OR_RETURN(const SynthReport report,
                           synthesis->Write(made.path(), num_threads, stop));
  const Json generation{{"do_sample", false}, {"eos_token_id", end_of_text}};
  for (const auto& [name, text] : {std::pair("config.json", std::string_view(config_text)),
                                   std::pair("tokenizer.json", EmbeddedTokenizer())}) {
    PICCHIO_RETURN_IF_ERROR(synthesis->WriteCompanion(made.path(), name, text));
  }
  PICCHIO_RETURN_IF_ERROR(
      synthesis->WriteCompanion(made.path(), "generation_config.json", generation.dump(2) + "\n"));
  PICCHIO_RETURN_IF_ERROR(synthesis->WriteCompanion(made.path(), kSynthName, provenance));
  PICCHIO_RETURN_IF_ERROR(synthesis->WriteManifest(made.path()));
  PICCHIO_RETURN_IF_ERROR(made.Publish());
  return report;
}

}  // namespace picchio
