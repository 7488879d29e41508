//! Colours, as the bytes that switch them on.

use grep::printer::{ColorSpecs, UserColorSpec, default_color_specs};
use termcolor::{Ansi, ColorSpec, WriteColor as _};

/// Escape sequences for the parts of a line; empty where there is no colour.
#[derive(Debug, Default)]
pub(in crate::grep) struct Style {
    pub(in crate::grep) path: Paint,
    pub(in crate::grep) line: Paint,
    pub(in crate::grep) column: Paint,
    pub(in crate::grep) matched: Paint,
    /// The rest of a matching line; `None` if it looks as other text.
    pub(in crate::grep) highlight: Option<Paint>,
    /// Whether matches are shown by colour at all.
    pub(in crate::grep) marks_matches: bool,
}

/// One colour.
#[derive(Debug, Default)]
pub(in crate::grep) struct Paint {
    on: Vec<u8>,
    off: &'static [u8],
}

const RESET: &[u8] = b"\x1b[0m";

impl Paint {
    fn new(spec: &ColorSpec) -> Paint {
        let mut ansi = Ansi::new(Vec::new());
        ansi.set_color(spec).expect("writing to memory");
        Paint { on: ansi.into_inner(), off: RESET }
    }

    pub(in crate::grep) fn start(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.on);
    }

    pub(in crate::grep) fn end(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.off);
    }

    pub(in crate::grep) fn write(&self, text: &[u8], out: &mut Vec<u8>) {
        self.start(out);
        out.extend_from_slice(text);
        self.end(out);
    }
}

impl Style {
    /// Colours as `--colors` changes them.
    pub(in crate::grep) fn with_colour(user: &[UserColorSpec]) -> Style {
        let mut specs = default_color_specs();
        specs.extend_from_slice(user);
        let specs = ColorSpecs::new(&specs);
        Style {
            path: Paint::new(specs.path()),
            line: Paint::new(specs.line()),
            column: Paint::new(specs.column()),
            matched: Paint::new(specs.matched()),
            highlight: (!specs.highlight().is_none()).then(|| Paint::new(specs.highlight())),
            marks_matches: !specs.matched().is_none(),
        }
    }
}
