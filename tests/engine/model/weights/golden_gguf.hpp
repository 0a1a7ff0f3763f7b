// SPDX-License-Identifier: Apache-2.0
#pragma once
// GGUF files that llama.cpp's converter made of golden models. Where one's bytes are those of its
// folder in another order, the tree holds a recipe (tests/golden/gguf/make_recipe.py).

#include <string>

namespace semantic::tests {

/// The path of tests/golden/gguf/NAME, or of a file that is put together from NAME less "gguf" plus
/// "recipe" and the weights of the golden model `folder`, once a process. Fails the test where
/// neither is there.
std::string golden_gguf(const std::string& name, const std::string& folder);

}  // namespace semantic::tests
