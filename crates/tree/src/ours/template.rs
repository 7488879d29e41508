//! Names that follow from how a program was called: `{folder}/Makefile`, `{argument}`,
//! `{argument's stem}.h`.

use super::Invocation;
use super::invocation::FOLDERS_MAX;

/// Folders whose files do not move with the arguments: what is beside a library that an argument
/// names is beside no other one.
const SYSTEM: [&[u8]; 4] = [b"/usr/", b"/lib/", b"/lib64/", b"/etc/"];

/// What a template is relative to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Base {
    /// The working folder.
    Folder = b'c',
    /// The file an argument names.
    Argument = b'a',
    /// What is in a folder an argument names.
    Within = b'f',
    /// What has the argument's name but another extension.
    Stem = b's',
    /// What is in the same folder as the file an argument names.
    Beside = b'd',
}

/// Whether a name is a template: no path begins so.
pub(crate) fn is_template(name: &[u8]) -> bool {
    name.first() == Some(&0)
}

/// The templates that a path is an instance of.
pub(crate) fn templates(path: &[u8], invocation: &Invocation) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    if let Some(named) = invocation.named.iter().find(|named| named.path == path) {
        return vec![template(Base::Argument, &named.role, b"")];
    }
    if SYSTEM.iter().any(|folder| path.starts_with(folder)) {
        return found;
    }
    let mut beside: Option<&[u8]> = None;
    for named in invocation.named.iter().take(FOLDERS_MAX) {
        if let Some(rest) = below(path, &named.path) {
            found.push(template(Base::Within, &named.role, rest));
            break;
        }
        if let Some(rest) = path.strip_prefix(stem(&named.path))
            && !rest.contains(&b'/')
            && rest.starts_with(b".")
        {
            found.push(template(Base::Stem, &named.role, rest));
            break;
        }
        if beside.is_none()
            && let Some(rest) = below(path, folder(&named.path))
        {
            beside = Some(rest);
            found.push(template(Base::Beside, &named.role, rest));
        }
    }
    if let Some(rest) = below(path, &invocation.folder) {
        found.push(template(Base::Folder, b"", rest));
    }
    found
}

/// The paths that a template stands for under an invocation.
pub(crate) fn expand(template: &[u8], invocation: &Invocation) -> Vec<Vec<u8>> {
    let Some((&[0, base], rest)) = template.split_first_chunk::<2>() else { return Vec::new() };
    let Some(end) = rest.iter().position(|&byte| byte == 0) else { return Vec::new() };
    let (role, rest) = (&rest[..end], &rest[end + 1..]);
    if base == Base::Folder as u8 {
        return vec![[&invocation.folder, rest].concat()];
    }
    let named = invocation.named.iter().filter(|named| named.role == role);
    let expanded = |path: &[u8]| match base {
        base if base == Base::Argument as u8 => path.to_vec(),
        base if base == Base::Within as u8 => [path, rest].concat(),
        base if base == Base::Stem as u8 => [stem(path), rest].concat(),
        _ => [folder(path), rest].concat(),
    };
    named.map(|named| expanded(&named.path)).collect()
}

fn template(base: Base, role: &[u8], rest: &[u8]) -> Vec<u8> {
    [&[0, base as u8], role, &[0], rest].concat()
}

/// What of a path, from its `/` on, is below a folder that is not the root.
fn below<'a>(path: &'a [u8], folder: &[u8]) -> Option<&'a [u8]> {
    let rest = path.strip_prefix(folder)?;
    (folder.len() > 1 && rest.len() > 1 && rest[0] == b'/').then_some(rest)
}

fn folder(path: &[u8]) -> &[u8] {
    &path[..path.iter().rposition(|&byte| byte == b'/').unwrap_or(0)]
}

fn stem(path: &[u8]) -> &[u8] {
    let begin = folder(path).len() + 1;
    let dot = path.iter().skip(begin + 1).rposition(|&byte| byte == b'.');
    &path[..dot.map_or(path.len(), |place| begin + 1 + place)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ours::invocation::tests::invocation;

    #[test]
    fn what_one_run_opened_says_what_another_will() {
        let first = invocation("cc -c src/a.c -I inc", "/w");
        let second = invocation("cc -c lib/b.c -I api", "/v");
        for (opened, expected) in [
            ("/w/src/a.c", "/v/lib/b.c"),
            ("/w/src/a.h", "/v/lib/b.h"),
            ("/w/src/common.h", "/v/lib/common.h"),
            ("/w/inc/x/y.h", "/v/inc/x/y.h"),
            ("/w/config", "/v/config"),
        ] {
            let paths: Vec<Vec<u8>> = (templates(opened.as_bytes(), &first).iter())
                .flat_map(|template| expand(template, &second))
                .collect();
            assert!(paths.contains(&expected.as_bytes().to_vec()), "{opened}: {paths:?}");
        }
        assert!(templates(b"/usr/include/stdio.h", &first).is_empty());
    }

    #[test]
    fn an_argument_that_is_missing_expands_to_nothing() {
        let first = invocation("cc -c a.c", "/w");
        let template = &templates(b"/w/a.c", &first)[0];
        assert!(expand(template, &invocation("cc --version", "/w")).is_empty());
        assert!(expand(b"\0", &first).is_empty() && expand(b"\0a", &first).is_empty());
    }
}
