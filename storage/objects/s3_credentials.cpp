// SPDX-License-Identifier: Apache-2.0
#include "storage/objects/s3_credentials.hpp"

#include <cstdlib>
#include <map>

namespace semantic::storage {

namespace {

std::string_view trimmed(std::string_view text) {
    constexpr std::string_view blanks = " \t\r";
    const std::size_t begin = text.find_first_not_of(blanks);
    if (begin == std::string_view::npos) return {};
    return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

object_failure missing(std::string message) { return {object_errc::denied, std::move(message)}; }

}  // namespace

std::optional<std::string> process_environment(const char* name) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') return std::nullopt;
    return value;
}

object_result<s3_credentials> parse_s3_credentials(std::string_view text,
                                                   std::string_view profile) {
    std::map<std::string_view, std::string_view> found;
    bool is_there = false, is_inside = false;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        const std::string_view line = trimmed(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
        if (line.empty() || line.front() == '#' || line.front() == ';') continue;
        if (line.front() == '[' && line.back() == ']') {
            is_inside = trimmed(line.substr(1, line.size() - 2)) == profile;
            is_there = is_there || is_inside;
            continue;
        }
        const std::size_t equals = line.find('=');
        if (is_inside && equals != std::string_view::npos)
            found[trimmed(line.substr(0, equals))] = trimmed(line.substr(equals + 1));
    }
    const std::string section = "section [" + std::string(profile) + "]";
    if (!is_there) return missing("there is no " + section);
    for (std::string_view key : {"aws_access_key_id", "aws_secret_access_key"})
        if (found[key].empty()) return missing(section + " has no " + std::string(key));
    return s3_credentials{std::string(found["aws_access_key_id"]),
                          std::string(found["aws_secret_access_key"]),
                          std::string(found["aws_session_token"])};
}

object_result<s3_credentials> find_s3_credentials(const environment& variables,
                                                  file_system& files) {
    if (const auto key = variables("AWS_ACCESS_KEY_ID")) {
        const auto secret = variables("AWS_SECRET_ACCESS_KEY");
        if (!secret) return missing("AWS_ACCESS_KEY_ID is set, and AWS_SECRET_ACCESS_KEY is not");
        return s3_credentials{*key, *secret, variables("AWS_SESSION_TOKEN").value_or("")};
    }
    std::string path;
    if (const auto named = variables("AWS_SHARED_CREDENTIALS_FILE"))
        path = *named;
    else if (const auto home = variables("HOME"))
        path = *home + "/.aws/credentials";
    else
        return missing("neither AWS_ACCESS_KEY_ID nor AWS_SHARED_CREDENTIALS_FILE is set");
    const auto text = read_whole(files, path, credentials_file_bytes_max);
    if (!text && text.error().code == errc::not_found)
        return missing("AWS_ACCESS_KEY_ID is not set, and there is no file " + path);
    if (!text) return object_failure{object_errc::io, text.error().what};
    auto found = parse_s3_credentials(*text, variables("AWS_PROFILE").value_or("default"));
    if (!found) return missing(path + ": " + found.error().what);
    return found;
}

}  // namespace semantic::storage
