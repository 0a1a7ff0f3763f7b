// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/version.hpp"

#include <boost/version.hpp>

#ifndef SEMANTIC_COMMIT
#define SEMANTIC_COMMIT "unknown"
#endif

namespace semantic::server {

std::string_view server_commit() noexcept { return SEMANTIC_COMMIT; }

std::string version_text() {
    std::string boost = BOOST_LIB_VERSION;
    for (char& c : boost)
        if (c == '_') c = '.';
    std::string text = "semantic-server " + std::string(server_version) + " (commit " +
                       std::string(server_commit()) + ")\n";
    text += "compiled by " + std::string(__VERSION__) + ", Boost " + boost + "\n";
    return text +=
           "features: messages, chat-completions, responses, agents, coordination, "
           "models, key-limits, metrics, systemd-notify\n";
}

}  // namespace semantic::server
