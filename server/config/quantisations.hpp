// SPDX-License-Identifier: Apache-2.0
#pragma once
// The quantisations that GGUF file names distinguish ("Qwen3-4B-Q4_K_M.gguf"), and which of
// several is taken when the user named none. Pure.

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace semantic::server {

/// The part of a file's name that names its form: "Q4_K_M", upper case; empty where it has none.
std::string quantisation_of(std::string_view stem);

/// Returns: the index of the one of `stems` to take: Q4_K_M, else the nearest to it that this
/// server reads, and of two equally near ones the first. Nothing where there are none of known
/// form.
std::optional<std::size_t> preferred_quantisation(std::span<const std::string> stems);

/// Whether `stem` is what `asked` means: the whole of it, or the form at its end: Q4_K_M.
bool is_meant(std::string_view stem, std::string_view asked);

}  // namespace semantic::server
