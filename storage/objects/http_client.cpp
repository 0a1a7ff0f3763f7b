// SPDX-License-Identifier: Apache-2.0
#include "storage/objects/http_client.hpp"

#include <curl/curl.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <stdexcept>

#include "storage/types/assert.hpp"

namespace semantic::storage {

namespace {

struct close_handle {
    void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
};
using easy_handle = std::unique_ptr<CURL, close_handle>;

struct free_list {
    void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using header_list = std::unique_ptr<curl_slist, free_list>;

/// One request under way, as libcurl's callbacks see it.
struct transfer {
    const http_request& request;
    const std::stop_token& stop;
    http_response response;
    // Bytes of the request's body that libcurl has taken. The two flags say why take_body() ended
    // the transfer.
    std::size_t sent = 0;
    bool is_too_large = false;
    bool is_refused = false;
};

/// libcurl's callback for bytes of the response body: passes them to `receive` or appends them.
/// Returns: `count`; anything else ends the transfer.
std::size_t take_body(char* bytes, std::size_t, std::size_t count, void* at) {
    auto& one = *static_cast<transfer*>(at);
    // The body of any other status is a message about an error, which is kept for the caller.
    if (one.request.receive && (one.response.status == 200 || one.response.status == 206)) {
        one.is_refused = !one.request.receive(one.response, std::string_view(bytes, count));
        return one.is_refused ? 0 : count;
    }
    if (count > one.request.response_bytes_max - one.response.body.size()) {
        one.is_too_large = true;
        return 0;  // which ends the transfer
    }
    one.response.body.append(bytes, count);
    return count;
}

/// libcurl's callback for the next bytes of the request body.
std::size_t give_body(char* buffer, std::size_t, std::size_t count, void* at) {
    auto& one = *static_cast<transfer*>(at);
    const std::string_view more = one.request.body.substr(one.sent, count);
    if (!more.empty()) std::memcpy(buffer, more.data(), more.size());
    one.sent += more.size();
    return more.size();
}

/// libcurl's callback to send the body again from `offset`, as when a kept connection turns out to
/// be closed.
int seek_body(void* at, curl_off_t offset, int origin) {
    auto& one = *static_cast<transfer*>(at);
    if (origin != SEEK_SET || offset < 0) return CURL_SEEKFUNC_CANTSEEK;
    one.sent = std::min(static_cast<std::size_t>(offset), one.request.body.size());
    return CURL_SEEKFUNC_OK;
}

/// libcurl's callback for one line of the response header.
std::size_t take_header(char* bytes, std::size_t, std::size_t count, void* at) {
    auto& one = *static_cast<transfer*>(at);
    std::string_view line(bytes, count);
    if (line.starts_with("HTTP/")) {
        one.response.headers.clear();  // those of an interim response (1xx) do not count
        const std::size_t space = line.find(' ');
        one.response.status = space == line.npos ? 0 : std::atoi(line.data() + space);
    }
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) return count;
    std::string name(line.substr(0, colon));
    for (char& each : name)
        if (each >= 'A' && each <= 'Z') each = static_cast<char>(each | 0x20);
    std::string_view value = line.substr(colon + 1);
    while (!value.empty() && std::strchr(" \t\r\n", value.front())) value.remove_prefix(1);
    while (!value.empty() && std::strchr(" \t\r\n", value.back())) value.remove_suffix(1);
    one.response.headers[std::move(name)] = value;
    return count;
}

/// libcurl's callback for progress: not 0 ends the transfer, because the program is being stopped.
int watch(void* at, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    return static_cast<transfer*>(at)->stop.stop_requested() ? 1 : 0;
}

template <class Value>
void set(CURL* handle, CURLoption option, Value value) {
    const CURLcode code = curl_easy_setopt(handle, option, value);
    ASSERT(code == CURLE_OK);
}

/// Sets the time limits. A transfer that stays below 1000 bytes a second for stall_max is ended.
void set_limits(CURL* handle, const http_options& options) {
    set(handle, CURLOPT_NOSIGNAL, 1L);
    set(handle, CURLOPT_PROTOCOLS_STR, "http,https");
    set(handle, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    set(handle, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options.connect_max.count()));
    set(handle, CURLOPT_TIMEOUT_MS, static_cast<long>(options.total_max.count()));
    set(handle, CURLOPT_LOW_SPEED_LIMIT, 1000L);
    set(handle, CURLOPT_LOW_SPEED_TIME, static_cast<long>(options.stall_max.count()));
    set(handle, CURLOPT_BUFFERSIZE, 256L * 1024);
    set(handle, CURLOPT_UPLOAD_BUFFERSIZE, 256L * 1024);
    if (!options.ca_file.empty()) set(handle, CURLOPT_CAINFO, options.ca_file.c_str());
}

/// Has curl call the functions above with this transfer.
void set_callbacks(CURL* handle, transfer& one) {
    set(handle, CURLOPT_WRITEFUNCTION, take_body);
    set(handle, CURLOPT_WRITEDATA, static_cast<void*>(&one));
    set(handle, CURLOPT_HEADERFUNCTION, take_header);
    set(handle, CURLOPT_HEADERDATA, static_cast<void*>(&one));
    set(handle, CURLOPT_XFERINFOFUNCTION, watch);
    set(handle, CURLOPT_XFERINFODATA, static_cast<void*>(&one));
    set(handle, CURLOPT_NOPROGRESS, 0L);
}

/// Sets the request's method, and where curl reads the body of a PUT.
void set_method(CURL* handle, transfer& one) {
    const std::string& method = one.request.method;
    if (method == "HEAD") {
        set(handle, CURLOPT_NOBODY, 1L);
    } else if (method == "PUT") {
        set(handle, CURLOPT_UPLOAD, 1L);
        set(handle, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(one.request.body.size()));
        set(handle, CURLOPT_READFUNCTION, give_body);
        set(handle, CURLOPT_READDATA, static_cast<void*>(&one));
        set(handle, CURLOPT_SEEKFUNCTION, seek_body);
        set(handle, CURLOPT_SEEKDATA, static_cast<void*>(&one));
    } else if (method != "GET") {
        set(handle, CURLOPT_CUSTOMREQUEST, method.c_str());
    }
}

/// Returns: the headers of a request, in libcurl's form.
header_list headers_of(const http_request& request) {
    header_list list;
    const auto add = [&](const std::string& line) {
        curl_slist* longer = curl_slist_append(list.get(), line.c_str());
        ASSERT(longer != nullptr);
        (void)list.release();
        list.reset(longer);
    };
    // An empty "Expect" keeps libcurl from waiting for "100 Continue": a store that sends none
    // would cost a second.
    add("Expect:");
    for (const auto& [name, value] : request.headers) add(name + ": " + value);
    return list;
}

struct close_url {
    void operator()(CURLU* url) const { curl_url_cleanup(url); }
};
using url_handle = std::unique_ptr<CURLU, close_url>;

/// Returns: a part of a URL, a missing port as its scheme's default; empty where there is none.
std::string part_of(CURLU* url, CURLUPart part) {
    char* text = nullptr;
    const unsigned flags = part == CURLUPART_PORT ? CURLU_DEFAULT_PORT : 0;
    if (curl_url_get(url, part, &text, flags) != CURLUE_OK) return {};
    std::string copy(text);
    curl_free(text);
    return copy;
}

/// Whether the fault stays when the request is tried again.
bool is_lasting(CURLcode code) {
    return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE ||
           code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL;
}

}  // namespace

std::string absolute_url(const std::string& base, const std::string& reference) {
    const url_handle url(curl_url());
    if (curl_url_set(url.get(), CURLUPART_URL, base.c_str(), 0) != CURLUE_OK) return {};
    if (curl_url_set(url.get(), CURLUPART_URL, reference.c_str(), 0) != CURLUE_OK) return {};
    const std::string scheme = part_of(url.get(), CURLUPART_SCHEME);
    if (scheme != "http" && scheme != "https") return {};
    return part_of(url.get(), CURLUPART_URL);
}

std::string url_origin(const std::string& text) {
    const url_handle url(curl_url());
    if (curl_url_set(url.get(), CURLUPART_URL, text.c_str(), 0) != CURLUE_OK) return {};
    std::string host = part_of(url.get(), CURLUPART_HOST);
    for (char& each : host)
        if (each >= 'A' && each <= 'Z') each = static_cast<char>(each | 0x20);
    return part_of(url.get(), CURLUPART_SCHEME) + "://" + host + ":" +
           part_of(url.get(), CURLUPART_PORT);
}

void throw_exception_from_error(const http_failure& f, const boost::source_location&) {
    throw std::runtime_error(f.message);
}

struct http_client::handles {
    std::mutex mutex;
    std::vector<easy_handle> idle;  // guarded by the mutex; each keeps its connection

    /// Returns: a handle of the idle ones, with its open connection, or a new one.
    easy_handle take() {
        {
            std::lock_guard lock(mutex);
            if (!idle.empty()) {
                easy_handle one = std::move(idle.back());
                idle.pop_back();
                return one;
            }
        }
        static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
        ASSERT(ready == CURLE_OK);
        easy_handle one(curl_easy_init());
        ASSERT(one != nullptr);
        return one;
    }
    void give_back(easy_handle one) {
        curl_easy_reset(one.get());  // the connection stays
        std::lock_guard lock(mutex);
        idle.push_back(std::move(one));
    }
};

http_client::http_client(const http_options& options)
    : options_(options), handles_(std::make_unique<handles>()) {}

http_client::~http_client() = default;

boost::system::result<http_response, http_failure> http_client::exchange(
    const http_request& request) {
    easy_handle handle = handles_->take();
    transfer one{request, options_.stop, {}};
    const header_list headers = headers_of(request);
    set(handle.get(), CURLOPT_URL, request.url.c_str());
    set(handle.get(), CURLOPT_HTTPHEADER, headers.get());
    set_limits(handle.get(), options_);
    set_callbacks(handle.get(), one);
    set_method(handle.get(), one);
    const CURLcode code = curl_easy_perform(handle.get());
    long status = 0;
    curl_off_t retry_after = 0;
    curl_easy_getinfo(handle.get(), CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(handle.get(), CURLINFO_RETRY_AFTER, &retry_after);
    handles_->give_back(std::move(handle));
    // First the ends that this program has asked for: libcurl has one code for all of them.
    if (one.is_too_large)
        return http_failure{false, "the answer is longer than " +
                                       std::to_string(request.response_bytes_max) + " bytes"};
    if (one.is_refused) return http_failure{false, "the answer was not wanted to its end"};
    if (code == CURLE_ABORTED_BY_CALLBACK)
        return http_failure{false, "the program is being stopped"};
    if (code != CURLE_OK) return http_failure{!is_lasting(code), curl_easy_strerror(code)};
    one.response.status = static_cast<int>(status);
    one.response.retry_after = std::chrono::seconds(std::max<curl_off_t>(retry_after, 0));
    return std::move(one.response);
}

}  // namespace semantic::storage
