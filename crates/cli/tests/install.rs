//! `make install`: what it puts where, and what it leaves as it is.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use testkit::{Cmd, Dir, Facility, cmd, skip_unless};

/// What was built: our command, a C library of one function, and what is said of others.
fn built() -> Dir {
    let dir = Dir::new();
    symlink(env!("CARGO_BIN_EXE_nearfirst"), dir.join("nearfirst")).expect("the machine allows it");
    dir.create("THIRD-PARTY.txt", "licences");
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

/// The bits of a file's mode that `chmod` sets.
fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("there").permissions().mode() & 0o7777
}

/// Makes a folder of this mode.
fn folder(root: &Dir, name: &str, mode: u32) -> PathBuf {
    let path = root.create_dir(name);
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("ours");
    path
}

#[test]
fn folders_that_are_there_stay_as_they_are() {
    skip_unless!(Facility::Tools(&["gcc", "ar", "strip", "objcopy"]));
    let (built, root) = (built(), Dir::new());
    // A private home, and a folder in which others may write.
    let folders = [("home/me", 0o700), ("home/me/.local/share", 0o1777)];
    let folders = folders.map(|(name, mode)| (folder(&root, name, mode), mode));
    let stay = |when: &str| {
        for (path, expected) in &folders {
            assert_eq!(mode(path), *expected, "{} {when}", path.display());
        }
    };
    for when in ["after the first installation", "after the next"] {
        let run = installer("install", root.path(), "/home/me/.local").arg(built.path()).run();
        let said = format!("installed under {}/home/me/.local\n", root.path().display());
        run.succeeds().prints(said);
        stay(when);
    }
    let home = root.join("home/me/.local");
    cmd(home.join("bin/nearfirst"), ["--version"]).run().succeeds();
    for text in ["README.md", "THIRD-PARTY.txt"] {
        assert_eq!(mode(&home.join("share/doc/nearfirst").join(text)), 0o644, "{text}");
    }
    let library = home.join("lib/libnearfirst.so");
    assert_eq!(fs::read_link(&library).expect("a link"), Path::new("libnearfirst.so.0"));
    assert!(library.exists() && home.join("share/man/man1/nearfirst.1").exists());
    installer("uninstall", root.path(), "/home/me/.local").run().succeeds();
    stay("when all is gone");
    cmd("find", [root.path()]).arg("!").arg("-type").arg("d").run().prints("");
}

#[test]
fn packagers_say_where_each_kind_of_file_goes() {
    skip_unless!(Facility::Tools(&["gcc", "ar", "strip", "objcopy"]));
    let (built, root) = (built(), Dir::new());
    let folders = [
        ("BINDIR", "/opt/bin", "nearfirst"),
        ("LIBDIR", "/usr/lib/x86_64-linux-gnu", "libnearfirst.so.0"),
        ("LIBDIR", "/usr/lib/x86_64-linux-gnu", "pkgconfig/nearfirst.pc"),
        ("INCLUDEDIR", "/usr/include/nearfirst", "nearfirst.h"),
        ("MANDIR", "/usr/man", "man1/nearfirst.1"),
        ("DOCDIR", "/usr/share/doc/packages/nearfirst", "docs/guide.md"),
        ("UNITDIR", "/usr/share/units", "nearfirst-watch.service"),
        ("ZSHDIR", "/usr/share/zsh/vendor-completions", "_nearfirst"),
    ];
    let install = installer("install", root.path(), "/usr").arg(built.path());
    let install = folders.iter().fold(install, |run, (name, folder, _)| run.env(name, folder));
    install.run().succeeds();
    for (name, folder, file) in folders {
        assert!(root.join(&folder[1..]).join(file).exists(), "{name}");
    }
    for others in ["bin", "include/nearfirst.h", "lib/systemd", "share/man", "share/doc/nearfirst"]
    {
        assert!(!root.join("usr").join(others).exists(), "{others}");
    }
    let text = |name: &str| fs::read_to_string(root.join(name)).expect(name);
    assert!(text("usr/share/units/nearfirst-watch.service").contains("=/opt/bin/nearfirst watch"));
    let pc = text("usr/lib/x86_64-linux-gnu/pkgconfig/nearfirst.pc");
    assert!(pc.contains("libdir=/usr/lib/x86_64-linux-gnu\nincludedir=/usr/include/nearfirst\n"));
    // It knows by its list where they are.
    installer("uninstall", root.path(), "/usr").run().succeeds();
    cmd("find", [root.path()]).arg("!").arg("-type").arg("d").run().prints("");
}

#[test]
fn a_folder_has_no_slash_at_its_end() {
    skip_unless!(Facility::Tools(&["gcc", "ar", "strip", "objcopy"]));
    let (built, root) = (built(), Dir::new());
    installer("install", root.path(), "/usr//").arg(built.path()).run().succeeds();
    let text = |name: &str| fs::read_to_string(root.join(name)).expect(name);
    let unit = text("usr/lib/systemd/system/nearfirst-watch.service");
    assert!(unit.contains("=/usr/bin/nearfirst watch\n"), "{unit}");
    assert!(text("usr/lib/pkgconfig/nearfirst.pc").starts_with("prefix=/usr\nlibdir=/usr/lib\n"));
    assert!(!text("usr/share/nearfirst/installed").contains("//"));
}

#[test]
fn a_folder_that_units_cannot_name_is_refused() {
    let root = Dir::new();
    for prefix in ["/a b", "/a%b", "/a&b", "/a|b", "/a\"b", "/a\\b", "relative", ""] {
        let run = installer("install", root.path(), prefix).run();
        run.ends_with(2).complains("install: PREFIX m").complains(&format!("'{prefix}'"));
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../capi/install.sh");
        let run = cmd("sh", [script]).arg(root.path()).env("PREFIX", prefix).run();
        run.ends_with(2).complains("install: PREFIX m");
    }
    // Others are not, nor what an earlier version may have installed.
    let run = installer("install", root.path(), "/ü:1=a,b").arg(root.path()).run();
    run.ends_with(2).complains("install: there is no ");
    for prefix in ["/a b", "/a&b"] {
        let run = installer("uninstall", root.path(), prefix).run();
        run.ends_with(1).complains("uninstall: nothing is installed under ");
    }
    let run = installer("install", root.path(), "/usr").env("LIBDIR", "lib64").run();
    run.ends_with(2).complains("install: LIBDIR must be an absolute path, not 'lib64'");
}

#[test]
fn a_relative_stage_lies_where_the_caller_is() {
    skip_unless!(Facility::Tools(&["gcc", "ar", "strip", "objcopy"]));
    let (built, root) = (built(), Dir::new());
    let installer = |what| installer(what, Path::new("stage"), "/usr").dir(root.path());
    installer("install").arg(built.path()).run().succeeds();
    assert!(root.join("stage/usr/bin/nearfirst").exists());
    installer("uninstall").run().succeeds();
    assert!(!root.join("stage/usr/bin/nearfirst").exists());
}

#[test]
fn other_tools_do_their_work_if_they_are_told() {
    skip_unless!(Facility::Tools(&["gcc", "ar", "strip", "objcopy"]));
    let (built, root) = (built(), Dir::new());
    let install = || installer("install", root.path(), "/usr").arg(built.path());
    install().env("STRIP", ":").run().succeeds();
    let program = fs::metadata(root.join("usr/bin/nearfirst")).expect("there").len();
    assert_eq!(program, fs::metadata(built.join("nearfirst")).expect("there").len());
    for tool in ["STRIP", "OBJCOPY", "NM", "LD", "AR"] {
        let run = install().env(tool, "/no/such/tool --at-all").run();
        assert_ne!(run.code(), 0, "{tool}");
        run.complains("/no/such/tool");
    }
}

#[test]
fn what_only_an_earlier_version_had_goes() {
    skip_unless!(Facility::Tools(&["gcc", "ar", "strip", "objcopy"]));
    let (built, root) = (built(), Dir::new());
    let install = || installer("install", root.path(), "/usr").arg(built.path()).run();
    install().succeeds();
    let list = root.join("usr/share/nearfirst/installed");
    let new = fs::read_to_string(&list).expect("a list");
    let old = ["usr/lib/libnearfirst.so.0.0.9", "usr/share/doc/nearfirst/old/text.md"];
    for name in old.iter().chain(&["usr/lib/libother.so.0.0.9"]) {
        root.create(name, "old");
    }
    fs::write(&list, format!("{}\n{new}", old.join("\n"))).expect("ours");
    install().succeeds();
    assert_eq!(fs::read_to_string(&list).expect("a list"), new);
    assert!(old.iter().all(|name| !root.join(name).exists()));
    assert!(!root.join("usr/share/doc/nearfirst/old").exists());
    assert!(root.join("usr/lib/libother.so.0.0.9").exists(), "it is another's");
    assert!(new.lines().all(|name| fs::symlink_metadata(root.join(name)).is_ok()));
}

/// Runs a program where systemd seems to run, with a `systemctl` that says what it was told, and takes the
/// first unit for ours and the others for another's.
const WITH_SYSTEMD: &str = r#"
mount -t tmpfs none /run && mkdir -p /run/systemd/system /run/bin && mount -t tmpfs none /var/lib || exit 99
mkdir /var/lib/nearfirst
cat >/run/bin/systemctl <<end
#!/bin/sh
case \$* in
show*nearfirst-calibrate.timer) echo $1/lib/systemd/system/nearfirst-calibrate.timer ;;
show*) echo /elsewhere ;;
*) echo "systemctl \$*; \$(ls $1/lib/systemd/system | wc -l) units" ;;
esac
end
printf '#!/bin/sh\n' >/run/bin/ldconfig
chmod +x /run/bin/*
shift
PATH=/run/bin:$PATH exec "$@"
"#;

#[test]
fn services_end_before_they_go_and_systemd_is_told() {
    skip_unless!(Facility::Root, Facility::Tools(&["gcc", "ar", "strip", "objcopy", "unshare"]));
    let (built, root) = (built(), Dir::new());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/install.sh");
    let installer = |what: &str| {
        let within = cmd("unshare", ["-m", "sh", "-c", WITH_SYSTEMD, "sh"]).arg(root.path());
        within.arg(script).arg(what).arg("").arg(root.path()).arg(built.path()).run()
    };
    let place = root.path().display();
    let hints = "to measure the devices at every boot: systemctl enable --now nearfirst-calibrate.timer\n\
                 to fetch ahead for all programs: systemctl enable --now nearfirst-watch\n";
    let told = "systemctl daemon-reload; 3 units\n";
    installer("install").succeeds().prints(format!("{told}installed under {place}\n{hints}"));
    installer("uninstall").succeeds().prints(format!(
        "systemctl disable --now nearfirst-calibrate.timer; 3 units\n\
         systemctl daemon-reload; 0 units\n\
         removed from {place}\n\
         what was measured and learned stays in /var/lib/nearfirst\n"
    ));
}

#[test]
fn links_in_the_texts_lead_to_what_lies_beside_them() {
    skip_unless!(Facility::Tools(&["gcc", "ar", "strip", "objcopy"]));
    let (built, root) = (built(), Dir::new());
    installer("install", root.path(), "/usr").arg(built.path()).run().succeeds();
    let texts = root.join("usr/share/doc/nearfirst");
    for name in ["README.md", "docs/guide.md", "docs/c.md", "docs/json.md", "docs/traces.md"] {
        let path = texts.join(name);
        let text = fs::read_to_string(&path).expect(name);
        let links = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
        for link in links.filter(|link| !link.contains("://")) {
            assert!(path.with_file_name(link).exists(), "{name}: {link}");
        }
    }
    installer("uninstall", root.path(), "/usr").run().succeeds();
    assert!(!texts.exists());
}

#[test]
fn the_c_library_alone_leaves_folders_as_they_are_too() {
    skip_unless!(Facility::Tools(&["gcc", "ar", "objcopy"]));
    let (built, root) = (built(), Dir::new());
    let include = folder(&root, "include", 0o2775);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../capi/install.sh");
    let private = cmd("sh", ["-c", "umask 077 && exec sh \"$@\"", "sh", script]);
    private.arg(built.path()).env("PREFIX", root.path()).without_env("DESTDIR").run().succeeds();
    assert_eq!(mode(&include), 0o2775);
    assert_eq!(mode(&root.join("lib/pkgconfig/nearfirst.pc")), 0o644, "for everybody");
}

#[test]
fn what_was_not_built_is_said_and_not_built_elsewhere() {
    let (built, root) = (Dir::new(), Dir::new());
    let run = installer("install", root.path(), "/usr").arg(".").dir(built.path()).run();
    let missing = format!("install: there is no {}/nearfirst", built.path().display());
    run.ends_with(2).complains(&missing);
    assert!(!root.join("usr").exists());
}
