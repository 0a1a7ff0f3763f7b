// SPDX-License-Identifier: Apache-2.0
// Scenarios in YAML that nobody wrote: each is a scenario, or an error with its line.

#include <cstdint>
#include <string_view>

#include "protocol/scenarios/scenario.hpp"
#include "storage/types/assert.hpp"

using namespace semantic::protocol;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t count) {
    const std::string_view yaml(reinterpret_cast<const char*>(data), count);
    const auto parsed = scenarios::parse_scenario(yaml);
    if (parsed)
        ASSERT(!parsed->id.empty() && !parsed->phases.empty());
    else
        ASSERT(parsed.error().message.find("line ") != std::string::npos);
    return 0;
}
