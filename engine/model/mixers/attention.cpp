// SPDX-License-Identifier: Apache-2.0
#include "engine/model/mixers/attention.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <tuple>

#include "engine/kernels/attention_scratch.hpp"

namespace semantic::engine {

namespace {

/// Query rows of a tile: K and V are unpacked once for all of them. More rows would not fit into L2
/// with their sums (100 KiB).
constexpr int tile_rows_wanted = 256;
/// With fewer tiles than this for each thread, tiles are split, because one with many frames would
/// keep one thread busy while the others wait.
constexpr int tiles_per_slot_wanted = 4;
/// Partial results of split tiles that are kept at once, for each thread: with full tiles, and at
/// most, with tiles of few rows.
constexpr int pieces_per_slot = 16, pieces_per_slot_max = 512;
/// Multiply-adds that one thread does in about 10 microseconds. For less work it does not pay to
/// wake other threads.
constexpr double parallel_work = 1e6;

/// The rows of one KV head in a frame, as the kernel reads them.
kv_rows rows_of(const std::byte* frame, const storage::kv_region& region, int head,
                int block_tokens) {
    kv_rows rows;
    rows.rows = frame + region.row_at(block_tokens, head, 0);
    rows.dim = region.dim;
    rows.bits = region.bits;
    rows.row_bytes = region.row_bytes;
    rows.row_scales = region.groups;
    if (region.groups > 0) {
        const std::byte* scales = frame + region.scale_at(block_tokens, head, 0);
        rows.scales = reinterpret_cast<const half*>(scales);
        rows.biases = reinterpret_cast<const half*>(scales + (region.biases - region.scales));
    }
    return rows;
}

}  // namespace

query_rows::query_rows(int kv_heads, int group, int dim, int rows_max, bool quantized)
    : group_(group), dim_(dim), rows_max_(rows_max), quantized_(quantized) {
    const std::size_t count = offset(kv_heads, 0);
    values_ = aligned_buffer<float>(count);
    if (quantized_) {
        q_ = aligned_buffer<std::int8_t>(count);
        scales_ = aligned_buffer<float>(count / group_size);
        sums_ = aligned_buffer<float>(count / group_size);
    }
}

void query_rows::quantize(const kernel_table& kernels, int kv_head, int row) {
    if (!quantized_) return;
    const std::size_t i = offset(kv_head, row);
    kernels.quantize_rows(values_.data() + i, group_, dim_, q_.data() + i,
                          scales_.data() + i / group_size, sums_.data() + i / group_size);
}

void query_rows::view(int kv_head, int row, attention_block& block) const {
    const std::size_t i = offset(kv_head, row);
    block.queries = values_.data() + i;
    if (quantized_) {
        block.q = {q_.data() + i, scales_.data() + i / group_size, sums_.data() + i / group_size};
    }
}

attention::partial_store::partial_store(int count, int rows, int v_dim)
    : rows_(static_cast<std::size_t>(rows)),
      v_dim_(static_cast<std::size_t>(v_dim)),
      states_(static_cast<std::size_t>(count) * rows_),
      out_(static_cast<std::size_t>(count) * rows_ * v_dim_) {}

attention::partial attention::partial_store::at(int index, std::size_t rows) {
    const std::size_t first = static_cast<std::size_t>(index) * rows;
    return {states_.data() + first, out_.data() + first * v_dim_};
}

attention::attention(const kernel_table& kernels, const task_runner& tasks,
                     const storage::kv_layout& layout, int layer, int group, double scale,
                     int rows_max, const key_means* means, wide_store& wide)
    : kernels_(kernels),
      tasks_(tasks),
      layout_(layout),
      group_(group),
      k_dim_(layout.k(layer).dim),
      v_dim_(layout.v(layer).dim),
      kv_heads_(layout.layer(layer).kv_heads),
      scale_(static_cast<float>(scale)),
      means_(means),
      wide_(wide),
      tile_tokens_(std::max(1, tile_rows_wanted / group)),
      running_(tiles_per_slot_wanted * tasks.slots(), tile_tokens_ * group, v_dim_),
      pieces_(pieces_per_slot * tasks.slots(), tile_tokens_ * group, v_dim_) {
    tiles_.reserve(static_cast<std::size_t>(rows_max) * static_cast<std::size_t>(kv_heads_));
    units_.reserve(static_cast<std::size_t>(pieces_per_slot_max * tasks.slots()));
    const int rows = tile_tokens_ * group;
    for (int i = 0; i < tasks.slots(); ++i) {
        slot_scratch slot;
        slot.begin.resize(static_cast<std::size_t>(rows));
        slot.end.resize(static_cast<std::size_t>(rows));
        slot.kernel = aligned_buffer<float>(
            attention_scratch_floats(rows, layout.block_tokens(), k_dim_, v_dim_));
        slots_.push_back(std::move(slot));
    }
}

void attention::run(int layer, std::span<const attention_span> spans, const query_rows& queries,
                    std::span<const float> sinks, float* out) {
    cut_into_tiles(layer, spans);
    if (worth_splitting()) {
        run_split(layer, queries, sinks, out);
    } else {
        run_whole(layer, queries, sinks, out);
    }
}

void attention::cut_into_tiles(int layer, std::span<const attention_span> spans) {
    const int window = layout_.layer(layer).window;
    tiles_.clear();
    for (const attention_span& span : spans) {
        for (int first = 0; first < span.count; first += tile_tokens_) {
            const int tokens = std::min(tile_tokens_, span.count - first);
            const int oldest = window == 0 ? 0 : std::max(0, span.positions[first] - window + 1);
            const int newest = span.positions[first + tokens - 1];
            for (int head = 0; head < layout_.layer(layer).kv_heads; ++head) {
                const int begin = oldest / layout_.block_tokens();
                const int end =
                    (packed_end(newest) + layout_.block_tokens() - 1) / layout_.block_tokens();
                tiles_.push_back({&span, head, first, tokens, begin, std::max(begin, end),
                                  std::max(begin, end) + (layout_.has_wide_tail() ? 1 : 0)});
            }
        }
    }
    // The longest first, so that no thread starts on one when the others are done.
    // Equal ones stay in the order of memory: a frame's heads lie side by side.
    std::sort(tiles_.begin(), tiles_.end(), [](const tile& a, const tile& b) {
        const int work_a = (a.end - a.frame_begin) * a.tokens,
                  work_b = (b.end - b.frame_begin) * b.tokens;
        return std::tuple(work_b, a.span->first_row, a.first, a.kv_head) <
               std::tuple(work_a, b.span->first_row, b.first, b.kv_head);
    });
}

/// How many tokens, from the start, a query at `position` reads from frames: all up to itself, or
/// with a wide tail those before its own group.
int attention::packed_end(int position) const {
    return layout_.has_wide_tail() ? layout_.group_start(position) : position + 1;
}

double attention::work() const {
    double products = 0.0;
    for (const tile& t : tiles_) {
        products += static_cast<double>(t.end - t.frame_begin) * t.tokens;
    }
    return products * group_ * layout_.block_tokens() * (k_dim_ + v_dim_);
}

bool attention::worth_splitting() const {
    return tasks_.slots() > 1 &&
           static_cast<int>(tiles_.size()) < tiles_per_slot_wanted * tasks_.slots() &&
           work() > 2 * parallel_work;
}

/// Attends all tiles, each by one task that goes through all of its frames. sinks: of each head, or
/// empty; out: the finished rows.
void attention::run_whole(int layer, const query_rows& queries, std::span<const float> sinks,
                          float* out) {
    const auto whole_tile = [&](int index, int slot) {
        const tile& t = tiles_[static_cast<std::size_t>(index)];
        const partial state = running_.at(slot);
        start(layer, t, queries, sinks, state);
        for (int frame = t.frame_begin; frame < t.end; ++frame) {
            place next{&t, frame + 1};
            if (next.frame == t.end) next = first_place(index + 1);
            attend_part(layer, {&t, frame}, next, queries, state, slot);
        }
        finish(t, state, out);
    };
    tasks_.run(static_cast<int>(tiles_.size()), work() > parallel_work, whole_tile);
}

void attention::run_split(int layer, const query_rows& queries, std::span<const float> sinks,
                          float* out) {
    int tokens = 0;
    for (const tile& t : tiles_) tokens = std::max(tokens, t.tokens);
    const auto piece_rows = static_cast<std::size_t>(tokens * group_);
    const std::size_t units_max = std::min(units_.capacity(), pieces_.room_for(piece_rows));
    for (std::size_t i = 0; i < tiles_.size(); ++i)
        start(layer, tiles_[i], queries, sinks, running_.at(static_cast<int>(i)));
    std::size_t at = 0;
    int frame = tiles_.empty() ? 0 : tiles_[0].frame_begin;
    while (at < tiles_.size()) {
        units_.clear();
        for (tile& t : tiles_) t.unit_begin = t.unit_end = 0;
        while (at < tiles_.size() && units_.size() < units_max) {
            const int index = static_cast<int>(units_.size());
            tile& t = tiles_[at];
            if (t.unit_end == 0) t.unit_begin = index;
            t.unit_end = index + 1;
            units_.push_back({static_cast<int>(at), frame});
            if (++frame < tiles_[at].end) continue;
            if (++at < tiles_.size()) frame = tiles_[at].frame_begin;
        }
        run_wave(layer, queries, piece_rows);
    }
    tasks_.run(static_cast<int>(tiles_.size()), false, [&](int index, int) {
        finish(tiles_[static_cast<std::size_t>(index)], running_.at(index), out);
    });
}

void attention::run_wave(int layer, const query_rows& queries, std::size_t piece_rows) {
    const int count = static_cast<int>(units_.size());
    // A task computes some consecutive units, so that each can prefetch the next one's frame.
    const int length = std::clamp(count / (tiles_per_slot_wanted * tasks_.slots()), 1, 8);
    tasks_.run((count + length - 1) / length, true, [&](int task, int slot) {
        const int end = std::min(count, (task + 1) * length);
        for (int index = task * length; index < end; ++index) {
            const unit& u = units_[static_cast<std::size_t>(index)];
            const tile& t = tiles_[static_cast<std::size_t>(u.tile)];
            const partial piece = pieces_.at(index, piece_rows);
            clear(t, piece);
            place next;
            if (index + 1 < count) {
                const unit& following = units_[static_cast<std::size_t>(index + 1)];
                next = {&tiles_[static_cast<std::size_t>(following.tile)], following.frame};
            }
            attend_part(layer, {&t, u.frame}, next, queries, piece, slot);
        }
    });
    tasks_.run(static_cast<int>(tiles_.size()), true, [&](int index, int) {
        merge_pieces(tiles_[static_cast<std::size_t>(index)], running_.at(index), piece_rows);
    });
}

/// Merges a tile's partial results of this wave into its states, in the order of its frames.
void attention::merge_pieces(const tile& t, partial target, std::size_t piece_rows) {
    for (int index = t.unit_begin; index < t.unit_end; ++index) {
        const partial piece = pieces_.at(index, piece_rows);
        for (int row = 0; row < t.tokens * group_; ++row) {
            // The row sees no token of this frame; as in a whole tile, its state does not change.
            if (piece.states[row].max == -std::numeric_limits<float>::infinity()) continue;
            kernels_.merge_softmax(target.states[row], target.out + row * v_dim_, piece.states[row],
                                   piece.out + row * v_dim_, v_dim_);
        }
    }
}

void attention::clear(const tile& t, partial target) const {
    const int rows = t.tokens * group_;
    std::fill_n(target.states, rows, softmax_state{-std::numeric_limits<float>::infinity(), 0.0f});
    std::fill_n(target.out, static_cast<std::size_t>(rows) * static_cast<std::size_t>(v_dim_),
                0.0f);
}

/// Sets the tile's states to those before the first frame: empty, or with the sink of each head,
/// lowered by as much as the scores of centred keys are.
void attention::start(int layer, const tile& t, const query_rows& queries,
                      std::span<const float> sinks, partial target) const {
    clear(t, target);
    if (sinks.empty()) return;
    const auto first = static_cast<std::size_t>(t.kv_head * group_);
    for (int row = 0; row < t.tokens * group_; ++row) {
        target.states[row] = {sinks[first + static_cast<std::size_t>(row % group_)], 1.0f};
    }
    if (means_ == nullptr) return;
    attention_block block;
    queries.view(t.kv_head, t.span->first_row + t.first, block);
    for (int row = 0; row < t.tokens * group_; ++row)
        target.states[row].max -=
            scale_ * means_->lost(layer, t.kv_head, block.queries + row * k_dim_);
}

attention::place attention::first_place(int index) const {
    if (index >= static_cast<int>(tiles_.size())) return {};
    const auto& t = tiles_[static_cast<std::size_t>(index)];
    return {&t, t.frame_begin};
}

void attention::attend_part(int layer, place at, place next, const query_rows& queries,
                            partial target, int slot) {
    // The frame after the last one is the wide tail, which is not prefetched.
    if (at.frame == at.owner->frame_end)
        return attend_wide(layer, *at.owner, queries, target, slot);
    if (next.owner != nullptr && next.frame == next.owner->frame_end) next = {};
    attend_frame(layer, at, next, queries, target, slot);
}

/// The wide tail of a tile: each token attends to the f16 rows of its own group, up to itself.
void attention::attend_wide(int layer, const tile& t, const query_rows& queries, partial target,
                            int slot) {
    const int* positions = t.span->positions + t.first;
    for (int from = 0, to = 0; from < t.tokens; from = to) {
        const int start = layout_.group_start(positions[from]);
        while (to < t.tokens && layout_.group_start(positions[to]) == start) ++to;
        attend_group(layer, t, from, to, queries, target, slot);
    }
}

/// Attends the tokens [from, to) of a tile, whose positions belong to one group of the layout.
void attention::attend_group(int layer, const tile& t, int from, int to, const query_rows& queries,
                             partial target, int slot) {
    slot_scratch& scratch = slots_[static_cast<std::size_t>(slot)];
    const storage::kv_layer& shape = layout_.layer(layer);
    const int* positions = t.span->positions + t.first;
    const int start = layout_.group_start(positions[from]);
    const wide_store::group group = wide_.at(*t.span->part, layer, positions[from]);
    attention_block block;
    for (int i = from; i < to; ++i) {
        const int end = positions[i] + 1 - start;
        const int begin = shape.window == 0 ? 0 : std::clamp(end - shape.window, 0, end);
        std::fill_n(scratch.begin.begin() + (i - from) * group_, group_, begin);
        std::fill_n(scratch.end.begin() + (i - from) * group_, group_, end);
        block.tokens = end;
    }
    queries.view(t.kv_head, t.span->first_row + t.first + from, block);
    block.count = (to - from) * group_;
    block.k = {
        .rows = group.rows.key(shape, t.kv_head, group.first), .dim = shape.k_dim, .bits = 16};
    block.v = {
        .rows = group.rows.value(shape, t.kv_head, group.first), .dim = shape.v_dim, .bits = 16};
    block.k.row_bytes = static_cast<std::size_t>(shape.k_dim) * 2;
    block.v.row_bytes = static_cast<std::size_t>(shape.v_dim) * 2;
    block.begin = scratch.begin.data();
    block.end = scratch.end.data();
    block.scale = scale_;
    block.state = target.states + from * group_;
    block.out = target.out + from * group_ * v_dim_;
    block.scratch = scratch.kernel.data();
    kernels_.attend(block);
}

/// Attends a tile's tokens over one frame, for each KV head. `next`: the frame that this thread
/// reads next, which a kernel may prefetch.
void attention::attend_frame(int layer, place at, place next, const query_rows& queries,
                             partial target, int slot) {
    const tile& t = *at.owner;
    slot_scratch& scratch = slots_[static_cast<std::size_t>(slot)];
    const int tokens = layout_.block_tokens(), window = layout_.layer(layer).window;
    const int start = at.frame * tokens;
    attention_block block;
    for (int i = 0; i < t.tokens; ++i) {
        const int position = t.span->positions[t.first + i];
        const int end = std::clamp(packed_end(position) - start, 0, tokens);
        const int begin = window == 0 ? 0 : std::clamp(position + 1 - window - start, 0, end);
        std::fill_n(scratch.begin.begin() + i * group_, group_, begin);
        std::fill_n(scratch.end.begin() + i * group_, group_, end);
        block.tokens = std::max(block.tokens, end);
    }
    const auto bytes_of = [layer](place p) {
        return p.owner->span->part->cache->frames(layer)[static_cast<std::size_t>(p.frame)];
    };
    const std::byte* bytes = bytes_of(at);
    if (next.owner != nullptr) {
        const std::byte* following = bytes_of(next);
        block.next_k = rows_of(following, layout_.k(layer), next.owner->kv_head, tokens);
        block.next_v = rows_of(following, layout_.v(layer), next.owner->kv_head, tokens);
        const int newest = next.owner->span->positions[next.owner->first + next.owner->tokens - 1];
        block.next_tokens = std::clamp(packed_end(newest) - next.frame * tokens, 0, tokens);
    }
    queries.view(t.kv_head, t.span->first_row + t.first, block);
    block.count = t.tokens * group_;
    block.k = rows_of(bytes, layout_.k(layer), t.kv_head, tokens);
    block.v = rows_of(bytes, layout_.v(layer), t.kv_head, tokens);
    block.begin = scratch.begin.data();
    block.end = scratch.end.data();
    block.scale = scale_;
    block.state = target.states;
    block.out = target.out;
    block.scratch = scratch.kernel.data();
    kernels_.attend(block);
}

void attention::finish(const tile& t, partial from, float* out) const {
    const std::size_t row_floats = static_cast<std::size_t>(kv_heads_ * group_ * v_dim_);
    for (int i = 0; i < t.tokens; ++i) {
        float* to = out + static_cast<std::size_t>(t.span->first_row + t.first + i) * row_floats +
                    static_cast<std::size_t>(t.kv_head * group_ * v_dim_);
        for (int head = 0; head < group_; ++head) {
            const int row = i * group_ + head;
            kernels_.finish_softmax(from.states[row], from.out + row * v_dim_, v_dim_);
        }
        // The heads of a group are neighbours on both sides.
        std::memcpy(to, from.out + i * group_ * v_dim_,
                    static_cast<std::size_t>(group_ * v_dim_) * sizeof(float));
    }
}

}  // namespace semantic::engine
