// SPDX-License-Identifier: Apache-2.0
#pragma once
// The quantisations that GGUF file names distinguish ("Qwen3-4B-Q4_K_M.gguf"), and which of
// several is taken when the user named none. Pure.

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace semantic::server {

/// The quantisation that a model's name ends with: "Q4_K_M", in upper case; empty where it ends
/// with none.
std::string quantisation_of(std::string_view stem);

/// Returns: the index of the one of `stems` to take when the user named none: Q4_K_M, or the form
/// nearest to it; of two equal ones the first. Nothing where no name has a known form.
std::optional<std::size_t> preferred_quantisation(std::span<const std::string> stems);

/// Whether the word `asked` means the model named `stem`: it is the whole name, or the form at its
/// end (Q4_K_M). Case does not matter.
bool is_meant(std::string_view stem, std::string_view asked);

}  // namespace semantic::server
