// SPDX-License-Identifier: Apache-2.0
#include "engine/fingerprint.hpp"

#include <xxhash.h>

#include <cstring>
#include <memory>

namespace semantic::engine {

storage::block_hash fingerprint(const std::vector<std::string_view>& fields) {
    std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(),
                                                                          XXH3_freeState);
    XXH3_128bits_reset(state.get());
    for (std::string_view field : fields) {
        // The length comes first, so that ("ab", "c") differs from ("a", "bc").
        std::uint8_t length[8];
        for (std::size_t i = 0; i < 8; ++i)
            length[i] = static_cast<std::uint8_t>(field.size() >> (8 * i));
        XXH3_128bits_update(state.get(), length, sizeof length);
        XXH3_128bits_update(state.get(), field.data(), field.size());
    }
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state.get()));
    storage::block_hash hash;
    static_assert(sizeof canonical.digest == sizeof hash.bytes);
    std::memcpy(hash.bytes.data(), canonical.digest, hash.bytes.size());
    return hash;
}

}  // namespace semantic::engine
