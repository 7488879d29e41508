//! `make install`: what it puts where, and what it leaves as it is.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use testkit::{Cmd, Dir, Facility, cmd, skip_unless};

/// What was built: our command, and a C library of one function.
fn built() -> Dir {
    let dir = Dir::new();
    symlink(env!("CARGO_BIN_EXE_nearfirst"), dir.join("nearfirst")).expect("the machine allows it");
    dir.create("one.c", "int nf_one(void);\nint nf_one(void) { return 1; }\n");
    let build = "gcc -shared -fPIC -o libnearfirst_c.so one.c && gcc -c one.c && \
                 ar rcs libnearfirst_c.a one.o";
    cmd("sh", ["-c", build]).dir(dir.path()).run().succeeds();
    dir
}

fn installer(what: &str, root: &Path, prefix: &str) -> Cmd {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/install.sh");
    cmd(script, [what]).arg(root).arg(prefix)
}

#[test]
fn folders_that_are_there_stay_as_they_are() {
    skip_unless!(Facility::Tools(&["gcc", "ar", "strip", "objcopy"]));
    let (built, root) = (built(), Dir::new());
    // A private home, and a folder in which others may write.
    let folders = [("home/me", 0o700), ("home/me/.local/share", 0o1777)];
    let mode = |folder| fs::metadata(root.join(folder)).expect("there").permissions().mode();
    for (folder, mode) in folders {
        let path = root.create_dir(folder);
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
    }
    let modes = |when: &str| {
        for (folder, expected) in folders {
            assert_eq!(mode(folder) & 0o7777, expected, "{folder} {when}");
        }
    };
    for when in ["after the first installation", "after the next"] {
        let run = installer("install", root.path(), "/home/me/.local").arg(built.path()).run();
        let said = format!("installed under {}/home/me/.local\n", root.path().display());
        run.succeeds().prints(said);
        modes(when);
    }
    let home = root.join("home/me/.local");
    cmd(home.join("bin/nearfirst"), ["--version"]).run().succeeds();
    assert_eq!(mode("home/me/.local/share/doc/nearfirst/README.md") & 0o7777, 0o644);
    let library = home.join("lib/libnearfirst.so");
    assert_eq!(fs::read_link(&library).expect("a link"), Path::new("libnearfirst.so.0"));
    assert!(library.exists() && home.join("share/man/man1/nearfirst.1").exists());
    installer("uninstall", root.path(), "/home/me/.local").run().succeeds();
    modes("when all is gone");
    let left = cmd("find", [root.path()]).arg("!").arg("-type").arg("d").run();
    left.prints("");
}
