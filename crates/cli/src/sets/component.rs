//! What a file is called that has the bytes of an object.

use std::borrow::Cow;

use nearfirst::Name;
use percent_encoding::percent_decode;

pub(crate) fn is_web(name: &Name) -> bool {
    name.scheme().is_some_and(|scheme| {
        scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
    })
}

/// A component of `name` as a file has it: of a URL of the web what it stands for, unless that would
/// be no component.
pub(crate) fn component_of<'a>(name: &Name, component: &'a [u8]) -> Cow<'a, [u8]> {
    if !is_web(name) {
        return component.into();
    }
    let decoded: Cow<'a, [u8]> = percent_decode(component).into();
    let is_none =
        matches!(&*decoded, b"." | b"..") || decoded.iter().any(|byte| b"/\0".contains(byte));
    if is_none { component.into() } else { decoded }
}
