// SPDX-License-Identifier: Apache-2.0
#pragma once
// Measures several conversations that are answered at the same time. Thread: that of the
// io_context. Errors: those of chat_client.

#include <boost/asio/awaitable.hpp>

#include <cstddef>
#include <vector>

#include "perf/bench/measure/measure.hpp"

namespace semantic::bench {

/// The result of one such measurement. Speeds are in tokens a second, times in seconds.
struct burst {
    double tokens = 0;
    double total_speed = 0;  // of all streams, from the first token of any to the last of any
    double own_speed = 0;    // median of one stream
    /// Of all streams, over the time in which each of them is answering: all prompts have been read
    /// and no answer has ended. 0 where there is no such time.
    double together_speed = 0;
    double reused = 0;
    double prompt = 0;
    summary itl;
    summary first;
    summary first_byte;
};

/// Computes the result. Requires: `answers` is not empty.
burst judge(const std::vector<generation>& answers);

/// Takes the next turn of each of the first `count` conversations at the same time. Returns: the
/// answers.
boost::asio::awaitable<std::vector<generation>> all_speak(bench_run& run,
                                                          std::vector<conversation>& talks,
                                                          std::size_t count);

}  // namespace semantic::bench
