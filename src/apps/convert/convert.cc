#include "apps/convert/convert.h"

#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <thread>

#include "apps/convert/companions.h"
#include "apps/convert/journal.h"
#include "apps/convert/output_files.h"
#include "apps/convert/unit_runner.h"
#include "apps/hash_range.h"
#include "apps/model_folder.h"
#include "apps/progress.h"
#include "apps/work_queue.h"
#include "base/atomic_file.h"
#include "base/function_ref.h"
#include "base/printable.h"
#include "base/units.h"
#include "format/manifest.h"

namespace picchio {
namespace {

// The checkpoint's files as they are now.
Result<std::string> StampsOf(const Path& folder, const TensorDirectory& checkpoint) {
  std::string stamps;
  for (size_t i = 0; i < checkpoint.num_files(); ++i) {
    PICCHIO_ASSIGN_OR_RETURN(const std::string stamp, FileStamp(folder / checkpoint.file_name(i)));
    stamps += fmt::format("{} {}\n", checkpoint.file_name(i), stamp);
  }
  return stamps;
}

// Everything that the outputs' bytes follow from: a journal of another fingerprint is of no use.
std::string Fingerprint(const ModelConfig& config, const TensorDirectory& checkpoint,
                        const std::string& stamps, const ConversionPlan& plan, Int4Scheme scheme) {
  Sha256 hash;
  hash.Update(fmt::format("conversion 1\n{} {}\n{}", ArchitectureName(config.architecture),
                          static_cast<int>(scheme), stamps));
  for (const OutputFile& file : plan.files) hash.Update(file.header);
  for (const TensorEntry& tensor : checkpoint.tensors()) {
    hash.Update(fmt::format("{} {} {} {} {}\n", tensor.name, DtypeName(tensor.dtype),
                            ShapeText(tensor.shape), tensor.file_idx, tensor.offset));
  }
  return hash.Finish().Hex();
}

Status CheckFolders(const Path& checkpoint, const Path& model) {
  std::error_code error;
  if (!std::filesystem::is_directory(checkpoint, error)) {
    return Error(Code::kNotFound, "{} is not a folder: give the one that holds the checkpoint",
                 PathText(checkpoint));
  }
  if (std::filesystem::equivalent(checkpoint, model, error)) {
    return Error(Code::kInvalidArgument,
                 "the output folder {} is the checkpoint's own: choose another one",
                 PathText(model));
  }
  return Status::Ok();
}

// Makes the folder of the model, or takes one that is empty or holds an unfinished conversion: what
// is somebody else's is never written over. It is ours alone as long as the lock is held.
Result<FolderLock> PrepareModelFolder(const Path& model, const ConversionPlan& plan,
                                      const Companions& companions) {
  std::error_code error;
  const bool made = std::filesystem::create_directories(model, error);
  if (error) return ErrnoError(error.value(), "cannot make the folder " + PathText(model));
  if (made && model.has_parent_path()) PICCHIO_RETURN_IF_ERROR(SyncFolder(model.parent_path()));
  Result<FolderLock> lock = FolderLock::Take(model);
  if (!lock && lock.error().code() == Code::kUnavailable) {
    return Error(Code::kUnavailable,
                 "another conversion is writing to {}: wait for it, or choose another folder",
                 PathText(model));
  }
  PICCHIO_RETURN_IF_ERROR(lock.status());
  if (SomethingExists(model / kManifestName)) {
    return Error(Code::kInvalidArgument,
                 "{} already holds a converted model: remove it or choose another folder "
                 "(picchio verify proves it whole)",
                 PathText(model));
  }
  if (FileExists(model / kJournalName)) return lock;
  const auto refuse = [&](const std::string& name) {
    return Error(Code::kInvalidArgument,
                 "{} already exists, and a conversion would write over it: choose an empty folder",
                 PathText(model / name));
  };
  for (const OutputFile& file : plan.files) {
    if (std::filesystem::exists(model / file.name, error)) return refuse(file.name);
  }
  for (const Companion& companion : companions.files) {
    if (std::filesystem::exists(model / companion.name, error)) return refuse(companion.name);
  }
  return lock;
}

// Removes the containers of an unfinished conversion with another plan.
Status RemoveStale(const Path& model, const ConversionPlan& plan) {
  std::set<std::string, std::less<>> wanted;
  for (const OutputFile& file : plan.files) wanted.insert(file.name);
  PICCHIO_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListFiles(model));
  for (const std::string& name : names) {
    std::string_view own = name;
    if (own.ends_with(kTemporarySuffix)) own.remove_suffix(kTemporarySuffix.size());
    std::error_code ignored;
    if (IsExpertContainer(own) && !wanted.contains(own)) {
      std::filesystem::remove(model / name, ignored);
    }
  }
  return Status::Ok();
}

class Conversion {
 public:
  Conversion(const TensorDirectory& checkpoint, const ConversionPlan& plan,
             const ConversionOptions& options, OutputFiles outputs, Journal journal)
      : checkpoint_(checkpoint),
        plan_(plan),
        options_(options),
        outputs_(std::move(outputs)),
        journal_(std::move(journal)),
        hashes_(plan.tensors.size()),
        done_(plan.units.size(), false) {}

  // Hashes what the journal says is written, and keeps what is as it says.
  Status CheckJournalled(int num_threads, const std::atomic<bool>& stop) {
    std::vector<size_t> claimed;
    uint64_t bytes = 0;
    for (size_t i = 0; i < plan_.units.size(); ++i) {
      if (!Journalled(plan_.units[i])) continue;
      claimed.push_back(i);
      bytes += plan_.tensors[plan_.units[i].output_idx].bytes;
      if (const auto scales = plan_.units[i].scales_output_idx)
        bytes += plan_.tensors[*scales].bytes;
    }
    if (claimed.empty()) return Status::Ok();
    Progress progress("checking what an earlier run wrote", bytes);
    return RunOnThreads(num_threads, claimed.size(), [&](size_t n, int) -> Status {
      const ConversionUnit& unit = plan_.units[claimed[n]];
      PICCHIO_ASSIGN_OR_RETURN(bool intact, IsIntact(unit.output_idx, progress, stop));
      if (intact && unit.scales_output_idx.has_value()) {
        PICCHIO_ASSIGN_OR_RETURN(intact, IsIntact(*unit.scales_output_idx, progress, stop));
      }
      if (!intact) return Status::Ok();
      const std::lock_guard lock(mutex_);
      done_[claimed[n]] = true;
      resumed_bytes_ += unit.source_bytes;
      Keep(unit, journal_.entries().at(plan_.tensors[unit.output_idx].name).sha256,
           unit.scales_output_idx.has_value()
               ? journal_.entries().at(plan_.tensors[*unit.scales_output_idx].name).sha256
               : Sha256Digest(),
           journal_.entries().at(plan_.tensors[unit.output_idx].name).error);
      return Status::Ok();
    });
  }

  Status RunUnits(int num_threads, const std::atomic<bool>& stop) {
    std::vector<size_t> todo;
    for (size_t i = 0; i < plan_.units.size(); ++i) {
      if (!done_[i]) todo.push_back(i);
    }
    Progress progress("converting", plan_.source_bytes - resumed_bytes_);
    std::vector<UnitRunner> runners;
    runners.reserve(static_cast<size_t>(num_threads));
    for (int i = 0; i < num_threads; ++i) {
      runners.emplace_back(plan_, checkpoint_, options_.quantizer);
    }
    return RunOnThreads(num_threads, todo.size(), [&](size_t n, int thread) -> Status {
      // The device reads the next matrix for this thread while it codes this one.
      const size_t ahead = n + static_cast<size_t>(num_threads);
      if (ahead < todo.size()) {
        ForEachRange(plan_.units[todo[ahead]],
                     [this](const TensorEntry& tensor, uint64_t offset, uint64_t bytes) {
                       checkpoint_.WillNeed(tensor, offset, std::min<uint64_t>(bytes, 32_MiB));
                     });
      }
      const ConversionUnit& unit = plan_.units[todo[n]];
      const auto write = [this](size_t tensor, uint64_t offset, std::span<const std::byte> bytes) {
        return outputs_.Write(plan_.tensors[tensor], offset, bytes);
      };
      PICCHIO_ASSIGN_OR_RETURN(
          const UnitResult result,
          runners[static_cast<size_t>(thread)].Run(
              unit, write, [&](uint64_t bytes) { progress.Add(bytes); }, stop));
      // A long copy must not push everybody else's pages out of the cache.
      ForEachRange(unit, [this](const TensorEntry& tensor, uint64_t offset, uint64_t bytes) {
        checkpoint_.DropCache(tensor, offset, bytes);
      });
      const std::lock_guard lock(mutex_);
      Keep(unit, result.output, result.scales, result.error);
      PICCHIO_RETURN_IF_ERROR(
          journal_.Record(plan_.tensors[unit.output_idx].name, {result.output, result.error}));
      if (!unit.scales_output_idx.has_value()) return Status::Ok();
      return journal_.Record(plan_.tensors[*unit.scales_output_idx].name, {result.scales, {}});
    });
  }

  // Gives the files their names and returns what the manifest says of them.
  Status Publish(Manifest& manifest) {
    PICCHIO_RETURN_IF_ERROR(outputs_.Publish());
    for (size_t i = 0; i < plan_.tensors.size(); ++i) {
      const OutputTensor& tensor = plan_.tensors[i];
      manifest.tensors.push_back({.name = tensor.name,
                                  .dtype = tensor.dtype,
                                  .shape = tensor.shape,
                                  .scheme = tensor.scheme,
                                  .sha256 = hashes_[i],
                                  .file = plan_.files[tensor.file_idx].name});
    }
    for (const OutputFile& file : plan_.files) {
      manifest.containers.push_back({file.name, file.bytes, Sha256Of(file.header)});
    }
    return Status::Ok();
  }

  uint64_t resumed_bytes() const { return resumed_bytes_; }

  std::vector<ConversionReport::ClassError> errors() const {
    std::vector<ConversionReport::ClassError> list;
    for (const auto& [tensor_class, error] : errors_) list.push_back({tensor_class, error});
    return list;
  }

 private:
  bool Journalled(const ConversionUnit& unit) const {
    return journal_.entries().contains(plan_.tensors[unit.output_idx].name) &&
           (!unit.scales_output_idx.has_value() ||
            journal_.entries().contains(plan_.tensors[*unit.scales_output_idx].name));
  }

  Result<bool> IsIntact(size_t tensor_idx, Progress& progress, const std::atomic<bool>& stop) {
    const OutputTensor& tensor = plan_.tensors[tensor_idx];
    PICCHIO_ASSIGN_OR_RETURN(
        const Sha256Digest found,
        HashRange(outputs_.FileOf(tensor), tensor.offset, tensor.bytes, progress, stop));
    return found == journal_.entries().at(tensor.name).sha256;
  }

  void Keep(const ConversionUnit& unit, const Sha256Digest& output, const Sha256Digest& scales,
            const QuantError& error) {
    hashes_[unit.output_idx] = output;
    if (unit.scales_output_idx.has_value()) {
      hashes_[*unit.scales_output_idx] = scales;
      errors_[unit.tensor_class].Add(error);
    }
  }

  // The byte ranges of the checkpoint that a unit reads.
  void ForEachRange(
      const ConversionUnit& unit,
      FunctionRef<void(const TensorEntry&, uint64_t offset, uint64_t bytes)> visit) const {
    const auto visit_rows = [&](const TensorEntry& tensor, const SourceRows& rows) {
      const uint64_t row_bytes = tensor.bytes / std::max<uint64_t>(1, RowsOf(tensor));
      visit(tensor, rows.first_row * row_bytes, rows.num_rows * row_bytes);
    };
    for (const SourceRows& rows : unit.sources) {
      visit_rows(*rows.tensor, rows);
      if (rows.scales != nullptr) visit_rows(*rows.scales, rows);
    }
  }

  // Experts of a packed tensor are [experts, rows, ...]; a row here is a row of the matrix.
  static uint64_t RowsOf(const TensorEntry& tensor) {
    return tensor.shape.size() >= 3 ? tensor.shape[0] * tensor.shape[1] : tensor.shape[0];
  }

  const TensorDirectory& checkpoint_;
  const ConversionPlan& plan_;
  const ConversionOptions& options_;
  OutputFiles outputs_;
  std::mutex mutex_;  // Guards what follows while threads run.
  Journal journal_;
  std::vector<Sha256Digest> hashes_;  // By tensor of the plan.
  std::vector<bool> done_;            // By unit of the plan.
  uint64_t resumed_bytes_ = 0;
  std::map<TensorClass, QuantError> errors_;
};

}  // namespace

Result<ConversionReport> Convert(const Path& checkpoint_folder, const Path& model_folder,
                                 const ConversionOptions& options, int num_threads,
                                 const std::atomic<bool>& stop) {
  const auto start = std::chrono::steady_clock::now();
  PICCHIO_RETURN_IF_ERROR(CheckFolders(checkpoint_folder, model_folder));
  PICCHIO_ASSIGN_OR_RETURN(const ModelConfig config, ModelConfig::Load(checkpoint_folder));
  PICCHIO_ASSIGN_OR_RETURN(const TensorDirectory checkpoint,
                           TensorDirectory::OpenCheckpoint(checkpoint_folder));
  PICCHIO_ASSIGN_OR_RETURN(const std::string stamps, StampsOf(checkpoint_folder, checkpoint));
  PICCHIO_ASSIGN_OR_RETURN(const ConversionPlan plan, PlanConversion(config, checkpoint, options));
  PICCHIO_ASSIGN_OR_RETURN(Companions companions, ReadCompanions(checkpoint_folder, config));
  PICCHIO_ASSIGN_OR_RETURN(const FolderLock lock,
                           PrepareModelFolder(model_folder, plan, companions));

  PICCHIO_ASSIGN_OR_RETURN(Journal journal, Journal::Open(model_folder / kJournalName,
                                                          Fingerprint(config, checkpoint, stamps,
                                                                      plan, options.quantizer)));
  PICCHIO_RETURN_IF_ERROR(RemoveStale(model_folder, plan));
  PICCHIO_ASSIGN_OR_RETURN(OutputFiles outputs, OutputFiles::Open(model_folder, plan));
  Conversion conversion(checkpoint, plan, options, std::move(outputs), std::move(journal));
  PICCHIO_RETURN_IF_ERROR(conversion.CheckJournalled(num_threads, stop));
  PICCHIO_RETURN_IF_ERROR(conversion.RunUnits(num_threads, stop));

  // A download that goes on, or a file put in another's place, would leave a mixture.
  PICCHIO_ASSIGN_OR_RETURN(const std::string stamps_now, StampsOf(checkpoint_folder, checkpoint));
  if (stamps_now != stamps) {
    std::error_code ignored;
    std::filesystem::remove(model_folder / kJournalName, ignored);
    return Error(
        Code::kCorrupt,
        "the checkpoint in {} changed while it was converted: wait until it is whole, remove "
        "{} and convert again",
        PathText(checkpoint_folder), PathText(model_folder));
  }

  Manifest manifest;
  manifest.architecture = ArchitectureName(config.architecture);
  for (const Companion& companion : companions.files) {
    PICCHIO_RETURN_IF_ERROR(WriteFileAtomically(model_folder / companion.name, companion.bytes));
    manifest.files.push_back({companion.name, companion.bytes.size(), Sha256Of(companion.bytes)});
  }
  PICCHIO_RETURN_IF_ERROR(conversion.Publish(manifest));
  PICCHIO_ASSIGN_OR_RETURN(const std::string manifest_text, SerializeManifest(manifest));
  PICCHIO_RETURN_IF_ERROR(WriteFileAtomically(model_folder / kManifestName, manifest_text));
  std::error_code ignored;
  std::filesystem::remove(model_folder / kJournalName, ignored);

  return ConversionReport{
      .model_id = manifest.model_id().Hex(),
      .source_bytes = plan.source_bytes,
      .output_bytes = plan.output_bytes,
      .resumed_bytes = conversion.resumed_bytes(),
      .seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
      .errors = conversion.errors(),
      .notes = std::move(companions.notes)};
}

}  // namespace picchio
