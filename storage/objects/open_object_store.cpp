// SPDX-License-Identifier: Apache-2.0
#include "storage/objects/open_object_store.hpp"

#include <algorithm>

#include "storage/objects/directory_objects.hpp"
#include "storage/objects/s3_objects.hpp"

namespace semantic::storage {

namespace {

constexpr std::string_view forms = "dir:PATH, s3://HOST[:PORT]/BUCKET[/PREFIX] or s3+http://…";

/// Returns: the error of a URL in no known form; `why` says what is wrong.
object_failure bad_url(const std::string& why) {
    return {object_errc::bad_value,
            "an object store is named as " + std::string(forms) + ": " + why};
}

bool is_host_text(std::string_view text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '.' || c == '-' || c == ':' || c == '[' || c == ']';
    });
}

}  // namespace

object_result<object_url> parse_object_url(std::string_view url) {
    object_url parsed;
    if (url.starts_with("dir:")) {
        parsed.directory = url.substr(4);
        while (parsed.directory.size() > 1 && parsed.directory.back() == '/')
            parsed.directory.pop_back();
        if (parsed.directory.empty()) return bad_url("there is no path");
        return parsed;
    }
    const std::size_t colon = url.find("://");
    const std::string_view scheme = url.substr(0, colon);
    if (colon == std::string_view::npos || (scheme != "s3" && scheme != "s3+http"))
        return bad_url("neither dir:, s3:// nor s3+http:// stands in front");
    std::string_view rest = url.substr(colon + 3);
    while (rest.ends_with('/')) rest.remove_suffix(1);
    const std::size_t host_end = std::min(rest.find('/'), rest.size());
    const std::string_view host = rest.substr(0, host_end);
    if (host.find('@') != std::string_view::npos)
        return bad_url("credentials come from the environment or a file, not from the URL");
    if (!is_host_text(host)) return bad_url("the host is missing, or no host");
    rest.remove_prefix(std::min(host_end + 1, rest.size()));
    const std::size_t bucket_end = std::min(rest.find('/'), rest.size());
    parsed.endpoint = (scheme == "s3" ? "https://" : "http://") + std::string(host);
    parsed.bucket = rest.substr(0, bucket_end);
    parsed.prefix = rest.substr(std::min(bucket_end + 1, rest.size()));
    if (!check_object_name(parsed.bucket)) return bad_url("the bucket is missing, or no name");
    if (!parsed.prefix.empty())
        if (auto ok = check_object_name(parsed.prefix); !ok) return bad_url(ok.error().what);
    return parsed;
}

object_result<std::unique_ptr<object_store>> open_object_store(std::string_view url,
                                                               const environment& variables,
                                                               file_system& files,
                                                               std::stop_token stop,
                                                               object_patience patience) {
    auto parsed = parse_object_url(url);
    if (!parsed) return parsed.error();
    if (!parsed->directory.empty()) return open_directory_objects(files, parsed->directory);
    auto credentials = find_s3_credentials(variables, files);
    if (!credentials) return credentials.error();
    s3_options options;
    options.endpoint = parsed->endpoint;
    options.bucket = parsed->bucket;
    options.prefix = parsed->prefix;
    options.credentials = std::move(*credentials);
    // The last one that is set counts.
    for (const char* name : {"AWS_DEFAULT_REGION", "AWS_REGION"})
        if (const auto region = variables(name)) options.region = *region;
    options.http.ca_file = variables("AWS_CA_BUNDLE").value_or("");
    options.http.stop = std::move(stop);
    if (patience == object_patience::little) {
        options.retries = {.attempts_max = 3,
                           .first_max = std::chrono::milliseconds(50),
                           .wait_max = std::chrono::milliseconds(500),
                           .total_max = std::chrono::milliseconds(2'000)};
        options.http.connect_max = std::chrono::milliseconds(1'000);
        options.http.stall_max = std::chrono::seconds(3);
    }
    return make_s3_objects(options);
}

}  // namespace semantic::storage
