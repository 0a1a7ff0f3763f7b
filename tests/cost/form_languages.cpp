// SPDX-License-Identifier: Apache-2.0
#include "tests/cost/languages.hpp"

namespace semantic::cost {

std::vector<piece_kind> json_kinds() {
    return {
        {'s',
         ",",
         {R"({"type":"string"})",
          R"({"$ref":"#/$defs/`@"})",
          R"({"$ref":"#/$defs/`@","minLength":`%})",
          R"({"$ref":"#/$defs/`@","required":[`*r]})",
          R"({"$ref":"#"})",
          R"({"allOf":[`*s]})",
          R"({"anyOf":[`*s]})",
          R"({"oneOf":[`*s]})",
          R"({"anyOf":[`*s],"properties":{`*q}})",
          R"({"allOf":[{"$ref":"#/$defs/`@"},{"$ref":"#/$defs/`@"},`1s],"title":"`$"})",
          R"({"type":"object","properties":{`*q}})",
          R"({"type":"object","properties":{`*q},"additionalProperties":true})",
          R"({"type":"object","properties":{`*q},"additionalProperties":`1s})",
          R"({"type":"object","properties":{`*q},"additionalProperties":false,"required":[`*r]})",
          R"({"type":"object","properties":{`*q},"additionalProperties":false,)"
          R"("minProperties":`%,"maxProperties":`%})",
          R"({"type":"object","properties":{"`$":`1s},"additionalProperties":true,)"
          R"("required":["`$"]})",
          R"({"type":"object","required":[`*r]})",
          R"({"type":"object","properties":{"k":{"const":"c`#"}},"required":["k"]})",
          R"({"properties":{"a":{"minLength":`#},"b":`1s}})",
          R"({"patternProperties":{"`$":`1s}})",
          R"({"propertyNames":{"enum":[`*r]}})",
          R"({"type":"array","items":`1s,"minItems":`%,"maxItems":`%})",
          R"({"type":"array","prefixItems":[`*s],"items":`1s})",
          R"({"type":"array","uniqueItems":true,"items":{"enum":[`*v]},"minItems":`%})",
          R"({"enum":[`*v]})",
          R"({"enum":[`*r]})",
          R"({"const":`1v})",
          R"({"type":["string","number","object","array","null"]})",
          R"({"type":"string","minLength":`%,"maxLength":`%})",
          R"({"type":"string","maxLength":1000,"pattern":"`*x"})",
          R"({"type":"string","pattern":"^`*x$","minLength":`%})",
          R"({"pattern":"^[a-z]*[`$`#]+x{900}$","format":"date-time"})",
          R"({"type":"string","format":"ipv6","maxLength":`#})",
          R"({"type":"string","format":"email","minLength":`#})",
          R"({"type":"number","multipleOf":0.251,"minimum":`#})",
          R"({"type":"number","minimum":-`#.123456789,"maximum":`#9999.987654321})",
          R"({"type":"integer","multipleOf":255})",
          R"({"type":"integer","minimum":`#,"maximum":1`#00000})",
          R"({"not":`1s})",
          R"({"$defs":{`*q},"anyOf":[`*s]})",
          "true"}},
        {'q',
         ",",
         {R"("p`#":{})", R"("p`#":`1s)", R"("n`#":`1s)", R"("`@":`1s)", R"("p`$":`1s)",
          R"("é`#":`1s)", R"("p`#":{"type":"string"},"p`#":{"type":"number"})"}},
        {'v',
         ",",
         {"0", "`#", "[`#,`#,`#,`#,`#,`#,`#,`#]", "\"`$\"", "\"`$`#\"", "[`*v]", R"({"a`#":`1v})",
          R"({"a":`1v,"b`#":[`*v]})", "-`#.5e3", "null", "true", "12345678901234567890`#",
          "0.1000`#"}},
        {'r', ",", {R"("r`#")", R"("`@")", R"("`$`#")", R"("r`%")", R"("p`#")", R"("\u00e9`#")"}},
        {'x', "", {"a",       "`$",        "[a-z]",       "[^a-c`$]",  "\\\\d",
                   ".",       "(`*x)",     "(?:`*x)",     "(`*x)*",    "(`*x)+",
                   "(`*x)?",  "(`*x){`%}", "(`*x){1,99}", "(`1x|`1x)", "(`1x|`1x|`1x|)",
                   "a{1000}", "(a?){100}", ".*.*",        "(?=`*x)",   "(?!`*x)",
                   "(a|aa)+"}},
    };
}

const language& schemas() {
    static const language made{
        R"({"$defs":{"n0":`1s,"n1":`1s,"n2":{"type":"object","properties":{`*q}},`*q},)"
        R"("allOf":[`*s],"anyOf":[`1s]})",
        json_kinds()};
    return made;
}

const language& grammars() {
    static const language made{
        "root ::= `*e\nn0 ::= \"a\" n0 | \"b\" | \"\"\nn1 ::= n0 n0 | [a-z]\nn2 ::= `1e `*u\n",
        {{'e',
          " ",
          {"\"a\"",
           "\"`$\"",
           "[a-z]",
           "[^a`#]",
           "[é-ü日-本\\U00010000-\\U0010ffff]",
           "n0",
           "n1",
           "n2",
           ".",
           "(`*e)",
           "(`*e)*",
           "(`*e)+",
           "(`*e)?",
           "(`*e){`%}",
           "(`*e){1,`%}",
           "(`1e | `1e)",
           "(`1e | `1e | `1e | \"\")",
           "\"a\"?",
           "\"a\"{9999}",
           "((\"a\"?){99}){99}",
           "[a-z]{0,9999}",
           "((.{0,40}){0,20}(.*)?){0,9}",
           "\"\\x41\\u00e9\""}},
         {'u',
          "",
          {"\nm`# ::= \"a\"", "\nm`# ::= `*e", "\nm`# ::= \"a\" m`= | \"a\" n0 n1 | \"\"",
           "\nm`# ::= n0 n1 n2", "\nm`# ::= n0 | n1 | n2", "\n# `$", "\n\n\n   \n"}}}};
    return made;
}

const language& expressions() {
    static const language made{"`*x",
                               {{'x',
                                 "",
                                 {"a",
                                  "`$",
                                  "[a-z]",
                                  "[^a-c`$]",
                                  "\\d",
                                  "\\W",
                                  "é日",
                                  ".",
                                  "(`*x)",
                                  "(?:`*x)",
                                  "(`*x)*",
                                  "(`*x)+",
                                  "(`*x)?",
                                  "(`*x){`%}",
                                  "(`*x){1,999}",
                                  "(`1x|`1x)",
                                  "(`1x|`1x|`1x|)",
                                  "a?",
                                  "a{1000}",
                                  "(a?){1000}",
                                  ".*",
                                  ".*.*",
                                  "[`$]",
                                  "(?=`*x)",
                                  "(?!`*x)",
                                  "x{0,999}",
                                  "(a|aa)+",
                                  "((a*)*)*",
                                  "\\u00e9",
                                  "[\\w\\s]",
                                  "(a|b`#)*",
                                  "[ab`#]",
                                  "\\\\",
                                  "((.{0,40}){0,20}(.*)?){0,9}"}}}};
    return made;
}

}  // namespace semantic::cost
