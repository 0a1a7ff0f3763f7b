// SPDX-License-Identifier: Apache-2.0
#pragma once
// Several conversations that are answered at the same time, and what that says of the server.
// Thread: that of the io_context. Errors: those of chat_client.

#include <boost/asio/awaitable.hpp>

#include <cstddef>
#include <vector>

#include "perf/bench/measure/measure.hpp"

namespace semantic::bench {

struct burst {
    double tokens = 0;
    double total_speed = 0;  // all streams, from the first token of any to the last of any
    double own_speed = 0;    // median of one stream
    /// All streams, over the time in which each of them is answering: their prompts are read and
    /// none has ended. 0 where there is no such time.
    double together_speed = 0;
    double reused = 0;
    double prompt = 0;
    summary itl;
    summary first;
    summary first_byte;
};

/// Requires: `answers` is not empty.
burst judge(const std::vector<generation>& answers);

/// The next turn of each of the first `count` conversations.
boost::asio::awaitable<std::vector<generation>> all_speak(bench_run& run,
                                                          std::vector<conversation>& talks,
                                                          std::size_t count);

}  // namespace semantic::bench
