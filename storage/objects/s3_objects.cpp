// SPDX-License-Identifier: Apache-2.0
#include "storage/objects/s3_objects.hpp"

#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <ctime>
#include <mutex>
#include <random>

#include "storage/files/parallel.hpp"
#include "storage/objects/random_id.hpp"
#include "storage/objects/s3_xml.hpp"

namespace semantic::storage {

namespace {

// Headers of a response have lower-case names.
constexpr const char* sum_header = "x-amz-meta-semantic-sha256";
constexpr const char* write_header = "x-amz-meta-semantic-write";
constexpr std::uint64_t list_bytes_max = std::uint64_t{8} << 20;
constexpr std::uint64_t answer_bytes_max = std::uint64_t{1} << 20;

using steady = std::chrono::steady_clock;

/// A request as the store's methods make it.
struct s3_call {
    std::string method;
    std::string key;  // empty: the bucket itself
    name_values query;
    name_values headers;  // beyond those of the signature
    name_values signed_headers;
    std::string_view body;
    std::uint64_t response_bytes_max = answer_bytes_max;
};

/// A call that got no response, or one that it cannot use.
struct s3_refusal {
    object_failure failure;
    bool may_succeed_later = false;
    std::chrono::seconds retry_after{0};
};

bool is_retryable_status(int status) {
    return status == 408 || status == 429 || status == 500 || status == 502 || status == 503 ||
           status == 504;
}

/// Whether an error code of S3 that comes with status 400 may pass: it is about this one
/// transmission, or about writers at the same moment.
bool is_retryable_code(const std::string& code) {
    for (const char* each :
         {"RequestTimeout", "IncompleteBody", "BadDigest", "XAmzContentSHA256Mismatch",
          "ConditionalRequestConflict", "OperationAborted", "SlowDown"})
        if (code == each) return true;
    return false;
}

/// Returns: the kind of error that a status and an error code of S3 mean.
object_errc kind_of(int status, const std::string& code) {
    if (status == 404) return code == "NoSuchBucket" ? object_errc::io : object_errc::not_found;
    if (status == 412) return object_errc::precondition_failed;
    if (status == 416) return object_errc::bad_value;
    if (status == 401 || status == 403) return object_errc::denied;
    for (const char* each : {"AuthorizationHeaderMalformed", "ExpiredToken", "InvalidToken"})
        if (code == each) return object_errc::denied;
    return object_errc::io;
}

/// Returns: what a response without success means. `request`: for the message.
s3_refusal refusal_of(const http_response& response, const std::string& request) {
    const s3_error error = parse_s3_error(response.body);
    s3_refusal refusal;
    refusal.may_succeed_later =
        is_retryable_status(response.status) || is_retryable_code(error.code);
    refusal.retry_after = response.retry_after;
    const object_errc code =
        refusal.may_succeed_later ? object_errc::unavailable : kind_of(response.status, error.code);
    std::string text = request + ": " + std::to_string(response.status);
    if (!error.code.empty()) text += " " + error.code + ": " + error.message;
    refusal.failure = {code, std::move(text)};
    return refusal;
}

std::string header_of(const http_response& response, const char* name) {
    const auto found = response.headers.find(name);
    return found == response.headers.end() ? std::string() : found->second;
}

/// Returns: the ETag without its quotes: Ceph 16 refuses an If-Match that has them, and no store
/// needs them.
std::string version_of(const http_response& response) {
    std::string tag = header_of(response, "etag");
    std::erase(tag, '"');
    return tag;
}

/// Returns: the number after the last '/' of `text` (the size in a Content-Range), or all of it as
/// a number; nothing where it is none.
std::optional<std::uint64_t> number_in(std::string_view text) {
    text.remove_prefix(text.rfind('/') + 1);
    std::uint64_t value = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || fault != std::errc{} || end != text.data() + text.size())
        return std::nullopt;
    return value;
}

class s3_objects final : public object_store {
  public:
    explicit s3_objects(const s3_options& options)
        : options_(options),
          host_(options.endpoint.substr(options.endpoint.find("://") + 3)),
          key_prefix_(options.prefix.empty() ? "" : options.prefix + "/"),
          http_(options.http) {}

    object_result<object_info> get(const std::string& name, std::string& bytes) override;
    object_result<object_info> get_range(const std::string& name, std::uint64_t offset,
                                         std::span<std::byte> target) override;
    object_result<std::string> put(const std::string& name, std::string_view bytes,
                                   const put_condition& condition) override;
    object_result<std::vector<std::optional<object_info>>> stat(
        std::span<const std::string> names) override;
    object_result<void> remove(const std::string& name) override;
    object_result<object_page> list(const std::string& prefix, const std::string& from,
                                    std::size_t count_max) override;

  private:
    using outcome = boost::system::result<http_response, s3_refusal>;
    /// Checks a response whose status says success. Returns: what is wrong with it, if anything.
    using response_check = std::function<std::optional<object_failure>(const http_response&)>;
    /// Looks at a refusal first. Returns: the outcome of the call, where the refusal decides it;
    /// nothing where it is to be treated as any other.
    using refusal_check =
        std::function<std::optional<object_result<http_response>>(const s3_refusal&)>;

    std::string what_of(const s3_call& call) const {
        return call.method + " " + options_.endpoint + "/" + options_.bucket + "/" + call.key;
    }
    http_request signed_request(const s3_call& call) const;
    outcome try_once(const s3_call& call, const response_check& check);
    object_result<http_response> perform(const s3_call& call, const response_check& check = {},
                                         const refusal_check& refused = {});
    bool wait(std::chrono::milliseconds time);
    object_result<http_response> head(const std::string& name);
    std::optional<object_result<http_response>> settle_put(const std::string& name,
                                                           const std::string& id,
                                                           const put_condition& condition,
                                                           const s3_refusal& refusal);

    const s3_options options_;
    const std::string host_;
    const std::string key_prefix_;
    http_client http_;
    file_workers workers_;
};

/// Returns: the HTTP request of a call, with all headers and its signature, which holds from now.
http_request s3_objects::signed_request(const s3_call& call) const {
    s3_signed_request to_sign;
    to_sign.method = call.method;
    to_sign.path = "/" + percent_encode(options_.bucket, false);
    if (!call.key.empty()) to_sign.path += "/" + percent_encode(call.key, true);
    to_sign.query = call.query;
    to_sign.payload_sha256 = sha256_hex(call.body);
    to_sign.headers = call.signed_headers;
    const std::string date = amz_date(static_cast<std::int64_t>(std::time(nullptr)));
    to_sign.headers.emplace_back("host", host_);
    to_sign.headers.emplace_back("x-amz-content-sha256", to_sign.payload_sha256);
    to_sign.headers.emplace_back("x-amz-date", date);
    if (!options_.credentials.session_token.empty())
        to_sign.headers.emplace_back("x-amz-security-token", options_.credentials.session_token);
    http_request request;
    request.method = call.method;
    request.url = options_.endpoint + to_sign.path;
    if (!call.query.empty()) request.url += "?" + canonical_query(call.query);
    request.headers = to_sign.headers;
    request.headers.insert(request.headers.end(), call.headers.begin(), call.headers.end());
    request.headers.emplace_back(
        "authorization", s3_authorization(to_sign, options_.credentials, options_.region, date));
    request.body = call.body;
    request.response_bytes_max = call.response_bytes_max;
    return request;
}

/// Blocks. Performs a call once. A response that `check` finds corrupt may be right at the next
/// try.
s3_objects::outcome s3_objects::try_once(const s3_call& call, const response_check& check) {
    auto response = http_.exchange(signed_request(call));
    if (!response) {
        const http_failure& f = response.error();
        const auto code = f.may_succeed_later ? object_errc::unavailable : object_errc::io;
        return s3_refusal{{code, what_of(call) + ": " + f.message}, f.may_succeed_later};
    }
    if (response->status < 200 || response->status > 299)
        return refusal_of(*response, what_of(call));
    if (check)
        if (auto wrong = check(*response)) {
            const bool may_be_better = wrong->code == object_errc::corrupt;
            return s3_refusal{std::move(*wrong), may_be_better};
        }
    return std::move(*response);
}

/// Sleeps for `time`. Returns: false when the program is being stopped, which ends the sleep.
bool s3_objects::wait(std::chrono::milliseconds time) {
    std::mutex mutex;
    std::condition_variable_any never;
    std::unique_lock lock(mutex);
    never.wait_for(lock, options_.http.stop, time, [] { return false; });
    return !options_.http.stop.stop_requested();
}

/// Blocks. Performs a call, again and again with growing pauses while its faults may pass
/// (backoff_options). Errors: the last refusal; unavailable when the program is being stopped.
object_result<http_response> s3_objects::perform(const s3_call& call, const response_check& check,
                                                 const refusal_check& refused) {
    const auto begin = steady::now();
    backoff tries(options_.retries, std::random_device{}());
    for (;;) {
        outcome one = try_once(call, check);
        if (one) return std::move(*one);
        s3_refusal refusal = one.error();
        if (refused)
            if (auto settled = refused(refusal)) return std::move(*settled);
        if (!refusal.may_succeed_later) return std::move(refusal.failure);
        const auto elapsed =
            std::chrono::duration_cast<std::chrono::milliseconds>(steady::now() - begin);
        const auto delay = tries.next(elapsed, refusal.retry_after);
        if (!delay) {
            refusal.failure.what += " (" + std::to_string(tries.attempts()) + " tries)";
            return std::move(refusal.failure);
        }
        if (!wait(*delay))
            return object_failure{object_errc::unavailable,
                                  what_of(call) + ": the program is being stopped"};
    }
}

object_result<object_info> s3_objects::get(const std::string& name, std::string& bytes) {
    bytes.clear();
    if (auto ok = check_object_name(name); !ok) return ok.error();
    s3_call call{"GET", key_prefix_ + name, {}, {}, {}, {}, object_bytes_max};
    const auto is_as_written = [&](const http_response& response) -> std::optional<object_failure> {
        const std::string sum = header_of(response, sum_header);
        if (sum.empty())
            return object_failure{object_errc::io,
                                  what_of(call) + ": the object was not written by this program"};
        if (sum == sha256_hex(response.body)) return std::nullopt;
        return object_failure{object_errc::corrupt,
                              what_of(call) + ": its bytes contradict their checksum"};
    };
    auto response = perform(call, is_as_written);
    if (!response) return response.error();
    bytes = std::move(response->body);
    return object_info{bytes.size(), version_of(*response)};
}

object_result<object_info> s3_objects::get_range(const std::string& name, std::uint64_t offset,
                                                 std::span<std::byte> target) {
    if (auto ok = check_object_name(name); !ok) return ok.error();
    const auto wrong_range = [&](std::uint64_t bytes) {
        return object_failure{object_errc::bad_value, name + " has " + std::to_string(bytes) +
                                                          " bytes, not " +
                                                          std::to_string(target.size()) + " from " +
                                                          std::to_string(offset)};
    };
    if (target.empty() || offset > object_bytes_max || target.size() > object_bytes_max)
        // 0: nobody has asked how many bytes the object has.
        return wrong_range(0);
    const std::string last = std::to_string(offset + target.size() - 1);
    s3_call call{"GET", key_prefix_ + name, {}, {}, {}, {}, target.size()};
    call.response_bytes_max = std::max<std::uint64_t>(target.size(), answer_bytes_max);
    call.headers.emplace_back("range", "bytes=" + std::to_string(offset) + "-" + last);
    auto response = perform(call);
    if (!response) return response.error();
    const std::string range = header_of(*response, "content-range");
    const auto total = number_in(range);
    if (response->status != 206 || !total ||
        !range.starts_with("bytes " + std::to_string(offset) + "-"))
        return object_failure{object_errc::io, what_of(call) + ": the store knows no ranges"};
    if (offset + target.size() > *total) return wrong_range(*total);
    if (response->body.size() != target.size())
        return object_failure{object_errc::corrupt, what_of(call) + ": not the bytes asked for"};
    std::copy_n(reinterpret_cast<const std::byte*>(response->body.data()), target.size(),
                target.begin());
    return object_info{*total, version_of(*response)};
}

/// Blocks. Asks for an object's headers only. Errors: those of perform().
object_result<http_response> s3_objects::head(const std::string& name) {
    return perform({"HEAD", key_prefix_ + name, {}, {}, {}, {}});
}

/// Finds out whether a write that was refused on its condition did happen: an earlier try of the
/// same write (or libcurl, which repeats a request when a kept connection dies) may have succeeded
/// and its answer was lost. Such an object has this write's `id`. Returns: the outcome of the
/// write; nothing where `refusal` has another cause.
std::optional<object_result<http_response>> s3_objects::settle_put(const std::string& name,
                                                                   const std::string& id,
                                                                   const put_condition& condition,
                                                                   const s3_refusal& refusal) {
    const object_errc code = refusal.failure.code;
    const bool is_gone =
        code == object_errc::not_found && condition.when == put_condition::kind::if_version;
    if (code != object_errc::precondition_failed && !is_gone) return std::nullopt;
    auto there = head(name);
    if (there && header_of(*there, write_header) == id) return there;
    if (!there && there.error().code != object_errc::not_found) return there;
    return object_failure{object_errc::precondition_failed, refusal.failure.what};
}

object_result<std::string> s3_objects::put(const std::string& name, std::string_view bytes,
                                           const put_condition& condition) {
    if (auto ok = check_object_name(name); !ok) return ok.error();
    if (bytes.size() > object_bytes_max)
        return object_failure{object_errc::bad_value,
                              name + " would have " + std::to_string(bytes.size()) + " bytes"};
    const std::string id = random_id();
    s3_call call{"PUT", key_prefix_ + name, {}, {}, {}, bytes};
    call.signed_headers = {{sum_header, sha256_hex(bytes)}, {write_header, id}};
    if (condition.when == put_condition::kind::if_absent)
        call.headers.emplace_back("if-none-match", "*");
    // A header without a value would not be sent, and the write not be conditional.
    if (condition.when == put_condition::kind::if_version && condition.version.empty())
        return object_failure{object_errc::bad_value, name + ": no version to put it over"};
    if (condition.when == put_condition::kind::if_version)
        call.headers.emplace_back("if-match", condition.version);
    const auto refused = [&](const s3_refusal& refusal) {
        return settle_put(name, id, condition, refusal);
    };
    auto response = perform(call, {}, refused);
    if (!response) return response.error();
    std::string version = version_of(*response);
    if (version.empty())
        return object_failure{object_errc::io, what_of(call) + ": the store names no ETag"};
    return version;
}

object_result<std::vector<std::optional<object_info>>> s3_objects::stat(
    std::span<const std::string> names) {
    std::vector<object_result<http_response>> heads(names.size(),
                                                    object_failure{object_errc::io, "not asked"});
    for (const std::string& name : names)
        if (auto ok = check_object_name(name); !ok) return ok.error();
    // S3 has no request for several, so each name takes one; they run at once.
    workers_.run(names.size(), [&](std::size_t i) { heads[i] = head(names[i]); });
    std::vector<std::optional<object_info>> infos;
    for (std::size_t i = 0; i < names.size(); ++i) {
        if (!heads[i] && heads[i].error().code == object_errc::not_found) {
            infos.emplace_back(std::nullopt);
            continue;
        }
        if (!heads[i]) return heads[i].error();
        const auto bytes = number_in(header_of(*heads[i], "content-length"));
        if (!bytes)
            return object_failure{object_errc::io, names[i] + ": the store names no length"};
        infos.emplace_back(object_info{*bytes, version_of(*heads[i])});
    }
    return infos;
}

object_result<void> s3_objects::remove(const std::string& name) {
    if (auto ok = check_object_name(name); !ok) return ok;
    auto response = perform({"DELETE", key_prefix_ + name, {}, {}, {}, {}});
    if (!response && response.error().code != object_errc::not_found) return response.error();
    return {};
}

object_result<object_page> s3_objects::list(const std::string& prefix, const std::string& from,
                                            std::size_t count_max) {
    if (!is_object_name_text(prefix) || count_max == 0 || count_max > object_page_max)
        return object_failure{object_errc::bad_value,
                              "a list takes the beginning of names and 1 to " +
                                  std::to_string(object_page_max) + " objects a page"};
    s3_call call{"GET", "", {}, {}, {}, {}, list_bytes_max};
    call.query = {{"list-type", "2"},
                  {"encoding-type", "url"},
                  {"max-keys", std::to_string(count_max)},
                  {"prefix", key_prefix_ + prefix}};
    if (!from.empty()) call.query.emplace_back("continuation-token", from);
    object_result<object_page> page = object_page{};
    const auto is_whole = [&](const http_response& response) -> std::optional<object_failure> {
        page = parse_s3_list(response.body, key_prefix_);
        if (page && !from.empty() && page->next == from)
            page = object_failure{object_errc::corrupt, "the list does not get on"};
        if (page) return std::nullopt;
        return object_failure{page.error().code, what_of(call) + ": " + page.error().what};
    };
    auto response = perform(call, is_whole);
    if (!response) {
        if (response.error().code != object_errc::not_found) return response.error();
        // A list that is not found means the bucket, and not that an object is missing.
        return object_failure{object_errc::io, response.error().what};
    }
    return page;
}

}  // namespace

std::unique_ptr<object_store> make_s3_objects(const s3_options& options) {
    return std::make_unique<s3_objects>(options);
}

}  // namespace semantic::storage
