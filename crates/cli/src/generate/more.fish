
# Beside what the definitions say: commands, tests of find, and the programs that trees knows.
# The lone dash ends what is for that function: what follows are ours that take a value.
complete -c nearfirst -n "__fish_nearfirst_using_subcommand run" -x -a '(__fish_complete_subcommand --fcs-skip=2 - --record --rules --memory)'
for word in @FIND@
    complete -c nearfirst -n "__fish_nearfirst_using_subcommand find" -o (string sub -s 2 -- $word)
end
complete -c nearfirst -n "__fish_nearfirst_using_subcommand trees; and __fish_seen_subcommand_from show forget" -f -a "(nearfirst trees --json 2>/dev/null | string replace -rf '.*\"program\":\{\"text\":\"([^\"\\\\\\\\]*)\"\}.*' '\$1')"
