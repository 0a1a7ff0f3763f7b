#include "engine/model/transformer.hpp"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "engine/kernels/gemm.hpp"
#include "engine/model/aligned_buffer.hpp"
#include "engine/model/attention.hpp"
#include "engine/model/feed_forward.hpp"
#include "engine/model/rope.hpp"
#include "engine/model/task_runner.hpp"
#include "engine/model/weights.hpp"
#include "storage/types/assert.hpp"

namespace semantic::engine {

namespace {

/// Rows that go through a layer's matrices together. 256 rows do 512 operations for each byte of
/// 4-bit weights, so the second panel's pass over the weights costs nothing, while scratch stays
/// small: one panel of a 1B model's MLP is 16 MiB.
constexpr int panel_rows_max = 256;

std::size_t area(int rows, int cols) {
    return static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols);
}

storage::failure incompatible(std::string what) {
    return {storage::errc::incompatible, std::move(what)};
}

}  // namespace

struct transformer::impl {
    impl(const model_config& config_in, const storage::kv_layout& layout_in,
         const kernel_table& kernels_in, transformer_limits limits_in, model_weights weights_in);

    void forward(std::span<sequence_step> batch);

    // The pass, in order.
    void lay_out_rows(std::span<const sequence_step> batch);
    void embed(std::span<const sequence_step> batch);
    void project(int layer, bool queries, bool keys_and_values);
    void project_panel(int layer, int begin, int end, bool queries, bool keys_and_values);
    void sharpen_keys_and_values(const layer_weights& w, int begin, int end, float* k, float* v);
    void place_query(int layer, int row, const float* q);
    void append(int layer, int row, float* k, const float* v);
    void attend(int layer);
    void mix_and_expand(int layer);
    void keep_asked_rows(std::span<const sequence_step> batch);
    void write_logits(std::span<const sequence_step> batch);

    float* hidden_at(int row) { return hidden_.data() + area(row, config.hidden); }
    void add_span(storage::kv_sequence* cache, int first_row, int count);
    void rebuild_rows(int rows);
    void norm(int begin, int end, const std::vector<float>& weight);
    void norm_in_place(float* x, int n, const std::vector<float>& weight) const;
    void scale(float* x, std::size_t n, float by) const;
    void add_bias(const linear_weights& weights, float* y, int count);
    void add_to_hidden(int begin, int end, float* y, const std::vector<float>& post_norm);

    const model_config config;
    const storage::kv_layout layout;
    const kernel_table& kernels;
    const transformer_limits limits;
    const model_weights weights;
    const task_runner tasks;
    const int group;     // query heads that share a KV head
    const int q_width;   // heads * head_dim
    const int kv_width;  // kv_heads * head_dim
    const int panel_rows;

    // One step's rows: every token of every sequence, sequence after sequence.
    int rows_ = 0;
    std::vector<storage::kv_sequence*> caches_;  // [rows]
    std::vector<int> positions_;                 // [rows]
    std::vector<attention_span> spans_;
    aligned_buffer<float> hidden_;  // [rows_max, hidden], the residual stream
    query_rows queries_;
    aligned_buffer<float> attended_;  // [rows_max, q_width]
    rope_angles angles_;
    attention attention_;
    feed_forward feed_forward_;
    // One panel's.
    aligned_buffer<float> narrow_;  // [panel_rows, hidden]
    aligned_buffer<float> answer_;  // [panel_rows, hidden], what attention or MLP adds
    aligned_buffer<float> wide_;    // [panel_rows, q, k, v and once more k, v]
    aligned_buffer<float> linear_scratch_;
    aligned_buffer<float> residual_scales_;  // [panel_rows, 2, hidden / 64]
};

transformer::impl::impl(const model_config& config_in, const storage::kv_layout& layout_in,
                        const kernel_table& kernels_in, transformer_limits limits_in,
                        model_weights weights_in)
    : config(config_in),
      layout(layout_in),
      kernels(kernels_in),
      limits(limits_in),
      weights(std::move(weights_in)),
      group(config.heads / config.kv_heads),
      q_width(config.heads * config.head_dim),
      kv_width(config.kv_heads * config.head_dim),
      panel_rows(std::min(panel_rows_max, limits.rows_max)),
      caches_(static_cast<std::size_t>(limits.rows_max)),
      positions_(static_cast<std::size_t>(limits.rows_max)),
      hidden_(area(limits.rows_max, config.hidden)),
      queries_(config.kv_heads, group, config.head_dim, limits.rows_max,
               layout.recipe().bits != 16),
      attended_(area(limits.rows_max, q_width)),
      angles_(config, limits.rows_max),
      attention_(kernels, tasks, layout, group, config.attention_scale, limits.rows_max),
      feed_forward_(config, kernels, tasks, panel_rows),
      narrow_(area(panel_rows, config.hidden)),
      answer_(area(panel_rows, config.hidden)),
      wide_(area(panel_rows, q_width + 4 * kv_width)),
      linear_scratch_(linear_scratch_floats(panel_rows, std::max(config.hidden, q_width))),
      residual_scales_(area(2 * panel_rows, config.hidden / group_size)) {
    spans_.reserve(static_cast<std::size_t>(limits.rows_max));
}

/// x = embed(tokens); per layer x += o(attention(norm(x))), x += down(act(gate(norm(x))) *
/// up(norm(x))); logits = head(norm(x)).
void transformer::impl::forward(std::span<sequence_step> batch) {
    lay_out_rows(batch);
    embed(batch);
    const int last = static_cast<int>(weights.layers.size()) - 1;
    for (int layer = 0; layer < last; ++layer) {
        project(layer, true, true);
        attend(layer);
        mix_and_expand(layer);
    }
    // Behind the last layer's K and V a row is needed for its logits only.
    project(last, false, true);
    keep_asked_rows(batch);
    if (rows_ > 0) {
        project(last, true, false);
        attend(last);
        mix_and_expand(last);
        write_logits(batch);
    }
    for (sequence_step& step : batch) {
        step.cache->advance(step.cache->token_count() + static_cast<int>(step.tokens.size()));
    }
}

void transformer::impl::lay_out_rows(std::span<const sequence_step> batch) {
    rows_ = 0;
    for (const sequence_step& step : batch) {
        const int count = static_cast<int>(step.tokens.size()), first = step.cache->token_count();
        ASSERT(rows_ + count <= limits.rows_max);
        ASSERT(first + count <= config.context_tokens_max);
        ASSERT(first + count <= step.cache->reserved_tokens());
        for (int i = 0; i < count; ++i) {
            caches_[static_cast<std::size_t>(rows_ + i)] = step.cache;
            positions_[static_cast<std::size_t>(rows_ + i)] = first + i;
        }
        rows_ += count;
    }
    rebuild_rows(rows_);
}

/// Angles and attention spans of the first `rows` rows of caches_ and positions_.
void transformer::impl::rebuild_rows(int rows) {
    rows_ = rows;
    tasks.for_rows(0, rows, 32 * config.head_dim,
                   [&](int row) { angles_.fill(row, positions_[static_cast<std::size_t>(row)]); });
    spans_.clear();
    for (int first = 0, end = 0; first < rows; first = end) {
        storage::kv_sequence* cache = caches_[static_cast<std::size_t>(first)];
        while (end < rows && caches_[static_cast<std::size_t>(end)] == cache) ++end;
        spans_.push_back({cache, first, end - first, positions_.data() + first});
    }
}

void transformer::impl::embed(std::span<const sequence_step> batch) {
    int first = 0;
    for (const sequence_step& step : batch) {
        const int count = static_cast<int>(step.tokens.size());
        tasks.for_rows(first, first + count, config.hidden, [&](int row) {
            const storage::token_id token = step.tokens[static_cast<std::size_t>(row - first)];
            ASSERT(token >= 0 && token < config.vocabulary);
            kernels.embed_row(weights.embedding, token, hidden_at(row));
            scale(hidden_at(row), area(1, config.hidden), config.embedding_scale);
        });
        first += count;
    }
}

/// Queries go to queries_; keys and values, packed, to the frames of their sequences.
void transformer::impl::project(int layer, bool queries, bool keys_and_values) {
    for (int begin = 0; begin < rows_; begin += panel_rows) {
        project_panel(layer, begin, std::min(begin + panel_rows, rows_), queries, keys_and_values);
    }
}

void transformer::impl::project_panel(int layer, int begin, int end, bool queries,
                                      bool keys_and_values) {
    const layer_weights& w = weights.layers[static_cast<std::size_t>(layer)];
    const int count = end - begin;
    float* q = wide_.data();
    float* k = q + area(panel_rows, q_width);
    float* v = k + area(panel_rows, kv_width);
    const linear_job jobs[] = {{&w.q.matrix, q, static_cast<std::size_t>(q_width)},
                               {&w.k.matrix, k, static_cast<std::size_t>(kv_width)},
                               {&w.v.matrix, v, static_cast<std::size_t>(kv_width)}};
    const std::span<const linear_job> all(jobs);
    const auto wanted =
        all.subspan(queries ? 0 : 1, (queries ? 1u : 0u) + (keys_and_values ? 2u : 0u));

    norm(begin, end, w.attention_norm);
    linear(kernels, wanted, narrow_.data(), count, config.hidden, linear_scratch_.data());
    if (queries) add_bias(w.q, q, count);
    if (keys_and_values) {
        sharpen_keys_and_values(w, begin, end, k, v);
        add_bias(w.k, k, count);
        add_bias(w.v, v, count);
    }
    tasks.for_rows(begin, end, 4 * (q_width + 2 * kv_width), [&](int row) {
        const int i = row - begin;
        if (queries) place_query(layer, row, q + area(i, q_width));
        if (keys_and_values) append(layer, row, k + area(i, kv_width), v + area(i, kv_width));
    });
}

/// Adds what 8-bit activations left out. An error in a query or in the MLP stays as small as it is,
/// but one in K or V may push it to the next of 16 levels: projecting the rounding error of the
/// input as well halves the error of the logits with 4-bit KV (8.3 % to 4.2 % on 8-bit weights) and
/// costs a second pass over the two smallest matrices.
void transformer::impl::sharpen_keys_and_values(const layer_weights& w, int begin, int end,
                                                float* k, float* v) {
    if (!w.k.matrix.quantized() && !w.v.matrix.quantized()) return;
    const int groups = config.hidden / group_size, count = end - begin;
    auto* q = reinterpret_cast<std::int8_t*>(linear_scratch_.data());
    float* scales = residual_scales_.data();
    tasks.for_rows(0, count, config.hidden, [&](int i) {
        float* x = narrow_.data() + area(i, config.hidden);
        std::int8_t* levels = q + area(i, config.hidden);
        float* scale = scales + area(2 * i, groups);
        kernels.quantize_rows(x, 1, config.hidden, levels, scale, scale + groups);
        for (int j = 0; j < config.hidden; ++j)
            x[j] -= scale[j / group_size] * static_cast<float>(levels[j]);
    });
    float* more_k = v + area(panel_rows, kv_width);
    float* more_v = more_k + area(panel_rows, kv_width);
    const linear_job jobs[] = {{&w.k.matrix, more_k, static_cast<std::size_t>(kv_width)},
                               {&w.v.matrix, more_v, static_cast<std::size_t>(kv_width)}};
    linear(kernels, jobs, narrow_.data(), count, config.hidden, linear_scratch_.data());
    if (w.k.matrix.quantized()) kernels.add(k, more_k, area(count, kv_width));
    if (w.v.matrix.quantized()) kernels.add(v, more_v, area(count, kv_width));
}

void transformer::impl::place_query(int layer, int row, const float* q) {
    const layer_weights& w = weights.layers[static_cast<std::size_t>(layer)];
    const int group_width = group * config.head_dim;
    for (int kv_head = 0; kv_head < config.kv_heads; ++kv_head) {
        float* to = queries_.at(kv_head, row);
        std::memcpy(to, q + kv_head * group_width, area(1, group_width) * sizeof(float));
        for (int head = 0; head < group; ++head) {
            norm_in_place(to + head * config.head_dim, config.head_dim, w.q_norm);
            kernels.rope(to + head * config.head_dim, angles_.cosines(layer, row),
                         angles_.sines(layer, row), config.head_dim);
        }
        queries_.quantize(kernels, kv_head, row);
    }
}

/// Quantised before anything reads them, so that a fresh token and a restored one are the same
/// bytes.
void transformer::impl::append(int layer, int row, float* k, const float* v) {
    const int position = positions_[static_cast<std::size_t>(row)],
              block_tokens = layout.block_tokens();
    const auto block = static_cast<std::size_t>(position / block_tokens);
    const int token = position % block_tokens, bits = layout.recipe().bits;
    std::byte* frame = caches_[static_cast<std::size_t>(row)]->frames(layer)[block];
    const auto store = [&](const storage::kv_region& region, int head, const float* values) {
        std::byte* scales = frame + region.scale_at(block_tokens, head, token);
        kernels.quantize_kv(values, region.dim, bits,
                            frame + region.row_at(block_tokens, head, token),
                            reinterpret_cast<half*>(scales),
                            reinterpret_cast<half*>(scales + (region.biases - region.scales)));
    };
    for (int head = 0; head < config.kv_heads; ++head) {
        float* key = k + head * config.head_dim;
        norm_in_place(key, config.head_dim, weights.layers[static_cast<std::size_t>(layer)].k_norm);
        kernels.rope(key, angles_.cosines(layer, row), angles_.sines(layer, row), config.head_dim);
        store(layout.k(layer), head, key);
        store(layout.v(layer), head, v + head * config.head_dim);
    }
}

void transformer::impl::attend(int layer) {
    attention_.run(layer, spans_, queries_, weights.layers[static_cast<std::size_t>(layer)].sinks,
                   attended_.data());
}

/// The rest of a layer: output projection and MLP, each added to the residual stream.
void transformer::impl::mix_and_expand(int layer) {
    const layer_weights& w = weights.layers[static_cast<std::size_t>(layer)];
    float* answer = answer_.data();
    for (int begin = 0; begin < rows_; begin += panel_rows) {
        const int end = std::min(begin + panel_rows, rows_), count = end - begin;
        linear(kernels, w.o.matrix, attended_.data() + area(begin, q_width), count, answer,
               static_cast<std::size_t>(config.hidden), linear_scratch_.data());
        add_bias(w.o, answer, count);
        add_to_hidden(begin, end, answer, w.attention_post_norm);

        norm(begin, end, w.mlp_norm);
        feed_forward_.run(w, narrow_.data(), count, answer);
        add_to_hidden(begin, end, answer, w.mlp_post_norm);
    }
}

/// Moves the rows whose logits are asked for to the front and forgets the others.
void transformer::impl::keep_asked_rows(std::span<const sequence_step> batch) {
    int kept = 0, first = 0;
    for (const sequence_step& step : batch) {
        for (const int index : step.logits_at) {
            ASSERT(index >= 0 && index < static_cast<int>(step.tokens.size()));
            const int row = first + index;
            ASSERT(kept <= row);  // ascending, so nothing is overwritten before it is moved
            if (kept != row) {
                std::memcpy(hidden_at(kept), hidden_at(row),
                            area(1, config.hidden) * sizeof(float));
                caches_[static_cast<std::size_t>(kept)] = caches_[static_cast<std::size_t>(row)];
                positions_[static_cast<std::size_t>(kept)] =
                    positions_[static_cast<std::size_t>(row)];
            }
            ++kept;
        }
        first += static_cast<int>(step.tokens.size());
    }
    ASSERT(kept <= limits.logit_rows_max);
    if (kept != rows_) rebuild_rows(kept);
}

void transformer::impl::write_logits(std::span<const sequence_step> batch) {
    const auto vocabulary = static_cast<std::size_t>(config.vocabulary);
    int row = 0;
    for (std::size_t i = 0; i < batch.size();) {
        // Sequences whose logits lie one behind the other share a pass over the head.
        float* to = batch[i].logits;
        std::size_t count = batch[i].logits_at.size();
        while (++i < batch.size() &&
               (batch[i].logits_at.empty() || batch[i].logits == to + count * vocabulary)) {
            count += batch[i].logits_at.size();
        }
        const int end = row + static_cast<int>(count);
        for (; row < end; row += panel_rows) {
            const int rows = std::min(panel_rows, end - row);
            norm(row, row + rows, weights.final_norm);
            linear(kernels, weights.head, narrow_.data(), rows, to, vocabulary,
                   linear_scratch_.data());
            to += static_cast<std::size_t>(rows) * vocabulary;
        }
        row = end;
    }
}

/// narrow_[0 ...] = norm of the hidden rows [begin, end).
void transformer::impl::norm(int begin, int end, const std::vector<float>& weight) {
    tasks.for_rows(begin, end, config.hidden, [&](int row) {
        kernels.rms_norm(hidden_at(row), weight.data(),
                         narrow_.data() + area(row - begin, config.hidden), config.hidden,
                         config.norm_eps, config.norm_one_plus);
    });
}

/// Does nothing where the model has no such norm.
void transformer::impl::norm_in_place(float* x, int n, const std::vector<float>& weight) const {
    if (weight.empty()) return;
    kernels.rms_norm(x, weight.data(), x, n, config.norm_eps, config.norm_one_plus);
}

void transformer::impl::scale(float* x, std::size_t n, float by) const {
    if (by == 1.0f) return;
    for (std::size_t i = 0; i < n; ++i) x[i] *= by;
}

void transformer::impl::add_bias(const linear_weights& w, float* y, int count) {
    if (w.bias.empty()) return;
    tasks.for_rows(0, count, w.matrix.rows,
                   [&](int row) { w.add_bias(kernels, y + area(row, w.matrix.rows)); });
}

void transformer::impl::add_to_hidden(int begin, int end, float* y,
                                      const std::vector<float>& post_norm) {
    tasks.for_rows(begin, end, config.hidden, [&](int row) {
        float* more = y + area(row - begin, config.hidden);
        norm_in_place(more, config.hidden, post_norm);
        kernels.add(hidden_at(row), more, area(1, config.hidden));
    });
}

storage::result<std::unique_ptr<transformer>> transformer::load(
    const std::string& directory, const model_config& config, const storage::kv_layout& layout,
    const kernel_table& kernels, transformer_limits limits,
    const std::function<void(double)>& progress) {
    if (layout.layer_count() != static_cast<int>(config.layers.size()) ||
        layout.layer(0).kv_heads != config.kv_heads || layout.layer(0).k_dim != config.head_dim) {
        return incompatible(directory + ": the KV layout is not this model's");
    }
    if (layout.recipe().bits != 16 && layout.recipe().group_size != group_size) {
        return incompatible("KV groups of " + std::to_string(layout.recipe().group_size) +
                            " are not supported: the kernels are made for groups of " +
                            std::to_string(group_size));
    }
    auto weights = model_weights::load(directory, config, progress);
    if (!weights) return weights.error();
    return std::unique_ptr<transformer>(new transformer(
        std::make_unique<impl>(config, layout, kernels, limits, std::move(*weights))));
}

transformer::transformer(std::unique_ptr<impl> state) : impl_(std::move(state)) {}
transformer::~transformer() = default;

void transformer::forward(std::span<sequence_step> batch) {
    task_runner::isolated([&] { impl_->forward(batch); });
}

std::uint64_t transformer::weight_bytes() const noexcept { return impl_->weights.bytes(); }
const storage::block_hash& transformer::weights_hash() const noexcept {
    return impl_->weights.hash();
}

}  // namespace semantic::engine
