// SPDX-License-Identifier: Apache-2.0
#pragma once
// A record of a higher layer that a tenant's directory keeps, such as a session of several agents.
// Plain values.

#include <cstdint>
#include <string>
#include <vector>

#include "storage/types/errc.hpp"
#include "storage/types/ids.hpp"

namespace semantic::storage {

struct kept_record {
    tenant_id tenant;
    std::string name;
    std::string bytes;
};
/// Which records there are, without their bytes, and what is wrong with the others.
struct record_name {
    tenant_id tenant;
    std::string name;
    std::uint64_t file_bytes = 0;
};
struct record_names {
    std::vector<record_name> whole{};
    std::vector<failure> damaged{};
};
/// All that could be read, and what is wrong with the others.
struct kept_records {
    std::vector<kept_record> whole{};
    std::vector<failure> damaged{};
};

}  // namespace semantic::storage
