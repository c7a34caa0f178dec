// The boundary: how expert records come from wherever they are kept into the cache's memory.
//
// Every storage tier implements ExpertSource; the forward pass never sees one, only the cache above
// it (expert_cache.h). For one model all sources deliver the same bytes, so tiers can be exchanged,
// stacked and used as each other's fallback. expert_source_conformance_test.cc holds each of them
// to what is written here; a new tier is added there first.
//
// The unit is one expert's record (format/expert_record.h), decoded: a source whose medium is
// compressed, sealed or remote delivers what the uncoded file would hold.
//
// Life of a read:
//   1. Attach every chunk of memory that slots lie in, before the first Submit.
//   2. Submit requests. It takes what it has room for and never waits.
//   3. Reap completions, in any order, each with its own Status.
// From Submit until its completion is reaped, or until Drain or the destructor returns, a slot
// belongs to the source: no time-out and no Cancel gives it back earlier, because a device may
// write until it has said that it is done. A slot's bytes are defined only when the Status is OK.
//
// Failures are data, never exceptions or aborts. The message of a Status other than OK begins with
// the expert ("layer 12 expert 77: ") and says what was found where:
//   kNotFound     this source does not hold that expert (a partial store, a peer without it);
//   kCorrupt      bytes were read and contradict their checksum or their format;
//   kIoError      the operating system or the device failed; native_error() has its number;
//   kUnavailable  the source cannot serve now (a peer gone, a device stopped);
//   kCancelled    Cancel came in time.
#pragma once

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/deadline.h"
#include "base/status.h"
#include "format/expert_record.h"
#include "io/block_device.h"

namespace picchio {

struct ExpertKey {
  int32_t layer = 0;   // In [0, num_hidden_layers), dense layers counted.
  int32_t expert = 0;  // In [0, num_experts).

  auto operator<=>(const ExpertKey&) const = default;
};

std::string ToString(ExpertKey key);  // "layer 12 expert 77", as messages name it.

// Where memory lies, and so who can write to it.
enum class MemorySpace : uint8_t {
  kHost,
  kGpu,  // Not addressed by this CPU; a source that can fill it owns the means to.
};

// A piece of memory that slots are cut from: what io_uring registers and VFIO maps. At most 1 GiB
// (a registered buffer cannot be larger).
struct MemoryChunk {
  MemorySpace space = MemorySpace::kHost;
  uint32_t chunk_idx = 0;
  uint64_t bytes = 0;
  std::byte* data = nullptr;  // Null where the CPU cannot address the space.
};

// Room for one record: a place in an attached chunk.
struct Slot {
  MemorySpace space = MemorySpace::kHost;
  uint32_t chunk_idx = 0;
  uint64_t offset = 0;        // In the chunk; a multiple of 4096.
  uint64_t bytes = 0;         // At least the source's slot_bytes().
  std::byte* data = nullptr;  // Null where the CPU cannot address the space.
};

struct ReadRequest {
  ExpertKey key{};
  Slot slot{};
  uint64_t tag = 0;  // The caller's own; distinct among the reads in flight.
  ReadPriority priority = ReadPriority::kDemand;
};

struct Completion {
  uint64_t tag = 0;
  Status status{};
  uint8_t tier = 0;  // Which tier of a tiered source served it: above 0 is a fallback.
};

// See the head of this file. All calls come from one thread, the source's owner: the one that
// submits first. Names and layout may be asked by any thread.
class ExpertSource {
 public:
  ExpertSource() = default;
  ExpertSource(const ExpertSource&) = delete;
  ExpertSource& operator=(const ExpertSource&) = delete;
  virtual ~ExpertSource() = default;  // As Drain().

  virtual const std::string& name() const = 0;  // For messages: the path, the peer's address.
  virtual const ExpertRecordLayout& layout() const = 0;

  // What a slot must hold: the record, and what the source writes behind it (padding up to its
  // block size, undefined for the reader).
  virtual uint64_t slot_bytes() const { return layout().record_bytes; }

  virtual bool CanFill(MemorySpace space) const { return space == MemorySpace::kHost; }

  // How many reads it holds at once, at least 1: submitted and not yet reaped.
  virtual size_t max_in_flight() const = 0;

  // Registers or maps memory where the medium needs that. Detach only when no read into the chunk
  // is in flight.
  virtual Status Attach(const MemoryChunk& /*chunk*/) { return Status::Ok(); }
  virtual void Detach(const MemoryChunk& /*chunk*/) {}

  // Takes the first n requests, returns n, never waits for a completion. n may be less than
  // requests.size(), but is at least 1 when nothing is in flight. An expert that the source does
  // not hold is taken and completes with kNotFound.
  virtual size_t Submit(std::span<const ReadRequest> requests) = 0;

  // Waits until a completion is there, `timeout` has passed or nothing is in flight; then writes
  // what has completed to the front of `out` and returns how many. Zero polls, kForever waits.
  virtual size_t Reap(std::span<Completion> out, std::chrono::nanoseconds timeout) = 0;

  // The read is no longer wanted: it completes soon, with kCancelled or as it would have. Unknown
  // tags (its completion may be waiting to be reaped) are ignored.
  virtual void Cancel(uint64_t tag) = 0;

  // The read is long overdue: as Cancel, and where there is another place to read from, that is
  // asked for what is submitted from now on, until this read has completed. Returns whether there
  // is: submitting the request again, into another slot, may then help.
  virtual bool GiveUp(uint64_t tag) {
    Cancel(tag);
    return false;
  }

  // A prefetch that is now waited for. Unknown tags are ignored.
  virtual void Promote(uint64_t /*tag*/) {}

  // Cancels what has not begun, waits for the rest and drops all completions: no slot belongs to
  // the source any more. It is then empty and usable.
  virtual void Drain() = 0;
};

}  // namespace picchio

template <>
struct std::hash<picchio::ExpertKey> {
  size_t operator()(const picchio::ExpertKey& key) const noexcept {
    const uint64_t both = (uint64_t{static_cast<uint32_t>(key.layer)} << 32) |
                          uint64_t{static_cast<uint32_t>(key.expert)};
    return static_cast<size_t>((both * 0x9e3779b97f4a7c15u) >> 16);  // Fibonacci hashing.
  }
};
