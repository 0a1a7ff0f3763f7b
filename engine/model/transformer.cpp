// SPDX-License-Identifier: Apache-2.0
#include "engine/model/transformer.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/kernels/task_runner.hpp"
#include "engine/model/feed_forward.hpp"
#include "engine/model/layout_check.hpp"
#include "engine/model/mixers/attention_mixer.hpp"
#include "engine/model/mixers/recurrent_mixer.hpp"
#include "engine/model/pass/layer_inputs.hpp"
#include "engine/model/pass/pass_context.hpp"
#include "engine/model/weights/product_tape.hpp"
#include "engine/model/weights/weights.hpp"
#include "engine/types/area.hpp"
#include "storage/types/as_size.hpp"
#include "storage/types/assert.hpp"

namespace semantic::engine {

using storage::as_size;

namespace {

/// Rows that go through a layer's matrices together (a "panel"). 256 rows do 512 operations for
/// each byte of 4-bit weights, so that another panel's pass over the weights costs hardly more than
/// its arithmetic, and scratch stays small: 16 MiB for the MLP of a 1B model.
constexpr int panel_rows_max = 256;

/// Columns of the widest matrix outside of the feed-forward part.
int inputs_max(const model_config& config) {
    return std::max({config.hidden, config.value_width(), config.latent.query_rank,
                     config.recurrence.value_width(), config.layer_input_dim});
}

/// The most rows that matrices with a common input have together, outside of the feed-forward part.
int outputs_max(const model_config& config, const transformer_limits& limits) {
    const latent_config& latent = config.latent;
    const int keys =
        latent.rank > 0 ? latent.rank + latent.rope_dim : 2 * config.kv_heads * config.head_dim;
    const int layer_inputs = config.layer_input_dim * static_cast<int>(config.layers.size());
    const int queries = config.query_width() * (config.attention_gate ? 2 : 1);
    const recurrence_config& recurrence = config.recurrence;
    const int recurrent = config.convolution.channels + recurrence.value_width() +
                          2 * recurrence.value_heads + 2 * config.hidden;
    return std::max({keys + std::max(queries, latent.query_rank), config.hidden,
                     config.state_bytes() > 0 ? recurrent : 0, layer_inputs,
                     limits.compensated ? config.vocabulary : 0});
}

/// Returns: the last layer that stores keys and values, or a state.
int find_last_storing_layer(const model_config& config) {
    int layer = static_cast<int>(config.layers.size()) - 1;
    while (layer > 0 && !config.stores_kv(layer) &&
           !is_recurrent(config.layers[as_size(layer)].mixer))
        --layer;
    return layer;
}

}  // namespace

struct transformer::impl {
    impl(const model_config& config_in, const storage::kv_layout& layout_in,
         const kernel_table& kernels_in, transformer_limits limits_in,
         std::shared_ptr<const model_weights> weights_in, const key_statistics& keys_in);

    void begin(std::span<sequence_step> batch);
    void run_layer(int layer, std::span<sequence_step> batch);
    int last_layer() const { return static_cast<int>(weights.layers.size()) - 1; }
    void finish_layer(int layer);

    // The pass, in order.
    void embed(std::span<const sequence_step> batch);
    void mix(int layer, std::span<const sequence_step> batch);
    void attend(int layer, std::span<const sequence_step> batch);
    void wait_for(int kv_layer, std::span<const sequence_step> batch) const;
    void project_output(int layer);
    void feed_forward_of(int layer);
    void run_mlp_and_experts(const layer_weights& w, int begin, int end, float* branch);
    void cap_logits(float* logits, int count) const;
    void keep_logit_rows(std::span<const sequence_step> batch, int mixed_width);
    void write_logits(std::span<const sequence_step> batch);

    const model_config config;
    const storage::kv_layout layout;
    const kernel_table& kernels;
    const transformer_limits limits;
    const std::shared_ptr<const model_weights> shared_weights;
    const model_weights& weights;
    const task_runner tasks;
    const int panel_rows;
    // Whether all products compensate the rounding of activations to 8 bits: for measurements, and
    // for mixtures, where any error may make a router choose other experts.
    const bool corrects_all;
    pass_rows rows;
    residual_stream stream;
    projector products;
    const pass_context context;
    layer_inputs inputs_;
    // The last layer that stores K, V or a state. After it only rows whose logits are wanted are
    // computed.
    const int last_storing_layer;
    attention_mixer attention_;
    const std::unique_ptr<recurrent_mixer> recurrent_;  // null: no recurrent layers
    feed_forward feed_forward_;
    aligned_buffer<float> mixed_;   // [rows_max, width of the mixer], output of the layer's mixer
    aligned_buffer<float> branch_;  // [panel_rows, hidden], to be added to the residual stream
    aligned_buffer<float> chosen_;  // the same, of experts that run next to an MLP
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
      panel_rows(std::min(panel_rows_max, limits.rows_max)),
      corrects_all(config.mixture.experts > 0 || limits.compensated),
      rows(config, tasks, limits.rows_max),
      stream(config, kernels, tasks, limits.rows_max, panel_rows),
      products(kernels, tasks, panel_rows, inputs_max(config), outputs_max(config, limits),
               corrects_all),
      context{config,   kernels,    tasks,
              weights,  rows,       stream,
              products, panel_rows, limits.draft_rows_max},
      inputs_(config, kernels, tasks, weights, limits.rows_max, panel_rows),
      last_storing_layer(find_last_storing_layer(config)),
      attention_(context, layout, keys_in, limits.rows_max),
      recurrent_(recurrent_mixer::make(context)),
      feed_forward_(config, kernels, tasks, panel_rows, corrects_all),
      mixed_(area(limits.rows_max, std::max(attention_.width_max(),
                                            recurrent_ == nullptr ? 0 : recurrent_->width()))),
      branch_(area(panel_rows, config.hidden)),
      chosen_(area(config.mixture.beside_mlp ? panel_rows : 0, config.hidden)) {}

/// Embeds the tokens: x = embed(tokens). The layers follow: x += output(mixer(norm(x))), then x +=
/// feed_forward(norm(x)); after the last one logits = head(norm(x)).
void transformer::impl::begin(std::span<sequence_step> batch) {
    rows.lay_out(batch);
    embed(batch);
    if (!inputs_.empty()) inputs_.add_projections(rows.count(), stream, products);
}

/// Runs one layer. After last_storing_layer only the rows whose logits are wanted are left; if
/// there are none, later layers are skipped.
void transformer::impl::run_layer(int layer, std::span<sequence_step> batch) {
    if (layer <= last_storing_layer || rows.count() > 0) mix(layer, batch);
    if (rows.count() > 0) finish_layer(layer);
    if (layer != last_layer()) return;
    if (rows.count() > 0) write_logits(batch);
    // Drafts are left out: a caller that takes them advances the cache itself.
    for (sequence_step& step : batch)
        step.cache->advance(step.cache->token_count() + static_cast<int>(step.tokens.size()) -
                            step.drafts);
}

/// The layer after its mixer: output projection, feed-forward part, per-layer inputs.
void transformer::impl::finish_layer(int layer) {
    if (context.kind(layer).mixer != mixer_kind::none) project_output(layer);
    if (context.kind(layer).feed_forward) feed_forward_of(layer);
    if (!inputs_.empty()) inputs_.add_to(layer, rows.count(), stream, products, branch_.data());
    stream.scale(rows.count(), context.layer(layer).scale);
}

/// The layer's mixer, attention or recurrence: writes mixed_.
void transformer::impl::mix(int layer, std::span<const sequence_step> batch) {
    const mixer_kind kind = context.kind(layer).mixer;
    if (kind == mixer_kind::attention) return attend(layer, batch);
    if (is_recurrent(kind)) recurrent_->run(layer, mixed_.data());
    if (layer == last_storing_layer)
        keep_logit_rows(batch, is_recurrent(kind) ? recurrent_->width() : 0);
}

/// Projects the rows, stores their keys and values, and attends. In the last layer that stores
/// anything, rows whose logits are not wanted are dropped after that, before queries are computed
/// (unless queries are captured, which needs all rows). Before attending, waits until the layer's
/// part of each restored prefix is in RAM.
void transformer::impl::attend(int layer, std::span<const sequence_step> batch) {
    const bool is_last = layer == last_storing_layer;
    attention_.project(
        layer, {.queries = !is_last || attention_.captures_queries(), .keys_and_values = true});
    wait_for(config.kv_layer(layer), batch);
    if (is_last) {
        keep_logit_rows(batch, 0);
        if (rows.count() == 0) return;
        // While queries are captured no logits are asked for, so no row was left.
        ASSERT(!attention_.captures_queries());
        attention_.project(layer, {.queries = true, .keys_and_values = false});
    }
    attention_.attend(layer, mixed_.data());
}

/// Blocks until the layer's part of prefixes that are still being read from disk is in RAM. Throws
/// layer_not_there if a gate gives up.
void transformer::impl::wait_for(int kv_layer, std::span<const sequence_step> batch) const {
    for (const sequence_step& step : batch)
        if (step.gate != nullptr && !step.gate->wait_for_layer(kv_layer)) throw layer_not_there{};
}

/// Writes the tokens' embeddings to the residual stream.
void transformer::impl::embed(std::span<const sequence_step> batch) {
    int first = 0;
    for (const sequence_step& step : batch) {
        const int count = static_cast<int>(step.tokens.size());
        tasks.for_rows(first, first + count, config.hidden, [&](int row) {
            const storage::token_id token = step.tokens[as_size(row - first)];
            ASSERT(token >= 0 && token < config.vocabulary);
            float* x = stream.at(row);
            kernels.embed_row(weights.embedding, token, x);
            if (config.embedding_scale == 1.0f) return;
            for (int i = 0; i < config.hidden; ++i) x[i] *= config.embedding_scale;
        });
        if (!inputs_.empty()) inputs_.read(first, step.tokens);
        first += count;
    }
}

/// Multiplies the mixer's outputs by its output matrix, and adds them to the stream.
void transformer::impl::project_output(int layer) {
    const layer_weights& w = context.layer(layer);
    float* branch = branch_.data();
    for (int begin = 0; begin < rows.count(); begin += panel_rows) {
        const int end = std::min(begin + panel_rows, rows.count()), count = end - begin;
        float* values = is_recurrent(context.kind(layer).mixer)
                            ? mixed_.data() + area(begin, recurrent_->width())
                            : attention_.expand(layer, begin, end, mixed_.data());
        const linear_job job = {&w.o.matrix, branch, as_size(config.hidden)};
        products.multiply_layer({&job, 1}, {}, values, count);
        products.add_bias(w.o, branch, count);
        stream.add(begin, end, branch, w.mixer_post_norm);
    }
}

/// Runs the layer's feed-forward part, panel by panel of rows, and adds its output to the stream.
void transformer::impl::feed_forward_of(int layer) {
    const layer_weights& w = context.layer(layer);
    float* branch = branch_.data();
    for (int begin = 0; begin < rows.count(); begin += panel_rows) {
        const int end = std::min(begin + panel_rows, rows.count());
        if (config.mixture.beside_mlp) {
            run_mlp_and_experts(w, begin, end, branch);
        } else {
            float* x = stream.read_normed(begin, end, w.mlp_norm);
            feed_forward_.run(w, x, end - begin, branch, products.tape());
        }
        stream.add(begin, end, branch, w.mlp_post_norm);
    }
}

/// branch = norm(mlp(norm(x))) + norm(experts(norm(x))) for the rows [begin, end). The router reads
/// another norm of x than the experts.
void transformer::impl::run_mlp_and_experts(const layer_weights& w, int begin, int end,
                                            float* branch) {
    const int count = end - begin;
    feed_forward_.run_mlp(w, stream.read_normed(begin, end, w.mlp_norm), count, branch);
    stream.normalise(branch, count, w.norms.mlp_post);
    feed_forward_.choose_experts(w, stream.read_normed(begin, end, w.norms.router), count);
    feed_forward_.run_chosen(w, stream.read_normed(begin, end, w.norms.experts), count,
                             chosen_.data());
    stream.normalise(chosen_.data(), count, w.norms.experts_post);
    kernels.add(branch, chosen_.data(), area(count, config.hidden));
}

/// Moves the rows whose logits are wanted to the front and drops the others. `mixed_width`: width
/// of the rows of mixed_ that have to be moved, too; 0: none.
void transformer::impl::keep_logit_rows(std::span<const sequence_step> batch, int mixed_width) {
    int kept = 0, first = 0;
    for (const sequence_step& step : batch) {
        for (const int index : step.logits_at) {
            ASSERT(index >= 0 && index < static_cast<int>(step.tokens.size()));
            const int row = first + index;
            ASSERT(kept <= row);  // ascending, so nothing is overwritten before it is moved
            if (kept != row) {
                stream.move(row, kept);
                std::copy_n(mixed_.data() + area(row, mixed_width), mixed_width,
                            mixed_.data() + area(kept, mixed_width));
                rows.move(row, kept);
                inputs_.move(row, kept);
            }
            ++kept;
        }
        first += static_cast<int>(step.tokens.size());
    }
    ASSERT(kept <= limits.logit_rows_max);
    if (kept != rows.count()) rows.cut(kept);
}

/// Writes the logits of all rows that are left, which are those whose logits are wanted.
void transformer::impl::write_logits(std::span<const sequence_step> batch) {
    const auto vocabulary = as_size(config.vocabulary);
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
            const int some = std::min(panel_rows, end - row);
            float* x = stream.read_normed(row, row + some, weights.final_norm);
            const linear_job job = {&weights.head, to, vocabulary};
            // The second list has the jobs whose rounding is compensated.
            products.multiply({&job, 1}, {&job, limits.compensated ? 1u : 0u}, x, some);
            if (config.logit_scale != 1.0f)
                for (std::size_t k = 0; k < as_size(some) * vocabulary; ++k)
                    to[k] *= config.logit_scale;
            if (config.logit_cap > 0.0f) cap_logits(to, some);
            to += as_size(some) * vocabulary;
        }
        row = end;
    }
}

/// x = cap * tanh(x / cap), with tanh(y) = 1 - 2 / (1 + exp(2 y)).
void transformer::impl::cap_logits(float* logits, int count) const {
    constexpr int piece = 4096;
    const int pieces = (config.vocabulary + piece - 1) / piece;
    const float cap = config.logit_cap;
    tasks.for_rows(0, count * pieces, 8 * piece, [&](int index) {
        const int first = index % pieces * piece;
        const int some = std::min(piece, config.vocabulary - first);
        float* x = logits + area(index / pieces, config.vocabulary) + first;
        for (int i = 0; i < some; ++i) x[i] *= 2.0f / cap;
        kernels.exp(x, x, as_size(some));
        for (int i = 0; i < some; ++i) x[i] = cap - 2.0f * cap / (1.0f + x[i]);
    });
}

storage::result<std::unique_ptr<transformer>> transformer::load(
    const std::string& model, const model_config& config, const storage::kv_layout& layout,
    const kernel_table& kernels, transformer_limits limits, const weight_loading& how,
    const weights_progress& progress) {
    if (auto ok = check_layout(config, layout, {}); !ok)
        return storage::failure{ok.error().code, model + ": " + ok.error().what};
    auto weights = model_weights::load(model, config, kernels, how, progress);
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
    impl_->attention_.capture(
        {keys, queries, as_size(impl_->limits.rows_max), heads_of_layers(impl_->config)});
}
void transformer::rewind(int index, int count) {
    if (impl_->recurrent_ == nullptr) return;
    impl_->tasks.together([&] { impl_->recurrent_->rewind(index, count); });
}

void transformer::use_tape(product_tape* tape) { impl_->products.use_tape(tape); }
const kernel_table& transformer::kernels() const noexcept { return impl_->kernels; }
std::uint64_t transformer::weight_bytes() const noexcept { return impl_->weights.bytes(); }
const weights_origin& transformer::origin() const noexcept { return impl_->weights.origin(); }
const storage::block_hash& transformer::weights_hash() const noexcept {
    return impl_->weights.hash();
}

}  // namespace semantic::engine
