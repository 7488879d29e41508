//! Specs as text, and operands as patterns, those taken from the command's own sources: a program
//! has no library.

#[path = "../../cli/src/specs/mod.rs"]
mod sources;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;

use store::Local;

/// Paths that one operand may give before it is taken to be understood.
const PATHS_MAX: usize = 1000;

/// Any text is a spec or refused, a pattern is the same after it was written and read, and one
/// below a folder gives paths below it, or says why not.
pub fn specs(bytes: &[u8]) {
    if let Err(error) = set::Spec::parse(bytes) {
        assert!(!error.reason.is_empty(), "a refusal has a reason");
    }
    let pattern = set::Spec::glob(bytes);
    assert_eq!(set::Spec::parse(pattern.to_text()), Ok(pattern));
    // What leads elsewhere would walk this machine.
    if bytes.windows(2).any(|two| two == b"..") || bytes.contains(&0) {
        return;
    }
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src"));
    let mut spec = folder.as_os_str().as_encoded_bytes().to_vec();
    spec.push(b'/');
    spec.extend_from_slice(bytes);
    let local = Local::default();
    let operands = vec![OsString::from_vec(spec)];
    for found in sources::Specs::new(&local, operands).take(PATHS_MAX) {
        match found {
            Ok(path) => assert!(path.starts_with(folder), "{}", path.display()),
            Err(error) => assert!(!error.reason.is_empty(), "a refusal has a reason"),
        }
    }
}
