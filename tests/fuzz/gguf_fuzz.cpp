// SPDX-License-Identifier: Apache-2.0
// The GGUF container, fed arbitrary bytes: what it accepts lies inside the file, does not overlap,
// and can be read to its last byte.

#include <cstdint>
#include <variant>

#include "storage/files/gguf.hpp"
#include "storage/types/assert.hpp"

using namespace semantic::storage;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t count) {
    const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), count);
    const auto view = gguf_view::parse(file);
    if (!view) {
        ASSERT(!view.error().what.empty());
        ASSERT(view.error().code == errc::corrupt || view.error().code == errc::incompatible);
        return 0;
    }
    std::size_t sum = 0, covered = 0;
    for (const auto& [key, value] : view->metadata) {
        sum += key.size();
        if (const auto* array = std::get_if<gguf_array>(&value)) {
            for (std::string_view each : array->strings) sum += each.size();
            if (array->strings.empty())
                for (std::size_t i = 0; i < array->count; ++i) sum += array->number(i) > 0 ? 1 : 0;
        }
    }
    for (const auto& [name, tensor] : view->tensors) {
        ASSERT(find_block_size(tensor.type) != nullptr && !tensor.shape.empty());
        covered += tensor.bytes.size();
        for (std::byte each : tensor.bytes) sum += std::to_integer<unsigned>(each);
    }
    ASSERT(covered <= count);
    volatile std::size_t sink = sum;
    (void)sink;
    return 0;
}
