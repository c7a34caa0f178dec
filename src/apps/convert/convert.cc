#include "apps/convert/convert.h"

#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

#include "apps/convert/companions.h"
#include "apps/convert/conversion.h"
#include "apps/convert/journal.h"
#include "apps/convert/output_files.h"
#include "apps/model_folder.h"
#include "base/atomic_file.h"
#include "base/printable.h"
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
  hash.Update(fmt::format("conversion 2\n{} {}\n{}", ArchitectureName(config.architecture),
                          static_cast<int>(scheme), stamps));
  for (const OutputFile& file : plan.files) {
    hash.Update(fmt::format("{} {}\n", file.name, file.bytes));
    hash.Update(file.header);
  }
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
  if (FileExists(checkpoint / kManifestName)) {
    return Error(Code::kInvalidArgument,
                 "{} is a converted model already: give the checkpoint that it was made from",
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
  PICCHIO_RETURN_IF_ERROR(MakeFolders(model));
  std::error_code error;
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

// A conversion's inputs, as they were found.
struct Source {
  Path folder;
  ModelConfig config;
  TensorDirectory checkpoint;
  std::string stamps;
  Companions companions;
};

// The work itself, into a folder that is ours, with a journal that is this conversion's.
Result<ConversionReport> ConvertInto(const Path& model_folder, Source& source,
                                     const ConversionPlan& plan, const ConversionOptions& options,
                                     Journal journal, int num_threads,
                                     const std::atomic<bool>& stop) {
  const TensorDirectory& checkpoint = source.checkpoint;
  PICCHIO_ASSIGN_OR_RETURN(OutputFiles outputs, OutputFiles::Open(model_folder, plan));
  Conversion conversion(checkpoint, plan, options, std::move(outputs), std::move(journal));
  PICCHIO_RETURN_IF_ERROR(conversion.CheckJournalled(num_threads, stop));
  PICCHIO_RETURN_IF_ERROR(conversion.RunUnits(num_threads, stop));

  // A download that goes on, or a file put in another's place, would leave a mixture.
  PICCHIO_ASSIGN_OR_RETURN(const std::string stamps_now, StampsOf(source.folder, checkpoint));
  if (stamps_now != source.stamps) {
    std::error_code ignored;
    std::filesystem::remove(model_folder / kJournalName, ignored);
    return Error(
        Code::kCorrupt,
        "the checkpoint in {} changed while it was converted: wait until it is whole, remove "
        "{} and convert again",
        PathText(source.folder), PathText(model_folder));
  }

  Manifest manifest;
  manifest.architecture = ArchitectureName(source.config.architecture);
  for (const Companion& companion : source.companions.files) {
    PICCHIO_RETURN_IF_ERROR(WriteFileAtomically(model_folder / companion.name, companion.bytes));
    manifest.files.push_back({companion.name, companion.bytes.size(), Sha256Of(companion.bytes)});
  }
  PICCHIO_RETURN_IF_ERROR(conversion.Publish(manifest));
  PICCHIO_ASSIGN_OR_RETURN(const std::string manifest_text, SerializeManifest(manifest));
  PICCHIO_RETURN_IF_ERROR(WriteFileAtomically(model_folder / kManifestName, manifest_text));
  std::error_code ignored;
  std::filesystem::remove(model_folder / kJournalName, ignored);

  return ConversionReport{.model_id = manifest.model_id().Hex(),
                          .source_bytes = plan.source_bytes,
                          .output_bytes = plan.output_bytes,
                          .resumed_bytes = conversion.resumed_bytes(),
                          .errors = conversion.errors(),
                          .notes = std::move(source.companions.notes)};
}

}  // namespace

Result<ConversionReport> Convert(const Path& checkpoint_folder, const Path& model_folder,
                                 const ConversionOptions& options, int num_threads,
                                 const std::atomic<bool>& stop,
                                 FunctionRef<void(const std::string&)> note) {
  const auto start = std::chrono::steady_clock::now();
  PICCHIO_RETURN_IF_ERROR(CheckFolders(checkpoint_folder, model_folder));
  PICCHIO_ASSIGN_OR_RETURN(ModelConfig config, ModelConfig::Load(checkpoint_folder));
  PICCHIO_ASSIGN_OR_RETURN(TensorDirectory checkpoint,
                           TensorDirectory::OpenCheckpoint(checkpoint_folder));
  PICCHIO_ASSIGN_OR_RETURN(std::string stamps, StampsOf(checkpoint_folder, checkpoint));
  PICCHIO_ASSIGN_OR_RETURN(Companions companions, ReadCompanions(checkpoint_folder, config));
  Source source{checkpoint_folder, std::move(config), std::move(checkpoint), std::move(stamps),
                std::move(companions)};
  PICCHIO_ASSIGN_OR_RETURN(const ConversionPlan plan,
                           PlanConversion(source.config, source.checkpoint, options));
  PICCHIO_ASSIGN_OR_RETURN(const FolderLock lock,
                           PrepareModelFolder(model_folder, plan, source.companions));
  PICCHIO_ASSIGN_OR_RETURN(
      Journal journal, Journal::Open(model_folder / kJournalName,
                                     Fingerprint(source.config, source.checkpoint, source.stamps,
                                                 plan, options.quantizer)));
  for (const std::string& sentence : source.companions.notes) note(sentence);
  Result<ConversionReport> report =
      ConvertInto(model_folder, source, plan, options, std::move(journal), num_threads, stop);
  if (report) {
    report->seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return report;
  }
  // Only of a folder that is known to be this conversion's may anybody be told to remove it.
  const Status& error = report.error();
  if (error.code() == Code::kCancelled || !FileExists(model_folder / kJournalName)) return error;
  return Status(error.code(),
                fmt::format("{} (what is converted so far is kept in {}: mend the cause and run "
                            "the command again, or remove that folder)",
                            error.message(), PathText(model_folder)),
                error.native_error());
}

}  // namespace picchio
