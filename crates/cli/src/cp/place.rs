//! Under which name a member is kept: pure, and never outside the folder it is copied to.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use nearfirst::{Glob, Name, Pattern, Spec};

use super::part;
use crate::sets::folder::{folder_of, literal_folder};

/// Where copies go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// Below this folder.
    Folder(PathBuf),
    /// To this file: there is one name.
    File(PathBuf),
}

/// What of a name is not kept: everything up to here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Base {
    /// What stands before the last slash.
    OwnFolder,
    /// This folder, which ends in a slash or is the current one; names elsewhere keep their last
    /// component only.
    Folder(Vec<u8>),
}

impl Base {
    /// Of the names that a spec stands for.
    pub(super) fn of(spec: &Spec) -> Self {
        match spec {
            Spec::Glob(glob) => Self::of_glob(glob),
            Spec::Program { folder, .. } => match folder.alternatives().as_slice() {
                [Ok(folder)] => Self::Folder(Pattern::unquoted(folder).into_owned()),
                _ => Self::OwnFolder,
            },
            Spec::Query { .. } | Spec::List(_) | Spec::ListFile(_) => Self::OwnFolder,
        }
    }

    /// The folder that all alternatives have before their first wildcard.
    fn of_glob(glob: &Glob) -> Self {
        let alternatives: Vec<Vec<u8>> = glob.alternatives().into_iter().flatten().collect();
        let mut folders = alternatives.iter().map(|pattern| literal_folder(pattern));
        let Some(first) = folders.next() else { return Self::OwnFolder };
        let common = folders.fold(first, |common, folder| {
            let same = common.iter().zip(&folder).take_while(|(a, b)| a == b).count();
            folder_of(&common[..same]).to_vec()
        });
        match Name::new(common.as_slice()).scheme() {
            // Nothing below a server or bucket is common to them.
            Some(scheme) if common.len() <= scheme.len() + 3 => Self::OwnFolder,
            _ => Self::Folder(common),
        }
    }

    /// The part of `name` that is kept.
    fn kept<'a>(&self, name: &'a Name) -> &'a [u8] {
        let bytes = name.without_query();
        match self {
            Self::Folder(folder) if folder.is_empty() && !is_relative(name) => name.file_name(),
            Self::Folder(folder) if bytes.starts_with(folder) => &bytes[folder.len()..],
            _ => name.file_name(),
        }
    }
}

/// Whether a spec is one name as it stands.
pub(super) fn is_one_name(spec: &Spec) -> bool {
    match spec {
        Spec::Glob(glob) => glob.names().is_some_and(|names| names.len() == 1),
        Spec::List(names) => names.len() == 1,
        Spec::Query { .. } | Spec::Program { .. } | Spec::ListFile(_) => false,
    }
}

/// The folder that a spec is looked for in, if that may meet files that are made meanwhile.
pub(super) fn looked_through(spec: &Spec) -> Option<Name> {
    if matches!(spec, Spec::Glob(glob) if glob.names().is_some()) {
        return None;
    }
    match Base::of(spec) {
        Base::Folder(folder) => Some(Name::new(folder)),
        Base::OwnFolder => None,
    }
}

/// The file that a member becomes.
///
/// # Errors
/// Why its name cannot be one below the target.
pub(super) fn dest(target: &Target, base: &Base, name: &Name) -> Result<PathBuf, &'static str> {
    let folder = match target {
        Target::File(path) => return Ok(path.clone()),
        Target::Folder(folder) => folder,
    };
    // As `find .` prints names.
    let kept = base.kept(name);
    let kept = kept.strip_prefix(b"./").unwrap_or(kept);
    let mut dest = folder.clone();
    for component in kept.split(|&byte| byte == b'/') {
        let component = name.on_disk(component);
        match &*component {
            b"" => return Err("its name has an empty component, which no file can have"),
            b"." => return Err("its name has a component `.`, which no file can have"),
            b".." => return Err("its name leads out of the folder"),
            component if component.contains(&0) => return Err("its name has a NUL byte"),
            component if part::is_ours(component) => {
                return Err("a file of its name would be taken for a part of another");
            }
            component => dest.push(OsStr::from_bytes(component)),
        }
    }
    Ok(dest)
}

fn is_relative(name: &Name) -> bool {
    name.scheme().is_none() && !name.as_bytes().starts_with(b"/")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[track_caller]
    fn becomes(spec: &str, name: &str, expected: Result<&str, ()>) {
        let spec = Spec::parse(spec).expect("a spec");
        let target = Target::Folder(PathBuf::from("d"));
        let dest = dest(&target, &Base::of(&spec), &Name::from(name));
        assert_eq!(dest.map_err(drop), expected.map(|path| Path::new("d").join(path)), "{name}");
    }

    #[test]
    fn patterns_keep_the_folders_below_their_first_wildcard() {
        becomes("s3://b/2026/**/*.gz", "s3://b/2026/01/a.gz", Ok("01/a.gz"));
        becomes("s3://b/2*/x/*.gz", "s3://b/2026/x/a.gz", Ok("2026/x/a.gz"));
        becomes("s3://b/k/a.gz", "s3://b/k/a.gz", Ok("a.gz"));
        becomes("s3://b/{k,l}/a.gz", "s3://b/l/a.gz", Ok("l/a.gz"));
        becomes("s3://b/{k/*,k/l/*}", "s3://b/k/l/a", Ok("l/a"));
        becomes("{s3://b,s3://c}/k/*", "s3://c/k/a", Ok("a"));
        becomes("data/*/x", "data/1/x", Ok("1/x"));
        becomes("*", "a", Ok("a"));
        becomes("/data/\\[x\\]/*", "/data/[x]/a", Ok("a"));
    }

    #[test]
    fn what_is_not_below_the_pattern_keeps_its_last_component() {
        becomes("https://h/p.html\\a\\", "https://other/x/y.pdf?v=1", Ok("y.pdf"));
        becomes("/src/%find .%", "/src/a/b.c", Ok("a/b.c"));
        becomes("%find .%", "a/b.c", Ok("a/b.c"));
        becomes("%find /src%", "/src/a/b.c", Ok("b.c"));
        becomes("%cat list%", "s3://b/k/a.gz", Ok("a.gz"));
    }

    #[test]
    fn what_urls_say_by_percent_signs_is_a_files_name_where_it_can_be() {
        becomes("https://h/p.html\\a\\", "https://h/My%20Paper.pdf", Ok("My Paper.pdf"));
        becomes("https://h/*/*.txt", "https://h/%C3%BC/100%.txt", Ok("ü/100%.txt"));
        becomes("https://h/a%2Fb", "https://h/a%2Fb", Ok("a%2Fb"));
        becomes("https://h/*", "https://h/%2e%2E", Ok("%2e%2E"));
        becomes("https://h/*", "https://h/%2e", Ok("%2e"));
        becomes("https://h/*", "https://h/a%00", Ok("a%00"));
        becomes("s3://b/*", "s3://b/a%20b", Ok("a%20b"));
    }

    #[test]
    fn what_patterns_and_programs_stand_for_is_looked_for_in_a_folder() {
        for (spec, folder) in [
            ("data/*/x", Some("data/")),
            ("**", Some("")),
            ("{a/*,b}", Some("")),
            ("/src/%find .%", Some("/src/")),
            ("data/x", None),
            ("{a,b}", None),
            ("s3://b/a*", Some("s3://b/")),
            ("https://h/p.html\\a\\", None),
        ] {
            let looked = looked_through(&Spec::parse(spec).expect("a spec"));
            assert_eq!(looked, folder.map(Name::from), "{spec}");
        }
    }

    #[test]
    fn no_name_leads_out_of_the_folder() {
        for name in ["s3://b/../../etc/passwd", "s3://b/a//b", "s3://b//etc/passwd", "s3://b/a/./b"]
        {
            becomes("s3://b/**", name, Err(()));
        }
        for name in ["s3://b/.a.nearfirst-part", "s3://b/c/.a.nearfirst-version"] {
            becomes("s3://b/**", name, Err(()));
        }
        becomes("s3://b/**", "s3://b/a.nearfirst-part", Ok("a.nearfirst-part"));
        becomes("https://h/p.html\\a\\", "https://h/", Err(()));
        becomes("https://h/p.html\\a\\", "https://h/..", Err(()));
    }

    #[test]
    fn a_dot_is_said_to_be_no_name_and_not_to_lead_out() {
        let target = Target::Folder(PathBuf::from("d"));
        let base = Base::of(&Spec::parse("s3://b/**").expect("a spec"));
        let reason = dest(&target, &base, &Name::from("s3://b/end/.")).expect_err("no name");
        assert_eq!(reason, "its name has a component `.`, which no file can have");
    }
}
