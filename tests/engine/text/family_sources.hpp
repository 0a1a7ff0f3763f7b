// SPDX-License-Identifier: Apache-2.0
#pragma once
// Templates in Jinja that say what a family's renderer says: our own words for what published ones
// print. Not of families whose templates are long (llama3, harmony): published_templates_test.cpp
// reads those where they lie next to the tree.

#include <boost/json.hpp>

#include <fstream>
#include <optional>
#include <string>

#include "engine/text/template/chat_template.hpp"
#include "engine/text/template/template_families.hpp"
#include "tests/engine/text/golden_files.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::engine {

inline std::string quoted_for_jinja(std::string_view text) {
    return boost::json::serialize(boost::json::string(text));
}

/// A template that the family chatml renders.
constexpr const char* chatml_source =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

/// Returns: nothing for a family without one.
inline std::optional<std::string> source_of(const template_family& family) {
    const std::string folder = "tests/golden/chat_templates/sources/";
    if (family.name == "llama3" || family.name == "harmony") return std::nullopt;
    if (family.name == "qwen3" || family.name == "qwen3-thinking")
        return std::string("{%- set opens_thinking = ") +
               (family.opened_thinking.empty() ? "false" : "true") + " -%}" +
               read_text(folder + "qwen3.jinja");
    if (family.render == render_chatml)
        return "{%- set default_system = " + quoted_for_jinja(family.default_system) +
               " -%}{%- set doubled_braces = " + (family.doubled_braces ? "true" : "false") +
               " -%}" + read_text(folder + "chatml.jinja");
    return read_text(folder + std::string(family.name) + ".jinja");
}

/// A model's template that is `source`. `renderer`: a family's name, or empty.
inline storage::result<chat_template> loaded(const std::string& source, const std::string& bos,
                                             const std::string& eos,
                                             std::string_view renderer = {}) {
    const semantic::tests::temp_dir model;
    boost::json::object config{{"chat_template", source}};
    if (!bos.empty()) config["bos_token"] = bos;
    if (!eos.empty()) config["eos_token"] = eos;
    std::ofstream(model / "tokenizer_config.json") << boost::json::serialize(config);
    return chat_template::load(model.path(), renderer);
}

/// That source under the interpreter, as if it were a model's own template.
inline std::optional<chat_template> interpreted(const template_family& family) {
    const auto source = source_of(family);
    if (!source) return std::nullopt;
    return loaded(*source, std::string(family.bos), std::string(family.stop_tokens.back()),
                  own_template_family)
        .value();
}

}  // namespace semantic::engine
