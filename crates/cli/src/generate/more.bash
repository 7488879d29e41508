
# Beside what the definitions say: files where no option is begun, commands, tests of find, and the
# programs that trees knows.
_nearfirst_and_more() {
    local cur=$2 at=2 word given=() name
    _nearfirst "$@"
    if [[ $cur != -* ]]; then
        for word in "${COMPREPLY[@]}"; do
            [[ $word == -* ]] || given+=("$word")
        done
        COMPREPLY=("${given[@]}")
    fi
    case ${COMP_WORDS[1]} in
    find)
        if [[ $cur == -* ]]; then
            COMPREPLY+=($(compgen -W "@FIND@" -- "$cur"))
        fi
        ;;
    run)
        while ((at < COMP_CWORD)) && [[ ${COMP_WORDS[at]} == -* ]]; do
            case ${COMP_WORDS[at++]} in
            --) break ;;
            --record | --rules | --memory | --jobs | --budget)
                if [[ ${COMP_WORDS[at]} == = ]]; then
                    ((at++))
                fi
                ((at++))
                ;;
            esac
        done
        _nearfirst_command "$at"
        ;;
    each)
        while ((at < COMP_CWORD)) && [[ ${COMP_WORDS[at]} != -- ]]; do
            ((at++))
        done
        _nearfirst_command "$((at + 1))"
        ;;
    trees)
        [[ $cur != -* && " ${COMP_WORDS[*]:2:COMP_CWORD-2} " == *\ @(show|forget)\ * ]] || return 0
        [[ $3 != --svg && $3 != --state ]] || return 0
        # Of the patterns that are asked about, but those in a folder that is named.
        case " ${COMP_WORDS[*]} " in
        *\ --state[\ =]*) return 0 ;;
        *\ --service\ *) given=(--service) ;;
        *) given=() ;;
        esac
        # As they stand: a name may hold what the shell would run.
        while IFS= read -r name; do
            if [[ $name == "$cur"* || ${name##*/} == "$cur"* ]]; then
                COMPREPLY+=("$(printf %q "$name")")
            fi
        done < <("$1" trees "${given[@]}" --json 2>/dev/null | sed -n 's/.*"program":{"text":"\([^"\\]*\)"}.*/\1/p')
        ;;
    esac
}

# Completes the command that begins with this word, and what follows it.
_nearfirst_command() {
    local word=${COMP_WORDS[COMP_CWORD]}
    if ((COMP_CWORD == $1)) && [[ $word != -* ]]; then
        COMPREPLY=()
        # A path is left to the shell, which knows folders and quotes names.
        [[ $word == */* ]] || mapfile -t COMPREPLY < <(compgen -c -- "$word")
    elif ((COMP_CWORD > $1)); then
        COMPREPLY=()
        if declare -F _comp_command_offset >/dev/null; then
            _comp_command_offset "$1"
        elif declare -F _command_offset >/dev/null; then
            _command_offset "$1"
        fi
    fi
}

complete -F _nearfirst_and_more -o bashdefault -o default nearfirst
