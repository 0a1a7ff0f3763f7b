// SPDX-License-Identifier: Apache-2.0
#include "storage/objects/encryption/object_keys.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "storage/objects/encryption/object_cipher.hpp"
#include "storage/types/hex.hpp"

namespace semantic::storage {

namespace {

constexpr std::uint64_t key_file_bytes_max = 64 * 1024;

object_failure bad_line(std::size_t number, const std::string& why) {
    return {object_errc::bad_value, "line " + std::to_string(number) + " " + why};
}

}  // namespace

object_result<object_keys> parse_object_keys(std::string_view text) {
    object_keys keys;
    for (std::size_t number = 1; !text.empty(); ++number) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        constexpr std::string_view blanks = " \t\r";
        line.remove_prefix(std::min(line.find_first_not_of(blanks), line.size()));
        line = line.substr(0, line.find_last_not_of(blanks) + 1);
        if (line.empty() || line.front() == '#') continue;
        const auto key = bytes_of_hex(line);
        if (!key || key->size() != object_key_bytes)
            return bad_line(number, "is no key of 64 hex digits, as openssl rand -hex 32 prints");
        if (std::find(keys.begin(), keys.end(), *key) != keys.end())
            return bad_line(number, "has a key that was there before");
        if (keys.size() == object_keys_max)
            return bad_line(number, "is one key more than " + std::to_string(object_keys_max));
        keys.push_back(*key);
    }
    if (keys.empty()) return object_failure{object_errc::bad_value, "there is no key"};
    return keys;
}

object_result<object_keys> read_object_keys(file_system& files, const std::string& path) {
    std::error_code unknown;  // then the file cannot be read either
    const auto allowed = std::filesystem::status(path, unknown).permissions();
    if (!unknown && allowed != std::filesystem::perms::unknown &&
        (allowed & std::filesystem::perms::others_read) != std::filesystem::perms::none)
        return object_failure{object_errc::denied, path + " may be read by anybody: chmod o-r"};
    auto text = read_whole(files, path, key_file_bytes_max);
    if (!text) return object_failure{object_errc::io, text.error().what};
    auto keys = parse_object_keys(*text);
    wipe(*text);
    if (!keys) return object_failure{keys.error().code, path + ": " + keys.error().what};
    return keys;
}

}  // namespace semantic::storage
