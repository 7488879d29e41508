//! `~` and `~user` at the start of a pattern.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use store::Pattern;

/// With the home folder in place of `~` or `~user`, its name quoted.
pub(super) fn expanded(pattern: &[u8]) -> Result<Cow<'_, [u8]>, String> {
    let Some(rest) = pattern.strip_prefix(b"~") else { return Ok(Cow::Borrowed(pattern)) };
    let end = memchr::memchr(b'/', rest).unwrap_or(rest.len());
    let (user, path) = rest.split_at(end);
    let home = if user.is_empty() {
        std::env::var_os("HOME").filter(|home| !home.is_empty())
    } else {
        None
    };
    let home = match home {
        Some(home) => home,
        None => home_in_passwd(user)?,
    };
    let mut expanded = Pattern::quoted(home.as_bytes());
    expanded.extend_from_slice(path);
    Ok(Cow::Owned(expanded))
}

/// The home folder of `user`, or of who runs this if that is empty, by `/etc/passwd`.
fn home_in_passwd(user: &[u8]) -> Result<OsString, String> {
    let users = std::fs::read("/etc/passwd").unwrap_or_default();
    let own_uid = rustix::process::getuid().as_raw().to_string();
    let home = users.split(|&byte| byte == b'\n').find_map(|line| {
        let fields: Vec<&[u8]> = line.split(|&byte| byte == b':').collect();
        let [name, _, uid, _, _, home, ..] = fields.as_slice() else { return None };
        let is_it = if user.is_empty() { *uid == own_uid.as_bytes() } else { *name == user };
        is_it.then(|| OsStr::from_bytes(home).to_owned())
    });
    home.ok_or_else(|| match user {
        [] => "no home folder is known: $HOME is not set".to_owned(),
        user => format!("/etc/passwd has no user {}", String::from_utf8_lossy(user)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_home_folder_is_found() {
        let home = expanded(b"~root/x").expect("root has one").into_owned();
        assert!(home.ends_with(b"/x") && home.starts_with(b"/"), "{home:?}");
        assert!(expanded(b"~no:such/x").is_err());
        assert_eq!(expanded(b"a/~").expect("not at the start"), &b"a/~"[..]);
    }
}
