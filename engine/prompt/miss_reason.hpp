// SPDX-License-Identifier: Apache-2.0
#pragma once
// Translates storage's reason for missing memory into the reason that a request reports. Pure.

#include "engine/types/generation.hpp"
#include "storage/types/shortfall.hpp"

namespace semantic::engine {

constexpr miss_reason reason_of(storage::shortfall why) noexcept {
    switch (why) {
        case storage::shortfall::none:
            return miss_reason::none;
        case storage::shortfall::evicted:
            return miss_reason::evicted;
        case storage::shortfall::corrupt:
            return miss_reason::corrupt;
        case storage::shortfall::incompatible:
            return miss_reason::incompatible;
        case storage::shortfall::model_changed:
            return miss_reason::model_changed;
    }
    return miss_reason::none;
}

}  // namespace semantic::engine
