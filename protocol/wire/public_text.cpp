// SPDX-License-Identifier: Apache-2.0
#include "protocol/wire/public_text.hpp"

#include <algorithm>

namespace semantic::protocol {

namespace {

// What ends a path within a sentence.
constexpr std::string_view path_ends = " \t\n\"'`(),;<>";

}  // namespace

bool is_public(const storage::failure& fault) {
    switch (fault.code) {
        case storage::errc::io:
        case storage::errc::locked:
            return false;
        case storage::errc::not_found:
        case storage::errc::corrupt:
        case storage::errc::incompatible:
        case storage::errc::out_of_space:
        case storage::errc::pool_exhausted:
        case storage::errc::bad_value:
            break;
    }
    // Each file of the store is below its directory.
    return !fault.what.empty() && fault.what.find('/') == std::string::npos;
}

std::string without_directories(std::string_view text) {
    std::string shown;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find_first_of(path_ends), text.size());
        const std::string_view word = text.substr(0, end);
        // A directory's own name stays, also where a slash follows it.
        const std::size_t last = word.substr(0, word.find_last_not_of('/') + 1).rfind('/');
        shown += last == std::string_view::npos ? word : word.substr(last + 1);
        text.remove_prefix(end);
        if (text.empty()) break;
        shown += text.front();
        text.remove_prefix(1);
    }
    return shown;
}

}  // namespace semantic::protocol
