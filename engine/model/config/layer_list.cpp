// SPDX-License-Identifier: Apache-2.0
#include "engine/model/config/layer_list.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "engine/model/config/hybrid_config.hpp"
#include "engine/model/config/mixture_config.hpp"
#include "engine/model/config/rope_config.hpp"

namespace semantic::engine {

namespace {

/// Returns: for each layer whether it has a sliding window, from `layer_types` or by the family's
/// rule.
std::vector<bool> read_sliding(fields& source, const family_defaults& family, int count,
                               int context) {
    std::vector<bool> slides(static_cast<std::size_t>(count), false);
    if (const json::value* types = source.find("layer_types");
        types != nullptr && types->is_array()) {
        const json::array& list = types->get_array();
        for (std::size_t i = 0; i < list.size(); ++i) {
            const bool window = list[i] == "sliding_attention";
            if (list[i] != "full_attention" && (!window || family.windows == window_rule::never)) {
                source.refuse("layer_types", list[i],
                              family.windows == window_rule::never
                                  ? "supported is full_attention"
                                  : "supported are full_attention and sliding_attention");
            }
            if (i < slides.size()) slides[i] = window;
        }
        if (list.size() != slides.size()) {
            source.complain("layer_types has " + std::to_string(list.size()) +
                            " entries, num_hidden_layers is " + std::to_string(count));
        }
        return slides;
    }
    int first = 0, every = 0;  // layers below `first`, and every `every`-th layer, have no window
    switch (family.windows) {
        case window_rule::never:
            if (source.boolean("use_sliding_window", false))
                source.refuse("use_sliding_window", true, "supported is false");
            return slides;
        case window_rule::behind_max_window_layers:
            if (!source.boolean("use_sliding_window", false)) return slides;
            // A null means no window; only a missing field means the family's default.
            if (source.raw().contains("sliding_window") && !source.has("sliding_window"))
                return slides;
            first = source.integer("max_window_layers", 28, 0, 4096);
            break;
        case window_rule::all_but_every_nth:
        case window_rule::all_but_every_nth_and_last: {
            const char* newer = "_sliding_window_pattern";
            every = source.integer(source.has(newer) ? newer : "sliding_window_pattern",
                                   family.window_pattern, 1, 4096);
            break;
        }
        case window_rule::all_but_every_second:
            every = 2;
            break;
        case window_rule::every_layer_if_asked:
            if (!source.boolean("use_sliding_window", false)) return slides;
            [[fallthrough]];
        case window_rule::every_layer:
            if (source.raw().contains("sliding_window") && !source.has("sliding_window"))
                return slides;
            break;
        case window_rule::every_layer_if_given:
            if (source.integer("sliding_window", context, 1, context_max) >= context) return slides;
            break;
    }
    for (int i = first; i < count; ++i) {
        slides[static_cast<std::size_t>(i)] = every == 0 || (i + 1) % every != 0;
    }
    if (family.windows == window_rule::all_but_every_nth_and_last) slides.back() = false;
    return slides;
}

/// Fills the layers of a hybrid. Layers that attend have rope unless the file says "nope"
/// (Granite), and never in Nemotron-H.
void read_hybrid_layers(fields& source, const family_defaults& family, model_config& out) {
    rope_parameters rope = read_rope(source, family.rope, out.context_tokens_max).full;
    if (family.recurrent == recurrent_spelling::blocks ||
        (family.has_multipliers && source.string("position_embedding_type", "nope") != "rope"))
        rope.portion = 0.0;
    if (rope.rotated(out.head_dim) % 2 != 0)
        source.complain(std::to_string(rope.rotated(out.head_dim)) +
                        " elements of a head rotate: rotary embedding needs an even number");
    bool has_mixture = false;
    for (const layer_parts& parts : read_layer_parts(source, family, out)) {
        out.layers.push_back({0, rope, parts.mixture, parts.mixer, parts.feed_forward});
        has_mixture = has_mixture || parts.mixture;
    }
    // A file may have the fields of experts, and no layer with any.
    if (!has_mixture) out.mixture = {};
    if (out.kv_layers() == 0)
        source.complain("none of the " + std::to_string(out.layers.size()) + " layers of this " +
                        out.family +
                        " attends: models of recurrent layers alone are not supported");
}

/// Removes rope from the layers that have none: in some families those without a window, those with
/// a 0 in `no_rope_layers`, or the last one of each interval.
void leave_out_rope(fields& source, const family_defaults& family, model_config& out) {
    // A missing window means the family's default, null means none.
    const bool has_windows =
        source.has("sliding_window") || !source.raw().contains("sliding_window");
    if (family.rope_free_full && has_windows)
        for (layer_config& layer : out.layers)
            if (layer.window == 0) layer.rope.portion = 0.0;
    if (family.rope_free_every == 0) return;
    const int every = source.integer("no_rope_layer_interval", family.rope_free_every, 1, 4096);
    constexpr const char* name = "no_rope_layers";
    const json::value* list = source.find(name);
    if (list != nullptr && (!list->is_array() || list->get_array().size() != out.layers.size()))
        return source.refuse(name, *list, "a list of 1 or 0 for each layer is needed");
    for (std::size_t i = 0; i < out.layers.size(); ++i) {
        const bool turns = list != nullptr ? list->get_array()[i] != 0
                                           : (i + 1) % static_cast<std::size_t>(every) != 0;
        if (!turns) out.layers[i].rope.portion = 0.0;
    }
}

/// Complains if rope does not have one divisor for each pair of elements that rotates.
void check_divisors(fields& source, const model_config& out) {
    for (const layer_config& layer : out.layers) {
        const auto pairs = static_cast<std::size_t>(layer.rope.rotated(out.head_dim_of(layer)) / 2);
        for (const std::vector<float>* list : {&layer.rope.divisors, &layer.rope.short_divisors})
            if (!list->empty() && list->size() != pairs)
                source.complain("rope has " + std::to_string(list->size()) +
                                " factors, and a head " + std::to_string(pairs) +
                                " pairs of elements that turn");
        if (layer.rope.rotated(out.head_dim_of(layer)) % 2 != 0)
            source.complain(std::to_string(layer.rope.rotated(out.head_dim_of(layer))) +
                            " elements of a head rotate: rotary embedding needs an even number");
    }
}

constexpr int own_head_dim_max = 1024, own_heads_max = 4096;

/// Reads the heads of layers without window, if they differ from the others. Published files have
/// fields for these; transformers 5 writes an object for each layer that differs.
void read_heads(fields& source, model_config& out) {
    const json::object* apart = source.object("per_layer_config");
    const bool values_from_keys = source.boolean("attention_k_eq_v", false);
    const int dim = source.integer("global_head_dim", apart != nullptr ? out.head_dim : 512, 2,
                                   own_head_dim_max);
    const int kv_heads = values_from_keys ? source.integer("num_global_key_value_heads",
                                                           out.kv_heads, 1, own_heads_max)
                                          : out.kv_heads;
    for (std::size_t i = 0; i < out.layers.size(); ++i) {
        layer_config& layer = out.layers[i];
        const bool full = layer.window == 0;
        layer.head_dim = full ? dim : out.head_dim;
        layer.kv_heads = full ? kv_heads : out.kv_heads;
        layer.values_from_keys = full && values_from_keys;
        const std::string number = std::to_string(i);
        const json::value* own = apart != nullptr ? apart->if_contains(number) : nullptr;
        if (own == nullptr) continue;
        if (!own->is_object())
            return source.refuse("per_layer_config", *own, "an object for a layer is needed");
        fields inner(own->get_object(), source.path("per_layer_config.") + number + ".",
                     source.complaint());
        for (const auto& [name, value] : own->get_object())
            if (name != "head_dim" && name != "num_key_value_heads")
                return inner.refuse(name, value, "layers cannot differ in it");
        layer.head_dim = inner.integer("head_dim", layer.head_dim, 2, own_head_dim_max);
        layer.kv_heads = inner.integer("num_key_value_heads", layer.kv_heads, 1, own_heads_max);
    }
    for (const layer_config& layer : out.layers) {
        if (out.heads % layer.kv_heads != 0)
            source.complain("a layer has " + std::to_string(layer.kv_heads) +
                            " heads of keys: they must divide num_attention_heads " +
                            std::to_string(out.heads));
        if (layer.head_dim % 2 != 0)
            source.complain("a layer's head_dim is " + std::to_string(layer.head_dim) +
                            ": rotary embedding needs an even number");
        out.head_dim = std::max(out.head_dim, layer.head_dim);
        out.kv_heads = std::max(out.kv_heads, layer.kv_heads);
    }
}

/// Sets kv_source of the last layers, which have no keys and values of their own: each reads those
/// of the last earlier layer of its kind (with or without a window).
void read_sources(fields& source, model_config& out) {
    const int count = static_cast<int>(out.layers.size());
    const int shared = source.integer("num_kv_shared_layers", 0, 0, count - 1);
    const bool doubled = source.boolean("use_double_wide_mlp", false);
    const int first = count - shared, width = out.intermediate;
    for (int i = first; i < count; ++i) {
        layer_config& layer = out.layers[static_cast<std::size_t>(i)];
        for (int giver = first - 1; giver >= 0 && layer.kv_source < 0; --giver)
            if ((out.layers[static_cast<std::size_t>(giver)].window == 0) == (layer.window == 0))
                layer.kv_source = giver;
        if (layer.kv_source < 0)
            return source.refuse(
                "num_kv_shared_layers", shared,
                "no layer before these is of the kind of layer " + std::to_string(i));
        if (doubled) layer.intermediate = 2 * width;
        if (doubled) out.intermediate = 2 * width;
    }
    // The model's width is that of the widest layers now: the others get their own.
    if (out.intermediate != width)
        for (layer_config& layer : out.layers)
            if (layer.intermediate == 0) layer.intermediate = width;
}

/// Reads the size of per-layer embeddings (model_config::layer_input_dim).
void read_layer_inputs(fields& source, model_config& out) {
    const char* name = "hidden_size_per_layer_input";
    // A null means none; only a missing field means the default.
    const bool none = source.raw().contains(name) && !source.has(name);
    out.layer_input_dim = none ? 0 : source.integer(name, 256, 0, dimension_max);
    const char* rows = "vocab_size_per_layer_input";
    if (out.layer_input_dim > 0 &&
        source.integer(rows, 262144, 1, vocabulary_max) != out.vocabulary)
        source.complain(source.path(rows) + " is not vocab_size " + std::to_string(out.vocabulary) +
                        ", which is not supported");
}

/// Reads the sizes of experts that run next to each layer's MLP.
void read_experts(fields& source, model_config& out) {
    if (!source.boolean("enable_moe_block", false)) return;
    mixture_config& mixture = out.mixture;
    for (const char* name : {"num_experts", "top_k_experts", "moe_intermediate_size"})
        if (!source.has(name)) return source.complain(source.path(name) + " is missing");
    mixture.fused = false;
    mixture.beside_mlp = true;
    mixture.experts = source.integer("num_experts", 1, 1, 4096);
    mixture.per_token = source.integer("top_k_experts", 1, 1, mixture.experts);
    mixture.intermediate = source.integer("moe_intermediate_size", 1, 1, dimension_max);
    for (layer_config& layer : out.layers) layer.mixture = true;
}

/// Reads all in which layers of such a family differ, apart from windows.
void read_layer_kinds(fields& source, model_config& out) {
    read_heads(source, out);
    read_sources(source, out);
    read_layer_inputs(source, out);
    read_experts(source, out);
}

}  // namespace

void read_layers(fields& source, const family_defaults& family, model_config& out) {
    if (family.recurrent != recurrent_spelling::none)
        return read_hybrid_layers(source, family, out);
    const int count = source.integer("num_hidden_layers", family.layers, 1, 4096);
    const layer_ropes ropes = read_rope(source, family.rope, out.context_tokens_max);
    const int window = source.integer("sliding_window", family.window, 1, context_max);
    const std::vector<bool> mixtures = read_mixture_layers(source, family, count);
    for (const bool slides : read_sliding(source, family, count, out.context_tokens_max)) {
        const bool mixture = mixtures[out.layers.size()];
        out.layers.push_back(slides ? layer_config{window, ropes.sliding, mixture}
                                    : layer_config{0, ropes.full, mixture});
    }
    leave_out_rope(source, family, out);
    if (family.kinds_differ) read_layer_kinds(source, out);
    check_divisors(source, out);
}

}  // namespace semantic::engine
