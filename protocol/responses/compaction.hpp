// SPDX-License-Identifier: Apache-2.0
#pragma once
// /v1/responses/compact: a conversation that has become long is put into fewer words, which
// replace it from then on. Pure. Source: the Responses API as the vendor's SDKs speak it
// (protocol/README.md).

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/types/generation.hpp"
#include "protocol/reply.hpp"
#include "protocol/wire/ids.hpp"

namespace semantic::protocol::responses {

/// Returns: `encrypted_content` of an item of type compaction: the summary in a form that only this
/// server reads. `replaces_all`: the summary replaces everything before the item in the prompt;
/// else it is read together with what the client keeps.
std::string seal_summary(std::string_view summary, bool replaces_all);
struct sealed_summary {
    std::string text;
    bool replaces_all = false;
};
/// Returns: the summary in a text that seal_summary() made; nothing for what another server sealed.
std::optional<sealed_summary> open_summary(std::string_view sealed);

/// Whether the item is a message of role "user".
bool is_users_message(const boost::json::value& item);

/// Collects the reply {"id", "object": "response.compaction", "created_at", "output", "usage"}: the
/// user's own messages unchanged, then one item of type "compaction" with the sealed summary.
class compaction_collector final : public reply_collector {
  public:
    /// `items`: the conversation's. `ids` must outlive the collector.
    compaction_collector(std::string id, std::int64_t created_unix, boost::json::array items,
                         id_maker& ids)
        : id_(std::move(id)), created_unix_(created_unix), items_(std::move(items)), ids_(&ids) {}

    void on_admitted(const engine::admitted& event) override;
    void on_text(std::string_view text) override { summary_ += text; }
    /// Calls are no part of a summary.
    void on_tool_call(std::string_view, std::string_view) override {}
    /// Errors: bad_value, when the model said nothing.
    result<std::string> on_finished(const engine::finished& event) override;

  private:
    std::string id_;
    std::int64_t created_unix_;
    boost::json::array items_;
    id_maker* ids_;  // not null
    engine::prompt_usage usage_;
    std::string agent_;    // the agent whose memory it uses
    std::string summary_;  // what the model has said so far
};

}  // namespace semantic::protocol::responses
