#include "apps/pack/store_listing.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "apps/model_folder.h"
#include "base/atomic_file.h"
#include "base/printable.h"
#include "format/flat_index.h"

namespace picchio {
namespace {

constexpr std::string_view kPending = "pending-";
constexpr std::string_view kElsewhere = "elsewhere-";

// A name for a store by its hash. Half of it will do: a reader compares all of it.
std::string NameByHash(std::string_view prefix, const Sha256Digest& index_sha256) {
  return fmt::format("{}{}.picchioflat", prefix, index_sha256.Hex().substr(0, 32));
}

void Put(Manifest& manifest, std::string name, uint64_t bytes, const Sha256Digest& index_sha256) {
  std::erase_if(manifest.stores, [&](const ManifestStore& store) { return store.name == name; });
  manifest.stores.push_back({std::move(name), bytes, index_sha256});
}

// What runs that ended before they could confirm have left: a store in the folder is listed under
// its name, and an entry without one goes. Whether there was anything.
bool SettlePending(const Path& folder, Manifest& manifest) {
  std::vector<ManifestStore> pending;
  std::erase_if(manifest.stores, [&](const ManifestStore& store) {
    if (!store.name.starts_with(kPending)) return false;
    pending.push_back(store);
    return true;
  });
  if (pending.empty()) return false;
  const Result<std::vector<std::string>> names = ListFiles(folder);
  for (const std::string& name : names ? *names : std::vector<std::string>()) {
    const Result<File> file = File::OpenForRead(folder / name);
    if (!file) continue;
    const Result<FlatIndex> index = FlatIndex::Read(*file);
    if (!index) continue;
    const auto found =
        std::ranges::find(pending, index->superblock().index_sha256, &ManifestStore::index_sha256);
    if (found != pending.end()) Put(manifest, name, found->bytes, found->index_sha256);
  }
  return true;
}

}  // namespace

const ManifestStore* FindListedStore(const Manifest& manifest, const Sha256Digest& index_sha256) {
  const auto at = std::ranges::find(manifest.stores, index_sha256, &ManifestStore::index_sha256);
  return at == manifest.stores.end() ? nullptr : &*at;
}

bool IsListedInFolder(const ManifestStore& store) {
  return !store.name.starts_with(kPending) && !store.name.starts_with(kElsewhere);
}

Status StoreListing::Save(Manifest manifest) const {
  PICCHIO_ASSIGN_OR_RETURN(const std::string text, SerializeManifest(std::move(manifest)));
  return WriteFileAtomically(folder_ / kManifestName, text);
}

Status StoreListing::CheckWritable() const {
  PICCHIO_ASSIGN_OR_RETURN(Manifest manifest, LoadModelManifest(folder_));
  if (!name_.empty()) {
    Put(manifest, name_, 0, {});
    if (!IsListedInFolder(manifest.stores.back()) || !SerializeManifest(manifest).has_value()) {
      return Error(Code::kInvalidArgument,
                   "{} cannot be the name of a store in {}: choose another one with -o",
                   Quoted(name_), PathText(folder_));
    }
  }
  return AtomicFile::Create(folder_ / kManifestName).status();
}

std::string StoreListing::AnnouncedName(const Sha256Digest& index_sha256) const {
  return NameByHash(name_.empty() ? kElsewhere : kPending, index_sha256);
}

Result<bool> StoreListing::Announce(uint64_t store_bytes, const Sha256Digest& index_sha256) const {
  PICCHIO_ASSIGN_OR_RETURN(Manifest manifest, LoadModelManifest(folder_));
  if (FindListedStore(manifest, index_sha256) != nullptr) return false;
  Put(manifest, AnnouncedName(index_sha256), store_bytes, index_sha256);
  PICCHIO_RETURN_IF_ERROR(Save(std::move(manifest)));
  return true;
}

Status StoreListing::Withdraw(const Sha256Digest& index_sha256) const {
  PICCHIO_ASSIGN_OR_RETURN(Manifest manifest, LoadModelManifest(folder_));
  const std::string name = AnnouncedName(index_sha256);
  if (std::erase_if(manifest.stores, [&](const auto& store) { return store.name == name; }) == 0) {
    return Status::Ok();
  }
  return Save(std::move(manifest));
}

Status StoreListing::Confirm(uint64_t store_bytes, const Sha256Digest& index_sha256) const {
  if (name_.empty()) return Status::Ok();
  PICCHIO_ASSIGN_OR_RETURN(Manifest manifest, LoadModelManifest(folder_));
  const bool settled = SettlePending(folder_, manifest);
  const auto own = std::ranges::find(manifest.stores, name_, &ManifestStore::name);
  if (!settled && own != manifest.stores.end() && own->bytes == store_bytes &&
      own->index_sha256 == index_sha256) {
    return Status::Ok();
  }
  Put(manifest, name_, store_bytes, index_sha256);
  return Save(std::move(manifest));
}

}  // namespace picchio
