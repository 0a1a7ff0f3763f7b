// SPDX-License-Identifier: Apache-2.0
#include "storage/objects/hub/hub_client.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <random>
#include <stdexcept>
#include <thread>

#include "storage/files/strict_json.hpp"
#include "storage/objects/s3_signature.hpp"

namespace semantic::storage {

namespace {

namespace json = boost::json;
using steady = std::chrono::steady_clock;

constexpr int redirects_max = 5;
constexpr int pages_max = 100;
constexpr std::size_t files_max = 50'000;
constexpr std::uint64_t page_bytes_max = std::uint64_t{16} << 20;
constexpr std::uint64_t file_bytes_max = std::uint64_t{1} << 50;
constexpr std::size_t path_bytes_max = 512;
constexpr std::chrono::seconds retry_after_max{120};

bool is_hex(std::string_view text, std::size_t digits) {
    return text.size() == digits && text.find_first_not_of("0123456789abcdef") == text.npos;
}

/// Whether `path`, put after a folder, stays inside that folder.
bool is_inner_path(std::string_view path) {
    if (path.empty() || path.size() > path_bytes_max) return false;
    for (const char c : path)
        if (static_cast<unsigned char>(c) < 0x20 || c == '\\' || c == 0x7f) return false;
    for (std::size_t at = 0; at <= path.size();) {
        const std::size_t end = std::min(path.find('/', at), path.size());
        const std::string_view part = path.substr(at, end - at);
        if (part.empty() || part == "." || part == "..") return false;
        at = end + 1;
    }
    return true;
}

std::string header_of(const http_response& head, const std::string& name) {
    const auto found = head.headers.find(name);
    return found == head.headers.end() ? std::string() : found->second;
}

/// Returns: an ETag without W/ and its quotes.
std::string bare_etag(std::string text) {
    if (text.starts_with("W/")) text.erase(0, 2);
    if (text.size() >= 2 && text.front() == '"' && text.back() == '"')
        text = text.substr(1, text.size() - 2);
    return text;
}

std::optional<std::uint64_t> number_in(std::string_view text) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

/// Whether a Content-Range is that of all bytes from `from` to the end of a file with `bytes`
/// bytes, as "bytes 10-99/100".
bool is_range(std::string_view text, std::uint64_t from, std::uint64_t bytes) {
    return text == "bytes " + std::to_string(from) + "-" + std::to_string(bytes - 1) + "/" +
                       std::to_string(bytes);
}

/// Whether a request with this status may succeed later.
bool may_pass(int status) {
    return status == 408 || status == 425 || status == 429 || status >= 500;
}

/// Returns: the URL with rel="next" in a header Link; empty where there is none.
std::string next_link(const std::string& links) {
    for (std::size_t at = 0; (at = links.find('<', at)) != links.npos; ++at) {
        const std::size_t close = links.find('>', at);
        if (close == links.npos) return {};
        const std::string_view rest(links.data() + close, links.find(',', close) == links.npos
                                                              ? links.size() - close
                                                              : links.find(',', close) - close);
        if (rest.find("rel=\"next\"") != rest.npos) return links.substr(at + 1, close - at - 1);
    }
    return {};
}

hub_break broken(errc code, std::string sentence, bool may_succeed_later = false) {
    hub_break made;
    made.why = {code, std::move(sentence)};
    made.may_succeed_later = may_succeed_later;
    return made;
}

/// Returns: the error, with one sentence for the user, of a response that is neither success nor
/// redirect. `has_token`: whether the request had HF_TOKEN.
hub_break refusal(const std::string& subject, const http_response& answer, bool has_token) {
    const std::string code = header_of(answer, "x-error-code");
    const std::string status = "HTTP " + std::to_string(answer.status);
    if (code == "GatedRepo")
        return broken(errc::io, subject +
                                    ": its owner gives access on request (gated): ask for it on "
                                    "the hub's page and set HF_TOKEN to a token of that account");
    if (code == "RepoNotFound" || answer.status == 401 || answer.status == 403)
        return broken(errc::not_found,
                      subject + ": there is no such repository on the hub, or " +
                          (has_token ? "the account of HF_TOKEN may not read it ("
                                     : "it is not public and HF_TOKEN is not set (") +
                          status + ")");
    if (answer.status == 404)
        return broken(errc::not_found, subject + ": the hub does not have it (" + status +
                                           (code.empty() ? "" : ", " + code) + ")");
    hub_break made = broken(
        errc::io, subject + ": the hub answers " + status + (code.empty() ? "" : ", " + code),
        may_pass(answer.status));
    made.retry_after = std::min(answer.retry_after, retry_after_max);
    return made;
}

/// Returns: one entry of the hub's list of files. Errors: io where path, size or digest are
/// impossible.
result<hub_file> file_of(const json::object& entry) {
    const auto text = [](const json::object& holder, const char* key) -> std::string {
        const json::value* found = holder.if_contains(key);
        if (found == nullptr || !found->is_string()) return {};
        return {found->get_string().data(), found->get_string().size()};
    };
    hub_file made;
    made.path = text(entry, "path");
    if (!is_inner_path(made.path))
        return failure{errc::io, "the hub lists a file whose path is none"};
    const json::value* lfs = entry.if_contains("lfs");
    made.is_large = lfs != nullptr && lfs->is_object();
    const json::object& described = made.is_large ? lfs->get_object() : entry;
    made.digest = text(described, "oid");
    const json::value* size = described.if_contains("size");
    boost::system::error_code ec;
    if (size != nullptr) made.bytes = size->to_number<std::uint64_t>(ec);
    if (size == nullptr || ec || made.bytes > file_bytes_max)
        return failure{errc::io, "the hub lists " + made.path + " without a size that can be one"};
    if (!is_hex(made.digest, made.is_large ? 64 : 40))
        return failure{errc::io,
                       "the hub lists " + made.path + " without a digest that can be one"};
    return made;
}

}  // namespace

void throw_exception_from_error(const hub_break& f, const boost::source_location&) {
    throw std::runtime_error(f.why.what);
}

bool is_hub_repository(std::string_view name) {
    const std::size_t slash = name.find('/');
    for (const std::string_view part :
         // A name without a slash, which old repositories have, is looked at twice.
         {name.substr(0, slash), slash == name.npos ? name : name.substr(slash + 1)}) {
        if (part.empty() || part.size() > 96 || part.front() == '.' || part.front() == '-' ||
            part.find("--") != part.npos || part.find("..") != part.npos)
            return false;
        for (const char c : part)
            if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '_' &&
                c != '.')
                return false;
    }
    return true;
}

hub_client::hub_client(hub_options options)
    : options_(std::move(options)), api_(options_.http), contents_([&] {
          http_options unbounded = options_.http;
          unbounded.total_max = std::chrono::milliseconds(0);  // large files: only a stall ends it
          return unbounded;
      }()) {}

/// Whether the token may be sent to this URL: to the endpoint's own origin only, and only encrypted
/// or within this machine.
bool hub_client::may_have_token(const std::string& url) const {
    const std::string origin = url_origin(url);
    if (options_.token.empty() || origin != url_origin(options_.endpoint)) return false;
    return origin.starts_with("https://") || origin.starts_with("http://127.0.0.1:") ||
           origin.starts_with("http://localhost:") || origin.starts_with("http://[::1]:");
}

/// Blocks. Sends one request and follows redirects. `file`: the file whose contents are asked for,
/// of `commit`, against which the hub's headers are compared; null for a question. `subject`: for
/// messages.
boost::system::result<http_response, hub_break> hub_client::ask(const std::string& url,
                                                                const std::string& subject,
                                                                const http_request& request,
                                                                const hub_file* file,
                                                                const std::string& commit) const {
    http_client& client = file == nullptr ? api_ : contents_;
    http_request next = request;
    next.url = url;
    for (int hops = 0; hops <= redirects_max; ++hops) {
        next.headers = request.headers;
        next.headers.emplace_back("User-Agent", "semantic");
        next.headers.emplace_back("Accept-Encoding", "identity");
        const bool has_token = may_have_token(next.url);
        if (has_token) next.headers.emplace_back("Authorization", "Bearer " + options_.token);
        auto answer = client.exchange(next);
        if (!answer)
            return broken(errc::io,
                          subject + ": " + url_origin(next.url) + ": " + answer.error().message,
                          answer.error().may_succeed_later);
        // The hub itself describes the file in headers before it redirects to a content server.
        if (file != nullptr && url_origin(next.url) == url_origin(options_.endpoint)) {
            const std::string said = header_of(*answer, "x-repo-commit");
            if (!said.empty() && said != commit)
                return broken(errc::io, subject + ": the hub answers for commit " + said +
                                            " and was asked for " + commit);
            const std::string etag = bare_etag(header_of(*answer, "x-linked-etag"));
            if (!etag.empty() && etag != file->digest)
                return broken(errc::io, subject + ": the hub lists it with digest " + file->digest +
                                            " and sends it with " + etag);
            const auto bytes = number_in(header_of(*answer, "x-linked-size"));
            if (bytes && *bytes != file->bytes)
                return broken(errc::io, subject + ": the hub lists it with " +
                                            std::to_string(file->bytes) +
                                            " bytes and sends it with " + std::to_string(*bytes));
        }
        const int status = answer->status;
        if (status == 200 || status == 206) return std::move(*answer);
        if (status < 300 || status > 399 || status == 304)
            return refusal(subject, *answer, has_token);
        const std::string location = header_of(*answer, "location");
        const std::string to = location.empty() ? location : absolute_url(next.url, location);
        if (to.empty())
            return broken(errc::io,
                          subject + ": the hub sends elsewhere, and not to a web address");
        if (url_origin(next.url).starts_with("https://") && !to.starts_with("https://"))
            return broken(errc::io,
                          subject + ": the hub sends to an address that is not encrypted");
        next.url = to;
    }
    return broken(errc::io, subject + ": the hub sends elsewhere more than " +
                                std::to_string(redirects_max) + " times");
}

/// Blocks. Asks the hub's API, again and again while its faults may pass.
result<http_response> hub_client::question(const std::string& url,
                                           const std::string& subject) const {
    http_request request;
    request.method = "GET";
    request.response_bytes_max = page_bytes_max;
    backoff wait(options_.retries, std::random_device{}());
    const auto begin = steady::now();
    for (;;) {
        auto answer = ask(url, subject, request, nullptr, {});
        if (answer) return std::move(*answer);
        if (!answer.error().may_succeed_later) return answer.error().why;
        const auto elapsed =
            std::chrono::duration_cast<std::chrono::milliseconds>(steady::now() - begin);
        const auto pause = wait.next(elapsed, answer.error().retry_after);
        if (!pause || options_.http.stop.stop_requested()) {
            failure why = answer.error().why;
            why.what += " (" + std::to_string(wait.attempts()) + " tries)";
            return why;
        }
        std::this_thread::sleep_for(*pause);
    }
}

/// Blocks. Returns: the commit that a revision (a branch or tag) names now.
result<std::string> hub_client::commit_of(const std::string& repository,
                                          const std::string& revision) const {
    const auto answer = question(options_.endpoint + "/api/models/" + repository + "/revision/" +
                                     percent_encode(revision, false),
                                 repository);
    if (!answer) return answer.error();
    const auto parsed = parse_strict_json(answer->body);
    const json::value* sha =
        parsed && parsed->is_object() ? parsed->get_object().if_contains("sha") : nullptr;
    if (sha == nullptr || !sha->is_string() || !is_hex(sha->get_string(), 40))
        return failure{errc::io, repository + ": the hub does not say which commit it has"};
    return std::string(sha->get_string());
}

result<hub_listing> hub_client::list(const std::string& repository,
                                     const std::string& revision) const {
    if (!is_hub_repository(repository))
        return failure{errc::bad_value, "\"" + repository + "\" is no ORG/NAME of a hub"};
    auto commit = commit_of(repository, revision);
    if (!commit) return commit.error();
    hub_listing made{std::move(*commit), {}};
    std::string url = options_.endpoint + "/api/models/" + repository + "/tree/" + made.commit +
                      "?recursive=true&expand=false";
    for (int pages = 0; !url.empty(); ++pages) {
        if (pages == pages_max || made.files.size() > files_max)
            return failure{errc::io, repository + ": the hub lists more than " +
                                         std::to_string(files_max) + " files"};
        const auto answer = question(url, repository);
        if (!answer) return answer.error();
        const auto parsed = parse_strict_json(answer->body);
        if (!parsed || !parsed->is_array())
            return failure{errc::io, repository + ": what the hub lists is no JSON list" +
                                         (parsed ? "" : ": " + parsed.error().what)};
        for (const json::value& entry : parsed->get_array()) {
            const json::value* type =
                entry.is_object() ? entry.get_object().if_contains("type") : nullptr;
            if (type == nullptr || *type != "file") continue;
            auto file = file_of(entry.get_object());
            if (!file) return failure{file.error().code, repository + ": " + file.error().what};
            made.files.push_back(std::move(*file));
        }
        const std::string link = next_link(header_of(*answer, "link"));
        url = link.empty() ? std::string() : absolute_url(url, link);
        if (!url.empty() && url_origin(url) != url_origin(options_.endpoint))
            return failure{errc::io, repository + ": the hub's list goes on elsewhere"};
    }
    return made;
}

boost::system::result<void, hub_break> hub_client::read(const std::string& repository,
                                                        const std::string& commit,
                                                        const hub_file& file, std::uint64_t from,
                                                        const receiver& receive) const {
    const std::string subject = repository + ": " + file.path;
    std::uint64_t position = from;
    bool has_begun = false;
    std::string wrong;
    http_request request;
    request.method = "GET";
    if (from > 0) request.headers.emplace_back("Range", "bytes=" + std::to_string(from) + "-");
    request.receive = [&](const http_response& head, std::string_view bytes) {
        if (!has_begun && head.status == 200) position = 0;  // a whole file: the range was ignored
        if (!has_begun && head.status == 206 &&
            !is_range(header_of(head, "content-range"), from, file.bytes)) {
            wrong = "the hub sends other bytes than were asked for";
            return false;
        }
        has_begun = true;
        if (bytes.size() > file.bytes - position) {
            wrong = "the hub sends more than its " + std::to_string(file.bytes) + " bytes";
            return false;
        }
        if (!receive(position, bytes)) return false;
        position += bytes.size();
        return true;
    };
    const auto answer = ask(options_.endpoint + "/" + repository + "/resolve/" + commit + "/" +
                                percent_encode(file.path, true),
                            subject, request, &file, commit);
    // Before `answer`, which then only says that the bytes were refused.
    if (!wrong.empty()) return broken(errc::io, subject + ": " + wrong, true);
    if (!answer) return answer.error();
    if (position != file.bytes)
        return broken(errc::io,
                      subject + ": the hub ends it after " + std::to_string(position) + " of " +
                          std::to_string(file.bytes) + " bytes",
                      true);
    return {};
}

}  // namespace semantic::storage
