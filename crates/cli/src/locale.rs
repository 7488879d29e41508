//! What may be written in the user's locale.

use std::sync::LazyLock;

/// Whether the locale's name says that text is UTF-8; without a name it is the C locale.
pub(crate) fn is_utf8() -> bool {
    static IS_UTF8: LazyLock<bool> = LazyLock::new(|| {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).is_some_and(|name| {
            let name = name.to_string_lossy().to_ascii_lowercase();
            name.contains("utf-8") || name.contains("utf8")
        })
    });
    *IS_UTF8
}
