//! The reader of `/proc/self/mountinfo`, where anyone who may mount writes names.

use std::path::Path;

use store::Mounts;

/// Lines that are none are passed over; every path on a mount finds one.
pub fn mountinfo(bytes: &[u8]) {
    let mounts = Mounts::parse(bytes);
    assert!(mounts.all().len() <= bytes.split(|&byte| byte == b'\n').count());
    for mount in mounts.all() {
        assert!(mounts.by_id(mount.id).is_some());
        let found = mounts.by_path(&mount.point.join("file"));
        assert!(
            found.is_none_or(|found| mount.point.starts_with(&found.point)
                || found.point.starts_with(&mount.point))
        );
    }
    assert!(
        mounts
            .by_path(Path::new("relative"))
            .is_none_or(|mount| mount.point.as_os_str().is_empty())
    );
}
