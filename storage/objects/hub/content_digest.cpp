// SPDX-License-Identifier: Apache-2.0
#include "storage/objects/hub/content_digest.hpp"

#include <openssl/evp.h>

#include <array>

#include "storage/types/assert.hpp"
#include "storage/types/hex.hpp"

namespace semantic::storage {

struct content_digest::state {
    EVP_MD_CTX* context = EVP_MD_CTX_new();
    state() = default;
    state(const state&) = delete;
    state& operator=(const state&) = delete;
    ~state() { EVP_MD_CTX_free(context); }
};

content_digest::content_digest(kind form, std::uint64_t bytes) : state_(std::make_unique<state>()) {
    ASSERT(state_->context != nullptr);
    const EVP_MD* rule = form == kind::sha256 ? EVP_sha256() : EVP_sha1();
    ASSERT(EVP_DigestInit_ex(state_->context, rule, nullptr) == 1);
    if (form == kind::git_blob) {
        const std::string head = "blob " + std::to_string(bytes);
        add(std::string_view(head.c_str(), head.size() + 1));
    }
}

content_digest::~content_digest() = default;
content_digest::content_digest(content_digest&&) noexcept = default;
content_digest& content_digest::operator=(content_digest&&) noexcept = default;

void content_digest::add(std::string_view bytes) {
    ASSERT(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1);
}

std::string content_digest::finish() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> sum{};
    unsigned size = 0;
    ASSERT(EVP_DigestFinal_ex(state_->context, sum.data(), &size) == 1);
    std::string text;
    for (unsigned i = 0; i < size; ++i) append_hex(text, static_cast<char>(sum[i]));
    return text;
}

}  // namespace semantic::storage
