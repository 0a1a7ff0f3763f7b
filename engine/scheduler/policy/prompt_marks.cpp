// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/policy/prompt_marks.hpp"

#include <algorithm>

namespace semantic::engine {

namespace {

// FNV-1a over words; the last step spreads a token's bits over all of a hash.
constexpr std::uint64_t offset_basis = 0xCBF29CE484222325ull;
constexpr std::uint64_t prime = 0x100000001B3ull;

std::uint64_t add_token(std::uint64_t hash, storage::token_id token) {
    hash = (hash ^ static_cast<std::uint32_t>(token)) * prime;
    return hash ^ (hash >> 29);
}

}  // namespace

prompt_marks::prompt_marks(std::span<const storage::token_id> tokens) {
    hashes_.reserve(tokens.size() / grain);
    std::uint64_t hash = offset_basis;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        hash = add_token(hash, tokens[i]);
        if ((i + 1) % grain == 0) hashes_.push_back(hash);
    }
}

int prompt_marks::count_common(std::span<const storage::token_id> own, const prompt_marks& other,
                               std::span<const storage::token_id> others) const {
    // A binary search: each hash covers all tokens before it, so where one differs all later do.
    std::size_t same = 0, end = std::min(hashes_.size(), other.hashes_.size());
    while (same < end) {
        const std::size_t middle = (same + end) / 2;
        if (hashes_[middle] == other.hashes_[middle])
            same = middle + 1;
        else
            end = middle;
    }
    if (same == 0) return 0;
    std::size_t count = same * grain;
    const std::size_t most = std::min({own.size(), others.size(), count + grain});
    while (count < most && own[count] == others[count]) ++count;
    return static_cast<int>(count);
}

}  // namespace semantic::engine
