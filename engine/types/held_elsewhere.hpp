#pragma once
// What becomes of a request whose agent another node is at work on. Value only.

namespace semantic::engine {

enum class held_elsewhere {
    refuse,    // the client is told to come back
    redirect,  // the client is told where, if that node says where it is; else to come back
    serve,     // the request is answered here all the same; the later of the two ends in a fork
};

}  // namespace semantic::engine
