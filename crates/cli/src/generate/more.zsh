# Beside what the definitions say: tests of find, commands of each, and the programs that trees knows.
_nearfirst_find() {
    if [[ $PREFIX == -* ]]; then
        compadd -- @FIND@
    else
        _files
    fi
}

# Behind `--` stands a command, which is completed as it is by itself.
_nearfirst_each() {
    local -a given
    given=(${(z)LBUFFER})
    if ((${given[(I)--]} == 0)); then
        _files
        return
    fi
    words=("${(@)given[${given[(I)--]} + 1,-1]}")
    [[ $LBUFFER != *' ' ]] || words+=('')
    CURRENT=$#words
    _normal
}

_nearfirst_programs() {
    local -a programs given where
    # The levels above have taken from `words` the flags that they know.
    given=(${(z)LBUFFER})
    given=(${given[${given[(I)trees]},-1]})
    # Of the patterns that are asked about, but those in a folder that is named.
    ((${given[(I)--state*]})) && return 1
    ((${given[(I)--service]})) && where=(--service)
    programs=(${(f)"$(nearfirst trees $where --json 2>/dev/null | sed -n 's/.*"program":{"text":"\([^"\\]*\)"}.*/\1/p')"})
    compadd -M 'l:|=* r:|=*' -a programs
}

