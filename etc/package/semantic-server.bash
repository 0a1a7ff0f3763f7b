# Completion for semantic-server: options as the program itself lists them.
_semantic_server() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    case $previous in
        --config | --models-file | --api-key-file | --object-store-key-file | --log-file | --model)
            compopt -o default
            COMPREPLY=()
            return
            ;;
        --models-dir | --cache-dir)
            compopt -o dirnames
            COMPREPLY=()
            return
            ;;
        --log-level) COMPREPLY=($(compgen -W 'debug info warning error' -- "$current")) && return ;;
        --log-format) COMPREPLY=($(compgen -W 'text json' -- "$current")) && return ;;
        --metrics-for) COMPREPLY=($(compgen -W 'local admin all' -- "$current")) && return ;;
        --weights-access) COMPREPLY=($(compgen -W 'auto map read' -- "$current")) && return ;;
        --held-elsewhere)
            COMPREPLY=($(compgen -W 'refuse redirect serve' -- "$current")) && return
            ;;
        --auto-swap | --insecure | --log-prompts | --trust-content | --strict-model-names | --kv-events | \
            --packed-weights | --paged-weights | --verify-weights)
            COMPREPLY=($(compgen -W 'on off' -- "$current")) && return
            ;;
    esac
    local options
    options=$("${COMP_WORDS[0]}" --help 2>/dev/null | grep -oE -- '--[a-z][a-z-]+')
    COMPREPLY=($(compgen -W "$options" -- "$current"))
}
complete -F _semantic_server semantic-server
