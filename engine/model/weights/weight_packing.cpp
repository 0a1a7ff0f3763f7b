// SPDX-License-Identifier: Apache-2.0
#include "engine/model/weights/weight_packing.hpp"

#include <tbb/parallel_for.h>
#include <tbb/parallel_invoke.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <mutex>
#include <string>

#include "engine/kernels/gemm.hpp"
#include "engine/model/weights/gguf_blocks.hpp"
#include "engine/model/weights/gguf_packing.hpp"

namespace semantic::engine {

namespace {

using storage::errc;
using storage::failure;

/// Source bytes of one packing task: so much of source and packed copy is in memory at once, for
/// each thread.
constexpr std::size_t task_source_bytes = 1u << 20;
/// Packed bytes of a window: one is written while the next is packed.
constexpr std::size_t window_bytes = 32u << 20;
/// The largest f16 number, for scales and biases.
constexpr float quantized_weight_max = 65504.0f;

/// The source bytes of the rows [begin, end) of a part with `rows` rows of equal size.
std::span<const std::byte> row_bytes(std::span<const std::byte> part, int rows, int begin,
                                     int end) {
    const std::size_t each = part.size() / static_cast<std::size_t>(rows);
    return part.subspan(each * static_cast<std::size_t>(begin),
                        each * static_cast<std::size_t>(end - begin));
}

std::size_t element_bytes(weight_kind kind) { return kind == weight_kind::f32 ? 4 : 2; }

/// A run of tiles of one matrix.
struct packing_task {
    const packing* plan;
    int tile_begin, tile_end;
};

/// Cuts the plans into tasks of about task_source_bytes, in their order.
std::vector<packing_task> cut(const std::vector<packing>& plans) {
    std::vector<packing_task> tasks;
    for (const packing& plan : plans) {
        const int tiles = plan.to->tiles();
        const auto pieces = static_cast<int>(std::min<std::size_t>(
            plan.source_bytes() / task_source_bytes + 1, static_cast<std::size_t>(tiles)));
        for (int i = 0; i < pieces; ++i) {
            tasks.push_back({&plan, static_cast<int>(std::int64_t{tiles} * i / pieces),
                             static_cast<int>(std::int64_t{tiles} * (i + 1) / pieces)});
        }
    }
    return tasks;
}

/// Widens `count` elements of a float kind.
void widen(weight_kind kind, const std::byte* from, std::size_t count, float* out) {
    if (kind == weight_kind::f32) {
        std::memcpy(out, from, count * sizeof(float));
        return;
    }
    for (std::size_t i = 0; i < count; ++i) {
        std::uint16_t bits;
        std::memcpy(&bits, from + 2 * i, sizeof bits);
        out[i] = kind == weight_kind::f16 ? to_float(bits) : bfloat_to_float(bits);
    }
}

float scale_at(scale_kind kind, std::span<const std::byte> part, std::size_t index) {
    const weight_kind as = kind == scale_kind::f32   ? weight_kind::f32
                           : kind == scale_kind::f16 ? weight_kind::f16
                                                     : weight_kind::bf16;
    float value = 0.0f;
    widen(as, part.data() + index * element_bytes(as), 1, &value);
    return value;
}

/// Element `at` of a matrix of MLX words as a float, with the same rounding as the kernels.
float unpacked(const packing& plan, std::size_t at) {
    const bool eight = plan.kind == weight_kind::q8;
    const auto word = std::to_integer<unsigned>(plan.parts[0][eight ? at : at / 2]);
    const unsigned level = eight ? word : word >> at % 2 * 4 & 15u;
    return std::fma(scale_at(plan.scales, plan.parts[1], at / group_size),
                    static_cast<float>(level),
                    scale_at(plan.scales, plan.parts[2], at / group_size));
}

/// Copies one tile's rows of a transposed matrix to `out`, in the order that pack_float reads;
/// floats as they are, MLX words as f16.
void gather_tile(const packing& plan, int tile, std::vector<std::byte>& out) {
    const packed_matrix& to = *plan.to;
    const std::size_t each = element_bytes(plan.kind);
    const int first = tile * lane_count, rows = std::min(lane_count, to.rows - first);
    const auto pitch =
        static_cast<std::size_t>(to.rows) * static_cast<std::size_t>(plan.order.turns);
    out.resize(static_cast<std::size_t>(rows) * static_cast<std::size_t>(to.cols) * each);
    std::byte* next = out.data();
    for (int row = first; row < first + rows; ++row) {
        auto from = static_cast<std::size_t>(row * plan.order.turns + plan.order.turn);
        for (int col = 0; col < to.cols; ++col, from += pitch, next += each) {
            if (plan.from[1] == nullptr) {
                std::memcpy(next, plan.parts[0].data() + from * each, each);
            } else {
                const half value = to_half(unpacked(plan, from));
                std::memcpy(next, &value, sizeof value);
            }
        }
    }
}

std::byte* tile_at(const packing& plan, int tile, std::byte* arena) {
    return arena + plan.offset + static_cast<std::size_t>(tile) * plan.to->tile_bytes();
}

/// A matrix that consists of one tile of the plan's.
packed_matrix one_tile(const packing& plan, int tile) {
    packed_matrix one = *plan.to;
    one.rows = std::min(lane_count, one.rows - tile * lane_count);
    return one;
}

/// Copies one tile's rows to `out`, in the order of the matrix.
void gather_rows(const packing& plan, int tile, std::vector<std::byte>& out) {
    const int first = tile * lane_count, rows = one_tile(plan, tile).rows;
    const std::size_t each = plan.parts[0].size() / static_cast<std::size_t>(plan.to->rows);
    out.resize(static_cast<std::size_t>(rows) * each);
    for (int i = 0; i < rows; ++i) {
        const auto from = static_cast<std::size_t>(source_row(plan.order, first + i));
        std::memcpy(out.data() + static_cast<std::size_t>(i) * each,
                    plan.parts[0].data() + from * each, each);
    }
}

/// Packs GGUF blocks of a type that the kernels support.
std::optional<failure> pack_block_tiles(const packing_task& task, std::byte* arena) {
    const packing& plan = *task.plan;
    const packed_matrix& to = *plan.to;
    std::vector<std::int32_t> row_of;
    if (plan.order.rope_dim > 0) {
        for (int row = 0; row < to.rows; ++row) row_of.push_back(source_row(plan.order, row));
    }
    const block_source source{*plan.blocks, plan.parts[0].data(),
                              plan.parts[0].size() / static_cast<std::size_t>(to.rows), row_of};
    const auto bad = pack_blocks(to, source, task.tile_begin, task.tile_end, arena + plan.offset);
    if (!bad) return std::nullopt;
    return failure{errc::incompatible,
                   plan.from[0]->path() + ": tensor " + plan.name + " holds " + *bad};
}

void pack_transposed(const packing_task& task, std::byte* arena) {
    const packing& plan = *task.plan;
    std::vector<std::byte> rows;
    for (int tile = task.tile_begin; tile < task.tile_end; ++tile) {
        gather_tile(plan, tile, rows);
        pack_float(one_tile(plan, tile), rows.data(), 0, 1, tile_at(plan, tile, arena));
    }
}

/// Packs floats whose rows have another order in the source.
void pack_reordered(const packing_task& task, std::byte* arena) {
    const packing& plan = *task.plan;
    std::vector<std::byte> rows;
    for (int tile = task.tile_begin; tile < task.tile_end; ++tile) {
        gather_rows(plan, tile, rows);
        pack_float(one_tile(plan, tile), rows.data(), 0, 1, tile_at(plan, tile, arena));
    }
}

/// Packs GGUF blocks as floats.
std::optional<failure> pack_dequantized(const packing_task& task, std::byte* arena) {
    const packing& plan = *task.plan;
    const auto cols = static_cast<std::size_t>(plan.to->cols);
    std::vector<std::byte> rows;
    std::vector<float> source, values;
    if (plan.order.transposed) {
        source.resize(static_cast<std::size_t>(plan.to->rows) * cols);
        dequantize(*plan.blocks, plan.parts[0], source);
    }
    for (int tile = task.tile_begin; tile < task.tile_end; ++tile) {
        const packed_matrix one = one_tile(plan, tile);
        values.resize(static_cast<std::size_t>(one.rows) * cols);
        if (plan.order.transposed) {
            const auto pitch = static_cast<std::size_t>(plan.to->rows);
            for (std::size_t i = 0; i < values.size(); ++i) {
                const std::size_t row = static_cast<std::size_t>(tile * lane_count) + i / cols;
                values[i] = source[i % cols * pitch + row];
            }
        } else {
            gather_rows(plan, tile, rows);
            dequantize(*plan.blocks, rows, values);
        }
        for (const float value : values) {
            if (!std::isfinite(value)) {
                return failure{errc::incompatible, plan.from[0]->path() + ": tensor " + plan.name +
                                                       " holds a scale that is not a number"};
            }
        }
        pack_float(one, reinterpret_cast<const std::byte*>(values.data()), 0, 1,
                   tile_at(plan, tile, arena));
    }
    return std::nullopt;
}

/// Quantises a matrix of floats while it is packed, one tile at a time.
class tile_quantizer {
  public:
    tile_quantizer(const kernel_table& kernels, const packing& plan)
        : kernels_(kernels), plan_(plan), bits_(plan.to->kind == weight_kind::q4 ? 4 : 8) {
        const auto cols = static_cast<std::size_t>(plan.to->cols);
        values_.resize(lane_count * cols);
        words_.resize(lane_count * cols * static_cast<std::size_t>(bits_) / 8);
        scales_.resize(lane_count * cols / group_size);
        biases_.resize(lane_count * cols / group_size);
    }

    /// Returns: a value that is not finite or too large for its scale, if there is one.
    std::optional<float> pack(int tile, std::byte* arena) {
        packed_matrix one = *plan_.to;
        const int first = tile * lane_count;
        one.rows = std::min(lane_count, plan_.to->rows - first);
        widen_rows(first, one.rows);
        const auto count = static_cast<std::size_t>(one.rows) * static_cast<std::size_t>(one.cols);
        for (std::size_t i = 0; i < count; ++i) {
            if (!(std::fabs(values_[i]) <= quantized_weight_max)) return values_[i];
        }
        // Consecutive rows are one long row of groups.
        kernels_.quantize_kv(values_.data(), static_cast<int>(count), bits_, kv_rounding::mlx,
                             words_.data(), scales_.data(), biases_.data());
        pack_mlx(one,
                 {words_.data(), reinterpret_cast<const std::byte*>(scales_.data()),
                  reinterpret_cast<const std::byte*>(biases_.data())},
                 0, 1, arena + plan_.offset + static_cast<std::size_t>(tile) * one.tile_bytes());
        return std::nullopt;
    }

  private:
    /// Writes rows of the source as f32 into values_, in the order in which the model has them.
    void widen_rows(int first, int rows) {
        const auto cols = static_cast<std::size_t>(plan_.to->cols);
        const std::size_t count = static_cast<std::size_t>(rows) * cols;
        if (plan_.kind == weight_kind::q8) {
            const std::size_t start = static_cast<std::size_t>(first) * cols;
            for (std::size_t i = 0; i < count; ++i) values_[i] = unpacked(plan_, start + i);
        } else if (plan_.order.transposed) {
            gather_tile(plan_, first / lane_count, gathered_);
            widen(plan_.kind, gathered_.data(), count, values_.data());
        } else if (plan_.order.rope_dim > 0) {
            gather_rows(plan_, first / lane_count, gathered_);
            widen(plan_.kind, gathered_.data(), count, values_.data());
        } else {
            widen(plan_.kind,
                  plan_.parts[0].data() +
                      static_cast<std::size_t>(first) * cols * element_bytes(plan_.kind),
                  count, values_.data());
        }
    }

    const kernel_table& kernels_;
    const packing& plan_;
    const int bits_;
    std::vector<float> values_;  // [16, cols]
    std::vector<std::byte> gathered_, words_;
    std::vector<half> scales_, biases_;
};

/// Quantises a task's tiles of float weights. Returns: an error for a value that f16 cannot hold.
std::optional<failure> pack_quantized(const kernel_table& kernels, const packing_task& task,
                                      std::byte* arena) {
    tile_quantizer quantizer(kernels, *task.plan);
    for (int tile = task.tile_begin; tile < task.tile_end; ++tile) {
        if (const auto bad = quantizer.pack(tile, arena)) {
            return failure{errc::incompatible,
                           task.plan->from[0]->path() + ": tensor " + task.plan->name + " holds " +
                               std::to_string(*bad) + ": quantised weights reach from -65504 to " +
                               "65504; load it with --weights native"};
        }
    }
    return std::nullopt;
}

/// Packs MXFP4. Fails on the exponent 255, the format's NaN, which would spoil all logits.
std::optional<failure> pack_mxfp4_tiles(const packing_task& task, std::byte* arena) {
    const packing& plan = *task.plan;
    const packed_matrix& to = *plan.to;
    const auto turns = static_cast<std::size_t>(plan.order.turns);
    const auto turn = [&](int part) {
        const auto row = plan.parts[part].size() / (static_cast<std::size_t>(to.rows) * turns);
        return plan.parts[part].data() + row * static_cast<std::size_t>(plan.order.turn);
    };
    const int first = task.tile_begin * lane_count,
              last = std::min(task.tile_end * lane_count, to.rows);
    const auto scales = static_cast<std::size_t>(to.cols / 32);  // of a row
    for (int row = first; row < last; ++row) {
        const std::byte* at = turn(1) + static_cast<std::size_t>(row) * turns * scales;
        if (std::find(at, at + scales, std::byte{255}) != at + scales) {
            return failure{errc::incompatible,
                           plan.from[1]->path() + ": tensor " + plan.name +
                               " holds the exponent 255, which is not a number"};
        }
    }
    pack_mxfp4(to, {turn(0), turn(1), plan.order.turns}, task.tile_begin, task.tile_end,
               arena + plan.offset);
    return std::nullopt;
}

/// Releases the source pages of a task that no other task needs.
void drop_source(const packing_task& task) {
    const packing& plan = *task.plan;
    if (plan.order.transposed || plan.order.rope_dim > 0) {
        // Every tile reads all over the source: it can be let go only as a whole. What another task
        // still reads comes back from the page cache.
        if (task.tile_end != plan.to->tiles()) return;
        for (int part = 0; part < 3 && plan.from[part] != nullptr; ++part)
            plan.from[part]->drop(plan.parts[part]);
        return;
    }
    const int first = task.tile_begin * lane_count,
              last = std::min(task.tile_end * lane_count, plan.to->rows);
    for (int part = 0; part < 3 && plan.from[part] != nullptr; ++part) {
        plan.from[part]->drop(row_bytes(plan.parts[part], plan.to->rows, first, last));
    }
}

/// Packs a task's tiles, in the way that the plan's source and form need. Returns: an error, if
/// any.
std::optional<failure> pack(const kernel_table& kernels, const packing_task& task,
                            std::byte* arena) {
    const packing& plan = *task.plan;
    const packed_matrix& to = *plan.to;
    std::optional<failure> bad;
    if (plan.blocks && !to.quantized()) {
        bad = pack_dequantized(task, arena);
    } else if (plan.blocks) {
        bad = pack_block_tiles(task, arena);
    } else if (to.kind != plan.kind && to.quantized()) {
        bad = pack_quantized(kernels, task, arena);
    } else if (plan.order.transposed) {
        pack_transposed(task, arena);
    } else if (plan.order.rope_dim > 0) {
        pack_reordered(task, arena);
    } else if (to.kind == weight_kind::mxfp4) {
        bad = pack_mxfp4_tiles(task, arena);
    } else if (to.quantized()) {
        pack_mlx(to, {plan.parts[0].data(), plan.parts[1].data(), plan.parts[2].data()},
                 task.tile_begin, task.tile_end, arena + plan.offset);
    } else {
        pack_float(to, plan.parts[0].data(), task.tile_begin, task.tile_end, arena + plan.offset);
    }
    drop_source(task);
    return bad;
}

/// The error for tasks that did not run: if another task in the arena throws, TBB silently skips
/// those that are left.
failure cancelled() { return {errc::io, "loading was given up"}; }

/// Runs the tasks on the threads of the calling arena; after a failure no more are begun. `arena`:
/// the address of byte 0 of the arena; for a window, where byte 0 would be.
std::optional<failure> run_tasks(const kernel_table& kernels, std::span<const packing_task> tasks,
                                 std::byte* arena, read_counter& counter) {
    std::atomic<bool> failed{false};
    std::mutex mutex;
    std::optional<failure> complaint;
    std::atomic<std::size_t> packed{0};
    tbb::parallel_for(std::size_t{0}, tasks.size(), [&](std::size_t i) {
        if (failed.load(std::memory_order_relaxed)) return;
        const packing_task& task = tasks[i];
        if (auto bad = pack(kernels, task, arena)) {
            const std::lock_guard lock(mutex);
            if (!complaint) complaint = std::move(bad);
            failed.store(true, std::memory_order_relaxed);
            return;
        }
        counter.add(*task.plan, task.tile_begin, task.tile_end);
        packed.fetch_add(1, std::memory_order_relaxed);
    });
    if (!complaint && packed != tasks.size()) complaint = cancelled();
    return complaint;
}

std::size_t begin_of(const packing_task& task) {
    return task.plan->offset +
           static_cast<std::size_t>(task.tile_begin) * task.plan->to->tile_bytes();
}

/// Consecutive bytes of the arena, and the tasks that pack them.
struct window {
    std::size_t begin = 0, end = 0;
    std::span<const packing_task> tasks;
    std::vector<std::byte> bytes{};
};

/// Fills `next` with the next tasks, as many as fill a window from byte `begin` on, and removes
/// them from `tasks`. `arena_bytes`: the end of the last task.
void advance(window& next, std::size_t begin, std::span<const packing_task>& tasks,
             std::size_t arena_bytes) {
    std::size_t count = 0;
    next.begin = next.end = begin;
    while (count < tasks.size() && next.end - begin < window_bytes) {
        ++count;
        next.end = count < tasks.size() ? begin_of(tasks[count]) : arena_bytes;
    }
    next.tasks = tasks.first(count);
    tasks = tasks.subspan(count);
    next.bytes.assign(next.end - next.begin, std::byte{0});  // zeros between matrices
}

}  // namespace

read_counter::read_counter(const std::vector<packing>& plans, const std::vector<weight_file>& files,
                           const weights_progress& progress, read_pace& pace)
    : progress_(progress), pace_(pace) {
    for (const weight_file& file : files) {
        index_[&file] = files_.size();
        const std::string& path = file.path();
        // A file of which nothing is packed counts as read.
        files_.push_back({path.substr(path.rfind('/') + 1), 1.0});
    }
    all_.resize(files.size());
    done_.resize(files.size());
    for (const packing& plan : plans) {
        count(plan, 0, plan.to->tiles(), all_);
        all_bytes_ += static_cast<double>(plan.source_bytes());
    }
    for (std::size_t i = 0; i < files.size(); ++i) {
        if (all_[i] > 0.0) files_[i].fraction = 0.0;
    }
}

void read_counter::add(const packing& plan, int tile_begin, int tile_end) {
    const std::lock_guard lock(mutex_);
    pace_.advance(static_cast<std::uint64_t>(count(plan, tile_begin, tile_end, done_)));
    double done = 0.0;
    bool ended = false;
    for (std::size_t i = 0; i < files_.size(); ++i) {
        done += done_[i];
        if (all_[i] == 0.0) continue;
        // Sums of shares: the last one may miss the whole by a rounding.
        const double now = done_[i] > all_[i] - 0.5 ? 1.0 : done_[i] / all_[i];
        ended = ended || (now == 1.0 && files_[i].fraction < 1.0);
        files_[i].fraction = now;
    }
    const double fraction = done > all_bytes_ - 0.5 ? 1.0 : done / all_bytes_;
    if (!progress_ || (!ended && fraction < reported_ + 0.005)) return;
    reported_ = fraction;
    progress_(fraction, files_);
}

/// Adds the tiles' source bytes to `sums`, by file. Returns: their sum.
double read_counter::count(const packing& plan, int tile_begin, int tile_end,
                           std::vector<double>& sums) const {
    const double share = static_cast<double>(tile_end - tile_begin) / plan.to->tiles();
    double sum = 0.0;
    for (int part = 0; part < 3 && plan.from[part] != nullptr; ++part) {
        const double bytes = share * static_cast<double>(plan.parts[part].size());
        sums[index_.at(plan.from[part])] += bytes;
        sum += bytes;
    }
    return sum;
}

std::optional<failure> pack_all(const kernel_table& kernels, const std::vector<packing>& plans,
                                std::byte* arena, read_counter& counter) {
    return run_tasks(kernels, cut(plans), arena, counter);
}

std::optional<failure> pack_in_order(const kernel_table& kernels, const std::vector<packing>& plans,
                                     std::size_t arena_bytes, const arena_writer& write,
                                     read_counter& counter) {
    const std::vector<packing_task> all = cut(plans);
    std::span<const packing_task> left(all);
    window packed, next;
    std::optional<failure> complaint;
    while (!complaint && (!left.empty() || packed.end > packed.begin)) {
        advance(next, packed.end, left, arena_bytes);
        // These stay if TBB skips a call because another task in the arena has thrown.
        std::optional<failure> unwritten = cancelled(), unpacked = cancelled();
        // The bytes before the window are never touched: tasks know their place in the whole arena.
        const auto arena = reinterpret_cast<std::uintptr_t>(next.bytes.data()) - next.begin;
        tbb::parallel_invoke(
            [&] {
                const auto ok =
                    packed.bytes.empty() ? storage::result<void>() : write(packed.bytes);
                unwritten = ok ? std::nullopt : std::optional(ok.error());
            },
            [&] {
                unpacked =
                    run_tasks(kernels, next.tasks, reinterpret_cast<std::byte*>(arena), counter);
            });
        complaint = unwritten ? unwritten : unpacked;
        std::swap(packed, next);
    }
    return complaint;
}

}  // namespace semantic::engine
