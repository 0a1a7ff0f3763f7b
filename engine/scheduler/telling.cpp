// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/telling.hpp"

namespace semantic::engine {

namespace {

std::chrono::microseconds microseconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() -
                                                                 start);
}

void count_end(const job& work, const generation_event& last, engine_probe& probe) {
    const auto count = [](std::atomic<std::uint64_t>& counter) {
        counter.fetch_add(1, std::memory_order_relaxed);
    };
    const auto* end = std::get_if<finished>(&last);
    if (end == nullptr) return count(probe.requests_failed);
    const bool cancelled = end->why == stop_reason::cancelled;
    count(cancelled ? probe.requests_cancelled : probe.requests_finished);
    if (!end->saved && !cancelled && !work.drops_memory()) count(probe.saves_late);
}

/// The activity feed's record of a request that has ended with the event `last`.
request_ended end_of(const job& work, const generation_event& last) {
    request_ended end{work.id, work.request.tenant, work.request.agent};
    // A branch of a conversation gets an agent of its own. Refused requests have no prompt.
    if (work.prompt) end.agent = work.prompt->agent;
    if (const auto* whole = std::get_if<finished>(&last)) {
        end.why = to_string(whole->why);
        end.output_tokens = whole->output_tokens;
        end.saved = whole->saved;
    } else if (const auto* fault = std::get_if<failed>(&last)) {
        end.why = fault->what;
        end.has_failed = true;
    }
    return end;
}

}  // namespace

void tell_arrival(const job& work, int ahead, engine_probe& probe) {
    probe.feed->publish([&] {
        return request_arrived{work.id, work.request.tenant, work.request.agent, ahead};
    });
}

void tell_end(const job& work, const generation_event& last, engine_probe& probe) {
    count_end(work, last, probe);
    probe.feed->publish([&] { return end_of(work, last); });
}

void tell_save(const storage::agent_id& agent, const storage::result<storage::save_report>& report,
               std::chrono::steady_clock::time_point began, engine_probe& probe) {
    probe.feed->publish([&] {
        return memory_saved{agent, report ? std::string() : report.error().what,
                            report ? report->bytes_written : 0, microseconds_since(began)};
    });
}

void tell_restore(const storage::agent_id& agent, const storage::restored_prefix& found,
                  std::chrono::steady_clock::time_point began, engine_probe& probe) {
    probe.feed->publish([&] {
        return memory_restored{agent, found.tokens, found.tokens_read, found.detail,
                               microseconds_since(began)};
    });
}

}  // namespace semantic::engine
