#pragma once
// Independent pieces of file work on a few threads at once: a disk answers several reads faster
// than one after the other, and checksums take a core each. Thread: any; blocks until all are done.

#include <cstddef>
#include <functional>

namespace semantic::storage {

/// Blocks. Calls `job(i)` once for every i below `count`, on at most four threads, the caller's
/// among them, in no particular order. A job must not throw.
void run_parallel(std::size_t count, const std::function<void(std::size_t)>& job);

}  // namespace semantic::storage
