// SPDX-License-Identifier: Apache-2.0
#include "engine/text/output/utf8_stream.hpp"

#include <utility>

#include "engine/text/tokenizer/utf8.hpp"

namespace semantic::engine {

std::string utf8_stream::push(std::string_view bytes) {
    std::string joined;
    if (!pending_.empty()) {
        joined = std::exchange(pending_, {}).append(bytes);
        bytes = joined;
    }
    std::string out;
    while (!bytes.empty()) {
        const std::size_t good = utf8::valid_prefix(bytes);
        out.append(bytes.substr(0, good));
        bytes.remove_prefix(good);
        if (bytes.empty()) break;
        const utf8::step bad = utf8::next(bytes);
        if (bad.unfinished) {
            pending_ = bytes;
            break;
        }
        out.append(utf8::replacement);
        bytes.remove_prefix(bad.length);
    }
    return out;
}

std::string utf8_stream::finish() {
    return std::exchange(pending_, {}).empty() ? std::string() : std::string(utf8::replacement);
}

}  // namespace semantic::engine
