// SPDX-License-Identifier: Apache-2.0
#pragma once
// What can be wrong with a request, seen from the wire. Values only; protocol/wire/api_error.hpp
// turns them into replies.

#include <boost/system/result.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "engine/types/generation.hpp"
#include "storage/types/errc.hpp"

namespace semantic::protocol {

enum class errc {
    malformed_json = 1,  // the body is not one JSON value
    missing_field,       // a required field is absent
    bad_value,           // a field of the wrong type or outside its documented range
    unsupported,         // well formed, but asks for what this server does not do
    prompt_too_long,     // can never fit the context or the memory pool
    body_too_large,      // more bytes than the endpoint accepts
    unauthorized,        // no key, or a wrong one
    forbidden,           // a valid key that may not do this
    not_found,           // no such route, model, agent or session
    method_not_allowed,  // the route exists with another method
    request_timeout,     // the client did not send its request in time
    conflict,       // contradicts the present state, for example a second turn of the same agent
    rate_limited,   // too many requests from this client
    overloaded,     // the queue is full; the same request may succeed later
    cancelled,      // stopped before its end, though the client still listens
    timeout,        // the deadline passed before the answer was complete
    shutting_down,  // no new work is taken
    out_of_space,   // the disk has no room for what is to be kept
    internal,       // a fault of ours
};

/// The name of `code` as it appears in logs and metrics, for example "missing_field".
const char* to_string(errc code) noexcept;

struct failure {
    errc code;
    std::string
        message;  // one sentence for the client; begins with the JSON path where there is one
    std::string path{};  // JSON path of the field at fault ("messages.3.content"), or empty
    /// Vendor's machine-readable code ("thread_unsupported_request"), or empty.
    std::string error_code{};
    std::optional<std::chrono::seconds> retry_after{};  // where waiting cures it, if known
    std::optional<engine::prompt_excess> excess{};      // prompt_too_long: said in vendors' words
    std::string elsewhere{};  // overloaded: the URL of a server that takes the request, or empty
};

/// Returns: a failure with one sentence, and the field's path where there is one.
inline failure fail(errc code, std::string message, std::string path = {}) {
    return {code, std::move(message), std::move(path)};
}

template <class T>
using result = boost::system::result<T, failure>;

[[noreturn]] void throw_exception_from_error(const failure& f, const boost::source_location& where);

/// Returns: the failure for the client when the engine or the store refuses.
failure from_engine(const engine::failed& f);
failure from_storage(const storage::failure& f);

}  // namespace semantic::protocol
