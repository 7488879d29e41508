//! The folders that specs name as they stand.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use nearfirst::{Name, Pattern, Spec};

/// Those in which an operand is looked for; none of a list, or of what is one name as it stands.
pub(crate) fn folders(operand: &OsStr) -> Vec<Name> {
    let glob = match Spec::parse(operand.as_bytes()) {
        Ok(Spec::Glob(glob)) if glob.names().is_none() => glob,
        Ok(Spec::Query { prefix: glob, .. } | Spec::Program { folder: glob, .. }) => glob,
        _ => return Vec::new(),
    };
    let alternatives = glob.alternatives().into_iter().flatten();
    alternatives.map(|pattern| Name::new(literal_folder(&pattern))).collect()
}

/// What stands before a pattern's first wildcard, up to its last slash.
pub(crate) fn literal_folder(pattern: &[u8]) -> Vec<u8> {
    let mut at = 0;
    while let Some(byte) = pattern.get(at) {
        match byte {
            b'*' | b'?' | b'[' => break,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    let literal = Pattern::unquoted(&pattern[..at.min(pattern.len())]).into_owned();
    folder_of(&literal).to_vec()
}

/// Everything up to the last slash.
pub(crate) fn folder_of(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    &bytes[..end]
}
