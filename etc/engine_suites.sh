# SPDX-License-Identifier: Apache-2.0
# Which suites of engine_tests run where all of them would take too long. Sourced by sanitize.sh
# and coverage.sh.

# Suites of engine_tests that need no model and hand nothing to oneTBB.
without_model() {
    local IFS=:
    local suites=('save_gate_.*' 'plan_step.*' 'chunk_tokens.*' 'step_cost.*' 'wait_estimate.*'
        'admission_frames.*' 'decide_*.*' 'frames_to_free.*' 'may_start_*.*' 'next_candidate.*'
        'turn_replay.*' 'match_prefix.*' 'next_turn.*' 'output_parser.*' 'tool_call_parser.*'
        'stop_matcher.*' 'utf8_stream.*' 'tokenizer.*' 'chat_template.*' 'json_grammar.*'
        '*json_schema*' 'output_constraint.*' 'answer_grammar.*' 'sampler.*' 'model_config.*'
        'rope_frequencies.*' '*gguf_*.*' 'resolver_*.*' '*token_text*.*' 'jinja.*'
        'own_template.*' 'forged_turn.*' 'common_bytes.*' 'source_search_*.*' 'string_automaton.*'
        '*everyday_schema*' 'lenient_schema.*' 'wait_queue_*.*' 'sequence_set_*.*' 'open_choices.*'
        'admitter_.*' 'all/tool_call_formats.*' 'tool_calls.*' 'attention_scratch.*'
        'candidate_recipes.*' 'choose_recipe.*' 'recipe_order.*' 'recipe_score.*' 'recipe_bound.*'
        'code_points.*' 'delivery_.*' 'fitted_kv.*' 'kv_rotation.*' 'gbnf.*' 'text_form.*'
        'text_pattern.*' 'schema_corpus.*' 'match_tokens.*' 'match_canonical_prefix.*'
        'message_threads_.*' 'prompt_notes.*' 'prompt_text.*' 'prompt_tokens.*' 'seed_of_choice.*'
        'hostile_form.*' 'grammar_matcher.*' 'pair_index.*' 'schemas_apart.*' 'form_compiler_.*'
        'answer_grammars_cache.*' 'step_rows_.*' 'template_probe.*' 'template_values.*'
        'told_day_.*' 'mlx_weights.*' 'prefill_turns.*')
    echo "${suites[*]}"
}

of_kernels() {
    local IFS=:
    local suites=('every_table/*' 'gemm.*' 'dispatch.*' 'scalar_table.*' 'task_runner.*'
        'feed_forward.*' 'rounding_correction.*' 'cases/mixture.*' 'rope_angles.*')
    echo "${suites[*]}"
}
