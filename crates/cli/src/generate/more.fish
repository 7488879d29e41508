
# Beside what the definitions say: commands, tests of find, and the programs that trees knows.
# The lone dash ends what is for that function: what follows are ours that take a value.
complete -c nearfirst -n "__fish_nearfirst_using_subcommand run" -x -a '(__fish_complete_subcommand --fcs-skip=2 - --record --rules --memory --jobs --budget)'
for word in @FIND@
    complete -c nearfirst -n "__fish_nearfirst_using_subcommand find" -o (string sub -s 2 -- $word)
end
# The command behind the first `--`.
function __fish_nearfirst_behind
    set -l words (commandline -opc) (commandline -ct)
    set -l at (contains -i -- -- $words)
    set -l words $words[(math $at + 1)..-1]
    complete -C "$words"
end
complete -c nearfirst -n "__fish_nearfirst_using_subcommand each; and contains -- -- (commandline -opc)" -x -a '(__fish_nearfirst_behind)'

# Of the patterns that are asked about, but those in a folder that is named.
function __fish_nearfirst_programs
    __fish_contains_opt state; and return
    set -l where
    __fish_contains_opt service; and set where --service
    nearfirst trees $where --json 2>/dev/null | string replace -rf '.*"program":\{"text":"([^"\\\\]*)"\}.*' '$1'
end
complete -c nearfirst -n "__fish_nearfirst_using_subcommand trees; and __fish_seen_subcommand_from show forget" -f -a '(__fish_nearfirst_programs)'
