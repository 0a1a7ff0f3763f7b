// SPDX-License-Identifier: Apache-2.0
#include "storage/objects/agents/common_secret.hpp"

#include <optional>
#include <random>

#include "storage/files/checksum.hpp"
#include "storage/objects/encryption/encrypted_objects.hpp"

namespace semantic::storage {

namespace {

constexpr const char* secret_name = "secret";
constexpr const char* agreed_name = "shared/agreed";  // in the directory: the sum of the secret
constexpr std::size_t secret_bytes = 32;
constexpr std::size_t sum_bytes_max = 1024;

std::string secret_sum(std::string_view bytes) { return checksum128(bytes).hex(); }

std::string new_secret() {
    std::random_device entropy;
    std::string bytes;
    while (bytes.size() < secret_bytes) bytes += static_cast<char>(entropy() & 0xff);
    return bytes;
}

/// Returns: the secret of the cache directory; nothing where it has none yet. Errors: io.
object_result<std::optional<std::string>> read_secret(file_system& files, const std::string& path) {
    auto bytes = read_whole(files, path, secret_bytes);
    if (bytes && bytes->size() == secret_bytes) return std::optional(std::move(*bytes));
    // A file of another length is no secret, nor one that is too long (corrupt).
    if (bytes || bytes.error().code == errc::not_found || bytes.error().code == errc::corrupt)
        return std::optional<std::string>();
    return of_file(bytes.error());
}

/// Blocks. Reads the secret that is in the object store. Errors: not_found; denied, where it is
/// encrypted and `objects` has no keys; those of the store.
object_result<void> get_common(object_store& objects, std::string& secret) {
    const auto got = objects.get(secret_name, secret);
    if (!got) return got.error();
    if (is_encrypted_object(secret))
        return object_failure{object_errc::denied,
                              "the object store is encrypted: its keys are needed, "
                              "--object-store-key-file"};
    return {};
}

/// Whether the directory noted earlier that the object store has this secret.
bool has_agreed(file_system& files, const std::string& directory, const std::string& secret) {
    const auto sum = read_whole(files, directory + "/" + agreed_name, sum_bytes_max);
    return sum && *sum == secret_sum(secret);
}

}  // namespace

object_result<std::string> agree_on_secret(object_store& objects, file_system& files,
                                           const std::string& directory) {
    const std::string path = directory + "/" + secret_name;
    auto own = read_secret(files, path);
    if (!own) return own.error();
    // Of several machines that offer a secret at once the store takes one; the others read that.
    const std::string offered = own->value_or(new_secret());
    auto put = objects.put(secret_name, offered, if_absent());
    std::string common = offered;
    if (!put) {
        // The store does not answer, and this directory has noted earlier that both have the same
        // one.
        if (put.error().code == object_errc::unavailable && *own &&
            has_agreed(files, directory, **own))
            return offered;
        if (put.error().code != object_errc::precondition_failed) return put.error();
        if (auto got = get_common(objects, common); !got) return got.error();
        if (common.size() != secret_bytes)
            return object_failure{object_errc::corrupt, "the object store's secret has " +
                                                            std::to_string(common.size()) +
                                                            " bytes, not 32"};
    }
    if (*own && *own != common)
        return object_failure{object_errc::io,
                              directory +
                                  " was made with another secret than the object store's, so its "
                                  "agents have other names there: take an empty cache directory, "
                                  "or another prefix in the object store"};
    if (auto ok = files.make_directory(directory); !ok) return of_file(ok.error());
    if (!*own)
        if (auto ok = replace_file(files, path, common); !ok) return of_file(ok.error());
    if (has_agreed(files, directory, common)) return common;
    if (auto ok = files.make_directory(directory + "/shared"); !ok) return of_file(ok.error());
    if (auto ok = replace_file(files, directory + "/" + agreed_name, secret_sum(common)); !ok)
        return of_file(ok.error());
    return common;
}

object_result<void> check_keys(object_store& objects) {
    std::string common;
    auto got = get_common(objects, common);
    if (!got && got.error().code == object_errc::not_found) return {};
    return got;
}

}  // namespace semantic::storage
