// SPDX-License-Identifier: Apache-2.0
#include "protocol/wire/work_limit.hpp"

namespace semantic::protocol {

failure from_work_limit(const storage::work_limit_exceeded& reached) {
    using limit = storage::work_limit_exceeded::limit;
    switch (reached.exceeded()) {
        case limit::deadline:
            return fail(errc::timeout, reached.what());
        case limit::cancelled:
            return fail(errc::cancelled, reached.what());
        case limit::steps:
        case limit::bytes:
            break;
    }
    return fail(errc::bad_value, std::string("the request is too much: ") + reached.what());
}

}  // namespace semantic::protocol
