#include "model/dense_weights.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/units.h"
#include "format/dtype.h"
#include "format/finite.h"
#include "model/expected_tensors.h"

namespace picchio {
namespace {

constexpr std::string_view kScalesSuffix = ".qs";
// Read and checked at a time by one thread.
constexpr uint64_t kPieceBytes = 8_MiB;

// Index of the first element that may not be in a weight, or how many there are.
size_t FirstBad(Dtype dtype, std::span<const std::byte> data) {
  if (dtype != Dtype::kI8) return FirstNotFinite(dtype, data);
  // -128 has no place in the symmetric code, and the products rely on that.
  const void* const found = std::memchr(data.data(), 0x80, data.size());
  return found ? static_cast<size_t>(static_cast<const std::byte*>(found) - data.data())
               : data.size();
}

class Loader {
 public:
  Loader(const TensorDirectory& tensors, const ModelConfig& config) : tensors_(tensors) {
    for (const ExpectedTensor& tensor : ExpectedCheckpointTensors(config))
      known_.insert(tensor.name);
  }

  // Finds the tensors, checks what can be checked without their data and decides how each is kept.
  Status PlanAll(const ModelConfig& config, bool expert_biases) {
    for (const ExpectedTensor& expected : ExpectedDenseTensors(config)) {
      if (expected.tensor_class == TensorClass::kExpertBias && !expert_biases) continue;
      PICCHIO_RETURN_IF_ERROR(Plan(expected));
    }
    return RefuseStrangers();
  }

  uint64_t planned_bytes() const {
    uint64_t bytes = 0;
    for (const Placement& placement : placements_) bytes += placement.bytes();
    return bytes;
  }

  Status Allocate() {
    for (Placement& placement : placements_) {
      auto buffer = AlignedBuffer::Allocate(placement.bytes(), 64);
      if (!buffer.has_value()) {
        return buffer.error().WithContext("tensor " + placement.entry->name);
      }
      placement.data = memory_.emplace_back(std::move(buffer).value()).data();
    }
    return Status::Ok();
  }

  Status ReadAll(ThreadPool& pool, const LoadedBytes& on_loaded) {
    const std::vector<Piece> pieces = Pieces();
    std::mutex mutex;
    Status status;             // Guarded by mutex.
    size_t failed = SIZE_MAX;  // The piece that it is of: of several the first, whoever was faster.
    pool.ParallelFor(pieces.size(), 1, [&](size_t begin, size_t end, int) {
      for (size_t i = begin; i < end; ++i) {
        Status of_piece = ReadPiece(pieces[i]);
        if (of_piece.ok()) {
          if (on_loaded) on_loaded(pieces[i].count * DtypeBytes(pieces[i].kept));
          continue;
        }
        const std::lock_guard lock(mutex);
        if (i < failed) {
          failed = i;
          status = std::move(of_piece);
        }
      }
    });
    return status;
  }

  WeightMatrix Matrix(const std::string& name) const {
    const Kept& kept = kept_.at(name);
    const std::byte* data = placements_[kept.data].data;
    switch (kept.dtype) {
      case Dtype::kBf16:
        return Bf16Matrix{reinterpret_cast<const uint16_t*>(data), kept.rows, kept.cols};
      case Dtype::kI8:
        return Int8Matrix{reinterpret_cast<const int8_t*>(data),
                          reinterpret_cast<const float*>(placements_[kept.scales].data), kept.rows,
                          kept.cols};
      default:
        return F32Matrix{reinterpret_cast<const float*>(data), kept.rows, kept.cols};
    }
  }

  // Null where the config has no such vector.
  const float* Vector(const std::string& name) const {
    const auto found = kept_.find(name);
    if (found == kept_.end()) return nullptr;
    return reinterpret_cast<const float*>(placements_[found->second.data].data);
  }

  Linear Projection(const std::string& name) const {
    return {Matrix(name + ".weight"), Vector(name + ".bias")};
  }

  std::vector<AlignedBuffer> TakeMemory() { return std::move(memory_); }

 private:
  // A tensor of the files, and where it goes.
  struct Placement {
    const TensorEntry* entry;
    Dtype kept;
    std::byte* data = nullptr;  // Once allocated.

    uint64_t elements() const { return entry->bytes / DtypeBytes(entry->dtype); }
    uint64_t bytes() const { return elements() * DtypeBytes(kept); }
  };
  struct Kept {
    Dtype dtype = Dtype::kF32;  // kBf16, kF32 or kI8.
    size_t data = 0;            // Index into placements_.
    size_t scales = 0;          // Likewise, of kI8.
    uint64_t rows = 0;
    uint64_t cols = 0;
  };
  struct Piece {
    const TensorEntry* entry;
    Dtype kept;
    std::byte* out;  // Of its first element.
    uint64_t first;
    uint64_t count;
  };

  Status Plan(const ExpectedTensor& expected) {
    PICCHIO_ASSIGN_OR_RETURN(const TensorEntry* entry, tensors_.Get(expected.name));
    PICCHIO_RETURN_IF_ERROR(CheckShape(*entry, expected.shape));
    Kept kept;
    kept.rows = expected.shape[0];
    kept.cols = expected.shape.size() < 2 ? 1 : expected.shape[1];
    const bool matrix =
        expected.shape.size() == 2 && expected.tensor_class != TensorClass::kExpertBias;
    if (entry->dtype == Dtype::kI8 && expected.quantizable) {
      kept.dtype = Dtype::kI8;
      const std::string scales_name = expected.name + std::string(kScalesSuffix);
      PICCHIO_ASSIGN_OR_RETURN(const TensorEntry* scales, tensors_.Get(scales_name));
      PICCHIO_RETURN_IF_ERROR(CheckShape(*scales, {{expected.shape[0]}}));
      if (scales->dtype != Dtype::kF32) return WrongType(*scales, "F32");
      known_.insert(scales_name);
      kept.scales = Place(*scales, Dtype::kF32);
    } else if (!IsFloat(entry->dtype)) {
      return WrongType(*entry, expected.quantizable ? "BF16, F32, F16 or I8" : "BF16, F32 or F16");
    } else {
      kept.dtype = matrix && entry->dtype == Dtype::kBf16 ? Dtype::kBf16 : Dtype::kF32;
    }
    kept.data = Place(*entry, kept.dtype);
    kept_.emplace(expected.name, kept);
    return Status::Ok();
  }

  Status RefuseStrangers() const {
    for (const TensorEntry& tensor : tensors_.tensors()) {
      if (known_.contains(tensor.name)) continue;
      return Error(Code::kCorrupt, "{}: the tensor {} is none that config.json tells of",
                   tensors_.file_name(tensor.file_idx), tensor.name);
    }
    return Status::Ok();
  }

  Status CheckShape(const TensorEntry& entry, std::span<const uint64_t> shape) const {
    if (std::ranges::equal(entry.shape, shape)) return Status::Ok();
    return Error(Code::kCorrupt, "{}: the tensor {} has the shape {}, config.json asks for {}",
                 tensors_.file_name(entry.file_idx), entry.name, ShapeText(entry.shape),
                 ShapeText(shape));
  }

  Status WrongType(const TensorEntry& entry, std::string_view expected) const {
    return Error(Code::kCorrupt, "{}: the tensor {} is of type {}, expected {}",
                 tensors_.file_name(entry.file_idx), entry.name, DtypeName(entry.dtype), expected);
  }

  size_t Place(const TensorEntry& entry, Dtype kept) {
    placements_.push_back({&entry, kept});
    return placements_.size() - 1;
  }

  std::vector<Piece> Pieces() const {
    std::vector<Piece> pieces;
    for (const Placement& placement : placements_) {
      const uint64_t width = DtypeBytes(placement.kept);
      const uint64_t step = kPieceBytes / width;
      const uint64_t elements = placement.elements();
      for (uint64_t first = 0; first < elements; first += step) {
        pieces.push_back({placement.entry, placement.kept, placement.data + first * width, first,
                          std::min(step, elements - first)});
      }
    }
    return pieces;
  }

  Status ReadPiece(const Piece& piece) const {
    const TensorEntry& entry = *piece.entry;
    const uint64_t offset = piece.first * DtypeBytes(entry.dtype);
    if (entry.dtype == piece.kept) {
      PICCHIO_RETURN_IF_ERROR(
          tensors_.ReadAt(entry, offset, {piece.out, piece.count * DtypeBytes(entry.dtype)}));
    } else {
      std::vector<std::byte> narrow(piece.count * DtypeBytes(entry.dtype));
      PICCHIO_RETURN_IF_ERROR(tensors_.ReadAt(entry, offset, narrow));
      WidenToF32(entry.dtype, narrow, {reinterpret_cast<float*>(piece.out), piece.count});
    }
    const size_t bad = FirstBad(piece.kept, {piece.out, piece.count * DtypeBytes(piece.kept)});
    if (bad == piece.count) return Status::Ok();
    return Error(Code::kCorrupt, "{}: element {} of the tensor {} is {}",
                 tensors_.file_name(entry.file_idx), piece.first + bad, entry.name,
                 piece.kept == Dtype::kI8 ? "-128" : "not finite");
  }

  const TensorDirectory& tensors_;
  std::unordered_set<std::string> known_;
  std::unordered_map<std::string, Kept> kept_;
  std::vector<Placement> placements_;
  std::vector<AlignedBuffer> memory_;
};

}  // namespace

Result<uint64_t> DenseWeightBytes(const TensorDirectory& tensors, const ModelConfig& config,
                                  bool expert_biases) {
  Loader loader(tensors, config);
  PICCHIO_RETURN_IF_ERROR(loader.PlanAll(config, expert_biases));
  return loader.planned_bytes();
}

Result<DenseWeights> LoadDenseWeights(const TensorDirectory& tensors, const ModelConfig& config,
                                      bool expert_biases, ThreadPool& pool,
                                      const LoadedBytes& on_loaded) {
  Loader loader(tensors, config);
  PICCHIO_RETURN_IF_ERROR(loader.PlanAll(config, expert_biases));
  PICCHIO_RETURN_IF_ERROR(loader.Allocate());
  PICCHIO_RETURN_IF_ERROR(loader.ReadAll(pool, on_loaded));

  DenseWeights weights;
  weights.embedding = loader.Matrix("model.embed_tokens.weight");
  weights.head = config.tie_word_embeddings ? weights.embedding : loader.Matrix("lm_head.weight");
  weights.norm = loader.Vector("model.norm.weight");
  for (uint32_t index = 0; index < config.num_hidden_layers; ++index) {
    const std::string prefix = "model.layers." + std::to_string(index) + ".";
    LayerWeights& layer = weights.layers.emplace_back();
    layer.input_norm = loader.Vector(prefix + "input_layernorm.weight");
    layer.post_attention_norm = loader.Vector(prefix + "post_attention_layernorm.weight");
    layer.q = loader.Projection(prefix + "self_attn.q_proj");
    layer.k = loader.Projection(prefix + "self_attn.k_proj");
    layer.v = loader.Projection(prefix + "self_attn.v_proj");
    layer.o = loader.Projection(prefix + "self_attn.o_proj");
    layer.q_norm = loader.Vector(prefix + "self_attn.q_norm.weight");
    layer.k_norm = loader.Vector(prefix + "self_attn.k_norm.weight");
    layer.sinks = loader.Vector(prefix + "self_attn.sinks");
    if (config.layers[index].moe) {
      layer.router = loader.Projection(prefix + (config.router_bias ? "mlp.router" : "mlp.gate"));
      layer.gate_up_biases = loader.Vector(prefix + "mlp.experts.gate_up_proj_bias");
      layer.down_biases = loader.Vector(prefix + "mlp.experts.down_proj_bias");
    } else {
      layer.gate = loader.Projection(prefix + "mlp.gate_proj");
      layer.up = loader.Projection(prefix + "mlp.up_proj");
      layer.down = loader.Projection(prefix + "mlp.down_proj");
    }
  }
  weights.memory = loader.TakeMemory();
  for (const AlignedBuffer& buffer : weights.memory) weights.bytes += buffer.size();
  return weights;
}

}  // namespace picchio
