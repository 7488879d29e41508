//! Line widths (`-L`) of a piece of text, before its start column is known.
//!
//! Everything up to the first line end of a piece depends on the column at which the piece starts,
//! and a tab makes that dependence a step function. [`Columns`] keeps it as a value, so that
//! pieces can be measured in any order and joined later.

/// Columns between two tab stops.
const TAB: u64 = 8;

/// The text of one line, or a part of it, as a function of the column it starts at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Fragment {
    /// Columns up to the first tab, or all of them.
    before_tab: u64,
    /// Columns from the stop that the first tab reaches to the end; `None` without a tab.
    after_tab: Option<u64>,
}

fn next_stop(column: u64) -> u64 {
    column - column % TAB + TAB
}

impl Fragment {
    /// The column after this fragment when it starts at `column`.
    fn end(self, column: u64) -> u64 {
        match self.after_tab {
            None => column + self.before_tab,
            Some(after) => next_stop(column + self.before_tab) + after,
        }
    }

    fn then(self, next: Fragment) -> Fragment {
        match self.after_tab {
            None => Fragment { before_tab: self.before_tab + next.before_tab, ..next },
            // A tab stop is a multiple of the tab width, so columns counted from it step alike.
            Some(after) => Fragment { after_tab: Some(next.end(after)), ..self },
        }
    }
}

/// What follows the first line end of a piece; its columns are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rest {
    /// The widest line that both starts and ends in the piece.
    widest: u64,
    /// The column at the end of the piece.
    column: u64,
}

/// Line widths of a piece of text that may start and end in the middle of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Columns {
    first: Fragment,
    rest: Option<Rest>,
}

impl Columns {
    /// Adds printable text of that width.
    pub(super) fn advance(&mut self, width: u64) {
        match (&mut self.rest, &mut self.first.after_tab) {
            (Some(rest), _) => rest.column += width,
            (None, Some(after)) => *after += width,
            (None, None) => self.first.before_tab += width,
        }
    }

    /// Adds a tab.
    pub(super) fn tab(&mut self) {
        match (&mut self.rest, &mut self.first.after_tab) {
            (Some(rest), _) => rest.column = next_stop(rest.column),
            (None, Some(after)) => *after = next_stop(*after),
            (None, after @ None) => *after = Some(0),
        }
    }

    /// Goes back to column 0: a newline, carriage return or form feed.
    pub(super) fn end_line(&mut self) {
        let rest = self.rest.get_or_insert(Rest { widest: 0, column: 0 });
        rest.widest = rest.widest.max(rest.column);
        rest.column = 0;
    }

    /// Joins two neighbours.
    pub(super) fn merge(self, right: Columns) -> Columns {
        let Some(left) = self.rest else {
            return Columns { first: self.first.then(right.first), rest: right.rest };
        };
        let column = right.first.end(left.column);
        let rest = match right.rest {
            None => Rest { widest: left.widest, column },
            Some(rest) => {
                Rest { widest: left.widest.max(column).max(rest.widest), column: rest.column }
            }
        };
        Columns { first: self.first, rest: Some(rest) }
    }

    /// The widest line when the piece is the whole text.
    pub(super) fn widest(self) -> u64 {
        let rest = self.rest.map_or(0, |rest| rest.widest.max(rest.column));
        self.first.end(0).max(rest)
    }
}
