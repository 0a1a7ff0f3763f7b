// SPDX-License-Identifier: Apache-2.0
// Manifests, fed arbitrary bytes: as a file, and as records whose sums are right, so that they
// reach the parser, which runs after the sums. A manifest that it accepts can be written again and
// reads as the same.

#include <cstdint>
#include <cstring>
#include <string>

#include "storage/disk/manifest.hpp"
#include "storage/files/checksum.hpp"
#include "storage/types/assert.hpp"

using namespace semantic::storage;

namespace {

std::string_view view_of(const block_hash& hash) {
    return {reinterpret_cast<const char*>(hash.bytes.data()), hash.bytes.size()};
}

std::string file_header() {
    manifest agent;
    agent.agent = "a";
    return encode_manifest(agent)->bytes.substr(0, 24);
}

/// A file of records with these payloads: the input cut at each 0xff 0xfe.
std::string sealed(std::string_view input) {
    static const std::string header = file_header();
    std::string file = header;
    block_hash seal = checksum128(header);
    for (bool more = true; more;) {
        const std::size_t cut = input.find("\xff\xfe");
        more = cut != std::string_view::npos;
        const std::string_view payload = input.substr(0, cut);
        const std::uint64_t bytes = payload.size();
        std::string length(sizeof bytes, '\0');
        std::memcpy(length.data(), &bytes, sizeof bytes);
        std::string bound(view_of(seal));
        bound += length;
        bound += view_of(checksum128(payload));
        seal = checksum128(bound);
        file += length;
        file += view_of(seal);
        file += payload;
        if (more) input.remove_prefix(cut + 2);
    }
    return file;
}

void check(std::string_view file) {
    const auto decoded = decode_manifest(file);
    if (!decoded) {
        ASSERT(decoded.error().code == errc::corrupt || decoded.error().code == errc::incompatible);
        return;
    }
    const auto again = encode_manifest(decoded->agent);
    ASSERT(again);
    const auto same = decode_manifest(again->bytes);
    ASSERT(same && !same->torn && same->agent == decoded->agent);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t count) {
    const std::string_view input(reinterpret_cast<const char*>(data), count);
    check(input);
    check(sealed(input));
    return 0;
}
