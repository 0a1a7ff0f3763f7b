// SPDX-License-Identifier: Apache-2.0
#include "engine/model/config/rope_config.hpp"

#include <cmath>

namespace semantic::engine {

namespace {

/// The longest conversation, and the longest in the model's first training; 0: no field says.
struct rope_context {
    int tokens = 0;
    int original = 0;
};

/// The factor of cosines and sines by YaRN, `weight` times as strong.
double yarn_amplitude(double factor, double weight) {
    return factor <= 1.0 ? 1.0 : 0.1 * weight * std::log(factor) + 1.0;
}

void read_llama3(fields& source, int context, rope_parameters& rope) {
    rope.type = rope_parameters::scaling::llama3;
    rope.low_freq_factor = source.real("low_freq_factor", 1.0, 0.0, 1e6);
    rope.high_freq_factor = source.real("high_freq_factor", 4.0, 0.0, 1e6);
    rope.original_context =
        source.integer("original_max_position_embeddings", context, 1, context_max);
    if (rope.high_freq_factor <= rope.low_freq_factor) {
        source.refuse("high_freq_factor", json::value(rope.high_freq_factor),
                      "it must be above low_freq_factor");
    }
}

/// Reads YaRN's parameters (arXiv:2309.00071). `context`: the model's, where the original one is
/// not given.
void read_yarn(fields& source, int context, rope_parameters& rope) {
    rope.type = rope_parameters::scaling::yarn;
    rope.beta_fast = source.real("beta_fast", 32.0, 0.0, 1e6);
    rope.beta_slow = source.real("beta_slow", 1.0, 0.0, 1e6);
    rope.truncate = source.boolean("truncate", true);
    rope.original_context =
        source.integer("original_max_position_embeddings", context, 1, context_max);
    // -1e-9: real() needs a number above its bound, and 0 is allowed here.
    rope.query_growth = source.real("llama_4_scaling_beta", 0.0, -1e-9, 100.0);
    const double one = source.real("mscale", 0.0, -1e-9, 100.0),
                 all = source.real("mscale_all_dim", 0.0, -1e-9, 100.0);
    const double missing = one != 0.0 && all != 0.0
                               ? yarn_amplitude(rope.factor, one) / yarn_amplitude(rope.factor, all)
                               : yarn_amplitude(rope.factor, 1.0);
    rope.amplitude = source.real("attention_factor", missing, 0.0, 100.0);
}

/// Reads a list of divisors, one for each pair of elements that rotates.
std::vector<float> read_factors(fields& source, const char* name) {
    std::vector<float> factors;
    const json::value* list = source.find(name);
    if (list == nullptr || !list->is_array()) {
        source.complain(source.path(name) + " is missing or no list: longrope scaling needs it");
        return factors;
    }
    for (const json::value& each : list->get_array()) {
        const float factor = each.is_number() ? each.to_number<float>() : 0.0f;
        if (!(std::isfinite(factor) && factor > 0.0f)) {
            source.refuse(name, each, "numbers above 0 are needed");
            return factors;
        }
        factors.push_back(factor);
    }
    return factors;
}

/// Reads longrope (Phi): frequencies are divided by one list of factors in contexts as long as
/// those of the first training, and by another one in longer contexts.
void read_longrope(fields& source, const rope_context& context, rope_parameters& rope) {
    rope.divisors = read_factors(source, "long_factor");
    rope.short_divisors = read_factors(source, "short_factor");
    rope.original_context =
        source.integer("original_max_position_embeddings", context.original, 1, context_max);
    if (rope.original_context < 2.0) {
        return source.complain(source.path("original_max_position_embeddings") +
                               " is missing, longrope scaling needs it");
    }
    const double stretched = context.tokens / rope.original_context;
    const double missing =
        stretched <= 1.0 ? 1.0
                         : std::sqrt(1.0 + std::log(stretched) / std::log(rope.original_context));
    rope.amplitude = source.real("attention_factor", missing, 0.0, 100.0);
}

/// Reads the scaling part of rope from the object `rope_scaling` or `rope_parameters`.
void read_rope_scaling(fields source, const rope_context& context, rope_parameters& rope) {
    const char* spelling = source.has("rope_type") ? "rope_type" : "type";
    const std::string type = source.string(spelling, "default");
    if (type == "default") return;
    if (type == "longrope" || type == "su") return read_longrope(source, context, rope);
    if (type == "proportional") {
        rope.proportional = true;
        rope.portion = source.real("partial_rotary_factor", rope.portion, 0.0, 1.0);
        return;
    }
    if (type != "linear" && type != "llama3" && type != "yarn") {
        source.refuse(spelling, json::value(type),
                      "supported are default, linear, llama3, yarn, longrope and proportional");
        return;
    }
    if (!source.has("factor")) {
        source.complain(source.path("factor") + " is missing, " + type + " scaling needs it");
        return;
    }
    rope.factor = source.real("factor", 1.0, 0.0, 1e6);
    if (type == "linear") rope.type = rope_parameters::scaling::linear;
    if (type == "llama3") read_llama3(source, context.tokens, rope);
    if (type == "yarn") read_yarn(source, context.tokens, rope);
}

/// Reads the share of a head that rotates. Complains if it is partial and may not be.
double read_portion(fields& source, double missing, bool may_be_partial) {
    const double portion = source.real("partial_rotary_factor", missing, 0.0, 1.0);
    if (portion != 1.0 && !may_be_partial) {
        source.refuse("partial_rotary_factor", source.raw().at("partial_rotary_factor"),
                      "only 1 is supported");
    }
    return portion;
}

/// Reads the rope of one kind of layers, from an object that has base and scaling together.
/// `missing`: the defaults of its fields.
rope_parameters read_joint_rope(fields source, const rope_parameters& missing, bool may_be_partial,
                                const rope_context& context) {
    rope_parameters rope;
    rope.theta = source.real("rope_theta", missing.theta, 0.0, 1e12);
    rope.portion = read_portion(source, missing.portion, may_be_partial);
    read_rope_scaling(source, context, rope);
    return rope;
}

}  // namespace

layer_ropes read_rope(fields& source, const rope_defaults& family, int context_tokens) {
    layer_ropes out;
    const rope_context context{
        context_tokens, source.integer("original_max_position_embeddings", 0, 1, context_max)};
    // `apart`: sliding layers have parameters of their own.
    const bool apart = family.theta_sliding != 0.0 || family.scales_full_only,
               may_be_partial = family.portion != 1.0 || family.may_be_partial;
    const double theta = source.real("rope_theta", family.theta, 0.0, 1e12);
    const double theta_sliding =
        family.theta_sliding != 0.0
            ? source.real("rope_local_base_freq", family.theta_sliding, 0.0, 1e12)
            : theta;
    out.full.theta = theta;
    out.sliding.theta = theta_sliding;
    if (may_be_partial)
        out.full.portion = out.sliding.portion = read_portion(source, family.portion, true);
    const json::object* joint = source.object("rope_parameters");
    if (joint == nullptr) {
        json::value assumed;
        const json::object* scaling = source.object("rope_scaling");
        if (scaling == nullptr && family.scaling != nullptr) {
            assumed = json::parse(family.scaling);
            scaling = &assumed.get_object();
        }
        if (scaling != nullptr) {
            read_rope_scaling(fields(*scaling, "rope_scaling.", source.complaint()), context,
                              out.full);
        }
        if (!apart) out.sliding = out.full;
        return out;
    }
    fields inner(*joint, "rope_parameters.", source.complaint());
    bool nested = false;
    for (const auto& [name, value] : *joint) {
        if (!value.is_object()) continue;
        nested = true;
        if (!apart || (name != "full_attention" && name != "sliding_attention")) {
            inner.refuse(name, value, "rope parameters of this kind of layer are not supported");
        }
    }
    if (!nested) {
        out.full = read_joint_rope(inner, out.full, may_be_partial, context);
        if (!apart) out.sliding = out.full;
        if (family.scales_full_only) out.sliding.theta = out.full.theta;
        return out;
    }
    const auto kind = [&](const char* name, rope_parameters& rope) {
        if (const json::object* object = inner.object(name)) {
            rope = read_joint_rope(fields(*object, inner.path(name) + ".", source.complaint()),
                                   rope, may_be_partial, context);
        }
    };
    kind("full_attention", out.full);
    kind("sliding_attention", out.sliding);
    return out;
}

double read_rope_sharpening(fields& source) {
    const char* name = source.has("rope_parameters") ? "rope_parameters" : "rope_scaling";
    const json::object* object = source.object(name);
    if (object == nullptr) return 1.0;
    fields inner(*object, std::string(name) + ".", source.complaint());
    const std::string type = inner.string(inner.has("rope_type") ? "rope_type" : "type", "default");
    // -1e-9: 0 is allowed, as in read_yarn().
    const double weight = inner.real("mscale_all_dim", 0.0, -1e-9, 100.0);
    if (type == "default" || weight == 0.0) return 1.0;
    const double amplitude = yarn_amplitude(inner.real("factor", 1.0, 0.0, 1e6), weight);
    return amplitude * amplitude;
}

}  // namespace semantic::engine
