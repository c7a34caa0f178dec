#include "apps/pack/store_listing.h"

#include <algorithm>
#include <utility>

#include "apps/model_folder.h"
#include "base/atomic_file.h"
#include "base/printable.h"

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

Status StoreListing::Announce(uint64_t store_bytes, const Sha256Digest& index_sha256) const {
  PICCHIO_ASSIGN_OR_RETURN(Manifest manifest, LoadModelManifest(folder_));
  if (FindListedStore(manifest, index_sha256) != nullptr) return Status::Ok();
  const std::string_view prefix = name_.empty() ? kElsewhere : kPending;
  Put(manifest, NameByHash(prefix, index_sha256), store_bytes, index_sha256);
  return Save(std::move(manifest));
}

Status StoreListing::Confirm(uint64_t store_bytes, const Sha256Digest& index_sha256) const {
  if (name_.empty()) return Status::Ok();
  PICCHIO_ASSIGN_OR_RETURN(Manifest manifest, LoadModelManifest(folder_));
  const size_t before = manifest.stores.size();
  const std::string pending = NameByHash(kPending, index_sha256);
  std::erase_if(manifest.stores, [&](const ManifestStore& s) { return s.name == pending; });
  const auto own = std::ranges::find(manifest.stores, name_, &ManifestStore::name);
  if (manifest.stores.size() == before && own != manifest.stores.end() &&
      own->bytes == store_bytes && own->index_sha256 == index_sha256) {
    return Status::Ok();
  }
  Put(manifest, name_, store_bytes, index_sha256);
  return Save(std::move(manifest));
}

}  // namespace picchio
