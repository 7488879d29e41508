//! A bar that shows, from the first byte to the last, what is near.

use std::io::IsTerminal;
use std::os::fd::AsFd;

use nearfirst::Place;

use crate::locale;

/// Cells of a bar where there is no terminal to fill.
const WIDTH: usize = 64;
/// A wider bar is no clearer.
const WIDTH_MAX: usize = 200;

/// How a bar can be drawn here.
#[derive(Debug, Clone, Copy)]
pub(super) struct Style {
    width: usize,
    utf8: bool,
    colour: bool,
}

impl Style {
    /// As wide as the terminal `out` is and in colour, if it is one and
    /// `$NO_COLOR` does not forbid it; in ASCII unless the locale is UTF-8.
    pub(super) fn of(out: &(impl AsFd + IsTerminal)) -> Self {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let is_terminal = out.is_terminal();
        let width = is_terminal
            .then(|| rustix::termios::tcgetwinsize(out).ok())
            .flatten()
            .map(|size| usize::from(size.ws_col))
            .filter(|columns| *columns > 0)
            .map_or(WIDTH, |columns| columns.min(WIDTH_MAX));
        let dumb = set("TERM").is_some_and(|name| name == "dumb");
        Self {
            width,
            utf8: locale::is_utf8(),
            colour: is_terminal && !dumb && set("NO_COLOR").is_none(),
        }
    }

    /// The mark of a cell that is wholly of `place`, coloured if that is wished for.
    pub(super) fn mark(&self, place: Place) -> String {
        let mut text = String::new();
        self.paint(&mut text, self.cell(place, 8), place, 1);
        text
    }

    /// The bar of `size` bytes that consist of `parts`, in order and without gaps.
    pub(super) fn bar(&self, parts: impl Iterator<Item = (Place, u64)>, size: u64) -> String {
        let mut cells: Vec<(char, Place)> = Vec::with_capacity(self.width);
        // In units of a byte / width, so that each cell has `size` of them and nothing is rounded.
        let cell_units = u128::from(size);
        let mut cell = [0_u128; 4];
        let mut free = cell_units;
        for (place, bytes) in parts {
            let mut units = u128::from(bytes) * self.width as u128;
            while units > 0 {
                let taken = units.min(free);
                cell[place as usize] += taken;
                units -= taken;
                free -= taken;
                if free == 0 {
                    cells.push(self.mixed(cell, cell_units));
                    cell = [0; 4];
                    free = cell_units;
                }
            }
        }
        let mut text = String::new();
        for run in cells.chunk_by(|a, b| a == b) {
            let (mark, place) = run[0];
            self.paint(&mut text, mark, place, run.len());
        }
        text
    }

    /// The mark of a cell with so many units of each place: how full of near
    /// bytes it is, or, with none of those, what there is most of.
    fn mixed(&self, cell: [u128; 4], cell_units: u128) -> (char, Place) {
        let near = cell[Place::Near as usize];
        if near == 0 {
            let others = [Place::Far, Place::Unknown, Place::Cold];
            let most = others.into_iter().max_by_key(|place| cell[*place as usize]);
            let most = most.unwrap_or(Place::Far);
            return (self.cell(most, 8), most);
        }
        let eighths = if near == cell_units { 8 } else { (near * 8 / cell_units).clamp(1, 7) };
        let eighths = usize::try_from(eighths).unwrap_or(8);
        (self.cell(Place::Near, eighths), Place::Near)
    }

    fn cell(&self, place: Place, eighths: usize) -> char {
        match (place, self.utf8) {
            (Place::Near, true) => ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'][eighths - 1],
            (Place::Near, false) => {
                if eighths == 8 {
                    '#'
                } else {
                    '+'
                }
            }
            (Place::Far, true) => '·',
            (Place::Far, false) => '.',
            (Place::Unknown, _) => '?',
            (Place::Cold, _) => '~',
        }
    }

    fn paint(&self, text: &mut String, mark: char, place: Place, count: usize) {
        let colour = match place {
            Place::Near => "\x1b[32m",
            Place::Far => "\x1b[33m",
            Place::Unknown => "\x1b[35m",
            Place::Cold => "\x1b[34m",
        };
        if self.colour {
            text.push_str(colour);
        }
        text.extend(std::iter::repeat_n(mark, count));
        if self.colour {
            text.push_str("\x1b[0m");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(width: usize, parts: &[(Place, u64)]) -> String {
        let style = Style { width, utf8: true, colour: false };
        style.bar(parts.iter().copied(), parts.iter().map(|(_, bytes)| bytes).sum())
    }

    #[test]
    fn each_cell_shows_its_part() {
        assert_eq!(bar(4, &[(Place::Near, 2), (Place::Far, 2)]), "██··");
        assert_eq!(bar(4, &[(Place::Far, 1), (Place::Unknown, 1), (Place::Cold, 2)]), "·?~~");
        assert_eq!(bar(2, &[(Place::Near, 3), (Place::Far, 1)]), "█▄");
    }

    #[test]
    fn a_byte_in_a_terabyte_is_seen() {
        assert_eq!(bar(4, &[(Place::Far, 1 << 40), (Place::Near, 1)]), "···▁");
        assert_eq!(bar(4, &[(Place::Near, 1 << 40), (Place::Far, 1)]), "███▇");
    }

    #[test]
    fn a_bar_has_its_width_whatever_the_size() {
        for size in [1, 2, 3, 63, 64, 65, 4095, u64::MAX] {
            assert_eq!(bar(64, &[(Place::Near, size)]).chars().count(), 64, "{size}");
        }
        assert_eq!(bar(64, &[]), "");
    }

    #[test]
    fn what_there_is_most_of_marks_a_cell() {
        let style = Style { width: 1, utf8: false, colour: true };
        let parts = [(Place::Far, 1), (Place::Unknown, 2)];
        assert_eq!(style.bar(parts.into_iter(), 3), "\x1b[35m?\x1b[0m");
    }
}
