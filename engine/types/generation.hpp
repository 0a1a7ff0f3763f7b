#pragma once
// The narrow waist between the wire and the engine: what is asked for, and what comes back token by
// token. Plain values.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/types/conversation.hpp"
#include "storage/types/ids.hpp"

namespace semantic::engine {

using storage::token_id;

/// How a token is drawn; a model's own preference comes from its generation_config.json.
struct sampling_rules {
    float temperature = 1.0f;  // 0 is greedy
    float top_p = 1.0f;        // (0, 1]
    int top_k = 0;             // 0: all
};

/// What a request says about sampling; what it leaves out is as the model prefers.
struct sampling_params {
    std::optional<float> temperature;
    std::optional<float> top_p;
    std::optional<int> top_k;
    std::optional<std::uint64_t> seed;  // same seed, same prompt: same text, whatever else runs

    sampling_rules or_else(const sampling_rules& preferred) const {
        return {temperature.value_or(preferred.temperature), top_p.value_or(preferred.top_p),
                top_k.value_or(preferred.top_k)};
    }
};

/// What the answer must look like, whatever the model would rather say.
struct output_form {
    enum class kind {
        free,          // anything
        json,          // one JSON value, and nothing else
        calls,         // tool calls, and nothing else
        strict_calls,  // anything; but what begins a tool call is one, with arguments as declared
    };
    kind what = kind::free;
    std::string schema_json{};         // json: what the value satisfies; empty: any object
    std::vector<std::string> tools{};  // calls: names of those that may be called; empty: all
    bool several_calls = true;         // calls: more than one, where the model's family can
};

/// What a request says about reasoning; what it leaves out is as the model's template prefers.
/// Families without a switch ignore it.
struct thinking_params {
    std::optional<bool> enabled;
    std::optional<std::string> effort;  // "low", "medium", "high"
    std::optional<int> budget_tokens;   // the reasoning ends behind this many tokens of the answer
};

struct generation_request {
    /// Whose memory this extends. Absent: the engine finds the longest stored prefix or makes a new
    /// `msg_…` agent.
    std::optional<storage::agent_id> agent;
    conversation chat;
    int max_tokens = 256;  // >= 0; 0 fills the cache and answers nothing
    std::vector<std::string> stop_sequences;
    output_form form{};
    sampling_params sampling;
    thinking_params thinking;
    std::optional<std::chrono::steady_clock::time_point> deadline;
};

/// Why the prompt was not reused as far as the agent's memory reached. `none`: it was, or there was
/// nothing yet.
enum class miss_reason {
    none,
    model_changed,
    system_changed,
    tools_changed,
    messages_changed,
    evicted,
    corrupt,
    incompatible,
    too_short
};
const char* to_string(miss_reason why) noexcept;

/// Where each prompt token came from; the three add up to prompt_tokens.
struct prompt_usage {
    int prompt_tokens = 0;
    int reused_tokens = 0;      // KV taken as it was: in the pool or read back from disk
    int created_tokens = 0;     // computed now and kept
    int recomputed_tokens = 0;  // computed now although their KV exists or must be run anyway: the
                                // last token of the prompt
    int restored_tokens = 0;    // part of reused_tokens that was read from disk for this request
    miss_reason why = miss_reason::none;
    std::string detail;  // for the log: file and fault, or the first differing position
};

enum class stop_reason { end_turn, max_tokens, stop_sequence, context_full, cancelled, deadline };
const char* to_string(stop_reason why) noexcept;

/// Sent once, after the prefix look-up and before any prefill: the cache numbers are final.
struct admitted {
    storage::agent_id agent;
    prompt_usage usage;
};
/// One sampled token's worth of text: whole UTF-8 characters, stop strings and stop tokens removed.
/// May be empty while a character or a possible stop string is incomplete.
struct token_text {
    std::string text;
    token_id token = 0;
};
/// Sent once, last; nothing follows.
struct finished {
    stop_reason why = stop_reason::end_turn;
    std::string stop_sequence;  // which one, when why is stop_sequence
    int output_tokens = 0;      // sampled, the stop token included
    bool saved = false;         // the agent's memory is on disk
};
enum class failure_kind { bad_request, too_large, overloaded, internal, shutting_down };
/// Sent once, last, instead of `finished`.
struct failed {
    failure_kind kind = failure_kind::internal;
    std::string what;
};
using generation_event = std::variant<token_text, admitted, finished, failed>;

/// Receives one request's events in order. Called on an engine thread: must not block and must not
/// throw.
class generation_sink {
  public:
    virtual ~generation_sink() = default;
    virtual void on_event(generation_event event) noexcept = 0;
};

using request_id = std::uint64_t;

}  // namespace semantic::engine
