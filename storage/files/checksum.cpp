// SPDX-License-Identifier: Apache-2.0
#include "storage/files/checksum.hpp"

#include <xxhash.h>
#ifdef SEMANTIC_XXHASH_DISPATCH
// The same sums by the widest vectors that the machine has.
#include <xxh_x86dispatch.h>
#endif

#include <cstring>
#include <new>

#include "storage/types/assert.hpp"
#include "storage/types/hex.hpp"

namespace semantic::storage {

namespace {

checksum_digits digits_of(std::uint64_t value) {
    checksum_digits text{};
    for (std::size_t i = text.size(); i-- > 0; value >>= 4) text[i] = hex_digit(value);
    return text;
}

}  // namespace

struct checksum64::state {
    XXH3_state_t* xxh = XXH3_createState();
    state() {
        if (xxh == nullptr) throw std::bad_alloc();
        XXH3_64bits_reset(xxh);
    }
    ~state() { XXH3_freeState(xxh); }
    state(const state&) = delete;
    state& operator=(const state&) = delete;
};

checksum64::checksum64() : state_(std::make_unique<state>()) {}
checksum64::~checksum64() = default;

void checksum64::add(std::span<const std::byte> bytes) {
    ASSERT(XXH3_64bits_update(state_->xxh, bytes.data(), bytes.size()) == XXH_OK);
}

std::string checksum64::hex() const {
    const checksum_digits digits = digits_of(XXH3_64bits_digest(state_->xxh));
    return {digits.begin(), digits.end()};
}

checksum_digits digits_of_checksum(std::span<const std::byte> bytes) {
    return digits_of(XXH3_64bits(bytes.data(), bytes.size()));
}

std::uint64_t checksum_of(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

block_hash checksum128(std::string_view text) {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(text.data(), text.size()));
    block_hash hash;
    static_assert(sizeof canonical.digest == sizeof hash.bytes);
    std::memcpy(hash.bytes.data(), canonical.digest, sizeof canonical.digest);
    return hash;
}

field_hasher& field_hasher::add(std::string_view field) {
    for (int shift = 0; shift < 64; shift += 8)
        bytes_ += static_cast<char>(static_cast<std::uint64_t>(field.size()) >> shift & 0xff);
    bytes_ += field;
    return *this;
}

field_hasher& field_hasher::add(std::span<const std::byte> field) {
    return add(std::string_view(reinterpret_cast<const char*>(field.data()), field.size()));
}

}  // namespace semantic::storage
