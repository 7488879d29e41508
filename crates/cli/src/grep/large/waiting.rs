//! Results that wait for their turn, in bounded memory.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use super::super::print::rendered::{Mark, Quote, Rendered};
use super::super::trouble::elsewhere;
use super::part::Part;
use crate::{human, messages};

/// Parts by where they begin; over the budget, lines at their edges are not kept, and their output waits
/// in a file. Without room there it is found again, once its turn has come.
#[derive(Debug)]
pub(super) struct Waiting {
    parts: BTreeMap<u64, Kept>,
    budget_bytes: u64,
    held_bytes: u64,
    /// Where the file is made.
    folder: PathBuf,
    spill: Option<Spill>,
    /// Whether the file takes no more.
    is_full: bool,
}

#[derive(Debug)]
struct Kept {
    end: u64,
    part: Part,
    /// Of it, in memory.
    held_bytes: u64,
    output: Output,
}

/// Where the output of a part is.
#[derive(Debug)]
enum Output {
    InPart,
    InFile(Spilled),
    Nowhere,
}

/// A part whose turn has come.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) end: u64,
    pub(super) part: Part,
    /// Its output found no room.
    pub(super) lacks_output: bool,
}

#[derive(Debug)]
struct Spilled {
    at: u64,
    bytes: usize,
    marks: usize,
    /// A few words for a MiB of text.
    quotes: Vec<Quote>,
}

/// An unlinked file.
#[derive(Debug)]
struct Spill {
    file: File,
    length: u64,
}

const MARK_BYTES: usize = 16;

impl Waiting {
    pub(super) fn new(budget_bytes: u64, folder: PathBuf) -> Waiting {
        let parts = BTreeMap::new();
        Waiting { parts, budget_bytes, held_bytes: 0, folder, spill: None, is_full: false }
    }

    /// Keeps a part until it is taken.
    pub(super) fn put(&mut self, range: &Range<u64>, mut part: Part) {
        let room = self.budget_bytes.saturating_sub(self.held_bytes);
        if part.held_bytes() > room {
            part.head.let_go();
            part.tail.let_go();
        }
        let is_held = part.rendered.held_bytes() == 0 || part.held_bytes() <= room;
        let output =
            if is_held { Output::InPart } else { self.spill(&std::mem::take(&mut part.rendered)) };
        let held_bytes = part.held_bytes();
        self.held_bytes += held_bytes;
        self.parts.insert(range.start, Kept { end: range.end, part, held_bytes, output });
    }

    /// Takes the part that begins at `start`.
    ///
    /// # Errors
    /// Those of the temporary file.
    pub(super) fn take(&mut self, start: u64) -> io::Result<Option<Taken>> {
        let Some(Kept { end, mut part, held_bytes, output }) = self.parts.remove(&start) else {
            return Ok(None);
        };
        self.held_bytes -= held_bytes;
        if let (Output::InFile(spilled), Some(spill)) = (&output, &self.spill) {
            part.rendered = spill.read(spilled).map_err(|error| self.of_spill(error))?;
        }
        Ok(Some(Taken { end, part, lacks_output: matches!(output, Output::Nowhere) }))
    }

    /// Where matching lines reach `wanted`, counting only parts that are here.
    pub(super) fn end_of_matches(&self, wanted: u64) -> Option<u64> {
        let mut events = 0;
        self.parts.values().find_map(|kept| {
            events += kept.part.tally.events;
            (events >= wanted).then_some(kept.end)
        })
    }

    /// Whether a part may be none of text as it was searched.
    pub(super) fn may_be_encoded(&self) -> bool {
        self.parts.values().any(|kept| kept.part.may_be_encoded)
    }

    fn spill(&mut self, rendered: &Rendered) -> Output {
        if self.is_full {
            return Output::Nowhere;
        }
        let written = match &mut self.spill {
            Some(spill) => spill.write(rendered),
            none => tempfile::tempfile_in(&self.folder)
                .and_then(|file| none.insert(Spill { file, length: 0 }).write(rendered)),
        };
        written.map_or_else(
            |error| {
                self.is_full = true;
                messages::note(format_args!(
                    "{}: no room for results that wait for their turn ({}): they are searched for again",
                    human::name(&self.folder),
                    messages::reason(&error)
                ));
                Output::Nowhere
            },
            Output::InFile,
        )
    }

    /// An error of the temporary file, named by its folder: it has no name of its own.
    fn of_spill(&self, error: io::Error) -> io::Error {
        let folder = self.folder.display();
        elsewhere(format!("{folder}: results that wait for their turn"), error)
    }
}

impl Spill {
    fn write(&mut self, rendered: &Rendered) -> io::Result<Spilled> {
        let mut marks = Vec::with_capacity(rendered.marks.len() * MARK_BYTES);
        for mark in &rendered.marks {
            marks.write_all(&(mark.at as u64).to_ne_bytes())?;
            marks.write_all(&mark.line.to_ne_bytes())?;
        }
        let at = self.length;
        self.file.write_all_at(&rendered.bytes, at)?;
        self.file.write_all_at(&marks, at + rendered.bytes.len() as u64)?;
        self.length += (rendered.bytes.len() + marks.len()) as u64;
        Ok(Spilled {
            at,
            bytes: rendered.bytes.len(),
            marks: rendered.marks.len(),
            quotes: rendered.quotes.clone(),
        })
    }

    fn read(&self, spilled: &Spilled) -> io::Result<Rendered> {
        let mut bytes = vec![0; spilled.bytes];
        self.file.read_exact_at(&mut bytes, spilled.at)?;
        let mut marks = vec![0; spilled.marks * MARK_BYTES];
        self.file.read_exact_at(&mut marks, spilled.at + spilled.bytes as u64)?;
        let number = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
        let marks = marks
            .chunks_exact(MARK_BYTES)
            .map(|mark| Mark {
                at: usize::try_from(number(&mark[..8])).expect("was a usize"),
                line: number(&mark[8..]),
            })
            .collect();
        Ok(Rendered { bytes, marks, quotes: spilled.quotes.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::print::rendered::Form;
    use super::super::edge::Edge;
    use super::*;

    fn part(text: &[u8]) -> Part {
        let rendered = Rendered {
            bytes: text.to_vec(),
            marks: vec![Mark { at: text.len(), line: 7 }],
            quotes: vec![Quote { at: 0, start: 9, length: 1, form: Form::AsItIs }],
        };
        Part { rendered, ..Part::default() }
    }

    #[test]
    fn what_does_not_fit_waits_in_a_file() {
        let mut waiting = Waiting::new(part(b"first").rendered.held_bytes(), std::env::temp_dir());
        waiting.put(&(10..20), part(b"first"));
        waiting.put(&(30..40), part(b"third"));
        waiting.put(&(20..30), part(b"second"));
        assert_eq!(waiting.parts[&30].part.rendered.held_bytes(), 0);
        for (start, text) in [(10, &b"first"[..]), (20, b"second"), (30, b"third")] {
            let Taken { end, part, lacks_output } = waiting.take(start).unwrap().unwrap();
            assert_eq!((end, lacks_output), (start + 10, false));
            assert_eq!(part.rendered.bytes, text);
            assert_eq!(part.rendered.marks[0].at, text.len());
            assert_eq!(part.rendered.marks[0].line, 7);
            assert_eq!(part.rendered.quotes[0].start, 9);
        }
        assert!(waiting.take(40).unwrap().is_none());
        assert_eq!(waiting.held_bytes, 0);
    }

    #[test]
    fn lines_at_edges_are_kept_within_the_budget() {
        let lines = b"a line\n".repeat(1000);
        let mut waiting = Waiting::new(3 * lines.len() as u64, std::env::temp_dir());
        for start in (0..100_000).step_by(10_000) {
            let edge = Edge::of(start, &lines, b'\n');
            let part = Part { head: edge.clone(), tail: edge, ..Part::default() };
            waiting.put(&(start..start + 10_000), part);
            assert!(waiting.held_bytes <= waiting.budget_bytes);
        }
        let Taken { part, .. } = waiting.take(0).unwrap().unwrap();
        assert!(matches!(part.head, Edge::Here { .. }));
        let Taken { part, lacks_output, .. } = waiting.take(90_000).unwrap().unwrap();
        let Edge::There { range, count } = part.tail else { panic!("{:?}", part.tail) };
        assert_eq!((range, count, lacks_output), (90_000..97_000, 1000, false));
    }

    #[test]
    fn what_finds_no_room_is_known_to_lack_its_output() {
        let mut waiting = Waiting::new(0, "/nowhere".into());
        waiting.put(&(10..20), part(b"first"));
        waiting.put(&(20..30), Part::default());
        let first = waiting.take(10).unwrap().unwrap();
        assert!(first.lacks_output && first.part.rendered.bytes.is_empty());
        assert!(!waiting.take(20).unwrap().unwrap().lacks_output);
    }

    #[test]
    fn matches_are_counted_over_gaps() {
        let mut waiting = Waiting::new(1 << 20, std::env::temp_dir());
        for start in [0, 50, 90] {
            let mut part = part(b"");
            part.tally.events = 2;
            waiting.put(&(start..start + 10), part);
        }
        assert_eq!(waiting.end_of_matches(1), Some(10));
        assert_eq!(waiting.end_of_matches(3), Some(60));
        assert_eq!(waiting.end_of_matches(7), None);
    }
}
