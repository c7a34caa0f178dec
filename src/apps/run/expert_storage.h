// Where a model's experts are read from: the aligned store beside it, and the safetensors container
// that it falls back on. The only place that names concrete sources.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/model_folder.h"
#include "base/file.h"
#include "base/status.h"
#include "experts/tiered_expert_source.h"
#include "io/open_device.h"

namespace picchio {

struct StorageOptions {
  // The store; where it is not given, MODEL/experts.picchioflat if there is such a file.
  std::optional<Path> flat{};
  bool flat_off = false;     // No store at all.
  bool flat_verify = false;  // Check each record's SHA-256 as it is loaded.
  bool flat_trust = false;   // Take a store of version 2 that the manifest does not list.
  // How the store is read. The container, whose tensors lie at any byte, is read buffered unless
  // kDirect or kUring ask for more: then through aligned buffers and a copy.
  IoKind io = IoKind::kAuto;
  int queue_depth = 0;     // As in OpenDeviceOptions,
  int num_io_threads = 0;  // and so is this.
  // For tests: what goes wrong between us and the system, and a device around the store's.
  std::shared_ptr<TransferFaults> faults{};
  std::function<std::unique_ptr<BlockDevice>(std::unique_ptr<BlockDevice>)> wrap_store{};
};

// How one of the sources is read.
struct DeviceInUse {
  const BlockDevice* device = nullptr;  // The source's.
  std::string choice{};                 // One line: which way was chosen and why.
};

struct ExpertStorage {
  std::unique_ptr<TieredExpertSource> source;
  std::vector<DeviceInUse> devices{};  // Of its tiers, in their order.
  std::string refusal;  // Why there is a store and it is not used; empty where that is not so.
};

// Opens what there is, in this order: the store, the container. A store that is no whole store or
// not this model's is refused; what it would have served is read from the container. What the
// container serves in a store's place is held against the hashes of the store's index. `notice`
// (may be empty) is told of that, and once of the first read that falls back, on the thread that
// reaps. Fails where neither can serve, with what to run; and where `options.flat` names no file.
Result<ExpertStorage> OpenExpertStorage(const ModelFolder& model, const StorageOptions& options,
                                        const std::function<void(std::string_view)>& notice);

}  // namespace picchio
