// SPDX-License-Identifier: Apache-2.0
#include "storage/objects/random_id.hpp"

#include <cstdint>
#include <random>

#include "storage/types/hex.hpp"

namespace semantic::storage {

std::string random_id() {
    thread_local std::random_device entropy;
    const auto word = [&] { return std::uint64_t{entropy()} << 32 | entropy(); };
    return hex_of(word()) + hex_of(word());
}

}  // namespace semantic::storage
