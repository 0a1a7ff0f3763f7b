// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/metrics.hpp"

#include "protocol/wire/usage.hpp"
#include "server/usage/key_accounts.hpp"

namespace semantic::server {

response get_usage(const services& server, const request& incoming) {
    const auto account = server.accounts.account_of(incoming.credential.value());
    return json_response(protocol::usage_body(account->report(std::chrono::steady_clock::now())));
}

response get_all_usage(const services& server, const request&) {
    std::vector<protocol::key_usage> all;
    for (const auto& account : server.accounts.all())
        all.push_back(account->report(std::chrono::steady_clock::now()));
    return json_response(protocol::usage_list_body(all));
}

response get_metrics(const services& server, const request&) {
    const std::vector<engine_lease> leases = server.engines.look_at_all();
    std::vector<const engine::engine*> engines;
    for (const engine_lease& each : leases) engines.push_back(&*each);
    const model_changes changes{server.switcher.exchanges_done(),
                                server.switcher.exchanges_failed()};
    return text_response(
        render_metrics(server.probe, changes, engines, server.engines.size() > 1, &server.accounts),
        "text/plain; version=0.0.4; charset=utf-8");
}

}  // namespace semantic::server
