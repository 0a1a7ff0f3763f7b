// SPDX-License-Identifier: Apache-2.0
#pragma once
// Every bound on what a client may send or make us wait for. The table in server/README.md says why
// each has its value.

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace semantic::server {

struct http_limits {
    std::size_t header_bytes_max = 32 * 1024;       // request line and fields together
    std::size_t body_bytes_max = 32 * 1024 * 1024;  // of every POST route
    std::size_t pipelined_bytes_max = 64 * 1024;    // read ahead while an answer is being made
    std::size_t linger_bytes_max =
        64 * 1024 * 1024;            // thrown away before a refused upload is cut off
    std::size_t bodies_at_once = 4;  // half-read bodies may have so many times body_bytes_max
    std::size_t body_bytes_free = 256 * 1024;  // of each body; they are not counted there
    // What one request may be given of memory beyond its body: as work_budget.
    std::size_t request_bytes_max = std::size_t{64} << 20;
    std::size_t uploads_max = 16;  // files of agents on their way in, on disk until they are read

    std::chrono::milliseconds idle{120'000};  // between two requests of one connection
    // From a request's first byte to the end of its header; of a new connection also to that byte.
    std::chrono::milliseconds header{15'000};
    std::chrono::milliseconds body{120'000};  // from the end of the header to the end of the body
    // Without a byte, in a body for which others may have to wait.
    std::chrono::milliseconds body_silence{15'000};
    std::chrono::milliseconds write{60'000};  // one reply, or one piece of a stream
    std::chrono::milliseconds linger{5'000};  // for the peer to read a refusal
    // The engine ends a request at its deadline by itself; this much later the server no longer
    // believes that it will.
    std::chrono::milliseconds engine_lateness{10'000};
    std::size_t watchers_max = 256;         // WebSockets of /ws at once
    std::size_t watcher_messages_max = 64;  // that wait for one of them; beyond it, it is dropped
    std::chrono::milliseconds farewell{3'000};    // for a WebSocket's last message and its close
    std::chrono::milliseconds ping_every{8'000};  // clients warn after 15 to 20 s without a byte
};

}  // namespace semantic::server
