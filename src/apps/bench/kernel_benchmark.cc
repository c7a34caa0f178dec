#include "apps/bench/kernel_benchmark.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <utility>

#include "apps/doctor/machine_facts.h"
#include "base/aligned_buffer.h"
#include "base/function_ref.h"
#include "base/page_memory.h"
#include "base/thread_pool.h"
#include "base/units.h"
#include "kernels/kernels.h"
#include "kernels/limits.h"

namespace picchio {
namespace {

// Rows of weights that a thread takes at a time, as the forward pass deals them out.
constexpr size_t kPieceRows = 256;
// Of a larger matrix (a head) only the first rows are taken: the others are like them.
constexpr size_t kMaxMatrixBytes = 16_MiB;
constexpr size_t kReadPieceBytes = 1_MiB;
constexpr size_t kLimitRounds = 2000;

using Clock = std::chrono::steady_clock;

// Runs pieces first, first + 1, ... on all threads for some time. Pieces a second.
double PiecesPerSecond(ThreadPool& pool, double seconds, size_t first,
                       FunctionRef<void(size_t piece, int thread)> body) {
  std::atomic<size_t> next{first};
  const auto threads = static_cast<size_t>(pool.num_threads());
  const Clock::time_point start = Clock::now();
  const Clock::time_point end =
      start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  pool.ParallelFor(threads, 1, [&](size_t /*begin*/, size_t /*end*/, int thread) {
    do {
      body(next.fetch_add(1, std::memory_order_relaxed), thread);
    } while (Clock::now() < end);
  });
  const std::chrono::duration<double> taken = Clock::now() - start;
  return static_cast<double>(next - first) / taken.count();
}

// A product's weights as they lie in memory, many copies behind each other, and what it takes and
// gives.
class Work {
 public:
  Work(const BenchProduct& product, std::span<const std::byte> weights, const Kernels& kernels,
       size_t x_rows, int threads)
      : product_(product),
        kernels_(kernels),
        weights_(weights),
        rows_(std::min(product.rows, RoundUp(kMaxMatrixBytes / product.code_bytes_per_row(), 16))),
        stride_(RoundUp(rows_ * bytes_per_row(), 4096)),
        pieces_per_copy_(CeilDiv(rows_, kPieceRows)),
        x_(x_rows * product.cols),
        x_rows_(x_rows),
        y_(static_cast<size_t>(threads), std::vector<float>(x_rows * rows_)) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (float& value : x_) value = normal(random);
  }

  Status Prepare() {
    if (weights_.size() < stride_) {
      return Error(Code::kInvalidArgument, "{} MiB of memory are less than one matrix {} of {}",
                   weights_.size() / 1_MiB, product_.name, product_.model);
    }
    if (!TakesQuantized(product_.format)) return Status::Ok();
    const ActivationKind kind = product_.format == WeightFormat::kInt4 ? ActivationKind::kForInt4
                                : product_.format == WeightFormat::kInt8
                                    ? ActivationKind::kForInt8
                                    : ActivationKind::kForMxfp4;
    PICCHIO_ASSIGN_OR_RETURN(
        quantized_memory_,
        AlignedBuffer::Allocate(QuantizedRows::BytesFor(kind, product_.cols, x_rows_), 64));
    quantized_ = QuantizedRows(kind, product_.cols, x_rows_, quantized_memory_.data());
    kernels_.quantize({x_.data(), x_rows_, product_.cols}, quantized_);
    return Status::Ok();
  }

  size_t bytes_per_row() const {
    return product_.code_bytes_per_row() + product_.scale_bytes_per_row();
  }
  double bytes_per_piece() const {
    return static_cast<double>(rows_ * bytes_per_row()) / static_cast<double>(pieces_per_copy_);
  }
  double ops_per_byte() const {
    return 2.0 * static_cast<double>(product_.cols * x_rows_) /
           static_cast<double>(bytes_per_row());
  }

  void Run(size_t piece, int thread) {
    const size_t num_copies = weights_.size() / stride_;
    const std::byte* codes = weights_.data() + piece / pieces_per_copy_ % num_copies * stride_;
    const std::byte* scales = codes + rows_ * product_.code_bytes_per_row();
    const size_t begin = piece % pieces_per_copy_ * kPieceRows;
    const RowRange rows{begin, std::min(rows_, begin + kPieceRows)};
    const F32Output y{y_[static_cast<size_t>(thread)].data(), rows_};
    const F32Rows x{x_.data(), x_rows_, product_.cols};
    const size_t cols = product_.cols;
    switch (product_.format) {
      case WeightFormat::kInt4:
        return kernels_.matmul_int4({As<uint8_t>(codes), As<float>(scales), rows_, cols}, rows,
                                    quantized_, y);
      case WeightFormat::kMxfp4:
        return kernels_.matmul_mxfp4({As<uint8_t>(codes), As<uint8_t>(scales), rows_, cols}, rows,
                                     quantized_, y);
      case WeightFormat::kInt8:
        return kernels_.matmul_int8({As<int8_t>(codes), As<float>(scales), rows_, cols}, rows,
                                    quantized_, y);
      case WeightFormat::kInt8ByF32:
        return kernels_.matmul_int8_f32({As<int8_t>(codes), As<float>(scales), rows_, cols}, rows,
                                        x, y);
      case WeightFormat::kBf16:
        return kernels_.matmul_bf16({As<uint16_t>(codes), rows_, cols}, rows, x, y);
      case WeightFormat::kF32:
        return kernels_.matmul_f32({As<float>(codes), rows_, cols}, rows, x, y);
    }
  }

 private:
  template <typename T>
  static const T* As(const std::byte* p) {
    return reinterpret_cast<const T*>(p);
  }

  const BenchProduct& product_;
  const Kernels& kernels_;
  const std::span<const std::byte> weights_;
  const size_t rows_;
  const size_t stride_;
  const size_t pieces_per_copy_;
  std::vector<float> x_;
  const size_t x_rows_;
  AlignedBuffer quantized_memory_;
  QuantizedRows quantized_;
  std::vector<std::vector<float>> y_;  // Of each thread, [x_rows, rows].
};

struct Samples {
  std::vector<double> bytes{};
  std::vector<double> ops{};
  std::vector<double> read_share{};
  std::vector<double> compute_share{};
};

struct LimitSamples {
  std::vector<double> integer{};
  std::vector<double> floating{};
};

class KernelBench {
 public:
  explicit KernelBench(const KernelBenchOptions& options) : options_(options) {}

  Status Prepare() {
    report_.cpu = CpuModel();
    report_.num_cpus = UsableCpus();
#ifdef NDEBUG
    report_.build = "release";
#else
    report_.build = "debug, whose figures say nothing";
#endif
    for (const InstructionSet set : options_.sets) {
      if (!CpuHas(set)) {
        return Error(Code::kInvalidArgument, "this CPU has no {}", InstructionSetName(set));
      }
    }
    if (options_.sets.empty()) {
      for (const Kernels* kernels : AvailableKernels()) {
        options_.sets.push_back(kernels->instruction_set);
      }
    }
    if (options_.threads.empty()) {
      options_.threads.push_back(1);
      if (report_.num_cpus > 1) options_.threads.push_back(report_.num_cpus);
    }
    for (const int threads : options_.threads) {
      ThreadPool& pool = *pools_.emplace_back(std::make_unique<ThreadPool>(threads));
      if (pool.num_threads() < threads) {
        return Error(Code::kResourceExhausted, "the system starts {} of {} threads",
                     pool.num_threads(), threads);
      }
    }
    for (const BenchProduct& product : BenchProducts()) {
      if (options_.formats.empty() ||
          std::ranges::find(options_.formats, product.format) != options_.formats.end()) {
        products_.push_back(product);
      }
    }
    if (products_.empty() || options_.x_rows.empty()) {
      return Error(Code::kInvalidArgument, "there is no product to measure");
    }
    PICCHIO_ASSIGN_OR_RETURN(weights_, PageMemory::Allocate(options_.buffer_bytes));
    report_.buffer_bytes = weights_.size();
    // Ordinary numbers in every format: as BF16 and F32 of either sign between 2^-15 and 1.9, as
    // exponents of MXFP4 far from both ends.
    std::mt19937_64 random(1);
    for (size_t i = 0; i + sizeof(uint64_t) <= weights_.size(); i += sizeof(uint64_t)) {
      const uint64_t bytes = 0x3838383838383838 | (random() & 0x8787878787878787);
      std::memcpy(weights_.data() + i, &bytes, sizeof(bytes));
    }
    for (const std::unique_ptr<ThreadPool>& pool : pools_) {
      report_.read_limits.push_back({.threads = pool->num_threads()});
      for (const InstructionSet set : options_.sets) {
        report_.compute_limits.push_back({.set = set, .threads = pool->num_threads()});
        for (const BenchProduct& product : products_) {
          for (const size_t x_rows : options_.x_rows) {
            report_.figures.push_back(
                {.product = product, .set = set, .threads = pool->num_threads(), .x_rows = x_rows});
          }
        }
      }
    }
    read_samples_.resize(report_.read_limits.size());
    limit_samples_.resize(report_.compute_limits.size());
    samples_.resize(report_.figures.size());
    return Status::Ok();
  }

  Result<KernelBenchReport> Run(const std::atomic<bool>& stop,
                                const std::function<void(size_t, size_t)>& on_progress) {
    const size_t total = report_.figures.size() * static_cast<size_t>(options_.rounds);
    size_t done = 0;
    for (int round = 0; round < options_.rounds; ++round) {
      for (size_t i = 0; i < report_.figures.size(); ++i) {
        if (stop)
          return Error(Code::kCancelled, "stopped after {} of {} measurements", done, total);
        PICCHIO_RETURN_IF_ERROR(Measure(i));
        on_progress(++done, total);
      }
    }
    Summarize();
    return std::move(report_);
  }

 private:
  // What a figure is held against, and it itself, directly behind each other.
  Status Measure(size_t idx) {
    const KernelFigure& figure = report_.figures[idx];
    const size_t pool_idx = idx / (report_.figures.size() / pools_.size());
    const size_t limit_idx = idx / (report_.figures.size() / report_.compute_limits.size());
    ThreadPool& pool = *pools_[pool_idx];

    const double read = Read(pool);
    read_samples_[pool_idx].push_back(read);
    const CoreLimits& limits = *LimitsFor(figure.set);
    const bool quantized = TakesQuantized(figure.product.format);
    const double peak = quantized ? Multiply(pool, limits.multiply_bytes, limits.integer_ops)
                                  : Multiply(pool, limits.multiply_floats, limits.float_ops);
    LimitSamples& limit = limit_samples_[limit_idx];
    (quantized ? limit.integer : limit.floating).push_back(peak);

    const Kernels& kernels = *KernelsFor(figure.set);
    Work work(figure.product, weights_.bytes(), kernels, figure.x_rows, figure.threads);
    PICCHIO_RETURN_IF_ERROR(work.Prepare());
    const auto first = static_cast<size_t>(cursor_ / work.bytes_per_piece());
    const double bytes =
        work.bytes_per_piece() *
        PiecesPerSecond(pool, options_.seconds, first,
                        [&work](size_t piece, int thread) { work.Run(piece, thread); });
    cursor_ += bytes * options_.seconds;
    samples_[idx].bytes.push_back(bytes);
    samples_[idx].ops.push_back(bytes * work.ops_per_byte());
    samples_[idx].read_share.push_back(bytes / read);
    samples_[idx].compute_share.push_back(bytes * work.ops_per_byte() / peak);
    return Status::Ok();
  }

  double Read(ThreadPool& pool) {
    const CoreLimits& limits = *LimitsFor(BestKernels().instruction_set);
    const size_t num_pieces = std::max<size_t>(weights_.size() / kReadPieceBytes, 1);
    const size_t bytes = std::min(weights_.size(), kReadPieceBytes);
    const auto first = static_cast<size_t>(cursor_ / static_cast<double>(bytes));
    const double rate = static_cast<double>(bytes) *
                        PiecesPerSecond(pool, options_.seconds, first, [&](size_t piece, int) {
                          kept_ = limits.read(weights_.data() + piece % num_pieces * bytes, bytes);
                        });
    cursor_ += rate * options_.seconds;
    return rate;
  }

  template <typename T>
  double Multiply(ThreadPool& pool, T (*multiply)(size_t rounds), size_t ops) {
    return static_cast<double>(kLimitRounds * ops) *
           PiecesPerSecond(pool, options_.seconds / 4, 0, [&](size_t, int) {
             kept_ = static_cast<uint32_t>(multiply(kLimitRounds));
           });
  }

  void Summarize() {
    for (size_t i = 0; i < read_samples_.size(); ++i) {
      report_.read_limits[i].bytes_per_second = SpreadOf(read_samples_[i]);
    }
    for (size_t i = 0; i < limit_samples_.size(); ++i) {
      report_.compute_limits[i].integer_ops_per_second = SpreadOf(limit_samples_[i].integer);
      report_.compute_limits[i].float_ops_per_second = SpreadOf(limit_samples_[i].floating);
    }
    for (size_t i = 0; i < samples_.size(); ++i) {
      KernelFigure& figure = report_.figures[i];
      figure.bytes_per_second = SpreadOf(samples_[i].bytes);
      figure.ops_per_second = SpreadOf(samples_[i].ops);
      const Spread read = SpreadOf(samples_[i].read_share);
      const Spread compute = SpreadOf(samples_[i].compute_share);
      const bool quantized = TakesQuantized(figure.product.format);
      figure.wall = NearerWall(read.median, compute.median, quantized).wall;
      figure.share = figure.wall == Wall::kMemory ? read : compute;
    }
  }

  KernelBenchOptions options_;
  KernelBenchReport report_;
  std::vector<std::unique_ptr<ThreadPool>> pools_;  // One for each number of threads.
  std::vector<BenchProduct> products_;
  PageMemory weights_;
  double cursor_ = 0;  // Bytes read so far: where the next measurement goes on, beyond the caches.
  std::vector<std::vector<double>> read_samples_;
  std::vector<LimitSamples> limit_samples_;
  std::vector<Samples> samples_;
  std::atomic<uint32_t> kept_{0};  // What the compiler must not leave out.
};

}  // namespace

std::string_view WallName(Wall wall) {
  switch (wall) {
    case Wall::kMemory:
      return "memory";
    case Wall::kInteger:
      return "integer";
    case Wall::kFloat:
      return "float";
  }
  return "unknown";
}

Reached NearerWall(double read_share, double compute_share, bool quantized) {
  if (read_share >= compute_share) return {Wall::kMemory, read_share};
  return {quantized ? Wall::kInteger : Wall::kFloat, compute_share};
}

Result<KernelBenchReport> RunKernelBench(const KernelBenchOptions& options,
                                         const std::atomic<bool>& stop,
                                         const std::function<void(size_t, size_t)>& on_progress) {
  KernelBench bench(options);
  PICCHIO_RETURN_IF_ERROR(bench.Prepare());
  return bench.Run(stop, on_progress);
}

}  // namespace picchio
