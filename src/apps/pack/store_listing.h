// The stores that a model's manifest lists, which is what ties a store of version 2 to its model.
//
// A store that replaces another is listed twice for a moment: before it has its name, under one
// made of its hash ("pending-..."), and afterwards under its own. So the store that lies in the
// folder is a listed one whenever the program may die:
//
//   killed before          in the folder          listed
//   the pending entry      the old store          the old store
//   the rename             the old store          the old store, the new one as pending
//   the own entry          the new store          the old store, the new one as pending
//   (done)                 the new store          the new store
//
// Whoever looks for a store's listing therefore looks for its hash. A pending entry goes when the
// store does not get its name; one that a killed run left does no harm until the next pack confirms
// its own: a store in the folder that has it is then listed under its name. A store outside of the
// folder stays listed under a name made of its hash ("elsewhere-..."): its own could be that of one
// inside.
#pragma once

#include <string>
#include <utility>

#include "base/file.h"
#include "base/hash.h"
#include "base/status.h"
#include "format/manifest.h"

namespace picchio {

// The entry with this index, under whatever name; null where there is none.
const ManifestStore* FindListedStore(const Manifest& manifest, const Sha256Digest& index_sha256);

// Whether a store that is listed so lies in the model's folder, under that name.
bool IsListedInFolder(const ManifestStore& store);

// Changes the list of one model's folder, whose lock (FolderLock) the caller has. Each step reads
// the manifest anew and replaces it whole.
class StoreListing {
 public:
  // `name` is that of the store in the folder, or empty where it lies elsewhere.
  StoreListing(Path folder, std::string name)
      : folder_(std::move(folder)), name_(std::move(name)) {}

  // Fails where the name cannot be a store's in this folder, or where the folder cannot be written.
  Status CheckWritable() const;
  // Before the store gets its name. Whether there was no entry for it yet.
  Result<bool> Announce(uint64_t store_bytes, const Sha256Digest& index_sha256) const;
  // After that.
  Status Confirm(uint64_t store_bytes, const Sha256Digest& index_sha256) const;
  // Instead, where the store has not got its name and the entry was new.
  Status Withdraw(const Sha256Digest& index_sha256) const;

 private:
  Status Save(Manifest manifest) const;
  std::string AnnouncedName(const Sha256Digest& index_sha256) const;

  Path folder_;
  std::string name_;
};

}  // namespace picchio
