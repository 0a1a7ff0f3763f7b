// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is done with a request whose agent another node works on. Value only.

namespace semantic::engine {

enum class held_elsewhere {
    refuse,    // the client gets a time to retry
    redirect,  // the client gets that node's address, if it has one; else as refuse
    serve,     // the request is answered here, too; the turn that is saved second becomes a fork
};

}  // namespace semantic::engine
