//! Folders of this machine that are bound to a database or a server, as the configuration says.

use std::borrow::Cow;
use std::fmt;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::local::absolute;
use crate::own_folder::own_folder;
use crate::{Error, Local, Name};

/// The system's configuration; a user's stands before it.
const SYSTEM: &str = "/etc/nearfirst/config.toml";
/// A configuration is small; more than this is not one.
const BYTES_MAX: u64 = 1 << 20;

/// Which store answers questions that are put to a folder: the SETS paper's
/// `/staff/\select …\` (section 3.3) goes to the database that `/staff` is bound to.
///
/// ```toml
/// [[bind]]
/// prefix = "/staff"
/// store = "postgres://reader@db.example/staff"
/// ```
///
/// ```
/// use nearfirst_store::{Bindings, Name};
///
/// let bindings = Bindings::from_toml(
///     r#"bind = [{ prefix = "/staff", store = "postgres://reader@db/staff" }]"#,
/// )?;
/// let store = bindings.store_of(&Name::from("/staff/"));
/// assert_eq!(store, Some(Name::from("postgres://reader@db/staff")));
/// assert_eq!(bindings.store_of(&Name::from("/staffing")), None);
/// # Ok::<(), nearfirst_store::Error>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Bindings(Vec<Binding>);

#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Binding {
    prefix: PathBuf,
    store: String,
}

/// The part of the configuration that this reads; others are others' matter.
#[derive(Default, Deserialize)]
struct Config {
    #[serde(default)]
    bind: Vec<Binding>,
}

impl fmt::Debug for Bindings {
    /// Without the stores: their URLs may hold passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.iter().map(|binding| &binding.prefix)).finish()
    }
}

impl Bindings {
    /// Of `$XDG_CONFIG_HOME/nearfirst/config.toml` (by default under
    /// `~/.config`), over those of `/etc/nearfirst/config.toml`. A file that is
    /// not there binds nothing, nor does one in a folder that is closed to us, as root's
    /// home is to a program that root has started as another user. A mount that does not answer is
    /// waited for as `local` does.
    ///
    /// # Errors
    /// [`Error::Io`] of a file that cannot be read, [`Error::Refused`] of one
    /// that cannot be understood; [`Error::Stalled`].
    pub fn load(local: &Local) -> Result<Self, Error> {
        let folder = own_folder("XDG_CONFIG_HOME", ".config");
        let user = folder.map(|folder| folder.join("nearfirst/config.toml"));
        let mut all = Self::default();
        for path in user.iter().map(PathBuf::as_path).chain([Path::new(SYSTEM)]) {
            all.0.extend(read_in_time(path, local)?.0);
        }
        Ok(all)
    }

    /// Of a configuration's text.
    ///
    /// # Errors
    /// [`Error::Refused`] with the line that is wrong, not its content; of a prefix that is not absolute.
    pub fn from_toml(text: &str) -> Result<Self, Error> {
        let mut config: Config = toml::from_str(text).map_err(|error: toml::de::Error| {
            let before = text.get(..error.span().map_or(0, |span| span.start)).unwrap_or("");
            let line = before.matches('\n').count() + 1;
            Error::refused("config.toml", format!("line {line}: {}", error.message()))
        })?;
        for Binding { prefix, .. } in &mut config.bind {
            if !prefix.is_absolute() {
                let reason = "a prefix that is bound must be an absolute path";
                return Err(Error::refused(prefix.as_path(), reason));
            }
            *prefix = absolute(prefix).expect("it begins in no other folder").into_owned();
        }
        Ok(Self(config.bind))
    }

    /// The store that questions to this path go to: that of the longest prefix
    /// of whole components; a user's before the system's. A relative path begins in the current folder.
    pub fn store_of(&self, name: &Name) -> Option<Name> {
        let path = name.path().filter(|_| !self.0.is_empty())?;
        let path = absolute(path).unwrap_or(Cow::Borrowed(path));
        let bound = self.0.iter().rev().filter(|binding| path.starts_with(&binding.prefix));
        let longest = bound.max_by_key(|binding| binding.prefix.components().count())?;
        let store = Name::from(&*longest.store);
        // Names that a file of SQLite's gives would be in its folder, and are in the one that is bound.
        let is_file = store.path().is_some() && !longest.store.starts_with("sqlite:");
        Some(if is_file { Name::from(format!("sqlite:{}", longest.store)) } else { store })
    }
}

fn read_in_time(path: &Path, local: &Local) -> Result<Bindings, Error> {
    let file = path.to_owned();
    local.bounded(path, move || read(&file))?
}

fn read(path: &Path) -> Result<Bindings, Error> {
    let failed = |error| Error::io(path, error);
    match fs::metadata(path) {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
            ) =>
        {
            return Ok(Bindings::default());
        }
        Err(error) => return Err(failed(error)),
        Ok(metadata) if metadata.file_type().is_fifo() => {
            return Err(Error::refused(path, "a pipe, so no configuration"));
        }
        Ok(metadata) if metadata.len() > BYTES_MAX => {
            return Err(Error::refused(path, "too large to be a configuration"));
        }
        Ok(_) => {}
    }
    // To open a pipe, which may have come meanwhile, would wait for who writes to it.
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(failed)?;
    let mut text = String::new();
    file.take(BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
    Bindings::from_toml(&text).map_err(|error| Error::refused(path, error.reason()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use testkit::{Facility, SlowDir, skip_unless};

    use super::*;

    fn bindings(text: &str) -> Bindings {
        Bindings::from_toml(text).expect("well formed")
    }

    #[test]
    fn the_longest_prefix_of_whole_components_answers() {
        let bindings = bindings(
            r#"
            [[bind]]
            prefix = "/staff/"
            store = "postgres://h/staff"
            [[bind]]
            prefix = "/staff/old"
            store = "sqlite:///old.db"
            [[bind]]
            prefix = "/staff"
            store = "mysql://h/system"
            [[bind]]
            prefix = "/files"
            store = "/other/names.db"
            [[bind]]
            prefix = "/kept"
            store = "sqlite:/other/names.db"
            [other]
            key = 1
            "#,
        );
        for (name, store) in [
            ("/staff", Some("postgres://h/staff")),
            ("/staff/new/", Some("postgres://h/staff")),
            ("/staff/old/", Some("sqlite:///old.db")),
            ("/files/", Some("sqlite:/other/names.db")),
            ("/kept/", Some("sqlite:/other/names.db")),
            ("/staffing", None),
            ("staff", None),
            ("s3://staff", None),
        ] {
            assert_eq!(bindings.store_of(&Name::from(name)), store.map(Name::from), "{name}");
        }
    }

    #[test]
    fn a_relative_path_is_bound_as_the_one_that_it_means() {
        let here = std::env::current_dir().expect("a folder");
        let prefix = here.join("staff").display().to_string();
        let bindings =
            bindings(&format!("bind = [{{ prefix = {prefix:?}, store = \"mysql://h/s\" }}]"));
        for name in ["staff", "./staff/", "staff/new", "other/../staff", "./other/.././staff/."] {
            assert!(bindings.store_of(&Name::from(name)).is_some(), "{name}");
        }
        for name in ["", ".", "staff/..", "staffing", "other/staff"] {
            assert_eq!(bindings.store_of(&Name::from(name)), None, "{name}");
        }
    }

    #[test]
    fn a_prefix_is_the_folder_that_it_means() {
        for prefix in ["/staff", "//staff/", "/staff/.", "/./other/../staff", "/../staff/new/.."] {
            let text = format!("bind = [{{ prefix = {prefix:?}, store = \"mysql://h/s\" }}]");
            assert!(bindings(&text).store_of(&Name::from("/staff/new")).is_some(), "{prefix}");
        }
    }

    #[test]
    fn a_configuration_that_would_be_waited_for_is_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let fifo = folder.path().join("config.toml");
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, kind, 0o600.into(), 0).expect("made");
        let read = read_in_time(&fifo, &Local::default());
        assert!(matches!(read, Err(Error::Refused { .. })), "{read:?}");
    }

    #[test]
    fn a_configuration_that_is_the_null_device_binds_nothing() {
        let read = read_in_time(Path::new("/dev/null"), &Local::default());
        assert_eq!(read.expect("it is empty"), Bindings::default());
    }

    #[test]
    fn a_configuration_on_a_mount_that_does_not_answer_is_given_up() {
        skip_unless!(Facility::Root, Facility::Fuse);
        let slow = SlowDir::new(slowfs::Options::default());
        let path = slow.create("config.toml", "");
        let hang = slowfs::Profile { hang: true, ..slowfs::Profile::default() };
        slow.mount().set_rules(vec![slowfs::Rule::all(hang)]);
        let read = read_in_time(&path, &Local::new(Duration::from_millis(50)));
        assert!(matches!(read, Err(Error::Stalled { .. })), "{read:?}");
        slow.mount().set_rules(Vec::new());
    }

    #[test]
    fn what_is_wrong_is_said_without_what_may_be_secret() {
        let text = "[[bind]]\nprefix = \"/a\"\nstore = \"postgres://u:secret@h\"\nstore = 1";
        let error = Bindings::from_toml(text).expect_err("broken").to_string();
        assert!(error.contains("line 4") && !error.contains("secret"), "{error}");
        let relative = Bindings::from_toml("bind = [{ prefix = \"a\", store = \"x\" }]");
        assert!(relative.is_err());
        let good = bindings("bind = [{ prefix = \"/a\", store = \"postgres://u:secret@h\" }]");
        assert!(!format!("{good:?}").contains("secret"));
    }
}
