// SPDX-License-Identifier: Apache-2.0
#include "protocol/wire/errc.hpp"

#include <stdexcept>

#include "protocol/wire/public_text.hpp"

namespace semantic::protocol {

const char* to_string(errc code) noexcept {
    switch (code) {
        case errc::malformed_json:
            return "malformed_json";
        case errc::missing_field:
            return "missing_field";
        case errc::bad_value:
            return "bad_value";
        case errc::unsupported:
            return "unsupported";
        case errc::prompt_too_long:
            return "prompt_too_long";
        case errc::body_too_large:
            return "body_too_large";
        case errc::unauthorized:
            return "unauthorized";
        case errc::forbidden:
            return "forbidden";
        case errc::not_found:
            return "not_found";
        case errc::method_not_allowed:
            return "method_not_allowed";
        case errc::request_timeout:
            return "request_timeout";
        case errc::conflict:
            return "conflict";
        case errc::rate_limited:
            return "rate_limited";
        case errc::overloaded:
            return "overloaded";
        case errc::cancelled:
            return "cancelled";
        case errc::timeout:
            return "timeout";
        case errc::shutting_down:
            return "shutting_down";
        case errc::out_of_space:
            return "out_of_space";
        case errc::internal:
            return "internal";
    }
    return "unknown";
}

// Boost calls it where a result's value is taken that is not there: a fault of the program.
void throw_exception_from_error(const failure& f, const boost::source_location&) {
    throw std::runtime_error(std::string(to_string(f.code)) + ": " + f.message);
}

namespace {

/// What the engine's kinds of failure are on the wire.
errc code_of(engine::failure_kind kind) {
    switch (kind) {
        case engine::failure_kind::bad_request:
            return errc::bad_value;
        case engine::failure_kind::too_large:
            return errc::prompt_too_long;
        case engine::failure_kind::overloaded:
            return errc::overloaded;
        case engine::failure_kind::internal:
            return errc::internal;
        case engine::failure_kind::shutting_down:
            return errc::shutting_down;
        case engine::failure_kind::thread_lost:
            return errc::not_found;
    }
    return errc::internal;
}

/// Faults of this server's disk are internal: the client could change nothing about them.
errc code_of(storage::errc code) {
    switch (code) {
        case storage::errc::not_found:
            return errc::not_found;
        case storage::errc::corrupt:
            return errc::internal;
        case storage::errc::incompatible:
            return errc::conflict;
        case storage::errc::io:
            return errc::internal;
        case storage::errc::out_of_space:
            return errc::out_of_space;
        case storage::errc::pool_exhausted:
            return errc::overloaded;
        case storage::errc::locked:
            return errc::internal;
        case storage::errc::bad_value:
            return errc::bad_value;
    }
    return errc::internal;
}

/// Returns: the name of the field at fault as chat completions call it; only their errors have a
/// place for it.
const char* path_of(engine::request_part part) {
    switch (part) {
        case engine::request_part::unsaid:
            return "";
        case engine::request_part::prompt:
            return "messages";
        case engine::request_part::form:
            return "response_format";
        case engine::request_part::tools:
            return "tools";
        case engine::request_part::biases:
            return "logit_bias";
        case engine::request_part::stop_tokens:
            return "stop_token_ids";
    }
    return "";
}

}  // namespace

failure from_engine(const engine::failed& f) {
    const bool is_thread = f.kind == engine::failure_kind::thread_lost;
    const bool is_of_server = f.kind == engine::failure_kind::internal;
    return {code_of(f.kind),     is_of_server ? without_directories(f.what) : f.what,
            path_of(f.at_fault), is_thread ? "thread_not_found" : "",
            f.retry_after,       f.excess,
            f.elsewhere};
}

namespace {

/// Returns: a sentence about a fault of the disk that names no file.
const char* sentence_of(storage::errc code) {
    switch (code) {
        case storage::errc::not_found:
            return "what is asked for is not on this server's disk";
        case storage::errc::corrupt:
            return "what this server's disk has of it is damaged";
        case storage::errc::incompatible:
            return "what this server's disk has of it is of another model or version";
        case storage::errc::io:
            return "this server's disk failed to read or write; its log says more";
        case storage::errc::out_of_space:
            return "this server's disk is full";
        case storage::errc::pool_exhausted:
            return "no memory is free at the moment";
        case storage::errc::locked:
            return "another process has this server's cache directory";
        case storage::errc::bad_value:
            return "a value is outside its range";
    }
    return "this server's disk failed";
}

}  // namespace

failure from_storage(const storage::failure& f) {
    return {code_of(f.code), is_public(f) ? f.what : sentence_of(f.code)};
}

}  // namespace semantic::protocol
