# Where an installation puts what, for the scripts that install. Of the environment: PREFIX, and BINDIR,
# LIBDIR, INCLUDEDIR, MANDIR, DOCDIR, UNITDIR (of systemd) and ZSHDIR (completions) for folders that are not
# where others have them.
prefix=${PREFIX:-/usr/local}
bindir=${BINDIR:-$prefix/bin}
libdir=${LIBDIR:-$prefix/lib}
includedir=${INCLUDEDIR:-$prefix/include}
mandir=${MANDIR:-$prefix/share/man}
docdir=${DOCDIR:-$prefix/share/doc/nearfirst}
unitdir=${UNITDIR:-$prefix/lib/systemd/system}
zshdir=${ZSHDIR:-$prefix/share/zsh/site-functions}
