// SPDX-License-Identifier: Apache-2.0
// Records that the server has kept on disk, in bytes that nobody wrote: each is a session, a run or
// a response, or an error with its reason; what is read is written, and is read again.

#include <cstdint>
#include <string_view>

#include "protocol/coordination/record.hpp"
#include "protocol/responses/kept_response.hpp"
#include "protocol/scenarios/run_record.hpp"
#include "storage/types/assert.hpp"

using namespace semantic::protocol;

namespace {

template <class Record>
void check(const result<Record>& record) {
    if (!record) ASSERT(!record.error().message.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t count) {
    const std::string_view record(reinterpret_cast<const char*>(data), count);
    check(coordination::session_of(record));
    check(coordination::memory_of(record));
    check(coordination::kept_session_of(record));
    check(scenarios::kept_run_of(record));
    check(responses::kept_response_of(record));
    return 0;
}
