// SPDX-License-Identifier: Apache-2.0
// The safetensors container, fed arbitrary bytes: what it accepts lies inside the file, does not
// overlap, and can be read to its last byte.

#include <cstdint>

#include "storage/files/safetensors.hpp"
#include "storage/types/assert.hpp"

using namespace semantic::storage;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t count) {
    const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), count);
    const auto view = safetensors_view::parse(file);
    if (!view) {
        ASSERT(view.error().code == errc::corrupt && !view.error().what.empty());
        return 0;
    }
    unsigned sum = 0;
    std::size_t covered = 0;
    for (const auto& [name, tensor] : view->tensors) {
        std::uint64_t bytes = dtype_bytes(tensor.type);
        for (std::int64_t extent : tensor.shape) bytes *= static_cast<std::uint64_t>(extent);
        ASSERT(bytes == tensor.bytes.size());
        covered += tensor.bytes.size();
        for (std::byte each : tensor.bytes) sum += std::to_integer<unsigned>(each);
    }
    ASSERT(covered <= count);
    volatile unsigned sink = sum;
    (void)sink;
    return 0;
}
