# Where an installation puts what, for the scripts that install. Of the environment: PREFIX, and BINDIR,
# LIBDIR, INCLUDEDIR, MANDIR, DOCDIR, UNITDIR (of systemd) and ZSHDIR (completions) for folders that are not
# where others have them.

# place NAME FOLDER: prints the folder without slashes at its end. Fails where it is relative and, if
# `action` is `install`, where it cannot stand in units and in what pkg-config reads.
place() {
    case $2 in
    /*) ;;
    *)
        echo "install: $1 must be an absolute path, not '$2'" >&2
        return 2
        ;;
    esac
    case $action$2 in
    install*[[:space:][:cntrl:]\"\'\`\\\$\#%\&\|\;\<\>\(\)]*)
        printf '%s\n' "install: $1 may have no white space and none of \"'\`\\\$#%&|;<>() in it, as '$2' has: \
units of systemd and pkg-config would take it for something else" >&2
        return 2
        ;;
    esac
    printf '%s\n' "$2" | sed 's|//*$||'
}

prefix=$(place PREFIX "${PREFIX-/usr/local}")
bindir=$(place BINDIR "${BINDIR:-$prefix/bin}")
libdir=$(place LIBDIR "${LIBDIR:-$prefix/lib}")
includedir=$(place INCLUDEDIR "${INCLUDEDIR:-$prefix/include}")
mandir=$(place MANDIR "${MANDIR:-$prefix/share/man}")
docdir=$(place DOCDIR "${DOCDIR:-$prefix/share/doc/nearfirst}")
unitdir=$(place UNITDIR "${UNITDIR:-$prefix/lib/systemd/system}")
zshdir=$(place ZSHDIR "${ZSHDIR:-$prefix/share/zsh/site-functions}")
