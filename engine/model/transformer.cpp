#include "engine/model/transformer.hpp"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "engine/kernels/gemm.hpp"
#include "engine/kernels/task_runner.hpp"
#include "engine/model/attention.hpp"
#include "engine/model/feed_forward.hpp"
#include "engine/model/head_products.hpp"
#include "engine/model/heads/head_capture.hpp"
#include "engine/model/heads/rope.hpp"
#include "engine/model/heads/row_store.hpp"
#include "engine/model/layout_check.hpp"
#include "engine/model/weights/aligned_buffer.hpp"
#include "engine/model/weights/product_tape.hpp"
#include "engine/model/weights/rounding_correction.hpp"
#include "engine/model/weights/weights.hpp"
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

}  // namespace

struct transformer::impl {
    impl(const model_config& config_in, const storage::kv_layout& layout_in,
         const kernel_table& kernels_in, transformer_limits limits_in,
         std::shared_ptr<const model_weights> weights_in, const key_statistics& keys_in);

    void begin(std::span<sequence_step> batch);
    void run_layer(int layer, std::span<sequence_step> batch);
    void run_last_layer(int last, std::span<sequence_step> batch);
    int last_layer() const { return static_cast<int>(weights.layers.size()) - 1; }

    // The pass, in order.
    void lay_out_rows(std::span<const sequence_step> batch);
    void embed(std::span<const sequence_step> batch);
    void project(int layer, bool queries, bool keys_and_values);
    void project_panel(int layer, int begin, int end, bool queries, bool keys_and_values);
    void project_latent_panel(int layer, int begin, int end, bool queries, bool keys_and_values);
    void multiply(std::span<const linear_job> jobs, std::span<const linear_job> compensated,
                  float* x, int count);
    void place_query(int layer, int row, const float* q);
    void place_latent_queries(int layer, int begin, int end, const float* q);
    void append(int layer, int begin, int end, float* k, float* v);
    void append_latent(int layer, int row, float* latent, float* key);
    void wait_for(int layer, std::span<const sequence_step> batch) const;
    void attend(int layer);
    float* expand_values(int layer, int begin, int end);
    void output_and_mlp(int layer);
    void keep_logit_rows(std::span<const sequence_step> batch);
    void write_logits(std::span<const sequence_step> batch);

    /// Of the widest matrix that attention is made of, and of those that share an input.
    int inputs_max() const {
        return std::max({config.hidden, config.value_width(), config.latent.query_rank});
    }
    int outputs_max() const {
        const int projected = kv_width + std::max(q_width, config.latent.query_rank);
        return std::max({projected, config.hidden, limits.compensated ? config.vocabulary : 0});
    }
    float* hidden_at(int row) { return hidden_.data() + area(row, config.hidden); }
    void rebuild_rows(int rows);
    void norm(int begin, int end, const std::vector<float>& weight);
    void norm_in_place(float* x, int n, const std::vector<float>& weight) const;
    row_store::token token_at(int row) const {
        const auto i = static_cast<std::size_t>(row);
        return {parts_of_rows_[i], positions_[i]};
    }
    void add_bias(const linear_weights& weights, float* y, int count);
    void add_to_hidden(int begin, int end, float* y, const std::vector<float>& post_norm);

    const model_config config;
    const storage::kv_layout layout;
    const kernel_table& kernels;
    const transformer_limits limits;
    const std::shared_ptr<const model_weights> shared_weights;
    const model_weights& weights;
    const task_runner tasks;
    const int group;     // query heads that share a KV head
    const int q_width;   // of all heads' queries, as projected
    const int kv_width;  // of all that a token's keys and values are made of, as projected
    const int key_dim;   // of one head's queries and keys in the cache
    const int value_dim;
    const int panel_rows;
    // A quantisation error of a query, or behind the attention, stays small, but one in K or V may
    // move an element to the next of 16 levels: compensating those alone halves the error of the
    // logits with 4-bit KV (8.3 % to 4.2 % on 8-bit weights) at the cost of a second pass over the
    // smallest matrices. Where a router turns any error into other experts, all are compensated.
    const bool correct_all;
    wide_store wide_store_;
    const row_store row_store_;
    head_capture captured;
    product_tape* tape = nullptr;

    // One step's rows: every token of every sequence, sequence after sequence.
    int rows_ = 0;
    std::vector<step_part> parts_;                 // [sequences]
    std::vector<const step_part*> parts_of_rows_;  // [rows]
    std::vector<int> positions_;                   // [rows]
    std::vector<attention_span> spans_;
    aligned_buffer<float> hidden_;  // [rows_max, hidden], the residual stream
    query_rows queries_;
    aligned_buffer<float> attended_;  // [rows_max, heads, value_dim]
    rope_angles angles_;
    attention attention_;
    feed_forward feed_forward_;
    // Of one panel of rows.
    aligned_buffer<float> normed_;  // [panel_rows, hidden], the normalised residual stream
    aligned_buffer<float> branch_;  // [panel_rows, hidden], what attention or MLP adds to it
    aligned_buffer<float> qkv_;     // [panel_rows] of q, then of k, then of v
    aligned_buffer<float> linear_scratch_;
    rounding_correction correction_;
    // Of latent attention.
    head_products head_products_;
    aligned_buffer<float> query_latents_;  // [panel_rows, query rank]
    aligned_buffer<float> latent_keys_;    // [panel_rows, key_dim]
    aligned_buffer<float> values_;         // [panel_rows, heads, value_dim of the config]
};

transformer::impl::impl(const model_config& config_in, const storage::kv_layout& layout_in,
                        const kernel_table& kernels_in, transformer_limits limits_in,
                        std::shared_ptr<const model_weights> weights_in,
                        const key_statistics& keys_in)
    : config(config_in),
      layout(layout_in),
      kernels(kernels_in),
      limits(limits_in),
      shared_weights(std::move(weights_in)),
      weights(*shared_weights),
      group(config.heads / config.kv_heads),
      q_width(config.query_width()),
      kv_width(config.latent.rank > 0 ? config.latent.rank + config.latent.rope_dim
                                      : 2 * config.kv_heads * config.head_dim),
      key_dim(layout.k(0).dim),
      value_dim(layout.v(0).dim),
      panel_rows(std::min(panel_rows_max, limits.rows_max)),
      correct_all(config.mixture.experts > 0 || limits.compensated),
      wide_store_(layout, limits.rows_max),
      row_store_(config, layout, kernels, keys_in, wide_store_),
      parts_of_rows_(static_cast<std::size_t>(limits.rows_max)),
      positions_(static_cast<std::size_t>(limits.rows_max)),
      hidden_(area(limits.rows_max, config.hidden)),
      queries_(config.kv_heads, group, key_dim, limits.rows_max, layout.recipe().k.bits != 16),
      attended_(area(limits.rows_max, config.heads * value_dim)),
      angles_(config, limits.rows_max),
      attention_(kernels, tasks, layout, group, config.attention_scale, limits.rows_max,
                 row_store_.means(), wide_store_),
      feed_forward_(config, kernels, tasks, panel_rows, correct_all),
      normed_(area(panel_rows, config.hidden)),
      branch_(area(panel_rows, config.hidden)),
      qkv_(area(panel_rows, q_width + kv_width)),
      linear_scratch_(linear_scratch_floats(panel_rows, inputs_max())),
      correction_(kernels, tasks, panel_rows, inputs_max(), outputs_max()),
      head_products_(
          kernels, tasks,
          config.latent.rank > 0 ? std::max(config.latent.rank, config.latent.plain_dim) : 0,
          std::max(config.latent.rank, config.latent.value_dim)),
      query_latents_(area(panel_rows, config.latent.query_rank)),
      latent_keys_(config.latent.rank > 0 ? area(panel_rows, key_dim) : 0),
      values_(config.latent.rank > 0 ? area(panel_rows, config.value_width()) : 0) {
    spans_.reserve(static_cast<std::size_t>(limits.rows_max));
    parts_.reserve(static_cast<std::size_t>(limits.rows_max));
}

/// x = embed(tokens); per layer x += o(attention(norm(x))), x += down(act(gate(norm(x))) *
/// up(norm(x))); logits = head(norm(x)).
void transformer::impl::begin(std::span<sequence_step> batch) {
    lay_out_rows(batch);
    embed(batch);
}

void transformer::impl::run_layer(int layer, std::span<sequence_step> batch) {
    if (layer == last_layer()) return run_last_layer(layer, batch);
    project(layer, true, true);
    wait_for(layer, batch);
    attend(layer);
    output_and_mlp(layer);
}

/// After its K and V, only the rows whose logits are wanted go on.
void transformer::impl::run_last_layer(int last, std::span<sequence_step> batch) {
    project(last, captured.wants_queries(), true);
    wait_for(last, batch);
    keep_logit_rows(batch);
    if (rows_ > 0) {
        ASSERT(!captured.wants_queries());
        project(last, true, false);
        attend(last);
        output_and_mlp(last);
        write_logits(batch);
    }
    for (sequence_step& step : batch)
        step.cache->advance(step.cache->token_count() + static_cast<int>(step.tokens.size()));
}

/// Blocks until the layer's part of prefixes that are being read from disk is there.
void transformer::impl::wait_for(int layer, std::span<const sequence_step> batch) const {
    for (const sequence_step& step : batch)
        if (step.wait_for_layer != nullptr && !(*step.wait_for_layer)(layer))
            throw layer_not_there{};
}

void transformer::impl::lay_out_rows(std::span<const sequence_step> batch) {
    rows_ = 0;
    parts_.clear();
    for (const sequence_step& step : batch) {
        const int count = static_cast<int>(step.tokens.size()), first = step.cache->token_count();
        ASSERT(rows_ + count <= limits.rows_max);
        ASSERT(first + count <= config.context_tokens_max);
        ASSERT(first + count <= step.cache->reserved_tokens());
        if (count == 0) continue;
        parts_.push_back({step.cache, rows_, first, first + count});
        for (int i = 0; i < count; ++i) {
            parts_of_rows_[static_cast<std::size_t>(rows_ + i)] = &parts_.back();
            positions_[static_cast<std::size_t>(rows_ + i)] = first + i;
        }
        rows_ += count;
    }
    rebuild_rows(rows_);
}

/// Angles and attention spans of the first `rows` rows of parts_of_rows_ and positions_.
void transformer::impl::rebuild_rows(int rows) {
    rows_ = rows;
    tasks.for_rows(0, rows, 32 * config.head_dim,
                   [&](int row) { angles_.fill(row, positions_[static_cast<std::size_t>(row)]); });
    spans_.clear();
    for (int first = 0, end = 0; first < rows; first = end) {
        const step_part* part = parts_of_rows_[static_cast<std::size_t>(first)];
        while (end < rows && parts_of_rows_[static_cast<std::size_t>(end)] == part) ++end;
        spans_.push_back({part, first, end - first, positions_.data() + first});
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
            if (config.embedding_scale == 1.0f) return;
            float* x = hidden_at(row);
            for (int i = 0; i < config.hidden; ++i) x[i] *= config.embedding_scale;
        });
        first += count;
    }
}

/// Queries go to queries_; keys and values, packed, to the frames of their sequences.
void transformer::impl::project(int layer, bool queries, bool keys_and_values) {
    for (int begin = 0; begin < rows_; begin += panel_rows) {
        const int end = std::min(begin + panel_rows, rows_);
        if (config.latent.rank > 0) {
            project_latent_panel(layer, begin, end, queries, keys_and_values);
        } else {
            project_panel(layer, begin, end, queries, keys_and_values);
        }
    }
}

void transformer::impl::project_panel(int layer, int begin, int end, bool queries,
                                      bool keys_and_values) {
    const layer_weights& w = weights.layers[static_cast<std::size_t>(layer)];
    const int count = end - begin;
    const int k_width = kv_width / 2;
    float* q = qkv_.data();
    float* k = q + area(panel_rows, q_width);
    float* v = k + area(panel_rows, k_width);
    const linear_job jobs[] = {{&w.q.matrix, q, static_cast<std::size_t>(q_width)},
                               {&w.k.matrix, k, static_cast<std::size_t>(k_width)},
                               {&w.v.matrix, v, static_cast<std::size_t>(k_width)}};
    const std::span<const linear_job> all(jobs);
    const auto wanted =
        all.subspan(queries ? 0 : 1, (queries ? 1u : 0u) + (keys_and_values ? 2u : 0u));

    norm(begin, end, w.attention_norm);
    multiply(wanted, correct_all ? wanted : wanted.last(keys_and_values ? 2 : 0), normed_.data(),
             count);
    if (queries) add_bias(w.q, q, count);
    if (keys_and_values) {
        add_bias(w.k, k, count);
        add_bias(w.v, v, count);
    }
    // Keys that are shaped are rounded some at a time, those of several rows where a row has few.
    const int together =
        layout.k(layer).shaped ? std::max(1, shaped_keys_max / config.kv_heads) : 1;
    const int parts = (count + together - 1) / together;
    tasks.for_rows(0, parts, 4 * together * (q_width + kv_width), [&](int part) {
        const int first = part * together, last = std::min(first + together, count);
        if (queries)
            for (int i = first; i < last; ++i) place_query(layer, begin + i, q + area(i, q_width));
        if (keys_and_values)
            append(layer, begin + first, begin + last, k + area(first, k_width),
                   v + area(first, k_width));
    });
}

/// project_panel() for latent attention: keys and values come from one latent of each token.
void transformer::impl::project_latent_panel(int layer, int begin, int end, bool queries,
                                             bool keys_and_values) {
    const layer_weights& w = weights.layers[static_cast<std::size_t>(layer)];
    const int count = end - begin, query_rank = config.latent.query_rank;
    float* q = qkv_.data();
    float* latent = q + area(panel_rows, q_width);
    const linear_job from_stream = {&w.q.matrix, q, static_cast<std::size_t>(q_width)};
    const linear_job down = {&w.q_down.matrix, query_latents_.data(),
                             static_cast<std::size_t>(query_rank)};
    const linear_job jobs[] = {query_rank > 0 ? down : from_stream,
                               {&w.kv_down.matrix, latent, static_cast<std::size_t>(kv_width)}};
    const std::span<const linear_job> all(jobs);
    const auto wanted =
        all.subspan(queries ? 0 : 1, (queries ? 1u : 0u) + (keys_and_values ? 1u : 0u));

    norm(begin, end, w.attention_norm);
    multiply(wanted, correct_all ? wanted : wanted.last(keys_and_values ? 1 : 0), normed_.data(),
             count);
    if (keys_and_values) {
        add_bias(w.kv_down, latent, count);
        tasks.for_rows(begin, end, 4 * kv_width, [&](int row) {
            append_latent(layer, row, latent + area(row - begin, kv_width),
                          latent_keys_.data() + area(row - begin, key_dim));
        });
    }
    if (!queries) return;
    if (query_rank > 0) {
        add_bias(w.q_down, query_latents_.data(), count);
        tasks.for_rows(0, count, query_rank, [&](int i) {
            float* x = query_latents_.data() + area(i, query_rank);
            kernels.rms_norm(x, w.q_down_norm.data(), x, query_rank, latent_config::norm_eps,
                             config.norm_one_plus);
        });
        multiply({&from_stream, 1}, {&from_stream, 1}, query_latents_.data(), count);
    }
    place_latent_queries(layer, begin, end, q);
}

/// job.y = W x for every job. The quantisation error of x is compensated in `compensated`, some of
/// them; where a tape is replayed in none. x is used up.
void transformer::impl::multiply(std::span<const linear_job> jobs,
                                 std::span<const linear_job> compensated, float* x, int count) {
    const int cols = jobs[0].weights->cols;
    const int first = tape != nullptr ? tape->take_input(tasks, x, count, cols) : 0;
    linear_from(kernels, tasks, jobs, x, first, count, cols, linear_scratch_.data());
    if (tape == nullptr || !tape->replays()) correction_.add(compensated, x, count, cols);
    if (tape != nullptr) tape->take_outputs(tasks, jobs, first, count);
}

void transformer::impl::place_query(int layer, int row, const float* q) {
    const layer_weights& w = weights.layers[static_cast<std::size_t>(layer)];
    const int group_width = group * config.head_dim;
    for (int kv_head = 0; kv_head < config.kv_heads; ++kv_head) {
        float* to = queries_.at(kv_head, row);
        std::memcpy(to, q + kv_head * group_width, area(1, group_width) * sizeof(float));
        for (int head = 0; head < group; ++head) {
            float* query = to + head * config.head_dim;
            norm_in_place(query, config.head_dim, w.q_norm);
            captured.take_query(config, layer, row, kv_head * group + head, query);
            kernels.rope(query, angles_.cosines(layer, row), angles_.sines(layer, row),
                         config.head_dim);
            row_store_.rotate(layout.k(layer), query);
        }
        queries_.quantize(kernels, kv_head, row);
    }
}

/// Weight absorption (arXiv:2405.04434): a head's query is multiplied with its key up-projection
/// once and then scores the latents themselves, so that no key is ever expanded.
void transformer::impl::place_latent_queries(int layer, int begin, int end, const float* q) {
    const latent_config& latent = config.latent;
    const layer_weights& w = weights.layers[static_cast<std::size_t>(layer)];
    const int head_dim = latent.plain_dim + latent.rope_dim, plain = latent.stored_rank();
    const auto dim = static_cast<std::size_t>(key_dim);
    head_products_.run(w.k_up, {q, area(1, q_width), area(1, head_dim)}, end - begin,
                       {queries_.at(0, begin), area(group, key_dim), dim});
    tasks.for_rows(begin, end, 4 * q_width, [&](int row) {
        const float* from = q + area(row - begin, q_width) + latent.plain_dim;
        float* to = queries_.at(0, row);
        for (int head = 0; head < group; ++head, from += head_dim, to += key_dim) {
            std::fill(to + latent.rank, to + plain, 0.0f);
            angles_.turn_pairs(kernels, layer, row, from, latent.rope_dim, to + plain);
            std::fill(to + plain + latent.rope_dim, to + key_dim, 0.0f);
            row_store_.rotate(layout.k(layer), to);
        }
        queries_.quantize(kernels, 0, row);
    });
}

/// Keys and values of the rows [begin, end).
void transformer::impl::append(int layer, int begin, int end, float* k, float* v) {
    const std::vector<float>& norm_weight = weights.layers[static_cast<std::size_t>(layer)].k_norm;
    row_store::key_batch keys(row_store_, layer);
    for (int row = begin; row < end; ++row) {
        const row_store::token at = token_at(row);
        for (int head = 0; head < config.kv_heads; ++head) {
            const std::size_t from = area(row - begin, kv_width / 2) + area(head, config.head_dim);
            float* key = k + from;
            norm_in_place(key, config.head_dim, norm_weight);
            captured.take_key(config, layer, row, head, key);
            kernels.rope(key, angles_.cosines(layer, row), angles_.sines(layer, row),
                         config.head_dim);
            keys.add(at, head, key);
            row_store_.store(at, layer, layout.v(layer), head, v + from);
        }
    }
    keys.finish();
}

/// `latent`: the latent and the rotated piece of key, as projected. `key`: room for them as stored.
void transformer::impl::append_latent(int layer, int row, float* latent, float* key) {
    const int rank = config.latent.rank, plain = config.latent.stored_rank();
    const layer_weights& w = weights.layers[static_cast<std::size_t>(layer)];
    std::fill_n(key, key_dim, 0.0f);
    kernels.rms_norm(latent, w.kv_down_norm.data(), key, rank, latent_config::norm_eps,
                     config.norm_one_plus);
    angles_.turn_pairs(kernels, layer, row, latent + rank, config.latent.rope_dim, key + plain);
    row_store_.store(token_at(row), layer, layout.k(layer), 0, key);
}

void transformer::impl::attend(int layer) {
    attention_.run(layer, spans_, queries_, weights.layers[static_cast<std::size_t>(layer)].sinks,
                   attended_.data());
    if (!layout.v(layer).rotated) return;
    const int heads = config.heads, step = config.latent.rank > 0 ? group_size : value_dim;
    tasks.for_rows(0, rows_, heads * value_dim, [&](int row) {
        float* x = attended_.data() + area(row, heads * value_dim);
        for (int i = 0; i < heads * value_dim; i += step) kernels.rotate_back(x + i, step);
    });
}

/// What the heads of the rows [begin, end) attended to, as the output projection reads it.
float* transformer::impl::expand_values(int layer, int begin, int end) {
    float* attended = attended_.data() + area(begin, config.heads * value_dim);
    if (config.latent.rank == 0) return attended;
    const layer_weights& w = weights.layers[static_cast<std::size_t>(layer)];
    head_products_.run(
        w.v_up, {attended, area(config.heads, value_dim), static_cast<std::size_t>(value_dim)},
        end - begin,
        {values_.data(), area(1, config.value_width()), area(1, config.latent.value_dim)});
    return values_.data();
}

/// The rest of a layer: output projection and MLP, each added to the residual stream.
void transformer::impl::output_and_mlp(int layer) {
    const layer_weights& w = weights.layers[static_cast<std::size_t>(layer)];
    float* branch = branch_.data();
    for (int begin = 0; begin < rows_; begin += panel_rows) {
        const int end = std::min(begin + panel_rows, rows_), count = end - begin;
        float* values = expand_values(layer, begin, end);
        const linear_job job = {&w.o.matrix, branch, static_cast<std::size_t>(config.hidden)};
        multiply({&job, 1}, {&job, correct_all ? 1u : 0u}, values, count);
        add_bias(w.o, branch, count);
        add_to_hidden(begin, end, branch, w.attention_post_norm);

        norm(begin, end, w.mlp_norm);
        feed_forward_.run(w, normed_.data(), count, branch, tape);
        add_to_hidden(begin, end, branch, w.mlp_post_norm);
    }
}

/// Moves the rows whose logits are wanted to the front and drops the others.
void transformer::impl::keep_logit_rows(std::span<const sequence_step> batch) {
    int kept = 0, first = 0;
    for (const sequence_step& step : batch) {
        for (const int index : step.logits_at) {
            ASSERT(index >= 0 && index < static_cast<int>(step.tokens.size()));
            const int row = first + index;
            ASSERT(kept <= row);  // ascending, so nothing is overwritten before it is moved
            if (kept != row) {
                std::memcpy(hidden_at(kept), hidden_at(row),
                            area(1, config.hidden) * sizeof(float));
                const auto from = static_cast<std::size_t>(row),
                           to = static_cast<std::size_t>(kept);
                parts_of_rows_[to] = parts_of_rows_[from];
                positions_[to] = positions_[from];
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
        // Sequences whose logits are adjacent in memory share a pass over the head.
        float* to = batch[i].logits;
        std::size_t count = batch[i].logits_at.size();
        while (++i < batch.size() &&
               (batch[i].logits_at.empty() || batch[i].logits == to + count * vocabulary))
            count += batch[i].logits_at.size();
        const int end = row + static_cast<int>(count);
        for (; row < end; row += panel_rows) {
            const int rows = std::min(panel_rows, end - row);
            norm(row, row + rows, weights.final_norm);
            const linear_job job = {&weights.head, to, vocabulary};
            multiply({&job, 1}, {&job, limits.compensated ? 1u : 0u}, normed_.data(), rows);
            to += static_cast<std::size_t>(rows) * vocabulary;
        }
        row = end;
    }
}

/// normed_[0 ...] = norm of the hidden rows [begin, end).
void transformer::impl::norm(int begin, int end, const std::vector<float>& weight) {
    tasks.for_rows(begin, end, config.hidden, [&](int row) {
        kernels.rms_norm(hidden_at(row), weight.data(),
                         normed_.data() + area(row - begin, config.hidden), config.hidden,
                         config.norm_eps, config.norm_one_plus);
    });
}

/// Nothing where the model has no such norm.
void transformer::impl::norm_in_place(float* x, int n, const std::vector<float>& weight) const {
    if (weight.empty()) return;
    kernels.rms_norm(x, weight.data(), x, n, config.norm_eps, config.norm_one_plus);
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
    const std::string& model, const model_config& config, const storage::kv_layout& layout,
    const kernel_table& kernels, transformer_limits limits, weight_form form,
    const weights_progress& progress) {
    if (auto ok = check_layout(config, layout, {}); !ok)
        return storage::failure{ok.error().code, model + ": " + ok.error().what};
    auto weights = model_weights::load(model, config, kernels, form, progress);
    if (!weights) return weights.error();
    return std::unique_ptr<transformer>(new transformer(std::make_unique<impl>(
        config, layout, kernels, limits, std::make_shared<const model_weights>(std::move(*weights)),
        key_statistics())));
}

storage::result<std::unique_ptr<transformer>> transformer::with_layout(
    const storage::kv_layout& layout, transformer_limits limits, const key_statistics& keys,
    const kernel_table* kernels) const {
    if (auto ok = check_layout(impl_->config, layout, keys); !ok) return ok.error();
    const kernel_table& table = kernels != nullptr ? *kernels : impl_->kernels;
    return std::unique_ptr<transformer>(new transformer(
        std::make_unique<impl>(impl_->config, layout, table, limits, impl_->shared_weights, keys)));
}

transformer::transformer(std::unique_ptr<impl> state) : impl_(std::move(state)) {}
transformer::~transformer() = default;
void transformer::forward(std::span<sequence_step> batch) {
    impl_->tasks.together([&] {
        impl_->begin(batch);
        for (int layer = 0; layer <= impl_->last_layer(); ++layer) impl_->run_layer(layer, batch);
    });
}

void transformer::begin(std::span<sequence_step> batch) {
    impl_->tasks.together([&] { impl_->begin(batch); });
}
void transformer::run_layer(int layer, std::span<sequence_step> batch) {
    impl_->tasks.together([&] { impl_->run_layer(layer, batch); });
}

void transformer::capture(float* keys, float* queries) {
    impl_->captured = {keys, queries, impl_->limits.rows_max};
}
void transformer::use_tape(product_tape* tape) { impl_->tape = tape; }
const kernel_table& transformer::kernels() const noexcept { return impl_->kernels; }
std::uint64_t transformer::weight_bytes() const noexcept { return impl_->weights.bytes(); }
const storage::block_hash& transformer::weights_hash() const noexcept {
    return impl_->weights.hash();
}

}  // namespace semantic::engine
