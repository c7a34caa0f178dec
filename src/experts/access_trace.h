// What a run asks the expert cache for, list by list: recorded, so that capacities and policies can
// be tried on it without the model (cache_simulator.h). docs/caching.md describes the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/atomic_file.h"
#include "base/status.h"

namespace picchio {

// The model's dimensions, as the first line has them.
struct TraceHeader {
  uint64_t num_layers = 0;   // Dense ones counted.
  uint64_t num_experts = 0;  // Per layer.
  uint64_t experts_per_token = 0;
  uint64_t num_records = 0;  // Of all layers that have experts.
  uint64_t record_bytes = 0;

  bool operator==(const TraceHeader&) const = default;
};

struct AccessTrace {
  struct List {
    int layer = 0;
    std::vector<int32_t> experts;

    bool operator==(const List&) const = default;
  };

  TraceHeader header;
  std::vector<List> lists;

  // Passes through the model: a layer that is not above the one before begins the next.
  uint64_t num_passes() const;
  uint64_t num_demands() const;  // Experts of all lists.
};

// The text of a trace; for tests, and for makers of traces that no model has run.
std::string SerializeTrace(const AccessTrace& trace);

// Reads such a text. Fails with kUnsupported for another version, else with kCorrupt, naming the
// line. `where` is what messages call it.
Result<AccessTrace> ParseTrace(std::string_view text, std::string_view where);
Result<AccessTrace> LoadTrace(const Path& path);

// Writes a trace as the run goes on; the file appears whole with Finish, or not at all. One thread
// at a time.
class TraceWriter {
 public:
  static Result<TraceWriter> Create(const Path& path, const TraceHeader& header);

  // What fails is reported by Finish.
  void Add(int layer, std::span<const int32_t> experts);
  Status Finish();

 private:
  explicit TraceWriter(AtomicFile file) : file_(std::move(file)) {}

  void Flush();

  AtomicFile file_;
  std::string buffer_;
  uint64_t bytes_ = 0;  // Written to the file.
  Status status_;
};

}  // namespace picchio
