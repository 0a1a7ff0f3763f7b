// SPDX-License-Identifier: Apache-2.0
#include "storage/types/shortfall.hpp"

namespace semantic::storage {

const char* to_string(shortfall why) noexcept {
    switch (why) {
        case shortfall::none:
            return "none";
        case shortfall::evicted:
            return "evicted";
        case shortfall::corrupt:
            return "corrupt";
        case shortfall::incompatible:
            return "incompatible";
        case shortfall::model_changed:
            return "model_changed";
    }
    return "unknown";
}

}  // namespace semantic::storage
