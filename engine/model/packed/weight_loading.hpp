// SPDX-License-Identifier: Apache-2.0
#pragma once
// Settings for loading a model's weights into memory.

#include <cstdint>
#include <optional>
#include <string_view>

#include "engine/model/config/model_config.hpp"
#include "engine/types/weight_storage.hpp"

namespace semantic::engine {

class packed_folder;

/// How packed weights are used from their file.
enum class weights_access {
    automatic,  // mapped if the kernel maps huge pages or memory for a copy is short; else read
    mapped,     // the file's pages are used
    read,       // the file is copied to memory
};

/// The access named "auto", "map" or "read"; nothing for other words.
inline std::optional<weights_access> find_weights_access(std::string_view name) noexcept {
    if (name == "auto") return weights_access::automatic;
    if (name == "map") return weights_access::mapped;
    if (name == "read") return weights_access::read;
    return std::nullopt;
}

/// How a model's weights are loaded.
struct weight_loading {
    /// Packs the weights in memory, without packed weights on disk.
    weight_loading(weight_form wanted)
        : form(wanted) {}  // NOLINT: a form says all that a caller must
    weight_loading(weight_form wanted, packed_folder& folder, weights_access access_way,
                   std::uint64_t copy_max)
        : form(wanted), packed(&folder), access(access_way), copy_bytes_max(copy_max) {}

    weight_form form;
    packed_folder* packed = nullptr;  // where packed weights are kept; null: nowhere
    weights_access access = weights_access::automatic;
    std::uint64_t copy_bytes_max = 0;  // memory that automatic access may take for a copy
};

}  // namespace semantic::engine
