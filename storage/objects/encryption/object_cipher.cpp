// SPDX-License-Identifier: Apache-2.0
#include "storage/objects/encryption/object_cipher.hpp"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/rand.h>

#include <array>
#include <memory>
#include <vector>

#include "storage/types/assert.hpp"

namespace semantic::storage {

namespace {

constexpr std::string_view magic("SEMCRYPT\1\0\0\0\0\0\0\0", 16);
constexpr std::size_t key_bytes = 32, nonce_bytes = 12;
constexpr std::size_t key_id_at = magic.size(), salt_at = key_id_at + cipher_key_id_bytes;
static_assert(salt_at + cipher_salt_bytes == cipher_header_bytes);

const unsigned char* bytes_of(std::string_view text) {
    return reinterpret_cast<const unsigned char*>(text.data());
}

/// Returns: `count` bytes derived from `key` for a purpose: HKDF-SHA256 (RFC 5869). libcrypto fails
/// here only where memory is short.
std::string derive(std::string_view key, std::string_view salt, std::string_view purpose,
                   std::size_t count) {
    const std::unique_ptr<EVP_KDF, decltype(&EVP_KDF_free)> method(
        EVP_KDF_fetch(nullptr, "HKDF", nullptr), EVP_KDF_free);
    ASSERT(method != nullptr);
    const std::unique_ptr<EVP_KDF_CTX, decltype(&EVP_KDF_CTX_free)> context(
        EVP_KDF_CTX_new(method.get()), EVP_KDF_CTX_free);
    ASSERT(context != nullptr);
    std::string digest = "SHA256";
    const auto octets = [](const char* name, std::string_view text) {
        return OSSL_PARAM_construct_octet_string(name, const_cast<char*>(text.data()), text.size());
    };
    std::vector<OSSL_PARAM> given = {
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest.data(), 0),
        octets(OSSL_KDF_PARAM_KEY, key), octets(OSSL_KDF_PARAM_INFO, purpose)};
    if (!salt.empty()) given.push_back(octets(OSSL_KDF_PARAM_SALT, salt));
    given.push_back(OSSL_PARAM_construct_end());
    std::string out(count, '\0');
    const int done = EVP_KDF_derive(context.get(), reinterpret_cast<unsigned char*>(out.data()),
                                    count, given.data());
    ASSERT(done == 1);
    return out;
}

/// Returns: the nonce of a segment: its number and whether it is the last one. So no nonce occurs
/// twice under an object's own key.
std::array<unsigned char, nonce_bytes> nonce_of(std::uint32_t number, bool is_last) {
    std::array<unsigned char, nonce_bytes> nonce{};
    for (int i = 0; i < 4; ++i)
        nonce[nonce_bytes - 2 - static_cast<std::size_t>(i)] =
            static_cast<unsigned char>(number >> (8 * i) & 255);
    nonce[nonce_bytes - 1] = is_last ? 1 : 0;
    return nonce;
}

using cipher_context = std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)>;

cipher_context new_context() {
    cipher_context made(EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free);
    ASSERT(made != nullptr);
    return made;
}

}  // namespace

std::string cipher_key_id(std::string_view key) {
    return derive(key, {}, "semantic object key id 1", cipher_key_id_bytes);
}

cipher_header new_cipher_header(std::string_view key) {
    cipher_header header{cipher_key_id(key), std::string(cipher_salt_bytes, '\0')};
    const int done = RAND_bytes(reinterpret_cast<unsigned char*>(header.salt.data()),
                                static_cast<int>(header.salt.size()));
    ASSERT(done == 1);
    return header;
}

std::string encode(const cipher_header& header) {
    return std::string(magic) + header.key_id + header.salt;
}

std::optional<cipher_header> decode_cipher_header(std::string_view bytes) {
    if (bytes.size() < cipher_header_bytes || !bytes.starts_with(magic)) return std::nullopt;
    return cipher_header{std::string(bytes.substr(key_id_at, cipher_key_id_bytes)),
                         std::string(bytes.substr(salt_at, cipher_salt_bytes))};
}

std::uint64_t encrypted_bytes(std::uint64_t contents) {
    const std::uint64_t segments =
        contents == 0 ? 1 : (contents + cipher_segment_bytes - 1) / cipher_segment_bytes;
    return cipher_header_bytes + contents + segments * cipher_tag_bytes;
}

std::optional<std::uint64_t> decrypted_bytes(std::uint64_t encrypted) {
    constexpr std::uint64_t sealed = cipher_segment_bytes + cipher_tag_bytes;
    if (encrypted < cipher_header_bytes + cipher_tag_bytes) return std::nullopt;
    const std::uint64_t segments = (encrypted - cipher_header_bytes + sealed - 1) / sealed;
    const std::uint64_t contents = encrypted - cipher_header_bytes - segments * cipher_tag_bytes;
    if (encrypted_bytes(contents) != encrypted) return std::nullopt;
    return contents;
}

void wipe(std::string& secret) {
    OPENSSL_cleanse(secret.data(), secret.size());
    secret.clear();
}

object_cipher::object_cipher(std::string_view key, const cipher_header& header,
                             std::string_view name)
    : key_(derive(key, header.salt, "semantic object 1", key_bytes)),
      bound_(encode(header) + std::string(name)) {}

void object_cipher::seal(std::uint32_t number, bool is_last, std::string_view contents,
                         std::string& target) const {
    const cipher_context context = new_context();
    const auto nonce = nonce_of(number, is_last);
    const std::size_t at = target.size();
    target.resize(at + contents.size() + cipher_tag_bytes);
    auto* out = reinterpret_cast<unsigned char*>(target.data() + at);
    int count = 0;
    const bool is_done =
        EVP_EncryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, bytes_of(key_),
                           nonce.data()) == 1 &&
        EVP_EncryptUpdate(context.get(), nullptr, &count, bytes_of(bound_),
                          static_cast<int>(bound_.size())) == 1 &&
        (contents.empty() || EVP_EncryptUpdate(context.get(), out, &count, bytes_of(contents),
                                               static_cast<int>(contents.size())) == 1) &&
        EVP_EncryptFinal_ex(context.get(), out + contents.size(), &count) == 1 &&
        EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_GET_TAG, static_cast<int>(cipher_tag_bytes),
                            out + contents.size()) == 1;
    ASSERT(is_done);
}

bool object_cipher::open(std::uint32_t number, bool is_last, std::string_view segment,
                         std::string& target) const {
    if (segment.size() < cipher_tag_bytes) return false;
    const cipher_context context = new_context();
    const auto nonce = nonce_of(number, is_last);
    std::string tag(segment.substr(segment.size() - cipher_tag_bytes));
    segment.remove_suffix(cipher_tag_bytes);
    const std::size_t at = target.size();
    target.resize(at + segment.size());
    auto* out = reinterpret_cast<unsigned char*>(target.data() + at);
    int count = 0;
    const bool is_set =
        EVP_DecryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, bytes_of(key_),
                           nonce.data()) == 1 &&
        EVP_DecryptUpdate(context.get(), nullptr, &count, bytes_of(bound_),
                          static_cast<int>(bound_.size())) == 1 &&
        (segment.empty() || EVP_DecryptUpdate(context.get(), out, &count, bytes_of(segment),
                                              static_cast<int>(segment.size())) == 1) &&
        EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_SET_TAG, static_cast<int>(cipher_tag_bytes),
                            tag.data()) == 1;
    ASSERT(is_set);
    if (EVP_DecryptFinal_ex(context.get(), out + segment.size(), &count) == 1) return true;
    target.resize(at);
    return false;
}

}  // namespace semantic::storage
