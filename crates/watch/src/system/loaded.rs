//! What programs ran, by the files that were opened for that: such a program may be gone, and its own folder
//! in `/proc` with it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use super::opens::Open;

/// What an exec ran, by what was loaded for it: a script, what interprets it, what links that.
pub(crate) fn program_of(mut loaded: Vec<Open>) -> Option<(tree::File, Vec<Arc<[u8]>>)> {
    let name = |open: &Open| {
        let path = Path::new(OsStr::from_bytes(&open.file.path)).file_name();
        path.map(OsStr::as_bytes).unwrap_or_default().to_vec()
    };
    if loaded.len() > 1 && loaded.last().is_some_and(Open::is_loader) {
        loaded.pop();
    }
    let program = loaded.pop()?;
    let mut arguments: Vec<Arc<[u8]>> = vec![name(&program).into()];
    arguments.extend(loaded.pop().map(|script| script.file.path));
    Some((program.file, arguments))
}

/// The folder in which a script was called by a relative name. A script may have gone elsewhere
/// before its folder could be looked at; but where it lies itself was told.
pub(crate) fn folder_by(loaded: &[Open], arguments: &[Arc<[u8]>]) -> Option<Arc<[u8]>> {
    let script = &loaded.first()?.file.path;
    let named = arguments.get(1..)?.iter().find_map(|argument| {
        let name = argument.strip_prefix(b"./").unwrap_or(argument);
        let folder = script.strip_suffix(name)?.strip_suffix(b"/")?;
        (!name.is_empty()).then_some(folder)
    })?;
    Some(if named.is_empty() { Arc::from(&b"/"[..]) } else { named.into() })
}
