// SPDX-License-Identifier: Apache-2.0
#pragma once
// The dashboard's files, as they are in this folder; embed.cmake puts them into the binary.

#include <span>
#include <string_view>

namespace semantic::server {

struct page_file {
    std::string_view name;  // "app.js"
    std::string_view text;
};

std::span<const page_file> page_files();

}  // namespace semantic::server
