#include "storage/objects/hmac.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>

#include "storage/types/assert.hpp"

namespace semantic::storage {

namespace {

constexpr std::size_t sha256_bytes = 32;

}  // namespace

std::string hmac_sha256(std::string_view key, std::string_view text) {
    std::array<unsigned char, sha256_bytes> mac{};
    unsigned size = 0;
    const auto* done =
        HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
             reinterpret_cast<const unsigned char*>(text.data()), text.size(), mac.data(), &size);
    ASSERT(done != nullptr && size == mac.size());
    return {reinterpret_cast<const char*>(mac.data()), mac.size()};
}

bool is_same_mac(std::string_view a, std::string_view b) {
    return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace semantic::storage
