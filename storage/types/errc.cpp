// SPDX-License-Identifier: Apache-2.0
#include "storage/types/errc.hpp"

#include <stdexcept>

namespace semantic::storage {

const char* to_string(errc code) noexcept {
    switch (code) {
        case errc::not_found:
            return "not_found";
        case errc::corrupt:
            return "corrupt";
        case errc::incompatible:
            return "incompatible";
        case errc::io:
            return "io";
        case errc::out_of_space:
            return "out_of_space";
        case errc::pool_exhausted:
            return "pool_exhausted";
        case errc::locked:
            return "locked";
        case errc::bad_value:
            return "bad_value";
    }
    return "unknown";
}

void throw_exception_from_error(const failure& f, const boost::source_location&) {
    throw std::runtime_error(std::string(to_string(f.code)) + ": " + f.what);
}

}  // namespace semantic::storage
