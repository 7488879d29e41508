//! A program's tree as a picture: time downwards, programs indented below those that ran them.

use std::fmt::Write as _;

use tree::{Branch, Listed, What};

use super::text::{said, shown};

/// Height of a line, in pixels.
const LINE: usize = 18;
/// Indent of a generation, in pixels.
const STEP: usize = 22;
/// Space around everything, in pixels.
const MARGIN: usize = 12;
/// Width of a character, in pixels, about: the font decides.
const CHARACTER: usize = 7;
/// Lines of a drawing; what is beyond is counted on the last.
const LINES_MAX: usize = 2000;

const STYLE: &str = "text{font:12px monospace;fill:#222}.run{font-weight:bold;fill:#06c}\
.written{fill:#999}line{stroke:#bbb}@media(prefers-color-scheme:dark){svg{background:#161616}\
text{fill:#ddd}.run{fill:#6af}.written{fill:#888}line{stroke:#555}}";

struct Line {
    depth: usize,
    parent: usize,
    class: &'static str,
    text: String,
}

pub(super) fn drawing(root: &Listed, branches: &[Branch]) -> String {
    let mut lines = vec![Line { depth: 0, parent: 0, class: "run", text: shown(&root.name) }];
    collect(branches, 0, 1, &mut lines);
    if lines.len() > LINES_MAX {
        let more = lines.len() - LINES_MAX;
        lines.truncate(LINES_MAX);
        lines.push(Line { depth: 0, parent: 0, class: "", text: format!("and {more} more") });
    }
    let widest = lines.iter().map(|line| line.depth * STEP + line.text.chars().count() * CHARACTER);
    let width = 2 * MARGIN + widest.max().unwrap_or(0);
    let height = 2 * MARGIN + lines.len() * LINE;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" role=\"img\">\n<title>{}</title>\n\
         <style>{STYLE}</style>\n",
        escaped(&lines[0].text)
    );
    for (at, line) in lines.iter().enumerate() {
        let (x, y) = (MARGIN + line.depth * STEP, MARGIN + at * LINE + LINE * 2 / 3);
        if line.depth > 0 {
            let (elbow, middle) = (x + 6 - STEP, y - LINE / 4);
            let top = MARGIN + line.parent * LINE + LINE;
            let _ = writeln!(
                svg,
                "<line x1=\"{elbow}\" y1=\"{top}\" x2=\"{elbow}\" y2=\"{middle}\"/>\
                 <line x1=\"{elbow}\" y1=\"{middle}\" x2=\"{}\" y2=\"{middle}\"/>",
                x - 4
            );
        }
        let (class, text) = (line.class, escaped(&line.text));
        let _ = writeln!(svg, "<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{text}</text>");
    }
    svg.push_str("</svg>\n");
    svg
}

fn collect(branches: &[Branch], parent: usize, depth: usize, lines: &mut Vec<Line>) {
    for branch in branches {
        let class = match branch.what {
            What::Run => "run",
            What::Written => "written",
            What::Read => "read",
        };
        lines.push(Line { depth, parent, class, text: said(branch) });
        collect(&branch.below, lines.len() - 1, depth + 1, lines);
    }
}

/// Text as XML has it, but for two characters that it may not hold.
fn escaped(text: &str) -> String {
    text.replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}")
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
