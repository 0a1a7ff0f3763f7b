// SPDX-License-Identifier: Apache-2.0
#include "server/http/middleware.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include "protocol/wire/public_text.hpp"
#include "server/config/option_values.hpp"
#include "server/http/cors.hpp"
#include "server/http/hosts.hpp"
#include "server/http/shared_slots.hpp"
#include "server/log/log_line.hpp"
#include "server/runtime/logging.hpp"
#include "server/usage/key_accounts.hpp"

namespace semantic::server {

namespace {

using protocol::errc;

// Compares all bytes, so that the time does not show how much of a guess is right.
bool equal_in_constant_time(std::string_view guess, std::string_view key) {
    unsigned difference = guess.size() == key.size() ? 0 : 1;
    for (std::size_t i = 0; i < key.size(); ++i) {
        unsigned char given = i < guess.size() ? static_cast<unsigned char>(guess[i]) : 0;
        difference |= static_cast<unsigned>(given ^ static_cast<unsigned char>(key[i]));
    }
    return difference == 0;
}

/// The credential of the tenant with this key; nothing for a wrong key.
std::optional<std::string> tenant_of(const config& settings, std::string_view guess) {
    std::optional<std::string> found;
    for (const std::string& key : settings.api_keys)
        if (equal_in_constant_time(guess, key)) found = credential_of(tenant_key{key, {}});
    for (const tenant_key& each : settings.file_keys.now())
        if (equal_in_constant_time(guess, each.key)) found = credential_of(each);
    return found;
}

/// The method for a metric's label, which clients must not choose freely.
std::string_view known_method(std::string_view method) {
    constexpr std::array<std::string_view, 7> known{"GET",    "HEAD",    "POST", "PUT",
                                                    "DELETE", "OPTIONS", "PATCH"};
    return std::find(known.begin(), known.end(), method) != known.end() ? method : "other";
}

std::string name_of(const services& server, std::optional<std::size_t> model) {
    return model ? server.models.list().at(*model).name : std::string("none");
}

/// The error for a slot in this state: why no engine answers, and when to come back.
protocol::failure not_ready(const services& server, const slot_state& now) {
    if (now.phase == slot_phase::failed)
        return fail(errc::internal,
                    "no model is loaded: " + protocol::without_directories(now.why));
    if (now.phase == slot_phase::empty)
        return fail(errc::overloaded, "no model is loaded; POST /admin/models/load loads one");
    if (now.phase == slot_phase::ready)
        return fail(errc::overloaded, "the model was changed just now");
    protocol::failure wait = fail(errc::overloaded, {});
    if (now.target) {
        wait.message = "the model is being changed to " + name_of(server, now.target) + " (" +
                       to_string(now.phase) + ")";
    } else if (now.phase == slot_phase::verifying) {
        wait.message = name_of(server, now.model) + " is being tried out";
    } else {
        const engine::load_progress progress = server.engines.progress();
        char percent[16];
        std::snprintf(percent, sizeof percent, "%.0f %%", progress.fraction * 100);
        wait.message = "the model is still loading (" + progress.stage + ", " + percent + ")";
    }
    return wait;
}

/// The error for an unknown path; says so where only a slash at its end is too much.
protocol::failure no_such_path(const services& server, const request& incoming) {
    const std::string path = incoming.path.substr(0, 200);
    std::string message = "there is no " + path + " here";
    if (path.size() > 1 && path.ends_with('/')) {
        const std::string meant = path.substr(0, path.find_last_not_of('/') + 1);
        const route_match match = match_route(server.routes, incoming.method, meant);
        if (match.found != nullptr || !match.allow.empty())
            message += "; without the slash at its end, " + meant + " is";
    }
    return fail(errc::not_found, std::move(message));
}

}  // namespace

std::optional<response> refuse_without_engine(const services& server, const request& incoming) {
    if (server.stopping.load())
        return error_response(incoming, fail(errc::shutting_down, "the server is shutting down"));
    const slot_state now = server.engines.state();
    if (now.phase == slot_phase::ready || server.engines.any_ready()) return std::nullopt;
    return error_response(incoming, not_ready(server, now), 503);
}

bool may_wait(const services& server, const route_match& match) {
    if (server.queue == nullptr || server.stopping.load()) return false;
    if (match.found->body == body_class::file) return false;
    const slot_state now = server.engines.state();
    return !now.is_start && now.phase != slot_phase::idle;
}

std::optional<response> take_engine(const services& server, request& incoming,
                                    std::optional<std::size_t> model) {
    if (incoming.engine) return std::nullopt;
    incoming.engine = server.engines.lease(model);
    if (incoming.engine) return std::nullopt;
    if (auto refused = refuse_without_engine(server, incoming)) return refused;
    return error_response(incoming, not_ready(server, server.engines.state()), 503);
}

route_match begin_request(const services& server, request& incoming) {
    incoming.path = path_of(incoming.target);
    incoming.dialect = dialect_of(incoming.path, incoming.field("anthropic-version").has_value());
    incoming.id = request_id_of(incoming);
    incoming.trace_id = trace_id_of(incoming.field("traceparent").value_or(""));
    incoming.allow_origin =
        allowed_origin(server.settings.cors_origins, incoming.field("origin").value_or(""));
    incoming.credential = credential_of(server.settings, incoming);
    route_match match = match_route(server.routes, incoming.method, incoming.path);
    incoming.parameter = match.parameter;
    return match;
}

std::optional<response> refuse_early(const services& server, const request& incoming,
                                     const route_match& match) {
    if (auto refused = refuse_foreign_host(server.settings, incoming)) return refused;
    bool is_known = match.found != nullptr || !match.allow.empty();
    if (incoming.method == "OPTIONS" && (is_known || incoming.path == "*"))
        return options_response(incoming, match.allow);
    if (!is_known) return error_response(incoming, no_such_path(server, incoming));
    if (match.found == nullptr) {
        response reply = error_response(
            incoming, fail(errc::method_not_allowed, "this path takes " + match.allow));
        reply.fields.emplace_back("allow", match.allow);
        return reply;
    }
    if (auto refused = refuse_foreign_page(server.settings, incoming)) return refused;
    if (match.found->auth == auth_class::key && !incoming.credential) {
        response reply = error_response(
            incoming,
            fail(errc::unauthorized, "send a valid key as x-api-key or as authorization: Bearer"));
        reply.fields.emplace_back("www-authenticate", "Bearer");
        return reply;
    }
    if (match.found->auth == auth_class::admin)
        if (auto refused = refuse_admin(server.settings, incoming)) return refused;
    if (match.found->auth == auth_class::reader)
        if (auto refused = refuse_reader(server.settings, incoming)) return refused;
    if (match.found->engine != engine_need::none && !may_wait(server, match))
        return refuse_without_engine(server, incoming);
    return std::nullopt;
}

std::optional<response> take_key_slot(const services& server, request& incoming,
                                      const route_match& match) {
    if (!match.found->is_metered) return std::nullopt;
    const auto account = server.accounts.account_of(incoming.credential.value());
    const auto reached = account->begin(std::chrono::steady_clock::now());
    incoming.limit_fields = protocol::rate_limit_fields(
        incoming.dialect, account->left(std::chrono::steady_clock::now()),
        std::chrono::system_clock::now());
    if (reached) return error_response(incoming, protocol::refusal(*reached));
    // Given back by its destructor where the request is refused below.
    auto slot = std::make_shared<key_slot>(account);
    const auto all =
        static_cast<std::size_t>(server.settings.max_batch + server.settings.max_queued);
    if (account->running() > shared_slots::share(all, needs_key(server.settings)))
        return error_response(incoming, fail(errc::overloaded,
                                             "this key has as many requests running and waiting "
                                             "as one key may"));
    incoming.slot = std::move(slot);
    return std::nullopt;
}

std::optional<response> refuse_reader(const config& settings, const request& incoming) {
    if (settings.metrics_for == metrics_readers::all) return std::nullopt;
    const auto key = incoming.field("x-admin-key");
    const bool has_key =
        key && !settings.admin_key.empty() && equal_in_constant_time(*key, settings.admin_key);
    const bool is_near = settings.metrics_for == metrics_readers::local && incoming.is_local &&
                         is_asked_from_here(incoming);
    if (has_key || is_near) return std::nullopt;
    return error_response(
        incoming, fail(errc::forbidden, "send the admin-key as x-admin-key (metrics-for = " +
                                            option_values::print_metrics_readers(settings) + ")"));
}

std::optional<response> refuse_admin(const config& settings, const request& incoming) {
    auto refused = [&](errc code, const char* message) {
        return error_response(incoming, fail(code, message));
    };
    if (settings.admin_key.empty()) {
        if (!serves_this_machine_only(settings) || needs_key(settings))
            return refused(errc::forbidden, "/admin needs a server that was given an admin-key");
        if (incoming.field("origin"))
            return refused(errc::forbidden,
                           "/admin answers no web page unless the server was given an admin-key");
        if (!is_asked_from_here(incoming))
            return refused(errc::forbidden,
                           "without an admin-key this is for programs of the server's own machine "
                           "alone, which ask for localhost and not through a proxy");
        return std::nullopt;
    }
    auto key = incoming.field("x-admin-key");
    if (!key)
        return refused(errc::unauthorized,
                       "Admin authentication required (X-Admin-Key header missing)");
    if (!is_admin_key(settings, *key)) return refused(errc::unauthorized, "Invalid admin key");
    return std::nullopt;
}

bool is_admin_key(const config& settings, std::string_view key) {
    return !settings.admin_key.empty() && equal_in_constant_time(key, settings.admin_key);
}

std::optional<std::string> credential_of(const config& settings, const request& incoming) {
    // Without keys all clients are the default tenant, whose credential is empty.
    if (!needs_key(settings)) return std::string();
    constexpr std::string_view scheme = "bearer ";
    if (auto key = incoming.field("x-api-key"))
        if (auto found = tenant_of(settings, *key)) return found;
    auto bearer = incoming.field("authorization");
    if (!bearer || bearer->size() <= scheme.size()) return std::nullopt;
    std::string_view value = *bearer;
    if (!equal_ignoring_case(value.substr(0, scheme.size()), scheme)) return std::nullopt;
    return tenant_of(settings, value.substr(scheme.size()));
}

void end_request(const services& server, const request& incoming, const route_match& match,
                 int status, std::chrono::steady_clock::duration took) {
    double seconds = std::chrono::duration<double>(took).count();
    std::string_view pattern = match.found != nullptr ? match.found->pattern : "unmatched";
    server.probe.count_request(pattern, known_method(incoming.method), status, seconds);
    char rest[64];
    std::snprintf(rest, sizeof rest, " %d %.3f s", status, seconds);
    std::string line = incoming.method + " " + incoming.path.substr(0, 200) + rest;
    // Health checks come every few seconds, so they are only logged at level debug.
    bool is_probe = match.found != nullptr && (match.found->auth == auth_class::open ||
                                               match.found->auth == auth_class::reader);
    // 503 is usual while a model loads or the queue is full.
    log_level level = status >= 500 && status != 503 ? log_level::warning : log_level::info;
    log_event(is_probe ? log_level::debug : level, incoming.id_for_log(), line);
}

}  // namespace semantic::server
