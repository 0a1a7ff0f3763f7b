// SPDX-License-Identifier: Apache-2.0
#include "storage/objects/encryption/encrypted_objects.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "storage/objects/encryption/object_cipher.hpp"

namespace semantic::storage {

namespace {

constexpr int range_tries_max = 3;
constexpr std::size_t sealed_bytes = cipher_segment_bytes + cipher_tag_bytes;

object_failure not_encrypted(const std::string& name) {
    return {object_errc::corrupt,
            name + " in the object store is not encrypted, or was made by a later version"};
}

object_failure changed(const std::string& name) {
    return {object_errc::corrupt, name + " in the object store is not what was encrypted"};
}

class encrypted_objects final : public object_store {
  public:
    encrypted_objects(std::unique_ptr<object_store> store, object_keys keys)
        : store_(std::move(store)), keys_(std::move(keys)) {
        for (const std::string& key : keys_) ids_.push_back(cipher_key_id(key));
    }
    ~encrypted_objects() override {
        for (std::string& key : keys_) wipe(key);
    }

    object_result<object_info> get(const std::string& name, std::string& bytes) override;
    object_result<object_info> get_range(const std::string& name, std::uint64_t offset,
                                         std::span<std::byte> target) override;
    object_result<std::string> put(const std::string& name, std::string_view bytes,
                                   const put_condition& condition) override;
    object_result<std::vector<std::optional<object_info>>> stat(
        std::span<const std::string> names) override;
    object_result<void> remove(const std::string& name) override { return store_->remove(name); }
    object_result<object_page> list(const std::string& prefix, const std::string& from,
                                    std::size_t count_max) override;

  private:
    object_result<object_cipher> cipher_of(const std::string& name, std::string_view bytes) const;
    object_result<bool> read_segments(const std::string& name, const object_cipher& cipher,
                                      const object_info& info, std::uint64_t offset,
                                      std::span<std::byte> target);

    const std::unique_ptr<object_store> store_;
    object_keys keys_;
    std::vector<std::string> ids_;  // a key's each
};

/// Returns: the cipher for an object, from its header at the start of `bytes`. Errors: corrupt
/// where it is not encrypted, denied where none of the keys is the right one.
object_result<object_cipher> encrypted_objects::cipher_of(const std::string& name,
                                                          std::string_view bytes) const {
    const auto header = decode_cipher_header(bytes);
    if (!header) return not_encrypted(name);
    const auto found = std::find(ids_.begin(), ids_.end(), header->key_id);
    if (found == ids_.end())
        return object_failure{object_errc::denied,
                              name + " in the object store was encrypted with another key"};
    return object_cipher(keys_[static_cast<std::size_t>(found - ids_.begin())], *header, name);
}

/// Reads and decrypts an object. Its segments are sealed one by one; the last one is sealed as
/// such, so that a shortened object is noticed.
object_result<object_info> encrypted_objects::get(const std::string& name, std::string& bytes) {
    std::string sealed;
    bytes.clear();
    auto info = store_->get(name, sealed);
    if (!info) return info;
    const auto cipher = cipher_of(name, sealed);
    if (!cipher) return cipher.error();
    const auto contents = decrypted_bytes(sealed.size());
    if (!contents) return changed(name);
    bytes.reserve(*contents);
    std::string_view rest = std::string_view(sealed).substr(cipher_header_bytes);
    for (std::uint32_t number = 0; !rest.empty(); ++number) {
        const std::string_view segment = rest.substr(0, sealed_bytes);
        rest.remove_prefix(segment.size());
        if (cipher->open(number, rest.empty(), segment, bytes)) continue;
        bytes.clear();
        return changed(name);
    }
    info->bytes = *contents;
    return info;
}

/// Reads and decrypts a part of an object. Starts over where the object was replaced between its
/// header and the segments.
object_result<object_info> encrypted_objects::get_range(const std::string& name,
                                                        std::uint64_t offset,
                                                        std::span<std::byte> target) {
    if (target.empty()) return object_failure{object_errc::bad_value, "no bytes are asked for"};
    for (int tries = 0; tries < range_tries_max; ++tries) {
        std::string head(cipher_header_bytes, '\0');
        auto info = store_->get_range(name, 0, std::as_writable_bytes(std::span(head)));
        // An object shorter than a header was not encrypted.
        if (!info && info.error().code == object_errc::bad_value) return not_encrypted(name);
        if (!info) return info;
        const auto cipher = cipher_of(name, head);
        if (!cipher) return cipher.error();
        const auto is_read = read_segments(name, *cipher, *info, offset, target);
        if (!is_read) return is_read.error();
        if (!*is_read) continue;
        info->bytes = *decrypted_bytes(info->bytes);
        return info;
    }
    return object_failure{object_errc::unavailable, name + " changes again and again"};
}

/// Blocks. Reads and decrypts the segments that contain the wanted bytes, and copies those to
/// `target`. `info`: the object when its header was read. Returns: false where the object was
/// replaced since, so that header and segments do not fit. Errors: corrupt; those of the store.
object_result<bool> encrypted_objects::read_segments(const std::string& name,
                                                     const object_cipher& cipher,
                                                     const object_info& info, std::uint64_t offset,
                                                     std::span<std::byte> target) {
    const auto contents = decrypted_bytes(info.bytes);
    if (!contents) return changed(name);
    if (offset > *contents || target.size() > *contents - offset)
        return object_failure{object_errc::bad_value, name + " ends before what is asked for"};
    const std::uint64_t first = offset / cipher_segment_bytes;
    const std::uint64_t end = (offset + target.size() - 1) / cipher_segment_bytes + 1;
    const std::uint64_t from = cipher_header_bytes + first * sealed_bytes;
    const std::uint64_t to = std::min(cipher_header_bytes + end * sealed_bytes, info.bytes);
    std::string sealed(to - from, '\0');
    const auto body = store_->get_range(name, from, std::as_writable_bytes(std::span(sealed)));
    if (body && body->version != info.version) return false;
    if (!body && body.error().code == object_errc::bad_value) return false;  // shorter by now
    if (!body) return body.error();
    std::string opened;
    for (std::uint64_t number = first; number < end; ++number) {
        const auto segment =
            std::string_view(sealed).substr((number - first) * sealed_bytes, sealed_bytes);
        const bool is_last = (number + 1) * cipher_segment_bytes >= *contents;
        if (!cipher.open(static_cast<std::uint32_t>(number), is_last, segment, opened))
            return changed(name);
    }
    std::memcpy(target.data(), opened.data() + (offset - first * cipher_segment_bytes),
                target.size());
    return true;
}

/// Encrypts an object with the first key, segment by segment, and writes it.
object_result<std::string> encrypted_objects::put(const std::string& name, std::string_view bytes,
                                                  const put_condition& condition) {
    // Checked before the bytes are copied. The store itself refuses an object that only the tags of
    // the segments make too large.
    if (bytes.size() > object_bytes_max)
        return object_failure{object_errc::bad_value, name + " is larger than an object may be"};
    const cipher_header header = new_cipher_header(keys_.front());
    const object_cipher cipher(keys_.front(), header, name);
    std::string sealed = encode(header);
    sealed.reserve(encrypted_bytes(bytes.size()));
    std::uint32_t number = 0;
    do {
        const std::string_view contents = bytes.substr(0, cipher_segment_bytes);
        bytes.remove_prefix(contents.size());
        cipher.seal(number++, bytes.empty(), contents, sealed);
    } while (!bytes.empty());
    return store_->put(name, sealed, condition);
}

object_result<std::vector<std::optional<object_info>>> encrypted_objects::stat(
    std::span<const std::string> names) {
    auto found = store_->stat(names);
    if (!found) return found;
    for (std::optional<object_info>& each : *found)
        // An object that cannot be an encrypted one keeps its size; get() refuses it.
        if (each) each->bytes = decrypted_bytes(each->bytes).value_or(each->bytes);
    return found;
}

object_result<object_page> encrypted_objects::list(const std::string& prefix,
                                                   const std::string& from, std::size_t count_max) {
    auto page = store_->list(prefix, from, count_max);
    if (!page) return page;
    for (listed_object& each : page->objects)
        // As in stat().
        each.bytes = decrypted_bytes(each.bytes).value_or(each.bytes);
    return page;
}

}  // namespace

bool is_encrypted_object(std::string_view bytes) { return decode_cipher_header(bytes).has_value(); }

std::unique_ptr<object_store> make_encrypted_objects(std::unique_ptr<object_store> store,
                                                     object_keys keys) {
    return std::make_unique<encrypted_objects>(std::move(store), std::move(keys));
}

object_result<std::unique_ptr<object_store>> encrypted_with(std::unique_ptr<object_store> store,
                                                            file_system& files,
                                                            const std::string& key_file) {
    if (key_file.empty()) return store;
    auto keys = read_object_keys(files, key_file);
    if (!keys) return keys.error();
    return make_encrypted_objects(std::move(store), std::move(*keys));
}

}  // namespace semantic::storage
