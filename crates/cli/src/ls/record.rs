//! The JSON objects of `ls --json`; `docs/json.md` describes them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use nearfirst::{Entry, Tier, unix_s};
use serde::Serialize;

use crate::json::Name;

#[derive(Serialize)]
pub(super) struct EntryRecord<'a> {
    r#type: &'static str,
    name: Name<'a>,
    bytes: Option<u64>,
    modified_unix_s: Option<f64>,
    tier: &'static str,
    class: Option<&'a str>,
    restored_until_unix_s: Option<f64>,
    version: Option<&'a str>,
    device: Option<&'a str>,
}

pub(super) fn entry(entry: &Entry) -> EntryRecord<'_> {
    let (tier, class, until) = match &entry.tier {
        Tier::Online => ("online", None, None),
        Tier::Cold { class } => ("cold", Some(class), None),
        Tier::Recalling { class } => ("recalling", Some(class), None),
        Tier::Recalled { class, until } => ("recalled", Some(class), *until),
    };
    EntryRecord {
        r#type: "object",
        name: Name::new(OsStr::from_bytes(entry.name.as_bytes())),
        bytes: entry.likely_size(),
        modified_unix_s: entry.modified.map(unix_s),
        tier,
        class: class.map(AsRef::as_ref),
        restored_until_unix_s: until.map(unix_s),
        version: entry.version.as_ref().map(nearfirst::Version::as_str),
        device: entry.device.as_ref().map(nearfirst::Device::name),
    }
}
