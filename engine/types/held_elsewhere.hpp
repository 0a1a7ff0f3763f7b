// SPDX-License-Identifier: Apache-2.0
#pragma once
// What becomes of a request whose agent another node is at work on. Value only.

namespace semantic::engine {

enum class held_elsewhere {
    refuse,    // the client gets a time to retry
    redirect,  // the client gets that node's address, if it has one; else as refuse
    serve,     // the request is answered here all the same; the later of the two ends in a fork
};

}  // namespace semantic::engine
