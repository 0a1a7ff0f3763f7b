// SPDX-License-Identifier: Apache-2.0
#include "engine/model/config/quantization_config.hpp"

#include <string>

namespace semantic::engine {

namespace {

using mode = matrix_quantization::mode;

/// Reads `mode`, `group_size` and `bits`, of all matrices or of one, as mlx-lm writes them.
matrix_quantization read_matrix(fields& section) {
    const std::string name = section.string("mode", "affine");
    if (name != "affine" && name != "mxfp4") {
        section.refuse("mode", json::value(name), "supported are affine and mxfp4");
        return {};
    }
    const bool affine = name == "affine";
    const int wanted = affine ? 64 : 32;
    const int group = section.integer("group_size", wanted, 1, 1 << 20);
    if (group != wanted) {
        section.refuse("group_size", json::value(group), "supported is " + std::to_string(wanted));
    }
    const int bits = section.integer("bits", 4, 1, 32);
    if (bits != 4 && (bits != 8 || !affine)) {
        section.refuse("bits", json::value(bits),
                       affine ? "supported are 4 and 8" : "supported is 4");
    }
    return {affine ? mode::affine : mode::mxfp4, bits};
}

/// Whether the matrix belongs to a part of a multimodal model that is not read.
bool is_ignored(std::string_view name) {
    return name.find("vision_tower") != name.npos || name.find("vision_model") != name.npos ||
           name.find("multi_modal_projector") != name.npos;
}

}  // namespace

/// Reads how the matrices are quantised. MLX writes the field `quantization`, newer versions also
/// `quantization_config`; of other tools' `quantization_config`, which has a method, only mxfp4 of
/// experts is supported. Source: mlx-lm, utils.py, load_model (read 2026-11).
void read_quantization(fields& section, model_config& out) {
    const char* name = section.has("quantization") ? "quantization" : "quantization_config";
    const json::object* object = section.object(name);
    if (object == nullptr) return;
    fields inner(*object, std::string(name) + ".", section.complaint());
    if (inner.has("quant_method")) {
        // The weights say themselves which experts are MXFP4, by the names of either tool.
        if (out.mixture.experts > 0 && inner.string("quant_method", "") == "mxfp4") {
            out.quantization = {mode::mxfp4, 4};
            return;
        }
        inner.refuse("quant_method", object->at("quant_method"),
                     "supported are MLX's quantisation and, for experts, mxfp4");
        return;
    }
    out.quantization = read_matrix(inner);
    for (const auto& [key, value] : *object) {
        if (is_ignored(key)) continue;
        if (value.is_bool()) {
            // false: the matrix is not quantised.
            if (!value.get_bool()) out.quantization_of[std::string(key)] = {};
        } else if (value.is_object()) {
            fields one(value.get_object(), inner.path(key) + ".", section.complaint());
            out.quantization_of[std::string(key)] = read_matrix(one);
        }
    }
}

}  // namespace semantic::engine
