# Beside what the definitions say: tests of find, and the programs that trees knows.
_nearfirst_find() {
    if [[ $PREFIX == -* ]]; then
        compadd -- @FIND@
    else
        _files
    fi
}

_nearfirst_programs() {
    local -a programs
    programs=(${(f)"$(nearfirst trees --json 2>/dev/null | sed -n 's/.*"program":{"text":"\([^"\\]*\)"}.*/\1/p')"})
    compadd -M 'l:|=* r:|=*' -a programs
}

